"""Private clusters simulated beside the shared one: what `manage.py simulate --private` adds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scheduler.core.building_blocks.computing import Timekeeper, untimed
from scheduler.core.cells.compiling import compiled
from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import Job, Snapshot
from scheduler.core.round.run_view import ViewOutcome
from scheduler.core.sim.anomalies import compare, private_run, waits_in, with_evidence
from scheduler.core.sim.delays import Comparison
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.late_starts import LateStartDetector
from scheduler.core.sim.private import private_cluster
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.workload import Arrival

OnRound = Callable[[Engine, Sequence[ViewOutcome], Plan], None]

#: A job of a simulation that starts within this many rounds of its private start is not late.
TOLERANCE_ROUNDS = 1.0


class PrivateClusters:
    """The same jobs under the same rules, with each virtual cluster alone.

    They are simulated before the shared cluster, so that it is known when each job becomes late.
    """

    def __init__(
        self, facts: Snapshot, arrivals: Sequence[Arrival], rules: Rules, timekeeper: Timekeeper = untimed
    ) -> None:
        self._tolerance = TOLERANCE_ROUNDS * facts.round_seconds
        self._jobs: dict[str, list[Job]] = {}
        for arrival in arrivals:
            if arrival.job.guaranteed:
                self._jobs.setdefault(arrival.job.virtual_cluster, []).append(arrival.job)
        layout = compiled(facts.cells) if facts.cells is not None else None
        self._engines = {}
        for vc in sorted(self._jobs):
            alone = private_cluster(facts, vc, layout)
            self._engines[vc] = private_run(alone, vc, arrivals, rules=rules, timekeeper=timekeeper)
        self._late_starts = LateStartDetector(
            {
                job: progress.first_started_at
                for engine in self._engines.values()
                for job, progress in engine.progress.items()
                if progress.first_started_at is not None
            }
        )

    def recording(self, on_round: OnRound | None) -> OnRound:
        """Return what the simulation of the shared cluster must call in each round."""

        def both(engine: Engine, outcomes: Sequence[ViewOutcome], plan: Plan) -> None:
            self._late_starts.on_round(engine, outcomes, plan)
            if on_round is not None:
                on_round(engine, outcomes, plan)

        return both

    def compare(self, shared: Engine, measured: frozenset[int] | None = None) -> tuple[Comparison, ...]:
        """Compare the delays of all jobs, or of the measured ones, as known when the simulation ends."""
        real = waits_in(shared, shared.now)
        found = []
        for vc, jobs in self._jobs.items():
            chosen = [job for job in jobs if measured is None or job.id in measured]
            private = waits_in(self._engines[vc], shared.now)
            compared = compare(vc, chosen, real, private, until=shared.now, tolerance_seconds=self._tolerance)
            found.append(with_evidence(compared, self._late_starts.evidence))
        return tuple(sorted(found, key=lambda one: one.virtual_cluster))
