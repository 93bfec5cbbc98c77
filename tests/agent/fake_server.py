"""A small control plane for tests: it speaks messages.py over real HTTP and WebSocket, and can misbehave."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import uvicorn

from nodeagent.messages import (
    DesiredPart,
    DesiredState,
    Inventory,
    LogAnswer,
    LogBatch,
    PartReport,
    ProgressLine,
    Report,
    SecretsAnswer,
    SecretsRequest,
    decode,
    encode,
)
from tests.patience import PATIENCE_SECONDS


class FakeServer:
    """Knows what every node should run, what it said, and the output it sent."""

    def __init__(self) -> None:
        #: It ends when a test moves the clock.
        self.lease_seconds = 1000.0
        self.report_seconds = 0.3
        self.desired: dict[str, DesiredState] = {}
        self.reports: dict[str, list[Report]] = {}
        self.inventories: dict[str, Inventory] = {}
        self.chunks: dict[tuple[str, int, int], list[str]] = {}
        self.sockets: dict[str, Callable[[Any], Any]] = {}
        #: Messages still to be taken in and then answered with an error, as when the answer is lost.
        self.answers_to_lose = 0
        #: While set, no message is taken in.
        self.is_down = False
        #: Reports that came, whether they were taken in or not.
        self.asked = 0
        self.status: int | None = None
        #: Output of these attempts is answered with 500.
        self.chokes_on: set[int] = set()
        #: What attempts are given; others are refused theirs.
        self.secrets: dict[int, SecretsAnswer] = {}
        self.secrets_asked: list[int] = []
        #: The archives of attempts, and how often one was asked for.
        self.codes: dict[int, bytes] = {}
        self.codes_asked: list[int] = []
        #: While set, nothing is known of secrets.
        self.is_without_secrets = False
        #: Reports that are answered with 400.
        self.refuses: Callable[[Report], bool] = lambda report: False
        self.changed = asyncio.Condition()

    async def __aenter__(self) -> FakeServer:
        # asyncio sends at once (TCP_NODELAY) only on sockets that say they are TCP.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        configuration = uvicorn.Config(
            self.application,
            interface="asgi3",
            lifespan="off",
            log_level="error",
            timeout_graceful_shutdown=1,
        )
        self.server = uvicorn.Server(configuration)
        self.task = asyncio.create_task(self.server.serve(sockets=[listener]))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.should_exit = True
        await self.task

    # What a test does

    async def want(self, node: str, *parts: DesiredPart, wake: bool = True) -> None:
        """Change what a node should run."""
        generation = self.desired[node].generation + 1 if node in self.desired else 1
        self.desired[node] = self.answer(generation, parts)
        if wake and node in self.sockets:
            await self.sockets[node]({"type": "websocket.send", "text": '{"type": "wake"}'})

    def answer(self, generation: int, parts: tuple[DesiredPart, ...] = ()) -> DesiredState:
        return DesiredState(
            generation=generation,
            lease_seconds=self.lease_seconds,
            report_seconds=self.report_seconds,
            parts=parts,
        )

    def part(self, node: str, attempt: int) -> PartReport | None:
        """What the node last said of the attempt."""
        for report in self.reports.get(node, [])[-1:]:
            for part in report.parts:
                if part.attempt == attempt:
                    return part
        return None

    def progress(self, node: str, attempt: int) -> list[ProgressLine]:
        parts = [part for report in self.reports[node] for part in report.parts if part.attempt == attempt]
        return [line for part in parts for line in part.progress]

    def text(self, node: str, attempt: int, rank: int = 0) -> str:
        return "".join(self.chunks.get((node, attempt, rank), []))

    async def until(self, condition: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
        """Wait until the condition holds after some message; return its value."""
        async with self.changed:
            async with asyncio.timeout(seconds):
                return await self.changed.wait_for(condition)

    async def until_asked_again(self) -> None:
        """Wait until an agent has reported three times, so that its other loops went round meanwhile."""
        asked = self.asked
        await self.until(lambda: self.asked >= asked + 3)

    async def until_state(self, node: str, attempt: int, state: str) -> PartReport:
        def reached() -> PartReport | None:
            part = self.part(node, attempt)
            return part if part is not None and part.state == state else None

        part: PartReport = await self.until(reached)
        return part

    async def note(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    # What the agent sees

    async def application(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        node = headers.get(b"authorization", b"").decode().removeprefix("Bearer token-of-")
        if scope["type"] == "websocket":
            await self.hold_socket(node, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        status, answer = self.handle(scope["path"], node, body)
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": content})
        await self.note()

    async def hold_socket(self, node: str, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        self.sockets[node] = send
        await self.note()
        while (await receive())["type"] != "websocket.disconnect":
            pass
        self.sockets.pop(node, None)

    def handle(self, path: str, node: str, body: bytes) -> tuple[int, Any]:
        self.asked += path == "/api/agent/v1/sync"
        if self.is_down:
            return 503, {"error": "down"}
        if self.status is not None:
            return self.status, {"error": "refused"}
        if path == "/api/agent/v1/sync":
            report = decode(Report, json.loads(body))
            if self.refuses(report):
                return 400, {"error": "malformed"}
            answer: Any = self.take_report(node, report)
        elif path.startswith("/api/agent/v1/code/"):
            attempt = int(path.rpartition("/")[2])
            self.codes_asked.append(attempt)
            return (200, self.codes[attempt]) if attempt in self.codes else (404, {"error": "not_found"})
        elif path == "/api/agent/v1/secrets":
            attempt = decode(SecretsRequest, json.loads(body)).attempt
            if attempt not in self.secrets_asked:
                self.secrets_asked.append(attempt)
            if self.is_without_secrets:
                return 503, {"error": "down"}
            if attempt not in self.secrets:
                return 400, {"error": "malformed"}
            answer = self.secrets[attempt]
        else:
            batch = decode(LogBatch, json.loads(body))
            if batch.attempt in self.chokes_on:
                return 500, {"error": "a bug"}
            answer = self.take_logs(node, batch)
        if self.answers_to_lose > 0:
            self.answers_to_lose -= 1
            return 502, {"error": "the answer was lost"}
        return 200, encode(answer)

    def take_report(self, node: str, report: Report) -> DesiredState:
        self.reports.setdefault(node, []).append(report)
        if report.inventory is not None:
            self.inventories[node] = report.inventory
        desired = self.desired.setdefault(node, self.answer(0))
        return replace(desired, want_inventory=node not in self.inventories)

    def take_logs(self, node: str, batch: LogBatch) -> LogAnswer:
        stored = self.chunks.setdefault((node, batch.attempt, batch.rank), [])
        for chunk in batch.chunks:
            if chunk.sequence == len(stored):
                stored.append(chunk.text)
        return LogAnswer(next_sequence=len(stored))
