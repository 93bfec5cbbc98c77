"""The policies and the departures of Gavel's rounds, as people write them on a command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, get_type_hints

from scheduler.core.model import wording
from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.model.plugin_text import Value, parse_plugin
from scheduler.core.solvers.solving import OBJECTIVES
from scheduler.simulation.gavel.matching import AlloX
from scheduler.simulation.gavel.programs import Program
from scheduler.simulation.gavel.queues import AnyModel, FastestFirst, PublishedAnyModel
from scheduler.simulation.gavel.rounds import Rules, Shares
from scheduler.simulation.gavel.splits import Gandiva, IsolatedSplit

#: The name that `--rounds` accepts.
NAME = "gavel"
ORDERS = ("published", "fixed", "shuffled")
#: What `--rounds` can set: all rules except round length and seed, which have their own options.
DEPARTURES = tuple([each.name for each in fields(Rules) if each.name not in ("round_seconds", "seed")])

_FLAG, _NUMBER, _COUNT, _WORD = (
    "true or false",
    "a number of at least 0",
    "a whole number from 1 on",
    "a word",
)


def shares_named(text: str, seed: int = 0) -> Shares:
    """Return the policy that a text such as `gavel:objective=makespan,aware=false` names.

    Raises UnknownPlugin that lists the choices.
    """
    name, given = parse_plugin(text)
    if name not in _POLICIES:
        raise UnknownPlugin(
            f"Gavel's rounds have no policy {name!r}; choose {wording.either(sorted(_POLICIES))}"
        )
    make, known = _POLICIES[name]
    _check(f"policy {name}", given, known)
    return make(given, seed)


def rules_named(text: str, *, round_seconds: float, seed: int) -> Rules:
    """Return the rules that a text such as `gavel:order=fixed` states; raise UnknownPlugin."""
    name, given = parse_plugin(text)
    if name != NAME:
        raise UnknownPlugin(f"there are no rounds {name!r}; choose {NAME}")
    if not 0 < round_seconds < float("inf"):
        raise UnknownPlugin(f"rounds of {NAME} must last more than 0 seconds, not {round_seconds:g}")
    hints = get_type_hints(Rules)
    kinds = {bool: _FLAG, float: _NUMBER}
    known = {name: kinds.get(hints[name], _WORD) for name in DEPARTURES}
    _check(f"rounds {NAME}", given, known)
    if given.get("order", ORDERS[0]) not in ORDERS:
        raise UnknownPlugin(f"rounds {NAME}: order is {given['order']}; choose {wording.either(ORDERS)}")
    parameters: dict[str, Any] = dict(given)
    if parameters.get("start_seconds", 0.0) >= round_seconds:
        raise UnknownPlugin(
            f"rounds {NAME}: start_seconds is {parameters['start_seconds']}; a start must be shorter than a"
            f" round, which lasts {round_seconds:g} s"
        )
    return Rules(round_seconds=round_seconds, seed=seed, **parameters)


def _check(subject: str, given: Mapping[str, Value], known: Mapping[str, str]) -> None:
    for name, value in given.items():
        if name not in known:
            there = wording.listed(sorted(known)) if known else "none"
            raise UnknownPlugin(f"{subject} has no parameter {name!r}; there are {there}")
        number = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
        whole = number and isinstance(value, int) and value >= 1
        right = {
            _FLAG: isinstance(value, bool),
            _NUMBER: number,
            _COUNT: whole,
            _WORD: isinstance(value, str),
        }
        if not right[known[name]]:
            raise UnknownPlugin(f"{subject}: {name} is {value}; it must be {known[name]}")


def _program(given: Mapping[str, Any], seed: int) -> Shares:
    objective = given.get("objective", "max_min")
    if objective not in OBJECTIVES:
        raise UnknownPlugin(
            f"policy gavel: there is no objective {objective!r}; choose {wording.either(sorted(OBJECTIVES))}"
        )
    aware, sharing, centre = (
        given.get(name, default) for name, default in (("aware", True), ("sharing", False), ("centre", False))
    )
    if sharing and not (aware and OBJECTIVES[objective]().shares_gpus):
        raise UnknownPlugin(
            f"policy gavel: sharing is for policies that know speeds, and not for {objective}"
            if aware
            else "policy gavel: sharing is for policies that know speeds: leave out aware=false"
        )
    if centre and (objective != "max_min" or sharing or given.get("parts", 1) > 1):
        raise UnknownPlugin("policy gavel: centre is for objective=max_min without sharing and parts")
    return Program(
        objective, aware=aware, sharing=sharing, centre=centre, parts=given.get("parts", 1), seed=seed
    )


def _queue(given: Mapping[str, Any], seed: int) -> Shares:
    aware, sharing = given.get("aware", True), given.get("sharing", False)
    published = given.get("published", False)
    if (sharing and not aware) or (published and aware):
        raise UnknownPlugin(
            "policy fifo: sharing is for the queue that knows speeds, published for the one that does not"
        )
    if aware:
        return FastestFirst(sharing=sharing)
    return PublishedAnyModel(seed) if published else AnyModel(seed)


def _allox(given: Mapping[str, Any], seed: int) -> Shares:
    return AlloX(alpha=given.get("alpha", 1.0))


#: How to make each policy, and what its parameters must be.
_POLICIES: Mapping[str, tuple[Callable[[Mapping[str, Any], int], Shares], Mapping[str, str]]] = {
    "allox": (_allox, {"alpha": _NUMBER}),
    "fifo": (_queue, {"aware": _FLAG, "sharing": _FLAG, "published": _FLAG}),
    "gandiva": (lambda given, seed: Gandiva(seed), {}),
    "gavel": (
        _program,
        {"objective": _WORD, "aware": _FLAG, "sharing": _FLAG, "centre": _FLAG, "parts": _COUNT},
    ),
    "isolated": (lambda given, seed: IsolatedSplit(), {}),
}

#: The names of the policies.
POLICIES = tuple(sorted(_POLICIES))
