"""Whole rounds on a cluster that is divided by cells: bound, lapsed, returned, reclaimed, and seen so."""

from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.document import from_document
from scheduler.jobs import representations as job_representations
from scheduler.models import Attempt, Event, Job, Node, PolicyMemory, Round
from scheduler.rounds.preview import effects_of
from scheduler.rounds.run import run_round
from scheduler.virtual_clusters.cells.selectors import (
    cell_nodes,
    cells_in_force,
    children_of,
    virtual_cluster_cells,
)
from scheduler.virtual_clusters.cells.services import cells_apply
from tenants.models import Tenant, VirtualCluster
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node, make_tenant, make_vc

pytestmark = pytest.mark.django_db


def document(**owned: Mapping[str, int]) -> dict[str, Any]:
    """Return a specification: two nodes of four V100 in pairs, and who owns how many cells of what."""
    return {
        "types": {
            "V100-SWITCH": {"of": "V100", "count": 2},
            "V100-NODE": {"of": "V100-SWITCH", "count": 2, "node": True},
        },
        "physical": [{"type": "V100-NODE", "nodes": [name]} for name in ("node-a", "node-b")],
        "virtual_clusters": {name: {"cells": dict(cells)} for name, cells in owned.items()},
    }


def divide(**owned: Mapping[str, int]) -> None:
    cells_apply(document=document(**owned), version=cells_in_force().version, actor="user olga")


@pytest.fixture
def tenant() -> Tenant:
    """A member of the virtual clusters vision (which owns a node) and speech (a switch)."""
    for name in ("node-a", "node-b"):
        make_node(name, gpus=4)
    tenant = make_tenant()
    for name in ("vision", "speech"):
        make_vc(name, members=[tenant])
    divide(vision={"V100-NODE": 1}, speech={"V100-SWITCH": 1})
    return tenant


def submit(tenant: Tenant, name: str, gpus: int, **spec: Any) -> Job:
    return make_job(tenant=tenant, virtual_cluster=VirtualCluster.objects.get(name=name), gpus=gpus, **spec)


def play() -> None:
    """Run a round in which nothing goes wrong, and let what was started run."""
    record = Round.objects.get(number=run_round())
    assert (record.state, record.error, record.degraded, record.dropped) == ("applied", "", {}, [])
    Attempt.objects.filter(state="starting").update(state="running")
    Job.objects.filter(attempts__state="running").update(state="running")


def top_cells() -> dict[str, dict[str, Any]]:
    layout = cells_in_force().layout
    return {cell["address"]: cell for cell in cell_nodes(layout, children_of(layout, None, None))}


def test_a_virtual_cluster_gets_the_cells_it_owns_and_the_tree_shows_them(tenant: Tenant) -> None:
    job = submit(tenant, "vision", 3)
    waiting = submit(tenant, "vision", 2)
    play()
    (owned,) = virtual_cluster_cells(cells_in_force().layout, "vision")["cells"]
    assert (owned["owned"], owned["bound"], owned["free"], owned["doomed"]) == (1, 1, 0, 0)
    (address,) = owned["addresses"]
    cell = top_cells()[address]
    assert (cell["virtual_cluster"], cell["used"], cell["free"], cell["state"]) == ("vision", 3, 1, "mixed")
    assert job.attempts.get().parts.get().node.name == address
    assert not waiting.attempts.exists()


def test_a_guarantee_lapses_with_its_cell_and_returns_as_it_was_foretold(tenant: Tenant) -> None:
    job = submit(tenant, "vision", 4)
    small = submit(tenant, "speech", 2)
    play()
    without = document(vision={"V100-SWITCH": 1}, speech={"V100-SWITCH": 1})
    foretold = effects_of(compiled(from_document(without)))
    assert foretold == [
        {"virtual_cluster": "speech", "running": 1, "lapsing": 0, "jobs": []},
        {"virtual_cluster": "vision", "running": 1, "lapsing": 1, "jobs": [job.id]},
    ]

    divide(vision={"V100-SWITCH": 1}, speech={"V100-SWITCH": 1})
    play()
    told, other = job_representations.jobs([job.id, small.id])
    assert (told["guarantee_lapsed"], told["phase"]) == (True, "running")
    assert (other["guarantee_lapsed"], other["phase"]) == (False, "running")
    event = Event.objects.get(job_id=job.id, kind="guarantee.lapsed")
    assert event.data["cause"] == "cells_lost"
    assert event.message
    (place,) = [cell for cell in top_cells().values() if cell["opportunistic"]]
    assert (place["opportunistic"], place["virtual_cluster"]) == (4, None)

    divide(vision={"V100-NODE": 1}, speech={"V100-SWITCH": 1})
    play()
    (told,) = job_representations.jobs([job.id])
    assert not told["guarantee_lapsed"]
    assert Event.objects.get(job_id=job.id, kind="guarantee.returned").data["cause"] == "cells_back"
    assert job.attempts.count() == 1


def test_a_node_that_fails_takes_no_guarantee_while_another_can_stand_in(tenant: Tenant) -> None:
    Node.objects.filter(name="node-a").update(state="lost")
    assert top_cells()["node-a"]["state"] == "bad"
    job = submit(tenant, "vision", 4)
    play()
    assert job.attempts.get().parts.get().node.name == "node-b"
    (owned,) = virtual_cluster_cells(cells_in_force().layout, "speech")["cells"]
    assert owned["doomed"] == 1
    Node.objects.filter(name="node-a").update(state="ready")
    (owned,) = virtual_cluster_cells(cells_in_force().layout, "speech")["cells"]
    assert owned["doomed"] == 0


def test_a_job_that_names_a_pinned_cell_runs_there_and_no_other_does(tenant: Tenant) -> None:
    pinned = document(vision={"V100-NODE": 1})
    pinned["virtual_clusters"]["vision"]["pinned"] = {"demo": "node-b"}
    cells_apply(document=pinned, version=cells_in_force().version, actor="user olga")
    jobs = [submit(tenant, "vision", 4) for _ in range(3)]
    shape = jobs[2].shape | {"pinned_cell": "demo"}
    Job.objects.filter(id=jobs[2].id).update(shape=shape)
    play()
    places = [list(job.attempts.values_list("parts__node__name", flat=True)) for job in jobs]
    assert places == [["node-a"], [], ["node-b"]]


def test_who_has_to_give_way_is_told_by_whom(tenant: Tenant) -> None:
    spare = [submit(tenant, "speech", 4, guaranteed=False) for _ in range(2)]
    play()
    job = submit(tenant, "vision", 4)
    play()
    victim = Attempt.objects.get(job__in=spare, state="stopping")
    assert victim.preempted_by == [job.id]
    assert "were reclaimed by guaranteed job" in victim.stop_message
    assert "of virtual cluster vision" in victim.stop_message


def test_what_the_rounds_remember_of_another_specification_is_left_out(tenant: Tenant) -> None:
    PolicyMemory.objects.create(view="cells", memory={"bound": {"vision": [["V100-NODE", 1, 7]]}})
    (owned,) = virtual_cluster_cells(cells_in_force().layout, "vision")["cells"]
    assert (owned["bound"], owned["free"]) == (0, 1)


def test_gpus_of_a_cordoned_node_are_bad_unless_a_job_still_runs_there(tenant: Tenant) -> None:
    job = submit(tenant, "vision", 1)
    make_attempt(job, gpus_of(Node.objects.get(name="node-a"))[:1])
    Node.objects.update(cordoned=True)
    cells = top_cells()
    assert (cells["node-a"]["used"], cells["node-a"]["bad"]) == (1, 3)
    assert cells["node-b"]["state"] == "bad"
