"""Attempts that take turns on their GPUs: what rounds write, what nodes are told, what the API says."""

import pytest

from nodeagent.messages import Turn
from scheduler.agents.services.desired import desired_parts
from scheduler.jobs import representations as job_representations
from scheduler.jobs.attempts import representations as attempt_representations
from scheduler.models import Allocation, Attempt
from scheduler.rounds.snapshot import read_snapshot
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node

pytestmark = pytest.mark.django_db


@pytest.fixture
def pair() -> tuple[Attempt, Attempt]:
    """Two attempts of one allocation, in turns of 45 s."""
    first, second = make_job(gpus=2), make_job(gpus=2)
    node = make_node(gpus=2)
    host, guest = (make_attempt(first, gpus_of(node)), make_attempt(second, gpus_of(make_node(gpus=2))))
    Attempt.objects.filter(id=guest.id).update(allocation=host.allocation)
    guest.parts.update(node=node)
    Allocation.objects.filter(id=host.allocation_id).update(slice_seconds=45.0)
    return Attempt.objects.get(id=host.id), Attempt.objects.get(id=guest.id)


def test_each_is_told_its_turn_and_everybody_sees_it(pair: tuple[Attempt, Attempt]) -> None:
    host, guest = pair
    node = host.parts.get().node
    assert all(part.shares_gpus for part in desired_parts(node))
    turns = {part.attempt: part.turn for part in desired_parts(node)}
    assert turns == {
        host.id: Turn(index=0, count=2, seconds=45.0),
        guest.id: Turn(index=1, count=2, seconds=45.0),
    }
    said = [job["attempt"]["turn"] for job in job_representations.jobs([host.job_id, guest.job_id])]
    assert said == [{"index": index, "count": 2, "seconds": 45.0} for index in (0, 1)]
    (running,) = [held for held in read_snapshot(1).running if len(held.jobs) == 2]
    assert running.slice_seconds == 45.0


def test_who_is_left_runs_all_the_time(pair: tuple[Attempt, Attempt]) -> None:
    host, guest = pair
    Attempt.objects.filter(id=host.id).update(state="ended", outcome="succeeded")
    (part,) = desired_parts(guest.parts.get().node)
    assert (part.turn, part.shares_gpus) == (None, False)
    assert attempt_representations.attempts([guest.id])[0]["turn"] is None
