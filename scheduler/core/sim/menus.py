"""Assignments of cells that may suit a virtual cluster: what its jobs need, and how much of it.

The shape follows from the jobs. A replica must be inside one cell, and so must a gang with a required
topology level, so the largest of these determines how large cells have to be. For a given number of GPUs, the
best shape is the largest such cells first, since a cell can serve whatever its parts can. Only the number of
GPUs in each chain is left to try.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from scheduler.core.cells.chains import Chain, Layout
from scheduler.core.model.snapshot import Job
from scheduler.core.sim.workload import Arrival

#: Cells that are not pinned: (chain, level, number), in that order.
Owned = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wants:
    """What the jobs of a virtual cluster need of one chain."""

    #: Levels of the smallest cells that serve some job, the largest of them last.
    levels: tuple[int, ...]
    #: The GPUs, in the largest of these cells, without which the largest gang can never run.
    least_gpus: int
    #: The most GPUs that they would have held at once without waiting.
    peak_gpus: int

    @property
    def block(self) -> int:
        """The level of cells that serve them all."""
        return self.levels[-1]


def level_for(job: Job, chain: Chain) -> int | None:
    """Return the level of the smallest cells that serve a job; None when none does."""
    if (job.gpu_models and chain.gpu_model not in job.gpu_models) or job.gpus > len(chain.leaves):
        return None
    replica = max([task.gpus for task in job.tasks])
    if replica > chain.sizes[chain.node_level]:
        return None
    together = job.gpus if job.topology is not None and job.topology.required else replica
    return next((level for level, size in enumerate(chain.sizes) if size >= together), None)


def wants_of(arrivals: Sequence[Arrival], layout: Layout) -> dict[str, Wants]:
    """Return what the jobs need by chain; chains that serve none of them are left out."""
    found = {}
    for name, chain in sorted(layout.chains.items()):
        levels: set[int] = set()
        served = []
        for arrival in arrivals:
            level = level_for(arrival.job, chain)
            if level is not None:
                levels.add(level)
                served.append(arrival)
        if served:
            block, most = chain.sizes[max(levels)], len(chain.leaves)
            largest = max(arrival.job.gpus for arrival in served)
            found[name] = Wants(
                levels=tuple(sorted(levels)),
                least_gpus=min(_whole(largest, block), most),
                peak_gpus=min(_whole(_peak(served), block), most),
            )
    return found


def _whole(gpus: int, block: int) -> int:
    return -(-gpus // block) * block


def _peak(arrivals: Iterable[Arrival]) -> int:
    steps = []
    for arrival in arrivals:
        at, gpus = arrival.job.submitted_at, arrival.job.gpus
        steps += [(at, 1, gpus), (at + arrival.truth.work_seconds, 0, -gpus)]
    most = held = 0
    for _, _, change in sorted(steps):
        held += change
        most = max(most, held)
    return most


def shaped(chain: Chain, block: int, gpus: int) -> Owned:
    """Return `gpus` GPUs of a chain as cells, the largest first: up to level `block`, or up to nodes."""
    found = []
    for level in range(max(block, chain.node_level), -1, -1):
        number, gpus = divmod(gpus, chain.sizes[level])
        if number:
            found.append((chain.name, level, number))
    return tuple(sorted(found))


def coarse(layout: Layout, wants: Mapping[str, Wants], most: int) -> Iterator[Owned]:
    """Yield at most about `most` assignments over the whole range; the least that runs every job is one.

    If jobs can use several chains, the assignments combine a few sizes in each, including 0.
    """
    each = max(2, int(most ** (1 / max(1, len(wants)))))
    ladders = []
    for name, want in wants.items():
        sizes = _thinned(_ladder(layout.chains[name], want), want.least_gpus, each)
        if len(wants) > 1:
            sizes = [0, *sizes]
        ladders.append([(name, gpus) for gpus in sizes])
    for combination in product(*ladders):
        owned = [
            part
            for name, gpus in combination
            for part in shaped(layout.chains[name], wants[name].block, gpus)
        ]
        if owned:
            yield tuple(sorted(owned))


def _ladder(chain: Chain, want: Wants) -> list[int]:
    """Return sizes in GPUs: whole blocks, with growing gaps, up to the peak."""
    block = chain.sizes[want.block]
    gpus, sizes = block, {want.least_gpus, max(want.peak_gpus, want.least_gpus)}
    while gpus < want.peak_gpus:
        sizes.add(gpus)
        gpus += max(1, gpus // block // 3) * block
    return sorted(sizes)


def _thinned(sizes: Sequence[int], least: int, most: int) -> list[int]:
    """Return `most` of the sizes, the least that runs every job among them."""
    if len(sizes) <= most:
        return list(sizes)
    enough = [size for size in sizes if size >= least]
    chosen = (
        enough if len(enough) <= most else [enough[n * (len(enough) - 1) // (most - 1)] for n in range(most)]
    )
    # Add a smaller size, since the largest gang may be unable to run today, too.
    smaller = [size for size in sizes if size < least][-1:] if len(chosen) < most else []
    return [*smaller, *chosen]


def between(
    layout: Layout, wants: Mapping[str, Wants], chosen: Owned, known: Iterable[Owned]
) -> Iterator[Owned]:
    """Yield assignments near the chosen one: in each chain, halfway to its known neighbours."""
    known = list(known)
    for name, want in wants.items():
        chain = layout.chains[name]
        elsewhere = _outside(chosen, name)
        here = gpus_in(layout, chosen, name)
        tried = {gpus_in(layout, owned, name) for owned in known if _outside(owned, name) == elsewhere}
        step = chain.sizes[want.levels[0]]
        fewer = max((gpus for gpus in tried if gpus < here), default=0)
        more = min((gpus for gpus in tried if gpus > here), default=here)
        for low, high in ((fewer, here), (here, more)):
            middle = low + (high - low) // 2 // step * step
            if low < middle < high:
                yield tuple(sorted((*elsewhere, *shaped(chain, want.block, middle))))


def _outside(owned: Owned, chain: str) -> Owned:
    return tuple([part for part in owned if part[0] != chain])


def gpus_in(layout: Layout, owned: Owned, chain: str | None = None) -> int:
    """Return the GPUs of these cells, in all or in one chain."""
    return sum(
        layout.chains[name].sizes[level] * number for name, level, number in owned if chain in (None, name)
    )


def obtainable(layout: Layout, owned: Owned, chain: str, level: int) -> int:
    """Return how many cells of a level these cells contain or can be split into."""
    sizes = layout.chains[chain].sizes
    return sum(
        sizes[higher] // sizes[level] * number
        for name, higher, number in owned
        if name == chain and higher >= level
    )


def with_at_least(layout: Layout, owned: Owned, minimum: Mapping[tuple[str, int], int]) -> Owned:
    """Return the assignment with what a minimum still lacks, largest cells first."""
    for (chain, level), number in sorted(minimum.items(), key=lambda each: (each[0][0], -each[0][1])):
        lacking = number - obtainable(layout, owned, chain, level)
        if lacking > 0:
            counts = {(name, at): cells for name, at, cells in owned}
            counts[chain, level] = counts.get((chain, level), 0) + lacking
            owned = tuple(sorted((name, at, cells) for (name, at), cells in counts.items()))
    return owned
