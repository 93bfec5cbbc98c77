"""Turning a user name and password into a named API token.

The password is used for one session that lives as long as this function; what is kept is a token, which can
be revoked separately. The list of tokens shows for which machine it was made.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from allot.errors import Unreachable
from allot.transport import Transport

if TYPE_CHECKING:
    from allot.schema import Me, NewToken


def token_name() -> str:
    return f"allot on {socket.gethostname()}"[:63]


def create_token(
    url: str,
    *,
    username: str,
    password: str,
    scopes: Sequence[str] | None = None,
    expires_in_days: int | None = None,
    insecure: bool = False,
) -> tuple[Me, NewToken]:
    """Sign in, create a token, sign out. The token is the only thing left on the server.

    Without `scopes` it may do whatever the user may: it stands for the person at this machine.
    """
    with Transport(url, token=None, insecure=insecure) as transport:
        # No retries: each try counts against the limit on wrong passwords.
        me = cast(
            "Me", transport.request("POST", "/session", body={"username": username, "password": password})
        )
        # A session needs the CSRF token, and over https Django also wants to know the page's origin.
        headers = {"X-CSRFToken": me["csrf_token"], "Origin": url, "Referer": url + "/"}
        usual = ["read", "submit", "manage", *(["operate"] if me["is_operator"] else [])]
        body: dict[str, object] = {"name": token_name(), "scopes": list(scopes or usual)}
        if expires_in_days is not None:
            body["expires_in_days"] = expires_in_days
        try:
            created = cast("NewToken", transport.request("POST", "/tokens", body=body, headers=headers))
        finally:
            # The session ends by itself; failing to end it early must not hide the outcome.
            with contextlib.suppress(Unreachable):
                transport.request("DELETE", "/session", headers=headers)
    return me, created


def token_key(token: str) -> str | None:
    """The public part of `alt_<key>_<secret>`, which names the token when it is revoked."""
    parts = token.split("_")
    return parts[1] if len(parts) == 3 and parts[0] == "alt" and parts[1] else None
