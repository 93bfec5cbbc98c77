"""The integer program of `long_running`: the best layout of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from scheduler.core.fitting.long_running import (
    FRAGMENTED,
    PLACED,
    VIOLATED,
    Batch,
    Layout,
    Service,
    by_popularity,
)
from scheduler.core.model.errors import PolicyError
from scheduler.core.model.tag_constraints import TagConstraint

#: Above this product of services and nodes the heuristic places a batch: the program would outlast a round.
LARGE = 600


def place(batch: Batch) -> Layout:
    """Place a batch with the program, or with the heuristic where the program is too large."""
    large = len(batch.services) * len(batch.free) > LARGE
    return by_popularity(batch) if large else optimum(batch)


class _Program:
    """The variables and rows of a program under construction."""

    def __init__(self) -> None:
        self.gain: list[float] = []
        self.most: list[float] = []
        self.whole: list[int] = []
        self.entries: list[tuple[int, int, float]] = []
        self.least: list[float] = []

    def variable(self, most: float = 1.0, gain: float = 0.0, whole: int = 1) -> int:
        self.gain.append(gain)
        self.most.append(most)
        self.whole.append(whole)
        return len(self.gain) - 1

    def row(self, terms: Mapping[int, float], least: float) -> None:
        """Require that the sum of these terms is at least `least`."""
        self.entries += [(len(self.least), each, factor) for each, factor in terms.items()]
        self.least.append(least)


def optimum(batch: Batch) -> Layout:
    """Return the best layout; raise PolicyError if the solver finds none (placing nothing is always one)."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    if not batch.services or not batch.free:
        return {}
    program, nodes = _Program(), range(len(batch.free))
    chosen = [program.variable(gain=PLACED) for _ in batch.services]
    counts = [
        [program.variable(min(each.containers, batch.room_on(each, node))) for node in nodes]
        for each in batch.services
    ]
    for service, is_placed, row in zip(batch.services, chosen, counts, strict=True):
        program.row({**dict.fromkeys(row, 1.0), is_placed: -float(service.containers)}, 0)
        program.row({**dict.fromkeys(row, -1.0), is_placed: float(service.containers)}, 0)
    for node in nodes:
        used = {row[node]: -float(each.gpus) for each, row in zip(batch.services, counts, strict=True)}
        program.row(used, -batch.free[node])
        if batch.free[node] and batch.threshold > 1:
            full, fragmented = program.variable(), program.variable(gain=-FRAGMENTED)
            program.row({**{key: -each for key, each in used.items()}, full: -float(batch.free[node])}, 0)
            reach = float(batch.threshold)
            program.row({**used, full: reach, fragmented: reach}, reach - batch.free[node])
    members = {scope: _members(group_of) for scope, group_of in batch.groups.items()}
    for source, where in batch.running:
        for constraint in source.constraints:
            _constrain(program, batch, counts, constraint, source, members[constraint.scope], where)
    for source, row in zip(batch.services, counts, strict=True):
        for constraint in source.constraints:
            _constrain(program, batch, counts, constraint, source, members[constraint.scope], row)
    rows, columns, factors = zip(*program.entries, strict=True)
    matrix = coo_array((factors, (rows, columns)), shape=(len(program.least), len(program.gain))).tocsr()
    found = milp(
        -np.array(program.gain),
        integrality=np.array(program.whole),
        bounds=Bounds(0, np.array(program.most)),
        constraints=LinearConstraint(matrix, np.array(program.least), np.inf),
        options={"mip_rel_gap": 1e-6},
    )
    if found.x is None:
        raise PolicyError(f"no layout of the services was found: {found.message}")
    layout = {}
    for number, row in enumerate(counts):
        if found.x[chosen[number]] > 0.5:
            layout[number] = {
                node: round(found.x[each]) for node, each in enumerate(row) if found.x[each] > 0.5
            }
    return layout


def _members(group_of: Sequence[int]) -> list[list[int]]:
    """Return the nodes of each group."""
    found: dict[int, list[int]] = {}
    for node, group in enumerate(group_of):
        found.setdefault(group, []).append(node)
    return [found[group] for group in sorted(found)]


def _constrain(
    program: _Program,
    batch: Batch,
    counts: Sequence[Sequence[int]],
    constraint: TagConstraint,
    source: Service,
    groups: Sequence[Sequence[int]],
    where: Mapping[int, int] | Sequence[int],
) -> None:
    """Add the rows of one constraint; `where`: the nodes of a running service that states it, else the
    variables.
    """
    tag, own = constraint.tag, constraint.tag in source.tags
    tagged = [(each, row) for each, row in zip(batch.services, counts, strict=True) if tag in each.tags]
    limit = sum([service.containers for service, _ in tagged])
    others = [nodes for service, nodes in batch.running if tag in service.tags]
    for inside in groups:
        seen = sum([nodes.get(node, 0) for nodes in others for node in inside]) - own
        added = {row[node]: 1.0 for _, row in tagged for node in inside}
        if not isinstance(where, Mapping):
            present = program.variable()
            program.row({**{where[node]: -1.0 for node in inside}, present: float(source.containers)}, 0)
            _bound(program, constraint, added, seen, limit, [present], known=False)
        elif any([where.get(node, 0) for node in inside]):
            _bound(program, constraint, added, seen, limit, [], known=True)


def _bound(
    program: _Program,
    constraint: TagConstraint,
    added: Mapping[int, float],
    seen: int,
    limit: int,
    switches: list[int],
    known: bool,
) -> None:
    """Bound what a subject sees, if all switches are 1; `known`: a hard constraint binds only as far as it
    held before.
    """
    known = known and constraint.weight is None
    for sign, bound in ((1.0, constraint.least), (-1.0, constraint.most)):
        if bound is None or (sign > 0 and (bound == 0 or known)):
            continue
        reach = float(limit + abs(seen) + bound + 1)
        terms = {each: sign * factor for each, factor in added.items()}
        for switch in switches:
            terms[switch] = terms.get(switch, 0.0) - reach
        if constraint.weight is not None:
            cost = VIOLATED * constraint.weight / max(1, bound)
            terms[program.variable(reach, -cost, whole=0)] = 1.0
        if known:
            bound = max(bound, seen)
        program.row(terms, sign * (bound - seen) - reach * len(switches))
