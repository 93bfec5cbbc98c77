"""Small workloads for tests of the simulator: short and small, so that sums are done by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from scheduler.core.model.snapshot import Node, Snapshot, Task, Topology, VirtualCluster
from scheduler.core.sim.costs import Costs
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.failures import Failures
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.workload import Arrival, Truth
from tests.builders import make_cluster, make_job, make_node, make_snapshot, make_virtual_cluster


def arrival(number: int, at: float, work_seconds: float, gpus: int = 1, **fields: Any) -> Arrival:
    """A job that comes at an instant and runs so long alone; `estimate_seconds` is the truth unless given."""
    status = fields.pop("status", "passed")
    fields.setdefault("estimate_seconds", work_seconds)
    job = make_job(number, gpus, submitted_at=at, **fields)
    return Arrival(job=job, truth=Truth(work_seconds=work_seconds, status=status))


def cluster(gpus: int = 8, *, policy: str = "fifo", placer: str = "consolidate", **fields: Any) -> Snapshot:
    """One node, all of it guaranteed to the one virtual cluster; the clock stands at 0."""
    parameters = fields.pop("parameters", {})
    vc = make_virtual_cluster(
        guaranteed={"V100": gpus}, policy=policy, placer=placer, policy_parameters=parameters
    )
    fields.setdefault("nodes", [make_node(1, gpus=gpus)])
    fields.setdefault("round_seconds", 0.0)
    return make_snapshot(now=0.0, virtual_clusters=[vc], **fields)


def simulate(facts: Snapshot, arrivals: Sequence[Arrival], **rules: Any) -> Engine:
    engine = Engine(facts, arrivals, Rules(**rules))
    assert engine.run() == ""
    assert not engine.degraded
    return engine


@dataclass(frozen=True)
class NodeTurns:
    """A node fails, or comes back."""

    at: float
    healthy: bool
    node: int = 1

    def happen(self, engine: Engine) -> None:
        engine.reconfigure(lambda facts: replace(facts, nodes=tuple(map(self._turned, facts.nodes))))

    def _turned(self, node: Node) -> Node:
        if node.id != self.node:
            return node
        gpus = tuple([replace(gpu, healthy=self.healthy) for gpu in node.gpus])
        return replace(node, gpus=gpus, schedulable=self.healthy)


def ends(engine: Engine) -> dict[int, float]:
    return {job: progress.ended_at or -1.0 for job, progress in engine.progress.items()}


@st.composite
def workloads(draw: st.DrawFn) -> list[Arrival]:
    """Up to a dozen jobs of all kinds, guaranteed and opportunistic, in bursts."""
    number = draw(st.integers(1, 12))
    arrivals = []
    for job in range(1, number + 1):
        shape = draw(st.sampled_from(((1, 1), (1, 2), (1, 4), (2, 4), (1, 8), (3, 2))))
        arrivals.append(
            arrival(
                job,
                float(draw(st.sampled_from((0, 0, 5, 30, 90, 200)))),
                float(draw(st.sampled_from((1, 10, 60, 61.5, 240)))),
                tenant=draw(st.sampled_from(("speech", "vision"))),
                tasks=(Task(replicas=shape[0], gpus=shape[1]),),
                guaranteed=draw(st.booleans()),
                priority=draw(st.sampled_from((0, 0, 1))),
                topology=draw(st.sampled_from((None, Topology(level="rack", required=True)))),
                status=draw(st.sampled_from(("passed", "killed", "failed"))),
            )
        )
    return arrivals


def two_models(policy: str, placer: str = "consolidate", round_seconds: float = 10.0) -> Snapshot:
    """Sixteen V100 and eight P100; research is guaranteed half, products a quarter."""

    def vc(name: str, guaranteed: dict[str, int]) -> VirtualCluster:
        return make_virtual_cluster(name, guaranteed, policy=policy, placer=placer)

    return make_snapshot(
        now=0.0,
        round_seconds=round_seconds,
        nodes=(*make_cluster(2), make_node(3, gpu_model="P100", rack="rack-2")),
        virtual_clusters=[vc("products", {"V100": 4}), vc("research", {"V100": 8, "P100": 8})],
        spare_policy=policy,
        spare_placer=placer,
    )


rules = st.builds(
    Rules,
    costs=st.sampled_from(
        (
            Costs(),
            Costs(start_seconds=2, restore_seconds=3, migration_seconds=1),
            Costs(checkpoint_seconds=7, restore_seconds=3, interval_seconds=20),
            Costs(checkpoint_seconds=15),
        )
    ),
    failures=st.sampled_from(
        (Failures(), Failures(), Failures(probability=0.4, mean_seconds=60, backoff_seconds=15))
    ),
    seed=st.integers(0, 3),
)
