"""The platform finds out how fast a class of jobs is by its CPUs, while one of them runs."""

from datetime import timedelta
from typing import Any

import pytest

from nodeagent.messages import PROTOCOL, PartReport, ProgressLine, Report
from scheduler.agents.services.desired import desired_parts
from scheduler.agents.services.reports import report_apply
from scheduler.core.perf.cpu_trials import MOST_SECONDS
from scheduler.jobs.attempts.services.cpu_trials import cpus_settle
from scheduler.jobs.attempts.services.sensitivity import sensitivity_of_job
from scheduler.jobspec import parse
from scheduler.models import Attempt, CpuSensitivity, Job, Node
from scheduler.rounds.run import run_round
from scheduler.telemetry.throughputs.services.measuring import prune_measurements
from scheduler.wiring.clock import database_now
from tenants.errors import Invalid
from tests.scheduler.builders import make_job, make_node, make_tenant, make_vc

pytestmark = pytest.mark.django_db

NEEDED_CPUS = 6.0


@pytest.fixture
def owner() -> dict[str, Any]:
    tenant = make_tenant()
    return {"tenant": tenant, "virtual_cluster": make_vc(members=[tenant], guaranteed={"V100": 4})}


def machine(*, is_enforced: bool = True) -> Node:
    """Four GPUs, and three CPUs for each."""
    node: Node = make_node(gpus=4, cpus=12, memory_bytes=2**38)
    node.isolation = {"cpu": is_enforced}
    node.save()
    return node


def measured(**fields: Any) -> Job:
    """A job whose CPUs are measured; those of one name are of one class."""
    job: Job = make_job(**fields)
    said = {"gpu": 1, "cpu": "auto", "memory": "auto", "measure_cpu": True}
    stated = parse({"name": job.name, "command": ["true"], "resources": said})
    job.spec = {**job.spec, "tasks": stated.to_dict()["tasks"]}
    job.shape = {**job.shape, "tasks": stated.shape()["tasks"]}
    job.save()
    return job


def cpus_of(node: Node, job: Job) -> float:
    """Return what the node is to let its replica have."""
    return next(part.replicas[0].cpus for part in desired_parts(node) if part.job == job.id)


class Trainer:
    """A job that writes a line every two seconds: its input needs six CPUs."""

    def __init__(self, node: Node, job: Job) -> None:
        self.node, self.job, self.attempt = node, job, job.attempts.get()
        self.at, self.step, self.sequence = 1_700_000_000.0, 0.0, 0
        self.has: list[float] = []

    def runs(self, lines: int) -> None:
        for _ in range(lines):
            cpus = cpus_of(self.node, self.job)
            if self.has[-1:] != [cpus]:
                self.has.append(cpus)
            self.at, self.sequence = self.at + 2, self.sequence + 1
            self.step += 200 * min(cpus, NEEDED_CPUS)
            line = ProgressLine(
                sequence=self.sequence, at=self.at, step=int(self.step), samples=None, values={}
            )
            part = PartReport(attempt=self.attempt.id, state="running", progress=(line,))
            before = Job.objects.get(id=self.job.id).shape
            report_apply(
                self.node, Report(protocol=PROTOCOL, boot=self.node.boot, generation=0, parts=(part,))
            )
            if Job.objects.get(id=self.job.id).shape != before:
                run_round()


def test_it_is_tried_with_more_and_with_less_and_has_what_it_needs_then(owner: dict[str, Any]) -> None:
    node = machine()
    job = measured(name="decode", **owner)
    run_round()
    assert cpus_of(node, job) == 3.0
    trainer = Trainer(node, job)
    trainer.runs(60)
    known = CpuSensitivity.objects.get()
    assert known.is_over
    assert known.attempt is None
    # Its share, all of the node, a quarter of its share, then between them.
    assert trainer.has[:3] == [3.0, 12.0, 0.75]
    assert NEEDED_CPUS * 0.95 <= trainer.has[-1] <= NEEDED_CPUS * 1.25
    (task,) = sensitivity_of_job(job)["tasks"]
    assert task["measured"] == {"gpu_model": "V100", "trials": len(known.trials["rates"]), "is_over": True}
    assert task["now"]["speed"] / task["proportional"]["speed"] == pytest.approx(2.0, rel=0.1)


def test_the_next_of_its_class_has_that_with_its_first_line(owner: dict[str, Any]) -> None:
    node = machine()
    first = measured(name="decode", **owner)
    run_round()
    Trainer(node, first).runs(60)
    second = measured(name="decode", tenant=owner["tenant"], virtual_cluster=owner["virtual_cluster"])
    run_round()
    trainer = Trainer(node, second)
    trainer.runs(3)
    assert trainer.has[-1] == pytest.approx(6.0, rel=0.25), "what is left of twelve, and as much as it needs"
    assert CpuSensitivity.objects.count() == 1


def test_one_of_a_class_is_tried_at_a_time(owner: dict[str, Any]) -> None:
    node = machine()
    jobs = [measured(name="decode", **owner) for _ in range(2)]
    run_round()
    first, second = (Trainer(node, job) for job in jobs)
    first.runs(8)
    second.runs(3)
    assert first.has[:2] == [3.0, 9.0], "the rest of the node is the other's share"
    assert second.has == [3.0]


def test_where_no_limit_is_enforced_nothing_is_tried(owner: dict[str, Any]) -> None:
    node = machine(is_enforced=False)
    job = measured(name="decode", **owner)
    run_round()
    trainer = Trainer(node, job)
    trainer.runs(10)
    assert trainer.has == [3.0]
    assert sensitivity_of_job(job)["tasks"][0]["measured"] == {
        "gpu_model": "V100",
        "trials": 0,
        "is_over": False,
    }


def test_one_that_falls_silent_has_its_share_again(owner: dict[str, Any]) -> None:
    node = machine()
    job = measured(name="decode", **owner)
    run_round()
    Trainer(node, job).runs(8)
    assert cpus_of(node, job) != 3.0
    cpus_settle()
    run_round()
    assert cpus_of(node, job) != 3.0, "not yet"
    CpuSensitivity.objects.update(updated_at=database_now() - timedelta(seconds=MOST_SECONDS + 1))
    cpus_settle()
    run_round()
    assert cpus_of(node, job) == 3.0


def test_one_whose_time_is_up_leaves_its_class_to_the_next(owner: dict[str, Any]) -> None:
    node = machine()
    first = measured(name="decode", **owner)
    run_round()
    trainer = Trainer(node, first)
    trainer.runs(8)
    assert trainer.has[-1] != 3.0
    trainer.at += MOST_SECONDS
    trainer.runs(3)
    assert trainer.has[-1] == 3.0, "fewer than three trials make no curve"
    known = CpuSensitivity.objects.get()
    assert not known.is_over
    found = len(known.trials["rates"])
    assert found > 0
    Attempt.objects.filter(id=trainer.attempt.id).update(
        state="ended", outcome="succeeded", ended_at=database_now()
    )
    second = measured(name="decode", **owner)
    run_round()
    Trainer(node, second).runs(20)
    assert len(CpuSensitivity.objects.get().trials["rates"]) > found


def test_what_no_job_asks_for_is_forgotten(owner: dict[str, Any]) -> None:
    node = machine()
    job = measured(name="decode", **owner)
    run_round()
    Trainer(node, job).runs(2)
    prune_measurements()
    assert CpuSensitivity.objects.count() == 1
    CpuSensitivity.objects.update(updated_at=database_now() - timedelta(days=400))
    prune_measurements()
    assert CpuSensitivity.objects.count() == 0


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"resources": {"gpu": 1, "cpu": 4, "measure_cpu": True}}, "the task states an amount"),
        ({"sensitivity": {"cpu": {"3": 1}}}, "already states its speeds"),
        ({"replicas": 2}, "the task has 2 replicas"),
        ({"replicas": 2, "elastic": {"min_gpus": 1}}, "a number of replicas that changes"),
    ],
)
def test_what_cannot_be_measured_is_refused(fields: dict[str, Any], problem: str) -> None:
    resources = {"gpu": 1, "cpu": "auto", "measure_cpu": True}
    spec = {"name": "decode", "command": ["true"], "resources": resources, **fields}
    with pytest.raises(Invalid) as refused:
        parse(spec)
    assert any(problem in each.problem for each in refused.value.fields)
    assert all("measure_cpu" in each.field for each in refused.value.fields)
