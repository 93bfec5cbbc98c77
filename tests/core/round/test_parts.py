"""Parts of GPUs in a round: who shares with whom, what is never overcommitted, what guarantees make of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.core.model.codec import dumps_snapshot, loads_snapshot
from scheduler.core.model.errors import PlanError
from scheduler.core.model.plan import Action, ActionKind, Placement, Plan
from scheduler.core.model.snapshot import GpuId, Job, Node, Snapshot, Tenant
from scheduler.core.round.checks.plan import check
from scheduler.core.round.decide import decide
from tests.builders import (
    make_cluster,
    make_job,
    make_node,
    make_part,
    make_running,
    make_snapshot,
    make_virtual_cluster,
)
from tests.core.worlds_in_cells import hardware_of, in_cells, owning

GIB = 1024**3


def with_memory(node: Node, gib: int = 16) -> Node:
    return replace(node, gpus=tuple(replace(gpu, memory_bytes=gib * GIB) for gpu in node.gpus))


def one_node(gpus: int = 2, gib: int = 16, **fields: Any) -> tuple[Node, ...]:
    return (with_memory(make_node(1, gpus=gpus, **fields), gib),)


def world(*jobs: Job, nodes: tuple[Node, ...] | None = None, guaranteed: int = 8, **fields: Any) -> Snapshot:
    fields.setdefault("virtual_clusters", (make_virtual_cluster(guaranteed={"V100": guaranteed}),))
    return make_snapshot(nodes=one_node() if nodes is None else nodes, jobs=jobs, **fields)


def places(plan: Plan) -> dict[int, tuple[int, ...]]:
    """Return the GPUs of each job that starts."""
    return {
        job: tuple(gpu for replica in action.placement.replicas for gpu in replica)
        for action in plan.actions
        if action.placement is not None
        for job in action.jobs
    }


def test_parts_share_a_gpu_before_another_is_opened() -> None:
    plan = decide(world(make_part(1, 0.3), make_part(2, 0.7), make_part(3, 0.5)))
    assert places(plan) == {1: (100,), 2: (100,), 3: (101,)}


def test_the_gpu_on_which_least_is_left_is_chosen() -> None:
    jobs = make_part(1, 0.5), make_part(2, 0.7), make_part(3, 0.3)
    running = make_running(jobs[0], [100]), make_running(jobs[1], [101])
    assert places(decide(world(*jobs, running=running))) == {3: (101,)}


def test_whole_gpus_and_parts_never_mix() -> None:
    whole, part = make_job(1), make_part(2, 0.1)
    plan = decide(world(whole, part, make_part(3, 0.1), running=(make_running(whole, [100]),)))
    assert places(plan) == {2: (101,), 3: (101,)}
    # Nor does a whole job come where a part is.
    plan = decide(world(part, make_job(4, gpus=2), running=(make_running(part, [101]),)))
    assert places(plan) == {}


def test_device_memory_is_never_overcommitted() -> None:
    jobs = [make_part(number, 0.1, memory_bytes=6 * GIB) for number in (1, 2, 3)]
    assert places(decide(world(*jobs))) == {1: (100,), 2: (100,), 3: (101,)}
    # Left out it is in proportion: 0.5 of 16 GiB beside 9 GiB is too much.
    jobs = [make_part(1, 0.5), make_part(2, 0.1, memory_bytes=9 * GIB)]
    assert places(decide(world(*jobs))) == {1: (100,), 2: (101,)}
    # Of a device whose memory nobody knows it is not counted.
    jobs = [make_part(number, 0.1, memory_bytes=900 * GIB) for number in (1, 2)]
    assert places(decide(world(*jobs, nodes=one_node(gib=0)))) == {1: (100,), 2: (100,)}


def test_a_part_that_no_device_has_memory_for_never_fits() -> None:
    (reason,) = decide(world(make_part(1, 0.1, memory_bytes=17 * GIB))).reasons[1]
    assert (reason.code, reason.tier) == ("exceeds_gpu_memory", "never")


def test_replicas_of_a_gang_have_a_gpu_each() -> None:
    plan = decide(world(make_part(1, 0.25, replicas=2), make_part(2, 0.25, replicas=2)))
    assert places(plan) == {1: (100, 101), 2: (100, 101)}
    (reason,) = decide(world(make_part(1, 0.25, replicas=3))).reasons[1]
    assert reason.code == "exceeds_cluster"


@pytest.mark.parametrize(
    ("first", "second", "joins"),
    [
        ({"exclusion": "a"}, {"exclusion": "a"}, True),
        ({"exclusion": "a"}, {"exclusion": "b"}, False),
        ({"exclusion": "a"}, None, False),
        (None, {"exclusion": "a"}, False),
        ({"anti_affinity": "a"}, {"anti_affinity": "a"}, False),
        ({"anti_affinity": "a"}, {"anti_affinity": "b"}, True),
        ({"affinity": "a"}, {"affinity": "a"}, True),
        ({"affinity": "a"}, {"affinity": "b"}, False),
        ({"affinity": "a"}, None, True),
    ],
)
def test_labels_say_who_joins_whom(
    first: dict[str, str] | None, second: dict[str, str] | None, joins: bool
) -> None:
    plan = decide(world(make_part(1, 0.4, labels=first), make_part(2, 0.4, labels=second)))
    assert places(plan) == {1: (100,), 2: (100,) if joins else (101,)}


def test_a_job_that_a_label_keeps_out_is_told_which() -> None:
    # Eight halves with an exclusion label have all devices, and half of each is free (alnair, issue 80).
    labelled = [make_part(number, 0.5, labels={"exclusion": "a"}) for number in (1, 2)]
    running = [make_running(job, [99 + job.id]) for job in labelled]
    reason, *_ = decide(world(*labelled, make_part(3, 0.4), running=running)).reasons[3]
    assert reason.code == "sharing_label"
    assert reason.blocking == {"label": "exclusion a"}
    assert "exclusion a" in reason.message


def test_affinity_waits_for_room_where_its_label_is() -> None:
    jobs = [make_part(number, 0.7, labels={"affinity": "a"}) for number in (1, 2)]
    plan = decide(world(*jobs, running=(make_running(jobs[0], [100]),)))
    assert places(plan) == {}
    reason, *_ = plan.reasons[2]
    assert reason.code == "no_part_left"


def test_a_gpu_counts_once_for_a_guarantee_however_many_have_parts_of_it() -> None:
    jobs = [make_part(number, 0.4) for number in (1, 2, 3)]
    plan = decide(world(*jobs, guaranteed=1))
    assert places(plan) == {1: (100,), 2: (100,)}
    reason, *_ = plan.reasons[3]
    assert reason.code == "vc_guarantee_in_use"


@pytest.mark.parametrize(
    ("amount", "labels", "code"),
    [(0.5, {"exclusion": "a"}, "vc_guarantee_in_use"), (0.2, {"exclusion": "b"}, "sharing_label")],
)
def test_a_part_waits_also_where_other_models_are_in_cells_of_others(
    amount: float, labels: dict[str, str], code: str
) -> None:
    """It accepts any model, its own are taken, and of the one in cells its virtual cluster has none."""
    nodes = (*one_node(1), with_memory(make_node(2, gpus=2, gpu_model="P100")))
    clusters = make_virtual_cluster("products", {}), make_virtual_cluster("research", {"V100": 1})
    taken, waits = make_part(1, 0.8, labels={"exclusion": "a"}), make_part(2, amount, labels=labels)
    facts = world(taken, waits, nodes=nodes, virtual_clusters=clusters, running=[make_running(taken, [100])])
    cells = owning(hardware_of([nodes[1]]), {"products": {"P100-2-NODE": 1}})
    plan = decide(in_cells(facts, cells))
    assert places(plan) == {}
    assert plan.reasons[2][0].code == code


def test_a_part_never_starts_where_all_that_is_guaranteed_is_cells() -> None:
    """Another model, of which its virtual cluster is guaranteed nothing, is no hope."""
    nodes = (*one_node(1), with_memory(make_node(2, gpus=2, gpu_model="P100")))
    job = make_part(1, 0.3, virtual_cluster="products")
    facts = world(job, nodes=nodes, virtual_clusters=[make_virtual_cluster("products", {})])
    cells = owning(hardware_of([nodes[1]]), {"products": {"P100-2-NODE": 1}})
    plan = decide(in_cells(facts, cells))
    assert places(plan) == {}
    reason, *_ = plan.reasons[1]
    assert (reason.code, reason.tier.value) == ("no_parts_in_cells", "never")
    assert reason.message.startswith("P100 are guaranteed by cells")


def test_a_guarantee_reclaims_parts_and_whole_gpus() -> None:
    guests = [make_part(number, 0.5, guaranteed=False) for number in (1, 2)]
    running = [make_running(job, [100]) for job in guests]
    # Half a GPU: one guest is enough.
    plan = decide(world(*guests, make_part(3, 0.5), nodes=one_node(1), running=running))
    assert [action.jobs for action in plan.actions if action.kind is ActionKind.STOP] in ([(1,)], [(2,)])
    assert places(plan) == {3: (100,)}
    # A whole GPU: both go.
    plan = decide(world(*guests, make_job(3), nodes=one_node(1), running=running))
    assert sorted(action.jobs for action in plan.actions if action.kind is ActionKind.STOP) == [(1,), (2,)]
    # What a guaranteed part leaves, an opportunistic one may have.
    host = make_part(4, 0.5)
    guest = make_part(5, 0.5, guaranteed=False)
    plan = decide(world(host, guest, nodes=one_node(1), running=(make_running(host, [100]),)))
    assert places(plan) == {5: (100,)}


def test_a_successor_with_a_part_is_not_stale_while_others_stay() -> None:
    stays, leaves, comes = make_part(1, 0.5), make_part(2, 0.5), make_part(3, 0.5)
    running = (
        make_running(stays, [100]),
        make_running(leaves, [100], stopping=True),
        make_running(comes, [100], phase="planned"),
    )
    snapshot = world(stays, leaves, comes, nodes=one_node(1), running=running)
    assert decide(snapshot).actions == ()
    # A third is one too many.
    late = make_part(4, 0.1)
    snapshot = replace(snapshot, jobs=(*snapshot.jobs, late))
    assert places(decide(snapshot)) == {}


def test_quotas_count_parts() -> None:
    tenants = (Tenant(name="vision", quota={"*": 1}),)
    plan = decide(world(*[make_part(number, 0.4) for number in (1, 2, 3)], tenants=tenants))
    assert places(plan) == {1: (100,), 2: (100,)}
    (reason,) = plan.reasons[3]
    assert reason.code == "quota"
    assert "0.8 are used" in reason.message


def test_a_virtual_cluster_may_never_share() -> None:
    clusters = (make_virtual_cluster(guaranteed={"V100": 8}, sharing="never"),)
    (reason,) = decide(world(make_part(1, 0.5), virtual_clusters=clusters)).reasons[1]
    assert (reason.code, reason.tier) == ("sharing_off", "never")


@pytest.mark.parametrize("gpu_model", ["H100-1g.10gb", "H100-1c.3g.40gb", "H100-mig"])
def test_parts_and_instances_of_divided_gpus_never_mix(gpu_model: str) -> None:
    instances = make_node(1, gpus=2, gpu_model=gpu_model)
    guaranteed = {gpu_model: 2, "H100": 2}
    clusters = (make_virtual_cluster(guaranteed=guaranteed),)
    part, whole = make_part(1, 0.5, guaranteed=False), make_job(2, 1, gpu_models=(gpu_model,))
    named = make_part(3, 0.5, gpu_models=(gpu_model,))
    alone = world(part, whole, named, nodes=(instances,), virtual_clusters=clusters)
    plan = decide(alone)
    assert places(plan).keys() == {2}, "a whole instance is a device like any other"
    for job in (1, 3):
        (reason,) = plan.reasons[job]
        assert (reason.code, reason.tier) == ("no_parts_of_instances", "never")
        assert f"GPUs of {gpu_model} are instances of divided GPUs (MIG)" in reason.message
    # Beside whole devices those are taken, whatever is preferred.
    both = replace(alone, nodes=(instances, make_node(2, gpus=2, gpu_model="H100")))
    fast = replace(part, throughput={gpu_model: 9.0, "H100": 1.0})
    assert places(decide(replace(both, jobs=(fast, whole)))) == {1: (200,), 2: (100,)}
    placement = Placement(gpu_model=gpu_model, replicas=((GpuId(100),),))
    start = Action(kind=ActionKind.START, jobs=(part.id,), virtual_cluster="research", placement=placement)
    with pytest.raises(PlanError, match="which is a part already"):
        check(replace(alone, jobs=(part,)), Plan(round_number=1, actions=(start,)))


def test_the_check_finds_what_is_overcommitted() -> None:
    def started(*jobs: Job) -> Plan:
        placement = Placement(gpu_model="V100", replicas=((GpuId(100),),))
        return Plan(
            round_number=1,
            actions=tuple(
                Action(kind=ActionKind.START, jobs=(job.id,), virtual_cluster="research", placement=placement)
                for job in jobs
            ),
        )

    fitting = make_part(1, 0.5), make_part(2, 0.5)
    check(world(*fitting), started(*fitting))
    for wrong in (
        (make_part(1, 0.5), make_part(2, 0.501)),
        (make_part(1, 0.1, memory_bytes=9 * GIB), make_part(2, 0.1, memory_bytes=9 * GIB)),
        (make_part(1, 0.5), make_job(2)),
        (make_job(1), make_part(2, 0.5)),
    ):
        with pytest.raises(PlanError):
            check(world(*wrong), started(*wrong))


def test_a_stored_round_with_parts_reads_back() -> None:
    snapshot = world(make_part(1, 0.3, limit=0.6, memory_bytes=GIB, labels={"exclusion": "a"}))
    assert loads_snapshot(dumps_snapshot(snapshot)) == snapshot


def test_a_thousand_parts_are_packed_tightly() -> None:
    nodes = tuple(with_memory(node) for node in make_cluster(50))
    jobs = [make_part(number, 0.1 + number % 5 / 10) for number in range(1, 1_001)]
    plan = decide(world(*jobs, nodes=nodes, guaranteed=400))
    used: dict[int, int] = {}
    for job, gpus in places(plan).items():
        for gpu in gpus:
            used[gpu] = used.get(gpu, 0) + jobs[job - 1].milligpus
    assert max(used.values()) <= 1_000
    # 300 GPUs' worth of parts: best fit wastes little.
    assert len(places(plan)) == 1_000
    assert len(used) <= 320
