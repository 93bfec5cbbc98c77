"""Specifications as documents, and everything that can be wrong with them: which part, and by how much."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest

from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.document import from_document, to_document
from scheduler.core.cells.errors import SpecificationError
from tests.core.cells.hierarchies import RACKS, random_specification

GOOD: dict[str, Any] = {
    **RACKS,
    "virtual_clusters": {
        "vision": {"cells": {"V100-RACK": 1, "V100-SWITCH": 3}, "pinned": {"demo": "rack-3/n7"}},
        "speech": {"cells": {"P100-NODE": 2}},
    },
}


def problems(document: Any) -> list[str]:
    with pytest.raises(SpecificationError) as raised:
        compiled(from_document(document))
    return [str(problem) for problem in raised.value.problems]


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the good document with another value at "part/part/..."; numbers count in lists."""
    document: Any = copy.deepcopy(GOOD)
    *way, last = path.split("/")
    place = document
    for step in way:
        place = place[int(step)] if isinstance(place, list) else place[step]
    if isinstance(place, list):
        place[int(last)] = value
    else:
        place[last] = value
    return dict(document)


def test_a_document_gives_its_specification_back() -> None:
    specification = from_document(GOOD)
    assert from_document(json.loads(json.dumps(to_document(specification)))) == specification
    for seed in range(20):
        other = random_specification(random.Random(seed))
        assert from_document(json.loads(json.dumps(to_document(other)))) == other


def test_an_empty_document_has_no_cells() -> None:
    assert compiled(from_document({})).chains == {}


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("more", 1, "cells: 'more' is not known here (one of: types, physical, virtual_clusters)"),
        ("types", [], "types: must be an object and is [] (names with values)"),
        ("types/X", 3, "types.X: must be an object and is 3 (with of, count, node)"),
        ("types/V100-NODE/of", None, "types.V100-NODE.of: is missing (a name)"),
        ("types/V100-NODE/count", "4", "types.V100-NODE.count: '4' is not a whole number up to 1000000"),
        ("types/V100-NODE/count", True, "types.V100-NODE.count: True is not a whole number"),
        ("types/V100-NODE/node", "yes", "types.V100-NODE.node: 'yes' is neither true nor false"),
        ("physical", {}, "physical: must be a list and is {}"),
        ("physical/0/nodes", "n0", "physical[0].nodes: must be a list and is 'n0'"),
        ("physical/0/nodes/1", 1.5, "physical[0].nodes[1]: 1.5 is not a name"),
        ("physical/0/name", None, "physical[0].name: is missing"),
        ("physical/0/gpus", {"n0": [0, "x"]}, "physical[0].gpus.n0[1]: 'x' is not a whole number"),
        (
            "virtual_clusters/vision/cells/V100-RACK",
            None,
            "virtual_clusters.vision.cells.V100-RACK: is missing",
        ),
        ("virtual_clusters/vision/cells", 7, "virtual_clusters.vision.cells: must be an object and is 7"),
    ],
)
def test_what_has_the_wrong_form(path: str, value: Any, problem: str) -> None:
    assert [found for found in problems(changed(path, value)) if found.startswith(problem)]


@pytest.mark.parametrize("document", [None, 3, "types", []])
def test_what_is_no_document(document: Any) -> None:
    assert "must be an object" in problems(document)[0]


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("types/V100-SWITCH/count", 0, "types.V100-SWITCH.count: 0 is less than 1 (a whole number from 1)"),
        ("types/V100-SWITCH/of", "V100-RACK", "types.V100-SWITCH: contains itself"),
        (
            "types/V100-RACK/node",
            True,
            "types.V100-RACK: has several types that are nodes: V100-RACK and V100-NODE (one of them)",
        ),
        (
            "physical/0/type",
            "V100-ROW",
            "physical[0].type: there is no type V100-ROW"
            " (one of: P100-NODE, V100-NODE, V100-RACK, V100-SWITCH)",
        ),
        (
            "physical/0/type",
            "V100-SWITCH",
            "physical[0].type: V100-SWITCH contains no type that is a node"
            " (mark the type that is one machine with node: true)",
        ),
        (
            "physical/0/nodes",
            ["n0"],
            "physical[0].nodes: rack-0 names 1 nodes and a V100-RACK has 2 (exactly 2)",
        ),
        ("physical/1/name", "rack-0", "physical[1].name: there are two cells named rack-0 (unique names)"),
        ("physical/1/name", "a/b", "physical[1].name: 'a/b' cannot be used (a name without a slash)"),
        ("physical/0/gpus", {"n9": [0]}, "physical[0].gpus.n9: is not among the nodes of this cell"),
        (
            "physical/4/gpus",
            {"p0": [0, 1, 2, 2]},
            "physical[4].gpus.p0: [0, 1, 2, 2] are not 4 different indices (one a GPU)",
        ),
        ("physical/1/nodes", ["n1", "n3"], "physical: GPU 0 of node n1 is in rack-0 and in rack-1"),
        (
            "virtual_clusters/vision/cells/V100-SWITCH",
            -1,
            "virtual_clusters.vision.cells.V100-SWITCH: -1 is less than 0 (a whole number from 0)",
        ),
        (
            "virtual_clusters/vision/cells/H100",
            1,
            "virtual_clusters.vision.cells.H100: the hardware has no cells of type H100"
            " (one of: P100, P100-NODE, V100, V100-NODE, V100-RACK, V100-SWITCH)",
        ),
        (
            "virtual_clusters/vision/pinned/demo",
            "rack-3/n9",
            "virtual_clusters.vision.pinned.demo: there is no cell at rack-3/n9"
            " (an address such as rack-1/node-3)",
        ),
        (
            "virtual_clusters/speech/pinned",
            {"mine": "rack-3/n7/0"},
            "virtual_clusters.speech.pinned.mine: rack-3/n7/0 overlaps rack-3/n7, which is pinned to vision",
        ),
        (
            "virtual_clusters/speech/cells/V100-RACK",
            3,
            "virtual_clusters.*.cells.V100-RACK: 4 V100-RACK are 1 too many: the hardware has 3 of them left"
            " (vision 1, speech 3) (at most 3 in all)",
        ),
        (
            "virtual_clusters/speech/cells/V100-NODE",
            5,
            "virtual_clusters.*.cells.V100-SWITCH: 3 V100-SWITCH are 3 too many:"
            " the hardware has 0 of them left (vision 3) (at most 0 in all)",
        ),
    ],
)
def test_what_makes_no_sense(path: str, value: Any, problem: str) -> None:
    assert problem in problems(changed(path, value))


def test_a_slash_is_for_addresses() -> None:
    document = {"types": {"A/B": {"of": "V100", "count": 1}}}
    assert problems(document) == ["types.A/B: cannot be used as a name (a name without a slash)"]


def test_a_type_of_several_chains_must_say_which() -> None:
    document = changed("physical/4", {"type": "V100-NODE", "nodes": ["single"]})
    document["virtual_clusters"] = {"speech": {"cells": {"V100-NODE": 1}}}
    assert problems(document) == [
        "virtual_clusters.speech.cells.V100-NODE: there is V100-NODE in several kinds of hardware"
        " (V100-RACK/V100-NODE or V100-NODE/V100-NODE)"
    ]
    document["virtual_clusters"]["speech"] = {"cells": {"V100-NODE/V100-NODE": 1}}
    assert compiled(from_document(document)).owned["speech"] == {("V100-NODE", 2): 1}


def test_too_many_levels_and_too_many_gpus() -> None:
    types = {f"T{level}": {"of": f"T{level - 1}", "count": 1, "node": level == 1} for level in range(1, 18)}
    assert "types.T17: has 17 levels above the GPU (at most 15)" in problems({"types": types})
    huge = {"types": {"N": {"of": "G", "count": 1_000_000, "node": True}, "R": {"of": "N", "count": 2}}}
    found = problems(huge | {"physical": [{"type": "R", "name": "r", "nodes": ["a", "b"]}]})
    assert found == ["physical[0].type: has 2000000 GPUs (at most 1000000)"]


def test_everything_that_is_wrong_is_said_at_once() -> None:
    document = changed("types/V100-NODE/count", 0)
    document["types"]["P100-NODE"]["count"] = -1
    assert len(problems(document)) == 2
