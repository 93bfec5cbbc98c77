"""What can go wrong for a user of the client, each with the exit code of the command line.

The codes are part of the interface (docs/cli.md): 1 error, 2 usage, 3 not found or not allowed,
4 cannot reach the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


class AllotError(Exception):
    """Base of all. The message is one or more whole sentences for a person."""

    exit_code: ClassVar[int] = 1


class WrongUse(AllotError):
    """The command was asked for something that makes no sense, seen before any request was made."""

    exit_code = 2


class NoServer(WrongUse):
    """No server to talk to is named."""


class Unreachable(AllotError):
    """No answer from the server at `url`."""

    exit_code = 4

    def __init__(self, message: str, *, url: str) -> None:
        super().__init__(message)
        self.url = url


class WrongServer(Unreachable):
    """An answer, but not one that Allotment gives. Asking again would not help."""


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One thing wrong with one field of what was sent. `field` is a dotted path such as
    `tasks.0.resources.gpu`."""

    field: str
    problem: str
    expected: str


class Refused(AllotError):
    """The server understood and refused. `code` is the API's code for the reason."""

    def __init__(
        self, message: str, *, status: int, code: str = "error", fields: Sequence[FieldProblem] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.fields = tuple(fields)


class NotSignedIn(Refused):
    """No token, or one that the server no longer accepts."""

    exit_code = 3


class NotAllowed(Refused):
    """Signed in, but this is not for you."""

    exit_code = 3


class NotFound(Refused):
    """There is no such thing, or it belongs to another tenant."""

    exit_code = 3


class Busy(Refused):
    """The server cannot answer now (429, 502, 503, 504); the same request may succeed a little later."""

    exit_code = 4

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str = "unavailable",
        retry_after_seconds: float | None = None,
        is_limit: bool = False,
    ) -> None:
        super().__init__(message, status=status, code=code)
        self.retry_after_seconds = retry_after_seconds
        #: The caller, or the caller's tenant, has more under way than the server allows at once.
        self.is_limit = is_limit
