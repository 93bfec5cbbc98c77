"""Nodes on which nothing keeps jobs apart: refused, counted, named, and told to who submits."""

import json
from collections.abc import Mapping

import pytest
from django.test import Client

from controlplane import health
from nodeagent.isolation_levels import runs_unisolated
from nodeagent.messages import PROTOCOL, Finding, Inventory, InventoryGpu, Report, encode
from scheduler.agents.services.reports import report_apply
from scheduler.models import Node
from scheduler.nodes.services.isolation import NodeRefusal, unisolated_nodes, unisolated_warning
from scheduler.nodes.services.managing import node_create
from tests.scheduler.builders import make_node

pytestmark = pytest.mark.django_db

SANDBOX = {"sandbox": True, "landlock": False, "user": True, "required": False}
LANDLOCK = {"sandbox": False, "landlock": True, "user": False, "required": True}
NOTHING = {"sandbox": False, "landlock": False, "user": True, "required": False}
#: It starts no job at all.
UNABLE = {"sandbox": False, "landlock": False, "user": True, "required": True}
#: Of an agent that knew of no other choice.
OLD = {"cpu": True, "sandbox": False, "user": False}
ALL = {"sandbox": SANDBOX, "landlock": LANDLOCK, "nothing": NOTHING, "unable": UNABLE, "old": OLD, "new": {}}


@pytest.fixture
def reached_from_elsewhere(settings) -> None:
    settings.CONFIG = settings.CONFIG.model_copy(update={"hosts": "localhost,gpus.example.org"})


def a_report(isolation: Mapping[str, bool] | None, **fields) -> Report:
    inventory = None
    if isolation is not None:
        inventory = Inventory(
            gpu_model="V100",
            gpus=(InventoryGpu(index=0, uuid="GPU-0", memory_bytes=2**34),),
            cpus=8,
            memory_bytes=2**35,
            address="10.0.0.1",
            agent_version="1",
            isolation=dict(isolation),
        )
    return Report(protocol=PROTOCOL, boot="life-1", generation=0, parts=(), inventory=inventory, **fields)


def test_the_database_and_the_agent_agree_on_who_runs_jobs_unisolated():
    for name, isolation in ALL.items():
        make_node(gpus=1, name=name, isolation=isolation)
    found = set(unisolated_nodes().values_list("name", flat=True))
    assert found == {name for name, isolation in ALL.items() if runs_unisolated(isolation)}
    assert found == {"nothing", "old"}


@pytest.mark.usefixtures("reached_from_elsewhere")
def test_a_server_that_others_reach_takes_no_node_without_isolation():
    new = node_create(name="bare", rack="rack-1", actor="test")
    for _ in range(2):
        answer = Client().post(
            "/api/agent/v1/sync",
            json.dumps(encode(a_report(NOTHING))),
            content_type="application/json",
            headers={"Authorization": f"Bearer {new.token}"},
        )
        assert (answer.status_code, answer.json()["code"]) == (403, "node_refused")
        assert "--unsafe-jobs" in answer.json()["detail"]
    node = Node.objects.get(name="bare")
    assert (node.state, node.lease_expires_at, node.cordoned) == ("new", None, True)
    (check,) = node.checks.all()
    assert (check.name, check.verdict) == ("isolation", "failed")
    assert "takes no node on which nothing keeps jobs apart" in check.message

    # Once something isolates there it is let in, and what its agent says takes the place of that.
    report_apply(node, a_report(LANDLOCK, findings=(Finding(name="isolation", verdict="ok"),)))
    node.refresh_from_db()
    assert (node.state, node.checks.get().verdict) == ("ready", "ok")


@pytest.mark.usefixtures("reached_from_elsewhere")
@pytest.mark.parametrize("name", sorted(ALL))
def test_what_a_node_said_before_counts_when_it_says_nothing_new(name: str):
    node = make_node(gpus=1, isolation=ALL[name])
    if runs_unisolated(ALL[name]):
        with pytest.raises(NodeRefusal):
            report_apply(node, a_report(None))
    else:
        report_apply(node, a_report(None))


@pytest.mark.parametrize(
    "changes",
    [{"hosts": "localhost, 127.0.0.1,[::1],127.0.0.2"}, {"hosts": "0.0.0.0", "unsafe_jobs": True}],
    ids=["only this machine reaches it", "it was told to"],
)
def test_otherwise_it_is_taken_and_shown_for_what_it_is(settings, changes: dict):
    settings.CONFIG = settings.CONFIG.model_copy(update=changes)
    new = node_create(name="bare", rack="rack-1", actor="test")
    health._parts.cache_clear()
    health._count_unisolated.cache_clear()
    report_apply(new.node, a_report(NOTHING))
    assert Node.objects.get(name="bare").state == "ready"
    ready = Client().get("/readyz")
    assert (ready.status_code, ready.json()["warnings"]) == (200, {"nodes_without_isolation": 1})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "gpus.example.org", "*", ".example.org"])
def test_these_are_reached_from_other_machines(settings, host: str):
    assert not settings.CONFIG.model_copy(update={"hosts": f"localhost,{host}"}).takes_unisolated_nodes


def test_who_submits_is_warned_of_the_nodes_that_may_run_it():
    make_node(gpus=1, name="safe", gpu_model="V100", isolation=SANDBOX)
    assert unisolated_warning([]) == ""
    for number in range(4):
        make_node(gpus=1, name=f"bare-{number}", gpu_model="K80", isolation=NOTHING)
    assert unisolated_warning(["V100"]) == ""
    assert "jobs on bare-0, bare-1, bare-2 and more, where" in unisolated_warning(["V100", "K80"])
    Node.objects.exclude(name="bare-3").update(cordoned=True)
    assert "jobs on bare-3, where" in unisolated_warning([])
