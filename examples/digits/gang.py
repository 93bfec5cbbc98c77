"""The ranks of one job as a gang: meet at rank 0, then add up gradients every step.

Nothing is needed but the rendezvous environment (MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE) that
torchrun, Kubernetes operators and Allotment all provide. Rank 0 is the hub of a star.
"""

import errno
import json
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import frames
import numpy as np
from errors import BadSettings, JobError, PeerLost
from stop import StopRequest

# Every batch is cut into this many shards, whatever the number of ranks, and the shards' gradients are
# added in shard order. Floating-point sums depend on their order, so this is what makes a gang of any
# size end with the same weights, to the last bit, as a single process. A job whose specification fixes its
# world has a shard for each of its ranks.
SHARDS = 8

HELLO_LIMIT_BYTES = 4096
# A connection that says nothing must not keep the others waiting at the door.
HELLO_SECONDS = 5.0
SHARED_LIMIT_BYTES = 64 * 1024 * 1024
RETRY_SECONDS = 0.1
WELCOME = b"welcome"
NUMBER = struct.Struct("!Q")


@dataclass(frozen=True)
class Rendezvous:
    """Who this replica is, and where the gang meets."""

    address: str
    port: int
    rank: int
    world_size: int
    job: str
    attempt: str
    shard_count: int = SHARDS
    # Ranks of a fixed world that this process plays.
    ranks_each: int = 1

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Rendezvous":
        """A process without any of the variables is a gang of one."""
        world_size = _integer(environment, "WORLD_SIZE", 1, least=1, most=SHARDS)
        if world_size > 1:
            for name in ("MASTER_ADDR", "MASTER_PORT", "RANK"):
                if not environment.get(name):
                    raise BadSettings(f"WORLD_SIZE is {world_size}, so {name} must be set too")
        shard_count = _integer(environment, "ALLOT_LOGICAL_WORLD_SIZE", SHARDS, least=world_size, most=SHARDS)
        return cls(
            address=environment.get("MASTER_ADDR", "127.0.0.1"),
            port=_integer(environment, "MASTER_PORT", 29500, least=1, most=65535),
            rank=_integer(environment, "RANK", 0, least=0, most=world_size - 1),
            world_size=world_size,
            job=environment.get("ALLOT_JOB", ""),
            attempt=environment.get("ALLOT_ATTEMPT", ""),
            shard_count=shard_count,
            ranks_each=shard_count // world_size if environment.get("ALLOT_LOGICAL_WORLD_SIZE") else 1,
        )

    def shards(self, rank: int) -> list[int]:
        """The consecutive shards of every batch that a rank computes."""
        return np.array_split(np.arange(self.shard_count), self.world_size)[rank].tolist()


def _integer(environment: Mapping[str, str], name: str, default: int, *, least: int, most: int) -> int:
    text = environment.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise BadSettings(f"{name} must be a whole number from {least} to {most}, not {text!r}")
    return int(text)


class Gang(Protocol):
    def share(self, payload: bytes | None = None) -> bytes:
        """Rank 0 passes a payload and every rank gets it; the other ranks pass nothing."""

    def add_up(self, rows: np.ndarray) -> np.ndarray:
        """Every rank passes one row per shard of its own; all get the sum, added in shard order."""

    def largest(self, number: int) -> int:
        """Every rank passes a number from 0 on; all get the largest."""

    def close(self) -> None:
        """Hang up. The others notice at once."""


def join(
    place: Rendezvous,
    *,
    settings: Mapping[str, object],
    stop: StopRequest,
    rendezvous_seconds: float,
    peer_timeout_seconds: float,
) -> Gang:
    """Meet the other ranks. `settings` must be equal everywhere, or the gang would train nonsense."""
    hello = {
        "job": place.job,
        "attempt": place.attempt,
        "world_size": place.world_size,
        "shards": place.shard_count,
        **settings,
    }
    deadline = time.monotonic() + rendezvous_seconds
    if place.rank == 0:
        hub = Hub(place, _gather(place, hello, stop, deadline), peer_timeout_seconds)
        hub.share(WELCOME)
        return hub
    return Spoke(_reach_hub(place, hello, stop, deadline), peer_timeout_seconds)


class Hub:
    """Rank 0. Without peers it is a gang of one and does the same arithmetic."""

    def __init__(self, place: Rendezvous, peers: Mapping[int, socket.socket], timeout_seconds: float) -> None:
        self._place = place
        self._peers = dict(sorted(peers.items()))
        self._timeout_seconds = timeout_seconds

    def share(self, payload: bytes | None = None) -> bytes:
        assert payload is not None, "rank 0 is the one that shares"
        for rank, connection in self._peers.items():
            try:
                frames.send(connection, payload, timeout_seconds=self._timeout_seconds)
            except PeerLost as loss:
                raise PeerLost(f"lost rank {rank}: {loss}") from loss
        return payload

    def add_up(self, rows: np.ndarray) -> np.ndarray:
        parts = [rows]
        for rank, connection in self._peers.items():
            shape = (len(self._place.shards(rank)), rows.shape[1])
            try:
                parts.append(_receive_array(connection, shape, self._timeout_seconds))
            except PeerLost as loss:
                raise PeerLost(f"lost rank {rank}: {loss}") from loss
        total = np.concatenate(parts).sum(axis=0)
        self.share(total.astype("<f8").tobytes())
        return total

    def largest(self, number: int) -> int:
        numbers = [number]
        for rank, connection in self._peers.items():
            try:
                numbers.append(_receive_number(connection, self._timeout_seconds))
            except PeerLost as loss:
                raise PeerLost(f"lost rank {rank}: {loss}") from loss
        self.share(NUMBER.pack(max(numbers)))
        return max(numbers)

    def close(self) -> None:
        for connection in self._peers.values():
            connection.close()


class Spoke:
    """Any other rank: one connection, to rank 0."""

    def __init__(self, connection: socket.socket, timeout_seconds: float) -> None:
        self._connection = connection
        self._timeout_seconds = timeout_seconds

    def share(self, payload: bytes | None = None) -> bytes:
        assert payload is None, "only rank 0 shares"
        try:
            return frames.receive(
                self._connection, limit_bytes=SHARED_LIMIT_BYTES, timeout_seconds=self._timeout_seconds
            )
        except PeerLost as loss:
            raise PeerLost(f"lost rank 0: {loss}") from loss

    def add_up(self, rows: np.ndarray) -> np.ndarray:
        try:
            content = rows.astype("<f8").tobytes()
            frames.send(self._connection, content, timeout_seconds=self._timeout_seconds)
            return _receive_array(self._connection, (rows.shape[1],), self._timeout_seconds)
        except PeerLost as loss:
            raise PeerLost(f"lost rank 0: {loss}") from loss

    def largest(self, number: int) -> int:
        try:
            frames.send(self._connection, NUMBER.pack(number), timeout_seconds=self._timeout_seconds)
            return _receive_number(self._connection, self._timeout_seconds)
        except PeerLost as loss:
            raise PeerLost(f"lost rank 0: {loss}") from loss

    def close(self) -> None:
        self._connection.close()


def _receive_array(connection: socket.socket, shape: tuple[int, ...], timeout_seconds: float) -> np.ndarray:
    """A float64 array of exactly this shape, byte order fixed so that unlike machines agree."""
    expected_bytes = int(np.prod(shape)) * 8
    content = frames.receive(connection, limit_bytes=expected_bytes, timeout_seconds=timeout_seconds)
    if len(content) != expected_bytes:
        raise PeerLost(f"it sent {len(content)} bytes of numbers, expected {expected_bytes}")
    return np.frombuffer(content, dtype="<f8").reshape(shape)


def _receive_number(connection: socket.socket, timeout_seconds: float) -> int:
    content = frames.receive(connection, limit_bytes=NUMBER.size, timeout_seconds=timeout_seconds)
    if len(content) != NUMBER.size:
        raise PeerLost(f"it sent {len(content)} bytes where a number has {NUMBER.size}")
    number: int = NUMBER.unpack(content)[0]
    return number


# Meeting. A rank says hello; rank 0 refuses it with a reason or, once all are there, welcomes all.


def _gather(
    place: Rendezvous, hello: dict[str, object], stop: StopRequest, deadline: float
) -> dict[int, socket.socket]:
    """Rank 0: wait for every other rank. A stranger at the port is turned away and changes nothing."""
    peers: dict[int, socket.socket] = {}
    if place.world_size == 1:
        return peers
    with _listen(place, stop, deadline) as listener:
        listener.settimeout(frames.POLL_SECONDS)
        while len(peers) < place.world_size - 1:
            stop.raise_if_requested()
            if time.monotonic() > deadline:
                missing = sorted(set(range(1, place.world_size)) - set(peers))
                raise PeerLost(f"these ranks never came to {place.address}:{place.port}: {missing}")
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            _admit(connection, place, hello, peers, stop)
    return peers


def _listen(place: Rendezvous, stop: StopRequest, deadline: float) -> socket.socket:
    """The port may still be held by an earlier attempt on its way out, so try for a while."""
    while True:
        try:
            return socket.create_server((place.address, place.port), backlog=place.world_size)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise JobError(f"cannot listen on {place.address}:{place.port}: {error.strerror}") from error
        stop.raise_if_requested()
        stop.wait(RETRY_SECONDS)


def _admit(
    connection: socket.socket,
    place: Rendezvous,
    hello: dict[str, object],
    peers: dict[int, socket.socket],
    stop: StopRequest,
) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        content = frames.receive(
            connection, limit_bytes=HELLO_LIMIT_BYTES, timeout_seconds=HELLO_SECONDS, stop=stop
        )
        rank, refusal = _judge(content, place, hello, peers)
        if refusal is None:
            peers[rank] = connection
            return
        frames.send(connection, refusal.encode(), timeout_seconds=HELLO_SECONDS)
    except PeerLost as loss:
        refusal = str(loss)
    connection.close()
    print(f"warning: turned away a connection: {refusal}", flush=True)


def _judge(
    content: bytes, place: Rendezvous, hello: dict[str, object], peers: dict[int, socket.socket]
) -> tuple[int, str | None]:
    """The rank that says hello, and why it may not come in (None: it may)."""
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        return 0, "it did not say hello as a rank of this program does"
    rank = said.get("rank")
    if type(rank) is not int or not 1 <= rank < place.world_size:
        return 0, f"rank {rank!r} is not between 1 and {place.world_size - 1}"
    if rank in peers:
        return rank, f"rank {rank} is here already"
    for name, value in hello.items():
        if said.get(name) != value:
            return rank, f"rank {rank} has {name} {said.get(name)!r}, rank 0 has {value!r}"
    return rank, None


def _reach_hub(
    place: Rendezvous, hello: dict[str, object], stop: StopRequest, deadline: float
) -> socket.socket:
    """Another rank: connect as soon as rank 0 listens, say hello, wait until the gang is complete."""
    connection = _connect(place, stop, deadline)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        content = json.dumps({**hello, "rank": place.rank}).encode()
        frames.send(connection, content, timeout_seconds=HELLO_SECONDS)
        # Rank 0 gives up at its own deadline, a moment before or after this one; let it say so first.
        patience_seconds = max(0.0, deadline - time.monotonic()) + HELLO_SECONDS
        answer = frames.receive(
            connection, limit_bytes=HELLO_LIMIT_BYTES, timeout_seconds=patience_seconds, stop=stop
        )
    except PeerLost as loss:
        raise PeerLost(f"lost rank 0 before the gang was complete: {loss}") from loss
    if answer != WELCOME:
        raise BadSettings(f"rank 0 refused this rank: {answer.decode(errors='replace')}")
    return connection


def _connect(place: Rendezvous, stop: StopRequest, deadline: float) -> socket.socket:
    while True:
        stop.raise_if_requested()
        try:
            return socket.create_connection((place.address, place.port), timeout=HELLO_SECONDS)
        except OSError as error:
            if time.monotonic() > deadline:
                where = f"{place.address}:{place.port}"
                raise PeerLost(f"could not reach rank 0 at {where}: {error.strerror or error}") from error
        stop.wait(RETRY_SECONDS)
