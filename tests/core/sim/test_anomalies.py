"""Sharing anomalies on clusters so small that both worlds can be worked out by hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scheduler.core.model.plan import Reason, Tier
from scheduler.core.model.snapshot import Snapshot, Topology
from scheduler.core.sim.anomalies import cause_of, compare, evidence_of, private_run, waits_in
from scheduler.core.sim.delays import Cause, Comparison
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.private import private_cluster
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.workload import Arrival
from scheduler.simulation.private import PrivateClusters
from tests.builders import make_cluster, make_snapshot, make_virtual_cluster
from tests.core.sim.worlds import arrival

REASONS = Path(__file__).resolve().parents[3] / "docs" / "reasons.md"


def two_halves(**fields: object) -> Snapshot:
    """Two nodes of eight; research and products are guaranteed eight each, by counts."""
    clusters = [make_virtual_cluster(name, {"V100": 8}) for name in ("products", "research")]
    return make_snapshot(
        now=0.0, round_seconds=10.0, nodes=make_cluster(2), virtual_clusters=clusters, **fields
    )


def products(number: int, at: float, seconds: float, gpus: int = 1, **fields: object) -> Arrival:
    return arrival(number, at, seconds, gpus, virtual_cluster="products", **fields)


def compared(facts: Snapshot, arrivals: Sequence[Arrival]) -> dict[str, Comparison]:
    privately = PrivateClusters(facts, arrivals, Rules())
    engine = Engine(facts, arrivals, on_round=privately.recording(None))
    assert engine.run() == ""
    return {one.virtual_cluster: one for one in privately.compare(engine)}


class TestFragmentation:
    """When research wants its eight GPUs on one node, products' small jobs are on both."""

    arrivals = (
        *(products(number, 0.0, 600.0, 2) for number in (1, 2)),
        *(arrival(number, 0.0, 30.0, 4) for number in (3, 4)),
        *(products(number, 10.0, 600.0, 2) for number in (5, 6)),
        arrival(7, 60.0, 100.0, 8),
    )

    def test_the_job_that_waits_is_named_with_the_cause(self) -> None:
        found = compared(two_halves(), self.arrivals)
        assert found["products"].anomalies == ()
        research = found["research"]
        assert research.jobs == 3
        (anomaly,) = research.anomalies
        # Privately at once; here when a node is whole again.
        assert anomaly.delay.job == 7
        assert anomaly.delay.private_seconds == 0.0
        assert anomaly.delay.real_seconds == 540.0
        assert anomaly.delay.hard_affinity
        assert anomaly.evidence.cause is Cause.FRAGMENTATION
        assert "not as the job needs them" in anomaly.evidence.message
        assert anomaly.evidence.round_number is not None
        assert research.hard_affinity_count == 1
        assert research.total_extra_seconds == 540.0
        assert (research.real.mean, research.private.mean) == (180.0, 0.0)
        assert (research.real.p95, research.private.p95) == (540.0, 0.0)

    def test_who_waits_behind_it_waits_for_the_same(self) -> None:
        """A job of four GPUs would fit on either node, but nothing may pass the one of eight."""
        facts = two_halves()
        strict = [replace(vc, policy_parameters={"backfill": False}) for vc in facts.virtual_clusters]
        facts = replace(facts, virtual_clusters=tuple(strict))
        found = compared(facts, [*self.arrivals, arrival(8, 70.0, 900.0, 4)])
        assert {anomaly.delay.job: anomaly.evidence.cause for anomaly in found["research"].anomalies} == {
            7: Cause.FRAGMENTATION,
            8: Cause.FRAGMENTATION,
        }

    def test_there_is_a_cause_though_nothing_happens_when_it_becomes_late(self) -> None:
        """Privately 8 starts at 160 when 7 has ended; here no round is run from 70 to 600."""
        found = compared(two_halves(), [*self.arrivals, arrival(8, 70.0, 100.0, 8)])
        assert [anomaly.evidence.cause for anomaly in found["research"].anomalies] == [
            Cause.FRAGMENTATION,
            Cause.FRAGMENTATION,
        ]
        assert all(anomaly.evidence.message for anomaly in found["research"].anomalies)

    def test_the_cluster_of_one_virtual_cluster_is_its_private_cluster(self) -> None:
        facts = make_snapshot(
            now=0.0,
            round_seconds=10.0,
            nodes=make_cluster(2),
            virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 16})],
        )
        arrivals = [arrival(n, 7.0 * n, 100.0, (1, 2, 4, 8)[n % 4]) for n in range(1, 30)]
        research = compared(facts, arrivals)["research"]
        assert research.anomalies == ()
        assert research.real == research.private
        assert research.jobs == 29


def test_who_waits_in_turn_at_home_too_is_no_anomaly() -> None:
    arrivals = [arrival(number, 0.0, 100.0, 8) for number in (1, 2, 3)]
    research = compared(two_halves(), arrivals)["research"]
    assert research.anomalies == ()
    assert research.real.mean == research.private.mean == 100.0


def test_opportunistic_jobs_are_not_measured_and_do_not_harm() -> None:
    arrivals = [arrival(1, 0.0, 1_000.0, 8, replicas=2, guaranteed=False), arrival(2, 20.0, 100.0, 8)]
    research = compared(two_halves(), arrivals)["research"]
    assert (research.jobs, research.anomalies) == (1, ())


def test_jobs_that_a_private_cluster_could_never_run_are_counted_apart() -> None:
    facts = two_halves()
    job = arrival(1, 0.0, 10.0, 8)
    shared = Engine(facts, [job])
    shared.run()
    engine = private_run(private_cluster(facts, "research"), "research", [arrival(2, 0.0, 10.0, 8)])
    found = compare(
        "research",
        [job.job],
        waits_in(shared, 100.0),
        waits_in(engine, 100.0),
        until=100.0,
        tolerance_seconds=0.0,
    )
    assert (found.jobs, found.never) == (0, 1)


def test_a_wait_counts_as_far_as_it_was_seen() -> None:
    facts = two_halves()
    arrivals = [arrival(1, 0.0, 1_000.0, 8), arrival(2, 100.0, 10.0, 8)]
    engine = private_run(private_cluster(facts, "research"), "research", arrivals, until=400.0)
    waits = waits_in(engine, 400.0)
    assert waits[2].started_at is None
    assert waits[2].seconds == 300.0
    found = compare("research", [arrivals[1].job], waits, waits, until=400.0, tolerance_seconds=0.0)
    assert found.real.mean == 300.0


def test_hard_affinity() -> None:
    research = compared(
        two_halves(),
        [
            *TestFragmentation.arrivals[:6],
            arrival(7, 60.0, 100.0, 1, replicas=8, topology=Topology(level="node", required=True)),
        ],
    )["research"]
    (anomaly,) = research.anomalies
    assert anomaly.delay.hard_affinity
    assert anomaly.evidence.cause is Cause.FRAGMENTATION


def test_causes_go_by_the_decisive_reason() -> None:
    reasons = [
        Reason(code="quota", tier=Tier.QUOTA, message="so"),
        Reason(code="fragmented", tier=Tier.CAPACITY, message="and so"),
    ]
    evidence = evidence_of(reasons, 7)
    assert (evidence.cause, evidence.message, evidence.round_number) == (Cause.QUOTA, "so", 7)
    assert evidence_of((), 7).cause is Cause.OTHER


def test_every_reason_that_a_guaranteed_job_can_be_given_has_a_cause() -> None:
    """Read from the table in docs/reasons.md; what can never run, or was held back by hand, is no anomaly."""
    rows = re.findall(r"^\| `(\w+)` \| ([\w, ]+) \|", REASONS.read_text(), re.MULTILINE)
    assert len(rows) > 30
    # Opportunistic jobs are not compared, and what runs on no model here runs on none privately.
    elsewhere = {"no_idle_gpus", "no_model_runs_it"}
    others = {code for code, tiers in rows if tiers not in ("never", "held")} - elsewhere
    assert {code for code in others if cause_of(code) is Cause.OTHER} == set()
