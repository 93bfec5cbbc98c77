"""How many others a service wants near it, by tags: affinity, anti-affinity and cardinality (Medea)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Where the others are counted, the narrowest first. CLUSTER is the whole platform.
NODE, RACK, CLUSTER = "node", "rack", "cluster"
SCOPES = (NODE, RACK, CLUSTER)
_WITHIN = {NODE: "on its node", RACK: "in its rack", CLUSTER: "in the cluster"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TagConstraint:
    """Each replica of the job has `min` to `max` others with a tag on its node, in its rack or anywhere."""

    tag: str
    #: One of SCOPES.
    scope: str = NODE
    least: int = 0
    #: None: any number.
    most: int | None = None
    #: None: a hard constraint; otherwise the cost of a violation.
    weight: float | None = None

    def extent(self, seen: int) -> float:
        """Return how far `seen` others are from the bounds, relative to them; 0: satisfied."""
        if seen < self.least:
            return (self.least - seen) / self.least
        return 0.0 if self.most is None else max(0, seen - self.most) / max(1, self.most)


def rack_of(path: tuple[str, ...], levels: Sequence[str]) -> tuple[str, ...]:
    """Return the rack of a node with this path; empty, the same for all, where the topology has none."""
    return path[: levels.index(RACK) + 1] if RACK in levels else ()


def group_of(scope: str, node: int, path: tuple[str, ...], levels: Sequence[str]) -> object:
    """Return what a node has in common with those that are near it in a scope."""
    return node if scope == NODE else rack_of(path, levels) if scope == RACK else ()


def in_words(constraint: TagConstraint) -> str:
    """Return 'at most 2 others with tag "web" on its node'."""
    least, most = constraint.least, constraint.most
    if most is None or not least:
        count = f"at least {least}" if most is None else f"at most {most}" if most else "no"
    else:
        count = f"{least} to {most}"
    others = "other" if (least if most is None else most) == 1 else "others"
    return f'{count} {others} with tag "{constraint.tag}" {_WITHIN[constraint.scope]}'
