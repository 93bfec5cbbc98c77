"""The line between trainer and worker: it proves the other end, and frames that no third party can have sent.

Both know a secret of the job. Each proves it by an HMAC (SHA-256) over two fresh random numbers, the worker
first. All that follows has an HMAC of its own, by keys of this connection and direction and the number of the
frame: a change, a repetition, an omission or an insertion by a third party ends the line. Nothing is
encrypted.

A frame is kind, length of its header and of its body, then header (JSON), body, HMAC. Lengths have limits,
which are checked before memory is taken.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from allot.training.errors import TrainingError

SECRET_VARIABLE = "ALLOT_INPUT_SECRET"
SECRET_LEAST_BYTES = 16
#: The first bytes of a trainer; another version has others.
GREETING = b"allot input workers 1\n"
NONCE_BYTES = PROOF_BYTES = 32
HANDSHAKE_SECONDS = 10.0
#: How often a silent line is checked.
TICK_SECONDS = 0.5
HEADER_MOST = 2**20
CHUNK_BYTES = 2**20
_HEAD = struct.Struct("!BxxxIQ")

#: What a frame is. Trainer to worker: the terms, an item to make, the end. Worker to trainer: a batch, that
#: its function raised, that it leaves and gives back what it has not made. In a stream that several trainers
#: follow, worker to trainer: its name; trainer to worker: the number of a batch; worker to trainer: that it
#: does not keep it any more.
TERMS, ITEM, END, BATCH, FAILED, LEAVES, NAME, WANT, MISSED = range(1, 10)


class LineError(TrainingError):
    """The other end does not know the secret, or sends what it may not."""


class Line:
    """One connection, after both ends have proved that they know the secret.

    One thread may send while another receives.
    """

    def __init__(self, socket_: socket.socket, sending: bytes, receiving: bytes, body_most: int) -> None:
        self._socket = socket_
        self._sending = hmac.new(sending, digestmod="sha256")
        self._receiving = hmac.new(receiving, digestmod="sha256")
        self._body_most = body_most
        self._sent = self._received = 0
        #: Called while nothing comes, each `TICK_SECONDS`: raises to end it.
        self.on_silence: Callable[[], None] = lambda: None
        #: When something came last, by `time.monotonic`.
        self.heard_at = time.monotonic()
        with contextlib.suppress(OSError):
            socket_.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        socket_.settimeout(TICK_SECONDS)

    def send(
        self, kind: int, header: Mapping[str, Any] | bytes, body: Sequence[memoryview | bytes] = ()
    ) -> None:
        """Send a frame. Raises OSError where the line is cut, LineError for a header that is too long."""
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        if len(text) > HEADER_MOST:
            raise LineError(f"a header has at most {HEADER_MOST} bytes, not {len(text)}")
        head = _HEAD.pack(kind, len(text), sum(map(len, body))) + text
        mac = self._sending.copy()
        mac.update(self._sent.to_bytes(8, "big") + head)
        self._sent += 1
        self._send_all(head)
        for part in body:
            mac.update(part)
            self._send_all(part)
        self._send_all(mac.digest())

    def receive(self) -> tuple[int, dict[str, Any], bytearray]:
        """Return kind, header and body of the next frame.

        Raises OSError where the line is cut, LineError for an invalid frame, and what `on_silence` raises.
        """
        head = self._read(_HEAD.size)
        kind, header_bytes, body_bytes = _HEAD.unpack(head)
        if header_bytes > HEADER_MOST or body_bytes > self._body_most:
            raise LineError(f"a frame of {header_bytes} + {body_bytes} bytes is longer than it may be")
        mac = self._receiving.copy()
        mac.update(self._received.to_bytes(8, "big") + head)
        text = self._read(header_bytes)
        mac.update(text)
        body = bytearray(body_bytes)
        view = memoryview(body)
        for begin in range(0, body_bytes, CHUNK_BYTES):
            chunk = view[begin : begin + CHUNK_BYTES]
            self._fill(chunk)
            mac.update(chunk)
        if not hmac.compare_digest(mac.digest(), bytes(self._read(PROOF_BYTES))):
            raise LineError("a frame does not come from the other end")
        self._received += 1
        try:
            header = json.loads(text)
        except (ValueError, RecursionError):
            raise LineError("a frame's header is not JSON") from None
        if not isinstance(header, dict):
            raise LineError("a frame's header is not an object")
        return kind, header, body

    def end(self, seconds: float) -> None:
        """Send nothing more, and wait until the other end has read all and cuts the line.

        Cut from here while something lies unread, the kernel would reset the connection, and what was sent
        last could be lost with it. Waits for that many seconds at most.
        """
        deadline = time.monotonic() + seconds
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            while time.monotonic() < deadline:
                with contextlib.suppress(TimeoutError):
                    if not self._socket.recv(CHUNK_BYTES):
                        return

    def close(self) -> None:
        """Cut the line, whatever waits at it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _read(self, count: int) -> bytearray:
        content = bytearray(count)
        self._fill(memoryview(content))
        return content

    def _fill(self, view: memoryview) -> None:
        while view:
            try:
                count = self._socket.recv_into(view)
            except TimeoutError:
                self.on_silence()
                continue
            if not count:
                raise ConnectionResetError("the other end has closed the line")
            self.heard_at = time.monotonic()
            view = view[count:]

    def _send_all(self, content: memoryview | bytes) -> None:
        view = memoryview(content)
        while view:
            try:
                count = self._socket.send(view)
            except TimeoutError:
                # Somebody else looks whether the other end is still there.
                continue
            view = view[count:]


def receive_worker(socket_: socket.socket, secret: bytes, body_most: int) -> Line:
    """Return the line to a worker that knows the secret. Raises LineError, or OSError."""
    deadline, nonce = time.monotonic() + HANDSHAKE_SECONDS, os.urandom(NONCE_BYTES)
    socket_.settimeout(HANDSHAKE_SECONDS)
    socket_.sendall(GREETING + nonce)
    answer = _exactly(socket_, NONCE_BYTES + PROOF_BYTES, deadline)
    both = nonce + answer[:NONCE_BYTES]
    if not hmac.compare_digest(answer[NONCE_BYTES:], _keyed(secret, b"worker", both)):
        raise LineError("a worker does not know the secret")
    socket_.sendall(_keyed(secret, b"trainer", both))
    return Line(socket_, _keyed(secret, b"to worker", both), _keyed(secret, b"to trainer", both), body_most)


def reach_trainer(socket_: socket.socket, secret: bytes) -> Line:
    """Return the line to a trainer that knows the secret. Raises LineError, or OSError."""
    deadline = time.monotonic() + HANDSHAKE_SECONDS
    socket_.settimeout(HANDSHAKE_SECONDS)
    greeting = _exactly(socket_, len(GREETING) + NONCE_BYTES, deadline)
    if not greeting.startswith(GREETING):
        raise LineError("the program that answers is not a trainer, or has another version")
    nonce = os.urandom(NONCE_BYTES)
    both = greeting[len(GREETING) :] + nonce
    socket_.sendall(nonce + _keyed(secret, b"worker", both))
    if not hmac.compare_digest(_exactly(socket_, PROOF_BYTES, deadline), _keyed(secret, b"trainer", both)):
        raise LineError("the trainer does not know the secret")
    return Line(socket_, _keyed(secret, b"to trainer", both), _keyed(secret, b"to worker", both), 0)


def secret_of(text: str | None) -> bytes:
    """Return the secret that is given, else that of the environment. Raises TrainingError."""
    secret = (os.environ.get(SECRET_VARIABLE, "") if text is None else text).encode()
    if len(secret) < SECRET_LEAST_BYTES:
        raise TrainingError(
            f"{SECRET_VARIABLE} must be a secret of at least {SECRET_LEAST_BYTES} bytes that trainer and"
            " workers share, such as what `python -c 'import secrets; print(secrets.token_hex())'` prints"
        )
    return secret


def address_of(text: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT, or [IPV6]:PORT. Raises TrainingError."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise TrainingError(f"an address must be HOST:PORT, with a port up to 65535, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _keyed(secret: bytes, what: bytes, both: bytes) -> bytes:
    return hmac.digest(secret, b"allot input " + what + b"\0" + both, "sha256")


def _exactly(socket_: socket.socket, count: int, deadline: float) -> bytes:
    content = b""
    while len(content) < count:
        left = deadline - time.monotonic()
        if left <= 0:
            raise LineError("the other end did not identify itself in time")
        socket_.settimeout(left)
        part = socket_.recv(count - len(content))
        if not part:
            raise LineError("the other end has closed the line, as it does if the secrets differ")
        content += part
    return content
