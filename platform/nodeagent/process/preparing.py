"""Attempts are prepared: their folders are made, and rank 0 chooses the port where the gang meets.

Checkpoints are on a shared file system, which may hang. So each attempt is prepared in a thread of its own,
and is given up when that takes too long or the attempt is not wanted any more. What such a thread makes later
is removed.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO

from nodeagent.code.archives import ArchiveRefused, Bounds, unpack_for_each
from nodeagent.code.named import UNPACK_SECONDS
from nodeagent.configuration import Configuration
from nodeagent.executor import start_failed
from nodeagent.folder import AttemptFolder, write_json
from nodeagent.machine import AttemptPrepared, Event
from nodeagent.messages import DesiredPart, encode
from nodeagent.process.environment import checkpoint_folder
from nodeagent.process.isolation import Isolation
from nodeagent.process.mps import Mps
from nodeagent.process.ports import HeldPorts
from nodeagent.process.removing import remove_tree
from nodeagent.process.users import make_folder
from nodeagent.threads import in_own_thread

log = logging.getLogger(__name__)

#: The most attempts at once, those included that were given up and whose threads still hang.
MOST_AT_ONCE = 64


class Preparer:
    """Prepares the attempts of one node, and posts what became of each that is still wanted."""

    def __init__(
        self,
        configuration: Configuration,
        isolated: Isolation,
        mps: Mps,
        ports: HeldPorts,
        folder: Callable[[int], AttemptFolder],
        post: Callable[[Event], None],
    ) -> None:
        self.configuration = configuration
        self.isolated = isolated
        self.mps = mps
        self.ports = ports
        self.folder = folder
        self.post = post
        code = configuration.code
        self.bounds = Bounds(files=code.files, unpacked_bytes=code.unpacked_bytes)
        #: Those of which nothing was posted yet.
        self.awaited: set[int] = set()
        #: How many threads are at work, or hang.
        self.at_work = 0

    async def prepare(self, desired: DesiredPart, code: IO[bytes] | None) -> None:
        """Post AttemptPrepared or AttemptExited; return when its thread has ended."""
        attempt = desired.attempt
        self.awaited.add(attempt)
        if self.at_work >= MOST_AT_ONCE:
            if code is not None:
                code.close()
            self._lose(attempt, f"it still prepares {self.at_work} others")
            return
        self.at_work += 1
        make = partial(self._make_folders, self.folder(attempt), desired, code)
        making = asyncio.create_task(in_own_thread(f"prepare attempt {attempt}", make))
        await asyncio.wait([making], timeout=UNPACK_SECONDS)
        if not making.done():
            self._lose(attempt, f"it took over {UNPACK_SECONDS:g} s; the checkpoint folder may hang")
            await asyncio.wait([making])
        self.at_work -= 1
        if self.give_up(attempt):
            self.post(self._result(desired, making))
        else:
            making.exception()  # Which would be logged as never looked at.
            await in_own_thread(f"clean up attempt {attempt}", partial(self._clean_up, attempt))

    def give_up(self, attempt: int) -> bool:
        """Post nothing of the attempt any more; return whether there would have been something."""
        is_awaited = attempt in self.awaited
        self.awaited.discard(attempt)
        return is_awaited

    def _lose(self, attempt: int, why: str) -> None:
        if self.give_up(attempt):
            self.post(start_failed(attempt, f"The node did not prepare the attempt: {why}.", "lost"))

    def _result(self, desired: DesiredPart, making: asyncio.Task[None]) -> Event:
        attempt = desired.attempt
        try:
            making.result()
            port = self.ports.hold(attempt) if desired.has_rank_zero else None
            write_json(self.folder(attempt).part, {"wish": encode(desired), "master_port": port})
        except ArchiveRefused as error:
            return start_failed(attempt, f"Its code was not unpacked. {error}", "code_refused")
        except OSError as error:
            return start_failed(attempt, f"The node could not prepare the attempt: {error}")
        except Exception as error:
            # The attempt must not wait for ever because of a bug.
            log.exception("Attempt %d could not be prepared", attempt)
            return start_failed(attempt, f"The node could not prepare the attempt: {error!r}")
        return AttemptPrepared(attempt=attempt, master_port=port)

    def _clean_up(self, attempt: int) -> None:
        """Remove what was made after the attempt had been given up, and perhaps forgotten."""
        if self.mps.is_used:
            self.mps.leave(attempt)
        remove_tree(Path(self.folder(attempt).path))

    def _make_folders(self, folder: AttemptFolder, desired: DesiredPart, code: IO[bytes] | None) -> None:
        users = self.isolated.users
        owner = os.geteuid() if users is None else users.number_of(desired.tenant)
        os.makedirs(folder.path, mode=0o700, exist_ok=True)
        if users is not None and not self.isolated.has_sandbox:
            os.chmod(folder.path, 0o711)  # Its owner's alone, but the job has to pass through.
        make_folder(checkpoint_folder(self.configuration, desired), owner)
        make_folder(folder.temporary, owner)
        if code is not None:
            # Before the folders are the job's: what it could not meddle with yet becomes its own below.
            unpack_for_each(code, [folder.work(replica.rank) for replica in desired.replicas], self.bounds)
        make_folder(folder.works, owner)
        for replica in desired.replicas:
            make_folder(folder.work(replica.rank), owner)
        if self.mps.is_for(desired):
            self.mps.join(owner, desired.attempt)
