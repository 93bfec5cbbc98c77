"""Data sets that jobs read: where such jobs go, what storage they are never given, and why they wait."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.fitting.demand import Need, readings_of
from scheduler.core.fitting.storage import Reading, Storage, is_fast_enough, left_after, load, merged
from scheduler.core.model.codec import dumps_snapshot, loads_snapshot
from scheduler.core.model.data_sets import DataSet
from scheduler.core.model.errors import PlanError
from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.reason_kinds import Cause
from scheduler.core.model.reasons import REASONS
from scheduler.core.model.snapshot import Job, Node, NodeId, Running, Snapshot, Task
from scheduler.core.round.checks.plan import check
from scheduler.core.round.decide import decide
from scheduler.core.round.registry import PLACERS
from tests.builders import make_job, make_node, make_running, make_snapshot, make_virtual_cluster
from tests.core.sim.worlds import arrival, cluster, ends, simulate
from tests.core.worlds import part

GIB = 2**30
#: Who takes none of the equal nodes by their order: at random, or the emptiest.
TASTES_OF_THEIR_OWN = {"random", "spread"}


def imagenet(bandwidth: float = 0.0) -> DataSet:
    return DataSet(name="imagenet", size_bytes=140 * GIB, bandwidth=bandwidth)


def words(bandwidth: float = 0.0) -> DataSet:
    return DataSet(name="words", size_bytes=20 * GIB, bandwidth=bandwidth)


def node(number: int, bandwidth: float = 0.0, cache: int = 0, **fields: Any) -> Node:
    return make_node(number, storage_bandwidth=bandwidth, cache_bytes=cache, **fields)


def facts(
    jobs: Sequence[Job], nodes: Sequence[Node], running: Sequence[Running] = (), placer: str = "consolidate"
) -> Snapshot:
    guaranteed = {"V100": sum(len(each.gpus) for each in nodes)}
    return make_snapshot(
        nodes=nodes,
        jobs=jobs,
        running=running,
        virtual_clusters=[
            make_virtual_cluster(guaranteed=guaranteed, tenants=("speech", "vision"), placer=placer)
        ],
    )


def places(plan: Plan) -> dict[int, set[int]]:
    """Return the nodes of those who are started: GPU 312 is of node 3."""
    return {
        action.jobs[0]: {gpu // 100 for gpu in action.placement.gpus}
        for action in plan.actions
        if action.placement is not None
    }


def on(job: Job, number: int, first: int = 0) -> Running:
    return make_running(job, [[100 * number + first + index for index in range(job.gpus)]])


THREE = [node(number) for number in (1, 2, 3)]


@pytest.mark.parametrize("placer", sorted(PLACERS.keys() - TASTES_OF_THEIR_OWN))
def test_of_nodes_alike_one_where_its_data_set_is_read_is_taken(placer: str) -> None:
    others = [make_job(number, 2, data=data) for number, data in ((1, words()), (2, imagenet()), (3, None))]
    running = [on(other, other.id) for other in others]
    new = make_job(4, 2, data=imagenet())
    assert places(decide(facts([*others, new], THREE, running, placer))) == {4: {2}}
    unread = replace(new, data=None)
    first = places(decide(facts([*others, unread], THREE, running, placer)))
    assert first != {4: {2}}, "without its data set it goes elsewhere, so that this shows something"


def test_a_gang_over_several_nodes_takes_those_where_its_data_set_is_read() -> None:
    nodes = [node(number) for number in (1, 2, 3, 4)]
    others = [make_job(number, 4, data=imagenet() if number > 2 else None) for number in (1, 2, 3, 4)]
    gang = make_job(5, tasks=[Task(replicas=2, gpus=4)], data=imagenet())
    plan = decide(facts([*others, gang], nodes, [on(other, other.id) for other in others]))
    assert places(plan) == {5: {3, 4}}


def test_a_tighter_fit_counts_for_more_than_a_data_set() -> None:
    reader, other = make_job(1, 2, data=imagenet()), make_job(2, 6)
    new = make_job(3, 2, data=imagenet())
    plan = decide(facts([reader, other, new], THREE[:2], [on(reader, 1), on(other, 2)]))
    assert places(plan) == {3: {2}}


def test_the_same_name_is_another_data_set_of_another_tenant() -> None:
    other = make_job(1, 2, tenant="speech", data=imagenet())
    filler = make_job(2, 2)
    new = make_job(3, 2, data=imagenet())
    snapshot = facts([other, filler, new], THREE[:2], [on(filler, 1), on(other, 2)])
    assert places(decide(snapshot)) == {3: {1}}


@pytest.mark.parametrize("placer", sorted(PLACERS))
def test_the_replicas_of_a_gang_count_together_also_where_the_cache_holds_what_they_read(placer: str) -> None:
    """Three that read 2 bytes a second each do not fit onto a storage of 4; one of 6 will do."""
    gang = make_job(1, tasks=[Task(replicas=3, gpus=1)], data=DataSet(name="a", size_bytes=10, bandwidth=2.0))
    plan = decide(facts([gang], [node(1, 4.0, cache=50), node(2, 6.0, cache=50)], placer=placer))
    assert not plan.degraded
    assert 2 in places(plan)[1]


@pytest.mark.parametrize("placer", sorted(PLACERS))
def test_what_a_leaving_job_reads_is_not_shared_with_one_that_comes(placer: str) -> None:
    """A guaranteed job needs the storage of an opportunistic one. Another that reads the same has no room,
    though nothing is added while that one is still there."""
    old, new = (
        make_job(number, 1, data=DataSet(name="b", size_bytes=10, bandwidth=1.0), guaranteed=False)
        for number in (1, 2)
    )
    claims = make_job(3, 1, data=DataSet(name="a", size_bytes=10, bandwidth=3.5))
    snapshot = facts([old, new, claims], [node(1, 4.0, cache=50)], [on(old, 1)], placer)
    plan = decide(replace(snapshot, spare_placer=placer))
    assert not plan.degraded
    assert places(plan) == {3: {1}}
    assert [action.jobs for action in plan.actions if action.kind is ActionKind.STOP] == [(1,)]


def test_a_job_goes_where_the_storage_is_fast_enough_for_it() -> None:
    reader = make_job(1, 4, data=words(bandwidth=300.0))
    new = make_job(2, 2, data=imagenet(bandwidth=300.0))
    nodes = [node(1, 500.0), node(2, 500.0)]
    assert places(decide(facts([reader, new], nodes, [on(reader, 1)]))) == {2: {2}}
    slow = replace(new, data=imagenet(bandwidth=200.0))
    assert places(decide(facts([reader, slow], nodes, [on(reader, 1)]))) == {2: {1}}


def test_it_waits_where_none_is_and_the_reason_names_storage() -> None:
    reader = make_job(1, 2, data=words(bandwidth=300.0))
    new = make_job(2, 2, data=imagenet(bandwidth=300.0 * 2**20))
    plan = decide(facts([reader, new], [node(1, 500.0 * 2**20)], [on(reader, 1)]))
    assert places(plan) == {2: {1}}
    busy = replace(reader, data=words(bandwidth=300.0 * 2**20))
    plan = decide(facts([busy, new], [node(1, 500.0 * 2**20)], [on(busy, 1)]))
    assert places(plan) == {}
    reason = plan.reasons[new.id][0]
    assert reason.code == "storage_bandwidth"
    assert "one replica reads 300 MiB/s of its data set imagenet" in reason.message
    assert REASONS[reason.code].cause is Cause.FRAGMENTATION


def test_two_that_start_at_once_do_not_get_more_than_there_is() -> None:
    jobs = [
        make_job(number, 2, data=DataSet(name=f"d{number}", size_bytes=1, bandwidth=6.0)) for number in (1, 2)
    ]
    plan = decide(facts(jobs, [node(1, 10.0)]))
    assert len(places(plan)) == 1
    plan = decide(facts(jobs, [node(1, 10.0), node(2, 10.0)]))
    assert places(plan) == {1: {1}, 2: {2}}


def test_the_check_counts_storage_again() -> None:
    """A plan for fast storage is refused where the same nodes have slow storage, or a smaller cache."""
    jobs = [make_job(number, 2, data=imagenet(bandwidth=400.0)) for number in (1, 2)]
    snapshot = facts(jobs, [node(1, 500.0, cache=150 * GIB)])
    plan = decide(snapshot)
    assert len(places(plan)) == 2
    check(snapshot, plan)
    with pytest.raises(PlanError, match="node node-0001 would read 400 bytes a second, of 300"):
        check(replace(snapshot, nodes=(node(1, 300.0, cache=150 * GIB),)), plan)
    with pytest.raises(PlanError, match="would read 800 bytes a second, of 500"):
        check(replace(snapshot, nodes=(node(1, 500.0, cache=100 * GIB),)), plan)
    check(replace(snapshot, nodes=(node(1, 0.0),)), plan)
    # Who reads there already, more than there is, is no new job's fault.
    resting = facts(jobs[:1], [node(1, 300.0)], [on(jobs[0], 1)])
    check(resting, decide(resting))


def test_jobs_that_read_the_same_share_the_cache_and_one_rate() -> None:
    jobs = [make_job(number, 2, data=imagenet(bandwidth=400.0)) for number in (1, 2, 3)]
    assert places(decide(facts(jobs, [node(1, 500.0, cache=150 * GIB)]))) == {1: {1}, 2: {1}, 3: {1}}
    assert len(places(decide(facts(jobs, [node(1, 500.0, cache=100 * GIB)])))) == 1


def test_who_says_no_rate_may_not_push_the_data_of_others_out_of_the_cache() -> None:
    readers = [make_job(number, 2, data=imagenet(bandwidth=400.0)) for number in (1, 2)]
    new = make_job(3, 2, data=words())
    running = [on(readers[0], 1), on(readers[1], 1, first=2)]
    roomy = [node(1, 500.0, cache=160 * GIB)]
    assert places(decide(facts([*readers, new], roomy, running))) == {3: {1}}
    plan = decide(facts([*readers, new], [node(1, 500.0, cache=150 * GIB)], running))
    assert places(plan) == {}
    assert "their caches would be too small" in plan.reasons[new.id][0].message


def test_each_replica_counts_and_a_gang_spreads_for_bandwidth() -> None:
    gang = make_job(1, tasks=[Task(replicas=4, gpus=1)], data=imagenet(bandwidth=3.0))
    assert places(decide(facts([gang], [node(1, 6.0), node(2, 6.0)]))) == {1: {1, 2}}
    assert places(decide(facts([gang], [node(1, 12.0), node(2, 6.0)]))) == {1: {1}}
    assert decide(facts([gang], [node(1, 6.0)])).reasons[gang.id][0].code == "exceeds_packing"


def test_a_replica_that_no_storage_serves_is_refused() -> None:
    job = make_job(1, 1, data=imagenet(bandwidth=2.0 * GIB))
    reason = decide(facts([job], [node(1, 1.0 * GIB)])).reasons[job.id][0]
    assert reason.code == "exceeds_storage_bandwidth"
    assert "delivers at most 1 GiB/s" in reason.message
    assert places(decide(facts([job], [node(1)]))) == {1: {1}}, "a node that says nothing sets no limit"


def test_a_guaranteed_job_takes_bandwidth_back_from_an_opportunistic_one() -> None:
    first = make_job(1, 2, guaranteed=False, data=words(bandwidth=8.0))
    second = make_job(2, 2, guaranteed=False)
    new = make_job(3, 2, data=imagenet(bandwidth=8.0))
    plan = decide(facts([first, second, new], [node(1, 10.0)], [on(first, 1), on(second, 1, first=2)]))
    assert places(plan) == {3: {1}}
    stopped = [action.jobs for action in plan.actions if action.kind is ActionKind.STOP]
    assert stopped == [(1,)]


def test_parts_of_gpus_count_too() -> None:
    jobs = [
        make_job(number, tasks=[part(1, 300)], data=DataSet(name=f"d{number}", size_bytes=1, bandwidth=6.0))
        for number in (1, 2)
    ]
    assert len(places(decide(facts(jobs, [node(1, 10.0)])))) == 1
    assert len(places(decide(facts(jobs, [node(1, 12.0)])))) == 2


def test_jobs_without_data_are_placed_as_if_there_were_none() -> None:
    jobs = [make_job(number, size) for number, size in ((1, 2), (2, 4), (3, 8), (4, 1))]
    with_storage = [node(number, 10.0, cache=5) for number in (1, 2)]
    plain = [make_node(number) for number in (1, 2)]
    assert decide(facts(jobs, with_storage)).actions == decide(facts(jobs, plain)).actions
    assert readings_of(jobs[0]) == ()
    assert Need(1, 0.0, 0).readings == ()


def test_a_snapshot_stored_before_there_were_data_sets_reads_as_without() -> None:
    snapshot = facts([make_job(1, 2)], [make_node(1)])
    stored = json.loads(zlib.decompress(dumps_snapshot(snapshot)))
    del stored["jobs"][0]["data"], stored["nodes"][0]["storage_bandwidth"], stored["nodes"][0]["cache_bytes"]
    assert loads_snapshot(zlib.compress(json.dumps(stored).encode())) == snapshot


def test_a_snapshot_with_data_sets_reads_back_as_it_was() -> None:
    snapshot = facts([make_job(1, 2, data=imagenet(bandwidth=2.5))], [node(1, 1.5, cache=7)])
    assert loads_snapshot(dumps_snapshot(snapshot)) == snapshot


def test_the_simulator_keeps_to_the_storage_and_to_the_cache() -> None:
    """Two that read 6 of 10 bytes a second, one after the other; beside a cache that holds it, at once."""
    reading = DataSet(name="words", size_bytes=50, bandwidth=6.0)
    arrivals = [arrival(number, at=0.0, work_seconds=100.0, data=reading) for number in (1, 2)]
    ended = {cache: ends(simulate(cluster(nodes=[node(1, 10.0, cache)]), arrivals)) for cache in (0, 50)}
    assert ended == {0: {1: 100.0, 2: 200.0}, 50: {1: 100.0, 2: 100.0}}


# Whatever arrives, no storage is ever promised more than it delivers.

_BANDWIDTHS = st.sampled_from((0.0, 1.0, 2.0, 3.5))
_DATA = st.builds(
    DataSet, name=st.sampled_from("abc"), size_bytes=st.sampled_from((10, 40, 70)), bandwidth=_BANDWIDTHS
)
_JOBS = st.lists(
    st.tuples(st.none() | _DATA, st.integers(1, 3), st.sampled_from((1, 2)), st.booleans()),
    min_size=1,
    max_size=10,
)


def read_by_node(jobs: Iterable[Job], held: Iterable[Running]) -> dict[NodeId, list[Reading]]:
    """Return what each node reads, worked out from who is where alone."""
    known = {job.id: job for job in jobs}
    found: dict[NodeId, list[Reading]] = {}
    for running in held:
        for number in running.jobs:
            by_node: dict[NodeId, list[Reading]] = {}
            for replica in running.replicas:
                by_node.setdefault(NodeId(replica[0] // 100), []).extend(readings_of(known[number]))
            for where, readings in by_node.items():
                found.setdefault(where, []).extend(merged(readings))
    return found


@given(_JOBS, st.sampled_from(sorted(PLACERS)), st.sampled_from((0, 50, 200)))
def test_no_storage_is_promised_more_than_it_delivers(
    asked: list[tuple[DataSet | None, int, int, bool]], placer: str, cache: int
) -> None:
    nodes = [node(1, 4.0, cache, gpus=4), node(2, 6.0, cache, gpus=4), node(3, gpus=2)]
    jobs = [
        make_job(number, tasks=[Task(replicas=replicas, gpus=gpus)], data=data, guaranteed=guaranteed)
        for number, (data, replicas, gpus, guaranteed) in enumerate(asked, 1)
    ]
    running: list[Running] = []
    for upto in range(1, len(jobs) + 1):
        plan = decide(facts(jobs[:upto], nodes, running, placer))
        assert not plan.degraded, "a view that stands still promises nothing either"
        gone = {action.allocation for action in plan.actions if action.allocation is not None}
        running = [each for each in running if each.allocation not in gone]
        for action in plan.actions:
            if action.placement is not None:
                job = jobs[action.jobs[0] - 1]
                running.append(make_running(job, [list(replica) for replica in action.placement.replicas]))
        for where, readings in read_by_node(jobs, running).items():
            limit = nodes[where - 1].storage_bandwidth
            assert not limit or load(readings, cache) <= limit + 1e-6


_READINGS = st.lists(
    st.builds(Reading, st.sampled_from("abc"), st.integers(0, 60), st.floats(0, 10)), max_size=5
)


@given(_READINGS, _READINGS, st.integers(0, 120))
def test_who_leaves_never_adds_to_the_load(there: list[Reading], leaving: list[Reading], cache: int) -> None:
    assert load(there, cache) <= load([*there, *leaving], cache) + 1e-6
    assert sorted(left_after([*there, *leaving], leaving)) == sorted(there)


def test_a_storage_that_is_promised_too_much_still_takes_what_adds_nothing() -> None:
    there = [Reading("a", 10, 9.0), Reading("b", 10, 9.0)]
    slow = Storage(bandwidth=10.0, cache_bytes=50)
    assert is_fast_enough(slow, there, [Reading("a", 10, 5.0)])
    assert not is_fast_enough(slow, there, [Reading("c", 10, 1.0)])
