"""A specification of cells beside what there is (nodes, their GPUs, GPU models, virtual clusters): what does
not fit, and one to begin with."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from scheduler.core.cells.chains import Layout
from scheduler.core.cells.errors import Problem
from scheduler.core.cells.proposal import Machine, proposed
from scheduler.core.model.cell_specification import PhysicalCell, Specification
from scheduler.jobspec import did_you_mean
from scheduler.nodes.models import Gpu, GpuModel, Node
from tenants.models import Guarantee, VirtualCluster

#: What is wrong with a thousand nodes is told of so many.
MOST_PROBLEMS = 50


@dataclass(frozen=True, slots=True)
class Inventory:
    """What agents have reported, in names; a node without a model has not reported yet."""

    gpu_models: Mapping[str, str | None]
    gpus: Mapping[str, Collection[int]]


def inventory() -> Inventory:
    """Return the nodes with their GPU model and the indices of their present GPUs."""
    gpus: dict[str, set[int]] = defaultdict(set)
    for node, index in Gpu.objects.filter(present=True).values_list("node__name", "index"):
        gpus[node].add(index)
    return Inventory(dict(Node.objects.values_list("name", "gpu_model__name")), gpus)


def problems_with_names(specification: Specification) -> Iterator[Problem]:
    """Yield GPU models and virtual clusters that do not exist."""
    models = list(GpuModel.objects.order_by("name").values_list("name", flat=True))
    types = {kind.name for kind in specification.types}
    for kind in specification.types:
        if kind.of not in types and kind.of not in models:
            problem = f"there is neither a type nor a GPU model {kind.of}{did_you_mean(kind.of, models)}"
            yield Problem(f"types.{kind.name}.of", problem, f"a type, or one of: {', '.join(models)}")
    known = list(VirtualCluster.objects.order_by("name").values_list("name", flat=True))
    for name in specification.virtual_clusters:
        if name not in known:
            problem = f"there is no virtual cluster {name}{did_you_mean(name, known)}"
            yield Problem(f"virtual_clusters.{name}", problem, f"one of: {', '.join(known[:20])}")


def problems_with_hardware(
    layout: Layout, there: Inventory, settled: Collection[PhysicalCell] = ()
) -> Iterator[Problem]:
    """Yield where the hardware is not what the specification says; `settled` cells are left out."""
    as_before = {cell.name: cell for cell in settled}
    for number, physical in enumerate(layout.specification.physical):
        if as_before.get(physical.name) == physical:
            continue
        chain = layout.chains[physical.type]
        expected = range(chain.sizes[chain.node_level])
        for place, node in enumerate(physical.nodes):
            where = f"physical[{number}].nodes[{place}]"
            problem = _problem_with_node(
                where, node, physical.gpus.get(node, expected), chain.gpu_model, there
            )
            if problem is not None:
                yield problem


def _problem_with_node(
    where: str, node: str, gpus: Collection[int], model: str, there: Inventory
) -> Problem | None:
    if node not in there.gpu_models:
        return Problem(where, f"there is no node {node}{did_you_mean(node, list(there.gpu_models))}")
    has = there.gpu_models[node]
    if has is None:
        return Problem(where, f"node {node} has not reported its GPUs yet", "start its agent first")
    if has != model:
        return Problem(where, f"node {node} has GPUs of model {has}, not {model}", f"a node with {model}")
    missing = sorted(set(gpus) - set(there.gpus.get(node, ())))
    if missing:
        listed = ", ".join(map(str, missing[:8]))
        has_indices = ", ".join(map(str, sorted(there.gpus.get(node, ()))[:16])) or "none"
        return Problem(where, f"node {node} has no GPU {listed}", f"it has: {has_indices}")
    return None


def cells_proposal() -> Specification:
    """Return the inventory as a specification, every guarantee turned into the largest cells it fills."""
    guarantees: dict[str, dict[str, int]] = defaultdict(dict)
    for name, model, gpus in Guarantee.objects.values_list("virtual_cluster__name", "gpu_model", "gpus"):
        guarantees[name][model] = gpus
    return proposed(_machines(), guarantees)


def _machines() -> list[Machine]:
    gpus: dict[tuple[str, str, str], list[tuple[str, str, int]]] = defaultdict(list)
    rows = Gpu.objects.filter(present=True).exclude(node__gpu_model=None)
    columns = ("node__name", "node__rack", "node__gpu_model__name", "socket", "switch", "index")
    for name, rack, model, socket, switch, index in rows.order_by(
        "node__name", "socket", "switch", "index"
    ).values_list(*columns):
        gpus[name, rack, model].append((str(socket), str(switch), index))
    return [
        Machine(name=name, rack=rack, gpu_model=model, gpus=tuple(places))
        for (name, rack, model), places in gpus.items()
    ]
