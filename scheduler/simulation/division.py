"""Divide a simulated cluster by cells, as its file or `--cells` requires."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.document import from_document, to_document
from scheduler.core.cells.errors import Problem, SpecificationError
from scheduler.core.cells.proposal import Machine, proposed
from scheduler.core.model.cell_specification import Specification
from scheduler.core.model.snapshot import Node
from scheduler.simulation.errors import ClusterError
from scheduler.simulation.inventory import ClusterSpec


def divided_by_cells(cluster: ClusterSpec) -> ClusterSpec:
    """Return the cluster with every guarantee turned into the largest cells that it fills."""
    guarantees = {vc.name: vc.guaranteed for vc in cluster.virtual_clusters}
    cells = proposed(map(_machine, cluster.nodes), guarantees)
    words = [
        f"{vc} {', '.join(f'{count} {kind}' for kind, count in virtual.cells.items())}"
        for vc, virtual in cells.virtual_clusters.items()
    ]
    note = f"Guarantees are divided by cells: {'; '.join(words)}."
    return replace(with_cells(cluster, cells), notes=(*cluster.notes, note))


def declared_cells(cluster: ClusterSpec, document: Mapping[str, Any]) -> ClusterSpec:
    """Return the cluster with the cells of its file; the nodes state hardware that these leave out.

    Raises ClusterError that names everything that is wrong.
    """
    if not {"types", "physical"}.intersection(document):
        document = {**to_document(proposed(map(_machine, cluster.nodes), {})), **document}
    try:
        return with_cells(cluster, from_document(document))
    except SpecificationError as error:
        raise ClusterError(f"{cluster.name}: cells: {error}") from None


def with_cells(cluster: ClusterSpec, cells: Specification) -> ClusterSpec:
    """Return the cluster divided by these cells; raise SpecificationError when that is impossible."""
    layout = compiled(cells)
    models = {(node.name, gpu.index): node.gpu_model for node in cluster.nodes for gpu in node.gpus}
    problems = [
        Problem("physical", f"there is no {chain.gpu_model} {leaf.gpu} on a node {leaf.node}")
        for chain in layout.chains.values()
        for leaf in chain.leaves
        if models.get((leaf.node, leaf.gpu)) != chain.gpu_model
    ]
    names = [vc.name for vc in cluster.virtual_clusters]
    problems += [
        Problem(
            f"virtual_clusters.{vc}",
            "there is no virtual cluster of this name",
            f"one of: {', '.join(names)}",
        )
        for vc in layout.owned
        if vc not in names
    ]
    if problems:
        raise SpecificationError(problems[:10])
    virtual_clusters = tuple(
        replace(
            vc,
            guaranteed={
                model: gpus for model, gpus in vc.guaranteed.items() if model not in layout.gpu_models
            }
            | layout.guaranteed(vc.name),
        )
        for vc in cluster.virtual_clusters
    )
    return replace(cluster, cells=cells, virtual_clusters=virtual_clusters)


def _machine(node: Node) -> Machine:
    def place(path: tuple[str, ...], index: int) -> tuple[str, str, int]:
        socket, switch = (*path, "", "")[:2]
        return socket, switch, index

    gpus = tuple(sorted(place(gpu.path, gpu.index) for gpu in node.gpus))
    return Machine(
        name=node.name, rack=node.path[0] if node.path else "", gpu_model=node.gpu_model, gpus=gpus
    )
