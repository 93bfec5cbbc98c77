"""A browser's WebSocket to a program in a job: the handshake and the frames over a tunnel."""

import asyncio
import contextlib

import httpcore
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from controlplane.limits import Receive, Scope, Send
from controlplane.sessions.filters import request_headers
from controlplane.sessions.tunnel import Tunnel
from scheduler.jobs.sessions.services.port_passes import HeldPass

#: The most bytes of one message, in either direction; programs in notebooks send pictures.
MESSAGE_BYTES = 64 * 1024**2
READ_BYTES = 64 * 1024
_NORMAL, _GOING_AWAY = 1000, 1001


async def pass_on_socket(
    held: HeldPass, over: asyncio.Event, scope: Scope, receive: Receive, send: Send
) -> None:
    """Connect the browser's WebSocket with one to the job; raise NoTunnel when the job does not answer."""
    tunnel = await Tunnel.open(held)
    try:
        await receive()  # websocket.connect
        protocol = await _shake_hands(tunnel, scope)
        if protocol is None:
            await send({"type": "websocket.close"})
            return
        await send({"type": "websocket.accept", "subprotocol": protocol.subprotocol})
        towards = asyncio.create_task(_towards_job(protocol, tunnel, receive))
        back = asyncio.create_task(_from_job(protocol, tunnel, send))
        ended = asyncio.create_task(over.wait())
        tasks = (towards, back, ended)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if not towards.done() or towards.cancelled():
            code = protocol.close_code or _GOING_AWAY
            with contextlib.suppress(RuntimeError):  # The browser was quicker.
                await send({"type": "websocket.close", "code": _sendable(code)})
    finally:
        await tunnel.aclose()


async def _shake_hands(tunnel: Tunnel, scope: Scope) -> ClientProtocol | None:
    """Return the protocol once the job has agreed; None when it does not."""
    query = scope["query_string"].decode("latin-1")
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    uri = parse_uri(f"ws://job{path}{'?' + query if query else ''}")
    subprotocols = [Subprotocol(name) for name in scope.get("subprotocols") or []]
    protocol = ClientProtocol(uri, subprotocols=subprotocols or None, max_size=MESSAGE_BYTES)
    request = protocol.connect()
    for name, value in request_headers(scope):
        if name == b"host":
            del request.headers["Host"]
        request.headers[name.decode("latin-1")] = value.decode("latin-1")
    protocol.send_request(request)
    await _flush(protocol, tunnel)
    while protocol.state is State.CONNECTING and protocol.handshake_exc is None:
        data = await tunnel.read(READ_BYTES)
        if not data:
            return None
        protocol.receive_data(data)
    return protocol if protocol.state is State.OPEN else None


async def _towards_job(protocol: ClientProtocol, tunnel: Tunnel, receive: Receive) -> None:
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            protocol.send_close(_sendable(message.get("code") or _NORMAL))
            with contextlib.suppress(httpcore.NetworkError):
                await _flush(protocol, tunnel)
            return
        if (text := message.get("text")) is not None:
            protocol.send_text(text.encode())
        elif (data := message.get("bytes")) is not None:
            protocol.send_binary(data)
        await _flush(protocol, tunnel)


async def _from_job(protocol: ClientProtocol, tunnel: Tunnel, send: Send) -> None:
    parts: list[bytes] = []
    is_text = False
    events = protocol.events_received()
    while True:
        for frame in events:
            if not isinstance(frame, Frame) or frame.opcode not in (
                Opcode.TEXT,
                Opcode.BINARY,
                Opcode.CONT,
            ):
                continue
            if frame.opcode is not Opcode.CONT:
                parts, is_text = [], frame.opcode is Opcode.TEXT
            parts.append(bytes(frame.data))
            if frame.fin:
                data = b"".join(parts)
                body = {"text": data.decode()} if is_text else {"bytes": data}
                await send({"type": "websocket.send", **body})
        await _flush(protocol, tunnel)  # Answers to pings, and to a close.
        if protocol.state is not State.OPEN:
            return
        data = await tunnel.read(READ_BYTES)
        if not data:
            return
        protocol.receive_data(data)
        events = protocol.events_received()


async def _flush(protocol: ClientProtocol, tunnel: Tunnel) -> None:
    for data in protocol.data_to_send():
        if data:
            await tunnel.write(data)


def _sendable(code: int) -> int:
    """Return a close code that may be sent; some only report that none was received."""
    return code if code in (1000, 1001, 1002, 1003, *range(1007, 1015), *range(3000, 5000)) else _NORMAL
