"""The strictest locality that a gang can ask for so that the idle cluster could satisfy it."""

from __future__ import annotations

from scheduler.core.fitting.cluster import Cluster
from scheduler.core.fitting.demand import Demand, demand_of, models_of, shape_of
from scheduler.core.fitting.packing import Layer, locate
from scheduler.core.model.plan import Locality
from scheduler.core.model.snapshot import Job


class IdleCluster:
    """The room on the usable nodes if they were empty."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._layers: dict[str, Layer] = {}

    def holds(self, demand: Demand, model: str) -> bool:
        """Whether the gang would find a place on GPUs of that model."""
        fleet = self.cluster.fleets[model]
        if model not in self._layers:
            self._layers[model] = Layer.unclaimed(fleet, fleet.usable)
        widest, node_rank = demand.ranks[-1], self.cluster.node_rank
        return locate(self._layers[model], fleet, demand, widest, node_rank) is not None


class Consolidation:
    """Answers for many jobs of one cluster; equal shapes are computed once."""

    def __init__(self, cluster: Cluster) -> None:
        self._idle = IdleCluster(cluster)
        self._known: dict[object, Locality] = {}

    def narrowest(self, job: Job) -> Locality:
        """Return NODE if one usable node can hold the whole gang, else RACK if one rack can, else ANY."""
        shape = shape_of(job)
        if shape not in self._known:
            self._known[shape] = next(
                (near for near in (Locality.NODE, Locality.RACK) if self._fits(job, near)), Locality.ANY
            )
        return self._known[shape]

    def _fits(self, job: Job, locality: Locality) -> bool:
        cluster = self._idle.cluster
        return any(
            self._idle.holds(demand_of(job, cluster, job.gpus, model, locality), model)
            for model in models_of(job, cluster)
        )
