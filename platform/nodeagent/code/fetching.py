"""What attempts bring along for their working folders: fetched once, kept by its name, within bounds.

All attempts on the node share what is kept, so that a gang, a job that starts again and the tasks of an array
fetch once. What was used longest ago goes first when there is too much of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import random
from pathlib import Path
from typing import IO
from weakref import WeakValueDictionary

from nodeagent.client import Backoff, Client, Refusal, Unreachable
from nodeagent.code.named import Code
from nodeagent.code.repositories import UNFINISHED, fetch_commit
from nodeagent.configuration import Configuration
from nodeagent.process.removing import remove_tree

RETRY_FIRST_SECONDS = 0.25
RETRY_MOST_SECONDS = 5.0


class CodeUnavailable(Exception):
    """The code could not be fetched; says why."""


class CodeStore:
    """Fetches the code of attempts and keeps it. Only one archive at a time is on its way from the server."""

    def __init__(self, configuration: Configuration, client: Client) -> None:
        self.limits = configuration.code
        self.folder = Path(configuration.work_folder) / "code"
        self.client = client
        self._downloading = asyncio.Lock()
        #: By name, of what is being fetched: others that want the same wait for it.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        for left_over in self.folder.glob(f"*{UNFINISHED}"):
            remove_tree(left_over)

    async def fetch(self, attempt: int, code: Code) -> IO[bytes]:
        """Return the open archive, which stays readable whatever is removed; raise CodeUnavailable."""
        name = _name_of(code)
        lock = self._locks.setdefault(name, asyncio.Lock())
        try:
            async with asyncio.timeout(self.limits.timeout_seconds), lock:
                kept = self.folder / name
                if not kept.exists():
                    await self._bring(attempt, code, kept)
                os.utime(kept)
                return kept.open("rb")
        except TimeoutError:
            raise CodeUnavailable(
                f"It could not be fetched within {self.limits.timeout_seconds:g} s (code.timeout_seconds)."
            ) from None
        except OSError as error:
            raise CodeUnavailable(f"It could not be kept on the node: {error}.") from error

    async def _bring(self, attempt: int, code: Code, kept: Path) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        unfinished = kept.with_name(kept.name + UNFINISHED)
        try:
            if code.archive:
                async with self._downloading:
                    await self._download(attempt, code.archive, unfinished)
            elif problem := await fetch_commit(code.git, code.commit, unfinished, self.limits):
                raise CodeUnavailable(problem)
            self._make_room(unfinished.stat().st_size)
            unfinished.rename(kept)
        finally:
            unfinished.unlink(missing_ok=True)

    async def _download(self, attempt: int, digest: str, target: Path) -> None:
        backoff = Backoff(RETRY_FIRST_SECONDS, RETRY_MOST_SECONDS, random.random)
        while True:
            try:
                found = await self._downloaded(attempt, target)
                break
            except Unreachable:
                await asyncio.sleep(backoff.failed())
            except Refusal as error:
                raise CodeUnavailable(f"The server did not hand it out: {error}") from error
        if found != digest:
            raise CodeUnavailable(f"What the server sent is sha256:{found}, not sha256:{digest}.")

    async def _downloaded(self, attempt: int, target: Path) -> str:
        """Write the archive to a file and return its digest."""
        digest, size = hashlib.sha256(), 0
        with target.open("wb") as file:
            async with contextlib.aclosing(self.client.code(attempt)) as pieces:
                async for piece in pieces:
                    size += len(piece)
                    if size > self.limits.bytes:
                        raise CodeUnavailable(
                            f"It is larger than this node accepts, {self.limits.bytes:,} bytes (code.bytes)."
                        )
                    digest.update(piece)
                    await asyncio.to_thread(file.write, piece)
        return digest.hexdigest()

    def _make_room(self, size: int) -> None:
        """Remove what was used longest ago until there is room for `size` more."""
        kept = [(path, path.stat()) for path in self.folder.iterdir() if not path.name.endswith(UNFINISHED)]
        total = sum(facts.st_size for _, facts in kept)
        for path, facts in sorted(kept, key=lambda one: one[1].st_mtime):
            if total + size <= self.limits.kept_bytes:
                return
            path.unlink()
            total -= facts.st_size


def _name_of(code: Code) -> str:
    if code.archive:
        return code.archive
    return f"git-{hashlib.sha256(f'{code.git} {code.commit}'.encode()).hexdigest()}"
