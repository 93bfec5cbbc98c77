"""What-if questions over the API: who may ask what, what is refused, and what of the answer is shown."""

import pytest
import redis
from django.conf import settings

from scheduler.forecasts.services import answers, facts, questions
from scheduler.forecasts.services.forecasting import run_forecast
from scheduler.models import WhatIf
from tests.api.caller import Caller, caller, is_error
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_member, make_tenant, make_vc
from tests.scheduler.conftest import World, spec


@pytest.fixture(autouse=True)
def _afresh(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "_read", None)
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        for key in client.scan_iter("allot:what-if:*"):
            client.delete(key)


@pytest.fixture
def queue(world: World):
    """All eight V100 are held for an hour; a job of eight and one of two, of another tenant, wait."""
    other = make_tenant("speech")
    world.virtual_cluster.members.create(tenant=other, weight=1)
    running = make_job(
        tenant=world.tenant, virtual_cluster=world.virtual_cluster, gpus=6, time_limit_seconds=3_600
    )
    make_attempt(running, gpus_of(world.node)[:6])
    mine = make_job(
        tenant=world.tenant,
        virtual_cluster=world.virtual_cluster,
        gpus=8,
        time_limit_seconds=3_600,
        name="mine",
    )
    theirs = make_job(
        tenant=other, virtual_cluster=world.virtual_cluster, gpus=8, time_limit_seconds=7_200, name="theirs"
    )
    return mine, theirs


def answered(who: Caller, body: object) -> dict:
    """Ask, let the task work, and fetch the answer."""
    asked = who.post("/what-if", body)
    assert asked.status_code == 202, asked.json()
    assert asked.json()["state"] == "waiting"
    answers.answer(asked.json()["id"])
    answer = who.get(f"/what-if/{asked.json()['id']}")
    assert answer.status_code == 200
    return answer.json()


def test_why_tells_reasons_and_prediction_together(world: World, queue) -> None:
    mine, _ = queue
    body = world.member.get(f"/jobs/{mine.id}/why").json()
    assert body["prediction"] is None
    assert "ask again" in body["no_prediction"]
    run_forecast()
    body = world.member.get(f"/jobs/{mine.id}/why").json()
    assert body["no_prediction"] == ""
    assert list(body["prediction"]) == [
        "starts_at", "earliest", "latest", "assumption", "position", "made_at", "round",
    ]  # fmt: skip
    assert body["prediction"]["earliest"] < body["prediction"]["starts_at"] < body["prediction"]["latest"]


def test_fewer_gpus_would_start_at_once(world: World, queue) -> None:
    mine, _ = queue
    answer = answered(world.member, {"job": mine.id, "changes": {"gpus": 2}})
    assert (answer["state"], answer["problem"]) == ("done", "")
    (subject,) = answer["subjects"]
    assert (subject["job"], subject["name"]) == (mine.id, "mine")
    assert subject["after"]["starts_at"] == answer["made_at"] < subject["before"]["starts_at"]


def test_of_others_only_the_number_is_told(world: World, queue) -> None:
    mine, theirs = queue
    # Half of two hours later, behind the other one.
    body = {"job": mine.id, "changes": {"priority": -10}}
    answer = answered(world.member, body)
    assert (answer["later"], answer["sooner"]) == ([], [])
    assert (answer["sooner_count"], answer["others_sooner"], answer["others_later"]) == (0, 1, 0)
    assert "theirs" not in str(answer)
    seen = answered(world.operator, body)
    assert [one["job"] for one in seen["sooner"]] == [theirs.id]
    assert (seen["sooner_count"], seen["others_sooner"]) == (1, 0)


def test_a_job_that_is_not_submitted_yet(world: World, queue) -> None:
    answer = answered(world.member, {"spec": spec(name="new", gpus=2, time_limit="30m")})
    (subject,) = answer["subjects"]
    assert (subject["job"], subject["name"], subject["before"]) == (None, "new", None)
    assert subject["after"]["starts_at"] == answer["made_at"]


def test_operators_ask_about_the_cluster(world: World, queue) -> None:
    mine, _ = queue
    answer = answered(world.operator, {"cluster": {"drain": ["node-a"]}})
    assert {one["job"] for one in answer["later"]} >= {mine.id}
    displaced = [one for one in answer["later"] if one["runs_now"]]
    assert [one["before"] for one in displaced] == [None]
    assert displaced[0]["after"]["why_not"]
    refused = answered(
        world.operator,
        {"cluster": {"enlarge": [{"virtual_cluster": "research", "gpu_model": "V100", "more_gpus": 1}]}},
    )
    assert refused["state"] == "failed"
    assert refused["fields"] == [
        {
            "field": "more_gpus",
            "problem": "8 of 8 V100 GPUs are guaranteed already",
            "expected": "at most 0",
        }
    ]


def test_who_may_ask(world: World, queue) -> None:
    mine, theirs = queue
    body = {"job": mine.id, "changes": {"gpus": 2}}
    is_error(Caller().post("/what-if", body), 401, "not_signed_in")
    is_error(world.stranger.post("/what-if", body), 404, "not_found")
    is_error(world.member.post("/what-if", {"job": theirs.id, "changes": {"gpus": 2}}), 404, "not_found")
    is_error(world.member.post("/what-if", {"cluster": {"drain": ["node-a"]}}), 403, "not_allowed")
    # Whoever may look at a job may ask about it; a new one is for those who could submit it.
    assert world.viewer.post("/what-if", body).status_code == 202
    is_error(world.viewer.post("/what-if", {"spec": spec()}), 403, "not_allowed")


def test_an_answer_is_for_who_asked(world: World, queue) -> None:
    mine, _ = queue
    path = f"/what-if/{world.member.post('/what-if', {'job': mine.id, 'changes': {'gpus': 2}}).json()['id']}"
    for who in (world.viewer, world.stranger):
        is_error(who.get(path), 404, "not_found")
    assert world.operator.get(path).status_code == 200
    WhatIf.objects.update(asked_at=world.tenant.jobs.first().submitted_at - questions.KEPT)
    is_error(world.member.get(path), 404, "not_found")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body"),
        ({"jobs": 1}, "jobs"),
        ({"job": "x"}, "job"),
        ({"changes": {"gpus": 1}}, "changes"),
        ({"job": 0, "changes": {}}, "changes"),
        ({"job": 0, "changes": {"gpus": 99}}, "changes.gpus"),
        ({"job": 0, "changes": {"gpu_models": ["V1000"]}}, "changes.gpu_models"),
        ({"job": 0, "changes": {"time_limit": "soon"}}, "changes.time_limit"),
        ({"job": 0, "changes": {"guarantee": "maybe"}}, "changes.guarantee"),
        ({"job": 0, "changes": {"virtual_cluster": "secret"}}, "changes.virtual_cluster"),
        ({"job": 0, "changes": {"gpu": 1}}, "changes.gpu"),
        ({"spec": {"name": "x"}}, "spec.tasks"),
    ],
)
def test_mistakes_name_the_field_and_what_would_be_right(world: World, queue, body: dict, field: str) -> None:
    mine, _ = queue
    if body.get("job") == 0:
        body = {**body, "job": mine.id}
    make_vc("secret")
    error = is_error(world.member.post("/what-if", body), 400, "invalid")
    (problem,) = [one for one in error["fields"] if one["field"] == field]
    assert problem["expected"]


@pytest.mark.parametrize(
    ("cluster", "field"),
    [
        ({}, "cluster"),
        ({"drain": ["node-b"]}, "cluster.drain"),
        ({"drain": "node-a"}, "cluster.drain"),
        ({"enlarge": [{"virtual_cluster": "x"}]}, "cluster.enlarge.0.virtual_cluster"),
    ],
)
def test_mistakes_about_the_cluster(world: World, cluster: dict, field: str) -> None:
    error = is_error(world.operator.post("/what-if", {"cluster": cluster}), 400, "invalid")
    assert field in [one["field"] for one in error["fields"]]


def test_a_job_that_runs_has_nothing_to_ask(world: World) -> None:
    running = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster)
    make_attempt(running, gpus_of(world.node)[:1])
    is_error(world.member.post("/what-if", {"job": running.id, "changes": {"gpus": 2}}), 409, "conflict")


def test_questions_are_limited(world: World, queue) -> None:
    mine, _ = queue
    body = {"job": mine.id, "changes": {"gpus": 2}}
    for _ in range(questions.PER_MINUTE):
        assert world.member.post("/what-if", body).status_code == 202
    refused = world.member.post("/what-if", body)
    is_error(refused, 429, "too_many_requests")
    assert 0 < int(refused.headers["Retry-After"]) <= 60
    # Another user is not kept from asking.
    assert caller(make_member(world.tenant)).post("/what-if", body).status_code == 202


def test_a_question_nobody_answers_is_given_up(world: World, queue) -> None:
    mine, _ = queue
    asked = world.member.post("/what-if", {"job": mine.id, "changes": {"gpus": 2}}).json()
    row = WhatIf.objects.get(id=asked["id"])
    WhatIf.objects.filter(id=row.id).update(asked_at=row.asked_at - 2 * questions.PATIENCE, state="running")
    answer = world.member.get(f"/what-if/{asked['id']}").json()
    assert (answer["state"], answer["problem"]) == ("failed", "No worker answered it; ask again.")
