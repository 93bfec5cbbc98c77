"""What groups get, one case after another (the corner cases of HiveD's published code)."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.core.cells.document import from_document
from tests.core.cells.hierarchies import RACKS, group, opportunistic, racks
from tests.core.cells.oracle import CellState, Group, Placement, Pod, Preempt, RequestError, Wait


def placed(state: CellState, wanted: Group, **options: bool) -> Placement:
    answer = state.schedule(wanted, **options)
    state.check()
    assert isinstance(answer, Placement), answer
    return answer


def preempts(state: CellState, wanted: Group, **options: bool) -> Preempt:
    answer = state.schedule(wanted, **options)
    state.check()
    assert isinstance(answer, Preempt), answer
    return answer


def waits(state: CellState, wanted: Group) -> Wait:
    answer = state.schedule(wanted)
    state.check()
    assert isinstance(answer, Wait), answer
    return answer


def nodes(answer: Placement | Preempt) -> list[str]:
    placement = answer if isinstance(answer, Placement) else answer.placement
    return [pod.node for pod in placement.pods]


# Placing


def test_cells_below_the_node_are_not_put_together() -> None:
    """The case of pai #4029: four cells of one GPU are not a cell of two, and the answer says so."""
    state = CellState(racks(vision={"cells": {"V100": 4}}))
    answer = waits(state, group("pair", "vision", (1, 2)))
    assert answer.code == "cells_too_small"
    assert answer.message == (
        "A pod needs 2 GPUs together, and the largest cells of vision have 1 inside one node (4 V100);"
        " cells are never put together for a pod."
    )
    placed(state, group("four", "vision", (4, 1)))
    assert waits(state, group("one", "vision", (1, 1))).code == "cells_in_use"


def test_a_pod_larger_than_its_node() -> None:
    state = CellState(racks(vision={"cells": {"V100-RACK": 1}}))
    assert waits(state, group("huge", "vision", (1, 16))).code == "cells_too_small"
    assert placed(state, group("rack", "vision", (2, 8))).within == "rack-0"


def test_a_gang_of_pods_of_several_sizes_is_answered_in_the_order_of_its_members() -> None:
    state = CellState(racks(vision={"cells": {"V100-RACK": 1}}))
    answer = placed(state, group("gang", "vision", (2, 1), (1, 8), (1, 4), (1, 1)))
    assert [len(pod.gpus) for pod in answer.pods] == [1, 1, 8, 4, 1]
    assert nodes(answer) == ["n1", "n1", "n0", "n1", "n1"]
    assert answer.within == "rack-0"


def test_sizes_that_do_not_divide_each_other_are_searched_for() -> None:
    """Rooms of 4 and 5 hold 3 and three times 2, but not with the largest first where it fits best."""
    state = CellState(racks(vision={"cells": {"V100-NODE": 2}}))
    for name, gpus in (("a", 8), ("b", 4), ("c", 2)):
        placed(state, group(name, "vision", (1, gpus)))
    state.delete("a")
    placed(state, group("d", "vision", (1, 3)))
    state.delete("c")
    answer = placed(state, group("gang", "vision", (1, 3), (3, 2)))
    assert sorted(len(pod.gpus) for pod in answer.pods if pod.node == answer.pods[0].node) == [2, 3]


def test_groups_are_packed_and_near_together() -> None:
    state = CellState(racks(vision={"cells": {"V100-RACK": 2}}))
    assert placed(state, group("a", "vision", (1, 1))).within == "rack-0/n0/0/0"
    assert placed(state, group("pair", "vision", (1, 2))).within == "rack-0/n0/1"
    assert placed(state, group("b", "vision", (1, 1))).within == "rack-0/n0/0/1"
    assert placed(state, group("four", "vision", (1, 4))).within == "rack-0/n0"
    # Two nodes in one rack, though a node of the first rack is as free as those.
    assert placed(state, group("rack", "vision", (2, 8))).within == "rack-1"


def test_a_group_of_several_pods_is_kept_in_one_node_when_one_has_room() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 3}}))
    placed(state, group("a", "vision", (1, 6)))
    placed(state, group("b", "vision", (1, 5)))
    assert set(nodes(placed(state, group("gang", "vision", (3, 1))))) == {"n1"}


def test_a_gang_never_spans_two_chains() -> None:
    document = RACKS | {
        "types": RACKS["types"] | {"OLD-NODE": {"of": "V100", "count": 4, "node": True}},
        "physical": [
            {"type": "V100-RACK", "name": "rack", "nodes": ["n0", "n1"]},
            {"type": "OLD-NODE", "nodes": ["old"]},
        ],
        "virtual_clusters": {"vision": {"cells": {"V100-NODE": 1, "OLD-NODE": 1}}},
    }
    state = CellState(from_document(document))
    assert waits(state, group("gang", "vision", (1, 8), (1, 4), gpu_model="V100")).code == "cells_too_few"
    placed(state, group("new", "vision", (1, 8), gpu_model="V100"))
    assert placed(state, group("old", "vision", (1, 4), gpu_model="V100")).chain == "OLD-NODE"


def test_any_model_and_one_model() -> None:
    state = CellState(racks(vision={"cells": {"V100-SWITCH": 1, "P100-NODE": 1}}))
    assert placed(state, group("any", "vision", (1, 2))).gpu_model == "V100"
    assert placed(state, group("other", "vision", (1, 2))).gpu_model == "P100"
    assert waits(state, group("v", "vision", (1, 2), gpu_model="V100")).code == "cells_in_use"
    placed(state, group("p", "vision", (1, 2), gpu_model="P100"))


def test_two_groups_in_one_owned_cell_are_in_one_physical_cell() -> None:
    state = CellState(racks(vision={"cells": {"V100-RACK": 1}}, speech={"cells": {"V100-RACK": 3}}))
    placed(state, group("s", "speech", (1, 8)))
    first = placed(state, group("a", "vision", (1, 8)))
    placed(state, group("t", "speech", (1, 8)))
    second = placed(state, group("b", "vision", (1, 8)))
    assert first.within.split("/")[0] == second.within.split("/")[0]


def test_one_machine_in_two_chains() -> None:
    document: dict[str, Any] = {
        "types": {
            "A": {"of": "V100", "count": 2, "node": True},
            "B": {"of": "P100", "count": 2, "node": True},
        },
        "physical": [
            {"type": "A", "name": "half", "nodes": ["mixed"], "gpus": {"mixed": [3, 1]}},
            {"type": "B", "name": "other", "nodes": ["mixed"], "gpus": {"mixed": [0, 2]}},
        ],
        "virtual_clusters": {"vision": {"cells": {"A": 1, "B": 1}}},
    }
    state = CellState(from_document(document))
    assert placed(state, group("a", "vision", (1, 1), gpu_model="V100")).pods == (Pod("mixed", (3,)),)
    assert placed(state, group("b", "vision", (1, 2), gpu_model="P100")).pods == (Pod("mixed", (0, 2)),)
    state.delete("b")
    state.set_node_health("mixed", False)
    assert waits(state, group("c", "vision", (1, 1), gpu_model="V100")).code == "cells_bad"
    assert waits(state, group("b", "vision", (1, 2), gpu_model="P100")).code == "cells_bad"


# Answers that do not change anything


def test_a_group_that_runs_is_told_where() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 1}}))
    wanted = group("a", "vision", (1, 8))
    first = placed(state, wanted)
    state.set_node_health(nodes(first)[0], False)
    assert placed(state, wanted) == first == state.groups["a"]


@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        ("virtual_cluster", group("a", "nobody", (1, 1))),
        ("virtual_cluster", opportunistic("a", "nobody", (1, 1))),
        ("virtual_cluster", group("a", "empty", (1, 1))),
        ("virtual_cluster", group("a", "none", (1, 1))),
        ("gpu_model", group("a", "vision", (1, 1), gpu_model="H100")),
        ("gpu_model", opportunistic("a", "vision", (1, 1), gpu_model="H100")),
        ("gpu_model", group("a", "vision", (1, 1), gpu_model="P100")),
        ("gpu_model", group("a", "vision", (1, 1), gpu_model="P100", pinned_cell="demo")),
        ("pinned_cell", group("a", "vision", (1, 1), pinned_cell="other")),
        ("pinned_cell", opportunistic("a", "vision", (1, 1), pinned_cell="demo")),
        ("priority", group("a", "vision", (1, 1), priority=1_001)),
        ("priority", group("a", "vision", (1, 1), priority=-2)),
        ("members", group("a", "vision")),
        ("members", group("a", "vision", (100_001, 1))),
        ("members[1]", group("a", "vision", (1, 1), (1, 0))),
        ("members[0]", group("a", "vision", (0, 1))),
        ("name", group("", "vision", (1, 1))),
        ("name", group("known", "vision", (1, 2))),
    ],
)
def test_what_can_not_be_granted_as_it_is_put(field: str, wanted: Group) -> None:
    cells: dict[str, object] = {"cells": {"V100-NODE": 1}, "pinned": {"demo": "rack-3/n7"}}
    state = CellState(racks(vision=cells, empty={}, none={"cells": {"V100-NODE": 0}}))
    placed(state, group("known", "vision", (1, 1)))
    before = state.dump()
    with pytest.raises(RequestError) as raised:
        state.schedule(wanted)
    assert raised.value.problem.field == field
    assert raised.value.problem.hint
    assert state.dump() == before


def test_what_is_not_there_can_not_be_deleted_or_broken() -> None:
    state = CellState(racks(vision={}))
    with pytest.raises(RequestError, match="there is no group a"):
        state.delete("a")
    with pytest.raises(RequestError, match="there is no node n99"):
        state.set_node_health("n99", False)


def test_why_a_group_waits() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 2, "V100-SWITCH": 1}}))
    few = waits(state, group("large", "vision", (3, 8)))
    assert few.code == "cells_too_few"
    assert few.message == (
        "It needs 3 × 8 GPUs, more than all cells of vision can hold (2 V100-NODE and 1 V100-SWITCH)."
    )
    placed(state, group("a", "vision", (1, 5)))
    placed(state, group("b", "vision", (1, 7)))
    used = waits(state, group("c", "vision", (1, 8)))
    assert used.code == "cells_in_use"
    assert used.message == (
        "It needs 1 × 8 GPUs; 12 of the 18 usable GPUs of vision are in use (a, b),"
        " and at most 3 are free inside one node."
    )
    suggested = waits(state, group("d", "vision", (1, 3), suggested_nodes=frozenset({"n7"})))
    assert suggested.code == "nodes_not_suggested"


# Priorities inside a virtual cluster


def two_nodes() -> CellState:
    return CellState(racks(vision={"cells": {"V100-NODE": 2}}, speech={"cells": {"V100-NODE": 1}}))


def test_free_cells_come_before_preemption_and_few_victims_before_many() -> None:
    state = two_nodes()
    placed(state, group("low", "vision", (1, 4), priority=0))
    placed(state, group("high", "vision", (1, 8), priority=100))
    assert waits(state, group("equal", "vision", (1, 8), priority=0)).code == "cells_in_use"
    answer = preempts(state, group("higher", "vision", (1, 8), priority=50))
    assert (answer.victims, answer.reserved) == (("low",), False)
    # What is only reported has changed nothing: the rest of the node is still free.
    placed(state, group("small", "vision", (1, 4), priority=0))
    assert preempts(state, group("higher", "vision", (1, 8), priority=50)).victims == ("low", "small")
    assert preempts(state, group("two", "vision", (1, 2), priority=50)).victims == ("low",)


def test_a_reservation_is_kept_until_the_victims_have_left() -> None:
    state = two_nodes()
    for name in "ab":
        placed(state, group(name, "vision", (1, 8), priority=0))
    wanted = group("high", "vision", (2, 4))
    answer = preempts(state, wanted, reserve=True)
    assert (answer.victims, answer.reserved) == (("a",), True)
    state.delete("a")
    assert waits(state, group("other", "vision", (1, 8), priority=0)).code == "cells_in_use"
    assert "high" not in state.groups
    assert nodes(placed(state, wanted)) == nodes(answer)


def test_nobody_else_gets_what_is_reserved() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 1}}, speech={"cells": {"V100-NODE": 7}}))
    placed(state, group("s", "speech", (7, 8)))
    for name in "op":
        placed(state, opportunistic(name, "vision", (1, 4), gpu_model="V100"))
    preempts(state, group("a", "vision", (1, 8)), reserve=True)
    state.delete("o")
    assert waits(state, opportunistic("q", "vision", (1, 1), gpu_model="V100")).code == "no_idle_gpus"
    state.delete("a")
    placed(state, opportunistic("q", "vision", (1, 4), gpu_model="V100"))


def test_free_cells_of_another_model_come_before_preemption() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 1, "P100-NODE": 1}}))
    placed(state, group("low", "vision", (1, 8), priority=0))
    assert placed(state, group("high", "vision", (1, 4))).gpu_model == "P100"
    assert preempts(state, group("higher", "vision", (1, 4), priority=20)).placement.gpu_model == "V100"


def test_a_withdrawn_reservation_gives_back_what_the_victims_have_still() -> None:
    state = two_nodes()
    for name in "ab":
        placed(state, group(name, "vision", (1, 8), priority=0))
    before = state.dump()
    preempts(state, group("high", "vision", (2, 8)), reserve=True)
    assert [each["state"] for each in state.dump()["groups"]] == [
        "being preempted",
        "being preempted",
        "preempting",
    ]
    state.delete("high")
    state.check()
    assert state.dump() == before
    # And what they have left meanwhile is free.
    preempts(state, group("high", "vision", (2, 8)), reserve=True)
    state.delete("a")
    state.delete("high")
    placed(state, group("c", "vision", (1, 8), priority=0))


def test_of_two_preemptors_the_higher_wins_and_the_lower_is_withdrawn() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 1}}))
    placed(state, group("low", "vision", (1, 8), priority=0))
    preempts(state, group("middle", "vision", (1, 8), priority=10), reserve=True)
    assert waits(state, group("as-high", "vision", (1, 8), priority=10)).code == "cells_in_use"
    answer = preempts(state, group("high", "vision", (1, 8), priority=20), reserve=True)
    assert (answer.victims, answer.placement.withdrawn) == (("low",), ("middle",))
    state.delete("high")
    assert [each["state"] for each in state.dump()["groups"]] == ["allocated"]


def test_a_preemptor_that_comes_when_the_victim_has_left_is_bound_at_once() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 1}}))
    placed(state, group("low", "vision", (1, 8), priority=0))
    preempts(state, group("middle", "vision", (1, 8), priority=10), reserve=True)
    state.delete("low")
    assert placed(state, group("high", "vision", (1, 8), priority=20)).withdrawn == ("middle",)
    assert list(state.groups) == ["high"]


def test_a_reservation_on_a_broken_or_not_suggested_node_is_made_anew() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 1}}, speech={"cells": {"V100-NODE": 6}}))
    placed(state, opportunistic("o", "vision", (8, 8)))
    wanted = group("a", "vision", (1, 8))
    first = preempts(state, wanted, reserve=True)
    assert (first.victims, nodes(first)) == (("o",), ["n0"])
    state.set_node_health("n0", False)
    second = preempts(state, wanted, reserve=True)
    assert nodes(second) == ["n1"]
    elsewhere = group("a", "vision", (1, 8), suggested_nodes=frozenset({"n5"}))
    assert nodes(preempts(state, elsewhere, reserve=True)) == ["n5"]
    state.delete("o")
    assert nodes(placed(state, elsewhere)) == ["n5"]


# Lazy preemption


def test_a_lazily_preempted_group_runs_on_as_opportunistic() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 1}}, speech={"cells": {"V100-NODE": 1}}))
    low = placed(state, group("low", "vision", (1, 8), priority=0, lazy_preemption=True))
    answer = placed(state, group("high", "vision", (1, 8)))
    assert answer.lapsed == ("low",)
    assert nodes(answer) != nodes(low)
    assert state.groups["low"].pods == low.pods
    assert not state.groups["low"].guaranteed
    # It can be made to leave now by whoever owns the hardware, as any opportunistic group.
    placed(state, opportunistic("o", "vision", (6, 8)))
    assert len(preempts(state, group("s", "speech", (1, 8))).victims) == 1


def test_a_group_that_may_lapse_stops_when_there_is_no_other_hardware() -> None:
    state = CellState(racks(vision={"cells": {"V100-RACK": 4}}))
    placed(state, group("low", "vision", (8, 8), priority=0, lazy_preemption=True))
    before = state.dump()
    answer = preempts(state, group("high", "vision", (1, 8)))
    assert (answer.victims, answer.placement.lapsed) == (("low",), ("low",))
    assert state.dump() == before, "only reported: it has not lapsed"


def test_a_binding_that_fails_undoes_lazy_preemption() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 1}}, speech={"cells": {"V100-NODE": 2}}))
    only = frozenset({"n0"})
    placed(state, group("s", "speech", (1, 8), suggested_nodes=only))
    placed(state, group("low", "vision", (1, 8), priority=0, lazy_preemption=True))
    before = state.dump()
    assert waits(state, group("high", "vision", (1, 8), suggested_nodes=only)).code == "nodes_not_suggested"
    assert state.dump() == before


# Opportunistic groups


def test_opportunistic_groups_stay_away_from_guaranteed_ones() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 4}}))
    placed(state, group("a", "vision", (1, 4)))
    assert nodes(placed(state, opportunistic("o", "vision", (1, 2)))) == ["n1"]
    assert nodes(placed(state, opportunistic("p", "vision", (1, 4)))) == ["n1"]
    assert nodes(placed(state, opportunistic("q", "vision", (1, 4)))) == ["n2"]


def test_binding_disturbs_the_fewest_opportunistic_gpus() -> None:
    state = CellState(racks(vision={"cells": {"V100-RACK": 1}}, speech={"cells": {"V100-NODE": 4}}))
    for name, gpus, node in (("o", 8, "n0"), ("p", 1, "n2"), ("q", 3, "n4"), ("r", 2, "n6")):
        placed(state, opportunistic(name, "speech", (1, gpus), suggested_nodes=frozenset({node})))
    assert nodes(placed(state, group("a", "vision", (1, 8)))) == ["n3"], "the rack with least in use"
    answer = preempts(state, group("b", "vision", (1, 8)))
    assert answer.victims == ("p",), "the cell is where it is now"
    # A node is split off a rack that is free as a whole, since that disturbs nobody.
    assert nodes(placed(state, group("s", "speech", (1, 8)))) == ["n1"]


def test_opportunistic_groups_use_pinned_hardware_until_its_owner_comes() -> None:
    state = CellState(racks(vision={"pinned": {"demo": "rack-0/n0"}}, speech={}))
    only = frozenset({"n0"})
    placed(state, opportunistic("o", "speech", (2, 4), suggested_nodes=only))
    wanted = group("a", "vision", (1, 2), pinned_cell="demo")
    assert preempts(state, wanted).victims == ("o",)
    state.delete("o")
    assert placed(state, wanted).guaranteed


def test_pinned_cells_hold_only_who_names_them() -> None:
    cells: dict[str, object] = {"cells": {"V100-NODE": 1}, "pinned": {"demo": "rack-0/n0/1"}}
    state = CellState(racks(vision=cells))
    placed(state, group("a", "vision", (1, 8)))
    assert waits(state, group("b", "vision", (1, 2))).code == "cells_in_use"
    assert placed(state, group("c", "vision", (1, 2), pinned_cell="demo")).within == "rack-0/n0/1"
    assert waits(state, group("d", "vision", (1, 1), pinned_cell="demo")).code == "cells_in_use"
    assert waits(state, group("e", "vision", (1, 4), pinned_cell="demo")).code == "cells_too_small"


def test_an_opportunistic_group_waits_for_idle_hardware() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 4}}))
    assert waits(state, opportunistic("huge", "vision", (1, 16))).code == "nodes_too_small"
    placed(state, opportunistic("o", "vision", (8, 7), gpu_model="V100"))
    answer = waits(state, opportunistic("p", "vision", (1, 2), gpu_model="V100"))
    assert answer.code == "no_idle_gpus"
    assert answer.message == "It needs 1 × 2 GPUs; 8 GPUs are idle, at most 1 of them on one node."
    only = frozenset({"n0"})
    suggested = opportunistic("q", "vision", (2, 1), gpu_model="V100", suggested_nodes=only)
    assert waits(state, suggested).code == "nodes_not_suggested"


# Suggested nodes


def test_a_gang_is_placed_on_suggested_nodes_only() -> None:
    state = CellState(racks(vision={"cells": {"V100-RACK": 1}}, speech={"cells": {"V100-NODE": 3}}))
    for left_out in ("n0", "n4"):
        rest = frozenset(f"n{n}" for n in range(8)) - {left_out}
        answer = placed(state, group(left_out, "vision", (2, 8), suggested_nodes=rest))
        assert left_out not in nodes(answer)
        state.delete(left_out)
    # One node of each rack: no rack can be bound for a whole rack.
    half = frozenset({"n0", "n2", "n4", "n6"})
    assert waits(state, group("rack", "vision", (2, 8), suggested_nodes=half)).code == "nodes_not_suggested"
    assert nodes(placed(state, group("node", "vision", (1, 8), suggested_nodes=half))) == ["n0"]


def test_when_one_cell_can_not_be_bound_others_are_tried() -> None:
    """The packed choice is a node cell, whose hardware would not do; the rack that is bound will."""
    state = CellState(racks(vision={"cells": {"V100-RACK": 1, "V100-SWITCH": 1}}))
    placed(state, group("a", "vision", (2, 8), suggested_nodes=frozenset({"n2", "n3"})))
    state.delete("a")
    placed(state, group("b", "vision", (1, 8), suggested_nodes=frozenset({"n3"})))
    only = frozenset({"n2"})
    assert nodes(placed(state, group("c", "vision", (1, 2), suggested_nodes=only))) == ["n2"]


# Splitting


def test_a_larger_cell_is_split_only_while_all_that_is_owed_remains() -> None:
    state = CellState(racks(vision={"cells": {"V100-RACK": 3}}, speech={"cells": {"V100-NODE": 2}}))
    rest = frozenset({"n0", "n2"})
    placed(state, group("a", "speech", (1, 8), suggested_nodes=rest))
    # The second node may not come from another rack: three must stay whole for vision.
    assert waits(state, group("b", "speech", (1, 8), suggested_nodes=rest)).code == "nodes_not_suggested"
    assert nodes(placed(state, group("b", "speech", (1, 8)))) == ["n1"]
    placed(state, group("c", "vision", (6, 8)))


def test_a_group_that_runs_is_taken_in_where_it_is() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 1}, "pinned": {"demo": "rack-3/n7"}}))
    wanted = group("a", "vision", (2, 4))
    pods = (Pod("n5", (0, 1, 2, 3)), Pod("n5", (4, 5, 6, 7)))
    first = state.adopt(wanted, pods)
    state.check()
    assert (first.guaranteed, first.pods, first.within) == (True, pods, "rack-2/n5")
    assert placed(state, wanted) == first
    assert waits(state, group("b", "vision", (1, 1), priority=0)).code == "cells_in_use"
    assert state.adopt(
        group("p", "vision", (1, 8), pinned_cell="demo"), [Pod("n7", tuple(range(8)))]
    ).guaranteed
    beyond = state.adopt(group("c", "vision", (1, 8)), [Pod("n0", tuple(range(8)))])
    assert not beyond.guaranteed, "its virtual cluster has no second cell"
    gone = state.adopt(group("d", "vision", (1, 2)), [Pod("unknown", (0, 1))])
    assert (gone.guaranteed, gone.within) == (True, ""), "its GPUs are owed to no other group"
    state.check()
    for name in ("a", "p", "c", "d"):
        state.delete(name)
    again = CellState(racks(vision={"cells": {"V100-NODE": 1}, "pinned": {"demo": "rack-3/n7"}}))
    assert state.dump() == again.dump()


def test_what_can_not_run_there_is_not_taken_in() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 2}}))
    placed(state, group("a", "vision", (1, 4)))
    before = state.dump()
    for wanted, pods, problem in (
        (group("a", "vision", (1, 1)), [Pod("n1", (0,))], "a is there already"),
        (group("b", "vision", (1, 2)), [Pod("n1", (0,))], r"pods: are not those of the members"),
        (group("b", "vision", (2, 1)), [Pod("n1", (0,)), Pod("n1", (0,))], "GPU 0 of n1 is named twice"),
        (group("b", "vision", (1, 1)), [Pod("n0", (3,))], r"pods\[0\]: GPU 3 of n0 is a's"),
        (group("b", "nobody", (1, 1)), [Pod("n1", (0,))], "there is no virtual cluster nobody"),
    ):
        with pytest.raises(RequestError, match=problem):
            state.adopt(wanted, pods)
    assert state.dump() == before


def test_a_dry_run_says_what_would_be_and_changes_nothing() -> None:
    state = CellState(racks(vision={"cells": {"V100-NODE": 1}}))
    placed(state, group("low", "vision", (1, 8), priority=0))
    before = state.dump()
    wanted = group("high", "vision", (1, 8))
    answer = state.schedule(wanted, reserve=True, dry_run=True)
    assert isinstance(answer, Preempt)
    assert (answer.victims, answer.reserved, state.dump()) == (("low",), False, before)
    preempts(state, wanted, reserve=True)
    state.set_node_health("n0", False)
    before = state.dump()
    planned = state.schedule(wanted, reserve=True, dry_run=True)
    assert state.dump() == before, "also where what is reserved would have to be planned anew"
    assert type(planned) is type(state.schedule(wanted))
