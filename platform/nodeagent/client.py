"""The agent's way to the control plane: three POSTs, a download, and a socket on which it is woken.

httpcore is the transport inside httpx; used by itself it saves each agent 8 MB of memory and 100 ms.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from email.utils import mktime_tz, parsedate_tz
from typing import Any, TypeVar

import httpcore
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from nodeagent.messages import (
    DesiredState,
    LogAnswer,
    LogBatch,
    MessageError,
    Report,
    SecretsAnswer,
    SecretsRequest,
    decode,
    encode,
)

log = logging.getLogger(__name__)

T = TypeVar("T")
TIMEOUT_SECONDS = 5.0
LONGEST_EXPLANATION_CHARACTERS = 300
_NETWORK_ERRORS = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError)
#: The most bytes of one message on a socket.
MESSAGE_BYTES = 64 * 1024


class Unreachable(Exception):
    """No answer came, so it is not known whether the server got the message."""


class Refusal(Exception):
    """The server answered and said no."""

    def __init__(self, status: int, explanation: str) -> None:
        super().__init__(f"{status}: {explanation}")
        self.status = status


class Backoff:
    """How long to wait after each failure in a row: doubling, with chance in it, up to a limit."""

    def __init__(self, first_seconds: float, most_seconds: float, chance: Callable[[], float]) -> None:
        self.first_seconds = first_seconds
        self.most_seconds = most_seconds
        self.chance = chance
        self.failures = 0

    def failed(self) -> float:
        """Return the seconds to wait now. Many agents that lost one server must not return at once."""
        seconds = min(self.most_seconds, self.first_seconds * 2.0 ** min(self.failures, 30))
        self.failures += 1
        return seconds * (0.5 + 0.5 * self.chance())

    def succeeded(self) -> None:
        self.failures = 0


class Client:
    """Speaks for one node."""

    def __init__(self, server_url: str, token: str) -> None:
        self.url = server_url.rstrip("/")
        self.authorization = f"Bearer {token}"
        is_tls = self.url.startswith("https://")
        # The system's certificates: an installation may have an authority of its own.
        context = ssl.create_default_context() if is_tls else None
        # One connection for reports, one for logs, one for code; idle ones are given up before proxies do.
        self.pool = httpcore.AsyncConnectionPool(
            ssl_context=context,
            max_connections=3,
            keepalive_expiry=50.0,
        )
        self.tls = context
        #: By how much this machine's clock is ahead of the server's, to about a second; None: not known.
        self.clock_ahead_seconds: float | None = None

    async def sync(self, report: Report) -> DesiredState:
        """Report what is; return what should be. Raise Unreachable or Refusal."""
        return await self._post("/api/agent/v1/sync", report, DesiredState)

    async def send_logs(self, batch: LogBatch) -> LogAnswer:
        """Hand over numbered output; raise Unreachable or Refusal."""
        return await self._post("/api/agent/v1/logs", batch, LogAnswer)

    async def secrets(self, request: SecretsRequest) -> SecretsAnswer:
        """Return what an attempt is to be given; raise Unreachable or Refusal."""
        return await self._post("/api/agent/v1/secrets", request, SecretsAnswer)

    async def code(self, attempt: int) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the archive with an attempt's code; raise Unreachable or Refusal."""
        url = f"{self.url}/api/agent/v1/code/{attempt}"
        headers = [("Authorization", self.authorization)]
        try:
            async with self.pool.stream("GET", url, headers=headers, extensions=_timeouts()) as response:
                if response.status != 200:
                    raise _refused(response.status, await response.aread())
                async for piece in response.aiter_stream():
                    yield piece
        except _NETWORK_ERRORS as error:
            raise Unreachable(f"{type(error).__name__}: {error}") from error

    async def wakes(self, wake: Callable[[], None], hear: Callable[[Any], None]) -> None:
        """Call `wake` whenever the server has something new, and on connecting. Return when cut off.

        What it says beside that is for `hear`.
        """
        try:
            async with self._socket("/ws/agent") as messages:
                wake()
                async for message in messages:
                    said = _understood(message)
                    if isinstance(said, dict) and said.get("type") == "session":
                        hear(said)
                    else:
                        wake()
        except (OSError, WebSocketException, TimeoutError) as error:
            log.debug("The wake-up socket is closed: %s", error)

    def session(self, session: str) -> connect:
        """Return the socket of a session that the server offered, to be entered."""
        return self._socket(f"/ws/agent/sessions/{session}")

    def _socket(self, path: str) -> connect:
        return connect(
            f"ws{self.url.removeprefix('http')}{path}",
            additional_headers={"Authorization": self.authorization},
            compression=None,
            max_size=MESSAGE_BYTES,
            open_timeout=TIMEOUT_SECONDS,
            close_timeout=1.0,
            proxy=None,
            ssl=self.tls,
        )

    async def close(self) -> None:
        await self.pool.aclose()

    async def _post(self, path: str, message: object, answer: type[T]) -> T:
        headers = [("Authorization", self.authorization), ("Content-Type", "application/json")]
        # Half a surrogate pair, wherever it came from, must not keep a report back: it becomes "?".
        content = json.dumps(encode(message), ensure_ascii=False).encode(errors="replace")
        sent_at = time.time()
        try:
            response = await self.pool.request(
                "POST",
                f"{self.url}{path}",
                headers=headers,
                content=content,
                extensions=_timeouts(),
            )
        except _NETWORK_ERRORS as error:
            raise Unreachable(f"{type(error).__name__}: {error}") from error
        self.clock_ahead_seconds = _clock_ahead(response.headers, sent_at, time.time())
        if response.status != 200:
            raise _refused(response.status, response.content)
        try:
            value: Any = json.loads(response.content)
            return decode(answer, value)
        except (ValueError, MessageError) as error:
            raise Unreachable(f"an answer that is not understood: {error}") from error


def _timeouts() -> dict[str, Any]:
    return {"timeout": dict.fromkeys(("connect", "read", "write", "pool"), TIMEOUT_SECONDS)}


def _refused(status: int, content: bytes) -> Exception:
    text = content.decode(errors="replace")[:LONGEST_EXPLANATION_CHARACTERS]
    return Unreachable(f"{status}: {text}") if status >= 500 else Refusal(status, text)


def _clock_ahead(headers: Iterable[tuple[bytes, bytes]], sent_at: float, received_at: float) -> float | None:
    """Return how far this machine's clock is ahead of the one that dated the answer."""
    for name, value in headers:
        if name.lower() == b"date" and (date := parsedate_tz(value.decode(errors="replace"))) is not None:
            # Dates are cut to whole seconds.
            return (sent_at + received_at) / 2 - (mktime_tz(date) + 0.5)
    return None


def _understood(message: str | bytes) -> Any:
    try:
        return json.loads(message)
    except ValueError:
        return None


async def stay_awake(client: Client, wake: Callable[[], None], hear: Callable[[Any], None]) -> None:
    """Hold the wake-up socket for ever; the agent also asks by itself, so this only saves time."""
    backoff = Backoff(0.5, 10.0, random.random)
    loop = asyncio.get_running_loop()
    while True:
        began = loop.time()
        await client.wakes(wake, hear)
        if loop.time() - began > backoff.most_seconds:
            backoff.succeeded()
        await asyncio.sleep(backoff.failed())
