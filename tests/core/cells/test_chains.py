"""Cells as numbers, and their addresses."""

from __future__ import annotations

from scheduler.core.cells.chains import Cell, Leaf
from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.document import from_document
from scheduler.core.model.bits import members
from tests.core.cells.hierarchies import racks


def test_levels_sizes_and_numbers() -> None:
    chain = compiled(racks()).chains["V100-RACK"]
    assert chain.types == ("V100", "V100-SWITCH", "V100-NODE", "V100-RACK")
    assert (chain.sizes, chain.fanouts) == ((1, 2, 8, 16), (0, 2, 4, 2))
    assert (chain.gpu_model, chain.top, chain.node_level) == ("V100", 3, 2)
    assert [chain.count(level) for level in range(4)] == [64, 32, 8, 4]
    assert chain.everything(2) == 0b11111111
    assert chain.within(3, 1, 1) == range(8, 16)
    assert list(members(chain.set_within(3, 1, 2))) == [2, 3]
    assert chain.above(0, 63, 2) == 7
    assert chain.gpus_of(1, 9) == (Leaf("n2", 2), Leaf("n2", 3))


def test_addresses_are_found_again() -> None:
    layout = compiled(racks())
    for chain in layout.chains.values():
        for level in range(chain.top + 1):
            for number in range(chain.count(level)):
                address = chain.address(level, number)
                assert layout.find(address) == Cell(chain.name, level, number)
    assert layout.chains["V100-RACK"].address(0, 27) == "rack-1/n3/1/1"
    for unknown in ("rack-9", "rack-1/n0", "rack-1/n3/4", "rack-1/n3/1/1/0", ""):
        assert layout.find(unknown) is None


def test_what_is_above_the_node_is_numbered() -> None:
    layout = compiled(
        from_document(
            {
                "types": {
                    "N": {"of": "G", "count": 1, "node": True},
                    "R": {"of": "N", "count": 2},
                    "ROW": {"of": "R", "count": 2},
                },
                "physical": [{"type": "ROW", "name": "row", "nodes": ["a", "b", "c", "d"]}],
            }
        )
    )
    assert layout.chains["ROW"].address(0, 2) == "row/1/c/0"


def test_gpus_in_another_order_and_what_is_guaranteed() -> None:
    layout = compiled(
        from_document(
            {
                "types": {"N": {"of": "G", "count": 4, "node": True}},
                "physical": [
                    {"type": "N", "nodes": ["a"]},
                    {"type": "N", "nodes": ["b"], "gpus": {"b": [7, 5, 6, 4]}},
                ],
                "virtual_clusters": {"v": {"cells": {"G": 2, "N": 0}, "pinned": {"p": "b"}}, "w": {}},
            }
        )
    )
    assert layout.chains["N"].gpus_of(1, 1) == (Leaf("b", 7), Leaf("b", 5), Leaf("b", 6), Leaf("b", 4))
    assert layout.where[Leaf("b", 6)] == (layout.chains["N"], 6)
    assert layout.gpu_models == {"G"}
    assert (layout.guaranteed("v"), layout.guaranteed("w"), layout.guaranteed("x")) == ({"G": 6}, {}, {})
    assert layout.owned["v"] == {("N", 0): 2}
