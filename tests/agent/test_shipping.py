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
from nodeagent.output import shipping
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


async def test_a_report_goes_out_without_it_but_with_that_of_others(
    shipper: Shipper, events: list[Event]
) -> None:
    await shipper.ship_last()
    assert events == [LogsShipped(attempt=SOUND)]


async def test_what_ends_while_output_is_sent_is_sent_too(
    folder: Callable[[int], AttemptFolder], events: list[Event]
) -> None:
    first, second = BROKEN, SOUND
    parts = {first: ended(first)}

    class Slow(Client):
        async def send_logs(self, batch: LogBatch) -> LogAnswer:
            parts[second] = ended(second)
            return await super().send_logs(batch)

    shipper = Shipper(Slow(), folder, lambda: parts, events.append)  # type: ignore[arg-type]
    for attempt in (first, second):
        shipper.follow(ended(attempt))
    await shipper.ship_last()
    assert events == [LogsShipped(attempt=first), LogsShipped(attempt=second)]


async def test_a_report_does_not_wait_for_a_server_that_does_not_answer(
    folder: Callable[[int], AttemptFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "LAST_OUTPUT_SECONDS", 0.05)
    parts = {attempt: ended(attempt) for attempt in (BROKEN, SOUND)}
    asked: list[int] = []

    class Silent(Client):
        async def send_logs(self, batch: LogBatch) -> LogAnswer:
            asked.append(batch.attempt)
            await asyncio.Event().wait()
            raise AssertionError

    shipper = Shipper(Silent(), folder, lambda: parts, lambda event: None)  # type: ignore[arg-type]
    for part in parts.values():
        shipper.follow(part)
    await shipper.ship_last()
    assert asked == [BROKEN]


def test_progress_that_cannot_be_noted_counts_as_reported(folder: Callable[[int], AttemptFolder]) -> None:
    there = folder(BROKEN)
    Path(there.progress(0)).write_text('{"step": 1}\n')
    progress = ProgressFile(BROKEN, there)
    os.mkdir(there.progress_sent)
    assert progress.read()
    progress.reported(progress.pending[-1].sequence)
    assert not progress.pending
