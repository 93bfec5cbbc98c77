"""Jobs that wait for others, in virtual time."""

from dataclasses import replace

import pytest

from scheduler.core.model.awaited import Awaited
from scheduler.core.model.snapshot import JobId
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.forecast import forecast
from tests.builders import make_job
from tests.core.sim.worlds import arrival, cluster, ends, simulate


def after(job: int, when: str) -> dict[str, tuple[Awaited, ...]]:
    return {"awaits": (Awaited(job=job, when=when),)}


@pytest.mark.parametrize(
    ("when", "end"), [("succeeded", 15.0), ("ended", 15.0), ("started", 5.0), ("singleton", 15.0)]
)
def test_a_job_starts_when_what_it_waits_for_has_happened(when: str, end: float) -> None:
    engine = simulate(cluster(8), [arrival(1, 0.0, 10.0), arrival(2, 0.0, 5.0, **after(1, when))])
    assert ends(engine) == pytest.approx({1: 10.0, 2: end})


def test_what_a_job_waits_for_may_be_that_another_fails() -> None:
    arrivals = [arrival(1, 0.0, 10.0, status="failed"), arrival(2, 0.0, 5.0, **after(1, "failed"))]
    assert ends(simulate(cluster(8), arrivals)) == {1: 10.0, 2: 15.0}
    arrivals[0] = arrival(1, 0.0, 10.0)
    engine = Engine(cluster(8), arrivals)
    assert engine.run() == "nothing more can happen, and 1 job waits for ever"
    assert engine.progress[JobId(1)].ended_at == 10.0


def test_a_chain_is_foreseen() -> None:
    jobs = tuple(
        make_job(number, estimate_seconds=100.0, **(after(number - 1, "succeeded") if number > 1 else {}))
        for number in (1, 2, 3)
    )
    facts = replace(cluster(8, round_seconds=5.0), jobs=jobs)
    found = forecast(facts).predictions.values()
    starts = [each.starts_at - facts.now for each in found if each.starts_at is not None]
    assert starts == pytest.approx([0.0, 100.0, 200.0], abs=2 * facts.round_seconds)
