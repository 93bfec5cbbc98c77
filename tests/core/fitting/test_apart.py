"""Replicas that must be apart: when the hardware is too small for them."""

from __future__ import annotations

import pytest

from scheduler.core.fitting.feasible import never_fits
from scheduler.core.model.gpu_parts import GpuPart
from scheduler.core.model.snapshot import Task
from scheduler.core.model.tag_constraints import TagConstraint
from tests.builders import make_cluster, make_job, make_snapshot

ALONE = TagConstraint(tag="web", most=0)
#: On two nodes.
TOO_MANY = {"tags": ("web",), "constraints": (ALONE,), "guaranteed": False}


@pytest.mark.parametrize(
    ("tasks", "fits"),
    [
        ([Task(replicas=2, gpus=1)], True),
        ([Task(replicas=3, gpus=1)], False),
        ([Task(replicas=2, gpus=1), Task(replicas=1, gpus=2)], False),
        # GPUs bound nothing where a replica has none, or a part of one.
        ([Task(replicas=3, gpus=0, cpus=1.0)], True),
        ([Task(replicas=1, gpus=1), Task(replicas=2, gpus=0, cpus=1.0)], True),
        ([Task(replicas=3, gpus=1, part=GpuPart(request=500, limit=500))], True),
    ],
    ids=str,
)
def test_any_kind_of_task_is_looked_at(tasks: list[Task], fits: bool) -> None:
    job = make_job(1, tasks=tasks, **TOO_MANY)
    reason = never_fits(job, make_snapshot(nodes=make_cluster(2), jobs=[job]))
    assert (reason is None or reason.code != "exceeds_constraint") == fits


def test_an_elastic_job_fits_where_its_fewest_replicas_do() -> None:
    elastic = make_job(1, 1, replicas=3, elastic=(2, 3), **TOO_MANY)
    assert never_fits(elastic, make_snapshot(nodes=make_cluster(2), jobs=[elastic])) is None
