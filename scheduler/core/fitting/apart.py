"""Jobs whose replicas must be farther apart than the hardware is large."""

from __future__ import annotations

from collections import Counter

from scheduler.core.fitting.cluster import Cluster, Fleet
from scheduler.core.fitting.demand import models_of
from scheduler.core.model.plan import Reason, Tier
from scheduler.core.model.snapshot import Job
from scheduler.core.model.tag_constraints import TagConstraint, group_of, in_words


def misfit_apart(job: Job, cluster: Cluster) -> Reason | None:
    """Return why a job's own replicas keep one another from being placed, even if all nodes were idle.

    A hard constraint on a tag that the job has itself bounds how many of its replicas a node or rack takes.
    None: its constraints leave room, or some replica has no whole GPU, so that GPUs bound nothing.
    """
    if job.has_parts or not all([task.gpus for task in job.tasks]):
        return None
    smallest = min([task.gpus for task in job.tasks])
    replicas = sum([task.replicas for task in job.tasks])
    if job.elastic is not None:
        replicas = job.elastic[0] // smallest
    for constraint in job.constraints:
        if constraint.weight is not None or constraint.most is None or constraint.tag not in job.tags:
            continue
        able = max(
            [_most(constraint, smallest, fleet, cluster) for fleet in _fleets(job, cluster)], default=0
        )
        if able < replicas:
            return Reason(
                code="exceeds_constraint",
                tier=Tier.NEVER,
                message=f"At most {able} of its {replicas} replicas can be placed with"
                f" {in_words(constraint)}, even if all nodes were idle.",
                blocking={"tag": constraint.tag, "scope": constraint.scope},
                needed=replicas,
                available=able,
                hint=f"Use at most {able} of the replicas, allow more others by `max`, or give the"
                " constraint a `weight`: then no job waits for it.",
            )
    return None


def _fleets(job: Job, cluster: Cluster) -> list[Fleet]:
    return [cluster.fleets[model] for model in models_of(job, cluster)]


def _most(constraint: TagConstraint, gpus: int, fleet: Fleet, cluster: Cluster) -> int:
    """Return how many replicas with these GPUs each the idle nodes of a model take under a constraint."""
    assert constraint.most is not None
    room = Counter[object]()
    for node in fleet.nodes:
        room[group_of(constraint.scope, node.id, node.path, cluster.levels)] += len(node.gpus) // gpus
    # Each has at most `most` others near it, and counts besides.
    return sum([min(fits, constraint.most + 1) for fits in room.values()])
