"""Submitting: one job, many, a mere check; and everything that is refused."""

import json

import pytest
from django.utils import timezone

from scheduler.models import Event, Explanation, Job
from scheduler.rounds.run import run_round
from tenants.models import Membership, Quota
from tests.api.caller import caller, is_error
from tests.scheduler.builders import (
    gpus_of,
    make_attempt,
    make_job,
    make_node,
    make_tenant,
    make_user,
    make_vc,
)
from tests.scheduler.conftest import World, spec


def test_a_submitted_job_is_queued_and_answered_whole(world: World) -> None:
    answer = world.member.post("/jobs", spec(gpus=2, replicas=2, labels={"team": "a"}))

    assert answer.status_code == 201, answer.content
    job = answer.json()
    assert (job["state"], job["phase"], job["gpus"]) == ("queued", "waiting", 4)
    assert (job["tenant"], job["virtual_cluster"], job["submitted_by"]) == ("vision", "research", "mia")
    assert job["spec"]["virtual_cluster"] == "research"
    assert job["attempt"] is None
    row = Job.objects.get(id=job["id"])
    assert row.shape["tasks"] == [[2, 2, 0.0, 0]]
    assert Event.objects.get(job_id=row.id).actor == "user mia"
    assert world.member.get(f"/jobs/{row.id}").json() == job


def test_a_check_of_a_job_on_hold_says_that_it_waits_for_its_release(world: World) -> None:
    answer = world.member.post("/jobs/check", spec(hold=True)).json()
    assert answer["ok"]
    assert answer["message"] == "Would wait: It was put on hold."
    assert world.member.post("/jobs/check", spec()).json()["message"] == "Would start at once."


def test_a_job_names_nodes_and_is_told_which_there_are_none_of(world: World) -> None:
    make_node("node-x", gpus=4)
    answer = world.member.post("/jobs", spec(nodes={"only": ["node-x"]}))
    assert answer.status_code == 201, answer.content
    assert answer.json()["spec"]["nodes"] == {"only": ["node-x"], "avoid": []}
    (field,) = is_error(world.member.post("/jobs", spec(nodes={"only": ["node-y"]})), 400, "invalid")[
        "fields"
    ]
    assert field["field"] == "nodes.only"
    assert field["problem"].startswith("there is no node 'node-y'")


def test_who_may_submit(world: World) -> None:
    is_error(world.viewer.post("/jobs", spec()), 403, "not_allowed")
    body = is_error(world.stranger.post("/jobs", spec(tenant="vision")), 404, "not_found")
    assert body["fields"][0]["field"] == "tenant"
    assert body["fields"][0]["expected"] == "one of: other"
    is_error(world.member.post("/jobs", spec(tenant="nobody")), 404, "not_found")
    assert world.operator.post("/jobs", spec(tenant="vision")).status_code == 201


def test_a_member_of_several_tenants_says_for_which(world: World) -> None:
    second = make_tenant("speech")
    make_vc("talk", members=[second], guaranteed={})
    user = world.tenant.memberships.get(role="member").user
    Membership.objects.create(tenant=second, user=user, role="member")

    body = is_error(world.member.post("/jobs", spec()), 400, "invalid")
    assert body["fields"][0]["expected"] == "one of: speech, vision"
    answer = world.member.post("/jobs", spec(tenant="speech", guarantee="opportunistic"))
    assert answer.json()["virtual_cluster"] == "talk"


def test_a_tenants_own_virtual_cluster_is_the_default(world: World) -> None:
    make_vc("shared", members=[world.tenant, make_tenant()])
    assert world.member.post("/jobs", spec()).json()["virtual_cluster"] == "research"


def test_several_virtual_clusters_need_a_choice(world: World) -> None:
    make_vc("shared", members=[world.tenant])
    make_vc("private")
    (field,) = is_error(world.member.post("/jobs", spec()), 400, "invalid")["fields"]
    assert (field["field"], field["expected"]) == ("virtual_cluster", "one of: research, shared")
    body = is_error(world.member.post("/jobs", spec(virtual_cluster="private")), 400, "invalid")
    assert "not a member" in body["fields"][0]["problem"]
    body = is_error(world.member.post("/jobs", spec(virtual_cluster="reserch")), 400, "invalid")
    assert 'did you mean "research"?' in body["fields"][0]["problem"]


@pytest.mark.parametrize(
    ("fields", "status", "where", "expected"),
    [
        ({"gpu_model": "V1000"}, 400, "gpu_model", "any, or one or more of: V100"),
        ({"gpu_model": ["V100", "H100"]}, 400, "gpu_model", "any, or one or more of: V100"),
        ({"gpus": 9, "guarantee": "opportunistic"}, 400, "gpus", "at most 8"),
        ({"gpus": 8, "replicas": 2}, 400, "replicas", "at most 8"),
        ({"gpus": 8, "replicas": 2, "guarantee": "opportunistic"}, 400, "replicas", "at most 8"),
        ({"gpus": -1}, 400, "gpus", "from 0 to 16"),
        ({"prority": 1}, 400, "prority", "one of"),
        (
            {"gpus": 8, "topology": {"level": "socket", "required": True}},
            400,
            "topology",
            "preferred instead of required",
        ),
    ],
)
def test_what_can_never_run_is_refused_with_the_nearest_that_could(
    world: World, fields: dict, status: int, where: str, expected: str
) -> None:
    answer = world.member.post("/jobs", spec(**fields))
    body = is_error(answer, status, "invalid" if status == 400 else "quota_exceeded")
    (field,) = body["fields"]
    assert field["field"] == where
    assert expected in field["expected"]
    assert not Job.objects.exists()


def test_more_than_the_quota_could_never_run(world: World) -> None:
    Quota.objects.create(tenant=world.tenant, gpu_model="*", gpus=2)
    body = is_error(world.member.post("/jobs", spec(gpus=3)), 409, "quota_exceeded")
    assert "at most 2" in body["fields"][0]["expected"]
    assert world.member.post("/jobs", spec(gpus=2)).status_code == 201


def test_a_new_node_is_known_at_once(world: World) -> None:
    is_error(world.member.post("/jobs", spec(gpu_model="K80", guarantee="opportunistic")), 400, "invalid")
    make_node("node-k", gpus=4, gpu_model="K80")
    answer = world.member.post("/jobs", spec(gpu_model="K80", guarantee="opportunistic"))
    assert answer.status_code == 201


@pytest.mark.parametrize("body", [b"[]", b'"job"', b"3", b"null"])
def test_a_body_that_is_no_object_is_refused(world: World, body: bytes) -> None:
    for path in ("/jobs", "/jobs/bulk", "/jobs/check"):
        is_error(world.member.post(path, body), 400, "invalid")


def test_bulk_submits_all(world: World) -> None:
    jobs = [spec(name=f"sweep-{number}", priority=number) for number in range(100)]
    answer = world.member.post("/jobs/bulk", {"tenant": "vision", "jobs": jobs})
    assert answer.status_code == 201, answer.content
    created = answer.json()["jobs"]
    assert [job["name"] for job in created] == [job["name"] for job in jobs]
    assert created[0]["state"] == "queued"
    assert Job.objects.count() == Event.objects.filter(kind="job.submitted").count() == 100


def test_bulk_submits_none_when_one_is_wrong(world: World) -> None:
    jobs = [spec(), spec(gpus=0), spec(gpu_model="H100"), spec(gpus=16, guarantee="opportunistic")]
    body = is_error(world.member.post("/jobs/bulk", {"jobs": jobs}), 400, "invalid")
    assert [field["field"] for field in body["fields"]] == [
        "jobs.1.gpus",
        "jobs.2.gpu_model",
        "jobs.3.gpus",
    ]
    assert not Job.objects.exists()


@pytest.mark.parametrize("jobs", [None, [], "x", [{}] * 1001])
def test_bulk_has_bounds(world: World, jobs: object) -> None:
    body = is_error(world.member.post("/jobs/bulk", {"jobs": jobs}), 400, "invalid")
    assert body["fields"][0]["field"] == "jobs"


def test_bulk_refuses_fields_it_does_not_know(world: World) -> None:
    body = is_error(world.member.post("/jobs/bulk", {"jobs": [spec()], "all": True}), 400, "invalid")
    assert body["fields"][0]["field"] == "all"


def test_a_tenant_has_no_more_unfinished_jobs_than_operators_allow(world: World) -> None:
    is_error(world.member.patch("/tenants/vision", {"most_unfinished_jobs": 9}), 403, "not_allowed")
    changed = world.operator.patch("/tenants/vision", {"most_unfinished_jobs": 3})
    assert changed.json()["most_unfinished_jobs"] == 3
    assert world.member.post("/jobs/bulk", {"jobs": [spec()] * 3}).status_code == 201
    # One that runs counts as well as one that waits.
    make_attempt(Job.objects.all()[0], gpus_of(world.node)[:1])
    refused = is_error(world.member.post("/jobs/bulk", {"jobs": [spec()] * 2}), 409, "quota_exceeded")
    said = "Tenant vision has 3 unfinished jobs and may have 3, so it cannot submit 2 more."
    assert refused["detail"].startswith(said)
    assert Job.objects.count() == 3
    Job.objects.filter(id__in=Job.objects.order_by("-id")[:2]).update(state="failed", ended_at=timezone.now())
    refused = is_error(world.member.post("/jobs/bulk", {"jobs": [spec()] * 3}), 409, "quota_exceeded")
    assert refused["detail"].startswith("Tenant vision has 1 unfinished job and may have 3, so it")
    world.operator.patch("/tenants/vision", {"most_unfinished_jobs": None})
    assert world.member.post("/jobs", spec()).status_code == 201


def test_a_user_has_no_more_waiting_jobs_than_the_settings_say(world: World, settings) -> None:
    settings.CONFIG = settings.CONFIG.model_copy(update={"waiting_jobs_per_user": 3})
    assert world.member.post("/jobs/bulk", {"jobs": [spec()] * 3}).status_code == 201
    refused = is_error(world.member.post("/jobs", spec()), 409, "quota_exceeded")
    said = "You have 3 jobs of tenant vision that wait and may have 3, so you cannot submit 1 more."
    assert refused["detail"].startswith(said)
    assert refused["detail"].endswith("ask an operator, who can raise ALLOT_WAITING_JOBS_PER_USER.")
    # Others of the tenant have their own; what runs or has ended waits no more.
    assert world.operator.post("/jobs", spec(tenant="vision")).status_code == 201
    Job.objects.filter(id=Job.objects.order_by("id").first().id).update(state="running")
    assert world.member.post("/jobs", spec()).status_code == 201
    is_error(world.member.post("/jobs", spec()), 409, "quota_exceeded")


def test_viewers_have_specifications_checked_and_people_of_no_tenant_do_not(world: World) -> None:
    assert world.viewer.post("/jobs/check", spec()).json()["ok"] is True
    for who in (world.stranger, caller(make_user("nobody-s"))):
        is_error(who.post("/jobs/check", spec(tenant="vision")), 404, "not_found")
    refused = is_error(caller(make_user("new-one")).post("/jobs/check", spec()), 403, "not_allowed")
    assert refused["detail"].startswith("You are a member of no tenant")


def test_a_refused_bulk_says_how_many_and_each_kind_of_problem_once(world: World) -> None:
    wrong = [spec(gpu_model="V101")] * 600 + [spec(gpus=9, guarantee="opportunistic")] * 399 + [spec()]
    answer = world.member.post("/jobs/bulk", {"jobs": wrong})
    body = is_error(answer, 400, "invalid")
    assert body["detail"].startswith("No job was submitted, because 999 of 1,000 cannot be. ")
    assert [field["field"] for field in body["fields"]] == [
        "jobs.0.gpu_model",
        "jobs.600.gpus",
    ]
    assert body["fields"][0]["problem"].endswith("(and so in 599 other jobs)")
    assert len(answer.content) < 2_000
    different = [spec(gpu_model=f"X{number}") for number in range(1_000)]
    answer = world.member.post("/jobs/bulk", {"jobs": different})
    assert "Of 1,000 different problems the first 20 are shown." in answer.json()["detail"]
    assert len(answer.content) < 10_000


def test_check_answers_and_submits_nothing(world: World) -> None:
    answer = world.member.post("/jobs/check", spec(gpus=2, time_limit="1h")).json()
    assert answer["ok"] is True
    assert (answer["gpus"], answer["warnings"], answer["message"]) == (2, [], "Would start at once.")
    assert answer["normalised"]["time_limit"] == 3600
    assert world.member.post("/jobs/check", answer["normalised"]).json()["ok"] is True
    assert not Job.objects.exists()


def test_check_says_why_a_job_would_wait(world: World) -> None:
    make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster, gpus=8, priority=50)
    answer = world.member.post("/jobs/check", spec(gpus=8)).json()
    assert answer["ok"] is True
    assert answer["message"].startswith("Would wait: ")
    assert "time_limit" in answer["warnings"][0]


def test_check_and_the_round_say_the_same_of_an_image_that_no_node_runs(world: World) -> None:
    asked = spec(gpus=1, image="python:3.11")
    said = world.member.post("/jobs/check", asked).json()["message"]
    assert said.startswith("Would wait: None of the nodes runs containers")
    number = world.member.post("/jobs", asked).json()["id"]
    run_round()
    first, *_ = Explanation.objects.get(job_id=number).reasons
    assert said == f"Would wait: {first['message']}"


def test_more_memory_than_any_gpu_has_is_refused(world: World) -> None:
    task = {"name": "main", "resources": {"gpu": 0.5, "gpu_memory": "900GiB"}, "command": ["true"]}
    asked = {"name": "large", "tasks": [task]}
    (field,) = is_error(world.member.post("/jobs", asked), 400, "invalid")["fields"]
    assert field["field"] == "tasks.0.resources.gpu_memory"
    assert "has 16 GiB of memory; one replica of this job needs 900 GiB" in field["problem"]


def test_check_lists_what_is_wrong(world: World) -> None:
    answer = world.member.post("/jobs/check", {"gpus": -1, "comand": "true"})
    assert answer.status_code == 200
    body = answer.json()
    assert (body["ok"], body["normalised"]) == (False, None)
    assert {field["field"] for field in body["fields"]} == {"name", "gpus", "command", "comand"}


def test_an_idempotency_key_submits_once(world: World) -> None:
    first = world.member.post("/jobs", spec(), headers={"Idempotency-Key": "k1"})
    again = world.member.post("/jobs", spec(), headers={"Idempotency-Key": "k1"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert json.loads(first.content) == json.loads(again.content)
    assert again["Idempotency-Replayed"] == "true"
    assert Job.objects.count() == 1
    other = world.member.post("/jobs", spec(name="other"), headers={"Idempotency-Key": "k1"})
    is_error(other, 422, "idempotency_mismatch")


def test_a_read_only_token_submits_nothing(world: World) -> None:
    user = world.tenant.memberships.get(role="member").user
    is_error(caller(user, scopes=["read"]).post("/jobs", spec()), 403, "not_allowed")


def test_a_check_tells_the_part_of_a_gpu_that_was_asked_for(world: World) -> None:
    answer = world.member.post("/jobs/check", spec(gpus=0.3)).json()
    assert (answer["ok"], answer["gpus"], answer["gpu_amount"]) == (True, 1, 0.3), answer
    gang = world.member.post("/jobs/check", spec(gpus=2)).json()
    assert (gang["gpus"], gang["gpu_amount"]) == (2, 2.0)
