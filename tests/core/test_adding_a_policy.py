"""The worked example of docs/adding-a-policy.md, run as it is printed there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from scheduler.core.round import registry
from scheduler.core.round.decide import decide
from tests.builders import NOW, make_job, make_running, make_snapshot, make_virtual_cluster
from tests.core.virtual_loop import VirtualLoop

DOCUMENT = Path(__file__).parents[2] / "docs" / "adding-a-policy.md"


@pytest.fixture(autouse=True)
def printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the policy that is printed in the document."""
    [source] = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    module = ModuleType("printed_policy")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(source, str(DOCUMENT), "exec"), module.__dict__)
    monkeypatch.setattr(registry, "POLICIES", {"srtf": module.__dict__["ShortestRemaining"]})


def test_something_shorter_preempts() -> None:
    slow = make_job(1, 8, time_limit_seconds=7_200.0)
    snapshot = make_snapshot(
        jobs=[slow, make_job(2, 4, time_limit_seconds=60.0)],
        running=[make_running(slow, range(100, 108), since=NOW - 60)],
        virtual_clusters=[make_virtual_cluster(policy="srtf")],
        spare_policy="srtf",
    )
    plan = decide(snapshot)
    assert not plan.degraded
    assert {job: action.kind.value for action in plan.actions for job in action.jobs} == {
        1: "stop",
        2: "start",
    }
    assert plan.queues["research"] == (1,)


def test_what_is_nearly_done_goes_on_and_everything_ends() -> None:
    jobs = [make_job(number, 4, time_limit_seconds=60.0 * number) for number in range(1, 7)]
    snapshot = make_snapshot(
        jobs=jobs, virtual_clusters=[make_virtual_cluster(policy="srtf")], spare_policy="srtf"
    )
    loop = VirtualLoop(snapshot, {job.id: 60.0 * job.id for job in jobs})
    loop.run(rounds=300)
    assert sorted(loop.ended, key=loop.ended.__getitem__) == [1, 2, 3, 4, 5, 6]
