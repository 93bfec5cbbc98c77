"""CPUs and memory that jobs leave to the platform: who has how much, and who waits for none of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.building_blocks.auxiliary_division import speed_with
from scheduler.core.model.auxiliary import GREEDY, PROPORTIONAL, TUNE, Auto, AuxiliaryShare, Sensitivity
from scheduler.core.model.codec import dumps_plan, dumps_snapshot, loads_plan, loads_snapshot
from scheduler.core.model.errors import PlanError
from scheduler.core.model.gpu_parts import GpuPart
from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import Job, JobId, Snapshot, Task
from scheduler.core.round.auxiliary import auxiliary_shares
from scheduler.core.round.checks.plan import check
from scheduler.core.round.decide import decide
from scheduler.core.round.facts import Facts
from tests.builders import make_job, make_node, make_running, make_snapshot, make_virtual_cluster
from tests.effort import examples

GIB = 2**30
#: With 9 CPUs for its GPU it is 2.5 times as fast as with the 3 that are its part; the other with 1 already.
IMAGES = Sensitivity(by_cpus=((3.0, 1.0), (9.0, 2.5)))
LANGUAGE = Sensitivity(by_cpus=((1.0, 1.0),))


def auto(number: int, sensitivity: Sensitivity | None = None, *, gpus: int = 1, **fields: Any) -> Job:
    task = Task(replicas=1, gpus=gpus, auto=Auto(sensitivity=sensitivity or Sensitivity()))
    fields.setdefault("tasks", (task,))
    return make_job(number, **fields)


def world(*jobs: Job, gpus: int = 8, nodes: int = 1, **fields: Any) -> Snapshot:
    """Nodes as in the paper: three CPUs and 62.5 GiB for each GPU."""
    fleet = [
        make_node(number, gpus=gpus, cpus=3.0 * gpus, memory_bytes=gpus * 125 * GIB // 2)
        for number in range(1, 1 + nodes)
    ]
    fields.setdefault("virtual_clusters", (make_virtual_cluster(guaranteed={"V100": gpus * nodes}),))
    return make_snapshot(nodes=fleet, jobs=jobs, **fields)


def cpus(plan: Plan) -> dict[int, list[float]]:
    return {job: [its for its, _ in share.replicas] for job, share in plan.shares.items()}


def test_who_says_nothing_of_its_needs_has_the_part_of_its_node_that_its_gpus_are() -> None:
    plan = decide(world(auto(1), auto(2, gpus=2)))
    assert plan.shares[JobId(1)] == AuxiliaryShare(
        replicas=((3.0, 125 * GIB // 2),), proportional=((3.0, 125 * GIB // 2),)
    )
    assert plan.shares[JobId(2)].replicas == ((6.0, 125 * GIB),)


def test_more_by_need_from_who_needs_less() -> None:
    """The paper's own example in small: with tune the one is 2.5 times as fast, and the other no slower."""
    jobs = [auto(1, IMAGES), auto(2, LANGUAGE), auto(3, LANGUAGE), auto(4, LANGUAGE)]
    plan = decide(world(*jobs, gpus=4))
    assert cpus(plan) == {1: [9.0], 2: [1.0], 3: [1.0], 4: [1.0]}
    assert [speed_with(job, plan.shares[job.id]) for job in jobs] == [2.5, 1.0, 1.0, 1.0]
    plan = decide(replace(world(*jobs, gpus=4), auxiliary=PROPORTIONAL))
    assert cpus(plan) == {1: [3.0], 2: [3.0], 3: [3.0], 4: [3.0]}


def test_mechanisms_differ_in_who_has_what_is_scarce() -> None:
    """Three on four GPUs, 12 CPUs: each is owed 3, of the other 3 there is not enough for all."""
    most, more = (Sensitivity(by_cpus=((3.0, 1.0), (cpus, 2.0))) for cpus in (6.0, 5.0))
    jobs = [auto(1, most), auto(2, more), auto(3)]
    assert cpus(decide(replace(world(*jobs, gpus=4), auxiliary=GREEDY))) == {1: [6.0], 2: [3.0], 3: [3.0]}
    # The first has all that it can use, until the third has to have what it is owed: who has most is cut.
    assert cpus(decide(replace(world(*jobs, gpus=4), auxiliary=TUNE))) == {1: [4.0], 2: [5.0], 3: [3.0]}


def test_nobody_waits_for_cpus_and_who_states_them_comes_first() -> None:
    """One job states 10 of 12 CPUs: the other is started all the same, and it is said why it has less."""
    greedy = make_job(1, tasks=(Task(replicas=1, gpus=1, cpus=10.0),))
    snapshot = world(greedy, auto(2, IMAGES), gpus=4)
    plan = decide(snapshot)
    assert {job for action in plan.actions for job in action.jobs} == {1, 2}
    share = plan.shares[JobId(2)]
    assert share.replicas[0][0] == 2.0
    assert share.message == (
        "Jobs that state what they need have more than their part of the CPUs of node node-0001: it has less"
        " than the part of it that its GPUs are."
    )
    # A part in what is left of them, not in what was never there.
    assert cpus(decide(world(greedy, auto(2), auto(3), gpus=4))) == {2: [1.0], 3: [1.0]}


def test_shares_change_while_jobs_run() -> None:
    """A second job comes to a node where the first has more than its part: it gives that back, and stays."""
    first, second = auto(1, IMAGES), auto(2, gpus=3)
    running = make_running(first, [100])
    assert cpus(decide(world(first, gpus=4, running=(running,)))) == {1: [9.0]}
    plan = decide(world(first, second, gpus=4, running=(running,)))
    assert [action.jobs for action in plan.actions] == [(2,)]
    assert cpus(plan) == {1: [3.0], 2: [9.0]}


def test_a_gang_over_nodes_is_as_fast_as_its_slowest_replica() -> None:
    """What one node could give beyond what the other can is of no use to it."""
    gang = auto(1, tasks=(Task(replicas=2, gpus=1, auto=Auto(memory=False, sensitivity=IMAGES)),))
    held = make_running(gang, [[100], [200]])
    stated = make_job(2, tasks=(Task(replicas=1, gpus=1, cpus=5.0),))
    snapshot = world(gang, stated, gpus=4, nodes=2, running=(held, make_running(stated, [201])))
    assert cpus(decide(snapshot)) == {1: [7.0, 7.0]}
    assert [memory for _, memory in decide(snapshot).shares[JobId(1)].replicas] == [0, 0]


def test_parts_of_gpus_and_turns() -> None:
    half = Task(replicas=1, gpus=1, part=GpuPart(request=500, limit=500), auto=Auto(memory=False))
    assert cpus(decide(world(auto(1, tasks=(half,)), gpus=4))) == {1: [1.5]}
    # Two that share a GPU have half of its CPUs and memory each; where they take turns, all of its CPUs.
    jobs = auto(1), auto(2)
    together = replace(make_running(jobs[0], [100]), jobs=(JobId(1), JobId(2)))
    for slice_seconds, each in ((None, 1.5), (60.0, 3.0)):
        running = replace(together, slice_seconds=slice_seconds)
        shares = auxiliary_shares(Facts(world(*jobs, gpus=4, running=(running,))), [], [])
        assert [share.replicas for share in shares.values()] == [((each, 125 * GIB // 4),)] * 2


def test_of_what_a_node_does_not_tell_nobody_has_a_share() -> None:
    plan = decide(make_snapshot(jobs=[auto(1, IMAGES)]))
    assert plan.shares[JobId(1)] == AuxiliaryShare(replicas=((0.0, 0),), proportional=((0.0, 0),))


def test_who_runs_does_not_depend_on_cpus() -> None:
    jobs = [auto(number, IMAGES) for number in range(1, 9)]
    for mechanism in (PROPORTIONAL, GREEDY, TUNE):
        plan = decide(replace(world(*jobs), auxiliary=mechanism))
        assert len(plan.shares) == 8


def test_a_round_is_decided_again_from_what_is_stored() -> None:
    snapshot = world(auto(1, IMAGES), auto(2, LANGUAGE))
    plan = decide(snapshot)
    assert loads_plan(dumps_plan(plan)) == plan
    assert decide(loads_snapshot(dumps_snapshot(snapshot))) == plan


def test_the_check_finds_what_is_given_twice_and_who_is_robbed() -> None:
    snapshot = world(auto(1, IMAGES), auto(2, IMAGES), gpus=4)
    plan = decide(snapshot)
    share = plan.shares[JobId(1)]
    more = replace(share, replicas=((12.0, 0),))
    with pytest.raises(PlanError, match="CPUs of node node-0001 are shared out, of 12"):
        check(snapshot, replace(plan, shares={**plan.shares, JobId(1): more}))
    less = replace(share, replicas=((2.0, share.replicas[0][1]),))
    with pytest.raises(PlanError, match="job 1 is slower than with its part"):
        check(snapshot, replace(plan, shares={**plan.shares, JobId(1): less}))
    two = replace(share, replicas=share.replicas * 2)
    with pytest.raises(PlanError, match="CPUs for 2 replicas of 1"):
        check(snapshot, replace(plan, shares={**plan.shares, JobId(1): two}))


def test_who_is_fastest_with_less_than_a_step_of_cpus_gets_the_next_whole_step() -> None:
    """It needs 0.41667 CPUs. With 0.416 it was slower than with its part, and the round was refused."""
    known = Sensitivity(by_cpus=((1.0, 3.0),), by_memory=((20.0 * GIB, 1.25),))
    for mechanism in (PROPORTIONAL, GREEDY, TUNE):
        share = decide(replace(world(auto(1, known)), auxiliary=mechanism)).shares[JobId(1)]
        assert share.replicas[0][0] == (3.0 if mechanism == PROPORTIONAL else 0.417)


curves = st.lists(
    st.tuples(st.floats(0.5, 40.0), st.floats(0.01, 10.0)), max_size=4, unique_by=lambda point: point[0]
).map(lambda points: tuple(zip(sorted(a for a, _ in points), sorted(s for _, s in points), strict=True)))


@st.composite
def gangs(draw: st.DrawFn, number: int) -> Job:
    by_memory = tuple((amount * GIB * 20, speed) for amount, speed in draw(curves))
    known = Sensitivity(by_cpus=draw(curves), by_memory=by_memory)
    task = Task(
        replicas=draw(st.integers(1, 4)),
        gpus=draw(st.sampled_from((1, 1, 2, 4))),
        auto=Auto(cpus=True, memory=draw(st.booleans()), sensitivity=known),
    )
    return make_job(number, tasks=(task,))


@settings(max_examples=examples(200), derandomize=True, deadline=None)
@given(
    st.lists(st.integers(1, 10_000), min_size=1, max_size=8, unique=True).flatmap(
        lambda numbers: st.tuples(*[gangs(number) for number in sorted(numbers)])
    ),
    st.sampled_from((PROPORTIONAL, GREEDY, TUNE)),
    st.sampled_from(("fifo", "srtf", "las", "tiresias", "fair")),
)
def test_nobody_is_below_its_proportional_speed(jobs: tuple[Job, ...], mechanism: str, policy: str) -> None:
    """In any round, under any mechanism and order, where nobody states more than its part."""
    vc = make_virtual_cluster(guaranteed={"V100": 16}, policy=policy)
    plan = decide(replace(world(*jobs, nodes=2, virtual_clusters=(vc,)), auxiliary=mechanism))
    assert set(plan.shares) == {job for action in plan.actions for job in action.jobs}
    by_id = {job.id: job for job in jobs}
    for job, share in plan.shares.items():
        assert speed_with(by_id[job], share) >= 1 - 1e-3
        assert not share.message
