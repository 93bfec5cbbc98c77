"""Policies and placers are chosen while the cluster runs: for a virtual cluster, and for the spare GPUs."""

import pytest

from scheduler.core.round.registry import PLACERS, POLICIES, make_placer, make_policy
from scheduler.core.solvers.solving import OBJECTIVES
from scheduler.models import Event, Round
from scheduler.plugins import POLICY, ChosenPlugin
from scheduler.rounds.run import run_round
from scheduler.rounds.snapshot import read_snapshot
from tenants.models import AuditEntry, VirtualCluster
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
    # As clients of before know them.
    assert (answer["policy"], answer["policy_parameters"]) == ("las", {"quantum_seconds": 60})
    assert answer["placer"] == "fgd:workload=1:4:70|8:64:30"
    (vc,) = read_snapshot(1).virtual_clusters
    assert make_placer(vc.placer, vc.placer_parameters) == make_placer(answer["placer"])

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
            "'soon' is no quantum_seconds of las",
            "a value of type float",
        ),
        (
            {"name": "tiresias", "parameters": {"discipline": "none"}},
            "parameters.discipline",
            "'none' is no discipline of tiresias",
            "one of: las, gittins",
        ),
        (
            {"name": "gavel", "parameters": {"parts": 0, "sharing": True}},
            "parameters.parts",
            "policy gavel does not take these parameters: parts must be at least 1",
            "a value of type int",
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


def test_both_forms_may_say_the_same(world: World) -> None:
    las = {"name": "las", "parameters": {"quantum_seconds": 60}}
    delay = {"name": "delay", "parameters": {"relax_after_seconds": 60}}
    for told in (
        {"policy": "las"},
        {"policy_parameters": {"quantum_seconds": 60.0}},
        {"policy": "las", "policy_parameters": {"quantum_seconds": 60}},
        {"policy": "las:quantum_seconds=60", "placer": "delay:relax_after_seconds=60"},
    ):
        asked = {"policy_plugin": las, "placer_plugin": delay, **told}
        answer = world.operator.put("/virtual-clusters/research", asked).json()
        assert (answer["policy_plugin"], answer["placer_plugin"]) == (las, delay)
    asked = {"spare_policy_plugin": las, "spare_policy": "las:quantum_seconds=60"}
    assert world.operator.patch("/cluster/settings", asked).json()["spare_policy_plugin"] == las


@pytest.mark.parametrize(
    ("told", "at", "problem"),
    [
        (
            {"policy": "fifo"},
            "policy_plugin",
            "says las:quantum_seconds=60, and policy says fifo",
        ),
        (
            {"policy_parameters": {"quantum_seconds": 5}},
            "policy_plugin",
            "says las:quantum_seconds=60, and policy_parameters says las:quantum_seconds=5",
        ),
        (
            {"policy": "las", "policy_parameters": {}},
            "policy_plugin",
            "says las:quantum_seconds=60, and policy and policy_parameters say las",
        ),
        (
            {"placer": "delay"},
            "placer_plugin",
            "says delay:relax_after_seconds=60, and placer says delay",
        ),
    ],
)
def test_forms_that_contradict_each_other_are_refused(
    world: World, told: dict, at: str, problem: str
) -> None:
    asked = {
        "policy_plugin": {"name": "las", "parameters": {"quantum_seconds": 60}},
        "placer_plugin": {"name": "delay", "parameters": {"relax_after_seconds": 60}},
        **told,
    }
    (wrong,) = is_error(world.operator.put("/virtual-clusters/research", asked), 400, "invalid")["fields"]
    assert (wrong["field"], wrong["problem"]) == (at, problem)
    assert wrong["expected"] == f"{at} alone, or the same in {' and '.join(told)}"
    assert VirtualCluster.objects.get(name="research").policy == "fifo"


def test_settings_that_contradict_each_other_are_refused(world: World) -> None:
    asked = {"spare_placer_plugin": {"name": "spread"}, "spare_placer": "random:seed=3"}
    (wrong,) = is_error(world.operator.patch("/cluster/settings", asked), 400, "invalid")["fields"]
    assert wrong["field"] == "spare_placer_plugin"
    assert wrong["problem"] == "says spread, and spare_placer says random:seed=3"


# The fields of before, which are deprecated.


def test_a_parameter_is_not_given_in_two_ways(world: World) -> None:
    asked = {"policy": "las:quantum_seconds=60", "policy_parameters": {"quantum_seconds": 60}}
    (wrong,) = is_error(world.operator.put("/virtual-clusters/research", asked), 400, "invalid")["fields"]
    assert (wrong["field"], wrong["expected"]) == ("policy", "one of the two")
    assert wrong["problem"] == "parameter quantum_seconds is also in policy_parameters"


def test_a_value_that_is_not_among_those_listed_is_refused_at_its_parameter(world: World) -> None:
    asked = {"policy": "gavel", "policy_parameters": {"objective": "everything"}}
    body = is_error(world.operator.put("/virtual-clusters/research", asked), 400, "invalid")
    (problem,) = body["fields"]
    assert problem["field"] == "policy_parameters.objective"
    assert "max_min" in problem["expected"]


def test_a_placer_takes_parameters_in_its_text(world: World) -> None:
    text = "delay:relax_after_seconds=600"
    assert world.operator.put("/virtual-clusters/research", {"placer": text}).json()["placer"] == text
    (vc,) = read_snapshot(1).virtual_clusters
    assert (vc.placer, vc.placer_parameters) == ("delay", {"relax_after_seconds": 600})
    # What has none means the usual ones.
    assert world.operator.put("/virtual-clusters/research", {"placer": "delay"}).json()["placer"] == "delay"


def test_a_policy_in_one_line_is_stored_as_name_and_parameters(world: World) -> None:
    answer = world.operator.put("/virtual-clusters/research", {"policy": "las:quantum_seconds=60"}).json()
    assert (answer["policy"], answer["policy_parameters"]) == ("las", {"quantum_seconds": 60})


def test_another_policy_begins_with_its_defaults(world: World) -> None:
    world.operator.put("/virtual-clusters/research", {"policy": "las:quantum_seconds=60"})
    kept = world.operator.put("/virtual-clusters/research", {"title": "Research"}).json()
    assert kept["policy_parameters"] == {"quantum_seconds": 60}
    changed = world.operator.put("/virtual-clusters/research", {"policy": "sjf"}).json()
    assert (changed["policy"], changed["policy_parameters"]) == ("sjf", {})


def test_the_spare_gpus_have_a_policy_and_placer_of_their_own(world: World) -> None:
    asked = {
        "spare_policy_plugin": {"name": "las", "parameters": {"quantum_seconds": 60}},
        "spare_placer_plugin": {"name": "spread", "parameters": {}},
    }
    assert world.member.get("/cluster/settings").json() == {
        "spare_policy_plugin": {"name": "fifo", "parameters": {}},
        "spare_placer_plugin": {"name": "consolidate", "parameters": {}},
        "spare_policy": "fifo",
        "spare_placer": "consolidate",
        **OTHERS,
    }
    answer = world.operator.patch("/cluster/settings", asked).json()
    aliases = {"spare_policy": "las:quantum_seconds=60", "spare_placer": "spread"}
    assert answer == {**asked, **aliases, **OTHERS}
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


def test_they_are_chosen_by_texts_too(world: World) -> None:
    asked = {"spare_policy": "las:quantum_seconds=60", "spare_placer": "random:seed=3"}
    answer = world.operator.patch("/cluster/settings", asked).json()
    assert {name: answer[name] for name in asked} == asked
    assert answer["spare_policy_plugin"] == {"name": "las", "parameters": {"quantum_seconds": 60}}
    assert answer["spare_placer_plugin"] == {"name": "random", "parameters": {"seed": 3}}
    answer = world.operator.patch("/cluster/settings", {"spare_policy": "las"}).json()
    assert answer["spare_policy_plugin"] == {"name": "las", "parameters": {}}


def test_a_change_of_one_setting_keeps_the_other_and_none_is_no_entry(world: World) -> None:
    world.operator.patch("/cluster/settings", {"spare_policy": "las"})
    answer = world.operator.patch("/cluster/settings", {"spare_placer": "spread"}).json()
    assert (answer["spare_policy"], answer["spare_placer"]) == ("las", "spread")
    world.operator.patch("/cluster/settings", {})
    assert AuditEntry.objects.filter(action="cluster-settings.change").count() == 2


@pytest.mark.parametrize(
    ("asked", "field", "expected"),
    [
        ({"spare_policy": "lass"}, "spare_policy", "one of: allox, aryl, drf, fair, fifo"),
        ({"spare_policy": "las:quantum=1"}, "spare_policy", "quantum_seconds (float)"),
        ({"spare_placer": "delay:relax_after_seconds=true"}, "spare_placer", "float"),
        ({"spare_policy": ""}, "spare_policy", ""),
    ],
)
def test_what_is_wrong_with_a_setting_is_named(world: World, asked: dict, field: str, expected: str) -> None:
    body = is_error(world.operator.patch("/cluster/settings", asked), 400, "invalid")
    assert body["fields"][0]["field"] == field
    assert expected in body["fields"][0]["expected"]
    is_error(world.member.patch("/cluster/settings", {"spare_policy": "las"}), 403, "not_allowed")
