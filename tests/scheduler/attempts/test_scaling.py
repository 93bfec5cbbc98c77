"""What an adaptive job's progress lines say of how it scales becomes a fact of a later round."""

import json

import pytest

from nodeagent.messages import PROTOCOL, PartReport, ProgressLine, Report
from scheduler.agents.services.reports import report_apply
from scheduler.core.goodput.batch import GoodputModel, Limits, Noise
from scheduler.core.goodput.throughput import Parameters, gradient_seconds, iteration_seconds
from scheduler.core.model.training import Goodput
from scheduler.jobs.attempts.services.scaling_facts import scaling_of_job
from scheduler.models import Attempt, JobScaling, Node
from scheduler.rounds.snapshot import read_snapshot
from scheduler.tasks import fit_scaling
from scheduler.wiring.clock import database_now
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node

pytestmark = pytest.mark.django_db

#: What the job is really like.
TRUTH = Parameters(0.1, 0.01, 0.4, 0.05, 0.2, 0.02, 1.0)
LIMITS = {"initial_batch": 64, "max_batch": 1024, "min_local_batch": 8, "max_local_batch": 128}


def said(replicas: int, local_batch: int, accumulation: int = 0, **values: float) -> dict[str, float]:
    """Return what a job of those parameters says on one node."""
    return {
        **LIMITS,
        "batch_size": replicas * local_batch * (accumulation + 1),
        "local_batch": local_batch,
        "accumulation": accumulation,
        "gradient_seconds": float(gradient_seconds(TRUTH, local_batch)),
        "iteration_seconds": float(iteration_seconds(TRUTH, 1, replicas, local_batch, accumulation)),
        "timed_iterations": 50,
        "grad_sqr": 1.0,
        "grad_var": 4.0,
        "lr_factor": 1.5,
        **values,
    }


def report(node: Node, attempt: Attempt, *lines: dict[str, float]) -> None:
    first = attempt.progress.count() + 1
    told = tuple(
        ProgressLine(sequence=first + place, at=1_700_000_000.0 + first + place, step=first, values=values)
        for place, values in enumerate(lines)
    )
    part = PartReport(attempt=attempt.id, state="running", progress=told)
    report_apply(node, Report(protocol=PROTOCOL, boot=node.boot, generation=0, parts=(part,)))


def goodput(attempt: Attempt) -> Goodput | None:
    return next(job.goodput for job in read_snapshot(1).jobs if job.id == attempt.job_id)


@pytest.fixture
def node() -> Node:
    return make_node()


def alone(node: Node, *, first: int = 0, replicas: int = 1) -> Attempt:
    return make_attempt(make_job(replicas=replicas), gpus_of(node)[first : first + replicas])


def test_times_are_fitted_by_a_task_and_told_to_the_next_round(node) -> None:
    attempt = alone(node, replicas=4)
    report(node, attempt, said(4, 16), said(4, 32), said(4, 64, 1))
    assert goodput(attempt) is None, "nothing was fitted yet"
    fit_scaling()
    found = goodput(attempt)
    assert found is not None
    assert (found.noise, found.most_replicas) == ((1.0, 4.0), 4)
    limits = (found.initial_batch, found.max_batch, found.min_local_batch, found.max_local_batch)
    assert limits == (64, 1024, 8, 128)
    model = GoodputModel(
        Parameters(*found.parameters["V100"]),
        Noise(*found.noise),
        Limits(initial_batch=64, max_batch=1024, min_local_batch=8, max_local_batch=128),
    )
    # On what it ran on, as it ran.
    truth = 4 * 64 * 2 / float(iteration_seconds(TRUTH, 1, 4, 64, 1))
    assert float(model.goodput(1, 4, 64, 1)) == pytest.approx(truth * (4 + 1) / (4 + 512 / 64), rel=0.02)


def test_a_fit_is_made_again_only_when_enough_is_new(node) -> None:
    attempt = alone(node, replicas=2)
    report(node, attempt, said(2, 32))
    fit_scaling()
    row = JobScaling.objects.get()
    first = row.fitted_at
    report(node, attempt, said(2, 32, gradient_seconds=said(2, 32)["gradient_seconds"] * 1.01))
    row.refresh_from_db()
    assert (row.sequence, row.is_fit_due, row.fitted_at) == (2, False, first)
    report(node, attempt, said(2, 64))
    row.refresh_from_db()
    assert row.is_fit_due
    fit_scaling()
    row.refresh_from_db()
    assert not row.is_fit_due
    assert row.fitted_at > first


def test_one_whose_times_cannot_be_read_keeps_no_other_from_its_fit(node) -> None:
    broken, sound = alone(node), alone(node, first=1)
    for attempt in (broken, sound):
        report(node, attempt, said(1, 64))
    JobScaling.objects.filter(job=broken.job).update(times=7)
    fit_scaling()
    assert [row.is_fit_due for row in JobScaling.objects.order_by("job_id")] == [True, False]


def test_what_was_measured_in_one_attempt_is_known_in_the_next(node) -> None:
    attempt = alone(node)
    report(node, attempt, said(1, 64))
    ended = {"state": "ended", "outcome": "preempted", "ended_at": database_now()}
    Attempt.objects.filter(id=attempt.id).update(**ended)
    attempt.job.spec["tasks"][0]["replicas"] = 2
    larger = make_attempt(attempt.job, gpus_of(node)[1:3])
    report(node, larger, said(2, 32))
    row = JobScaling.objects.get()
    assert [way[:5] for way in row.times] == [["V100", 1, 1, 64, 0], ["V100", 1, 2, 32, 0]]
    assert row.most_replicas == 2
    assert row.batch == [64, 32, 0, 1.5]


def test_times_beside_another_job_on_the_same_gpus_count_for_nothing(node) -> None:
    attempt = alone(node)
    make_attempt(make_job(), gpus_of(node)[1:2])
    Attempt.objects.exclude(id=attempt.id).update(allocation_id=attempt.allocation_id)
    report(node, attempt, said(1, 64))
    row = JobScaling.objects.get()
    assert (row.times, row.most_replicas, row.is_fit_due) == ([], 0, False)


@pytest.mark.parametrize(
    "wrong",
    [{"gradient_seconds": -1.0}, {"max_batch": 1.0}, {"grad_var": 1e300}, {"local_batch": 0.5}],
    ids=str,
)
def test_a_hostile_line_changes_nothing_and_hinders_nobody(node, wrong) -> None:
    attempt = alone(node)
    report(node, attempt, said(1, 64))
    before = JobScaling.objects.values().get()
    report(node, attempt, said(1, 128) | wrong)
    assert JobScaling.objects.values().get() == before
    report(node, attempt, said(1, 128))
    assert len(JobScaling.objects.get().times) == 2
    fit_scaling()
    assert goodput(attempt) is not None


def test_a_noise_scale_beyond_all_numbers_is_unknown(node) -> None:
    attempt = alone(node)
    report(node, attempt, said(1, 16, grad_sqr=1e-300, grad_var=1e30))
    now = scaling_of_job(attempt.job)["now"]
    assert now["noise_scale"] is None
    assert json.dumps(now, allow_nan=False)


def test_a_repeated_report_changes_nothing(node) -> None:
    attempt = alone(node)
    line = ProgressLine(sequence=1, at=1_700_000_000.0, step=1, values=said(1, 64))
    part = PartReport(attempt=attempt.id, state="running", progress=(line,))
    for _ in range(2):
        report_apply(node, Report(protocol=PROTOCOL, boot=node.boot, generation=0, parts=(part,)))
    assert JobScaling.objects.get().times[0][-1] == 50


def test_jobs_that_are_not_adaptive_and_trial_runs_cost_no_row(node) -> None:
    report(node, alone(node), {"loss": 2.0, "batch_size": 64, "epoch": 1})
    trial = alone(node, first=1)
    Attempt.objects.filter(id=trial.id).update(is_trial=True)
    report(node, trial, said(1, 64))
    assert JobScaling.objects.count() == 0


def test_speeds_known_otherwise_tell_how_it_scales_where_it_never_ran(node) -> None:
    attempt = alone(node)
    attempt.job.shape["throughput"] = {"V100": 10.0, "K80": 2.5}
    attempt.job.save()
    report(node, attempt, said(1, 32), said(1, 64))
    fit_scaling()
    found = goodput(attempt)
    assert found is not None
    here, there = found.parameters["V100"], found.parameters["K80"]
    assert there[:6] == pytest.approx([4 * value for value in here[:6]])
    assert there[6] == here[6]
