"""One request, its retries, and the answer turned into a value or an error.

A request is repeated only where that is safe: reads always, and writes because each carries an
`Idempotency-Key` that stays the same over its repetitions, so that the server does the work once
however often the network fails.
"""

from __future__ import annotations

import os
import random
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeVar

import httpx

from allot.credentials import require_encryption
from allot.errors import (
    Busy,
    FieldProblem,
    NotAllowed,
    NotFound,
    NotSignedIn,
    Refused,
    Unreachable,
    WrongServer,
    WrongUse,
)

API = "/api/v1"
CONNECT_TIMEOUT_SECONDS = 5.0
ANSWER_TIMEOUT_SECONDS = 30.0
#: Statuses that a proxy in front, a restart or a rate limit produce.
BUSY = frozenset({429, 502, 503, 504})
FIRST_DELAY_SECONDS = 0.25
LONGEST_DELAY_SECONDS = 5.0
#: How often a caller that has too much under way waits as the server asks, and how long at most.
MOST_TURNED_AWAY = 3
LONGEST_TURN_SECONDS = 30.0

_UPLOADED_BYTES = 64 * 1024

T = TypeVar("T")


class Transport:
    """Speaks JSON with one server. `on_retry(problem)` is called before each repetition.

    Raises WrongUse for plain http to another machine, unless it is `insecure`.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        insecure: bool = False,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        on_retry: Callable[[str], None] = lambda problem: None,
    ) -> None:
        require_encryption(url, insecure=insecure)
        self.url = url
        self.on_retry = on_retry
        self.sleep = sleep
        self._clock = clock
        headers = {"Accept": "application/json", "User-Agent": "allot"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._http = httpx.Client(
            base_url=url + API,
            headers=headers,
            timeout=httpx.Timeout(ANSWER_TIMEOUT_SECONDS, connect=CONNECT_TIMEOUT_SECONDS),
            # Loading the certificates takes longer than all else the command does. Redirects are not
            # followed, so a plain http address never becomes an unverified https one.
            verify=url.startswith("https:"),
        )

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Transport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        parameters: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        retry_for_seconds: float = 0.0,
    ) -> Any:
        """Return the decoded JSON answer (None for an empty one, the text of a CSV file).

        Repeats after lost connections and busy answers until `retry_for_seconds` have passed, and a few
        times in any case when the server says that it is not yet the caller's turn. Raises Unreachable, or
        a Refused saying what the server said.
        """
        deadline = self._clock() + retry_for_seconds
        delay = FIRST_DELAY_SECONDS
        while True:
            try:
                return self._in_turn(
                    lambda: self._once(method, path, body=body, parameters=parameters, headers=headers)
                )
            except WrongServer:
                raise
            except (Unreachable, Busy) as error:
                asked = error.retry_after_seconds if isinstance(error, Busy) else None
                # Jitter, so that a thousand clients do not come back in the same instant.
                pause = asked if asked is not None else delay * random.uniform(0.75, 1.25)
                if self._clock() + pause > deadline:
                    raise
                self.on_retry(str(error))
                self.sleep(pause)
                delay = min(delay * 2, LONGEST_DELAY_SECONDS)

    def _in_turn(self, ask: Callable[[], T]) -> T:
        """Ask, and again as often and as late as a server that limits its callers may expect."""
        for _ in range(MOST_TURNED_AWAY):
            try:
                return ask()
            except Busy as error:
                if not error.is_limit or error.retry_after_seconds is None:
                    raise
                self.on_retry(str(error))
                self.sleep(min(error.retry_after_seconds, LONGEST_TURN_SECONDS) * random.uniform(1.0, 1.25))
        return ask()

    def _once(
        self,
        method: str,
        path: str,
        *,
        body: object,
        parameters: Mapping[str, object] | None,
        headers: Mapping[str, str] | None,
    ) -> Any:
        given = {name: str(value) for name, value in (parameters or {}).items() if value is not None}
        try:
            answer = self._http.request(
                method,
                path,
                json=body,
                # An empty mapping would strip the query that a `next` link carries.
                params=given or None,
                headers=dict(headers or {}),
            )
        except httpx.TransportError as error:
            raise Unreachable(f"Cannot reach {self.url}: {_cause(error)}.", url=self.url) from error
        except ValueError as error:
            # Not even the server could say so.
            problem = "a number is infinite or not a number, or a text has a broken character"
            raise WrongUse(f"This cannot be sent: {problem}.") from error
        except (httpx.InvalidURL, httpx.DecodingError) as error:
            raise Unreachable(f"Cannot talk to {self.url}: {error}.", url=self.url) from error
        if answer.is_success:
            return self._value(answer)
        raise self._error(answer)

    def download(self, path: str, parameters: Mapping[str, object], target: Path) -> Path:
        """Write the answer to a file, or into a folder under the name that the server gives it; return the
        file. It is there when it is whole. Raises Unreachable, Refused, or WrongUse when it cannot be
        written."""
        return self._in_turn(lambda: self._download(path, parameters, target))

    def _download(self, path: str, parameters: Mapping[str, object], target: Path) -> Path:
        given = {name: str(value) for name, value in parameters.items() if value is not None}
        try:
            with self._http.stream("GET", path, params=given or None) as answer:
                if not answer.is_success:
                    answer.read()
                    raise self._error(answer)
                if target.is_dir():
                    target /= _file_name(answer)
                return _write_whole(target, answer.iter_bytes())
        except httpx.TransportError as error:
            raise Unreachable(f"Cannot reach {self.url}: {_cause(error)}.", url=self.url) from error
        except OSError as error:
            raise WrongUse(f"Cannot write {target}: {error.strerror or error}.") from error

    def lines(self, path: str, parameters: Mapping[str, object], headers: Mapping[str, str]) -> Iterator[str]:
        """Yield the lines of an answer that goes on, such as Server-Sent Events, until it ends.

        Raises Unreachable when it breaks or is silent for too long, or a Refused saying what the server said.
        """
        given = {name: str(value) for name, value in parameters.items() if value is not None}
        accept = {"Accept": "text/event-stream", **headers}
        try:
            with self._http.stream("GET", path, params=given or None, headers=accept) as answer:
                if not answer.is_success:
                    answer.read()
                    raise self._error(answer)
                yield from answer.iter_lines()
        except httpx.TransportError as error:
            raise Unreachable(f"Lost {self.url}: {_cause(error)}.", url=self.url) from error

    def upload(self, path: str, file: IO[bytes], kind: str) -> Any:
        """PUT a whole file, piece by piece, and return the answer. Raises Unreachable or Refused."""
        return self._in_turn(lambda: self._upload(path, file, kind))

    def _upload(self, path: str, file: IO[bytes], kind: str) -> Any:
        headers = {"Content-Type": kind, "Content-Length": str(file.seek(0, os.SEEK_END))}
        file.seek(0)
        pieces = iter(lambda: file.read(_UPLOADED_BYTES), b"")
        try:
            answer = self._http.put(path, content=pieces, headers=headers)
        except httpx.TransportError as error:
            raise Unreachable(f"Cannot reach {self.url}: {_cause(error)}.", url=self.url) from error
        if answer.is_success:
            return self._value(answer)
        raise self._error(answer)

    def _value(self, answer: httpx.Response) -> Any:
        if answer.status_code == 204 or not answer.content:
            return None
        if answer.headers.get("Content-Type", "").startswith(("text/csv", "application/jsonl")):
            return answer.text
        try:
            return answer.json()
        except ValueError:
            raise self._not_allotment(answer) from None

    def _error(self, answer: httpx.Response) -> Exception:
        try:
            content = answer.json()
            code, message = str(content["code"]), str(content["detail"])
        except (ValueError, KeyError, TypeError):
            if answer.status_code in BUSY:
                return Busy(
                    f"{self.url} cannot answer now (status {answer.status_code}).",
                    status=answer.status_code,
                    retry_after_seconds=_retry_after_seconds(answer),
                )
            return self._not_allotment(answer)
        # A server that says when to come back means to do what was asked: so it answers, for one, when
        # the first request with this Idempotency-Key is still being carried out.
        if answer.status_code in BUSY or "retry-after" in answer.headers:
            return Busy(
                message,
                status=answer.status_code,
                code=code,
                retry_after_seconds=_retry_after_seconds(answer),
                is_limit="ratelimit-policy" in answer.headers,
            )
        fields = [
            FieldProblem(
                field=str(entry.get("field", "")),
                problem=str(entry.get("problem", "")),
                expected=str(entry.get("expected") or ""),
            )
            for entry in content.get("fields") or []
        ]
        kinds: dict[int, type[Refused]] = {401: NotSignedIn, 403: NotAllowed, 404: NotFound}
        kind = kinds.get(answer.status_code, Refused)
        return kind(message, status=answer.status_code, code=code, fields=fields)

    def _not_allotment(self, answer: httpx.Response) -> WrongServer:
        if answer.is_redirect:
            return WrongServer(
                f"{self.url} redirects to {answer.headers.get('location')}. "
                "Sign in with that address: `allot login URL`.",
                url=self.url,
            )
        kind = answer.headers.get("content-type", "no content type").split(";")[0]
        return WrongServer(
            f"{self.url} answered with status {answer.status_code} and {kind}, which is not what "
            "Allotment answers. Is the address right?",
            url=self.url,
        )


def _write_whole(target: Path, pieces: Iterable[bytes]) -> Path:
    """Write a file that is there when it is whole; what was written before a failure is removed."""
    unfinished = target.with_name(f".allot-{secrets.token_hex(8)}.part")
    try:
        with unfinished.open("xb") as file:
            file.writelines(pieces)
        return unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _file_name(answer: httpx.Response) -> str:
    """The name in Content-Disposition, without any folder."""
    given = re.search(r'filename="([^"/\\]+)"', answer.headers.get("content-disposition", ""))
    return given.group(1) if given else "output"


def _retry_after_seconds(answer: httpx.Response) -> float | None:
    try:
        return max(0.0, float(answer.headers["retry-after"]))
    except (KeyError, ValueError):
        return None


def _cause(error: httpx.TransportError) -> str:
    """Plain words for what httpx and the operating system say."""
    text = str(error)
    if isinstance(error, httpx.ConnectTimeout):
        return f"no answer within {CONNECT_TIMEOUT_SECONDS:g} seconds"
    if isinstance(error, httpx.TimeoutException):
        return f"connected, but no answer within {ANSWER_TIMEOUT_SECONDS:g} seconds"
    if "refused" in text.lower():
        return "connection refused"
    if any(words in text for words in ("Name or service not known", "nodename nor servname", "getaddrinfo")):
        return "there is no host with that name"
    return text.rstrip(".") or type(error).__name__


def with_tenant(body: Mapping[str, Any], tenant: str | None) -> dict[str, Any]:
    """Return a body for the named tenant, or for the caller's only one."""
    return {**body, "tenant": tenant} if tenant is not None else dict(body)


def page_of(answer: Any) -> tuple[Iterable[dict[str, Any]], str | None]:
    """Return the items of one page of a list, and where the next page is."""
    if isinstance(answer, list):
        return answer, None
    return answer["results"], answer.get("next")
