"""WebSockets while Redis or the database is away: refused with 503, so that clients try again.

Every consumer joins its channel in Redis before anything else. An error there is not the program's fault, and
would be answered like one: with 500, and a traceback for each of a thousand agents that come back.
"""

from controlplane.errors import UNAVAILABLE, describe
from controlplane.limits import AsgiApplication, Message, Receive, Scope, Send, refuse

#: "Try again later", as IANA lists it. Pages and agents do so for every code that is not one of ours.
TRY_AGAIN_LATER = 1013


class SocketsAway:
    """Refuses a WebSocket of which a server is away; closes one that was accepted already."""

    def __init__(self, application: AsgiApplication) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self.application(scope, receive, send)
            return
        is_open = has_ended = False

        async def hear() -> Message:
            nonlocal has_ended
            message = await receive()
            has_ended |= message["type"] == "websocket.disconnect"
            return message

        async def say(message: Message) -> None:
            nonlocal is_open, has_ended
            is_open |= message["type"] == "websocket.accept"
            has_ended |= message["type"] == "websocket.close"
            await send(message)

        try:
            await self.application(scope, hear, say)
        except UNAVAILABLE as error:
            status, body, _ = describe(error)
            if has_ended:
                return
            if is_open or "websocket.http.response" not in scope.get("extensions", {}):
                await send({"type": "websocket.close", "code": TRY_AGAIN_LATER})
            else:
                await refuse(send, status, body["code"], body["detail"], kind="websocket.http.response")
