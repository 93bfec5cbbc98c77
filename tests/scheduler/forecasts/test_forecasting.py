"""Forecasts of the live platform: made after rounds, one at a time, kept, and told to pages."""

import os
from contextlib import suppress
from datetime import timedelta
from itertools import repeat

import pytest
from billiard.pool import SIG_SOFT_TIMEOUT
from django.utils import timezone

from scheduler import tasks
from scheduler.forecasts.services import facts, forecasting
from scheduler.forecasts.services.forecasting import prediction_of, run_forecast, steadied
from scheduler.models import Attempt, Forecast, Leadership, ServingPool, WhatIf
from scheduler.rounds.run import run_round
from scheduler.tasks import pruning
from scheduler.wiring import wakeups
from tests.scheduler.builders import (
    gpus_of,
    make_attempt,
    make_job,
    make_node,
    make_tenant,
    make_user,
    make_vc,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_history(monkeypatch):
    monkeypatch.setattr(facts, "_read", None)


@pytest.fixture
def told(monkeypatch):
    """What pages are told, as (tenant, job)."""
    heard = []
    monkeypatch.setattr(
        forecasting,
        "publish_explanations",
        lambda by_tenant: heard.extend(
            (tenant, one["id"]) for tenant, objects in by_tenant.items() for one in objects
        ),
    )
    return heard


@pytest.fixture
def vision():
    """Four V100, held for an hour by a job that has just begun; its tenant and virtual cluster."""
    node = make_node(gpus=4)
    tenant = make_tenant("vision")
    vc = make_vc("research", members=[tenant], guaranteed={"V100": 4})
    running = make_job(tenant=tenant, virtual_cluster=vc, gpus=4, time_limit_seconds=3_600)
    make_attempt(running, gpus_of(node))
    return tenant, vc


def wait_in(vision, **spec):
    tenant, vc = vision
    return make_job(tenant=tenant, virtual_cluster=vc, **spec)


def turn_to_round(number):
    Leadership.objects.update_or_create(id=1, defaults={"number": number})


def test_a_waiting_job_is_told_when_it_starts(vision, told):
    job = wait_in(vision)
    turn_to_round(7)
    assert run_forecast() > 0
    prediction = prediction_of(job)["prediction"]
    ahead = [
        (timezone.datetime.fromisoformat(prediction[name]) - timezone.now()).total_seconds()
        for name in ("earliest", "starts_at", "latest")
    ]
    # A tenth, a half and all of what is left of an hour.
    assert ahead == pytest.approx([360, 1_800, 3_600], abs=30)
    assert (prediction["round"], prediction["position"]) == (7, 1)
    assert prediction["assumption"].startswith("if jobs run half of their time limit")
    assert told == [("vision", job.id)]


def test_a_job_that_needs_lent_nodes_is_told_when_these_come(vision):
    """Its serving pool needs the node for two hours more."""
    evening = (timezone.now() + timedelta(hours=2)).replace(second=0, microsecond=0)
    times = {f"{evening:%H:%M}": 0, f"{evening - timedelta(hours=8):%H:%M}": 1}
    pool = ServingPool.objects.create(name="chat", nodes_needed=times)
    make_node("serve-1", gpus=4, serving_pool=pool, loan_state="serving")
    job = wait_in(vision, gpus=4, replicas=2, guaranteed=False)
    run_forecast()
    starts_at = timezone.datetime.fromisoformat(prediction_of(job)["prediction"]["starts_at"])
    assert abs((starts_at - evening).total_seconds()) < 120


def test_loans_by_name_end_in_forecasts_too(vision):
    until = timezone.now() + timedelta(hours=1)
    pool = ServingPool.objects.create(name="chat", return_seconds=120)
    node = make_node("serve-1", gpus=4, serving_pool=pool, loan_state="lent", lent_until=until)
    make_node("serve-2", gpus=4, serving_pool=pool, loan_state="lent")
    (known,) = facts.serving_pools()
    assert (known.name, known.return_seconds, known.curve) == ("chat", 120, None)
    assert known.lent_until == {node.id: until.timestamp()}


def test_one_forecast_a_round_and_none_when_nothing_waits(vision, told):
    assert run_forecast() == 0.0
    assert not Forecast.objects.exists()
    wait_in(vision)
    assert run_forecast() > 0
    assert run_forecast() == 0.0


def test_pages_hear_only_of_what_changed(vision, told):
    first = wait_in(vision)
    run_forecast()
    turn_to_round(8)
    second = wait_in(vision)
    told.clear()
    run_forecast()
    assert told == [("vision", second.id)]
    assert prediction_of(first)["prediction"]["round"] == 8


def test_only_the_newest_forecasts_are_kept(vision, told):
    wait_in(vision)
    for number in range(1, 9):
        turn_to_round(number)
        run_forecast()
    assert sorted(Forecast.objects.values_list("round_number", flat=True)) == [4, 5, 6, 7, 8]


def test_jobs_without_a_prediction_say_why(vision, told):
    held, large = wait_in(vision, columns={"held": True}), wait_in(vision, gpus=8)
    new = wait_in(vision)
    assert "No forecast has looked at it yet" in prediction_of(new)["no_prediction"]
    run_forecast()
    assert prediction_of(held) == {"prediction": None, "no_prediction": "It was put on hold."}
    assert "this job needs 8" in prediction_of(large)["no_prediction"]
    ended = wait_in(vision, state="succeeded")
    assert prediction_of(ended)["no_prediction"] == "It does not wait: its state is succeeded."


class TestHistory:
    def test_run_times_are_parts_of_limits_by_tenant_and_application(self, vision):
        tenant, vc = vision
        node = make_node(gpus=8)
        for minutes in (6, 12, 18, 24, 30):
            job = make_job(tenant=tenant, virtual_cluster=vc, time_limit_seconds=3_600, state="succeeded")
            job.shape["application"] = "bert"
            job.save()
            ended = make_attempt(job, gpus_of(node)[:1], state="ended", phase="released", outcome="succeeded")
            now = timezone.now()
            Attempt.objects.filter(id=ended.id).update(
                running_at=now - timedelta(minutes=minutes), ended_at=now
            )
        parts = facts.read_run_times().parts
        assert parts["vision", "bert"] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
        assert parts["vision", ""] == parts["", ""] == parts["vision", "bert"]

    def test_what_was_preempted_says_nothing(self, vision):
        Attempt.objects.update(
            state="ended",
            outcome="preempted",
            running_at=timezone.now() - timedelta(minutes=1),
            ended_at=timezone.now(),
        )
        assert facts.read_run_times().parts == {}

    def test_it_is_read_once_a_minute(self, vision, django_assert_num_queries):
        facts.known_run_times()
        with django_assert_num_queries(0):
            facts.known_run_times()


class TestSteadiness:
    NOW = 1_000.0

    def test_a_little_later_is_told_as_before(self):
        told = [1, 1_100.0, 1_050.0, 1_500.0, ""]
        assert steadied([1, 1_109.0, 1_059.0, 1_491.0, ""], told, self.NOW) is told
        # Two hours ahead, two minutes are little.
        far = [1, 8_200.0, 8_200.0, 8_200.0, ""]
        assert steadied([1, 8_320.0, 8_320.0, 8_320.0, ""], far, self.NOW) is far

    @pytest.mark.parametrize(
        "new",
        [
            [2, 1_100.0, 1_050.0, 1_500.0, ""],
            [1, 1_111.0, 1_050.0, 1_500.0, ""],
            [1, 1_100.0, 1_050.0, None, ""],
            [1, None, None, None, "Never."],
        ],
    )
    def test_what_matters_is_told(self, new):
        assert steadied(new, [1, 1_100.0, 1_050.0, 1_500.0, ""], self.NOW) is new

    def test_nothing_in_the_past_is_repeated(self):
        new = [1, 1_000.0, 1_000.0, 1_000.0, ""]
        assert steadied(new, [1, 999.0, 999.0, 999.0, ""], self.NOW) is new


class TestTask:
    """Celery's side, with the tasks that were sent written down instead."""

    @pytest.fixture(autouse=True)
    def sent(self, monkeypatch):
        with wakeups._redis() as client:
            for key in client.scan_iter("allot:forecast*"):
                client.delete(key)
        sent = []
        monkeypatch.setattr(
            wakeups.current_app, "send_task", lambda name, **options: sent.append((name, options))
        )
        return sent

    def test_a_round_after_which_something_waits_asks_for_a_forecast(
        self, vision, sent, django_capture_on_commit_callbacks
    ):
        with django_capture_on_commit_callbacks(execute=True):
            run_round()
        # It is accounted for all the same.
        assert {name for name, _ in sent} <= {"scheduler.tasks.account_for_rounds"}
        sent.clear()
        wait_in(vision)
        with django_capture_on_commit_callbacks(execute=True):
            run_round()
        assert "scheduler.tasks.forecast" in [name for name, _ in sent]

    def test_a_thousand_wishes_cost_one_forecast(self, sent):
        for _ in range(1_000):
            wakeups.request_forecast()
        assert len(sent) == 1

    def test_the_next_one_keeps_a_distance_that_grows_with_its_cost(self, vision, sent, monkeypatch):
        monkeypatch.setattr(forecasting, "run_forecast", lambda: 4.0)
        tasks.forecast()
        wakeups.request_forecast()
        ((_, options),) = sent
        assert 35 < options["countdown"] <= 40

    def test_one_that_takes_too_long_is_given_up_and_not_tried_again_soon(self, sent, monkeypatch):
        def never() -> float:
            os.kill(os.getpid(), SIG_SOFT_TIMEOUT)
            # As a round does with what a policy raises.
            for _ in repeat(None):
                with suppress(Exception):
                    os.getpid()
            return 0.0

        monkeypatch.setattr(forecasting, "run_forecast", never)
        tasks.forecast()
        wakeups.request_forecast()
        ((_, options),) = sent
        assert options["countdown"] > 400

    def test_only_one_is_made_at_a_time(self, monkeypatch):
        made = []
        monkeypatch.setattr(forecasting, "run_forecast", lambda: made.append(1) or 0.0)
        with wakeups.forecasting() as is_mine:
            assert is_mine
            tasks.forecast()
        assert made == []
        tasks.forecast()
        assert made == [1]

    @pytest.mark.parametrize(("waited", "again"), [(0, 0.3), (20, 2.0), (100, 5.0)])
    def test_a_question_waits_for_its_turn_and_looks_ever_more_rarely(self, sent, waited, again):
        question = asked(waited)
        with wakeups.forecasting():
            tasks.answer_what_if(str(question.id))
        ((name, options),) = sent
        assert name == "scheduler.tasks.answer_what_if"
        assert options["countdown"] == pytest.approx(again, abs=1.0)

    @pytest.mark.parametrize(
        "columns", [{"state": "done"}, {"asked_at": timezone.now() - timedelta(hours=1)}]
    )
    def test_a_question_looks_for_no_turn_when_nothing_waits_for_its_answer(self, sent, columns):
        question = asked(0)
        WhatIf.objects.filter(id=question.id).update(**columns)
        with wakeups.forecasting():
            tasks.answer_what_if(str(question.id))
            tasks.advise("5d5f5f7e-0000-4000-8000-000000000000")
            tasks.work_out_elasticity_savings("5d5f5f7e-0000-4000-8000-000000000000")
            # One that no one asked for is renewed by the next beat.
            tasks.compare_with_private("research")
        assert sent == []


def asked(seconds_ago: float) -> WhatIf:
    at = timezone.now() - timedelta(seconds=seconds_ago)
    return WhatIf.objects.create(asked_by=make_user(), asked_at=at, question={})


def test_old_questions_are_pruned(vision):
    user = make_user()
    kept = WhatIf.objects.create(asked_by=user, asked_at=timezone.now(), question={})
    WhatIf.objects.create(asked_by=user, asked_at=timezone.now() - timedelta(hours=2), question={})
    pruning.prune()
    assert list(WhatIf.objects.all()) == [kept]
