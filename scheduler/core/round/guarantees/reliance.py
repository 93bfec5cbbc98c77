"""Convert between what virtual clusters own and what they may rely on now, which snapshots state."""

from __future__ import annotations

from dataclasses import replace

from scheduler.core.lending.in_force import Guarantees, in_force, own_of
from scheduler.core.model.loan_terms import Lending
from scheduler.core.model.snapshot import Snapshot


def relying_on(owned: Snapshot, lending: Lending) -> Snapshot:
    """Return the facts with a market, and with the loans in force at their instant applied.

    `owned` has the facts with what virtual clusters own themselves, as the function `owned` returns them.
    """
    own = Guarantees(
        gpus={vc.name: vc.guaranteed for vc in owned.virtual_clusters},
        cells=owned.cells,
    )
    now = in_force(own, lending.loans, owned.now)
    clusters = [replace(vc, guaranteed=now.gpus.get(vc.name, {})) for vc in owned.virtual_clusters]
    cells = {} if owned.cells is None else owned.cells.virtual_clusters
    return replace(
        owned,
        virtual_clusters=tuple(clusters),
        cells=now.cells,
        lending=replace(lending, own_gpus=own.gpus, own_cells=cells),
    )


def owned(facts: Snapshot) -> Snapshot:
    """Return the facts as they would be if nothing were lent and there were no market."""
    if facts.lending is None:
        return facts
    own = own_of(facts.lending, facts.cells)
    clusters = [replace(vc, guaranteed=own.gpus.get(vc.name, {})) for vc in facts.virtual_clusters]
    return replace(facts, virtual_clusters=tuple(clusters), cells=own.cells, lending=None)
