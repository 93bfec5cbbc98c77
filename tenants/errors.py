"""Errors that a person caused and can correct. One handler turns them into the API's error format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class FieldError:
    """One wrong field: where, what is wrong with it, and what would be right."""

    field: str
    problem: str
    expected: str = ""


class ApplicationError(Exception):
    """The request cannot be carried out."""

    code = "invalid"
    status = 400

    def __init__(self, message: str = "", fields: Sequence[FieldError] = ()) -> None:
        self.message = message or (self.__doc__ or "").splitlines()[0]
        self.fields = tuple(fields)
        super().__init__(self.message)

    @classmethod
    def of(cls, *fields: FieldError) -> Self:
        """Return the error that says what is wrong with these fields, of which the first is its message."""
        return cls(f"{fields[0].field}: {fields[0].problem}.", fields)


class Invalid(ApplicationError):
    """The request has wrong fields."""


class NotSignedIn(ApplicationError):
    """Sign in, or send a valid token."""

    code, status = "not_signed_in", 401


class NotAllowed(ApplicationError):
    """Your role does not allow this."""

    code, status = "not_allowed", 403


class NotFound(ApplicationError):
    """Not found, or you may not see it."""

    code, status = "not_found", 404


class Conflict(ApplicationError):
    """The object is in a state that does not allow this."""

    code, status = "conflict", 409


class Outdated(ApplicationError):
    """It has changed since you read it. Read it again, and change the new version."""

    code, status = "outdated", 412


class QuotaExceeded(ApplicationError):
    """This is more than a quota or a guarantee allows."""

    code, status = "quota_exceeded", 409


class TooLarge(ApplicationError):
    """The body is too large."""

    code, status = "too_large", 413


class NoSpace(ApplicationError):
    """The server has no disk space for this."""

    code, status = "no_space", 507


class TooManyRequests(ApplicationError):
    """Too many requests; wait a little."""

    code, status = "too_many_requests", 429

    def __init__(self, message: str = "", *, retry_after_seconds: int) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
