"""Closing nodes: as time passes, rounds see which jobs would still run when a node closes."""

from __future__ import annotations

import math
from dataclasses import replace

from scheduler.core.model.snapshot import Job, Node
from scheduler.core.round.facts import Facts
from scheduler.core.round.reservations import lasts_seconds
from scheduler.core.sim.event_queue import EventQueue, nothing


class DrainDeadlines:
    """`Job.outlasts` in virtual time; a round is due whenever it changes for a job."""

    def __init__(self, events: EventQueue) -> None:
        self._events = events
        self._nodes: tuple[Node, ...] = ()
        self._closing: tuple[Node, ...] = ()
        self._noted: set[float] = set()

    def update(self, facts: Facts) -> None:
        """Set for each job the nodes that now close too soon for it."""
        before = self._closing
        if facts.frame.nodes is not self._nodes:
            self._nodes = facts.frame.nodes
            self._closing = tuple([node for node in self._nodes if node.closes_at is not None])
        if not self._closing and not before:
            return
        for job in list(facts.jobs.values()):
            outlasts = tuple([node.id for node in self._closing if self._outlasts(facts, job, node)])
            if outlasts != job.outlasts:
                facts.put_job(replace(job, outlasts=outlasts))

    def _outlasts(self, facts: Facts, job: Job, node: Node) -> bool:
        limit = lasts_seconds(job, facts.virtual_clusters.get(job.virtual_cluster))
        assert node.closes_at is not None
        if limit > node.closes_at - self._events.now:
            return True
        # A job that starts exactly at that instant would end in time.
        instant = math.nextafter(node.closes_at - limit, math.inf)
        if instant not in self._noted:
            self._noted.add(instant)
            self._events.schedule(instant, nothing)
        return False
