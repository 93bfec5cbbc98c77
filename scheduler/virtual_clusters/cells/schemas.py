"""The objects about cells as the API's schema describes them; `selectors` makes them."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from scheduler.wiring.rest import FieldProblem

CELL_STATES = ["free", "used", "opportunistic", "bad", "mixed"]


class CellType(serializers.Serializer[Mapping[str, object]]):
    of = serializers.CharField(help_text="Type of its parts; at the lowest level a GPU model.")
    count = serializers.IntegerField(min_value=1)
    node = serializers.BooleanField(
        required=False, default=False, help_text="Whether a cell of this type is one node."
    )


class PhysicalCell(serializers.Serializer[Mapping[str, object]]):
    type = serializers.CharField()
    name = serializers.CharField(
        required=False, help_text="Name of the cell. Default: the name of its only node."
    )
    nodes = serializers.ListField(child=serializers.CharField())
    gpus = serializers.DictField(
        required=False,
        child=serializers.ListField(child=serializers.IntegerField(min_value=0)),
        help_text="Indices of its GPUs by node, in the order of the cells. Default: 0, 1, 2, ...",
    )


class VirtualCells(serializers.Serializer[Mapping[str, object]]):
    cells = serializers.DictField(
        required=False,
        child=serializers.IntegerField(min_value=0),
        help_text='Number of cells by type, or by "topmost type/type".',
    )
    pinned = serializers.DictField(
        required=False, child=serializers.CharField(), help_text="Addresses of pinned cells by name."
    )


class CellDocument(serializers.Serializer[Mapping[str, object]]):
    """What a YAML file of cells holds; docs/cells.md describes it."""

    types = serializers.DictField(child=CellType(), required=False)
    physical = PhysicalCell(many=True, required=False)
    virtual_clusters = serializers.DictField(child=VirtualCells(), required=False)


class ChainType(serializers.Serializer[Mapping[str, object]]):
    name = serializers.CharField()
    level = serializers.IntegerField(help_text="Level of the cell type; 0 is a single GPU.")
    gpus = serializers.IntegerField(help_text="Number of GPUs in one cell.")
    is_node = serializers.BooleanField()


class ChainCells(serializers.Serializer[Mapping[str, object]]):
    """Counts of cells at one level: total = free + used + bad."""

    level = serializers.IntegerField()
    type = serializers.CharField()
    total = serializers.IntegerField()
    free = serializers.IntegerField(help_text="Cells with no GPU in use; all their GPUs work.")
    used = serializers.IntegerField(help_text="Cells with a GPU in use; all their GPUs work.")
    bad = serializers.IntegerField(help_text="Cells with at least one GPU that cannot be used.")
    owned = serializers.IntegerField(
        help_text="Cells of this level that virtual clusters own, pinned cells included."
    )
    doomed = serializers.IntegerField(
        help_text="Owned cells that are not in use and for which only broken hardware is left."
    )


class GpuUse(serializers.Serializer[Mapping[str, object]]):
    """A cell, with counts of GPUs: gpus = free + used + opportunistic + bad."""

    gpus = serializers.IntegerField()
    free = serializers.IntegerField()
    used = serializers.IntegerField(help_text="GPUs that guaranteed jobs use.")
    opportunistic = serializers.IntegerField(
        help_text="GPUs that opportunistic jobs use, including jobs whose guarantee lapsed."
    )
    bad = serializers.IntegerField(help_text="GPUs that are broken, absent, lost or out of service.")


class ChainSummary(GpuUse):
    name = serializers.CharField()
    gpu_model = serializers.CharField()
    types = ChainType(many=True)
    cells = ChainCells(many=True)


class Cells(serializers.Serializer[Mapping[str, object]]):
    version = serializers.IntegerField(
        help_text="Version of the specification in force; 0: there has never been one."
    )
    specification = CellDocument()
    changed_at = serializers.DateTimeField(allow_null=True)
    changed_by = serializers.CharField(allow_null=True)
    gpu_models = serializers.ListField(
        child=serializers.CharField(), help_text="GPU models that are divided into cells."
    )
    chains = ChainSummary(many=True)
    problems = FieldProblem(
        many=True, help_text="Differences between the hardware now and the specification."
    )


class CellEffect(serializers.Serializer[Mapping[str, object]]):
    virtual_cluster = serializers.CharField()
    running = serializers.IntegerField(
        help_text="Number of its guaranteed jobs that run on GPUs divided into cells."
    )
    lapsing = serializers.IntegerField(
        help_text="Number of these jobs that would go on as opportunistic jobs."
    )
    jobs = serializers.ListField(
        child=serializers.IntegerField(), help_text="Numbers of these jobs, at most 20."
    )


class CellsCheck(serializers.Serializer[Mapping[str, object]]):
    valid = serializers.BooleanField()
    specification = CellDocument(
        allow_null=True,
        help_text="The specification in normal form, with all names; null if it is invalid.",
    )
    problems = FieldProblem(many=True)
    guaranteed = serializers.DictField(
        child=serializers.DictField(child=serializers.IntegerField()),
        help_text="Number of GPUs in the cells, by virtual cluster and GPU model.",
    )
    effects = CellEffect(many=True)


class CellsProposal(serializers.Serializer[Mapping[str, object]]):
    specification = CellDocument()


class CellOnLoan(serializers.Serializer[Mapping[str, object]]):
    until = serializers.DateTimeField()

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        # A word of the language, so it cannot be written as the others are.
        return {**super().get_fields(), "from": serializers.CharField()}


class CellNode(GpuUse):
    address = serializers.CharField()
    chain = serializers.CharField()
    type = serializers.CharField()
    level = serializers.IntegerField()
    level_is_node = serializers.BooleanField()
    virtual_cluster = serializers.CharField(
        allow_null=True, help_text="Virtual cluster that has it, or a cell that contains it."
    )
    pinned = serializers.CharField(allow_blank=True, help_text="Name under which it is pinned.")
    on_loan = CellOnLoan(
        allow_null=True,
        help_text="The lender, if the virtual cluster has borrowed all its cells of this kind.",
    )
    node = serializers.CharField(allow_blank=True, help_text="Node that it is, or is part of.")
    gpu = serializers.IntegerField(allow_null=True, help_text="Index of the GPU on its node.")
    state = serializers.ChoiceField(choices=CELL_STATES)
    children = serializers.IntegerField()


class OwnedCells(serializers.Serializer[Mapping[str, object]]):
    chain = serializers.CharField()
    type = serializers.CharField()
    level = serializers.IntegerField()
    gpus = serializers.IntegerField(help_text="Number of GPUs in one cell.")
    owned = serializers.IntegerField()
    bound = serializers.IntegerField(help_text="Cells that are in use and therefore bound to hardware.")
    free = serializers.IntegerField()
    doomed = serializers.IntegerField(help_text="Free cells that only broken hardware could provide.")
    pinned = serializers.BooleanField()
    name = serializers.CharField(allow_blank=True, help_text="Name under which it is pinned.")
    addresses = serializers.ListField(child=serializers.CharField())


class VirtualClusterHoldings(serializers.Serializer[Mapping[str, object]]):
    virtual_cluster = serializers.CharField()
    cells = OwnedCells(many=True)
    guaranteed = serializers.DictField(child=serializers.IntegerField())
