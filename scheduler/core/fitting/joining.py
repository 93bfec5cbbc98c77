"""Room for guests: CPUs and memory for jobs that get the GPUs of running jobs."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import candidates_of, demand_of
from scheduler.core.fitting.holding import Part
from scheduler.core.fitting.storage import merged
from scheduler.core.model.snapshot import Job, Running


def may_be_joined(running: Running) -> bool:
    """Whether other jobs may share its GPUs with the jobs that run there."""
    is_there = running.phase == "held" and not running.stopping and not running.leaving
    return is_there and running.slice_seconds is None and not running.opportunistic_gpus


def join(capacity: Capacity, running: Running, guest: Job) -> bool:
    """Take from a capacity what a guest needs beside the running jobs; return whether it was available.

    Only idle CPUs and memory count, since it starts at once. Nothing is taken where these do not suffice.
    """
    parts = _beside(capacity, running, guest)
    if parts is None:
        return False
    capacity.take_beside(running.gpu_model, parts)
    return True


def has_room(capacity: Capacity, running: Running, guest: Job) -> bool:
    """Whether there is room for a guest beside the running jobs."""
    return _beside(capacity, running, guest) is not None


def _beside(capacity: Capacity, running: Running, guest: Job) -> tuple[Part, ...] | None:
    """Return what a guest needs of each node of the shared GPUs; None: it may not be there, or too little is
    idle.
    """
    needs = demand_of(guest, capacity.cluster).needs
    if tuple([need.gpus for need in needs]) != tuple(map(len, running.replicas)):
        return None
    parts: dict[int, Part] = {}
    for need, replica in zip(needs, running.replicas, strict=True):
        places = [capacity.cluster.where[gpu] for gpu in replica if gpu in capacity.cluster.where]
        if len(places) < len(replica) or not _accepts(guest, running, places, capacity):
            return None
        node = places[0][1]
        before = parts.get(node, Part(node, 0, 0.0, 0.0))
        cpus, memory = before.cpus + need.cpus, before.memory + need.memory_bytes
        parts[node] = Part(node, 0, cpus, memory, readings=merged((*before.readings, *need.readings)))
    needed = tuple(parts.values())
    return needed if capacity.has_idle(running.gpu_model, needed) else None


def _accepts(
    guest: Job, running: Running, places: Sequence[tuple[str, int, int]], capacity: Capacity
) -> bool:
    """Whether a job may be started on these GPUs, which others have."""
    if not places:
        return False  # Replicas without GPUs stay where they are, and `places` does not list these.
    model, number, _ = places[0]
    fleet = capacity.cluster.fleets[model]
    node = fleet.nodes[number]
    home = capacity.cluster.home_of(node) or node
    return (
        model == running.gpu_model
        and (not guest.gpu_models or model in guest.gpu_models)
        and all([fleet.usable[number] & mask for _, _, mask in places])
        and home.id not in (*guest.avoid, *guest.outlasts)
        and all([each.allow(home.name) for each in candidates_of([guest])])
    )
