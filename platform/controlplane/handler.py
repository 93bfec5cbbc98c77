"""HTTP by Django, each request from beginning to end in one of a few threads that stay.

Django's own handler starts a thread for every request, and goes to it and back to the event loop for the
signals, the middleware, the view and the end, since each of them might be asynchronous. Ours are not. To go
there once is what makes small requests cheap: the way cost several times as much as what they do.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import IO

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.db import close_old_connections
from django.http import FileResponse, HttpResponseBase
from django.urls import set_script_prefix

from controlplane import rights
from controlplane.limits import Receive, Scope, Send
from tenants.signin import ITS_TURN, TURN_AFTER_SECONDS


class Handler(ASGIHandler):
    """Django's, but for where the work is done. A response that streams is sent from the event loop."""

    def __init__(self) -> None:
        super().__init__()
        threads = ThreadPoolExecutor(settings.REQUEST_THREADS, thread_name_prefix="request")
        self._answer_in_thread = sync_to_async(self._answer, thread_sensitive=False, executor=threads)

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        asked = body.read()
        response = await self._answer_in_thread(scope, BytesIO(asked))
        if seconds := scope.get(TURN_AFTER_SECONDS):
            # Many wrong passwords came before: it waits for its turn here, where that holds up nobody.
            await asyncio.sleep(seconds)
            its_turn = {name: value for name, value in scope.items() if name != TURN_AFTER_SECONDS}
            response = await self._answer_in_thread(its_turn | {ITS_TURN: True}, BytesIO(asked))
        if response.streaming:
            await self._stream(response, receive, send)
        else:
            await self.send_response(response, send)

    def _answer(self, scope: Scope, body: IO[bytes]) -> HttpResponseBase:
        """Return the response: closed, with all that its request held, unless it is yet to be streamed."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=type(self), scope=scope)
        request, response = self.create_request(scope, body)
        if request is not None:
            response = self.get_response(request)
        response._handler_class = type(self)
        if isinstance(response, FileResponse):
            # As Django's own does: a page's scripts go out in a few pieces and not in a hundred.
            response.block_size = self.chunk_size
        if not response.streaming:
            response.close()
            return response
        # It ends elsewhere, and later: what this thread held goes back now.
        close_old_connections()
        response.reader = rights.reader_of(request, response) if request is not None else None
        return response

    async def _stream(self, response: HttpResponseBase, receive: Receive, send: Send) -> None:
        """Send the response piece by piece, as long as there is somebody who reads it, and may."""
        sending = asyncio.ensure_future(self.send_response(response, send))
        # After its body a request has nothing to say but that it is gone.
        tasks = [sending, asyncio.ensure_future(receive())]
        if response.reader is not None:
            tasks.append(asyncio.ensure_future(rights.lost(response.reader)))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await sync_to_async(response.close)()
