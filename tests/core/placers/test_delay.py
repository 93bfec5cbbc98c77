"""Delay: one node, then one rack, then anywhere, as time passes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scheduler.core.building_blocks.policy import PlacerDecision, View
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.model.plan import Decision, Grant, Reason, Tier
from scheduler.core.model.snapshot import Job, Node, Running, Snapshot, Topology
from scheduler.core.placers.delay import Delay
from scheduler.core.round import registry
from scheduler.core.round.decide import decide
from tests.builders import NOW, make_job, make_node, make_running
from tests.core.placers.cases import case, nodes_in

#: Two racks of two nodes; of each node four GPUs are in use.
NODES = tuple(make_node(number, rack=f"rack-{(number + 1) // 2}") for number in range(1, 5))
HOLDERS = tuple(make_job(number, 4) for number in range(91, 95))
BUSY = tuple(
    make_running(holder, range(100 * number, 100 * number + 4)) for number, holder in enumerate(HOLDERS, 1)
)
PLACER = "delay:relax_after_seconds=100"


def waiting(job: Job, nodes: Sequence[Node] = NODES, running: Sequence[Running] = BUSY) -> Snapshot:
    holders = [holder for holder in HOLDERS if any(holder.id in held.jobs for held in running)]
    return case(PLACER, nodes, [*holders, job], running)


def gang(replicas: int, waited_seconds: float, **fields: object) -> Job:
    return make_job(1, 1, replicas=replicas, submitted_at=NOW - waited_seconds, **fields)  # type: ignore[arg-type]


def test_a_gang_that_fits_one_node_waits_for_one_then_for_a_rack() -> None:
    assert 1 not in nodes_in(decide(waiting(gang(6, 99.0))))
    assert set(nodes_in(decide(waiting(gang(6, 100.0))))[1]) in ({1, 2}, {3, 4})


def test_then_it_goes_anywhere() -> None:
    over_both_racks = NODES[:1] + NODES[2:3]
    running = (BUSY[0], BUSY[2])
    assert 1 not in nodes_in(decide(waiting(gang(6, 199.0), over_both_racks, running)))
    assert set(nodes_in(decide(waiting(gang(6, 200.0), over_both_racks, running)))[1]) == {1, 3}


def test_a_gang_larger_than_a_node_begins_with_the_rack() -> None:
    # It takes 12 GPUs; a rack has 16, of which 8 are idle.
    assert 1 not in nodes_in(decide(waiting(gang(12, 99.0))))
    assert len(set(nodes_in(decide(waiting(gang(12, 100.0))))[1])) >= 3
    # No rack could ever hold 20, so there is nothing to wait for.
    assert 1 in nodes_in(decide(waiting(gang(20, 0.0), running=())))


def test_others_start_meanwhile() -> None:
    jobs = [*HOLDERS, gang(6, 0.0), make_job(2, 4)]
    found = nodes_in(decide(case(PLACER, NODES, jobs, BUSY)))
    assert 1 not in found
    assert 2 in found


def test_a_gang_that_runs_is_not_moved_for_locality() -> None:
    job = gang(2, 0.0)
    running = (*BUSY, make_running(job, [[104], [304]]))
    assert decide(waiting(job, running=running)).actions == ()


def test_what_must_be_on_one_node_waits_for_that_alone(watched: list[PlacerDecision]) -> None:
    decide(waiting(gang(6, 0.0, topology=Topology(level="node", required=True))))
    assert not any(placed.reasons for placed in watched)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[PlacerDecision]:
    """The answers of the placer, in order."""
    answers: list[PlacerDecision] = []

    class Watched(Delay):
        def place(self, grants: Sequence[Grant], view: View, capacity: Capacity) -> PlacerDecision:
            answers.append(Delay.place(self, grants, view, capacity))
            return answers[-1]

    monkeypatch.setattr(registry, "PLACERS", {**registry.PLACERS, "delay": Watched})
    return answers


def test_it_says_why_a_gang_waits_and_until_when(watched: list[PlacerDecision]) -> None:
    decide(waiting(gang(6, 40.0)))
    answer = next(placed for placed in watched if placed.reasons)
    [reason] = answer.reasons[1]  # type: ignore[index]
    assert reason.code == "waits_for_locality"
    assert reason.message == (
        "It waits until 22:14:20 UTC on 14 November for 6 GPUs on one node; after that, GPUs within one rack"
        " will do."
    )
    assert answer.wake_at == NOW + 60


def test_its_words_are_added_to_those_of_the_policy() -> None:
    mine, theirs = (
        Reason(code=code, tier=Tier.TOPOLOGY, message="") for code in ("waits_for_locality", "passed_over")
    )
    decision = Decision(grants=(), reasons={1: (theirs,)}, wake_at=30.0)  # type: ignore[dict-item]
    answer = PlacerDecision(placements={}, reasons={1: (mine,), 2: (mine,)}, wake_at=20.0)  # type: ignore[dict-item]
    both = answer.added_to(decision)
    assert both.reasons == {1: (mine, theirs), 2: (mine,)}
    assert both.wake_at == 20.0
    assert PlacerDecision(placements={}).added_to(decision) is decision
