"""The specification in force, numbered; kept by its text, since it changes rarely and is asked for often."""

import json
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from scheduler.cells.models import CellSpecification
from scheduler.core.cells.chains import Layout
from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.document import from_document, to_document
from scheduler.core.model.cell_specification import Specification


@dataclass(frozen=True, slots=True, kw_only=True)
class CellsInForce:
    """Version 0, changed by nobody: there never was a specification, and GPUs are divided by counts."""

    version: int
    layout: Layout
    changed_at: datetime | None
    changed_by: str

    @property
    def document(self) -> dict[str, Any]:
        return to_document(self.layout.specification)


def cells_in_force() -> CellsInForce:
    """Return the newest specification."""
    row = CellSpecification.objects.order_by("-version").first()
    if row is None:
        return CellsInForce(version=0, layout=compiled(Specification()), changed_at=None, changed_by="")
    return CellsInForce(
        version=row.version,
        layout=layout_of(row.document),
        changed_at=row.changed_at,
        changed_by=row.changed_by,
    )


@lru_cache(maxsize=8)
def specification_of(text: str) -> Specification:
    """Return the specification that a stored document holds."""
    return from_document(json.loads(text))


@lru_cache(maxsize=8)
def layout_of(text: str) -> Layout:
    """Return the same, compiled."""
    return compiled(specification_of(text))
