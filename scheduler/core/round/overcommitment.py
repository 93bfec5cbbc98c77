"""Overcommitment of nodes' CPUs and memory, and the victims when a prediction fails.

N. Bashir et al., "Take it to the limit: peak prediction-driven resource overcommitment in datacenters",
EuroSys 2021 (`perf.peaks`). As in Borg (A. Verma et al., EuroSys 2015, section 5.5) only what *guaranteed*
jobs asked for and will not use is lent, and only to opportunistic jobs. So a guaranteed job never relies on
what another job may reclaim: for it, a node is as full as the sum of all requests there. Requests of
opportunistic jobs count in full.

A part of each node, the *margin*, is not lent. If the jobs of a node use more than the node less its margin,
the prediction was wrong. Then opportunistic jobs that are overcommitted there stop, the newest first, until
the remaining jobs use no more. Such a job may be stopped however briefly it has run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from scheduler.core.fitting.holding import Holding, Part, sum_of
from scheduler.core.model.node_peaks import NodePeak
from scheduler.core.model.snapshot import AllocationId, Node, NodeId, Running
from scheduler.core.round.facts import Facts


class _Stay(NamedTuple):
    """The request of an allocation on a node."""

    running: Running
    part: Part


def lent_parts(facts: Facts, gone: Collection[AllocationId]) -> list[tuple[str, Part]]:
    """Return what each node lends to opportunistic jobs beyond what it has, with its model.

    `gone` has the allocations that this round ends or lets lapse. The peak of the remaining jobs is at most
    as high, so it suffices not to lend the requests of those that are gone.
    """
    found = []
    for peak, (model, number), stays in _peaks(facts):
        counted, node = set(peak.allocations), facts.cluster.fleets[model].nodes[number]
        lending = [
            stay.part
            for stay in stays
            if stay.running.allocation in counted
            and stay.running.allocation not in gone
            and facts.is_guaranteed(stay.running)
        ]
        cpus = sum([part.cpus for part in lending]) - peak.cpus - peak.margin * node.cpus
        memory = sum([part.memory for part in lending]) - peak.memory_bytes - peak.margin * node.memory_bytes
        if cpus > 0 or memory > 0:
            found.append((model, Part(number, 0, max(cpus, 0.0), max(memory, 0.0))))
    return found


def giving_way(facts: Facts) -> dict[AllocationId, str]:
    """Return the allocations to stop because use exceeds the prediction, with a sentence for each."""
    found: dict[AllocationId, str] = {}
    for peak, (model, number), stays in _peaks(facts):
        node = facts.cluster.fleets[model].nodes[number]
        for resource in (_CPUS, _MEMORY):
            left = [stay for stay in stays if stay.running.allocation not in found]
            for allocation in _beyond(facts, peak, node, left, resource):
                found[allocation] = _words(node, peak, resource)
    return found


class _Resource(NamedTuple):
    #: Its name for people, and the names of its fields in a part, a use and a node.
    word: str
    part: str
    amount: str


_CPUS = _Resource("CPUs", "cpus", "cpus")
_MEMORY = _Resource("memory", "memory", "memory_bytes")


def _beyond(
    facts: Facts, peak: NodePeak, node: Node, stays: Collection[_Stay], resource: _Resource
) -> Iterator[AllocationId]:
    """Yield the allocations that have to stop because of one resource."""
    there: float = getattr(node, resource.amount)
    if not there:
        return
    measured = {use.allocation: getattr(use, resource.amount) for use in peak.used}
    used = sum([measured.get(stay.running.allocation, 0.0) for stay in stays])
    requested = sum([getattr(stay.part, resource.part) for stay in stays])
    for stay in sorted(stays, key=lambda stay: (-stay.running.since, -stay.running.allocation)):
        if used <= there * (1 - peak.margin) or requested <= there:
            return
        mine = measured.get(stay.running.allocation, 0.0)
        # Stopping a job without measured use would free nothing.
        if mine > 0 and not facts.is_guaranteed(stay.running):
            used, requested = used - mine, requested - getattr(stay.part, resource.part)
            yield stay.running.allocation


def _words(node: Node, peak: NodePeak, resource: _Resource) -> str:
    return (
        f"The jobs on node {node.name} use more of its {resource.word} than was predicted, and less than"
        f" {peak.margin:.0%} of them are left: opportunistic jobs there give way, the newest first."
    )


def _peaks(facts: Facts) -> Iterator[tuple[NodePeak, tuple[str, int], list[_Stay]]]:
    """Yield each peak with the fleet and the number of its node, and the jobs there that need not leave."""
    places = {
        place: peak
        for peak in facts.frame.peaks
        if (place := facts.cluster.place_of(NodeId(peak.node))) is not None
    }
    stays: dict[tuple[str, int], list[_Stay]] = {place: [] for place in places}
    for allocation, running in facts.running.items() if places else ():
        if running.phase == "held" and not running.stopping:
            parts: dict[tuple[str, int], list[Part]] = {}
            for held in facts.held_by(allocation):
                for part in held.parts:
                    if (held.model, part.node) in stays:
                        parts.setdefault((held.model, part.node), []).append(part)
            for place, own in parts.items():
                stays[place].append(_Stay(running, sum_of(place[1], own)))
    for place, peak in places.items():
        yield peak, place, stays[place]


def ended_by(dropped: Collection[Holding]) -> set[AllocationId]:
    """Return the allocations of dropped holdings."""
    return {AllocationId(abs(held.running.allocation)) for held in dropped if held.running is not None}
