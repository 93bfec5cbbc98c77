"""How near together a gang can be asked to be so that the cluster, were it idle, could grant it."""

from __future__ import annotations

from scheduler.core.cluster import Cluster
from scheduler.core.demand import demand_of, models_of, shape_of
from scheduler.core.packing import Layer, locate
from scheduler.core.plan import Locality
from scheduler.core.snapshot import Job


class Consolidation:
    """Answers for many jobs of one cluster; equal shapes are looked at once."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._layers: dict[str, Layer] = {}
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
        cluster = self._cluster
        for model in models_of(job, cluster):
            demand = demand_of(job, cluster, job.gpus, model, locality)
            fleet, widest = cluster.fleets[model], demand.ranks[-1]
            if locate(self._idle(model), fleet, demand, widest, cluster.node_rank) is not None:
                return True
        return False

    def _idle(self, model: str) -> Layer:
        """Return what the usable nodes offer when nobody is there."""
        if model not in self._layers:
            fleet = self._cluster.fleets[model]
            self._layers[model] = Layer.unclaimed(fleet, fleet.usable)
        return self._layers[model]
