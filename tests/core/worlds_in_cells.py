"""Random clusters whose GPUs are divided by cells, whole or in part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.errors import SpecificationError
from scheduler.core.model.cell_specification import CellType, PhysicalCell, Specification, VirtualCells
from scheduler.core.model.snapshot import FIXED_WORLD, RESIZABLE, Job, Node, Snapshot, Tenant
from tests.builders import NOW, make_job, make_node, make_snapshot, make_virtual_cluster
from tests.core.worlds import snapshots


def hardware_of(nodes: Sequence[Node], *, racks: bool = False) -> Specification:
    """Switches of two GPUs, sockets of four, nodes; racks of two like nodes where there are such pairs."""
    types: dict[str, CellType] = {}
    physical = []
    alike: dict[tuple[str, int], list[Node]] = {}
    for node in nodes:
        alike.setdefault((node.gpu_model, len(node.gpus)), []).append(node)
    for (model, gpus), group in alike.items():
        below, size = model, 1
        for part in ("SWITCH", "SOCKET", "NODE"):
            count = gpus // size if part == "NODE" else 2
            if part != "NODE" and size * 2 >= gpus:
                continue
            name = f"{model}-{gpus}-{part}"
            types[name] = CellType(name=name, of=below, count=count, node=part == "NODE")
            below, size = name, size * count
        pairs = len(group) // 2 if racks else 0
        for pair in range(pairs):
            rack = f"{model}-{gpus}-RACK"
            types[rack] = CellType(name=rack, of=below, count=2)
            names = (group[2 * pair].name, group[2 * pair + 1].name)
            physical.append(PhysicalCell(type=rack, name=f"{rack}-{pair}", nodes=names))
        for node in group[2 * pairs :]:
            physical.append(PhysicalCell(type=below, name=node.name, nodes=(node.name,)))
    return Specification(types=tuple(types.values()), physical=tuple(physical))


def owning(hardware: Specification, owned: Mapping[str, Mapping[str, int]], **pinned: Any) -> Specification:
    """The hardware with virtual clusters that own cells, by type or "chain/type"."""
    virtual = {vc: VirtualCells(cells=dict(cells), pinned=pinned.get(vc, {})) for vc, cells in owned.items()}
    return replace(hardware, virtual_clusters=virtual)


def in_cells(snapshot: Snapshot, cells: Specification) -> Snapshot:
    """The same facts, divided by these cells; the other models stay divided by counts."""
    layout = compiled(cells)
    clusters = []
    for vc in snapshot.virtual_clusters:
        counts = {m: n for m, n in vc.guaranteed.items() if m not in layout.gpu_models}
        clusters.append(replace(vc, guaranteed=counts | layout.guaranteed(vc.name)))
    return replace(snapshot, cells=cells, virtual_clusters=tuple(clusters))


@st.composite
def specifications(draw: st.DrawFn, nodes: Sequence[Node], clusters: Sequence[str]) -> Specification:
    """As many cells of any kinds as the hardware holds; one may be pinned."""
    models = draw(st.sampled_from((("V100",), ("V100", "P100"))))
    hardware = hardware_of([node for node in nodes if node.gpu_model in models], racks=draw(st.booleans()))
    found = hardware
    chains = compiled(hardware).chains
    owned: dict[str, dict[str, int]] = {vc: {} for vc in clusters}
    pinned: dict[str, dict[str, str]] = {}
    if chains and draw(st.booleans()):
        chain = chains[draw(st.sampled_from(sorted(chains)))]
        level = draw(st.integers(0, chain.top))
        pinned[clusters[0]] = {"own": chain.address(level, draw(st.integers(0, chain.count(level) - 1)))}
    for chain in chains.values():
        for vc in clusters:
            for _ in range(draw(st.integers(0, 2))):
                path = f"{chain.name}/{draw(st.sampled_from(chain.types))}"
                count = draw(st.integers(1, 4))
                wanted = {**owned, vc: {**owned[vc], path: count}}
                try:
                    compiled(owning(hardware, wanted, **pinned))
                except SpecificationError:
                    continue
                owned = wanted
    found = owning(hardware, owned, **pinned)
    compiled(found)
    return found


@st.composite
def divided(draw: st.DrawFn) -> Snapshot:
    """What `snapshots` draws, divided by cells; guaranteed jobs may run anywhere, as after a change."""
    snapshot = draw(snapshots())
    names = [vc.name for vc in snapshot.virtual_clusters]
    cells = draw(specifications(snapshot.nodes, names))
    jobs = [
        replace(
            job, pinned_cell=draw(st.sampled_from(("", *cells.virtual_clusters[job.virtual_cluster].pinned)))
        )
        if job.guaranteed and job.virtual_cluster in cells.virtual_clusters
        else job
        for job in snapshot.jobs
    ]
    return in_cells(replace(snapshot, jobs=tuple(jobs)), cells)


#: Cell -> sizes of replicas that divide it evenly, so that whole cells are what decides.
_FITTING = {"V100": (1,), "SWITCH": (1, 2), "SOCKET": (1, 2, 4), "NODE": (1, 2, 4, 8), "RACK": (2, 4, 8)}


@st.composite
def sound(draw: st.DrawFn, *, elastic: bool = False) -> Snapshot:
    """Healthy nodes, two virtual clusters with cells of one kind each, jobs that come one after another; with
    `elastic` some are gangs that may grow beyond their own size, or that share devices."""
    count = draw(st.integers(2, 6))
    nodes = [make_node(number, rack=f"rack-{(number + 1) // 2}") for number in range(1, count + 1)]
    racks = count % 2 == 0 and draw(st.booleans())
    hardware = hardware_of(nodes, racks=racks)
    owned: dict[str, dict[str, int]] = {}
    kinds: dict[str, str] = {}
    for vc in ("products", "research"):
        for number in range(draw(st.integers(1, 3 if elastic else 9)), 0, -1):
            kind = kinds.setdefault(vc, draw(st.sampled_from([*_FITTING][: 5 if racks else 4])))
            wanted = {**owned, vc: {kind if kind == "V100" else f"V100-8-{kind}": number}}
            try:
                compiled(owning(hardware, wanted))
            except SpecificationError:
                continue
            owned = wanted
            break
    jobs = []
    # Those that grow do so while nobody waits; then others come.
    for number in range(1, draw(st.integers(3, 7 if elastic else 16))):
        vc = draw(st.sampled_from(("products", "research")))
        gpus = draw(st.sampled_from(_FITTING[kinds[vc]]))
        jobs.append(
            make_job(
                number,
                gpus,
                replicas=draw(st.sampled_from((1, 1, 1, 2, 3))),
                tenant="speech",
                virtual_cluster=vc,
                guaranteed=draw(st.sampled_from((True, True, False))),
                priority=draw(st.sampled_from((0, 0, 1))),
                eligible_at=NOW + draw(st.sampled_from((0, 0, 10, 25, 40, 80))),
            )
        )
        if elastic and number < 4:
            mode = draw(st.sampled_from((RESIZABLE, FIXED_WORLD)))
            jobs[-1] = replace(_elastic(jobs[-1], mode), guaranteed=True, eligible_at=NOW)
        elif elastic:
            jobs[-1] = replace(jobs[-1], eligible_at=NOW + 20 + 5 * number)
    clusters = [make_virtual_cluster(vc, {}, tenants=("speech",)) for vc in ("products", "research")]
    snapshot = make_snapshot(
        nodes=nodes, jobs=jobs, virtual_clusters=clusters, tenants=(Tenant(name="speech"),)
    )
    return in_cells(snapshot, owning(hardware, owned))


def _elastic(job: Job, mode: str) -> Job:
    """The same gang if it may be resized; one of fixed world has three replicas, which share one device."""
    (task,) = job.tasks
    if mode == RESIZABLE:
        return replace(job, elastic=(task.gpus, 16))
    three = (replace(task, replicas=3),)
    return replace(job, tasks=three, elastic=(task.gpus, 3 * task.gpus), elastic_mode=FIXED_WORLD)
