"""Policies and placers are chosen while the cluster runs: for a virtual cluster, and for the spare GPUs."""

import pytest

from scheduler.core.round.registry import PLACERS, POLICIES, make_placer, make_policy
from scheduler.core.solvers.solving import OBJECTIVES
from scheduler.models import Round
from scheduler.plugins import problems_with_placer, problems_with_policy
from scheduler.rounds.run import run_round
from scheduler.rounds.snapshot import read_snapshot
from tenants.models import AuditEntry
from tests.api.caller import is_error
from tests.scheduler.builders import make_job
from tests.scheduler.conftest import World

#: How far policies may go while nobody has said otherwise.
#: The cluster's other settings, as installed.
OTHERS = {
    "preemptions_per_round": None,
    "backoff_seconds": 30.0,
    "most_backoff_seconds": 600.0,
    "idle_gpus_seconds": None,
    "idle_gpus_below_percent": 5.0,
    "idle_gpus_then": "warn",
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
        assert problems_with_policy(each["name"], defaults) == []
        make_policy(each["name"], defaults)


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
    assert make_placer(vc.placer) == make_placer("delay", {"relax_after_seconds": 600})
    assert problems_with_placer("fgd:workload=1:4:70|8:64:30") == []


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
    asked = {"spare_policy": "las:quantum_seconds=60", "spare_placer": "spread"}
    assert world.member.get("/cluster/settings").json() == {
        "spare_policy": "fifo",
        "spare_placer": "consolidate",
        **OTHERS,
        "overrun": None,
    }
    assert world.operator.patch("/cluster/settings", asked).json() == {**asked, **OTHERS, "overrun": None}
    assert world.member.get("/cluster/settings").json() == {**asked, **OTHERS, "overrun": None}
    entry = AuditEntry.objects.get(action="cluster-settings.change")
    assert entry.before["spare_policy"] == "fifo"
    assert entry.after == {name: value for name, value in asked.items() if name in entry.before}

    job = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster, gpus=2, guaranteed=False)
    record = Round.objects.get(number=run_round())
    assert (record.state, record.degraded) == ("applied", {})
    assert job.attempts.exists()
    snapshot = read_snapshot(9)
    assert (snapshot.spare_policy, snapshot.spare_placer) == (asked["spare_policy"], "spread")


def test_a_change_of_one_setting_keeps_the_other_and_none_is_no_entry(world: World) -> None:
    world.operator.patch("/cluster/settings", {"spare_policy": "las"})
    answer = world.operator.patch("/cluster/settings", {"spare_placer": "spread"}).json()
    assert answer == {"spare_policy": "las", "spare_placer": "spread", **OTHERS, "overrun": None}
    world.operator.patch("/cluster/settings", {})
    assert AuditEntry.objects.filter(action="cluster-settings.change").count() == 2


@pytest.mark.parametrize(
    ("asked", "field", "expected"),
    [
        ({"spare_policy": "lass"}, "spare_policy", "one of: allox, drf, fair, fifo"),
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
