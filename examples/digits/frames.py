"""Length-prefixed frames over TCP: four bytes of length, big-endian, then that many bytes."""

import socket
import struct
import time

from errors import PeerLost
from stop import StopRequest

LENGTH = struct.Struct("!I")
# How long a blocked read may go without looking at the deadline and the stop request.
POLL_SECONDS = 0.1


def send(connection: socket.socket, payload: bytes, *, timeout_seconds: float) -> None:
    connection.settimeout(timeout_seconds)
    try:
        connection.sendall(LENGTH.pack(len(payload)) + payload)
    except TimeoutError:
        raise PeerLost(f"it took no data for {timeout_seconds:g} s") from None
    except OSError as error:
        raise PeerLost(f"the connection broke ({error.strerror or error})") from error


def receive(
    connection: socket.socket,
    *,
    limit_bytes: int,
    timeout_seconds: float,
    stop: StopRequest | None = None,
) -> bytes:
    """One frame. A length over the limit is refused before any memory is set aside for it."""
    deadline = time.monotonic() + timeout_seconds
    (length,) = LENGTH.unpack(_receive_exactly(connection, LENGTH.size, deadline, stop))
    if length > limit_bytes:
        raise PeerLost(f"it announced a frame of {length} bytes where at most {limit_bytes} are allowed")
    return _receive_exactly(connection, length, deadline, stop)


def _receive_exactly(
    connection: socket.socket, count: int, deadline: float, stop: StopRequest | None
) -> bytes:
    content = bytearray(count)
    view = memoryview(content)
    connection.settimeout(POLL_SECONDS)
    while view:
        try:
            received = connection.recv_into(view)
        except TimeoutError:
            if stop is not None:
                stop.raise_if_requested()
            if time.monotonic() > deadline:
                raise PeerLost("it sent nothing in time") from None
            continue
        except OSError as error:
            raise PeerLost(f"the connection broke ({error.strerror or error})") from error
        if received == 0:
            raise PeerLost("it closed the connection")
        view = view[received:]
    return bytes(content)
