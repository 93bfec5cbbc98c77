"""An attempt holds GPUs from its promotion on, so its nodes have limited time to prepare and to run it."""

from datetime import timedelta
from typing import Any

import pytest

from nodeagent.messages import CODE_SECONDS
from scheduler.agents.services import leases
from scheduler.agents.services.leases import START_SECONDS, expire_leases
from scheduler.jobs.attempts.services import lifecycle
from scheduler.models import AgentService, Attempt
from scheduler.wiring.clock import database_now
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node

pytestmark = pytest.mark.django_db

STEP = timedelta(seconds=START_SECONDS)
ARCHIVE = {"archive": f"sha256:{64 * '0'}"}


def starting(*parts: str, since: timedelta, code: dict[str, str] | None = None) -> Attempt:
    """An attempt that got its GPUs so long ago, with its parts in these states, each on a node of its own."""
    job = make_job(replicas=len(parts))
    if code is not None:
        job.spec["code"] = code
        job.save()
    nodes = [make_node(gpus=1, name=f"n{number}-of-{job.id}") for number in range(len(parts))]
    attempt = make_attempt(
        job, gpus_of(*nodes), state="starting", go="waiting" not in parts or len(parts) == 1
    )
    for node, state in zip(nodes, parts, strict=True):
        attempt.parts.filter(node=node).update(state=state)
    Attempt.objects.filter(id=attempt.id).update(starting_at=database_now() - since)
    return attempt


def swept(attempt: Attempt) -> tuple[str, str]:
    """The state and the cause of a stop after the sweep."""
    expire_leases()
    attempt.refresh_from_db()
    return attempt.state, attempt.stop_cause


LATE = ("stopping", "gang_timeout")
IN_TIME = ("starting", "")
A_MOMENT = timedelta(seconds=5)


@pytest.mark.parametrize(
    ("parts", "late"),
    [(["waiting"], "n0"), (["ready", "waiting"], "n1")],
    ids=["one node", "gang"],
)
def test_what_is_not_prepared_in_time_is_stopped(parts: list[str], late: str) -> None:
    assert swept(starting(*parts, since=STEP - A_MOMENT)) == IN_TIME
    attempt = starting(*parts, since=STEP + A_MOMENT)
    assert swept(attempt) == LATE
    assert attempt.stop_message == f"Not every node was ready within 60 s: {late}-of-{attempt.job_id}."


@pytest.mark.parametrize("parts", [["ready"], ["running", "ready"]], ids=["one node", "gang"])
def test_what_is_prepared_and_does_not_run_in_time_is_stopped(parts: list[str]) -> None:
    assert swept(starting(*parts, since=2 * STEP - A_MOMENT)) == IN_TIME
    attempt = starting(*parts, since=2 * STEP + A_MOMENT)
    assert swept(attempt) == LATE
    assert attempt.stop_message.startswith("Not every node was running within 120 s: ")


def test_nodes_have_more_time_where_they_fetch_code() -> None:
    longer = STEP + timedelta(seconds=CODE_SECONDS)
    assert swept(starting("waiting", since=longer - A_MOMENT, code=ARCHIVE)) == IN_TIME
    assert swept(starting("waiting", since=longer + A_MOMENT, code=ARCHIVE)) == LATE


def queue(attempt: Attempt, *parts: bool | timedelta) -> None:
    """Put each part into the queue of another scheduler, or note how long ago it left that."""
    for part, queued in zip(attempt.parts.order_by("node__name"), parts, strict=True):
        part.is_queued = queued is True
        part.left_queue_at = None if isinstance(queued, bool) else database_now() - queued
        part.save()


def test_time_in_the_queue_of_another_scheduler_does_not_count() -> None:
    attempt = starting("waiting", since=10 * STEP)
    queue(attempt, True)
    assert swept(attempt) == IN_TIME
    queue(attempt, STEP - A_MOMENT)
    assert swept(attempt) == IN_TIME
    queue(attempt, STEP + A_MOMENT)
    assert swept(attempt) == LATE


def test_a_gang_has_the_limit_from_when_its_first_node_left_that_queue() -> None:
    attempt = starting("waiting", "waiting", since=10 * STEP)
    queue(attempt, True, True)
    assert swept(attempt) == IN_TIME
    attempt.parts.filter(node__name__startswith="n0").update(state="ready")
    queue(attempt, STEP - A_MOMENT, True)
    assert swept(attempt) == IN_TIME
    queue(attempt, STEP + A_MOMENT, True)
    assert swept(attempt) == LATE
    assert attempt.stop_message == f"Not every node was ready within 60 s: n1-of-{attempt.job_id}."


def test_a_gang_with_a_node_that_no_queue_keeps_has_the_limit_from_its_start() -> None:
    attempt = starting("ready", "waiting", since=STEP + A_MOMENT)
    queue(attempt, False, True)
    assert swept(attempt) == LATE


def test_an_agent_may_be_away_for_a_lease_meanwhile(settings: Any) -> None:
    settings.CONFIG = settings.CONFIG.model_copy(update={"node_lease_seconds": 2 * START_SECONDS})
    assert swept(starting("waiting", since=4 * STEP - A_MOMENT)) == IN_TIME
    assert swept(starting("waiting", since=4 * STEP + A_MOMENT)) == LATE


def test_time_in_which_the_server_did_not_answer_does_not_count() -> None:
    attempt, now = starting("waiting", since=10 * STEP), database_now()
    AgentService.objects.update_or_create(id=1, defaults={"at": now, "since": now - STEP + A_MOMENT})
    assert swept(attempt) == IN_TIME
    AgentService.objects.update(since=now - STEP - A_MOMENT)
    assert swept(attempt) == LATE


def test_one_that_cannot_be_stopped_keeps_no_other_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    broken, other = starting("waiting", since=2 * STEP), starting("waiting", since=2 * STEP)

    def attempt_stop(attempt: Attempt, **how: object) -> None:
        if attempt.id == broken.id:
            raise ZeroDivisionError
        lifecycle.attempt_stop(attempt, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(leases, "attempt_stop", attempt_stop)
    assert swept(other) == LATE
