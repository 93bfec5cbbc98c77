"""What becomes of guaranteed jobs whose guarantee is taken: they stop, or run on as opportunistic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.model.plan import Action, ActionKind
from scheduler.core.model.snapshot import DOWNGRADE, PREEMPT, Job, Running, Snapshot
from scheduler.core.round.decide import decide
from scheduler.core.round.registry import POLICIES
from tests.builders import make_cluster, make_job, make_running, make_snapshot, make_virtual_cluster
from tests.core.round.test_cells_in_rounds import NODE, divided, nodes_of, the
from tests.core.round.test_rounds_in_cells import repeatable
from tests.core.test_properties import under
from tests.core.virtual_loop import VirtualLoop
from tests.core.worlds_in_cells import sound

World = Callable[[Sequence[Job], Sequence[Running]], Snapshot]


def by_counts(jobs: Sequence[Job], running: Sequence[Running]) -> Snapshot:
    clusters = [make_virtual_cluster(name, {"V100": 8}) for name in ("research", "products")]
    facts = make_snapshot(nodes=make_cluster(2), jobs=jobs, running=running, virtual_clusters=clusters)
    return under("priority", facts)


def in_cells(jobs: Sequence[Job], running: Sequence[Running]) -> Snapshot:
    return under("priority", divided({"research": {NODE: 1}, "products": {NODE: 1}}, jobs, running))


either = pytest.mark.parametrize("world", [by_counts, in_cells])


def low(on_reclaim: str) -> tuple[Job, Running]:
    job = make_job(1, 8, on_reclaim=on_reclaim)
    return job, make_running(job, range(100, 108))


@either
class TestByItsOwnVirtualCluster:
    @pytest.mark.parametrize("on_reclaim", ["", PREEMPT])
    def test_it_stops_for_a_higher_priority(self, world: World, on_reclaim: str) -> None:
        job, there = low(on_reclaim)
        plan = decide(world([job, make_job(2, 8, priority=5)], [there]))
        assert the(plan, ActionKind.STOP).jobs == (1,)
        assert the(plan, ActionKind.START).jobs == (2,)

    def test_downgraded_it_runs_on_while_there_is_room_elsewhere(self, world: World) -> None:
        job, there = low(DOWNGRADE)
        facts = world([job, make_job(2, 8, priority=5)], [there])
        plan = decide(facts)
        assert nodes_of(the(plan, ActionKind.START)) == {2}
        assert plan.reasons == {}
        action = the(plan, ActionKind.REGRADE)
        assert (action.jobs, action.guaranteed, action.cause) == ((1,), False, "downgraded")
        assert action.message == (
            "Virtual cluster research gives what is guaranteed to it to job 2: it runs on as opportunistic."
        )

    def test_it_stops_where_its_gpus_are_the_only_ones(self, world: World) -> None:
        job, there = low(DOWNGRADE)
        theirs = make_job(2, 8, virtual_cluster="products")
        jobs = [job, theirs, make_job(3, 8, priority=5)]
        plan = decide(world(jobs, [there, make_running(theirs, range(200, 208))]))
        assert (the(plan, ActionKind.STOP).jobs, nodes_of(the(plan, ActionKind.START))) == ((1,), {1})
        assert the(plan, ActionKind.STOP).preempted_by == (3,)

    def test_no_opportunistic_job_takes_its_place(self, world: World) -> None:
        job, there = low(DOWNGRADE)
        plan = decide(world([job, make_job(2, 8, priority=5), make_job(3, 8, guaranteed=False)], [there]))
        assert the(plan, ActionKind.REGRADE).jobs == (1,)
        assert the(plan, ActionKind.START).jobs == (2,)

    def test_then_others_reclaim_its_gpus_and_its_guarantee_returns_when_they_do_not(
        self, world: World
    ) -> None:
        job, there = low(DOWNGRADE)
        facts = world([job, make_job(2, 8, priority=5)], [there])
        loop = VirtualLoop(facts, {1: 1e9, 2: 40.0})
        causes: list[Action] = []
        for _ in range(12):
            causes += loop.step().actions
        kinds = [(action.kind, action.jobs, action.cause) for action in causes]
        back = "cells_back" if facts.cells else "guarantee_back"
        assert kinds == [
            (ActionKind.START, (2,), ""),
            (ActionKind.REGRADE, (1,), "downgraded"),
            (ActionKind.REGRADE, (1,), back),
        ]
        claimed = VirtualLoop(facts, {1: 1e9, 2: 1e9, 3: 1e9})
        claimed.step()
        theirs = make_job(3, 8, virtual_cluster="products")
        claimed.snapshot = replace(claimed.snapshot, jobs=(*claimed.snapshot.jobs, theirs))
        plan = claimed.step()
        assert (the(plan, ActionKind.STOP).jobs, the(plan, ActionKind.START).jobs) == ((1,), (3,))


class TestALapse:
    def lapsing(self, world: World, on_reclaim: str) -> Snapshot:
        facts = world([low(on_reclaim)[0]], [low(on_reclaim)[1]])
        if facts.cells is None:
            clusters = [replace(vc, guaranteed={}) for vc in facts.virtual_clusters]
            return replace(facts, virtual_clusters=tuple(clusters))
        return replace(facts, cells=divided({"research": {}, "products": {NODE: 1}}).cells)

    @either
    @pytest.mark.parametrize("on_reclaim", ["", DOWNGRADE])
    def test_it_runs_on(self, world: World, on_reclaim: str) -> None:
        (action,) = decide(self.lapsing(world, on_reclaim)).actions
        assert (action.kind, action.guaranteed) == (ActionKind.REGRADE, False)
        assert action.message.endswith(": it runs on as opportunistic.")

    @either
    def test_it_stops_if_it_asks_for_that(self, world: World) -> None:
        (action,) = decide(self.lapsing(world, PREEMPT)).actions
        assert (action.kind, action.jobs, action.cause) == (ActionKind.STOP, (1,), "preempted")
        assert action.message.endswith(": it stops, as it asks for with on_reclaim.")


@repeatable
@given(sound(), st.sampled_from(sorted(POLICIES)), st.data())
def test_in_any_world_every_round_keeps_its_promises(
    facts: Snapshot, policy: str, data: st.DataObject
) -> None:
    """The check at the end of every round would raise."""
    asked = st.sampled_from(("", PREEMPT, DOWNGRADE))
    jobs = [replace(job, on_reclaim=data.draw(asked), priority=job.id % 3) for job in facts.jobs]
    loop = VirtualLoop(
        under(policy, replace(facts, jobs=tuple(jobs))),
        {job.id: 10.0 + 13 * (job.id % 4) for job in jobs},
    )
    for _ in range(6):
        loop.step()
