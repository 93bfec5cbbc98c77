"""Trial runs: a gang gets its GPUs only when one replica of it has shown on one of them that it works."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from nodeagent.messages import PROTOCOL, PartReport, ProgressLine, Report
from scheduler.agents.services.desired import desired_parts
from scheduler.agents.services.reports import report_apply
from scheduler.core.model.codec import dumps_snapshot, loads_snapshot
from scheduler.core.model.plan import Action, ActionKind, Placement, Plan
from scheduler.jobs.attempts.services.hang_detection import end_trials
from scheduler.jobs.services.control import job_cancel
from scheduler.jobspec import parse
from scheduler.jobspec.spec import TRIAL_START_SECONDS
from scheduler.models import Attempt, Event, Job, Node
from scheduler.rounds.apply import apply_plan
from scheduler.rounds.snapshot import read_snapshot
from tests.scheduler.builders import gpus_of, make_job, make_node, make_tenant, make_vc

pytestmark = pytest.mark.django_db


@pytest.fixture
def node() -> Node:
    return make_node(gpus=8)


@pytest.fixture
def job(node: Node) -> Job:
    """A gang of 2 × 4 GPUs whose trial runs on one of them."""
    tenant = make_tenant()
    vc = make_vc(members=[tenant], guaranteed={"V100": 8})
    parsed = parse(
        {
            "name": "gang",
            "virtual_cluster": vc.name,
            "trial": {"seconds": "2m"},
            "topology": {"level": "node"},
            "replicas": 2,
            "gpus": 4,
            "command": ["true"],
        }
    )
    columns = {"spec": parsed.to_dict(), "shape": parsed.shape()}
    row = make_job(tenant=tenant, virtual_cluster=vc, replicas=2, gpus=4)
    Job.objects.filter(id=row.id).update(**columns)
    row.refresh_from_db()
    start(row, ((gpus_of(node)[0].id,),))
    report(row, "running")
    return row


def start(job: Job, replicas: tuple[tuple[int, ...], ...]) -> None:
    """Start it as a round would that sees what the snapshot says."""
    (seen,) = read_snapshot(9).jobs
    assert [task.gpus * task.replicas for task in seen.tasks] == [sum(map(len, replicas))]
    action = Action(
        kind=ActionKind.START,
        jobs=(job.id,),
        virtual_cluster=job.virtual_cluster.name,
        placement=Placement(gpu_model="V100", replicas=replicas),
    )
    assert apply_plan(read_snapshot(9), Plan(round_number=9, actions=(action,))).dropped == []


def report(job: Job, state: str, **fields: Any) -> None:
    """Let the node report on the job's only live attempt."""
    attempt = job.attempts.exclude(state="ended").get()
    part = PartReport(attempt=attempt.id, state=state, started_at=1.0, **fields)
    node = Node.objects.get()
    report_apply(node, Report(protocol=PROTOCOL, boot=node.boot, generation=0, parts=(part,)))
    job.refresh_from_db()


def stopped(job: Job) -> None:
    report(job, "exited", exit_code=143, category="stopped", message="It was asked to stop.")


def test_the_trial_is_one_replica_that_knows_what_it_is(job: Job, node: Node):
    (part,) = desired_parts(node)
    (replica,) = part.replicas
    assert (part.world_size, replica.rank, len(replica.gpu_indexes)) == (1, 0, 1)
    assert replica.env == {"ALLOT_TRIAL": "1"}
    assert (job.attempts.get().is_trial, job.gpus) == (True, 8)
    (seen,) = read_snapshot(9).jobs
    assert (seen.topology, seen.time_limit_seconds) == (None, 120 + TRIAL_START_SECONDS)
    # Forecasts know what comes after it.
    assert seen.trial is not None
    assert seen.trial.seconds == 120
    gang = seen.trial.gang
    assert (gang.gpus, gang.time_limit_seconds, gang.trial) == (8, job.time_limit_seconds, None)
    facts = read_snapshot(9)
    assert loads_snapshot(dumps_snapshot(facts)) == facts


@pytest.mark.parametrize("how", ["it comes to a step", "it runs for long enough", "it is done"])
def test_the_gang_waits_for_all_its_gpus_when_the_trial_went_well(job: Job, node: Node, how: str):
    end_trials()
    assert job.attempts.get().state == "running", "it has shown nothing yet"
    if how == "it is done":
        report(job, "exited", exit_code=0)
    else:
        if how == "it comes to a step":
            line = ProgressLine(sequence=1, at=timezone.now().timestamp(), step=1)
            report(job, "running", progress=(line,))
        else:
            Attempt.objects.update(running_at=timezone.now() - timedelta(seconds=121))
        end_trials()
        assert job.attempts.get().stop_cause == "trial_over"
        stopped(job)
    trial = job.attempts.get()
    assert (trial.outcome, trial.failure, trial.lost_seconds) == ("succeeded", "", None)
    assert (job.state, job.failures, job.preemptions, job.eligible_at) == ("queued", 0, 0, None)
    gpus = [gpu.id for gpu in gpus_of(node)]
    start(job, (tuple(gpus[:4]), tuple(gpus[4:])))
    report(job, "running")
    gang = job.attempts.get(number=2)
    (part,) = desired_parts(node)
    assert (gang.is_trial, part.world_size, [one.env for one in part.replicas]) == (False, 2, [{}, {}])
    end_trials()
    report(job, "exited", exit_code=0)
    assert job.state == "succeeded"


def test_a_user_error_in_the_trial_fails_the_job_before_it_had_its_gpus(job: Job):
    report(job, "exited", exit_code=1, category="user_error", message="KeyError: 'x'")
    assert (job.state, job.message) == ("failed", "In its trial run: KeyError: 'x'")
    assert Event.objects.get(kind="attempt.trial_failed").message == "KeyError: 'x'"


def test_a_trial_that_the_platform_broke_is_tried_again_as_a_trial(job: Job, node: Node):
    report(job, "exited", exit_code=1, category="network", message="NCCL error")
    assert (job.state, job.is_trial_due) == ("queued", True)
    start(job, ((gpus_of(node)[0].id,),))
    assert job.attempts.get(number=2).is_trial


def test_a_job_that_is_cancelled_in_its_trial_ends_whatever_the_trial_says(job: Job):
    job_cancel(job_id=job.id, actor="user ana")
    report(job, "exited", exit_code=0)
    assert job.state == "cancelled"
