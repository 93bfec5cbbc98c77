"""Broken nodes: spare hardware hides them, doomed cells show them, and healing undoes it all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.cells.hierarchies import group, opportunistic, racks
from tests.core.cells.oracle import CellState, Preempt
from tests.core.cells.test_groups import nodes, placed, preempts, waits


def bad_virtual(state: CellState, owner: str, kind: str = "V100-NODE") -> list[str]:
    """Return the cells of a type that a virtual cluster sees as broken."""
    spaces = state.dump()["virtual_clusters"][owner]
    cells = [*spaces["cells"].values(), *spaces["pinned"].values()]
    return [cell["cell"] for space in cells for cell in space if cell["type"] == kind and not cell["healthy"]]


def doomed(state: CellState) -> list[tuple[str, str]]:
    """Return (address, virtual cluster) of the doomed cells."""
    chains = state.dump()["chains"].values()
    cells: list[dict[str, Any]] = [cell for chain in chains for cell in chain["cells"] if cell.get("doomed")]
    return [(cell["address"], cell["virtual_cluster"]) for cell in cells]


def fail(state: CellState, *names: str) -> None:
    for name in names:
        state.set_node_health(name, False)
        state.check()


def heal(state: CellState, *names: str) -> None:
    for name in names:
        state.set_node_health(name, True)
        state.check()


def test_a_failure_is_not_seen_while_there_is_spare_hardware() -> None:
    """Dynamic binding (A.3.5): with a fixed assignment, vision would have lost a node."""
    state = CellState(racks(vision={"cells": {"V100-NODE": 6}}))
    fail(state, "n0", "n5")
    assert bad_virtual(state, "vision") == doomed(state) == []
    assert set(nodes(placed(state, group("all", "vision", (6, 8))))) == {"n1", "n2", "n3", "n4", "n6", "n7"}


def test_when_the_last_spare_node_breaks_a_cell_is_doomed_and_healed_again() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 5}}, speech={"cells": {"V100-NODE": 2}}))
    before = json.dumps(state.dump())
    fail(state, "n3")
    assert doomed(state) == []
    fail(state, "n6")
    assert doomed(state) == [], "six are left, enough for either"
    placed(state, group("two", "speech", (2, 8)))
    state.check()
    assert doomed(state) == [("rack-1/n3", "vision")]
    assert bad_virtual(state, "vision") == ["V100-NODE/4"]
    answer = waits(state, group("all", "vision", (5, 8)))
    assert answer.code == "cells_bad"
    assert answer.message == (
        "It needs 5 × 8 GPUs, and too much of vision is on broken hardware: 1 of 5 of its parts (n3)."
    )
    placed(state, group("four", "vision", (4, 8)))
    assert waits(state, group("fifth", "vision", (1, 1))).code == "cells_in_use"
    heal(state, "n6")
    assert doomed(state) == []
    placed(state, group("fifth", "vision", (1, 1)))
    for name in ("four", "two", "fifth"):
        state.delete(name)
    heal(state, "n3")
    assert json.dumps(state.dump()) == before


@pytest.mark.parametrize(("first", "second"), [("vision", "speech"), ("speech", "vision")])
def test_who_asks_first_is_not_kept_waiting_for_one_who_does_not_ask(first: str, second: str) -> None:
    """Seven nodes are left of eight, of which each owns four."""
    state = CellState(racks(vision={"cells": {"V100-NODE": 4}}, speech={"cells": {"V100-NODE": 4}}))
    fail(state, "n0")
    assert doomed(state) == []
    placed(state, group("all", first, (4, 8)))
    state.check()
    assert doomed(state) == [("rack-0/n0", second)]
    assert "1 of 4 of its parts (n0)" in waits(state, group("more", second, (4, 8))).message
    placed(state, group("three", second, (3, 8)))
    state.delete("all")
    state.check()
    assert doomed(state) == []
    placed(state, group("last", second, (1, 8)))


def test_nobody_gets_what_is_kept_for_larger_cells_of_others() -> None:
    """Of speech's two nodes one is broken, and the racks are all vision's."""
    state = CellState(racks(vision={"cells": {"V100-RACK": 3}}, speech={"cells": {"V100-NODE": 2}}))
    placed(state, group("a", "speech", (1, 8), suggested_nodes=frozenset({"n7"})))
    fail(state, "n6")
    assert doomed(state) == [("rack-3/n6", "speech")]
    placed(state, group("all", "vision", (6, 8)))
    assert waits(state, group("b", "speech", (1, 8))).code == "cells_in_use"


def test_what_is_broken_is_not_split_off_while_healthy_hardware_can_be() -> None:
    """Two racks may be split for speech; it must be the whole ones, though opportunistic groups are there."""
    state = CellState(racks(vision={"cells": {"V100-RACK": 2}}, speech={"cells": {"V100-NODE": 4}}))
    fail(state, "n0", "n2")
    for name in ("n4", "n5", "n6", "n7"):
        placed(state, opportunistic(f"on {name}", "vision", (1, 8), suggested_nodes=frozenset({name})))
    for number in range(4):
        wanted = group(f"s{number}", "speech", (1, 8))
        answer = preempts(state, wanted) if number else state.schedule(wanted)
        if isinstance(answer, Preempt):
            state.delete(*answer.victims)
            placed(state, wanted)
        state.check()
    assert {each.pods[0].node for each in state.groups.values()} == {"n4", "n5", "n6", "n7"}


def test_a_broken_node_inside_a_rack_that_is_bound_is_seen() -> None:
    state = CellState(racks(vision={"cells": {"V100-RACK": 2}}, speech={"cells": {"V100-RACK": 2}}))
    first = placed(state, group("a", "vision", (1, 8)))
    assert nodes(first) == ["n0"]
    fail(state, "n1")
    assert bad_virtual(state, "vision") == ["V100-RACK/0/1"]
    assert nodes(placed(state, group("b", "vision", (2, 8)))) == ["n2", "n3"]
    assert waits(state, group("c", "vision", (1, 8))).code == "cells_in_use"
    heal(state, "n1")
    assert nodes(placed(state, group("c", "vision", (1, 8)))) == ["n1"]


def test_what_is_healthy_of_a_doomed_rack_serves() -> None:
    state = CellState(racks(vision={"cells": {"V100-RACK": 4}}))
    fail(state, "n2")
    assert doomed(state) == [("rack-1", "vision")]
    assert len(placed(state, group("seven", "vision", (7, 8))).pods) == 7
    assert doomed(state) == [], "it is in use like any other"
    state.delete("seven")
    assert doomed(state) == [("rack-1", "vision")]
    heal(state, "n2")
    assert doomed(state) == []


def test_a_group_on_a_broken_node_is_left_alone_and_its_cell_moves_when_it_ends() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 1}}))
    wanted = group("a", "vision", (1, 4))
    fail(state, nodes(placed(state, wanted))[0])
    assert placed(state, wanted).guaranteed
    assert waits(state, group("b", "vision", (1, 4))).code == "cells_bad"
    state.delete("a")
    assert bad_virtual(state, "vision") == []
    assert nodes(placed(state, group("b", "vision", (1, 4)))) == ["n1"]


def test_cells_smaller_than_a_node_break_with_it() -> None:
    state = CellState(racks(vision={"cells": {"V100-SWITCH": 2}}, speech={"cells": {"V100-NODE": 7}}))
    placed(state, group("a", "vision", (1, 2)))
    fail(state, "n0")
    # The seven nodes that are left are all speech's, so vision's other cell must break, too.
    assert bad_virtual(state, "vision", "V100-SWITCH") == ["V100-SWITCH/0", "V100-SWITCH/1"]
    assert doomed(state) == [("rack-0/n0/1", "vision")]
    state.delete("a")
    state.check()
    heal(state, "n0")
    placed(state, group("b", "vision", (2, 2)))
    placed(state, group("c", "speech", (7, 8)))


def test_a_pinned_cell_that_breaks_stays_where_it_is() -> None:
    state = CellState(racks(vision={"pinned": {"demo": "rack-0"}}))
    fail(state, "n0")
    assert bad_virtual(state, "vision") == ["demo/1"]
    assert nodes(placed(state, group("a", "vision", (1, 8), pinned_cell="demo"))) == ["n1"]
    assert waits(state, group("b", "vision", (2, 8), pinned_cell="demo")).code == "cells_bad"
    fail(state, "n1")
    heal(state, "n0")
    assert nodes(placed(state, group("c", "vision", (1, 8), pinned_cell="demo"))) == ["n0"]


def test_opportunistic_groups_avoid_broken_nodes() -> None:
    state = CellState(racks(vision={}))
    placed(state, opportunistic("o", "vision", (1, 4)))
    fail(state, "n0")
    assert nodes(placed(state, opportunistic("p", "vision", (1, 4)))) == ["n1"]
    assert state.groups["o"].pods[0].node == "n0"


def test_health_said_twice_changes_nothing() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 8}}))
    before = state.dump()
    heal(state, "n0")
    assert state.dump() == before
    fail(state, "n0")
    broken = state.dump()
    fail(state, "n0")
    assert state.dump() == broken
    heal(state, "n0")
    assert state.dump() == before


def test_waiting_for_broken_hardware_tries_nothing_for_ever() -> None:
    """The case of hivedscheduler #25: broken cells that are not bound were chosen again and again."""
    state = CellState(racks(vision={"cells": {"V100-NODE": 2}}, speech={"cells": {"V100-NODE": 6}}))
    placed(state, group("s", "speech", (6, 8)))
    fail(state, "n6", "n7")
    wanted = group("a", "vision", (1, 8))
    assert {waits(state, wanted).code for _ in range(3)} == {"cells_bad"}
    heal(state, "n7")
    assert nodes(placed(state, wanted)) == ["n7"]


def test_a_lapsing_group_stops_when_its_node_is_the_last_for_the_cell() -> None:
    """Without it, what is healthy of its rack is no rack, and the other racks are somebody else's."""
    state = CellState(racks(vision={"cells": {"V100-RACK": 1}}, speech={"cells": {"V100-RACK": 3}}))
    placed(state, group("low", "vision", (1, 8), priority=0, lazy_preemption=True))
    placed(state, group("others", "speech", (6, 8)))
    fail(state, "n1")
    answer = preempts(state, group("high", "vision", (1, 8)))
    assert (answer.victims, answer.placement.lapsed) == (("low",), ())
