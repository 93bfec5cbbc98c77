"""What the REST API answers about cells, as types (see `allot.objects`)."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from allot.objects import CheckedField

#: A specification of cells: what a YAML file of it holds (docs/cells.md).
CellDocument = dict[str, Any]


class ChainType(TypedDict):
    name: str
    level: int
    gpus: int
    is_node: bool


class ChainCells(TypedDict):
    """Cells of one level: total = free + used + bad."""

    level: int
    type: str
    total: int
    free: int
    used: int
    bad: int
    owned: int
    doomed: int


class Chain(TypedDict):
    """Hardware of one topmost type; free, used, opportunistic and bad are GPUs."""

    name: str
    gpu_model: str
    types: list[ChainType]
    cells: list[ChainCells]
    gpus: int
    free: int
    used: int
    opportunistic: int
    bad: int


class Cells(TypedDict):
    """How GPUs are divided by cells. Version 0: there never was a specification."""

    version: int
    specification: CellDocument
    changed_at: str | None
    changed_by: str | None
    gpu_models: list[str]
    chains: list[Chain]
    problems: list[CheckedField]


class CellEffect(TypedDict):
    """How many guaranteed jobs run, and how many of them would lose their guarantee."""

    virtual_cluster: str
    running: int
    lapsing: int
    jobs: list[int]


class CellsCheck(TypedDict):
    valid: bool
    problems: list[CheckedField]
    guaranteed: dict[str, dict[str, int]]
    effects: list[CellEffect]


class CellNode(TypedDict):
    """One cell of the tree; free, used, opportunistic and bad are GPUs."""

    address: str
    chain: str
    type: str
    level: int
    level_is_node: bool
    gpus: int
    free: int
    used: int
    opportunistic: int
    bad: int
    virtual_cluster: str | None
    pinned: str
    node: str
    gpu: int | None
    state: Literal["free", "used", "opportunistic", "bad", "mixed"]
    children: int


class OwnedCells(TypedDict):
    """Cells of one kind that a virtual cluster owns, or one that is pinned to it."""

    chain: str
    type: str
    level: int
    gpus: int
    owned: int
    bound: int
    free: int
    doomed: int
    pinned: bool
    name: str
    addresses: list[str]


class VirtualClusterCells(TypedDict):
    virtual_cluster: str
    cells: list[OwnedCells]
    guaranteed: dict[str, int]
