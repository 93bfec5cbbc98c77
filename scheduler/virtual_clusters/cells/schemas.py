"""The objects about cells as the API's schema describes them; `selectors` makes them."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from scheduler.wiring.rest import FieldProblem

CELL_STATES = ["free", "used", "opportunistic", "bad", "mixed"]


class CellType(serializers.Serializer[Mapping[str, object]]):
    of = serializers.CharField(help_text="The type of its parts; in the end a GPU model.")
    count = serializers.IntegerField(min_value=1)
    node = serializers.BooleanField(required=False, default=False, help_text="It is one machine.")


class PhysicalCell(serializers.Serializer[Mapping[str, object]]):
    type = serializers.CharField()
    name = serializers.CharField(required=False, help_text="Left out: the name of its only node.")
    nodes = serializers.ListField(child=serializers.CharField())
    gpus = serializers.DictField(
        required=False,
        child=serializers.ListField(child=serializers.IntegerField(min_value=0)),
        help_text="By node: the indices of its GPUs in the order of the cells; left out: 0, 1, 2, ...",
    )


class VirtualCells(serializers.Serializer[Mapping[str, object]]):
    cells = serializers.DictField(
        required=False,
        child=serializers.IntegerField(min_value=0),
        help_text='By type, or "topmost type/type": how many.',
    )
    pinned = serializers.DictField(
        required=False, child=serializers.CharField(), help_text="By name: the address of a cell."
    )


class CellDocument(serializers.Serializer[Mapping[str, object]]):
    """What a YAML file of cells holds; docs/cells.md describes it."""

    types = serializers.DictField(child=CellType(), required=False)
    physical = PhysicalCell(many=True, required=False)
    virtual_clusters = serializers.DictField(child=VirtualCells(), required=False)


class ChainType(serializers.Serializer[Mapping[str, object]]):
    name = serializers.CharField()
    level = serializers.IntegerField(help_text="0 is a GPU.")
    gpus = serializers.IntegerField(help_text="In one cell.")
    is_node = serializers.BooleanField()


class ChainCells(serializers.Serializer[Mapping[str, object]]):
    """Cells of one level: total = free + used + bad."""

    level = serializers.IntegerField()
    type = serializers.CharField()
    total = serializers.IntegerField()
    free = serializers.IntegerField(help_text="None of their GPUs is in use, and all of them work.")
    used = serializers.IntegerField(help_text="Some of their GPUs are in use, and all of them work.")
    bad = serializers.IntegerField(help_text="At least one of their GPUs can not be used.")
    owned = serializers.IntegerField(help_text="By virtual clusters as cells of this level, pinned included.")
    doomed = serializers.IntegerField(
        help_text="Owned ones that are not in use and now have only broken hardware left."
    )


class GpuUse(serializers.Serializer[Mapping[str, object]]):
    """In GPUs: gpus = free + used + opportunistic + bad."""

    gpus = serializers.IntegerField()
    free = serializers.IntegerField()
    used = serializers.IntegerField(help_text="By guaranteed jobs.")
    opportunistic = serializers.IntegerField(help_text="By opportunistic jobs, and those that run on so.")
    bad = serializers.IntegerField(help_text="Broken, absent, lost or out of service.")


class ChainSummary(GpuUse):
    name = serializers.CharField()
    gpu_model = serializers.CharField()
    types = ChainType(many=True)
    cells = ChainCells(many=True)


class Cells(serializers.Serializer[Mapping[str, object]]):
    version = serializers.IntegerField(help_text="0: there never was a specification.")
    specification = CellDocument()
    changed_at = serializers.DateTimeField(allow_null=True)
    changed_by = serializers.CharField(allow_null=True)
    gpu_models = serializers.ListField(child=serializers.CharField(), help_text="Those divided by cells.")
    chains = ChainSummary(many=True)
    problems = FieldProblem(many=True, help_text="Where today's hardware is not what was specified.")


class CellEffect(serializers.Serializer[Mapping[str, object]]):
    virtual_cluster = serializers.CharField()
    running = serializers.IntegerField(help_text="Its guaranteed jobs on GPUs divided by cells.")
    lapsing = serializers.IntegerField(help_text="Those that would run on as opportunistic ones.")
    jobs = serializers.ListField(child=serializers.IntegerField(), help_text="Of these, at most 20.")


class CellsCheck(serializers.Serializer[Mapping[str, object]]):
    valid = serializers.BooleanField()
    specification = CellDocument(
        allow_null=True, help_text="As it would be kept, with all names written out; null: it makes no sense."
    )
    problems = FieldProblem(many=True)
    guaranteed = serializers.DictField(
        child=serializers.DictField(child=serializers.IntegerField()),
        help_text="By virtual cluster and GPU model: what the cells come to.",
    )
    effects = CellEffect(many=True)


class CellsProposal(serializers.Serializer[Mapping[str, object]]):
    specification = CellDocument()


class CellOnLoan(serializers.Serializer[Mapping[str, object]]):
    until = serializers.DateTimeField()

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        # A word of the language, so it can not be written as the others are.
        return {**super().get_fields(), "from": serializers.CharField()}


class CellNode(GpuUse):
    address = serializers.CharField()
    chain = serializers.CharField()
    type = serializers.CharField()
    level = serializers.IntegerField()
    level_is_node = serializers.BooleanField()
    virtual_cluster = serializers.CharField(allow_null=True, help_text="Who has it, or a cell it is part of.")
    pinned = serializers.CharField(allow_blank=True, help_text="The name it is pinned under.")
    on_loan = CellOnLoan(
        allow_null=True, help_text="The lender, where the virtual cluster has borrowed all cells of the kind."
    )
    node = serializers.CharField(allow_blank=True, help_text="The machine that it is, or is part of.")
    gpu = serializers.IntegerField(allow_null=True, help_text="The index of a GPU on its node.")
    state = serializers.ChoiceField(choices=CELL_STATES)
    children = serializers.IntegerField()


class OwnedCells(serializers.Serializer[Mapping[str, object]]):
    chain = serializers.CharField()
    type = serializers.CharField()
    level = serializers.IntegerField()
    gpus = serializers.IntegerField(help_text="In one cell.")
    owned = serializers.IntegerField()
    bound = serializers.IntegerField(help_text="In use, so that they have a place.")
    free = serializers.IntegerField()
    doomed = serializers.IntegerField(help_text="Free ones that could only be had with broken hardware.")
    pinned = serializers.BooleanField()
    name = serializers.CharField(allow_blank=True, help_text="The name it is pinned under.")
    addresses = serializers.ListField(child=serializers.CharField())


class VirtualClusterHoldings(serializers.Serializer[Mapping[str, object]]):
    virtual_cluster = serializers.CharField()
    cells = OwnedCells(many=True)
    guaranteed = serializers.DictField(child=serializers.IntegerField())
