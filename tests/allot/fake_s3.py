"""A small S3-compatible store for tests: signatures, lists by pages, conditional PUT, failures on request."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

from allot.training.signing import Credentials, signed_headers

CREDENTIALS = Credentials(access_key="key of a test", secret_key="secret of a test", region="eu-test-1")
PAGE = 3


class FakeS3:
    """What the store holds, and what it is to do wrong next."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.objects: dict[str, bytes] = {}
        self.requests: list[str] = []
        #: For so many requests to come: answer 503, or do what is asked and hang up without an answer.
        self.unavailable = 0
        self.lost_answers = 0
        self.endpoint = ""

    def environment(self, prefix: str = "models/7") -> dict[str, str]:
        return {
            "ALLOT_CHECKPOINT_STORE": f"s3://bucket/{prefix}",
            "ALLOT_CHECKPOINT_ENDPOINT": self.endpoint,
            "AWS_ACCESS_KEY_ID": CREDENTIALS.access_key,
            "AWS_SECRET_ACCESS_KEY": CREDENTIALS.secret_key,
            "AWS_REGION": CREDENTIALS.region,
        }


@contextmanager
def fake_s3() -> Iterator[FakeS3]:
    store = FakeS3()

    class Handler(_Handler):
        fake = store

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    store.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    fake: FakeS3

    def do_GET(self) -> None:
        self._serve()

    do_PUT = do_DELETE = do_GET

    def log_message(self, *arguments: Any) -> None:
        return

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        address = urlsplit(self.path)
        path, query = unquote(address.path), dict(parse_qsl(address.query))
        with self.fake.lock:
            self.fake.requests.append(f"{self.command} {path}")
            if self.fake.unavailable:
                self.fake.unavailable -= 1
                return self._answer(503, "SlowDown")
            if problem := self._signature_problem(path, query, body):
                return self._answer(403, problem)
            status, content = self._act(path.removeprefix("/bucket").lstrip("/"), query, body)
            if self.fake.lost_answers:
                self.fake.lost_answers -= 1
                self.close_connection = True
                return None
        return self._answer(status, content)

    def _signature_problem(self, path: str, query: dict[str, str], body: bytes) -> str:
        found = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=(.+),SignedHeaders=(.+),Signature=([0-9a-f]{64})",
            self.headers["authorization"],
        )
        assert found, self.headers["authorization"]
        names = found[2].split(";")
        assert {"host", "x-amz-content-sha256", "x-amz-date"} <= set(names)
        at = datetime.strptime(self.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        assert abs((datetime.now(UTC) - at).total_seconds()) < 900
        digest = hashlib.sha256(body).hexdigest()
        if digest != self.headers["x-amz-content-sha256"]:
            return "XAmzContentSHA256Mismatch"
        own = {"x-amz-content-sha256", "x-amz-date"}
        expected = signed_headers(
            CREDENTIALS,
            method=self.command,
            path=path,
            query=query,
            headers={name: self.headers[name] for name in names if name not in own},
            content_sha256=digest,
            at=at,
        )
        return "" if expected["authorization"] == self.headers["authorization"] else "SignatureDoesNotMatch"

    def _act(self, name: str, query: dict[str, str], body: bytes) -> tuple[int, str | bytes]:
        objects = self.fake.objects
        if self.command == "PUT":
            if self.headers.get("if-none-match") == "*" and name in objects:
                return 412, "PreconditionFailed"
            objects[name] = body
            return 200, b""
        if self.command == "DELETE":
            objects.pop(name, None)
            return 204, b""
        if not name:
            return 200, self._list(query)
        return (200, objects[name]) if name in objects else (404, "NoSuchKey")

    def _list(self, query: dict[str, str]) -> bytes:
        names = sorted(name for name in self.fake.objects if name.startswith(query["prefix"]))
        names = [name for name in names if name > query.get("continuation-token", "")]
        page = "".join(f"<Contents><Key>{escape(name)}</Key></Contents>" for name in names[:PAGE])
        more = (
            f"<NextContinuationToken>{names[PAGE - 1]}</NextContinuationToken>" if len(names) > PAGE else ""
        )
        return (
            '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"{page}{more}</ListBucketResult>"
        ).encode()

    def _answer(self, status: int, content: str | bytes) -> None:
        """Answer with content, or with an error by its code."""
        if isinstance(content, str):
            content = f"<Error><Code>{content}</Code></Error>".encode()
        self.send_response(status)
        if status != 204:
            self.send_header("content-length", str(len(content)))
        self.end_headers()
        if status != 204:
            self.wfile.write(content)
