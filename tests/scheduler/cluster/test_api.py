"""Nodes, virtual clusters, rounds, events and the cluster as a whole."""

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from scheduler.core.model import codec
from scheduler.core.model.plan import Action, ActionKind, Placement, Plan
from scheduler.models import Event, Node, NodeCheck, PeakSamples, Round, UsageSample
from scheduler.nodes.services.managing import node_of_token
from tenants.times import iso
from tests.api.caller import is_error
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node, make_tenant
from tests.scheduler.conftest import World


def test_a_node_is_created_with_a_token_that_is_shown_once(world: World) -> None:
    answer = world.operator.post("/nodes", {"name": "node-b", "rack": "rack-2"})
    assert answer.status_code == 201, answer.content
    token = answer.json()["token"]
    node = node_of_token(token)
    assert node is not None
    assert (node.name, node.rack, node.state) == ("node-b", "rack-2", "new")
    assert "token" not in world.operator.get("/nodes/node-b").json()
    assert node_of_token(token[:-1] + "x") is None
    assert node_of_token("") is None

    renewed = world.operator.post("/nodes/node-b/token").json()["token"]
    assert node_of_token(token) is None
    assert node_of_token(renewed) == node


def test_names_of_nodes_are_checked(world: World) -> None:
    body = is_error(world.operator.post("/nodes", {"name": "Node B!"}), 400, "invalid")
    assert body["fields"][0]["field"] == "name"
    is_error(world.operator.post("/nodes", {"name": "node-a"}), 409, "conflict")


def test_only_operators_manage_nodes_and_virtual_clusters(world: World) -> None:
    for who in (world.member, world.stranger):
        is_error(who.post("/nodes", {"name": "x"}), 403, "not_allowed")
        is_error(who.patch("/nodes/node-a", {"cordoned": True}), 403, "not_allowed")
        is_error(who.post("/nodes/node-a/drain"), 403, "not_allowed")
        is_error(who.post("/nodes/node-a/token"), 403, "not_allowed")
        is_error(who.delete("/nodes/node-a"), 403, "not_allowed")
        is_error(who.post("/virtual-clusters", {"name": "x"}), 403, "not_allowed")
        is_error(who.put("/virtual-clusters/research", {"title": "x"}), 403, "not_allowed")
        is_error(who.delete("/virtual-clusters/research"), 403, "not_allowed")
        is_error(who.get("/rounds"), 403, "not_allowed")
        assert who.get("/nodes").json()["results"][0]["name"] == "node-a"
        assert who.get("/virtual-clusters").json()["results"][0]["name"] == "research"


def test_a_node_shows_which_gpus_are_taken(world: World) -> None:
    gpus = gpus_of(world.node)
    make_attempt(make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster), gpus[:1])
    job = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster)
    make_attempt(job, gpus[1:2], state="planned", phase="planned")
    body = world.stranger.get("/nodes/node-a").json()
    assert [gpu["state"] for gpu in body["gpus"]] == ["held", "planned"] + ["free"] * 6
    assert (body["gpu_model"], body["drained"]) == ("V100", False)


def test_cordon_drain_and_uncordon(world: World) -> None:
    job = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster)
    attempt = make_attempt(job, gpus_of(world.node)[:1])
    assert world.operator.patch("/nodes/node-a", {"cordoned": True}).json()["cordoned"] is True
    attempt.refresh_from_db()
    assert attempt.state == "running"

    body = world.operator.post("/nodes/node-a/drain").json()
    assert (body["draining"], body["drained"]) == (True, False)
    attempt.refresh_from_db()
    assert (attempt.state, attempt.stop_cause) == ("stopping", "drained")
    assert world.operator.post("/nodes/node-a/drain").status_code == 200

    body = world.operator.patch("/nodes/node-a", {"cordoned": False}).json()
    assert (body["cordoned"], body["draining"], body["withdrawn"]) == (False, False, None)
    kinds = Event.objects.filter(node_id=world.node.id).order_by("id").values_list("kind", flat=True)
    assert list(kinds) == ["node.cordoned", "node.draining", "node.uncordoned"]


def test_a_drain_has_a_deadline_and_a_reason(world: World) -> None:
    body = world.operator.post("/nodes/node-a/drain", {"deadline_seconds": 7_200, "why": "new fans"}).json()
    assert (body["cordoned"], body["draining"], body["drained"]) == (False, True, False)
    assert (body["withdrawn"]["why"], body["withdrawn"]["returns_itself"]) == ("new fans", False)
    until = timezone.now() + timedelta(hours=1)
    body = world.operator.post("/nodes/node-a/drain", {"until": until.isoformat()}).json()
    assert datetime.fromisoformat(body["drain_deadline"]) == until

    for wrong in (
        {"until": "2020-01-01T00:00:00Z"},
        {"until": until.isoformat(), "deadline_seconds": 3},
        {"deadline_seconds": -1},
        {"deadline_seconds": 1e12},
        {"untill": until.isoformat()},
    ):
        error = is_error(world.operator.post("/nodes/node-a/drain", wrong), 400, "invalid")
        assert error["fields"][0]["field"] in wrong


def test_a_node_shows_what_its_checks_say(world: World) -> None:
    at = timezone.now()
    NodeCheck.objects.create(
        node=world.node, name="gpu-1", verdict="failed", message="Xid 79", gpu=1, since=at
    )
    (check,) = world.stranger.get("/nodes/node-a").json()["health"]
    assert check == {
        "name": "gpu-1",
        "verdict": "failed",
        "message": "Xid 79",
        "gpu": 1,
        "since": iso(at),
    }


def test_a_node_with_a_past_is_not_removed(world: World) -> None:
    make_node("idle", state="lost")
    assert world.operator.delete("/nodes/idle").status_code == 204
    assert not Node.objects.filter(name="idle").exists()
    is_error(world.operator.delete("/nodes/node-a"), 409, "conflict")
    job = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster)
    make_attempt(job, gpus_of(world.node)[:1])
    Node.objects.filter(id=world.node.id).update(state="lost")
    assert "drain it first" in is_error(world.operator.delete("/nodes/node-a"), 409, "conflict")["detail"]
    is_error(world.operator.delete("/nodes/nowhere"), 404, "not_found")


def test_a_virtual_cluster_from_making_to_deleting(world: World) -> None:
    make_tenant("speech")
    world.operator.put("/virtual-clusters/research", {"guaranteed": {"V100": 5}})
    answer = world.operator.post(
        "/virtual-clusters",
        {
            "name": "talk",
            "title": "Talk",
            "policy_plugin": {"name": "fifo", "parameters": {"backfill": False}},
            "guaranteed": {"V100": 3},
            "members": [{"tenant": "speech", "weight": 2}, {"tenant": "vision"}],
        },
    )
    assert answer.status_code == 201, answer.content
    body = answer.json()
    assert body["members"] == [{"tenant": "speech", "weight": 2.0}, {"tenant": "vision", "weight": 1.0}]
    assert body["usage"] == {"V100": {"guaranteed_in_use": 0, "opportunistic_in_use": 0}}

    changed = world.operator.put("/virtual-clusters/talk", {"title": "Talking", "version": body["version"]})
    assert changed.json() == {**body, "title": "Talking", "version": body["version"] + 1}
    stale = world.operator.put("/virtual-clusters/talk", {"title": "No", "version": body["version"]})
    is_error(stale, 409, "conflict")
    assert world.operator.delete("/virtual-clusters/talk").status_code == 204
    kinds = Event.objects.filter(subject="virtual_cluster").order_by("id").values_list("kind", flat=True)
    assert list(kinds)[1:] == [
        "virtual_cluster.created",
        "virtual_cluster.changed",
        "virtual_cluster.deleted",
    ]


def test_guarantees_must_fit_the_cluster(world: World) -> None:
    answer = world.operator.post("/virtual-clusters", {"name": "more", "guaranteed": {"V100": 3}})
    (field,) = is_error(answer, 409, "quota_exceeded")["fields"]
    assert field["field"] == "guaranteed.V100"
    assert "3 too many" in field["problem"]
    assert field["expected"] == "at most 0"
    answer = world.operator.put("/virtual-clusters/research", {"guaranteed": {"V100": 9}})
    assert "1 too many" in is_error(answer, 409, "quota_exceeded")["fields"][0]["problem"]
    assert world.operator.put("/virtual-clusters/research", {"guaranteed": {"V100": 8}}).status_code == 200


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"name": "Bad Name"}, "name"),
        ({"name": "spare"}, "name"),
        ({"policy_plugin": {"name": "fifos"}}, "policy_plugin.name"),
        ({"policy_plugin": {"name": "fifo:backfill=true"}}, "policy_plugin.name"),
        (
            {"policy_plugin": {"name": "fifo", "parameters": {"backfil": True}}},
            "policy_plugin.parameters.backfil",
        ),
        (
            {"policy_plugin": {"name": "fifo", "parameters": {"backfill": "yes"}}},
            "policy_plugin.parameters.backfill",
        ),
        (
            {"policy_plugin": {"name": "tiresias", "parameters": {"discipline": "none"}}},
            "policy_plugin.parameters.discipline",
        ),
        (
            {"policy_plugin": {"name": "tiresias", "parameters": {"thresholds": ["a"]}}},
            "policy_plugin.parameters.thresholds",
        ),
        ({"placer_plugin": {"name": "nowhere"}}, "placer_plugin.name"),
        (
            {"placer_plugin": {"name": "delay", "parameters": {"relax_after": 600}}},
            "placer_plugin.parameters.relax_after",
        ),
        (
            {"placer_plugin": {"name": "delay", "parameters": {"relax_after_seconds": "long"}}},
            "placer_plugin.parameters.relax_after_seconds",
        ),
        ({"guaranteed": {"V1000": 1}}, "guaranteed.V1000"),
        ({"guaranteed": {"V100": -1}}, "guaranteed.V100"),
        ({"members": [{"tenant": "nobody"}]}, "members"),
        ({"members": [{"tenant": "vision"}, {"tenant": "vision"}]}, "members"),
        ({"members": [{"tenant": "vision", "weight": 0}]}, "members.0.weight"),
        ({"default_time_limit_seconds": 0}, "default_time_limit_seconds"),
        ({"sharing": "sometimes"}, "sharing"),
        ({"overcommit": "always"}, "overcommit"),
        ({"overcommit_margin": 0.95}, "overcommit_margin"),
        ({"overcommit_margin": -0.1}, "overcommit_margin"),
        ({"polcy": "fifo"}, "polcy"),
    ],
)
def test_mistakes_in_a_virtual_cluster_are_named(world: World, fields: dict, where: str) -> None:
    body = is_error(world.operator.post("/virtual-clusters", {"name": "new", **fields}), 400, "invalid")
    assert [field["field"] for field in body["fields"]] == [where]


def test_whether_a_virtual_cluster_shares_gpus_is_kept_until_it_is_said_again(world: World) -> None:
    assert world.operator.get("/virtual-clusters/research").json()["sharing"] == "measured"
    world.operator.put("/virtual-clusters/research", {"sharing": "never"})
    assert world.operator.put("/virtual-clusters/research", {"title": "R"}).json()["sharing"] == "never"


def test_what_a_virtual_cluster_lends_is_kept_and_shown_with_how_often_that_was_too_much(
    world: World,
) -> None:
    shown = world.operator.get("/virtual-clusters/research").json()
    assert (shown["overcommit"], shown["overcommit_margin"]) == ("never", 0.1)
    assert shown["overcommit_violations"] is None
    world.operator.put("/virtual-clusters/research", {"overcommit": "predicted", "overcommit_margin": 0.2})
    today = timezone.now().date()
    for day, exceeded in ((today, 3), (today - timedelta(days=6), 5), (today - timedelta(days=7), 80)):
        PeakSamples.objects.create(
            virtual_cluster=world.virtual_cluster, day=day, samples=100, exceeded=exceeded
        )
    shown = world.operator.put("/virtual-clusters/research", {"title": "R"}).json()
    assert (shown["overcommit"], shown["overcommit_margin"]) == ("predicted", 0.2)
    assert shown["overcommit_violations"] == {"samples": 200, "exceeded": 8, "rate": 0.04}
    (change,) = Event.objects.filter(kind="virtual_cluster.changed", data__before__overcommit="never")
    assert change.data["after"]["overcommit_margin"] == 0.2
    text = world.operator.get("/metrics").content.decode()
    assert 'allot_overcommit_violation_ratio{virtual_cluster="research"} 0.04' in text


def test_a_virtual_cluster_with_jobs_stays(world: World) -> None:
    job = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster)
    body = is_error(world.operator.delete("/virtual-clusters/research"), 409, "conflict")
    assert "1 unfinished" in body["detail"]
    world.member.post(f"/jobs/{job.id}/cancel")
    assert (
        "history" in is_error(world.operator.delete("/virtual-clusters/research"), 409, "conflict")["detail"]
    )


def test_usage_of_a_virtual_cluster(world: World) -> None:
    gpus = gpus_of(world.node)
    make_attempt(make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster, gpus=2), gpus[:2])
    spare = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster, guaranteed=False)
    make_attempt(spare, gpus[2:3])
    make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster)
    body = world.member.get("/virtual-clusters/research").json()
    assert body["usage"] == {"V100": {"guaranteed_in_use": 2, "opportunistic_in_use": 1}}
    assert (body["queued"], body["running"]) == (1, 2)


def test_policies_and_models_are_listed(world: World) -> None:
    policies = world.member.get("/policies").json()
    fifo = next(policy for policy in policies["policies"] if policy["name"] == "fifo")
    assert {"name": "backfill", "type": "bool", "default": True, "choices": []} in fifo["parameters"]
    assert fifo["summary"]
    make_node("broken", gpus=2, cordoned=True)
    (model,) = world.member.get("/gpu-models").json()["results"]
    assert (model["name"], model["gpus"], model["gpus_free"], model["nodes"]) == ("V100", 10, 8, 2)


def test_nodes_and_models_say_how_parts_of_gpus_are_held(world: World) -> None:
    for name, gpus, isolation in (
        ("enforcing", 4, {"gpu_parts": True, "gpu_tokens": True}),
        ("asked", 3, {"gpu_parts": False, "gpu_tokens": True}),
        ("bare", 2, {"gpu_parts": False, "gpu_tokens": False}),
    ):
        make_node(name, gpus=gpus, isolation=isolation)
    words = {node["name"]: node["enforcement"] for node in world.member.get("/nodes").json()["results"]}
    assert words.pop(world.node.name) == "", "an agent from before has not said"
    assert words == {"enforcing": "enforced", "asked": "cooperative", "bare": "placement_only"}
    (model,) = world.member.get("/gpu-models").json()["results"]
    assert model["part_enforcement"] == {"enforced": 4, "cooperative": 3, "placement_only": 2}


def test_the_cluster_in_a_few_numbers(world: World) -> None:
    gpus = gpus_of(world.node)
    make_attempt(make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster, gpus=2), gpus[:2])
    planned = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster)
    make_attempt(planned, gpus[2:3], state="planned", phase="planned")
    Round.objects.create(number=7, started_at=timezone.now(), state="applied")
    body = world.member.get("/cluster").json()
    assert body["gpus"] == {"total": 8, "healthy": 8, "held": 2, "planned": 1, "free": 5}
    assert body["by_model"] == {"V100": body["gpus"]}
    assert body["jobs"] == {"queued": 1, "running": 1}
    assert body["nodes"] == {"ready": 1, "lost": 0, "cordoned": 0}
    assert body["round"]["number"] == 7
    assert world.stranger.get("/cluster").json()["jobs"] == {"queued": 0, "running": 0}


def test_usage_hides_other_tenants_names(world: World) -> None:
    now = timezone.now()
    for minute, by_tenant in ((90, {"vision": 1}), (5, {"vision": 3, "secret": 4}), (4, {})):
        UsageSample.objects.create(
            at=now - timedelta(minutes=minute), total=8, held=sum(by_tenant.values()), by_tenant=by_tenant
        )
    points = world.member.get("/cluster/usage?minutes=60").json()["points"]
    assert [point["by_tenant"] for point in points] == [{"vision": 3, "others": 4}, {}]
    points = world.operator.get("/cluster/usage?minutes=120").json()["points"]
    assert [point["by_tenant"] for point in points] == [{"vision": 1}, {"vision": 3, "secret": 4}, {}]
    is_error(world.member.get("/cluster/usage?minutes=0"), 400, "invalid")


def test_rounds_show_their_plan(world: World) -> None:
    placement = Placement(gpu_model="V100", replicas=((1, 2),))
    start = Action(kind=ActionKind.START, jobs=(5,), virtual_cluster="research", placement=placement)
    plan = codec.dumps_plan(Plan(round_number=4, actions=(start,)))
    Round.objects.create(number=4, started_at=timezone.now(), state="applied", plan=plan, started=1)
    Round.objects.create(number=5, started_at=timezone.now(), state="failed", error="boom")

    listed = world.operator.get("/rounds").json()["results"]
    assert [item["number"] for item in listed] == [5, 4]
    assert "actions" not in listed[0]
    detail = world.operator.get("/rounds/4").json()
    assert detail["actions"] == [
        {
            "kind": "start",
            "jobs": [5],
            "virtual_cluster": "research",
            "guaranteed": True,
            "gpu_model": "V100",
            "gpus": [1, 2],
            "cause": "",
            "preempted_by": [],
            "message": "",
        }
    ]
    assert world.operator.get("/rounds/5").json()["actions"] == []
    is_error(world.operator.get("/rounds/6"), 404, "not_found")


def test_events_are_seen_by_whom_they_concern(world: World) -> None:
    job = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster)
    world.member.post(f"/jobs/{job.id}/hold")
    world.operator.patch("/nodes/node-a", {"cordoned": True})
    assert [event["kind"] for event in world.member.get("/events").json()["results"]] == [
        "node.cordoned",
        "job.held",
    ]
    assert [event["kind"] for event in world.stranger.get("/events").json()["results"]] == ["node.cordoned"]
    by_node = world.member.get("/events?node=node-a").json()["results"]
    assert [(event["actor"], event["node_name"]) for event in by_node] == [("user olga", "node-a")]
    assert [event["job"] for event in world.member.get(f"/events?job={job.id}").json()["results"]] == [job.id]
    assert len(world.operator.get("/events?kind=job.&tenant=vision").json()["results"]) == 1
    is_error(world.member.get("/events?job=x"), 400, "invalid")
    for caller, seen in ((world.member, [job.id]), (world.stranger, [])):
        named = caller.get(f"/events?job_name={job.name}").json()["results"]
        assert [event["job"] for event in named] == seen, "the whole name of a job of one's own tenants"
    assert world.member.get(f"/events?job_name={job.name[:-1]}").json()["results"] == []


def test_events_are_in_the_order_of_their_times_and_name_their_jobs(world: World) -> None:
    """Whatever the order in which their transactions ended."""
    job = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster, name="bert")
    now = timezone.now()
    for kind, seconds in (("job.started", 5), ("job.submitted", 0), ("job.succeeded", 9)):
        about = {"subject": "job", "subject_id": job.id, "job_id": job.id, "tenant": world.tenant}
        Event.objects.create(at=now + timedelta(seconds=seconds), kind=kind, **about)
    Event.objects.create(
        at=now, kind="job.removed", subject="job", subject_id=999, job_id=999, tenant=world.tenant
    )
    for path in ("/events", f"/jobs/{job.id}/events"):
        events = world.member.get(path).json()["results"]
        seen = [(event["kind"], event["job_name"]) for event in events if event["job"] == job.id]
        assert seen == [("job.succeeded", "bert"), ("job.started", "bert"), ("job.submitted", "bert")]
    assert world.member.get("/events?job=999").json()["results"][0]["job_name"] is None
