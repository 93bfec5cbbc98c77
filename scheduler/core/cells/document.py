"""Specifications as documents: the content of a YAML file or a JSON body (described in docs/cells.md).

types:
  V100-SWITCH: {of: V100, count: 2}
  V100-NODE: {of: V100-SWITCH, count: 4, node: true}
  V100-RACK: {of: V100-NODE, count: 2}
physical:
  - {type: V100-RACK, name: rack-1, nodes: [n1, n2]}
  - {type: V100-RACK, name: rack-2, nodes: [n3, n4], gpus: {n4: [1, 0, 2, 3, 4, 5, 6, 7]}}
virtual_clusters:
  vision: {cells: {V100-NODE: 1, V100-SWITCH: 2}, pinned: {demo: rack-2/n3}}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from scheduler.core.cells.errors import Problem, SpecificationError
from scheduler.core.model.cell_specification import CellType, PhysicalCell, Specification, VirtualCells

MOST_ENTRIES = 200_000

T = TypeVar("T")


def from_document(document: Any) -> Specification:
    """Return the specification that a document describes.

    Raises SpecificationError with everything that has the wrong form; `compiled` checks its meaning.
    """
    return _Reader().specification(document)


def to_document(specification: Specification) -> dict[str, Any]:
    """Return the document of a specification; `from_document` gives the specification back."""
    return {
        "types": {
            kind.name: {"of": kind.of, "count": kind.count} | ({"node": True} if kind.node else {})
            for kind in specification.types
        },
        "physical": [
            {"type": cell.type, "name": cell.name, "nodes": list(cell.nodes)}
            | ({"gpus": {node: list(indices) for node, indices in cell.gpus.items()}} if cell.gpus else {})
            for cell in specification.physical
        ],
        "virtual_clusters": {
            vc: {"cells": dict(virtual.cells)} | ({"pinned": dict(virtual.pinned)} if virtual.pinned else {})
            for vc, virtual in specification.virtual_clusters.items()
        },
    }


class _Reader:
    """Reads a document to its end, and notes every problem with its place."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def specification(self, document: Any) -> Specification:
        parts = self._fields("", document, ("types", "physical", "virtual_clusters"))
        types = tuple(
            CellType(
                name=name,
                of=self._text(f"{where}.of", fields.get("of")),
                count=self._number(f"{where}.count", fields.get("count")),
                node=self._truth(f"{where}.node", fields.get("node", False)),
            )
            for name, where, fields in self._named("types", parts.get("types"), ("of", "count", "node"))
        )
        physical = tuple(
            self._physical(f"physical[{number}]", entry)
            for number, entry in enumerate(self._list("physical", parts.get("physical")))
        )
        virtual = {
            name: VirtualCells(
                cells=self._map(f"{where}.cells", fields.get("cells"), self._number),
                pinned=self._map(f"{where}.pinned", fields.get("pinned"), self._text),
            )
            for name, where, fields in self._named(
                "virtual_clusters", parts.get("virtual_clusters"), ("cells", "pinned")
            )
        }
        if self.problems:
            raise SpecificationError(self.problems[:50])
        return Specification(types=types, physical=physical, virtual_clusters=virtual)

    def _physical(self, where: str, entry: Any) -> PhysicalCell:
        fields = self._fields(where, entry, ("type", "name", "nodes", "gpus"))
        nodes = tuple(
            self._text(f"{where}.nodes[{number}]", node)
            for number, node in enumerate(self._list(f"{where}.nodes", fields.get("nodes")))
        )
        # A single machine needs no other name.
        name = fields.get("name", nodes[0] if len(nodes) == 1 else None)
        return PhysicalCell(
            type=self._text(f"{where}.type", fields.get("type")),
            name=self._text(f"{where}.name", name),
            nodes=nodes,
            gpus=self._map(f"{where}.gpus", fields.get("gpus"), self._indices),
        )

    def _indices(self, where: str, value: Any) -> tuple[int, ...]:
        return tuple(
            self._number(f"{where}[{number}]", index) for number, index in enumerate(self._list(where, value))
        )

    # Forms

    def _wrong(self, where: str, problem: str, hint: str) -> None:
        self.problems.append(Problem(where or "cells", problem, hint))

    def _fields(self, where: str, value: Any, known: Sequence[str]) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            self._wrong(where, f"must be an object and is {_shown(value)}", f"with {', '.join(known)}")
            return {}
        for name in value:
            if name not in known:
                self._wrong(where, f"{_shown(name)} is not known here", f"one of: {', '.join(known)}")
        return value

    def _named(
        self, where: str, value: Any, known: Sequence[str]
    ) -> list[tuple[str, str, Mapping[str, Any]]]:
        named = self._map(where, value, lambda place, each: self._fields(place, each, known))
        return [(name, f"{where}.{name}", fields) for name, fields in named.items()]

    def _map(self, where: str, value: Any, read: Callable[[str, Any], T]) -> dict[str, T]:
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self._wrong(where, f"must be an object and is {_shown(value)}", "names with values")
            return {}
        return {str(name): read(f"{where}.{name}", each) for name, each in value.items()}

    def _list(self, where: str, value: Any) -> Sequence[Any]:
        if value is None:
            return ()
        if not isinstance(value, list | tuple):
            self._wrong(where, f"must be a list and is {_shown(value)}", "[..., ...]")
            return ()
        if len(value) > MOST_ENTRIES:
            self._wrong(where, f"has {len(value)} entries", f"at most {MOST_ENTRIES}")
            return ()
        return value

    def _text(self, where: str, value: Any) -> str:
        if isinstance(value, str) and 0 < len(value) <= 255:
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        self._wrong(where, "is missing" if value is None else f"{_shown(value)} is not a name", "a name")
        return ""

    def _number(self, where: str, value: Any) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= 1_000_000:
            return value
        problem = "is missing" if value is None else f"{_shown(value)} is not a whole number up to 1000000"
        self._wrong(where, problem, "a whole number")
        return 1

    def _truth(self, where: str, value: Any) -> bool:
        if not isinstance(value, bool):
            self._wrong(where, f"{_shown(value)} is neither true nor false", "true or false")
        return value is True


def _shown(value: Any) -> str:
    return repr(value)[:80]
