"""Output that cannot be read or noted on the node costs no other attempt anything."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nodeagent.folder import AttemptFolder
from nodeagent.machine import Event, LogsShipped, Outcome, Part, Phase
from nodeagent.messages import LogAnswer, LogBatch
from nodeagent.output.progress import ProgressFile
from nodeagent.output.shipping import Shipper
from tests.agent.builders import make_part
from tests.patience import until_async

BROKEN, SOUND = 1, 2


class Client:
    """Takes all output."""

    async def send_logs(self, batch: LogBatch) -> LogAnswer:
        return LogAnswer(next_sequence=batch.chunks[-1].sequence + 1)


def ended(attempt: int) -> Part:
    outcome = Outcome(exit_code=0, category="", message="")
    return Part(desired=make_part(attempt=attempt), phase=Phase.EXITED, outcome=outcome)


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[int], AttemptFolder]:
    for attempt in (BROKEN, SOUND):
        made = AttemptFolder(str(tmp_path / str(attempt)))
        os.mkdir(made.path)
        Path(made.log(0)).write_text("out\n")
    return lambda attempt: AttemptFolder(str(tmp_path / str(attempt)))


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
async def shipper(folder: Callable[[int], AttemptFolder], events: list[Event]) -> Shipper:
    parts = {attempt: ended(attempt) for attempt in (BROKEN, SOUND)}
    shipper = Shipper(Client(), folder, lambda: parts, events.append)  # type: ignore[arg-type]
    for part in parts.values():
        shipper.follow(part)
    # A folder that is in the place of the file: nothing can be noted there.
    os.mkdir(folder(BROKEN).sent(0))
    return shipper


async def test_the_output_of_others_is_sent(shipper: Shipper, events: list[Event]) -> None:
    keeping = asyncio.create_task(shipper.keep_shipping(lambda: None))
    await until_async(lambda: bool(events) or keeping.done())
    assert events == [LogsShipped(attempt=SOUND)]
    assert not keeping.done()
    keeping.cancel()


async def test_a_report_goes_out_without_it(shipper: Shipper) -> None:
    await shipper.ship_last()


def test_progress_that_cannot_be_noted_counts_as_reported(folder: Callable[[int], AttemptFolder]) -> None:
    there = folder(BROKEN)
    Path(there.progress(0)).write_text('{"step": 1}\n')
    progress = ProgressFile(BROKEN, there)
    os.mkdir(there.progress_sent)
    assert progress.read()
    progress.reported(progress.pending[-1].sequence)
    assert not progress.pending
