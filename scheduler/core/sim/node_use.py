"""How much simulated jobs use of their nodes, and what rounds know of it, as live (`core.perf.peaks`).

In every minute a job uses the part of its request that its truth states, or all of it if it states none.
Nothing is measured if no job states its use, or no virtual cluster lends unused amounts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scheduler.core.fitting.holding import Part
from scheduler.core.model.changing import changed
from scheduler.core.model.node_peaks import OVERCOMMIT_PREDICTED, MeasuredUse, NodePeak
from scheduler.core.model.snapshot import JobId, NodeId, Running
from scheduler.core.perf.peaks import HISTORY, JobUse, predicted_peak
from scheduler.core.round.facts import Facts
from scheduler.core.sim.event_queue import EventQueue
from scheduler.core.sim.progress import Progress

#: The time from one sample to the next.
SAMPLE_SECONDS = 60.0
#: CPUs, and bytes of memory.
_Amounts = tuple[float, float]


class NodeUse:
    """Measures while something runs, and predicts the peak of each node with guaranteed jobs that lend."""

    def __init__(
        self, facts: Callable[[], Facts], progress: Mapping[JobId, Progress], events: EventQueue
    ) -> None:
        self._facts, self._progress, self._events = facts, progress, events
        #: Whether some job states its use.
        self.is_told = False
        #: The number of samples of nodes with a prediction, and of those where jobs used more than was kept.
        self.samples = self.exceeded = 0
        #: Jobs that ran on a node where all requests together exceeded the node.
        self.beyond: set[JobId] = set()
        self._is_due = False

    def wake(self) -> None:
        """Measure again in a minute, if anything runs and is measured."""
        facts = self._facts()
        if self.is_told and not self._is_due and facts.running and self._lending(facts):
            self._is_due = True
            self._events.schedule(self._events.now + SAMPLE_SECONDS, self._look, repeats=True)

    def _look(self) -> bool:
        """Measure, and report the predictions to the next round; return whether they changed."""
        self._is_due = False
        facts = self._facts()
        lending, there = self._lending(facts), self._there(facts)
        for peak in facts.frame.peaks:
            self._count(facts, peak, there.get(NodeId(peak.node), ()))
        peaks = []
        for number, stays in sorted(there.items()):
            lenders = [each for each in stays if self._lends(facts, each[0], lending)]
            if lenders:
                peaks.append(self._predicted(number, stays, lenders, lending))
            self._note_beyond(facts, number, stays)
        is_news = tuple(peaks) != facts.frame.peaks
        facts.frame = changed(facts.frame, peaks=tuple(peaks))
        self.wake()
        return is_news

    def _lending(self, facts: Facts) -> Mapping[str, float]:
        """Return the margins of the virtual clusters that lend."""
        return {
            name: vc.overcommit_margin
            for name, vc in facts.virtual_clusters.items()
            if vc.overcommit == OVERCOMMIT_PREDICTED
        }

    def _there(self, facts: Facts) -> dict[NodeId, list[tuple[Running, Part]]]:
        found: dict[NodeId, list[tuple[Running, Part]]] = {}
        for allocation, running in facts.running.items():
            if running.phase == "held" and not running.stopping:
                for held in facts.held_by(allocation):
                    for part in held.parts:
                        node = facts.cluster.fleets[held.model].nodes[part.node]
                        found.setdefault(node.id, []).append((running, part))
        return found

    def _lends(self, facts: Facts, running: Running, lending: Mapping[str, float]) -> bool:
        return facts.is_guaranteed(running) and facts.jobs[running.jobs[0]].virtual_cluster in lending

    def _used(self, running: Running, part: Part, minutes_ago: int = 0) -> _Amounts:
        """Return the use of a node; jobs that share an allocation use what the first does."""
        known_use = self._progress[running.jobs[0]].truth.use
        if not known_use:
            return part.cpus, part.memory
        cpus, memory = known_use[(self._age(running) - minutes_ago) % len(known_use)]
        return part.cpus * cpus, part.memory * memory

    def _age(self, running: Running) -> int:
        return int((self._events.now - running.since) // SAMPLE_SECONDS)

    def _predicted(
        self,
        node: NodeId,
        stays: list[tuple[Running, Part]],
        lenders: list[tuple[Running, Part]],
        lending: Mapping[str, float],
    ) -> NodePeak:
        jobs = self._facts().jobs
        uses: tuple[list[JobUse], list[JobUse]] = ([], [])
        for running, part in lenders:
            minutes = range(min(self._age(running), HISTORY), -1, -1)
            history = [self._used(running, part, minute) for minute in minutes]
            for axis, requested in enumerate((part.cpus, part.memory)):
                samples = tuple([amounts[axis] for amounts in history])
                uses[axis].append(JobUse(request=requested, samples=samples))
        cpus, memory = map(predicted_peak, uses)
        return NodePeak(
            node=node,
            cpus=cpus,
            memory_bytes=memory,
            allocations=tuple([running.allocation for running, _ in lenders]),
            margin=max([lending[jobs[running.jobs[0]].virtual_cluster] for running, _ in lenders]),
            used=tuple([self._measured(running, part) for running, part in stays]),
        )

    def _measured(self, running: Running, part: Part) -> MeasuredUse:
        cpus, memory = self._used(running, part)
        return MeasuredUse(allocation=running.allocation, cpus=cpus, memory_bytes=memory)

    def _count(self, facts: Facts, peak: NodePeak, stays: list[tuple[Running, Part]] | tuple[()]) -> None:
        """Compare the lenders' present use with the prediction of a minute ago."""
        place = facts.cluster.place_of(NodeId(peak.node))
        used = [self._used(*each) for each in stays if each[0].allocation in peak.allocations]
        if place is None or not used:
            return
        node = facts.cluster.fleets[place[0]].nodes[place[1]]
        kept_cpus = peak.cpus + peak.margin * node.cpus
        kept_memory = peak.memory_bytes + peak.margin * node.memory_bytes
        self.samples += 1
        self.exceeded += (
            sum([cpus for cpus, _ in used]) > kept_cpus or sum([memory for _, memory in used]) > kept_memory
        )

    def _note_beyond(self, facts: Facts, number: NodeId, stays: list[tuple[Running, Part]]) -> None:
        place = facts.cluster.place_of(number)
        assert place is not None
        node = facts.cluster.fleets[place[0]].nodes[place[1]]
        cpus = sum([part.cpus for _, part in stays])
        memory = sum([part.memory for _, part in stays])
        for running, part in sorted(stays, key=lambda each: (-each[0].since, -each[0].allocation)):
            if not ((node.cpus and cpus > node.cpus) or (node.memory_bytes and memory > node.memory_bytes)):
                return
            if not facts.is_guaranteed(running):
                cpus, memory = cpus - part.cpus, memory - part.memory
                self.beyond.update(running.jobs)
