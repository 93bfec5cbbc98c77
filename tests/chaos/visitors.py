"""People who always have something open in a job, until a right of theirs is taken and given back."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from nodeagent.frames import OPENED
from tests.chaos.accounting import ENDS_SECONDS, Taken
from tests.chaos.load import RETRY, Submitted, client, environment
from tests.chaos.world import World

log = logging.getLogger(__name__)

TENANT, VIRTUAL_CLUSTER = "crowd", "crowd"
PASSWORD = "kettle-lantern-orchard-41"
SCOPES = ("read", "submit", "manage")
VISITORS = ("ada", "bob", "cleo")
#: Of the job that they visit: some 2 MB, much more than the buffers of a connection with small packets.
LOG_LINES = 20_000
LOOK_SECONDS = 0.1
#: Longer than is promised, so that it is known how much longer.
PATIENCE_SECONDS = 20.0
OPEN_SECONDS = 10.0
#: Of a download that is read slowly.
LAST_CHUNK = b"0\r\n\r\n"
SMALL_BUFFER_BYTES, SMALL_PACKET_BYTES, SLOW_PIECE_BYTES = 4096, 536, 4096
#: What may be on its way at most.
BUFFERED_BYTES = 500_000
BROKEN = (httpx.HTTPError, WebSocketException, OSError, ValueError, KeyError)


class Crowd:
    """A tenant with a job that stays, its visitors, and somebody who is loud (`flood`)."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.is_over = threading.Event()
        self.visitors: list[Visitor] = []

    def prepare(self) -> dict[int, Submitted]:
        """Make the tenant, submit the job that stays, send the visitors; return the job."""
        call = self.world.platform.call
        call("POST", "tenants", {"name": TENANT})
        body = {"name": VIRTUAL_CLUSTER, "guaranteed": {"V100": 1}}
        call("POST", "virtual-clusters", {**body, "members": [{"tenant": TENANT, "weight": 1}]})
        task = {
            "name": "main",
            "resources": {"gpu": 1, "gpu_model": "V100"},
            "command": ["python", str(self.world.program), "stay", str(LOG_LINES)],
            "env": environment(self.world),
        }
        specification = {"name": "stays", "tenant": TENANT, "virtual_cluster": VIRTUAL_CLUSTER}
        job = call("POST", "jobs", {**specification, "tasks": [task], "retry": RETRY})["id"]
        self.over = self.world.checkpoints / str(job) / "over"
        for name in VISITORS:
            add_user(self.world, name, TENANT, "admin")
            self.visitors.append(Visitor(self.world, name, job, self.is_over))
        return {job: Submitted("visited", 0, None)}

    def start(self) -> None:
        for visitor in self.visitors:
            visitor.thread.start()

    def is_settled(self) -> bool:
        """Whether all was taken that was to be, and given back."""
        return all(visitor.has_rights() for visitor in self.visitors)

    def stop(self) -> None:
        """Let the visitors go, and the job end."""
        self.is_over.set()
        for visitor in self.visitors:
            visitor.thread.join()
        self.over.touch()

    def taken(self) -> list[Taken]:
        return [taken for visitor in self.visitors for taken in visitor.taken]


class Visitor:
    """Has a live stream, a session in the job and a slow download of its log open, again and again.

    Who sets `wanted` to a kind of fault has a right taken, as soon as it is to be had that these see it.
    """

    def __init__(self, world: World, name: str, job: int, is_over: threading.Event) -> None:
        self.world = world
        self.name = name
        self.job = job
        self.is_over = is_over
        self.wanted: str | None = None
        #: Whether everything is open.
        self.is_there = False
        self.taken: list[Taken] = []
        self.key = self.token = ""
        #: Why something could not be opened, or taken, the last time.
        self.trouble = ""
        self.operator = client(world)
        self.thread = threading.Thread(target=self._visit, name=name, daemon=True)

    def has_rights(self) -> bool:
        """Whether nothing is to be taken, and what was is given back; the job may still wait for a GPU."""
        return self.wanted is None and bool(self.token)

    def _visit(self) -> None:
        while not self.is_over.wait(LOOK_SECONDS):
            try:
                self._visit_once()
            except BROKEN as error:
                if self.trouble != repr(error):
                    self.trouble = repr(error)
                    log.info("      %s has nothing open: %s", self.name, self.trouble)
            finally:
                self.is_there = False

    def _visit_once(self) -> None:
        if not self.token:
            self._give()
        with contextlib.closing(Opened(self.world, self.token, self.job)) as opened:
            opened.open()
            self.is_there = True
            self._stay(opened)

    def _stay(self, opened: Opened) -> None:
        while opened.is_whole() and not self.is_over.wait(LOOK_SECONDS):
            if self.wanted is not None:
                self.taken.append(self._taken(self.wanted, opened))
                self.wanted = None
                return

    def _taken(self, kind: str, opened: Opened) -> Taken:
        open_then = {name for name in opened.threads if name not in opened.ended_at}
        read_bytes = opened.read_bytes
        token, self.token = self.token, ""  # Whatever comes of the request, he needs another one.
        self._take(kind)
        at = time.monotonic()
        opened.wait(PATIENCE_SECONDS)
        if opened.is_complete and opened.read_bytes - read_bytes < BUFFERED_BYTES:
            open_then -= {"download"}  # All of it had been sent by then.
        return Taken(
            kind=kind,
            who=self.name,
            seconds={name: opened.seconds_until_end(name, at) for name in sorted(open_then)},
            stopped_seconds=self.world.web_stopped_seconds(at, time.monotonic()),
            is_let_in=self._is_let_in(token),
        )

    def _take(self, kind: str) -> None:
        match kind:
            case "revoke token":
                answer = self.operator.delete(f"tokens/{self.key}")
            case "remove member":
                answer = self.operator.delete(f"tenants/{TENANT}/members/{self.name}")
            case "disable user":
                answer = self.operator.post(f"users/{self.name}/deactivate", json={"jobs": "hold"})
            case _:
                raise AssertionError(f"what is {kind}?")
        answer.raise_for_status()

    def _is_let_in(self, token: str) -> bool:
        with contextlib.suppress(httpx.HTTPError), client(self.world, token) as api:
            return api.get(f"jobs/{self.job}").is_success
        return False

    def _give(self) -> None:
        """Give back whatever was taken: account, membership, and a new token."""
        self.operator.patch(f"users/{self.name}", json={"is_active": True}).raise_for_status()
        member = f"tenants/{TENANT}/members/{self.name}"
        self.operator.put(member, json={"role": "admin"}).raise_for_status()
        self.key, self.token = sign_in(self.world, self.name)


class Opened:
    """What one visitor has open: `ended_at` says of each what ended, and when by the monotonic clock."""

    def __init__(self, world: World, token: str, job: int) -> None:
        self.world = world
        self.address = (world.platform.host, world.platform.port)
        self.token = token
        self.job = job
        self.stack = contextlib.ExitStack()
        self.threads: dict[str, threading.Thread] = {}
        self.ended_at: dict[str, float] = {}
        #: Whether the download is to be read as fast as it comes.
        self.hurry = threading.Event()
        self.is_complete = False
        self.read_bytes = 0

    def open(self) -> None:
        # As a page does first: whoever is not known yet shares his turns with all of his address.
        with client(self.world, self.token) as api:
            api.get(f"jobs/{self.job}").raise_for_status()
        live = self._socket("/ws/live")
        live.send(json.dumps({"type": "watch_log", "job": self.job}))
        session = self._socket(f"/ws/jobs/{self.job}/session")
        session.send(json.dumps({"command": ["sleep", "600"]}))
        said = session.recv(OPEN_SECONDS)
        if said != OPENED:
            raise ValueError(f"no session was opened: {said!r}")
        download = self._download()
        self._follow("live stream", messages(live))
        self._follow("session", messages(session))
        self._follow("download", self._slow_pieces(download))

    def is_whole(self) -> bool:
        """Whether nothing was broken off. A download may be at its end."""
        return not self.ended_at.keys() - {"download"}

    def wait(self, seconds: float) -> None:
        """Wait until all has ended. What lies in buffers by then is read at once: it does not count."""
        end = time.monotonic() + seconds
        while len(self.ended_at) < len(self.threads) and time.monotonic() < end:
            if time.monotonic() > end - seconds + ENDS_SECONDS:
                self.hurry.set()
            time.sleep(LOOK_SECONDS)
        self.hurry.set()  # Also where the last of it came between two looks.

    def seconds_until_end(self, name: str, since: float) -> float | None:
        """Return how long something went on; None where it came to its own end, or to none."""
        if name not in self.ended_at or (name == "download" and self.is_complete):
            return None
        seconds = max(0.0, self.ended_at[name] - since)
        # What was read in a hurry had been on its way when the time was over, or else all of it had come.
        return min(seconds, ENDS_SECONDS) if name == "download" and self.hurry.is_set() else seconds

    def close(self) -> None:
        self.stack.close()
        for thread in self.threads.values():
            thread.join()

    def _socket(self, path: str) -> ClientConnection:
        host, port = self.address
        headers = {"Authorization": f"Bearer {self.token}"}
        address = f"ws://{host}:{port}{path}"
        timeouts: dict[str, Any] = {"open_timeout": OPEN_SECONDS, "close_timeout": 1, "ping_interval": None}
        return self.stack.enter_context(
            connect(address, additional_headers=headers, proxy=None, max_size=None, **timeouts)
        )

    def _download(self) -> socket.socket:
        connection = socket.socket()
        self.stack.callback(connection.close)
        # What was closed is read no more, by a thread that waits for it neither.
        self.stack.callback(lambda: connection.shutdown(socket.SHUT_RDWR))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER_BYTES)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SMALL_PACKET_BYTES)
        connection.settimeout(OPEN_SECONDS)
        connection.connect(self.address)
        lines = (
            f"GET /api/v1/jobs/{self.job}/logs/download HTTP/1.1",
            f"Host: {self.address[0]}",
            f"Authorization: Bearer {self.token}",
        )
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        said = connection.recv(SLOW_PIECE_BYTES)
        if b" 200 " not in said:
            raise ValueError(f"the log cannot be downloaded: {said[:300]!r}")
        connection.settimeout(None)
        return connection

    def _slow_pieces(self, connection: socket.socket) -> Iterator[bytes]:
        end = b""
        # The connection stays open for another request.
        while end != LAST_CHUNK and (piece := connection.recv(SLOW_PIECE_BYTES)):
            end = (end + piece)[-len(LAST_CHUNK) :]
            self.read_bytes += len(piece)
            self.is_complete = end == LAST_CHUNK
            yield piece
            self.hurry.wait(LOOK_SECONDS)

    def _follow(self, name: str, pieces: Iterator[Any]) -> None:
        def read() -> None:
            with contextlib.suppress(*BROKEN):
                for _ in pieces:
                    pass
            self.ended_at[name] = time.monotonic()

        self.threads[name] = threading.Thread(target=read, name=name, daemon=True)
        self.threads[name].start()


def messages(connection: ClientConnection) -> Iterator[Any]:
    yield from connection


def add_user(world: World, name: str, tenant: str, role: str) -> None:
    world.platform.call("POST", "users", {"username": name, "password": PASSWORD})
    world.platform.call("PUT", f"tenants/{tenant}/members/{name}", {"role": role})


def sign_in(world: World, name: str) -> tuple[str, str]:
    """Return a new token of the user's: its key, and what it is shown by."""
    with httpx.Client(base_url=f"{world.platform.url}/api/v1/", timeout=OPEN_SECONDS) as api:
        answer = api.post("session", json={"username": name, "password": PASSWORD}).raise_for_status()
        headers = {"X-CSRFToken": answer.json()["csrf_token"]}
        wanted = {"name": f"chaos {time.time_ns()}", "scopes": SCOPES}
        made = api.post("tokens", json=wanted, headers=headers).raise_for_status().json()
        return made["key"], made["token"]
