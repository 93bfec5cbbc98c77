"""How well a node keeps jobs from other jobs and from the node; stated in its inventory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

#: What keeps a node's jobs from other jobs and the node, strongest first: namespaces (bubblewrap), Landlock,
#: nothing; unknown before the node has said. A job with an image has its container instead.
IsolationLevel = Literal["sandbox", "landlock", "none", "unknown"]


def isolation_level(isolation: Mapping[str, bool]) -> IsolationLevel:
    """Return the level of what an inventory says is enforced."""
    if not isolation:
        return "unknown"
    if isolation.get("sandbox"):
        return "sandbox"
    return "landlock" if isolation.get("landlock") else "none"


def runs_unisolated(isolation: Mapping[str, bool]) -> bool:
    """Whether such a node starts jobs that nothing keeps from others' files."""
    return isolation_level(isolation) == "none" and not isolation.get("required")
