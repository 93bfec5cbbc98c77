"""What conformance asks of every policy, asked again of parameters that change what a policy does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduler.core.placers.delay import Delay
from scheduler.core.policies.sjf import Sjf
from scheduler.core.policies.srtf import Srtf
from scheduler.core.round.decide import decide
from tests.core.test_conformance import make_busy, make_workload
from tests.core.virtual_loop import VirtualLoop
from tests.effort import first_every_day

VARIANTS = [
    "allox:alpha=0.3,window=3",
    "fair:half_life_seconds=0,preemptive=true,minimum_run_seconds=20",
    "fair:preemptive=true,minimum_run_seconds=20",
    "gandiva:packing=true,slice_seconds=20",
    "las:quantum_seconds=10",
    "gavel:objective=water_filling,lease_seconds=20.0,interval_seconds=0.0",
    "gavel:objective=hierarchical,parts=2,lease_seconds=60.0",
    "gavel:aware=false,lease_seconds=5.0",
    "shockwave:round_seconds=10.0,horizon_rounds=3",
    "priority:strict=true",
    "sjf:aging=0.5,strict=true",
    "qssf:strict=true",
    "orion:high_from=5,guests=3,most_slowdown=0",
    "pai:reserved=V100|,reserved_from=4",
    "iadeep:largest_group=4,most_interference=9",
    "lucid:capacity=-1",
    "lucid:profiler_gpus=2,profiling_seconds=180,lent_gpus=2",
    "muri:knows_durations=false,interval_seconds=20",
    "srtf:by_service=true,hysteresis=0",
    "tiresias:discipline=gittins,thresholds=50|200",
    "tiresias:promote=0.5,thresholds=50|",
]


@pytest.mark.parametrize("policy", first_every_day(VARIANTS, 6))
# Every day without memory: conformance asks that of the policies' own parameters.
@pytest.mark.parametrize(
    "keep_memory", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["memory", "no memory"]
)
def test_every_job_ends_though_a_third_of_the_actions_is_lost(policy: str, keep_memory: bool) -> None:
    snapshot, seconds = make_workload((policy, "consolidate"))
    loop = VirtualLoop(snapshot, seconds, drop=1 / 3, keep_memory=keep_memory)
    for _ in range(3_000):
        if not loop.snapshot.jobs:
            break
        assert not loop.step().degraded
    assert set(loop.ended) == set(seconds)


@pytest.mark.parametrize(
    ("make", "name"), [(Sjf, "aging"), (Srtf, "hysteresis"), (Delay, "relax_after_seconds")]
)
def test_numbers_below_zero_are_refused(make: Callable[..., object], name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} is -1; it must be at least 0$"):
        make(**{name: -1.0})


@pytest.mark.parametrize("policy", VARIANTS)
def test_a_policy_is_never_to_be_woken_in_the_past(policy: str) -> None:
    snapshot = make_busy((policy, "consolidate"))
    for later in (0.0, 10.0, 599.9999999, 3_600.0):
        plan = decide(replace(snapshot, now=snapshot.now + later))
        assert plan.wake_at is None or plan.wake_at > snapshot.now + later
