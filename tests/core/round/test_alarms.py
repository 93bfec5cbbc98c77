"""Instants at which jobs are looked at again."""

from scheduler.core.model.snapshot import JobId
from scheduler.core.round.alarms import Alarms
from scheduler.core.round.engine import RoundEngine
from tests.builders import NOW, make_job, make_running, make_snapshot


def test_the_earliest_comes_first_and_each_once() -> None:
    alarms = Alarms()
    assert alarms.first is None
    for instant in (3.0, 1.0, 3.0, 1.0):
        alarms.put(instant, JobId(7))
    assert (alarms.first, alarms.pop(), alarms.pop(), alarms.first) == ((1.0, 7), (1.0, 7), (3.0, 7), None)
    alarms.put(1.0, JobId(7))
    assert alarms.first == (1.0, 7)


def test_a_job_that_changes_often_has_one_alarm_for_its_time_limit() -> None:
    job = make_job(1, 1, time_limit_seconds=3_600.0)
    engine = RoundEngine(make_snapshot(jobs=[job], running=[make_running(job, [100], since=NOW)]))
    for _ in range(5):
        engine.facts.put_job(job)
        engine.outcomes()
    alarms = engine.admission._alarms
    assert alarms.pop() == (NOW + 3_600, 1)
    assert alarms.first is None
