"""Cells over the API: operators divide the cluster, everybody sees what became of it."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduler.models import CellSpecification, Event, MaintenanceWindow, PolicyMemory
from tenants.models import Guarantee
from tests.api.caller import is_error
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node, make_vc
from tests.scheduler.conftest import World

#: Two nodes of eight V100 in a rack, in pairs behind switches.
TYPES = {
    "V100-SWITCH": {"of": "V100", "count": 2},
    "V100-NODE": {"of": "V100-SWITCH", "count": 4, "node": True},
    "V100-RACK": {"of": "V100-NODE", "count": 2},
}


def document(**cells: Any) -> dict[str, Any]:
    """Return a specification for nodes node-a and node-b, with these entries of virtual clusters."""
    return {
        "types": dict(TYPES),
        "physical": [{"type": "V100-RACK", "name": "rack-1", "nodes": ["node-a", "node-b"]}],
        "virtual_clusters": cells,
    }


@pytest.fixture
def divided(world: World) -> World:
    """The world with a second node, divided: a node and a switch for research, a pinned switch for speech."""
    make_node("node-b", gpus=8)
    make_vc("speech")
    wanted = document(
        research={"cells": {"V100-NODE": 1, "V100-SWITCH": 1}},
        speech={"pinned": {"desk": "rack-1/node-b/3"}},
    )
    answer = world.operator.put("/cells", {"specification": wanted, "version": 0})
    assert answer.status_code == 200, answer.content
    return world


def fields(answer: Any, status: int = 400, code: str = "invalid") -> dict[str, str]:
    """Return what is wrong, by field."""
    return {entry["field"]: entry["problem"] for entry in is_error(answer, status, code)["fields"]}


def test_before_anything_is_set_gpus_are_counted(world: World) -> None:
    cells = world.viewer.get("/cells").json()
    assert (cells["version"], cells["chains"], cells["changed_by"]) == (0, [], None)
    assert cells["specification"] == {"types": {}, "physical": [], "virtual_clusters": {}}
    assert world.viewer.get("/cells/tree").json() == {"results": [], "next": None, "previous": None}


def test_a_specification_is_in_force_with_its_guarantees(divided: World) -> None:
    cells = divided.viewer.get("/cells").json()
    assert (cells["version"], cells["changed_by"], cells["gpu_models"]) == (1, "user olga", ["V100"])
    assert list(cells["specification"]["types"]) == list(TYPES)
    assert cells["problems"] == []
    (chain,) = cells["chains"]
    assert [(kind["name"], kind["gpus"], kind["is_node"]) for kind in chain["types"]] == [
        ("V100", 1, False),
        ("V100-SWITCH", 2, False),
        ("V100-NODE", 8, True),
        ("V100-RACK", 16, False),
    ]
    assert [line["owned"] for line in chain["cells"]] == [0, 2, 1, 0]
    assert set(Guarantee.objects.values_list("virtual_cluster__name", "gpu_model", "gpus")) == {
        ("research", "V100", 10),
        ("speech", "V100", 2),
    }
    told = divided.viewer.get("/virtual-clusters/research").json()
    assert (told["guaranteed"], told["cells"], told["pinned"]) == (
        {"V100": 10},
        {"V100-NODE": 1, "V100-SWITCH": 1},
        {},
    )
    assert told["version"] == 2
    assert divided.viewer.get("/virtual-clusters/speech").json()["pinned"] == {"desk": "rack-1/node-b/3"}
    kinds = set(Event.objects.values_list("kind", "actor"))
    assert {("cells.changed", "user olga"), ("virtual_cluster.changed", "user olga")} <= kinds


def test_an_old_version_is_refused_and_history_kept(divided: World) -> None:
    wanted = document(research={"cells": {"V100-NODE": 2}})
    late = divided.operator.put("/cells", {"specification": wanted, "version": 0})
    assert "user olga changed them" in is_error(late, 409, "conflict")["detail"]
    assert divided.operator.put("/cells", {"specification": wanted, "version": 1}).json()["version"] == 2
    assert CellSpecification.objects.count() == 2
    assert set(Guarantee.objects.values_list("virtual_cluster__name", "gpus")) == {("research", 16)}


def test_everything_wrong_with_the_meaning_is_told_at_its_field(divided: World) -> None:
    too_many = document(research={"cells": {"V100-NODE": 2, "V100-SWITCH": 1}})
    wrong = fields(divided.operator.put("/cells", {"specification": too_many, "version": 1}))
    assert wrong == {
        "virtual_clusters.*.cells.V100-SWITCH": "1 V100-SWITCH are 1 too many: the hardware has 0 of them"
        " left (research 1)"
    }


def test_what_is_not_there_is_told_at_its_field(world: World) -> None:
    make_node("short", gpus=4)
    make_node("other", gpus=8, gpu_model="P100")
    make_node("mute", gpus=8, gpu_model="V100")
    wanted = document(reserch={"cells": {"V100-NODE": 1}}, research={"cells": {"V100-NODE": 1}})
    wanted["types"]["T"] = {"of": "V10", "count": 8, "node": True}
    wanted["physical"] = [
        {"type": "V100-RACK", "name": "rack-1", "nodes": ["node-a", "node-x"]},
        {"type": "V100-RACK", "name": "rack-2", "nodes": ["short", "other"]},
    ]
    answer = world.operator.post("/cells/check", {"specification": wanted})
    assert (answer.status_code, answer.json()["valid"]) == (200, False)
    wrong = {entry["field"]: entry["problem"] for entry in answer.json()["problems"]}
    assert wrong == {
        "types.T.of": 'there is neither a type nor a GPU model V10 (did you mean "V100"?)',
        "virtual_clusters.reserch": 'there is no virtual cluster reserch (did you mean "research"?)',
        "physical[0].nodes[1]": 'there is no node node-x (did you mean "node-a"?)',
        "physical[1].nodes[0]": "node short has no GPU 4, 5, 6, 7",
        "physical[1].nodes[1]": "node other has GPUs of model P100, not V100",
    }
    assert fields(world.operator.put("/cells", {"specification": wanted, "version": 0})) == wrong


def test_a_count_of_a_divided_model_is_refused(world: World) -> None:
    make_node("node-b", gpus=8)
    wrong = fields(world.operator.put("/cells", {"specification": document(), "version": 0}))
    assert wrong == {
        "virtual_clusters.research": "GPU model V100 is divided by cells, and research is guaranteed 8 of it"
        " by count"
    }


def test_guarantees_of_divided_models_follow_from_cells_alone(divided: World) -> None:
    put = divided.operator.put
    assert fields(put("/virtual-clusters/research", {"guaranteed": {"V100": 8}})) == {
        "guaranteed.V100": "GPU model V100 is divided by cells, and the cells of research come to 10, not 8"
    }
    assert put("/virtual-clusters/research", {"guaranteed": {"V100": 10}}).status_code == 200
    make_node(gpus=4, gpu_model="P100")
    told = put("/virtual-clusters/research", {"guaranteed": {"P100": 4}}).json()
    assert told["guaranteed"] == {"P100": 4, "V100": 10}
    new = divided.operator.post("/virtual-clusters", {"name": "new", "guaranteed": {"V100": 1}})
    assert "come to 0, not 1" in fields(new)["guaranteed.V100"]


def test_a_virtual_cluster_that_owns_cells_is_not_deleted(divided: World) -> None:
    answer = divided.operator.delete("/virtual-clusters/speech")
    assert "named in the specification of cells" in is_error(answer, 409, "conflict")["detail"]


def test_a_node_that_vanished_is_told_and_keeps_nobody_from_changing_the_rest(divided: World) -> None:
    from scheduler.models import Node

    Node.objects.filter(name="node-b").delete()
    cells = divided.viewer.get("/cells").json()
    assert [entry["field"] for entry in cells["problems"]] == ["physical[0].nodes[1]"]
    assert cells["chains"][0]["bad"] == 8
    wanted = document(research={"cells": {"V100-NODE": 1}})
    assert divided.operator.put("/cells", {"specification": wanted, "version": 1}).status_code == 200


def test_the_tree_shows_who_has_what(divided: World) -> None:
    node_a, node_b = gpus_of(divided.node), gpus_of(type(divided.node).objects.get(name="node-b"))
    shared = {"tenant": divided.tenant, "virtual_cluster": divided.virtual_cluster}
    make_attempt(make_job(gpus=2, **shared), node_a[:2])
    make_attempt(make_job(gpus=1, guaranteed=False, **shared), node_b[:1])
    node_b[2].healthy = False
    node_b[2].save()
    PolicyMemory.objects.create(
        view="cells", memory={"bound": {"research": [["V100-RACK", 2, 0], ["gone", 9, 9]]}}
    )

    (rack,) = divided.viewer.get("/cells/tree").json()["results"]
    assert (rack["address"], rack["gpus"], rack["children"], rack["state"]) == ("rack-1", 16, 2, "mixed")
    assert (rack["free"], rack["used"], rack["opportunistic"], rack["bad"]) == (12, 2, 1, 1)
    assert rack["virtual_cluster"] is None

    first, second = divided.viewer.get("/cells/tree?at=rack-1").json()["results"]
    assert (first["address"], first["virtual_cluster"], first["node"]) == (
        "rack-1/node-a",
        "research",
        "node-a",
    )
    assert first["level_is_node"]
    assert second["virtual_cluster"] is None

    switches = divided.viewer.get("/cells/tree?at=rack-1/node-b&chain=V100-RACK").json()["results"]
    assert [cell["state"] for cell in switches] == ["mixed", "mixed", "free", "free"]
    assert [(cell["virtual_cluster"], cell["pinned"]) for cell in switches] == [(None, "")] * 3 + [
        ("speech", "desk")
    ]
    gpus = divided.viewer.get("/cells/tree?at=rack-1/node-b/1").json()["results"]
    assert [(cell["gpu"], cell["state"], cell["children"]) for cell in gpus] == [
        (2, "bad", 0),
        (3, "free", 0),
    ]


def test_a_long_list_of_cells_comes_in_pages(divided: World) -> None:
    address = "/cells/tree?at=rack-1/node-a&page_size=3"
    page = divided.viewer.get(address).json()
    assert [cell["address"] for cell in page["results"]] == [f"rack-1/node-a/{n}" for n in range(3)]
    rest = divided.viewer.get(page["next"]).json()
    assert [cell["address"] for cell in rest["results"]] == ["rack-1/node-a/3"]
    assert rest["next"] is None
    assert divided.viewer.get(rest["previous"]).json()["results"] == page["results"]
    assert "cursor" in fields(divided.viewer.get("/cells/tree?cursor=x"))


@pytest.mark.parametrize(
    "query", ["at=rack-9", "at=rack-1/node-a/7", "chain=V100", "chain=V100-RACK&at=x/y", "at=rack-1/0"]
)
def test_an_unknown_place_is_not_found(divided: World, query: str) -> None:
    is_error(divided.viewer.get(f"/cells/tree?{query}"), 404, "not_found")


def test_doomed_cells_are_counted_when_hardware_breaks(divided: World) -> None:
    """Research owns a node and a switch, speech a switch of node-b: a broken GPU of node-a dooms the node."""
    (gpu, *_) = gpus_of(divided.node)
    gpu.healthy = False
    gpu.save()
    told = divided.viewer.get("/virtual-clusters/research/cells").json()
    assert told["guaranteed"] == {"V100": 10}
    lines = {line["type"]: line for line in told["cells"]}
    assert (lines["V100-NODE"]["owned"], lines["V100-NODE"]["free"], lines["V100-NODE"]["doomed"]) == (
        1,
        1,
        1,
    )
    assert (lines["V100-SWITCH"]["free"], lines["V100-SWITCH"]["doomed"]) == (1, 0)
    (chain,) = divided.viewer.get("/cells").json()["chains"]
    assert [line["doomed"] for line in chain["cells"]] == [0, 0, 1, 0]
    assert [line["bad"] for line in chain["cells"]] == [1, 1, 1, 1]
    (pinned,) = divided.viewer.get("/virtual-clusters/speech/cells").json()["cells"]
    assert (pinned["pinned"], pinned["name"], pinned["addresses"]) == (True, "desk", ["rack-1/node-b/3"])


def test_a_check_says_what_everybody_gets(divided: World) -> None:
    wanted = document(research={"cells": {"V100-NODE": 1}}, speech={"cells": {"V100-SWITCH": 3}})
    told = divided.operator.post("/cells/check", {"specification": wanted}).json()
    assert told["valid"]
    assert told["guaranteed"] == {"research": {"V100": 8}, "speech": {"V100": 6}}
    assert CellSpecification.objects.count() == 1


def test_malformed_documents_are_refused(world: World) -> None:
    for wrong in ([], "x", 3, {"types": []}, {"physical": [{}]}, {"tpyes": {}}):
        answer = world.operator.post("/cells/check", {"specification": wrong})
        assert (answer.status_code, answer.json()["valid"]) == (200, False), wrong
        assert fields(world.operator.put("/cells", {"specification": wrong, "version": 0})), wrong


def test_the_proposal_can_be_applied_as_it_is(world: World) -> None:
    make_node("node-b", gpus=8)
    make_node("node-c", gpus=4, gpu_model="P100", rack="rack-2")
    make_vc("speech", guaranteed={"V100": 3, "P100": 4})
    wanted = world.operator.post("/cells/proposal", {}).json()["specification"]
    assert wanted["types"]["V100-RACK"] == {"of": "V100-NODE", "count": 2}
    assert wanted["virtual_clusters"] == {
        "research": {"cells": {"V100-NODE": 1}},
        "speech": {"cells": {"P100-NODE": 1, "V100": 1, "V100-SWITCH": 1}},
    }
    answer = world.operator.put("/cells", {"specification": wanted, "version": 0})
    assert answer.status_code == 200, answer.content
    assert set(Guarantee.objects.values_list("virtual_cluster__name", "gpu_model", "gpus")) == {
        ("research", "V100", 8),
        ("speech", "V100", 3),
        ("speech", "P100", 4),
    }


def test_only_operators_divide_the_cluster(world: World) -> None:
    body = {"specification": document(), "version": 0}
    for answer in (
        world.member.put("/cells", body),
        world.member.post("/cells/check", body),
        world.member.post("/cells/proposal", {}),
    ):
        is_error(answer, 403, "not_allowed")


def test_cells_of_a_node_in_maintenance_are_bad_until_its_window_is_over(divided: World) -> None:
    def bad() -> int:
        return divided.viewer.get("/cells").json()["chains"][0]["bad"]

    now = timezone.now()
    MaintenanceWindow.objects.create(
        reason="new fans",
        nodes=["node-b"],
        starts_at=now - timedelta(hours=1),
        ends_at=now + timedelta(hours=1),
        made_at=now,
    )
    assert bad() == 8
    MaintenanceWindow.objects.update(state="over")
    assert bad() == 0
