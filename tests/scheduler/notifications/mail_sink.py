"""A mail server that keeps what it gets, or refuses it: enough of SMTP for one client at a time."""

import asyncio
import threading
from email import message_from_bytes
from email.message import Message

from tests.patience import PATIENCE_SECONDS


class MailSink:
    """Listens on loopback in a thread; a context."""

    def __init__(self) -> None:
        self.mails: list[Message] = []
        self.refuses_at = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> "MailSink":
        self._thread.start()
        started = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(started, self._loop).result(PATIENCE_SECONDS)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_SECONDS)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 sink\r\n")
        while line := await reader.readline():
            word = line.split()[0].decode().upper()
            if word == self.refuses_at:
                writer.write(b"451 try again later\r\n")
            elif word == "DATA":
                writer.write(b"354 go on\r\n")
                content = await reader.readuntil(b"\r\n.\r\n")
                self.mails.append(message_from_bytes(content))
                writer.write(b"250 kept\r\n")
            elif word == "QUIT":
                writer.write(b"221 bye\r\n")
                break
            else:
                writer.write(b"250 yes\r\n")
        writer.close()
