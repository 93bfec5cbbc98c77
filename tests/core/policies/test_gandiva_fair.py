"""Gandiva-Fair: fair shares for users whatever their jobs, trades that everyone gains by, the books."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from scheduler.core.errors import UnknownPlugin
from scheduler.core.plan import ActionKind
from scheduler.core.registry import make_policy
from scheduler.core.round import decide
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.floor import Rules
from scheduler.core.sim.speeds import Speeds
from scheduler.core.sim.workload import Arrival, Truth
from scheduler.core.snapshot import Job, Member, Node, Snapshot
from tests.builders import NOW, make_job, make_node, make_snapshot, make_virtual_cluster

MODELS = ("V100", "K80")
QUANTUM = 60.0


def job(number: int, tenant: str, gpus: int = 1, speed_up: float = 1.0, **fields: Any) -> Job:
    throughput = {"V100": speed_up, "K80": 1.0}
    return make_job(
        number, gpus, tenant=tenant, **{"throughput": throughput, "application": f"by-{speed_up:g}", **fields}
    )


def snapshot(
    jobs: Sequence[Job], nodes: Sequence[Node], weights: Mapping[str, float], **parameters: Any
) -> Snapshot:
    guaranteed: dict[str, int] = {}
    for node in nodes:
        guaranteed[node.gpu_model] = guaranteed.get(node.gpu_model, 0) + len(node.gpus)
    vc = make_virtual_cluster(guaranteed=guaranteed, policy="gandiva_fair", policy_parameters=parameters)
    members = tuple(Member(tenant=tenant, weight=weight) for tenant, weight in weights.items())
    vcs = [replace(vc, members=members)]
    return make_snapshot(nodes=nodes, jobs=jobs, virtual_clusters=vcs, round_seconds=5.0)


def nodes(v100: int = 0, k80: int = 0) -> list[Node]:
    made = [make_node(1, gpus=v100), make_node(2, gpus=k80, gpu_model="K80")]
    return [node for node in made if node.gpus]


@dataclass(frozen=True)
class Table:
    """Rates of applications called by their speed-up, relative to the K80."""

    def rate(self, application: str, gpus: int, gpu_model: str, of_gpus: int | None = None) -> float:
        return float(application.removeprefix("by-")) if gpu_model == "V100" else 1.0

    def locality(self, application: str, gpus: int, nodes: int) -> None:
        return None

    def interference(self, application: str, other: str, gpu_model: str, gpus: int = 1) -> None:
        return None


def play(facts: Snapshot, quanta: int, work_seconds: Mapping[int, float] | None = None) -> Engine:
    """The jobs, which never end unless it is said when, for so many quanta."""
    truths = {one.id: Truth(work_seconds=(work_seconds or {}).get(one.id, 1e9)) for one in facts.jobs}
    arriving = [Arrival(job=replace(one, submitted_at=0.0), truth=truths[one.id]) for one in facts.jobs]
    engine = Engine(replace(facts, jobs=(), now=0.0), arriving, Rules(speeds=Speeds(tables=Table())))
    engine.run(until=lambda engine: engine.now >= quanta * QUANTUM)
    assert not engine.degraded
    return engine


def gpu_seconds(engine: Engine, since: float = 0.0) -> dict[str, float]:
    """What each tenant had of any model."""
    tenants = {record.id: record.tenant for record in engine.records()}
    had: dict[str, float] = {}
    for stay in engine.stays:
        seconds = max(0.0, stay.ended_at - max(since, stay.started_at)) * len(stay.gpus)
        had[tenants[stay.job]] = had.get(tenants[stay.job], 0.0) + seconds
    return had


def progress(engine: Engine) -> dict[str, float]:
    """What each tenant's jobs did, in seconds of a K80."""
    done: dict[str, float] = {}
    for record in engine.records():
        left = engine.progress[record.id]
        worked = left.truth.work_seconds - left.remaining + (left.attempt.worked if left.attempt else 0.0)
        done[record.tenant] = done.get(record.tenant, 0.0) + worked * record.gpus
    return done


class TestFairShares:
    def test_one_job_against_many_has_as_much_time_when_it_can_use_it(self) -> None:
        jobs = [job(1, "a", 4), *[job(number, "b") for number in range(2, 10)]]
        had = gpu_seconds(play(snapshot(jobs, nodes(4), {"a": 1, "b": 1}), 60))
        assert had["a"] == pytest.approx(had["b"], abs=2 * 4 * QUANTUM)

    def test_who_can_use_less_leaves_the_rest(self) -> None:
        """The paper's example: of 8 GPUs the user with one job of two has 2, the others 3 each."""
        jobs = [job(1, "a", 2), *[job(number, "b" if number % 2 else "c") for number in range(2, 20)]]
        engine = play(snapshot(jobs, nodes(8), {"a": 1, "b": 1, "c": 1}), 60)
        had = {tenant: seconds / engine.now for tenant, seconds in gpu_seconds(engine).items()}
        assert had == pytest.approx({"a": 2, "b": 3, "c": 3}, abs=0.15)

    def test_weights_are_tickets(self) -> None:
        jobs = [job(number, "a" if number % 2 else "b") for number in range(1, 13)]
        had = gpu_seconds(play(snapshot(jobs, nodes(4), {"a": 3, "b": 1}), 60))
        assert had["a"] == pytest.approx(3 * had["b"], rel=0.05)

    def test_a_gang_that_spans_nodes_gets_its_share_beside_a_flood_of_single_jobs(self) -> None:
        jobs = [
            make_job(1, 4, replicas=2, tenant="a", application="by-1"),
            *[job(number, "b") for number in range(2, 30)],
        ]
        facts = snapshot(jobs, [make_node(1, gpus=4), make_node(3, gpus=4)], {"a": 1, "b": 1})
        engine = play(facts, 80)
        had = gpu_seconds(engine)
        assert had["a"] == pytest.approx(had["b"], abs=2 * 8 * QUANTUM)

    def test_when_a_user_leaves_the_others_have_everything_within_a_quantum(self) -> None:
        jobs = [job(1, "a"), job(2, "b"), job(3, "b")]
        facts = snapshot(jobs, nodes(2), {"a": 1, "b": 1})
        engine = play(facts, 20, {1: 300.0})
        ended = next(record.ended_at for record in engine.records() if record.tenant == "a")
        assert ended is not None
        since = ended + QUANTUM
        assert gpu_seconds(engine, since)["b"] == pytest.approx(2 * (engine.now - since), rel=1e-6)

    def test_priority_counts_within_a_user_only(self) -> None:
        jobs = [job(1, "a", priority=9), job(2, "a"), job(3, "b")]
        plan = decide(snapshot(jobs, nodes(1), {"a": 1, "b": 1}))
        targets = plan.memory["research"]["targets"]
        assert targets["3"]["V100"] == pytest.approx(0.5)
        assert targets["1"]["V100"] == pytest.approx(10 * targets["2"]["V100"])


class TestTrading:
    jobs = (
        *[job(number, "vision", speed_up=6.0) for number in range(1, 9)],
        *[job(number, "speech", speed_up=1.5) for number in range(11, 27)],
    )

    def facts(self, **parameters: Any) -> Snapshot:
        return snapshot(self.jobs, nodes(4, 8), {"vision": 1, "speech": 1}, **parameters)

    def test_the_books_say_who_was_entitled_to_what_who_traded_and_who_holds_what(self) -> None:
        books = decide(self.facts()).memory["research"]["books"]
        assert books["entitled"]["vision"] == pytest.approx({"V100": 2, "K80": 4})
        (one,) = books["trades"]
        assert (one["buyer"], one["seller"], one["fast"], one["slow"]) == ("vision", "speech", "V100", "K80")
        assert one["price"] == pytest.approx(1.5)
        assert books["held"]["vision"] == pytest.approx({"V100": 4, "K80": 1})
        assert books["held"]["speech"] == pytest.approx({"V100": 0, "K80": 7})

    def test_both_do_at_least_as_much_as_without_and_one_does_more(self) -> None:
        trading = progress(play(self.facts(), 60))
        without = progress(play(self.facts(trading=False), 60))
        assert trading["vision"] > 1.3 * without["vision"]
        assert trading["speech"] > 0.97 * without["speech"]
        assert sum(trading.values()) > 1.2 * sum(without.values())

    def test_speeds_that_are_only_estimated_are_not_traded_on(self) -> None:
        jobs = [replace(one, estimated=("K80",)) if one.tenant == "speech" else one for one in self.jobs]
        facts = snapshot(jobs, nodes(4, 8), {"vision": 1, "speech": 1}, profiling=0.0)
        assert decide(facts).memory["research"]["books"]["trades"] == []

    def test_books_are_kept_between_rounds(self) -> None:
        facts = self.facts()
        first = decide(facts)
        later = decide(replace(facts, now=NOW + 5, memory=first.memory))
        assert later.memory["research"]["books"] == first.memory["research"]["books"]


def test_nobody_is_disturbed_within_a_quantum() -> None:
    jobs = [job(1, "a"), job(2, "b")]
    facts = snapshot(jobs, nodes(1), {"a": 1, "b": 1})
    engine = play(facts, 10)
    stays = sorted((stay.started_at, stay.ended_at) for stay in engine.stays)
    assert all(ended - started >= QUANTUM for started, ended in stays[:-1])
    assert {action.kind for action in decide(facts).actions} == {ActionKind.START}


@pytest.mark.parametrize("parameters", ["quantum_seconds=0.0", "interval_seconds=-1.0", "profiling=2.0"])
def test_parameters_that_make_no_sense_are_refused(parameters: str) -> None:
    with pytest.raises(UnknownPlugin):
        make_policy(f"gandiva_fair:{parameters}")
