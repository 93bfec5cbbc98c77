"""Bring the output of all attempts to the server, and read their progress."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Mapping

from nodeagent.client import Backoff, Client, Refusal, Unreachable
from nodeagent.clock import wait_seconds
from nodeagent.folder import AttemptFolder
from nodeagent.machine import Event, LogsShipped, Part, Phase
from nodeagent.messages import PartReport, ProgressLine
from nodeagent.output.logs import OutputTail
from nodeagent.output.progress import ProgressFile, fitting

log = logging.getLogger(__name__)

#: How often new output is sent; a page that shows it looks live.
OUTPUT_SECONDS = 1.0
RETRY_MOST_SECONDS = 3.0
#: How long news of ends waits for their last output, so that a user who reads it then sees all.
LAST_OUTPUT_SECONDS = 3.0
#: The most bytes for all attempts together, so that a report stays far below what a server accepts.
REPORT_PROGRESS_BYTES = 400_000
#: The server will not take this output now or later, and says so.
NOT_WANTED = frozenset({400, 404, 409, 410, 413, 422})


class Shipper:
    """Output and progress of the attempts in `parts`, which the agent keeps up to date."""

    def __init__(
        self,
        client: Client,
        folder: Callable[[int], AttemptFolder],
        parts: Callable[[], Mapping[int, Part]],
        post: Callable[[Event], None],
    ) -> None:
        self.client = client
        self.folder = folder
        self.parts = parts
        self.post = post
        self.tails: dict[int, list[OutputTail]] = {}
        self.progress: dict[int, ProgressFile] = {}
        self.has_work = asyncio.Event()
        self.lock = asyncio.Lock()

    def follow(self, part: Part) -> None:
        """Begin, or go on after a restart, with the output of an attempt."""
        attempt = part.desired.attempt
        folder = self.folder(attempt)
        self.tails[attempt] = [OutputTail(attempt, replica.rank, folder) for replica in part.desired.replicas]
        if part.desired.has_rank_zero:
            self.progress[attempt] = ProgressFile(attempt, folder)
        self.has_work.set()

    def forget(self, attempt: int) -> None:
        self.tails.pop(attempt, None)
        self.progress.pop(attempt, None)

    async def keep_shipping(self, has_progress: Callable[[], None]) -> None:
        """Send what there is, again and again; call `has_progress` while some waits for a report."""
        backoff = Backoff(OUTPUT_SECONDS, RETRY_MOST_SECONDS, random.random)
        while True:
            unfinished = [number for number, part in self.parts().items() if not part.is_shipped]
            if not unfinished:
                self.has_work.clear()
                await self.has_work.wait()
                continue
            problem = None
            for attempt in unfinished:
                try:
                    await self.ship(attempt)
                except (Unreachable, OSError) as error:
                    # The others go on: it may be this one's output that the server or the disk cannot take.
                    problem = f"attempt {attempt}: {error}"
            if problem is not None and not backoff.failures:
                log.warning("Output waits on the node. %s", problem)
            rest_seconds = OUTPUT_SECONDS if problem is None else backoff.failed()
            if problem is None:
                backoff.succeeded()
            for progress in self.progress.values():
                progress.read()
            if any(progress.pending for progress in self.progress.values()):
                has_progress()
            await asyncio.sleep(wait_seconds(rest_seconds))

    async def ship(self, attempt: int) -> None:
        """Send all new output of an attempt; note when there will be no more. Raise Unreachable."""
        async with self.lock:
            part = self.parts().get(attempt)
            if part is None or part.is_shipped:
                return
            is_last = part.phase is Phase.EXITED
            tails = self.tails.get(attempt, [])
            for tail in tails:
                await self._ship_tail(tail, is_last=is_last)
            if is_last and not any(tail.has_more() for tail in tails):
                self.post(LogsShipped(attempt=attempt))

    async def ship_last(self) -> None:
        """Before ends are reported for the first time, let their last output go first, if it goes quickly."""
        tried: set[int] = set()
        try:
            # Not wait_for: before Python 3.12 it loses a cancellation that comes just after the end.
            async with asyncio.timeout(LAST_OUTPUT_SECONDS):
                # More attempts may end while output goes out, and the report that follows tells of them.
                while waiting := [each for each in self._ended_without_output() if each not in tried]:
                    tried.update(waiting)
                    for attempt in waiting:
                        # `keep_shipping` warns of output that cannot be read.
                        with contextlib.suppress(OSError):
                            await self.ship(attempt)
        except (Unreachable, TimeoutError):
            # The report, and with it the lease, goes first.
            return

    def _ended_without_output(self) -> list[int]:
        return [
            number
            for number, part in self.parts().items()
            if part.phase is Phase.EXITED and not part.is_acknowledged and not part.is_shipped
        ]

    def progress_of(self, part: Part) -> tuple[ProgressLine, ...]:
        """Return the lines for the next report, few enough that reports of all attempts fit into one."""
        progress = self.progress.get(part.desired.attempt)
        if progress is None or part.is_acknowledged:
            return ()
        progress.read()
        return fitting(progress.pending, REPORT_PROGRESS_BYTES // len(self.progress))

    def progress_reported(self, part: PartReport) -> None:
        """The server has the lines of this report."""
        if part.progress and part.attempt in self.progress:
            self.progress[part.attempt].reported(part.progress[-1].sequence)

    def drop_progress(self) -> None:
        """The server refused a report. Progress is what jobs write in it, and the lease matters more."""
        for progress in self.progress.values():
            if progress.pending:
                progress.reported(progress.pending[-1].sequence)

    async def _ship_tail(self, tail: OutputTail, *, is_last: bool) -> None:
        while (batch := tail.next_batch(is_last=is_last)) is not None:
            before = tail.sequence
            try:
                tail.answered(await self.client.send_logs(batch))
            except Refusal as error:
                if error.status not in NOT_WANTED:
                    raise Unreachable(str(error)) from error
                log.warning("Output of attempt %d is not wanted: %s", tail.attempt, error)
                tail.is_full = True
            if tail.sequence == before:
                return
