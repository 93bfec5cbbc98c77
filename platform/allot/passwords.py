"""Passwords, typed at a terminal or piped in; they are never arguments, which other users can see."""

from __future__ import annotations

import sys

from allot.errors import WrongUse


def typed_password(username: str, *, from_stdin: bool, what: str = "Password") -> str:
    """Ask for a password, or read the next line of standard input."""
    if from_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
        if not password:
            raise WrongUse("--password-stdin was given, but standard input is empty.")
        return password
    if not sys.stdin.isatty():
        raise WrongUse("There is no terminal to ask for the password on. Give --password-stdin or --token.")
    import getpass

    return getpass.getpass(f"{what} of {username}: ")
