"""Every policy and placer by name. Adding one is a file and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from scheduler.core import wording
from scheduler.core.errors import UnknownPlugin
from scheduler.core.placers.consolidate import Consolidate
from scheduler.core.policies.fifo import Fifo
from scheduler.core.policies.las import Las
from scheduler.core.policies.sjf import Sjf
from scheduler.core.policies.srtf import Srtf
from scheduler.core.policies.tiresias import Tiresias
from scheduler.core.policy import Placer, Policy

T = TypeVar("T")

POLICIES: Mapping[str, type[Policy]] = {
    "fifo": Fifo,
    "las": Las,
    "sjf": Sjf,
    "srtf": Srtf,
    "tiresias": Tiresias,
}

PLACERS: Mapping[str, type[Placer]] = {
    "consolidate": Consolidate,
}


def make_policy(name: str, parameters: Mapping[str, Any] | None = None) -> Policy:
    """Return the policy of that name; raise UnknownPlugin for a wrong name or parameter."""
    return _make("policy", POLICIES, name, parameters or {})


def make_placer(name: str, parameters: Mapping[str, Any] | None = None) -> Placer:
    """Return the placer of that name; raise UnknownPlugin for a wrong name or parameter."""
    return _make("placer", PLACERS, name, parameters or {})


def _make(kind: str, known: Mapping[str, type[T]], name: str, parameters: Mapping[str, Any]) -> T:
    if name not in known:
        raise UnknownPlugin(f"there is no {kind} {name!r}; choose {wording.either(sorted(known))}")
    allowed = {parameter.name for parameter in fields(known[name])}  # type: ignore[arg-type]
    wrong = sorted(set(parameters) - allowed)
    if wrong:
        takes = wording.either(sorted(allowed)) or "none"
        raise UnknownPlugin(f"{kind} {name} has no parameter {wording.listed(wrong)}; it takes {takes}")
    try:
        return known[name](**parameters)
    except (TypeError, ValueError) as error:
        raise UnknownPlugin(f"{kind} {name} does not take these parameters: {error}") from error
