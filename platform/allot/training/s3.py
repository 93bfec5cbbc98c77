"""Checkpoints in an S3-compatible store, over the standard library's HTTP.

Needed of the store: signature version 4, path-style addresses, listing that shows at once what was written,
and `If-None-Match: *` on PUT, which makes one of several writers win (Amazon S3 since August 2024, MinIO,
Ceph's gateway and others). A file may have up to 5 GB, the most that one PUT takes.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import random
import ssl
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from allot.training.errors import StoreError, TrainingError
from allot.training.files import READ_BYTES, aside
from allot.training.naming import MANIFEST
from allot.training.signing import EMPTY_SHA256, Credentials, quoted_path, quoted_query, signed_headers

TRIES = 6
FIRST_WAIT_SECONDS = 0.2
TIMEOUT_SECONDS = 60.0
PUT_MOST_BYTES = 5 * 10**9
OK, NO_CONTENT, NOT_FOUND, CONFLICT, PRECONDITION_FAILED, TOO_MANY = 200, 204, 404, 409, 412, 429


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, and the body where it was not written to a file."""

    status: int
    body: bytes


class S3Store:
    """One prefix of one bucket."""

    def __init__(
        self,
        endpoint: str,
        bucket: str,
        prefix: str,
        credentials: Credentials,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        address = urlsplit(endpoint)
        self._host = address.netloc
        self._is_secure = address.scheme == "https"
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._credentials = credentials
        self._sleep = sleep

    @classmethod
    def from_environment(cls, url: str, environment: Mapping[str, str]) -> S3Store:
        """`url` is s3://BUCKET/PREFIX. Raises TrainingError with what is missing or wrong."""
        address = urlsplit(url)
        if address.scheme != "s3" or not address.netloc:
            raise TrainingError(f"ALLOT_CHECKPOINT_STORE must be s3://BUCKET/PREFIX, not {url!r}")
        endpoint = environment.get("ALLOT_CHECKPOINT_ENDPOINT", "")
        if urlsplit(endpoint).scheme not in ("http", "https") or not urlsplit(endpoint).netloc:
            raise TrainingError(
                f"ALLOT_CHECKPOINT_ENDPOINT must be the store's address, https://HOST, not {endpoint!r}"
            )
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            if not environment.get(name):
                raise TrainingError(f"ALLOT_CHECKPOINT_STORE is {url}, so {name} must be set too")
        credentials = Credentials(
            access_key=environment["AWS_ACCESS_KEY_ID"],
            secret_key=environment["AWS_SECRET_ACCESS_KEY"],
            region=environment.get("AWS_REGION") or "us-east-1",
            session_token=environment.get("AWS_SESSION_TOKEN", ""),
        )
        return cls(endpoint, address.netloc, address.path, credentials)

    def names(self, prefix: str) -> list[str]:
        found: list[str] = []
        query = {"list-type": "2", "prefix": f"{self._prefix}{prefix}"}
        while True:
            root = _xml(self._expect("GET", "", query=query, also=()).body)
            keys = [element.text or "" for element in root.iterfind("{*}Contents/{*}Key")]
            found += [key.removeprefix(self._prefix) for key in keys]
            token = root.findtext("{*}NextContinuationToken")
            if not token:
                return sorted(found)
            query["continuation-token"] = token

    def create(self, name: str, content: bytes) -> bool:
        while True:
            answer = self._expect(
                "PUT", name, content=content, only_new=True, also=(CONFLICT, PRECONDITION_FAILED)
            )
            if answer.status == OK:
                return True
            kept = self.read(name)
            if kept is not None:
                # It may be ours: the answer to an earlier try got lost. No other process writes the same.
                return kept == content

    def read(self, name: str) -> bytes | None:
        answer = self._expect("GET", name)
        return None if answer.status == NOT_FOUND else answer.body

    def upload(self, source: Path, name: str, sha256: str) -> None:
        size = source.stat().st_size
        if size > PUT_MOST_BYTES:
            raise StoreError(
                f"{source.name} has {size} bytes, and one file in an S3 store at most {PUT_MOST_BYTES}: "
                "write several smaller files"
            )
        self._expect("PUT", name, source=source, content_sha256=sha256, also=())

    def download(self, name: str, target: Path) -> bool:
        target.parent.mkdir(parents=True, exist_ok=True)
        written = aside(target)
        try:
            if self._expect("GET", name, target=written).status == NOT_FOUND:
                return False
            written.replace(target)
            return True
        finally:
            written.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        names = self.names(name) if name.endswith("/") else [name]
        for each in sorted(names, key=lambda each: not each.endswith(f"/{MANIFEST}")):
            self._expect("DELETE", each)

    def _expect(
        self,
        method: str,
        name: str,
        *,
        query: Mapping[str, str] | None = None,
        content: bytes = b"",
        source: Path | None = None,
        content_sha256: str = "",
        target: Path | None = None,
        only_new: bool = False,
        also: tuple[int, ...] = (NOT_FOUND,),
    ) -> Answer:
        """Ask until there is an answer that means something: 200, 204 or one of `also`. Raises StoreError."""
        path = f"/{self._bucket}" + (f"/{self._prefix}{name}" if name else "")
        problem = ""
        for attempt in range(TRIES):
            if attempt:
                self._sleep(FIRST_WAIT_SECONDS * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))
            try:
                answer = self._ask(
                    method, path, query or {}, content, source, content_sha256, target, only_new
                )
            except (OSError, http.client.HTTPException) as error:
                problem = f"{type(error).__name__}: {error}"
                continue
            if answer.status in (OK, NO_CONTENT, *also):
                return answer
            problem = f"status {answer.status} {_code(answer.body)}".strip()
            if answer.status < 500 and answer.status not in (TOO_MANY, 408):
                break  # It will not be otherwise the next time.
        raise StoreError(f"the checkpoint store: {method} {path}: {problem}")

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        content: bytes,
        source: Path | None,
        content_sha256: str,
        target: Path | None,
        only_new: bool,
    ) -> Answer:
        headers = signed_headers(
            self._credentials,
            method=method,
            path=path,
            query=query,
            headers={"host": self._host, **({"if-none-match": "*"} if only_new else {})},
            content_sha256=content_sha256
            or (hashlib.sha256(content).hexdigest() if content else EMPTY_SHA256),
            at=datetime.now(UTC),
        )
        address = quoted_path(path) + (f"?{quoted_query(query)}" if query else "")
        with closing(self._connection()) as connection:
            if source is None:
                connection.request(method, address, content if method == "PUT" else None, headers)
            else:
                with source.open("rb") as file:
                    size = os.fstat(file.fileno()).st_size
                    connection.request(method, address, file, {**headers, "content-length": str(size)})
            response = connection.getresponse()
            if target is not None and response.status == OK:
                with target.open("wb") as written:
                    _copy(response, written)
                return Answer(response.status, b"")
            return Answer(response.status, response.read())

    def _connection(self) -> http.client.HTTPConnection:
        if not self._is_secure:
            return http.client.HTTPConnection(self._host, timeout=TIMEOUT_SECONDS)
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(self._host, timeout=TIMEOUT_SECONDS, context=context)


def _copy(response: http.client.HTTPResponse, written: BinaryIO) -> None:
    expected = response.getheader("content-length")
    taken = 0
    while piece := response.read(READ_BYTES):
        written.write(piece)
        taken += len(piece)
    if expected is not None and taken != int(expected):
        raise http.client.IncompleteRead(b"", int(expected) - taken)
    written.flush()
    os.fsync(written.fileno())


def _xml(body: bytes) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise StoreError(
            f"the checkpoint store answered with something other than a list: {error}"
        ) from error


def _code(body: bytes) -> str:
    """Return the store's own code for the error, if it gave one."""
    try:
        return ElementTree.fromstring(body).findtext("{*}Code") or ""
    except ElementTree.ParseError:
        return ""
