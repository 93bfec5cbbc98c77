"""Real jobs on three simulated GPU models: who knows how fast each runs where lets them end sooner."""

import statistics
from datetime import datetime

import pytest

from tests.e2e.installation import Installation
from tests.e2e.training import training

#: Samples a second by model: one kind gains much from the fast GPU, the other next to nothing.
SPEEDS = {"keen": {"A100": 20.0, "T4": 1.0, "M60": 0.5}, "easy": {"A100": 1.5, "T4": 3.6, "M60": 3.2}}
#: Samples that each job has to do.
WORK = {"keen": 60, "easy": 20}
JOBS = ("keen", "easy", "keen", "easy", "keen")


@pytest.fixture(scope="module")
def mixed(platform: Installation) -> Installation:
    """One GPU of each model for a virtual cluster of a tenant of its own."""
    for model in SPEEDS["keen"]:
        platform.add_node(f"one-{model.lower()}", gpus=1, gpu_model=model, rack="rack-3")
    platform.call("POST", "tenants", {"name": "hardware", "title": "Hardware"})
    platform.call(
        "POST",
        "virtual-clusters",
        {
            "name": "mixed",
            "guaranteed": dict.fromkeys(SPEEDS["keen"], 1),
            "members": [{"tenant": "hardware", "weight": 1}],
        },
    )
    return platform


def choose(platform: Installation, **parameters: object) -> None:
    same = {"objective": "shortest_job", "lease_seconds": 3.0, "interval_seconds": 3.0}
    given = {**same, "profiling": 0.0, **parameters}
    choice = {"policy_plugin": {"name": "gavel", "parameters": given}}
    platform.call("PUT", "virtual-clusters/mixed", choice)


def completion_seconds(platform: Installation) -> list[float]:
    """Submit all jobs at once, wait for their ends, and return how long each took."""
    owner = {"tenant": "hardware", "virtual_cluster": "mixed"}
    numbers = [platform.submit(**training(kind, SPEEDS[kind], WORK[kind], **owner)) for kind in JOBS]
    took = []
    for number in numbers:
        done = platform.wait_for(number, "succeeded")
        begun, ended = [datetime.fromisoformat(done[at]) for at in ("submitted_at", "ended_at")]
        took.append((ended - begun).total_seconds())
    return took


@pytest.mark.slow
def test_jobs_end_sooner_when_the_policy_knows_how_fast_they_are(mixed: Installation) -> None:
    choose(mixed, aware=False)
    agnostic = completion_seconds(mixed)
    choose(mixed, aware=True)
    aware = completion_seconds(mixed)
    assert statistics.mean(aware) < 0.92 * statistics.mean(agnostic), (aware, agnostic)
