"""Rounds at events alone: policies ask for one in between, but not for one every second."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.core.round.registry import POLICIES
from scheduler.simulation.run import simulate
from scheduler.simulation.sweep import Case, prepare

#: Elastic gangs of two tenants that want more than there is.
TRACE = """\
submitted_at,replicas,gpus_per_replica,duration_seconds,min_gpus,max_gpus,tenant
0,2,1,2000,1,4,a
0,4,1,2000,4,4,b
5,1,1,2000,1,1,a
7,2,1,1800,1,2,b
"""


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_with_rounds_of_0_a_policy_asks_for_one_every_half_minute_at_most(
    tmp_path: Path, policy: str
) -> None:
    (tmp_path / "jobs.csv").write_text(TRACE)
    trace = str(tmp_path / "jobs.csv")
    case = Case(trace=trace, format="allot", cluster="v100=4:4", policy=policy, round_seconds=0)
    result = simulate(prepare(case).experiment)
    assert [job.outcome for job in result.jobs] == ["succeeded"] * 4
    # Ten rounds for each of four jobs that come and go.
    assert result.rounds < 40 + (result.ended_at - result.began_at) / 30
