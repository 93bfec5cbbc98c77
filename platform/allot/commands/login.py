"""login, logout, password, whoami, version."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from allot import credentials
from allot.commands.options import OutputOption, connect, typed_password
from allot.commands.tokens import ScopeOption
from allot.errors import NotAllowed, NotSignedIn, Refused, Unreachable, WrongUse
from allot.output import Format, print_line, print_objects, say, shown_once


def login(
    url: Annotated[
        str | None,
        typer.Argument(
            help="Address of the server, such as http://localhost:8000. Default: ALLOT_URL, or the last one."
        ),
    ] = None,
    username: Annotated[
        str | None, typer.Option("--username", "-u", help="Your username. Default: you are asked for it.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(help="Store this API token instead of asking for a password.")
    ] = None,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from standard input.")
    ] = False,
    expires_in_days: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Days for which the created token works. Default: as the server is configured.",
            show_default=False,
        ),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure",
            envvar="ALLOT_INSECURE",
            show_envvar=False,
            help="Allow unencrypted http:// to another machine from now on.",
        ),
    ] = False,
    scopes: ScopeOption = None,
) -> None:
    """Sign in to a server and remember it.

    Creates an API token named after this machine and stores it in a file that only you can read. The token
    has all your rights, unless --scope narrows them. The password is not stored.
    """
    from allot.client import Client

    if token is not None:
        of_new = {
            "--username": username,
            "--password-stdin": password_stdin,
            "--expires-in-days": expires_in_days,
            "--scope": scopes,
        }
        if beside := [name for name, given in of_new.items() if given]:
            raise WrongUse(f"--token stores a token that exists already; leave out {', '.join(beside)}.")
    chosen = credentials.normalised_url(url) if url else credentials.find_account().url
    # Before a password is asked for.
    credentials.require_encryption(chosen, insecure=insecure)
    made_here = token is None
    if token is None:
        from allot.signin import create_token

        username = username or _ask("User name")
        typed = typed_password(username, from_stdin=password_stdin)
        try:
            me, created = create_token(
                chosen,
                username=username,
                password=typed,
                scopes=[scope.value for scope in scopes] if scopes else None,
                expires_in_days=expires_in_days,
                insecure=insecure,
            )
        except NotSignedIn as error:
            # Not to be answered with advice to sign in.
            raise NotAllowed(str(error), status=error.status, code=error.code) from None
        token = shown_once(created["token"])
    else:
        with Client(chosen, token=token, insecure=insecure) as client:
            me = client.me()
    path = credentials.config_path()
    kept = credentials.load(path)
    earlier = kept.servers.get(chosen)
    kept.current = chosen
    kept.servers[chosen] = credentials.Server(
        token=token, username=me["user"]["username"], made_here=made_here, insecure=insecure
    )
    credentials.save(path, kept)
    if earlier is not None:
        # Signing in again and again must not pile up tokens.
        _revoke(chosen, earlier)
    say(f"Signed in to {chosen} as {me['user']['username']}. The token is stored in {path}.")
    _warn_of_variable()


def _warn_of_variable() -> None:
    """Say so where the token that was just stored is not the one in use."""
    if os.environ.get("ALLOT_TOKEN"):
        say("allot: warning: the environment variable ALLOT_TOKEN overrides it.")


def _revoke(url: str, server: credentials.Server) -> None:
    """Revoke a token that `allot login` made; one that a person supplied is left to that person."""
    from allot.client import Client
    from allot.signin import token_key

    key = token_key(server["token"])
    if not server["made_here"] or key is None:
        return
    try:
        with Client(url, token=server["token"], insecure=server["insecure"]) as client:
            client.tokens.revoke(key)
    except NotSignedIn:
        # The token is dead already, which is what was wanted.
        pass
    except (Unreachable, Refused) as error:
        say(f"allot: warning: the token was deleted here but not revoked on the server. {error}")


def _ask(what: str) -> str:
    if not sys.stdin.isatty():
        raise WrongUse(f"{what} is missing. Give --username and --password-stdin, or --token.")
    return str(typer.prompt(what, err=True))


def password(
    keep_tokens: Annotated[
        bool, typer.Option("--keep-tokens", help="Keep your API tokens valid. Default: they are revoked.")
    ] = False,
    password_stdin: Annotated[
        bool,
        typer.Option("--password-stdin", help="Read the current and the new password, one line each."),
    ] = False,
) -> None:
    """Change your password. This revokes all your API tokens; a machine that stores one gets a new one."""
    from allot.client import Client
    from allot.signin import create_token

    account = credentials.find_account()
    with Client(account.url, token=account.token, insecure=account.insecure) as client:
        me = client.me()
        username = me["user"]["username"]
        present = typed_password(username, from_stdin=password_stdin, what="Current password")
        new = typed_password(username, from_stdin=password_stdin, what="New password")
        if not password_stdin and new != typed_password(
            username, from_stdin=False, what="Again, the new one"
        ):
            raise WrongUse("The two new passwords differ; nothing was changed.")
        client.change_password(present, new, end_tokens=not keep_tokens)
    if keep_tokens:
        say("Your password is changed. Your tokens stay valid.")
        return
    path = credentials.config_path()
    kept = credentials.load(path)
    if account.url not in kept.servers:
        say("Your password is changed and your tokens are revoked. Sign in again with `allot login URL`.")
        return
    _, created = create_token(account.url, username=username, password=new, insecure=account.insecure)
    kept.servers[account.url] |= {"token": shown_once(created["token"]), "made_here": True}
    credentials.save(path, kept)
    say("Your password is changed and your tokens are revoked; this machine has a new token.")
    _warn_of_variable()


def logout() -> None:
    """Delete the token from this machine, and revoke it if `allot login` created it."""
    path = credentials.config_path()
    kept = credentials.load(path)
    url = credentials.find_account().url
    server = kept.servers.pop(url, None)
    if server is None:
        raise WrongUse(f"Not signed in to {url}; there is no token to delete.")
    _revoke(url, server)
    if kept.current == url:
        kept.current = next(iter(kept.servers), None)
    credentials.save(path, kept)
    say(f"Signed out of {url}." + (f" The current server is {kept.current}." if kept.current else ""))


def whoami(output: OutputOption = Format.table) -> None:
    """Show the server and the user you are signed in as."""
    with connect() as client:
        me = client.me()
        if output is not Format.table:
            shown = {key: value for key, value in me.items() if key != "csrf_token"}
            print_objects({"url": client.url, **shown}, output)
            return
        print_line(f"{me['user']['username']} at {client.url}{' (operator)' if me['is_operator'] else ''}")
        for membership in me["tenants"]:
            print_line(f"  {membership['role']} of {membership['name']}")
        if not me["tenants"]:
            print_line("  member of no tenant")


def version() -> None:
    """Show the version of `allot`."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed_version

    try:
        number = installed_version("allotment")
    except PackageNotFoundError:
        number = "(run from its source folder)"
    print_line(f"allot {number}, Python {sys.version.split()[0]}")


def register(app: typer.Typer) -> None:
    for command in (login, logout, password, whoami, version):
        app.command()(command)
