"""What progress lines say of steps becomes the run time that the next round reckons with."""

import pytest

from nodeagent.messages import PROTOCOL, PartReport, ProgressLine, Report
from scheduler.agents.services.reports import report_apply
from scheduler.core.model import snapshot as core
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.workload import Truth
from scheduler.forecasts.services.run_time import run_time_of
from scheduler.models import Allocation, Attempt, Gpu, Job, Node
from scheduler.rounds.snapshot import read_snapshot
from scheduler.wiring.clock import database_now
from tests.scheduler.builders import (
    gpus_of,
    make_attempt,
    make_gpu_model,
    make_job,
    make_measurement,
    make_node,
    make_tenant,
    make_vc,
)
from tests.scheduler.rounds.virtual_clock import BEGINNING, VirtualClock

pytestmark = pytest.mark.django_db


def report(
    attempt: Attempt, *lines: tuple[float, int], first: int | None = None, state: str = "running"
) -> None:
    """Report lines, the first of that number: (seconds since the beginning, step of 1,000)."""
    node = Node.objects.get(parts__attempt=attempt)
    first = attempt.progress.count() + 1 if first is None else first
    told = tuple(
        ProgressLine(sequence=first + place, at=BEGINNING + at, step=step, values={"total_steps": 1_000.0})
        for place, (at, step) in enumerate(lines)
    )
    code = 143 if state == "exited" else None
    part = PartReport(attempt=attempt.id, state=state, progress=told, exit_code=code)
    report_apply(node, Report(protocol=PROTOCOL, boot=node.boot, generation=0, parts=(part,)))


def known(attempt: Attempt) -> core.Job:
    return next(job for job in read_snapshot(1).jobs if job.id == attempt.job_id)


@pytest.fixture(autouse=True)
def hints(monkeypatch) -> list[str]:
    """One entry for each early round that is asked for because a run time is known."""
    asked: list[str] = []
    monkeypatch.setattr(
        "scheduler.jobs.attempts.services.progress.request_round_on_commit", lambda: asked.append("round")
    )
    return asked


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def on_gpus(job: Job, gpus: list[Gpu]) -> Attempt:
    """Return an attempt that has its GPUs from now on."""
    attempt = make_attempt(job, gpus, starting_at=database_now())
    Allocation.objects.filter(id=attempt.allocation_id).update(held_at=database_now())
    return attempt


@pytest.fixture
def attempt(clock) -> Attempt:
    """It has had its two GPUs for 1,000 s, and comes to its first step now."""
    job = make_job(gpus=2, time_limit_seconds=1_200.0)
    job.shape |= {"estimate_seconds": 500}
    job.spec |= {"estimate": 500}
    job.save()
    attempt = on_gpus(job, gpus_of(make_node())[:2])
    clock.move_to(1_000)
    return attempt


def test_steps_overrule_what_was_declared(clock, attempt, hints) -> None:
    report(attempt, (1_000, 100))
    report(attempt, (1_059, 130))
    assert (known(attempt).estimate_seconds, known(attempt).measured) == (500.0, False)
    assert hints == []
    clock.move_to(1_060)
    report(attempt, (1_060, 220))
    # A step took half a second, and 780 are left.
    assert (known(attempt).estimate_seconds, known(attempt).measured) == (1_060 + 390, True)
    assert hints == ["round"]
    found = run_time_of(Job.objects.get(id=attempt.job_id))
    assert (found.declared_seconds, found.measured_seconds, found.gpu_model) == (500.0, 1_450.0, "")
    assert (found.differs, found.outlasts_limit) == (True, True)


def test_a_report_that_comes_twice_counts_once_and_a_counter_that_goes_back_for_nothing(attempt) -> None:
    for _ in range(2):
        report(attempt, (1_000, 0), (1_080, 100), first=1)
        assert known(attempt).measured
    # Before a line counts again, it is further than it was.
    report(attempt, (1_090, 1), (1_095, 120))
    assert not known(attempt).measured


def test_the_last_line_of_an_attempt_counts_and_the_next_begins_at_its_checkpoint(clock, attempt) -> None:
    report(attempt, (1_000, 0), (1_080, 160))
    report(attempt, (1_090, 180))
    Attempt.objects.filter(id=attempt.id).update(state="stopping", stop_cause="preempted")
    report(attempt, state="exited")
    # It waits, with 820 steps of half a second to do.
    assert known(attempt).estimate_seconds == 1_000 + 410
    again = on_gpus(Job.objects.get(id=attempt.job_id), gpus_of(make_node())[:2])
    clock.move_to(1_020)
    report(again, (1_020, 100))
    assert known(again).estimate_seconds == 1_020 + 450


def test_a_round_knows_the_same_as_in_the_simulator(clock) -> None:
    """The same job on the slower of two models, whose speeds are known."""
    tenant = make_tenant()
    vc = make_vc(members=[tenant], guaranteed={"K80": 1})
    job = make_job(tenant=tenant, virtual_cluster=vc, gpu_models=["K80"])
    make_gpu_model("V100")
    for model, speed in (("V100", 40.0), ("K80", 10.0)):
        make_measurement(tenant, f"name:{job.name}", speed, gpu_model=model)
    node = make_node(gpu_model="K80")
    facts = read_snapshot(1)

    engine = Engine(facts, (), Rules(tells_steps=True), truths={job.id: Truth(work_seconds=1_000.0)})
    engine.run(until=lambda engine: engine.now >= facts.now + 60)
    simulated = engine.round_engine.facts.jobs[job.id]

    attempt = on_gpus(job, gpus_of(node)[:1])
    report(attempt, (0, 0))
    clock.move_to(engine.now - BEGINNING)
    # The simulator knows no speeds here: a second of work takes one.
    report(attempt, (engine.now - BEGINNING, round(engine.now - BEGINNING)))
    assert known(attempt).estimate_seconds == simulated.estimate_seconds == pytest.approx(250)
    assert (known(attempt).measured, simulated.measured) == (True, True)
