"""Private clusters of small virtual clusters: whose GPUs they are, and who sits where."""

from __future__ import annotations

from collections import Counter

import pytest

from scheduler.core.model.cell_specification import CellType, PhysicalCell, Specification, VirtualCells
from scheduler.core.model.errors import SchedulingError
from scheduler.core.model.snapshot import Snapshot, Tenant
from scheduler.core.sim.private import private_cluster
from tests.builders import (
    make_cluster,
    make_job,
    make_node,
    make_running,
    make_snapshot,
    make_virtual_cluster,
)

SWITCHES = (
    CellType(name="SWITCH", of="V100", count=2),
    CellType(name="NODE", of="SWITCH", count=4, node=True),
    CellType(name="RACK", of="NODE", count=2),
)


def racks(count: int, **virtual_clusters: VirtualCells) -> Specification:
    """Racks of two nodes each: node-0001 and node-0002, then node-0003 and node-0004, ..."""
    return Specification(
        types=SWITCHES,
        physical=tuple(
            PhysicalCell(type="RACK", name=f"rack-{n}", nodes=(f"node-{2 * n - 1:04d}", f"node-{2 * n:04d}"))
            for n in range(1, count + 1)
        ),
        virtual_clusters=virtual_clusters,
    )


def sizes(facts: Snapshot) -> list[int]:
    return [len(node.gpus) for node in facts.nodes]


class TestByCounts:
    def test_whole_nodes_and_a_part_of_the_last(self) -> None:
        vc = make_virtual_cluster(guaranteed={"V100": 11, "P100": 4})
        facts = make_snapshot(
            nodes=(*make_cluster(3), make_node(9, gpu_model="P100", cpus=32.0, memory_bytes=64)),
            virtual_clusters=[vc, make_virtual_cluster("products", {"V100": 8})],
        )
        alone = private_cluster(facts, "research")
        assert [(node.gpu_model, len(node.gpus)) for node in alone.nodes] == [
            ("P100", 4),
            ("V100", 8),
            ("V100", 3),
        ]
        # CPUs and memory of half a node.
        assert (alone.nodes[0].cpus, alone.nodes[0].memory_bytes) == (16.0, 32)
        assert [vc.name for vc in alone.virtual_clusters] == ["research"]
        assert alone.virtual_clusters[0].guaranteed == {"V100": 11, "P100": 4}

    def test_the_largest_nodes_are_the_best_shape(self) -> None:
        facts = make_snapshot(
            nodes=[make_node(1, gpus=2), make_node(2, gpus=4), make_node(3, gpus=2)],
            virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 6})],
        )
        assert sizes(private_cluster(facts, "research")) == [4, 2]

    def test_its_hardware_works(self) -> None:
        facts = make_snapshot(nodes=[make_node(1, broken=(0, 1), schedulable=False)])
        (node,) = private_cluster(facts, "research").nodes
        assert node.schedulable
        assert all(gpu.healthy for gpu in node.gpus)


class TestByCells:
    def test_smaller_cells_are_nodes_of_their_own(self) -> None:
        facts = make_snapshot(
            nodes=make_cluster(4),
            cells=racks(2, research=VirtualCells(cells={"SWITCH": 2, "NODE": 1})),
        )
        alone = private_cluster(facts, "research")
        assert sizes(alone) == [8, 2, 2]
        assert alone.cells is None
        assert alone.virtual_clusters[0].guaranteed == {"V100": 12}
        assert len({node.id for node in alone.nodes}) == len({node.name for node in alone.nodes}) == 3

    def test_only_the_nodes_of_one_cell_share_a_rack(self) -> None:
        facts = make_snapshot(
            nodes=make_cluster(8), cells=racks(4, research=VirtualCells(cells={"RACK": 1, "NODE": 2}))
        )
        alone = private_cluster(facts, "research")
        assert sorted(Counter(node.path for node in alone.nodes).values()) == [1, 1, 2]

    def test_pinned_cells_are_its_own(self) -> None:
        facts = make_snapshot(
            nodes=make_cluster(4),
            cells=racks(2, research=VirtualCells(pinned={"demo": "rack-2/node-0004/1"})),
        )
        alone = private_cluster(facts, "research")
        assert sizes(alone) == [2]

    def test_a_node_that_is_gone_is_there_still(self) -> None:
        facts = make_snapshot(
            nodes=make_cluster(1), cells=racks(2, research=VirtualCells(cells={"RACK": 1, "SWITCH": 1}))
        )
        alone = private_cluster(facts, "research")
        assert sizes(alone) == [8, 8, 2]
        assert len({gpu.id for node in alone.nodes for gpu in node.gpus}) == 18

    def test_models_that_no_cell_divides_go_by_counts(self) -> None:
        facts = make_snapshot(
            nodes=(*make_cluster(4), make_node(9, gpu_model="P100")),
            virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 2, "P100": 8})],
            cells=racks(2, research=VirtualCells(cells={"SWITCH": 1})),
        )
        alone = private_cluster(facts, "research")
        assert alone.virtual_clusters[0].guaranteed == {"V100": 2, "P100": 8}


class TestJobs:
    def test_only_its_own_guaranteed_jobs_are_there(self) -> None:
        jobs = [make_job(1), make_job(2, guaranteed=False), make_job(3, virtual_cluster="products")]
        facts = make_snapshot(
            jobs=jobs,
            virtual_clusters=[make_virtual_cluster(), make_virtual_cluster("products", {})],
            tenants=[Tenant(name="vision", quota={"V100": 3})],
        )
        alone = private_cluster(facts, "research")
        assert [job.id for job in alone.jobs] == [1]
        assert alone.tenants[0].quota == {"V100": 3}

    def test_what_runs_sits_well(self) -> None:
        """Scattered over four nodes here; there the large job has a node and the small ones another."""
        large = make_job(1, replicas=4, gpus=2)
        small = [make_job(number, 2) for number in (2, 3)]
        facts = make_snapshot(
            nodes=make_cluster(4),
            jobs=[large, *small],
            running=[
                make_running(large, [[100, 101], [200, 201], [300, 301], [400, 401]]),
                make_running(small[0], [102, 103], since=5.0),
                make_running(small[1], [302, 303]),
            ],
            virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 16})],
        )
        alone = private_cluster(facts, "research")
        where = {on.jobs[0]: {gpu // 100 for gpu in on.gpus} for on in alone.running}
        assert where == {1: {1}, 2: {2}, 3: {2}}
        assert {on.jobs[0]: on.since for on in alone.running}[2] == 5.0

    def test_what_does_not_fit_waits_with_the_service_that_it_had(self) -> None:
        first, second = make_job(1, 8), make_job(2, 4)
        facts = make_snapshot(
            nodes=make_cluster(2),
            jobs=[first, second],
            running=[
                make_running(first, range(100, 108)),
                make_running(second, range(200, 204), since=1_699_999_900.0),
            ],
        )
        alone = private_cluster(facts, "research")
        assert [on.jobs for on in alone.running] == [(1,)]
        assert alone.jobs[1].attained_service == {"V100": pytest.approx(400.0)}


def test_an_unknown_virtual_cluster_is_named() -> None:
    with pytest.raises(SchedulingError, match="no virtual cluster 'sales'"):
        private_cluster(make_snapshot(), "sales")
