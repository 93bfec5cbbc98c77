"""Fragmentation gradient descent: each task goes where the idle GPUs stay most useful to what comes next.

Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent", USENIX ATC 2023, section 4. `core/fitting/fragmentation.py` has the measure, with shares of GPUs as
in the paper, and `benchmarks/bench_fgd.py` replays the published experiment with it. Deviations of this
placer:

- Whole GPUs only: a grant has no shares of one.
- The target workload is not a history of months but the jobs of the view, those that run and those that
  wait, replica by replica (the kinds that make up 95 % of them, as in the paper), unless it is given as a
  parameter.
- A gang's replicas are placed one after another, each as a task of its own, and scores are summed to choose
  among models and racks. The paper knows no gangs.
- Ties go to the earliest node in the order of the topology, where the paper's simulator has a fixed random
  order.
- A job's order of preference among models decides only between equal scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.building_blocks.placing import Option, Site, place_all
from scheduler.core.building_blocks.policy import PlacerDecision, View
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import Need
from scheduler.core.fitting.fragmentation import WHOLE, Ask, Fragmentation, Free, frequent
from scheduler.core.model.errors import PolicyError
from scheduler.core.model.plan import Grant
from scheduler.core.model.snapshot import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Fgd:
    """Fragmentation gradient descent.

    `workload` lists what is to be expected: "GPUS:CPUS:WEIGHT", or "GPUS:CPUS:WEIGHT:MODEL/MODEL" for tasks
    that accept only some models; empty: the jobs of the view.
    """

    workload: tuple[str, ...] = ()

    def place(self, grants: Sequence[Grant], view: View, capacity: Capacity) -> PlacerDecision:
        """Return where the grants go; one that does not fit is left out."""
        return place_all(grants, view, capacity, _Descent(self.workload, view))


class _Descent:
    models_alike = True

    def __init__(self, workload: Sequence[str], view: View) -> None:
        self._workload, self._view = workload, view
        self._measure: Fragmentation | None = None
        self._scores: dict[tuple[str, Need], dict[tuple[float, int], int]] = {}

    def pick(
        self, site: Site, nodes: Sequence[int], need: Need, taken: Mapping[int, Need]
    ) -> tuple[float, int]:
        masks, cpus = site.layer.masks, site.layer.cpus
        scores = self._scores.setdefault((site.fleet.model, need), {})
        best, chosen = -1, nodes[0]
        for node in nodes:
            state = (cpus[node], masks[node].bit_count())
            if node in taken:
                state = (state[0] - taken[node].cpus, state[1] - taken[node].gpus)
            points = scores.get(state)
            if points is None:
                points = scores[state] = self._score(site.fleet.model, need, *state)
            if points > best:
                best, chosen = points, node
        return -best, chosen

    def best(self, options: Sequence[Option]) -> Option:
        return min(options, key=lambda option: option.cost)

    def _score(self, model: str, need: Need, cpus: float, gpus: int) -> int:
        if self._measure is None:
            counts = _given(self._workload) if self._workload else _counted(self._view.jobs.values())
            self._measure = Fragmentation(frequent(counts))
        found = self._measure.best(Free(model, cpus, (WHOLE,) * gpus), Ask(need.gpus, need.cpus))
        return -1 if found is None else found[0]


def _counted(jobs: Iterable[Job]) -> dict[Ask, float]:
    """Return how many replicas there are of each kind."""
    counts: dict[Ask, float] = {}
    for job in jobs:
        models = frozenset(job.gpu_models)
        for task in job.tasks:
            ask = Ask(task.gpus, task.cpus, models=models)
            counts[ask] = counts.get(ask, 0.0) + task.replicas
    return counts


def _given(workload: Iterable[str]) -> dict[Ask, float]:
    """Read the parameter; raise PolicyError that names the entry at fault."""
    counts: dict[Ask, float] = {}
    for entry in workload:
        try:
            gpus, cpus, weight, *models = str(entry).split(":")
            ask = Ask(int(gpus), float(cpus), models=frozenset(models[0].split("/") if models else ()))
            counts[ask] = counts.get(ask, 0.0) + float(weight)
        except ValueError as error:
            raise PolicyError(
                f"workload of placer fgd: {entry!r} is not GPUS:CPUS:WEIGHT or GPUS:CPUS:WEIGHT:MODEL/MODEL"
            ) from error
    return counts
