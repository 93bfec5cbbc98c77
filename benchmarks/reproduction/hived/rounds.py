"""The same gangs as jobs in rounds: snapshots in which they wait, run and have ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.reproduction.hived.workload import GPU, GPUS_A_NODE, OPPORTUNISTIC, Fill, Gang
from scheduler.core.cells.compiling import compiled
from scheduler.core.model.cell_specification import Specification
from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import (
    AllocationId,
    Gpu,
    GpuId,
    Job,
    JobId,
    Member,
    Node,
    NodeId,
    Running,
    Snapshot,
    Task,
    Tenant,
    VirtualCluster,
)

NOW, ROUND_SECONDS = 1_700_000_000.0, 5.0
TENANT = "tenant"


def empty(specification: Specification) -> Snapshot:
    """Return the cluster without jobs."""
    names = [node for cell in specification.physical for node in cell.nodes]
    guaranteed = compiled(specification).guaranteed
    return Snapshot(
        round_number=1,
        now=NOW,
        round_seconds=ROUND_SECONDS,
        nodes=tuple([_node(number, name) for number, name in enumerate(names)]),
        tenants=(Tenant(name=TENANT, quota={"*": GPUS_A_NODE * len(names)}),),
        virtual_clusters=tuple(
            [
                VirtualCluster(name=name, guaranteed=guaranteed(name), members=(Member(tenant=TENANT),))
                for name in specification.virtual_clusters
            ]
        ),
        jobs=(),
        cells=specification,
    )


def _node(number: int, name: str) -> Node:
    return Node(
        id=NodeId(number),
        name=name,
        gpu_model=GPU,
        path=(name.rpartition("-")[0],),
        cpus=96.0,
        memory_bytes=2**40,
        gpus=tuple(
            [
                Gpu(
                    id=GpuId(GPUS_A_NODE * number + index),
                    index=index,
                    path=(f"socket-{index // 4}", f"pair-{index // 2}"),
                )
                for index in range(GPUS_A_NODE)
            ]
        ),
    )


def job_of(number: int, gang: Gang) -> Job:
    return Job(
        id=JobId(number),
        tenant=TENANT,
        virtual_cluster=gang.owner,
        # In the order of their numbers.
        submitted_at=NOW - 3_600 + number / 1_000,
        tasks=(
            Task(replicas=gang.pods, gpus=gang.gpus, cpus=1.0 * gang.gpus, memory_bytes=gang.gpus * 2**30),
        ),
        guaranteed=gang.priority != OPPORTUNISTIC,
    )


@dataclass(slots=True)
class History:
    """The jobs and allocations of a cluster whose plans are carried out at once."""

    facts: Snapshot
    started: int = 0

    def submit(self, fill: Fill, first: int) -> None:
        """Let the gangs of a fill wait; their jobs are numbered from `first`."""
        jobs = [job_of(first + place, gang) for place, gang in enumerate(fill.gangs)]
        self.facts = replace(self.facts, jobs=(*self.facts.jobs, *jobs))

    def carry_out(self, plan: Plan) -> None:
        """Let what a plan starts run, and move on to the next round."""
        running = list(self.facts.running)
        for action in plan.actions:
            if action.placement is None:
                continue
            self.started += 1
            running.append(
                Running(
                    allocation=AllocationId(self.started),
                    jobs=action.jobs,
                    gpu_model=action.placement.gpu_model,
                    replicas=action.placement.replicas,
                    since=self.facts.now,
                    guaranteed=action.guaranteed,
                )
            )
        self._next(running=tuple(running), memory=plan.memory)

    def end(self, ended: frozenset[JobId]) -> None:
        """Let jobs end."""
        self._next(
            jobs=tuple([job for job in self.facts.jobs if job.id not in ended]),
            running=tuple([each for each in self.facts.running if ended.isdisjoint(each.jobs)]),
        )

    def _next(self, **changes: Any) -> None:
        self.facts = replace(
            self.facts,
            round_number=self.facts.round_number + 1,
            now=self.facts.now + ROUND_SECONDS,
            **changes,
        )

    @property
    def gpus(self) -> int:
        return sum(len(running.gpus) for running in self.facts.running)

    @property
    def jobs(self) -> Mapping[JobId, Job]:
        return {job.id: job for job in self.facts.jobs}
