"""The nodes on which a job may be started, as its user names them."""

import re
from collections.abc import Sequence

from scheduler.core.snapshot import Candidates
from scheduler.jobspec.fields import Fields, described

#: In each of the two lists.
MAX_NODES = 256
_NODE = re.compile(r"\S{1,63}")


def read_candidates(fields: Fields) -> Candidates | None:
    """Return the nodes of `nodes: {only: [...], avoid: [...]}`; None when none are named."""
    inner = fields.object("nodes")
    only, avoid = _names(inner, "only"), _names(inner, "avoid")
    inner.finish()
    if only and set(only) <= set(avoid):
        inner.refuse("only", "leaves no node, since avoid names them all", "a node that avoid does not name")
    return Candidates(only=tuple(only), avoid=tuple(avoid)) if only or avoid else None


def _names(fields: Fields, name: str) -> Sequence[str]:
    value = fields.take(name)
    expected = f"a list of at most {MAX_NODES} names of nodes"
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        fields.refuse(name, f"{described(value)} is not a list", expected)
    elif len(value) > MAX_NODES:
        fields.refuse(name, f"has {len(value)} entries", expected)
    elif wrong := [each for each in value if not isinstance(each, str) or not _NODE.fullmatch(each)]:
        fields.refuse(name, f"{described(wrong[0])} is not the name of a node", expected)
    else:
        return list(dict.fromkeys(value))
    return []
