"""New cells while groups run: nothing is stopped; guarantees lapse and return."""

from __future__ import annotations

import json

import pytest

from scheduler.core.cells.document import from_document
from scheduler.core.cells.errors import SpecificationError
from scheduler.core.model.cell_specification import Specification
from tests.core.cells.hierarchies import RACKS, group, opportunistic, racks
from tests.core.cells.oracle import CellState, Reconfiguration
from tests.core.cells.test_groups import nodes, placed, preempts, waits


def test_a_group_whose_cell_vanished_runs_on_and_its_guarantee_returns() -> None:
    before = racks(vision={"cells": {"V100-NODE": 2}})
    state = CellState(before)
    first = placed(state, group("a", "vision", (1, 8), priority=5))
    placed(state, group("b", "vision", (1, 8), priority=10))
    assert state.reconfigure(racks(vision={"cells": {"V100-NODE": 1}})) == Reconfiguration(
        lapsed=("a",), returned=(), withdrawn=()
    )
    state.check()
    assert state.groups["a"].pods == first.pods
    assert [each.guaranteed for each in state.groups.values()] == [False, True], (
        "the higher priority keeps it"
    )
    assert waits(state, group("c", "vision", (1, 8))).code == "cells_in_use"
    assert state.reconfigure(before) == Reconfiguration(lapsed=(), returned=("a",), withdrawn=())
    state.check()
    assert state.groups["a"].guaranteed


def test_the_same_specification_changes_nothing() -> None:
    specification = racks(
        vision={"cells": {"V100-RACK": 1, "V100-SWITCH": 2}, "pinned": {"demo": "rack-3/n7"}},
        speech={"cells": {"V100-NODE": 2}},
    )
    state = CellState(specification)
    placed(state, group("a", "vision", (1, 3)))
    placed(state, group("b", "vision", (1, 8), (2, 1)))
    placed(state, group("c", "vision", (1, 2), gpu_model="V100"))
    placed(state, group("d", "vision", (1, 1), pinned_cell="demo"))
    placed(state, opportunistic("o", "speech", (3, 2)))
    placed(state, group("e", "speech", (1, 8)))
    placed(state, group("f", "speech", (1, 8)))
    state.delete("a")
    state.delete("e")
    state.set_node_health("n1", False)
    before = json.dumps(state.dump())
    assert state.reconfigure(specification) == Reconfiguration(lapsed=(), returned=(), withdrawn=())
    state.check()
    assert json.dumps(state.dump()) == before


def test_a_virtual_cluster_that_has_gone_and_a_cell_that_is_pinned_to_another() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 1}}, speech={"cells": {"V100-NODE": 1}}))
    assert nodes(placed(state, group("a", "vision", (1, 8)))) == ["n0"]
    assert nodes(placed(state, group("b", "speech", (1, 8)))) == ["n1"]
    new = racks(speech={"cells": {"V100-NODE": 1}}, labs={"pinned": {"mine": "rack-0/n1"}})
    assert state.reconfigure(new).lapsed == ("a", "b")
    state.check()
    assert preempts(state, group("c", "labs", (1, 8), pinned_cell="mine")).victims == ("b",)


def test_reservations_are_withdrawn() -> None:
    specification = racks(vision={"cells": {"V100-NODE": 1}})
    state = CellState(specification)
    placed(state, group("low", "vision", (1, 8), priority=0))
    preempts(state, group("high", "vision", (1, 8)), reserve=True)
    assert state.reconfigure(specification).withdrawn == ("high",)
    state.check()
    assert list(state.groups) == ["low"]


def test_hardware_that_has_moved_and_hardware_that_has_gone() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 3}}))
    placed(state, group("a", "vision", (1, 8)))
    placed(state, group("b", "vision", (1, 8)))
    placed(state, group("c", "vision", (1, 8)))
    moved = from_document(
        RACKS
        | {
            # n0 is in another rack, and n2 is no more; n1 is there, in another kind of hardware.
            "physical": [
                {"type": "V100-RACK", "name": "new", "nodes": ["n9", "n0"]},
                {"type": "V100-NODE", "nodes": ["n1"]},
            ],
            "virtual_clusters": {"vision": {"cells": {"V100-RACK/V100-NODE": 1, "V100-NODE/V100-NODE": 1}}},
        }
    )
    assert state.reconfigure(moved).lapsed == ()
    state.check()
    assert [each.chain for each in state.groups.values()][:2] == ["V100-RACK", "V100-NODE"]
    assert [each.within for each in state.groups.values()][:2] == ["new/n0", "n1"]
    state.delete("c")
    state.delete("a")
    state.check()
    assert nodes(placed(state, group("d", "vision", (1, 8)))) == ["n9"]


def test_broken_nodes_stay_broken() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 8}}))
    state.set_node_health("n0", False)
    state.reconfigure(racks(speech={"cells": {"V100-RACK": 4}}))
    state.check()
    assert waits(state, group("all", "speech", (8, 8))).code == "cells_bad"
    state.set_node_health("n0", True)
    placed(state, group("all", "speech", (8, 8)))


def test_a_cell_split_from_what_is_owed_now_lapses() -> None:
    """Guarantees of running groups are kept only as far as everybody can have what is owed."""
    state = CellState(racks(vision={"cells": {"V100-NODE": 2}}))
    only = frozenset({"n0", "n2"})
    placed(state, group("a", "vision", (2, 8), suggested_nodes=only))
    # Three racks for speech: vision's two nodes can only be of one rack now.
    new = racks(vision={"cells": {"V100-NODE": 2}}, speech={"cells": {"V100-RACK": 3}})
    assert state.reconfigure(new).lapsed == ("a",)
    state.check()


def test_a_pod_keeps_its_guarantee_only_inside_one_cell() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 1}}))
    placed(state, group("a", "vision", (1, 8)))
    assert state.reconfigure(racks(vision={"cells": {"V100-SWITCH": 4}})).lapsed == ("a",)
    assert state.reconfigure(racks(vision={"cells": {"V100-RACK": 1}})).returned == ("a",)
    state.check()


def test_a_specification_that_is_wrong_changes_nothing() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 1}}))
    placed(state, group("a", "vision", (1, 8)))
    before = state.dump()
    with pytest.raises(SpecificationError, match="9 V100-NODE are 1 too many"):
        state.reconfigure(racks(vision={"cells": {"V100-NODE": 9}}))
    assert state.dump() == before


def without_node(name: str, **virtual_clusters: dict[str, object]) -> Specification:
    """The well-known racks, those with the node left out."""
    physical = [entry for entry in RACKS["physical"] if name not in entry["nodes"]]
    return from_document(RACKS | {"physical": physical, "virtual_clusters": virtual_clusters})


def test_a_group_keeps_its_guarantee_for_what_remains_of_its_hardware() -> None:
    specification = racks(vision={"cells": {"V100-RACK": 2}})
    state = CellState(specification)
    first = placed(state, group("a", "vision", (4, 8)))
    assert state.reconfigure(without_node("n0", vision={"cells": {"V100-RACK": 2}})) == Reconfiguration(
        lapsed=(), returned=(), withdrawn=()
    )
    state.check()
    assert (state.groups["a"].guaranteed, state.groups["a"].pods) == (True, first.pods)
    placed(state, group("b", "vision", (1, 8), priority=0))
    assert waits(state, group("c", "vision", (2, 8), priority=0)).code == "cells_in_use"
    state.delete("b")
    assert state.reconfigure(specification).lapsed == ()
    state.check()
    assert waits(state, group("c", "vision", (1, 1), priority=0)).code == "cells_in_use"
    state.delete("a")
    assert state.dump() == CellState(specification).dump()


def test_a_group_whose_gpus_all_left_keeps_its_guarantee_until_they_are_cells_of_others() -> None:
    """The published scheduler ignores such GPUs and lets the group run on as it was."""
    state = CellState(racks(vision={"cells": {"V100-NODE": 1, "P100-NODE": 1}}))
    first = placed(state, group("a", "vision", (1, 4), gpu_model="P100"))
    without_p100 = from_document(
        RACKS
        | {
            "physical": [entry for entry in RACKS["physical"] if entry["type"] != "P100-NODE"],
            "virtual_clusters": {"vision": {"cells": {"V100-NODE": 1}}},
        }
    )
    nothing = Reconfiguration(lapsed=(), returned=(), withdrawn=())
    assert state.reconfigure(without_p100) == nothing
    state.check()
    assert (state.groups["a"].guaranteed, state.groups["a"].pods) == (True, first.pods)
    assert nodes(placed(state, group("b", "vision", (1, 8)))) == ["n0"]
    assert state.reconfigure(without_p100) == nothing
    assert state.reconfigure(racks(vision={"cells": {"V100-NODE": 1}})).lapsed == ("a",)
    state.check()
    assert not state.groups["a"].guaranteed, "now it is on cells that a virtual cluster may be given"


def test_a_group_keeps_its_guarantee_when_one_of_its_nodes_and_the_cell_for_it_leave() -> None:
    """The published scheduler's example of a deleted node: two nodes were the group's, one is left for it."""

    def pool(*nodes: str, owned: int) -> Specification:
        types = {
            "K80-NODE": {"of": "K80", "count": 4, "node": True},
            "K80-POOL": {"of": "K80-NODE", "count": len(nodes)},
        }
        physical = [{"type": "K80-POOL", "name": "pool", "nodes": nodes}]
        clusters = {"vision": {"cells": {"K80-NODE": owned}}, "speech": {"cells": {"K80-NODE": 1}}}
        return from_document({"types": types, "physical": physical, "virtual_clusters": clusters})

    state = CellState(pool("n0", "n1", "n2", "n3", owned=2))
    assert nodes(placed(state, group("a", "vision", (2, 4)))) == ["n0", "n1"]
    shortened = pool("n1", "n2", "n3", owned=1)
    assert state.reconfigure(shortened) == Reconfiguration(lapsed=(), returned=(), withdrawn=())
    state.check()
    assert state.groups["a"].guaranteed
    assert state.reconfigure(pool("n2", "n3", owned=1)) == Reconfiguration(
        lapsed=(), returned=(), withdrawn=()
    )
    state.check()
    assert nodes(placed(state, group("b", "vision", (1, 4)))) == ["n2"], "its cell is free for others"


def test_a_lapsed_group_makes_room_for_higher_priorities_of_its_own_virtual_cluster_only() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 8}}))
    placed(state, group("a", "vision", (8, 8), priority=5))
    assert state.reconfigure(racks(vision={"cells": {"V100-NODE": 1}}, speech={"cells": {"V100-NODE": 1}}))
    assert not state.groups["a"].guaranteed
    before = state.dump()
    for priority in (0, 5):
        answer = waits(state, group("b", "vision", (1, 4), priority=priority))
        assert answer.code == "held_by_lapsed"
        assert "only on GPUs of a: their guarantee has lapsed" in answer.message
    assert state.dump() == before
    assert preempts(state, group("b", "vision", (1, 4), priority=6)).victims == ("a",)
    assert preempts(state, group("c", "speech", (1, 4), priority=0)).victims == ("a",)
