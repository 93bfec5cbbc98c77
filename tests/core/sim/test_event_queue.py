"""The order of events in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from scheduler.core.sim.event_queue import Event, EventQueue


class Log:
    """Events that note their names, and schedule another as jobs do when they start."""

    def __init__(self) -> None:
        self.queue = EventQueue(0.0)
        self.happened: list[tuple[float, str]] = []
        self.made = 0

    def event(self, name: str, *, follows: bool = True) -> Event:
        self.made += 1

        def happen() -> bool:
            self.happened.append((self.queue.now, name))
            if follows:
                # Many happen at the instant of an arrival that is still to come.
                later = self.queue.now + len(name) % 3
                self.queue.schedule(later, self.event(f"after {name}", follows=False))
            return True

        return happen


@pytest.mark.parametrize("seed", range(20))
def test_rising_events_happen_in_the_order_of_events_scheduled_one_by_one(seed: int) -> None:
    dice = Random(seed)
    arrivals = sorted(float(dice.randrange(10)) for _ in range(30))
    others = [float(dice.randrange(10)) for _ in range(10)]
    one_by_one, rising = Log(), Log()
    for number, at in enumerate(arrivals):
        one_by_one.queue.schedule(at, one_by_one.event(f"arrival {number}"))
    rising.queue.schedule_rising(
        ((at, rising.event(f"arrival {number}")) for number, at in enumerate(arrivals)), len(arrivals)
    )
    for log in (one_by_one, rising):
        for number, at in enumerate(others):
            log.queue.schedule(at, log.event(f"other {number}"))
        assert log.queue.finite == 40
        for instant in range(13):
            log.queue.advance_to(float(instant))
    assert rising.happened == one_by_one.happened
    assert len(rising.happened) == 80
    assert rising.queue.finite == one_by_one.queue.finite == 0


def test_a_rising_event_is_made_when_the_one_before_it_happens() -> None:
    log = Log()

    def events() -> Iterator[tuple[float, Event]]:
        for number in range(1_000):
            yield float(number), log.event(f"arrival {number}", follows=False)

    log.queue.schedule_rising(events(), 1_000)
    assert (log.made, log.queue.finite) == (1, 1_000)
    log.queue.advance_to(9.0)
    assert (log.made, log.queue.finite) == (11, 990)
