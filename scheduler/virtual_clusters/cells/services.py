"""Dividing the cluster by cells: a specification is compared with what there is (nodes, their GPUs, GPU
models, virtual clusters) and written as the newest version, which puts it in force.

The guarantees of the GPU models it divides follow from the cells; those of all other models stay counts.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from django.db import transaction
from django.db.models import F

from scheduler.core.cells.chains import Layout
from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.document import from_document, to_document
from scheduler.core.cells.errors import Problem, SpecificationError
from scheduler.core.cells.proposal import Machine, proposed
from scheduler.core.lending.in_force import Guarantees
from scheduler.core.model.cell_specification import PhysicalCell, Specification
from scheduler.jobspec import did_you_mean
from scheduler.models.cells import CellSpecification
from scheduler.models.events import Event
from scheduler.models.nodes import Gpu, GpuModel, Node
from scheduler.virtual_clusters.cells.selectors import CellsInForce, cells_in_force
from scheduler.virtual_clusters.market.selectors import own_guarantees, problems_with_loans
from scheduler.virtual_clusters.representations import publish_virtual_clusters
from scheduler.virtual_clusters.services import guarantees_set, lock_guarantees, recorded_change
from scheduler.wiring.clock import database_now
from scheduler.wiring.wakeups import request_round_on_commit
from tenants.errors import Conflict, FieldError, Invalid
from tenants.models import Guarantee, VirtualCluster

#: The most problems that are reported, where a thousand nodes are wrong.
MOST_PROBLEMS = 50


@dataclass(frozen=True, slots=True)
class Inventory:
    """What agents have reported, in names; a node without a model has not reported yet."""

    gpu_models: Mapping[str, str | None]
    gpus: Mapping[str, Collection[int]]
    #: The serving pool of each node that is of one.
    pools: Mapping[str, str] = field(default_factory=dict)


def inventory() -> Inventory:
    """Return the nodes with their GPU model and the indices of their present GPUs."""
    gpus: dict[str, set[int]] = defaultdict(set)
    for node, index in Gpu.objects.filter(present=True).values_list("node__name", "index"):
        gpus[node].add(index)
    in_pools = Node.objects.exclude(serving_pool=None).values_list("name", "serving_pool__name")
    return Inventory(dict(Node.objects.values_list("name", "gpu_model__name")), gpus, dict(in_pools))


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
    """Yield where the hardware differs from the specification; `settled` cells are left out."""
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
    if node in there.pools:
        problem = f"node {node} is of serving pool {there.pools[node]}, which may ask it back at any time"
        return Problem(where, problem, "a node of no serving pool: PUT nodes/NAME/serving-pool with null")
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
    rows = Gpu.objects.filter(present=True, node__serving_pool=None).exclude(node__gpu_model=None)
    columns = ("node__name", "node__rack", "node__gpu_model__name", "socket", "switch", "index")
    for name, rack, model, socket, switch, index in rows.order_by(
        "node__name", "socket", "switch", "index"
    ).values_list(*columns):
        gpus[name, rack, model].append((str(socket), str(switch), index))
    return [
        Machine(name=name, rack=rack, gpu_model=model, gpus=tuple(places))
        for (name, rack, model), places in gpus.items()
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecificationCheck:
    """A specification that could be applied when `problems` is empty; without a layout it makes no sense."""

    layout: Layout | None
    problems: tuple[Problem, ...]


def cells_check(document: Any) -> SpecificationCheck:
    """Find everything that prevents applying a specification now."""
    return _checked(document, cells_in_force())


@transaction.atomic
def cells_apply(*, document: Any, version: int, actor: str) -> CellsInForce:
    """Put a specification in force in place of `version`.

    Raises Conflict when another version is in force, Invalid with everything that is wrong.
    """
    lock_guarantees()
    before = cells_in_force()
    if version != before.version:
        who = f"{before.changed_by} changed them" if before.changed_by else "they were never set"
        raise Conflict(
            f"The cells are at version {before.version}, not {version}: {who} meanwhile; look again.",
            [FieldError("version", f"{version} is not in force", str(before.version))],
        )
    checked = _checked(document, before)
    if checked.layout is None or checked.problems:
        raise Invalid(summary_of(checked.problems), field_errors(checked.problems))
    text = json.dumps(to_document(checked.layout.specification))
    CellSpecification.objects.create(
        version=before.version + 1, document=text, changed_at=database_now(), changed_by=actor
    )
    changed = _set_guarantees(before.layout, checked.layout, actor=actor)
    _record(before.version + 1, changed, actor=actor)
    request_round_on_commit()
    return cells_in_force()


def field_errors(problems: tuple[Problem, ...]) -> list[FieldError]:
    """Return the problems as the API shows them."""
    return [FieldError(problem.field, problem.problem, problem.hint) for problem in problems]


def summary_of(problems: tuple[Problem, ...]) -> str:
    """Return one sentence for all of it."""
    rest = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{problems[0].field}: {problems[0].problem}{rest}."


def hardware_problems(layout: Layout) -> tuple[Problem, ...]:
    """Return where today's hardware differs from the specification."""
    return tuple(islice(problems_with_hardware(layout, inventory()), MOST_PROBLEMS))


def _checked(document: Any, before: CellsInForce) -> SpecificationCheck:
    try:
        layout = compiled(from_document(document))
    except SpecificationError as error:
        return SpecificationCheck(layout=None, problems=error.problems)
    return SpecificationCheck(layout=layout, problems=problems_now(layout, before.layout))


def problems_now(layout: Layout, before: Layout | None = None) -> tuple[Problem, ...]:
    """Return what prevents a layout from replacing the one in force."""
    before = cells_in_force().layout if before is None else before
    return tuple(islice(_problems_now(layout, before), MOST_PROBLEMS))


def _problems_now(layout: Layout, before: Layout) -> Iterator[Problem]:
    yield from problems_with_names(layout.specification)
    # A node that was removed since must not keep an operator from changing something else.
    yield from problems_with_hardware(layout, inventory(), before.specification.physical)
    yield from _problems_with_counts(layout, before)
    yield from _problems_with_loans(layout)


def _problems_with_loans(layout: Layout) -> Iterator[Problem]:
    """Yield what virtual clusters have lent and would no longer own."""
    own = own_guarantees()
    gpus = {
        name: {model: n for model, n in own.gpus.get(name, {}).items() if model not in layout.gpu_models}
        | layout.guaranteed(name)
        for name in {*own.gpus, *layout.specification.virtual_clusters}
    }
    after = Guarantees(gpus=gpus, cells=layout.specification if layout.chains else None)
    yield from problems_with_loans(own, after, database_now())


def _problems_with_counts(layout: Layout, before: Layout) -> Iterator[Problem]:
    """Yield virtual clusters that are guaranteed a mere count of a model that cells divide from now on."""
    newly_divided = layout.gpu_models - before.gpu_models
    rows = Guarantee.objects.filter(gpu_model__in=newly_divided).order_by("virtual_cluster__name")
    for name, model, gpus in rows.values_list("virtual_cluster__name", "gpu_model", "gpus"):
        if gpus and not layout.guaranteed(name).get(model):
            yield Problem(
                f"virtual_clusters.{name}",
                f"GPU model {model} is divided by cells, and {name} is guaranteed {gpus} of it by count",
                f"give {name} cells of it, or take its guarantee away first",
            )


def _set_guarantees(before: Layout, after: Layout, *, actor: str) -> dict[str, dict[str, Mapping[str, int]]]:
    """Let the guarantees of the divided models be what the cells come to; return what changed."""
    divided = after.gpu_models
    changed: dict[str, dict[str, Mapping[str, int]]] = {}
    rows = VirtualCluster.objects.select_for_update(no_key=True).order_by("id")
    for row in rows:
        guaranteed = dict(row.guarantees.filter(gpu_model__in=divided).values_list("gpu_model", "gpus"))
        owned = after.guaranteed(row.name)
        is_other = guaranteed != owned
        if is_other:
            with recorded_change(row, actor=actor):
                guarantees_set(row, owned, models=divided)
            changed[row.name] = {"before": guaranteed, "after": owned}
        if is_other or _cells_of(before, row.name) != _cells_of(after, row.name):
            VirtualCluster.objects.filter(id=row.id).update(version=F("version") + 1)
            publish_virtual_clusters([row.id])
    return changed


def _cells_of(layout: Layout, name: str) -> object:
    return layout.specification.virtual_clusters.get(name)


def _record(version: int, changed: Mapping[str, Any], *, actor: str) -> None:
    Event.objects.create(
        at=database_now(),
        kind="cells.changed",
        subject="cells",
        subject_id=version,
        actor=actor,
        message=f"version {version}",
        data={"guaranteed": dict(changed)},
    )
