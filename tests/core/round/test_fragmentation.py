"""How fragmented a cluster is: what counts as idle, and what is said to fragment it."""

from __future__ import annotations

import pytest

from scheduler.core.fitting.fragmentation import Ask, Cause
from scheduler.core.model.snapshot import Task
from scheduler.core.model.task_kind import TaskKind
from scheduler.core.round.fragmentation import NodeFragments, cluster_fragments
from tests.builders import make_job, make_node, make_part, make_running, make_snapshot

ONE, FOUR = TaskKind(gpus=1, count=3), TaskKind(gpus=4, count=1)


def test_idle_gpus_that_are_too_few_together_are_fragments() -> None:
    # Two GPUs are idle on one node and four on the other; jobs of four, a quarter of all, can use only these.
    nodes = [make_node(1), make_node(2)]
    jobs = [make_job(1, 6), make_job(2, 4)]
    running = [make_running(jobs[0], range(100, 106)), make_running(jobs[1], range(200, 204))]
    found = cluster_fragments(make_snapshot(nodes=nodes, jobs=jobs, running=running), [ONE, FOUR])
    assert (found.idle, found.fragmented) == (6, 0.25 * 2)
    assert {cause: gpus for cause, gpus in found.causes.items() if gpus} == {Cause.GPUS: 0.5}
    assert found.nodes == (NodeFragments("node-0001", 2, 0.5), NodeFragments("node-0002", 4, 0))
    assert [(kind.ask, kind.frequency, kind.unusable) for kind in found.kinds] == [
        (Ask(1), 0.75, 0),
        (Ask(4), 0.25, 2),
    ]


def test_parts_cpus_and_models_count() -> None:
    # 0.7 of a GPU is left beside a part of 0.3, whole tasks cannot use it; and CPUs for one task alone.
    node = make_node(1, gpus=2, cpus=4.0)
    part = make_part(1, 0.3, cpus=1.0)
    snapshot = make_snapshot(nodes=[node], jobs=[part], running=[make_running(part, [100])])
    whole = cluster_fragments(snapshot, [TaskKind(gpus=1, cpus=3.0)])
    assert (whole.idle, whole.fragmented) == (pytest.approx(1.7), pytest.approx(0.7))
    hungry = cluster_fragments(snapshot, [TaskKind(gpus=1, cpus=3.5)])
    assert {cause: gpus for cause, gpus in hungry.causes.items() if gpus} == {Cause.CPUS: pytest.approx(1.7)}
    picky = cluster_fragments(snapshot, [TaskKind(gpus=1, gpu_models=("A100",))])
    assert {cause: gpus for cause, gpus in picky.causes.items() if gpus} == {Cause.MODEL: pytest.approx(1.7)}
    half = cluster_fragments(snapshot, [TaskKind(gpus=1, share=700)])
    assert half.fragmented == 0


def test_what_does_not_take_work_or_is_about_to_be_left_is_not_idle() -> None:
    nodes = [make_node(1, gpus=4, broken=[0]), make_node(2, schedulable=False)]
    leaving, coming = make_job(1, 1), make_job(2, 1)
    running = [
        make_running(leaving, [101], stopping=True),
        make_running(coming, [101], phase="planned"),
    ]
    found = cluster_fragments(make_snapshot(nodes=nodes, jobs=[leaving, coming], running=running), [ONE])
    assert (found.idle, found.fragmented) == (2, 0)


def test_without_a_workload_nothing_is_a_fragment() -> None:
    found = cluster_fragments(make_snapshot(), [])
    assert (found.idle, found.fragmented, found.kinds) == (8, 0, ())


def test_a_gang_counts_once_for_each_replica() -> None:
    pair = make_job(1, tasks=[Task(replicas=2, gpus=2, cpus=1.0)])
    found = cluster_fragments(
        make_snapshot(jobs=[pair], running=[make_running(pair, [[100, 101], [102, 103]])]), [FOUR]
    )
    assert (found.idle, found.fragmented) == (4, 0)
