"""One request to a webhook: to an address that was looked at, with no redirects, within a time and a size."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import httpx

from scheduler.notifications.services.addresses import parts_of, resolved

#: For all of it: name, connection, request and answer.
TIMEOUT_SECONDS = 5.0
REPLY_BYTES = 500
#: Of a name's addresses, no more are tried than these.
_ADDRESSES_TRIED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a try ended: with a status, or with why there is none."""

    status: int | None = None
    reply: str = ""
    problem: str = ""
    seconds: float

    @property
    def is_taken(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def post(url: str, body: str, headers: Mapping[str, str], *, is_trusted: bool = False) -> Answer:
    """Send it; whatever goes wrong is told in the answer. A trusted URL may lead anywhere."""
    began = time.monotonic()
    status, reply, problem = None, "", ""
    try:
        # Its deadline holds however slowly the other side dribbles; httpx's own are for single steps.
        status, reply = asyncio.run(_within(TIMEOUT_SECONDS, _post(url, body, headers, is_trusted)))
    except TimeoutError:
        problem = f"no whole answer within {TIMEOUT_SECONDS:g} s"
    except (OSError, httpx.HTTPError, httpx.InvalidURL) as error:
        problem = str(error) or type(error).__name__
    return Answer(status=status, reply=reply, problem=problem[:300], seconds=time.monotonic() - began)


async def _within(seconds: float, answer: Awaitable[tuple[int, str]]) -> tuple[int, str]:
    async with asyncio.timeout(seconds):
        return await answer


async def _post(url: str, body: str, headers: Mapping[str, str], is_trusted: bool) -> tuple[int, str]:
    parts, host, port = parts_of(url)
    addresses = await asyncio.to_thread(resolved, host, port, is_trusted=is_trusted)
    sent = {
        **headers,
        "Host": parts.netloc,
        "Content-Type": "application/json",
        "User-Agent": "Allotment",
        "Accept-Encoding": "identity",
    }
    async with httpx.AsyncClient(
        verify=_certificates(), trust_env=False, follow_redirects=False, timeout=TIMEOUT_SECONDS
    ) as client:
        for place, address in enumerate(addresses[:_ADDRESSES_TRIED], start=1):
            where = httpx.URL(url).copy_with(host=address, port=port)
            # The certificate must be that of the name, not of the address.
            extensions = {"sni_hostname": host} if parts.scheme == "https" else {}
            try:
                async with client.stream(
                    "POST", where, content=body.encode(), headers=sent, extensions=extensions
                ) as answer:
                    return answer.status_code, await _beginning(answer)
            except httpx.ConnectError:
                if place == min(len(addresses), _ADDRESSES_TRIED):
                    raise
    raise OSError(f"{host} has no address")


async def _beginning(answer: httpx.Response) -> str:
    read = b""
    async for chunk in answer.aiter_raw():
        read += chunk
        if len(read) >= REPLY_BYTES:
            break
    return read[:REPLY_BYTES].decode(errors="replace").replace("\0", "")


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    return httpx.create_ssl_context()
