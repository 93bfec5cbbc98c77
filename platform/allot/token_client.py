"""The part of the client for API tokens: `client.tokens.list()`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

if TYPE_CHECKING:
    from allot.schema import NewToken, Token


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens, said to the server in the client's ways."""

    pages: Callable[..., Iterator[dict[str, Any]]]
    send: Callable[..., Any]

    def list(self, *, user: str | None = None, everybody: bool = False) -> Iterator[Token]:
        """One's own, the newest first; for operators those of a user, or of all."""
        filters = {"user": user, "everybody": "true" if everybody or user else None}
        return cast("Iterator[Token]", self.pages("/tokens", filters, None))

    def create(self, wanted: Mapping[str, Any]) -> NewToken:
        """Make a token: name, scopes, expires_in_days, your_password. The answer alone has its text."""
        return cast("NewToken", self.send("POST", "/tokens", body=dict(wanted)))

    def rotate(self, key: str, wanted: Mapping[str, Any]) -> NewToken:
        """Make one in the place of one's own: overlap_seconds, your_password."""
        return cast("NewToken", self.send("POST", f"/tokens/{quote(key, safe='')}/rotate", body=dict(wanted)))

    def revoke(self, key: str) -> None:
        self.send("DELETE", f"/tokens/{quote(key, safe='')}")
