"""Constraints between tags: every placer keeps to them, and medea lays out a batch together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from scheduler.core.model.errors import PlanError
from scheduler.core.model.plan import Placement, Tier
from scheduler.core.model.snapshot import Job, JobId, Running, Snapshot
from scheduler.core.model.tag_constraints import TagConstraint
from scheduler.core.round.checks.plan import check
from scheduler.core.round.decide import decide
from tests.builders import NOW, make_job, make_node, make_running
from tests.core.placers.cases import case, nodes_in, placed
from tests.core.worlds_in_cells import hardware_of, in_cells, owning

#: Two racks of two nodes with four GPUs each. Node n has the GPUs 100 n, ...
NODES = tuple(make_node(number, gpus=4, rack=f"rack-{(number + 1) // 2}") for number in range(1, 5))
ALONE = TagConstraint(tag="web", most=0)
BY_A_CACHE = TagConstraint(tag="cache", scope="rack", least=1)
PLACERS = ("consolidate", "spread", "medea")


def service(
    number: int, *tags: str, on: Sequence[TagConstraint] = (), replicas: int = 1, **fields: object
) -> Job:
    return make_job(number, replicas=replicas, tags=tags, constraints=tuple(on), **fields)  # type: ignore[arg-type]


def world(placer: str, jobs: Sequence[Job], running: Sequence[Running] = ()) -> Snapshot:
    return case(placer, NODES, jobs, running)


@pytest.mark.parametrize("placer", PLACERS)
def test_replicas_that_must_be_apart_are_on_nodes_of_their_own(placer: str) -> None:
    found = placed(world(placer, [service(1, "web", on=[ALONE], replicas=4)]))
    assert sorted(found[1]) == [1, 2, 3, 4]
    plan = decide(world(placer, [service(1, "web", on=[ALONE], replicas=5), make_job(2, 4)]))
    assert set(nodes_in(plan)) == {2}, "GPUs that it cannot use are others'"
    [reason] = plan.reasons[JobId(1)]
    assert (reason.code, reason.tier) == ("exceeds_constraint", Tier.NEVER)
    other = service(3, "web")
    plan = decide(
        world(placer, [service(1, "web", on=[ALONE], replicas=4), other], [make_running(other, [100])])
    )
    [reason] = plan.reasons[JobId(1)]
    assert (reason.code, reason.tier) == ("tag_constraint", Tier.TOPOLOGY)
    assert reason.message == (
        'Only 3 of its 4 replicas can be placed with no others with tag "web" on its node, as it must.'
    )
    assert reason.blocking == {"tag": "web", "scope": "node"}


@pytest.mark.parametrize("placer", PLACERS)
def test_those_that_run_count_and_are_heeded(placer: str) -> None:
    web = service(1, "web", on=[TagConstraint(tag="noisy", scope="rack", most=0)])
    noisy = service(2, "noisy", replicas=2)
    running = [make_running(web, [300])]
    assert set(placed(world(placer, [web, noisy], running))[2]) <= {1, 2}
    loud = replace(noisy, tasks=(replace(noisy.tasks[0], replicas=9),))
    [reason] = decide(world(placer, [web, loud], running)).reasons[JobId(2)]
    assert reason.message == (
        "Only 8 of its 9 replicas can be placed,"
        ' since job 1 must have no others with tag "noisy" in its rack.'
    )
    assert reason.blocking == {"tag": "noisy", "scope": "rack", "jobs": [1]}
    # Tags of another tenant are others.
    assert len(placed(world(placer, [web, replace(loud, tenant="speech")], running))[2]) == 9
    # And whoever has no tag is nobody's business.
    assert len(placed(world(placer, [web, replace(loud, tags=())], running))[2]) == 9


@pytest.mark.parametrize("placer", PLACERS)
def test_who_must_be_near_another_waits_for_it(placer: str) -> None:
    web = service(1, "web", on=[BY_A_CACHE])
    [reason] = decide(world(placer, [web])).reasons[JobId(1)]
    assert reason.message == (
        'It cannot be placed with at least 1 other with tag "cache" in its rack, as it must.'
    )
    cache = service(2, "cache")
    assert set(placed(world(placer, [web, cache], [make_running(cache, [400])]))[1]) <= {3, 4}


def test_the_worked_example_of_the_docs() -> None:
    """Each must be by the other, so that neither can come first; medea lets them come together."""
    web = service(1, "web", on=[ALONE, BY_A_CACHE], replicas=2)
    cache = service(2, "cache", on=[TagConstraint(tag="web", scope="rack", least=2)], gpus=3)
    blocker = make_job(3, 4)
    running = [make_running(blocker, range(100, 104))]
    one_by_one = decide(world("consolidate", [web, cache, blocker], running))
    assert not nodes_in(one_by_one)
    assert {one_by_one.reasons[JobId(job)][0].code for job in (1, 2)} == {"tag_constraint"}
    together = placed(world("medea", [web, cache, blocker], running))
    assert sorted(together[1]) == [3, 4]
    assert together[2][0] in {3, 4}


@pytest.mark.parametrize("placer", PLACERS)
def test_a_wish_is_met_where_it_can_be_and_makes_nobody_wait(placer: str) -> None:
    wish = replace(BY_A_CACHE, weight=1.0)
    web, cache = service(1, "web", on=[wish]), service(2, "cache")
    assert 1 in placed(world(placer, [web]))
    assert set(placed(world(placer, [web, cache], [make_running(cache, [400])]))[1]) <= {3, 4}
    crowd = make_job(3, 4, replicas=2)
    held = [make_running(crowd, [range(300, 304), range(400, 404)])]
    full = world(placer, [web, replace(cache, tasks=(replace(cache.tasks[0], gpus=4),)), crowd], held)
    assert 1 in placed(full)


@pytest.mark.parametrize("placer", PLACERS)
def test_those_that_run_stay_though_a_must_is_broken(placer: str) -> None:
    first, second = service(1, "web", on=[ALONE]), service(2, "web", on=[ALONE])
    running = [make_running(first, [100]), make_running(second, [101])]
    assert decide(world(placer, [first, second], running)).actions == ()


@pytest.mark.parametrize("policy", ["priority", "las", "tiresias", "themis"])
@pytest.mark.parametrize("placer", PLACERS)
def test_those_whose_gpus_others_take_keep_to_their_musts(placer: str, policy: str) -> None:
    """They used to go wherever there was room, and the plan that broke a must failed the whole round."""
    services = [service(number, "web", on=[ALONE]) for number in (1, 2)]
    there = [make_running(job, [100 * job.id], since=NOW - 5_000.0) for job in services]
    facts = case(placer, NODES[:2], [*services, make_job(3, 4, priority=5)], there)
    clusters = [replace(cluster, policy=policy) for cluster in facts.virtual_clusters]
    plan = decide(replace(facts, virtual_clusters=tuple(clusters)))
    [node] = nodes_in(plan).pop(3)
    assert [action.jobs for action in plan.actions if action.placement is None] == [(node,)]
    assert not nodes_in(plan).keys() - {3}


@pytest.mark.parametrize("placer", PLACERS)
def test_views_heed_one_another_and_opportunistic_jobs_make_room(placer: str) -> None:
    web = service(1, "web", on=[ALONE, TagConstraint(tag="noisy", most=0)], replicas=2)
    noisy = service(2, "noisy", replicas=2, guaranteed=False)
    found = placed(world(placer, [web, noisy]))
    assert len(set(found[1])) == 2
    assert not set(found[1]) & set(found[2])
    filler = make_job(3, 4, replicas=4, guaranteed=False)
    everywhere = [make_running(filler, [range(100 * node, 100 * node + 4) for node in range(1, 5)])]
    plan = decide(world(placer, [web, filler], everywhere))
    assert [action.jobs for action in plan.actions if action.placement is None] == [(3,)]
    assert len(set(nodes_in(plan)[1])) == 2


def test_in_cells_a_must_is_kept_once_they_are_bound() -> None:
    nodes = tuple(make_node(number) for number in (1, 2))
    web = service(1, "web", on=[TagConstraint(tag="noisy", most=0)])
    noisy = [service(number, "noisy", guaranteed=False) for number in (2, 3)]
    running = [make_running(job, [100 * node]) for node, job in enumerate(noisy, 1)]
    cells = owning(hardware_of(nodes), {"research": {"V100-8-NODE": 1}})

    def beside(*others: int) -> Snapshot:
        there = [job for job in noisy if job.id in others]
        held = [each for each in running if each.jobs[0] in others]
        return in_cells(case("consolidate", nodes, [web, *there], held), cells)

    assert placed(beside(2))[1] == [2]
    assert placed(beside(3))[1] == [1]
    [reason] = decide(beside(2, 3)).reasons[JobId(1)]
    assert (reason.code, reason.blocking["tag"]) == ("tag_constraint", "noisy")


def test_a_plan_that_breaks_a_must_is_refused() -> None:
    web = service(1, "web", on=[ALONE], replicas=2)
    snapshot = world("consolidate", [web])
    plan = decide(snapshot)
    [action] = plan.actions
    together = replace(action, placement=Placement(gpu_model="V100", replicas=((100,), (101,))))  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="job 1 must have at most 0 others with tag web in its node"):
        check(snapshot, replace(plan, actions=(together,)))


def test_many_services_are_placed_at_once() -> None:
    """Beyond the size at which a program would take too long."""
    nodes = [make_node(number, rack=f"rack-{number // 10}") for number in range(1, 61)]
    jobs = [
        service(number, f"app{number}", "any", on=[TagConstraint(tag=f"app{number}", most=0)], replicas=4)
        for number in range(1, 101)
    ]
    found = placed(case("medea", nodes, jobs))
    assert [len(set(each)) for each in found.values()] == [4] * 100
