"""Fragmentation gradient descent: each task goes where the idle GPUs stay most useful to what comes next.

Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent", USENIX ATC 2023, section 4, for whole GPUs and parts of them. `core/fitting/fragmentation.py` has
the measure and the authors' score; tasks of published lists go where the replay of their simulator puts them
(`tests/simulation/reproduction/openb/test_placers.py`). Deviations:

- The target workload, replica by replica (the kinds that make up 95 % of all, as in the paper), is the
  parameter; else the requests of the last days' jobs, where they were counted (`Snapshot.workload`; a
  platform does so); else the running and waiting jobs of the view.
- A gang's replicas are placed one after another, each as a task of its own, and scores are summed to choose
  among models and racks; where whole GPUs of a gang are on one node, they are one task. The paper has no
  gangs.
- Ties go to the earliest node in the order of the topology, where the paper's simulator has a fixed random
  order.
- A job's order of preference among models decides only between equal scores.
- Labels and memory of devices determine which GPUs suit a part; the measure ignores them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

from scheduler.core.building_blocks.node_scores import NodeState, ask_of
from scheduler.core.building_blocks.policy import PlacerDecision, View
from scheduler.core.building_blocks.scoring import TIES, TOPOLOGY, place_by_score
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import Need
from scheduler.core.fitting.fragmentation import WHOLE, Ask, Fragmentation, asks_of, frequent, kinds_of
from scheduler.core.model.plan import Grant
from scheduler.core.model.snapshot import Job
from scheduler.core.model.task_kind import TaskKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Fgd:
    """Fragmentation gradient descent.

    `workload` lists the expected tasks: "GPUS:CPUS:WEIGHT", or "GPUS:CPUS:WEIGHT:MODEL/MODEL" for tasks that
    accept only some models, where GPUS is a whole number or a part of one GPU, such as 0.3; empty: the
    requests of the last days' jobs. 0 GPUs means a task without GPUs.

    `ties`: which of equals gets it: the earliest by GPU model and `topology`, or as nodes are `listed`.
    """

    workload: tuple[str, ...] = ()
    ties: str = field(default=TOPOLOGY, metadata={"choices": TIES})

    def __post_init__(self) -> None:
        _given(self.workload)

    def place(self, grants: Sequence[Grant], view: View, capacity: Capacity) -> PlacerDecision:
        """Return where the grants go; one that does not fit is left out."""
        return place_by_score(
            grants,
            view,
            capacity,
            Descent(self.workload, view.workload, view.jobs.values()),
            ties=self.ties,
        )


class Descent:
    """The scorer: the authors' score of how much the node's fragmentation would fall."""

    sees_kinds = False

    def __init__(self, workload: Sequence[str], lately: Sequence[TaskKind], jobs: Iterable[Job]) -> None:
        self._workload, self._lately, self._jobs = workload, lately, jobs
        self._measure: Fragmentation | None = None

    def score(self, node: NodeState, need: Need, able: Sequence[int]) -> tuple[float, int]:
        """Return the points of a node, and the GPU for a part."""
        if self._measure is None:
            kinds = self._lately or [
                kind for job in self._jobs for kind in kinds_of(job.tasks, job.gpu_models)
            ]
            counts = _given(self._workload) if self._workload else asks_of(kinds)
            self._measure = Fragmentation(frequent(counts))
        found = self._measure.best(node.free, ask_of(need), able or None)
        if found is None:
            return -1, 0
        points, after = found
        changed = [gpu for gpu in able if after.shares[gpu] != node.free.shares[gpu]]
        return points, changed[0] if changed else 0


def _given(workload: Iterable[str]) -> dict[Ask, float]:
    """Read the parameter; raise ValueError that names the entry at fault."""
    counts: dict[Ask, float] = {}
    for entry in workload:
        try:
            gpus, cpus, weight, *models = str(entry).split(":")
            accepted = frozenset(models[0].split("/") if models else ())
            number, share = _amount(gpus)
            ask = Ask(number, _finite(cpus), share, accepted)
            counts[ask] = counts.get(ask, 0.0) + _finite(weight)
        except ValueError:
            raise ValueError(
                "entries of workload must be GPUS:CPUS:WEIGHT or GPUS:CPUS:WEIGHT:MODEL/MODEL, with numbers"
                f" of at least 0, not {entry!r}"
            ) from None
    return counts


def _amount(text: str) -> tuple[int, int]:
    """Return GPUs and thousandths of each; raise ValueError for neither a whole number nor a part of one."""
    share = round(_finite(text) * WHOLE)
    if 0 < share < WHOLE:
        return 1, share
    gpus = int(text)
    return gpus, WHOLE if gpus else 0


def _finite(text: str) -> float:
    """Return a number of at least 0; raise ValueError for anything else."""
    if not 0 <= (number := float(text)) < inf:
        raise ValueError(text)
    return number
