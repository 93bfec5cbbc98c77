"""A specification to begin with, from today's inventory and guarantees."""

from collections import defaultdict

from scheduler.core.cells.proposal import Machine, proposed
from scheduler.core.model.cell_specification import Specification
from scheduler.nodes.models import Gpu
from tenants.models import Guarantee


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
