"""Try an assignment of cells: simulate the jobs of a virtual cluster in its private cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.core.cells.chains import Layout
from scheduler.core.fitting.demand import amount_of
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.sim.anomalies import percentile, private_run
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.menus import Owned
from scheduler.core.sim.private import private_cluster
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.workload import Arrival


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The results of the jobs on `owned`, pinned cells, and models divided by counts."""

    owned: Owned
    gpus: Mapping[str, int]
    jobs: int
    #: The sum over the jobs; a job that never started counts with the whole window.
    delay_seconds: float
    delay_mean_seconds: float
    delay_p95_seconds: float
    #: The part of the window's GPU-time that jobs held.
    utilisation: float
    #: Jobs that never started.
    never: int

    @property
    def total_gpus(self) -> int:
        return sum(self.gpus.values())


class Evaluator:
    """Tries assignments, each once. `facts` are those of an idle cluster at the beginning of the window."""

    def __init__(
        self,
        facts: Snapshot,
        layout: Layout,
        history: Mapping[str, Sequence[Arrival]],
        window_seconds: float,
        since: Mapping[str, float],
        rules: Rules | None = None,
    ) -> None:
        self._facts, self._layout, self._rules = facts, layout, rules
        self._history, self._window = history, window_seconds
        #: By virtual cluster: when its first simulated job comes, if not all of the window's are simulated.
        self._since = since
        self._known: dict[tuple[str, Owned], Evaluation] = {}
        #: The assignments tried, and the number of jobs simulated for them.
        self.simulated_jobs = 0

    @property
    def assignments(self) -> int:
        return len(self._known)

    def knows(self, virtual_cluster: str, owned: Owned) -> bool:
        return (virtual_cluster, owned) in self._known

    def evaluate(self, virtual_cluster: str, owned: Owned) -> Evaluation:
        """Return the results of the virtual cluster's jobs with these cells and its pinned ones."""
        if not self.knows(virtual_cluster, owned):
            self._known[virtual_cluster, owned] = self._simulated(virtual_cluster, owned)
        return self._known[virtual_cluster, owned]

    def _simulated(self, vc: str, owned: Owned) -> Evaluation:
        layout = replace(
            self._layout,
            owned={vc: {(chain, level): number for chain, level, number in owned}},
            pinned={vc: self._layout.pinned.get(vc, {})},
        )
        alone = private_cluster(self._facts, vc, layout)
        arrivals = self._history.get(vc, ())
        self.simulated_jobs += len(arrivals)
        engine = private_run(alone, vc, arrivals, rules=self._rules)
        delays, never = [], 0
        for arrival in arrivals:
            job = arrival.job
            if job.submitted_at < self._facts.now:
                continue
            started_at = engine.progress[job.id].first_started_at
            never += started_at is None
            delays.append(self._window if started_at is None else max(0.0, started_at - job.submitted_at))
        gpus = dict(alone.virtual_clusters[0].guaranteed)
        return Evaluation(
            owned=owned,
            gpus=gpus,
            jobs=len(delays),
            delay_seconds=sum(delays),
            delay_mean_seconds=sum(delays) / len(delays) if delays else 0.0,
            delay_p95_seconds=percentile(delays, 0.95),
            utilisation=self._utilisation(engine, sum(gpus.values()), self._since.get(vc, self._facts.now)),
            never=never,
        )

    def _utilisation(self, engine: Engine, gpus: int, begin: float) -> float:
        end = self._facts.now + self._window
        held = sum(
            amount_of(engine.progress[stay.job].job, len(stay.gpus))
            * (min(stay.ended_at, end) - max(stay.started_at, begin))
            for stay in engine.stays
            if stay.started_at < end and stay.ended_at > begin
        )
        return held / (gpus * (end - begin)) if gpus and end > begin else 0.0
