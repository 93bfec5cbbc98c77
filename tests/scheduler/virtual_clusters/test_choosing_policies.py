"""Policies and placers are chosen while the cluster runs: for a virtual cluster, and for the spare GPUs."""

import pytest

from scheduler.core.round.registry import PLACERS, POLICIES, make_placer, make_policy
from scheduler.core.solvers.solving import OBJECTIVES
from scheduler.models import Event, Round
from scheduler.rounds.run import run_round
from scheduler.rounds.snapshot import read_snapshot
from scheduler.wiring.plugins import POLICY, ChosenPlugin
from tenants.models import AuditEntry
from tests.api.caller import is_error
from tests.scheduler.builders import make_job
from tests.scheduler.conftest import World

#: The cluster's other settings, as installed.
OTHERS = {
    "preemptions_per_round": None,
    "backoff_seconds": 30.0,
    "most_backoff_seconds": 600.0,
    "idle_gpus_seconds": None,
    "idle_gpus_below_percent": 5.0,
    "idle_gpus_then": "warn",
    "auxiliary": "tune",
    "currency": "",
    "overrun": None,
}


def test_everything_there_is_is_offered_with_what_it_takes(world: World) -> None:
    offered = world.member.get("/policies").json()
    assert [each["name"] for each in offered["policies"]] == sorted(POLICIES)
    assert [each["name"] for each in offered["placers"]] == sorted(PLACERS)
    for each in (*offered["policies"], *offered["placers"]):
        assert each["summary"].endswith(".")
        assert all(known["type"] in ("bool", "int", "float", "str", "list") for known in each["parameters"])
    (tiresias,) = [each for each in offered["policies"] if each["name"] == "tiresias"]
    discipline, thresholds = tiresias["parameters"][:2]
    assert discipline["choices"] == ["las", "gittins"]
    assert (thresholds["type"], thresholds["default"]) == ("list", [3250.0, 7200.0])
    (gavel,) = [each for each in offered["policies"] if each["name"] == "gavel"]
    assert gavel["parameters"][0]["choices"] == sorted(OBJECTIVES)


def test_what_is_offered_as_default_is_accepted(world: World) -> None:
    offered = world.member.get("/policies").json()
    for each in offered["policies"]:
        defaults = {known["name"]: known["default"] for known in each["parameters"]}
        assert POLICY.problems(ChosenPlugin(each["name"], defaults), "policy_plugin") == []
        make_policy(each["name"], defaults)


def test_they_are_chosen_by_name_and_parameters(world: World) -> None:
    asked = {
        "policy_plugin": {"name": "las", "parameters": {"quantum_seconds": 60}},
        "placer_plugin": {"name": "fgd", "parameters": {"workload": ["1:4:70", "8:64:30"]}},
    }
    answer = world.operator.put("/virtual-clusters/research", asked).json()
    assert {name: answer[name] for name in asked} == asked
    (vc,) = read_snapshot(1).virtual_clusters
    assert (vc.policy, vc.policy_parameters) == ("las", {"quantum_seconds": 60})
    assert make_placer(vc.placer, vc.placer_parameters) == make_placer("fgd:workload=1:4:70|8:64:30")

    # A name alone has the usual parameters, and what is left out stays as it is.
    answer = world.operator.put("/virtual-clusters/research", {"policy_plugin": {"name": "las"}}).json()
    assert answer["policy_plugin"] == {"name": "las", "parameters": {}}
    assert answer["placer_plugin"] == asked["placer_plugin"]
    event = Event.objects.filter(kind="virtual_cluster.changed").latest("id")
    assert event.data["before"]["policy_plugin"] == asked["policy_plugin"]
    assert event.data["after"]["policy_plugin"] == answer["policy_plugin"]


@pytest.mark.parametrize(
    ("asked", "field", "problem", "expected"),
    [
        ({"name": "lass"}, "name", "there is no 'lass'", "one of: allox, aryl, drf, fair, fifo"),
        ({"parameters": {}}, "name", "is missing", "text of 1 to 255 characters"),
        ({"name": "las", "parametres": {}}, "parametres", "is not a field here", "name, parameters"),
        (
            {"name": "las", "parameters": {"quantum": 1}},
            "parameters.quantum",
            "policy las has no parameter quantum",
            "parameters of las: quantum_seconds (float)",
        ),
        (
            {"name": "las", "parameters": {"quantum_seconds": "soon"}},
            "parameters.quantum_seconds",
            "'soon' is not a valid quantum_seconds of las",
            "a number",
        ),
        (
            {"name": "tiresias", "parameters": {"discipline": "none"}},
            "parameters.discipline",
            "'none' is not a valid discipline of tiresias",
            "one of: las, gittins",
        ),
        (
            {"name": "gavel", "parameters": {"parts": 0, "sharing": True}},
            "parameters.parts",
            "cannot be 0",
            "parts must be at least 1",
        ),
        # Text is for the command line.
        ({"name": "las:quantum_seconds=60"}, "name", "there is no 'las:quantum_seconds=60'", "one of: "),
    ],
)
@pytest.mark.parametrize("at", ["policy_plugin", "spare_policy_plugin"])
def test_what_is_wrong_with_a_choice_is_named(
    world: World, at: str, asked: dict, field: str, problem: str, expected: str
) -> None:
    if at == "policy_plugin":
        answer = world.operator.put("/virtual-clusters/research", {at: asked})
    else:
        answer = world.operator.patch("/cluster/settings", {at: asked})
    (wrong,) = is_error(answer, 400, "invalid")["fields"]
    assert (wrong["field"], wrong["problem"]) == (f"{at}.{field}", problem)
    assert expected in wrong["expected"]


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/virtual-clusters/research", "policy"),
        ("/virtual-clusters/research", "policy_parameters"),
        ("/virtual-clusters/research", "placer"),
        ("/cluster/settings", "spare_policy"),
        ("/cluster/settings", "spare_placer"),
    ],
)
def test_one_field_chooses_each(world: World, path: str, field: str) -> None:
    send = world.operator.put if path.startswith("/virtual") else world.operator.patch
    (wrong,) = is_error(send(path, {field: "spread"}), 400, "invalid")["fields"]
    assert (wrong["field"], wrong["problem"]) == (field, "is not a field here")
    assert field not in world.operator.get(path).json()


def test_another_policy_begins_with_its_defaults(world: World) -> None:
    las = {"name": "las", "parameters": {"quantum_seconds": 60}}
    world.operator.put("/virtual-clusters/research", {"policy_plugin": las})
    kept = world.operator.put("/virtual-clusters/research", {"title": "Research"}).json()
    assert kept["policy_plugin"] == las
    changed = world.operator.put("/virtual-clusters/research", {"policy_plugin": {"name": "sjf"}}).json()
    assert changed["policy_plugin"] == {"name": "sjf", "parameters": {}}


def test_the_spare_gpus_have_a_policy_and_placer_of_their_own(world: World) -> None:
    asked = {
        "spare_policy_plugin": {"name": "las", "parameters": {"quantum_seconds": 60}},
        "spare_placer_plugin": {"name": "spread", "parameters": {}},
    }
    assert world.member.get("/cluster/settings").json() == {
        "spare_policy_plugin": {"name": "fifo", "parameters": {}},
        "spare_placer_plugin": {"name": "consolidate", "parameters": {}},
        **OTHERS,
    }
    answer = world.operator.patch("/cluster/settings", asked).json()
    assert answer == {**asked, **OTHERS}
    assert world.member.get("/cluster/settings").json() == answer
    entry = AuditEntry.objects.get(action="cluster-settings.change")
    assert entry.before == {
        "spare_policy": "fifo",
        "spare_policy_parameters": {},
        "spare_placer": "consolidate",
    }
    assert entry.after["spare_policy_parameters"] == {"quantum_seconds": 60}

    job = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster, gpus=2, guaranteed=False)
    record = Round.objects.get(number=run_round())
    assert (record.state, record.degraded) == ("applied", {})
    assert job.attempts.exists()
    snapshot = read_snapshot(9)
    assert (snapshot.spare_policy, snapshot.spare_placer) == ("las", "spread")
    assert snapshot.spare_policy_parameters == {"quantum_seconds": 60}


def test_a_change_of_one_setting_keeps_the_other_and_none_is_no_entry(world: World) -> None:
    las, spread = ({"name": name, "parameters": {}} for name in ("las", "spread"))
    world.operator.patch("/cluster/settings", {"spare_policy_plugin": las})
    answer = world.operator.patch("/cluster/settings", {"spare_placer_plugin": spread}).json()
    assert (answer["spare_policy_plugin"], answer["spare_placer_plugin"]) == (las, spread)
    world.operator.patch("/cluster/settings", {})
    assert AuditEntry.objects.filter(action="cluster-settings.change").count() == 2


def test_members_change_no_setting(world: World) -> None:
    asked = {"spare_policy_plugin": {"name": "las"}}
    is_error(world.member.patch("/cluster/settings", asked), 403, "not_allowed")
