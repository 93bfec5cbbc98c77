"""A reader can follow a start from the plan to the agent."""

from __future__ import annotations

import pytest

from scheduler.agents.services.desired import desired_parts
from scheduler.core.model.plan import Action, ActionKind, Placement, Plan
from scheduler.rounds.apply import apply_plan
from scheduler.rounds.snapshot import read_snapshot
from tests.scheduler.builders import gpus_of, make_job, make_node
from tests.walks import walking

pytestmark = pytest.mark.django_db

#: The domains that a start goes through, from the plan to what its node is told.
DOMAINS = ("scheduler/virtual_clusters", "scheduler/jobs", "scheduler/rounds", "scheduler/agents")
#: It was 31.
MOST_RETURNS = 9


def test_a_start_comes_to_its_agent_with_few_returns() -> None:
    node, job = make_node(gpus=2), make_job(gpus=2)
    gpus = tuple(gpu.id for gpu in gpus_of(node))
    start = Action(
        kind=ActionKind.START,
        jobs=(job.id,),
        virtual_cluster=job.virtual_cluster.name,
        guaranteed=job.guaranteed,
        placement=Placement(gpu_model="V100", replicas=(gpus,)),
    )
    snapshot = read_snapshot(9)
    with walking(*DOMAINS) as walk:
        applied = apply_plan(snapshot, Plan(round_number=9, actions=(start,)))
        (part,) = desired_parts(node)
    assert (applied.started, part.job) == (1, job.id)
    assert walk.stays[0] == "scheduler/rounds/apply.py"
    assert walk.returns <= MOST_RETURNS, walk.stays
