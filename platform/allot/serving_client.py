"""Serving pools and the loans of their nodes, as the client speaks of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

if TYPE_CHECKING:
    from allot.schema import Node, NodesAskedBack, ServingPool


@dataclass(frozen=True, slots=True)
class Serving:
    """Pools of nodes that answer requests, said to the server in the client's ways."""

    write: Callable[..., Any]
    pages: Callable[..., Iterator[dict[str, Any]]]
    send: Callable[..., Any]

    def list_pools(self) -> list[ServingPool]:
        return cast("list[ServingPool]", list(self.pages("/serving-pools", {}, None)))

    def make(self, name: str, **fields: object) -> ServingPool:
        """Fields: return_seconds, nodes_needed."""
        return cast("ServingPool", self.write("/serving-pools", {"name": name, **fields}))

    def change(self, name: str, **fields: object) -> ServingPool:
        """Fields: return_seconds, nodes_needed."""
        path = f"/serving-pools/{quote(name, safe='')}"
        return cast("ServingPool", self.send("PATCH", path, body=fields))

    def assign(self, name: str, pool: str | None) -> Node:
        """Make the node one of a serving pool, or the cluster's own again."""
        path = f"/nodes/{quote(name, safe='')}/serving-pool"
        return cast("Node", self.send("PUT", path, body={"pool": pool}))

    def lend(self, name: str, *, until: datetime | None = None, why: str = "") -> Node:
        """Lend a node of a serving pool to jobs, for ever or until an instant."""
        body = {"why": why} if until is None else {"why": why, "until": until.isoformat()}
        return cast("Node", self.write(f"/nodes/{quote(name, safe='')}/loan", body))

    def ask_back(self, name: str, *, deadline_seconds: float | None = None, why: str = "") -> Node:
        """Let a serving pool have its node back, by a deadline or as soon as its returns allow."""
        body = _return_body(deadline_seconds, why)
        return cast("Node", self.write(f"/nodes/{quote(name, safe='')}/return", body))

    def ask_cheapest_back(
        self, pool: str, nodes: int, *, deadline_seconds: float | None = None, why: str = ""
    ) -> NodesAskedBack:
        """Let a serving pool have so many nodes back: those whose return costs jobs least."""
        body = {**_return_body(deadline_seconds, why), "nodes": nodes}
        return cast("NodesAskedBack", self.write(f"/serving-pools/{quote(pool, safe='')}/returns", body))


def _return_body(deadline_seconds: float | None, why: str) -> dict[str, object]:
    return {"why": why} if deadline_seconds is None else {"why": why, "deadline_seconds": deadline_seconds}
