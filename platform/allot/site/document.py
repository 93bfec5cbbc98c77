"""Which fields a site's file has. All that is wrong with their form is found before anything is asked for.

Whether a value fits (a role, a policy, a number of GPUs) is for the server to say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from allot.describe import problem_lines
from allot.errors import FieldProblem, WrongUse
from allot.output import plural

#: Says what is wrong with the value at a place of the file.
Check = Callable[[str, Any], Iterator[FieldProblem]]
#: The most problems that are reported at once.
MOST_PROBLEMS = 50


def check_form(document: Mapping[str, Any]) -> None:
    """Raise WrongUse with everything that is wrong with the form of a file."""
    refuse(list(_fields(SECTIONS, ())("", document)))


def refuse(problems: list[FieldProblem]) -> None:
    """Raise WrongUse that names all problems, if there are any."""
    if problems:
        mistakes = plural(len(problems), "mistake")
        lines = problem_lines("", f"The file has {mistakes}; nothing was changed:", problems[:MOST_PROBLEMS])
        raise WrongUse("\n".join(lines))


def _of_type(expected: str, *types: type) -> Check:
    def check(where: str, value: Any) -> Iterator[FieldProblem]:
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            yield FieldProblem(where, f"is {_shown(value)}", expected)

    return check


def _shown(value: Any) -> str:
    """The value as it stands in the file, cut where it is long."""
    return json.dumps(value, ensure_ascii=False)[:60]


_TEXT = _of_type("text", str)
_TRUTH = _of_type("true or false", bool)
_WHOLE = _of_type("a whole number", int)
_NUMBER = _of_type("a number", int, float)
_ANY_MAPPING = _of_type("a mapping", dict)


def _or_null(check: Check) -> Check:
    return lambda where, value: check(where, value) if value is not None else iter(())


def _mapping_of(check: Check) -> Check:
    def check_each(where: str, value: Any) -> Iterator[FieldProblem]:
        if not isinstance(value, dict):
            yield FieldProblem(where, f"is {_shown(value)}", "a mapping")
            return
        for name, inner in value.items():
            yield from check(f"{where}.{name}", inner)

    return check_each


def _fields(known: Mapping[str, Check], required: tuple[str, ...]) -> Check:
    def check(where: str, value: Any) -> Iterator[FieldProblem]:
        if not isinstance(value, dict):
            yield FieldProblem(where, f"is {_shown(value)}", f"a mapping with: {', '.join(known)}")
            return
        for name in required:
            if name not in value:
                yield FieldProblem(f"{where}.{name}", "is missing", "")
        for name, inner in value.items():
            place = f"{where}.{name}" if where else str(name)
            if name in known:
                yield from known[name](place, inner)
            else:
                yield FieldProblem(place, "is not a field here", f"one of: {', '.join(known)}")

    return check


def _list_of(known: Mapping[str, Check], *required: str, unique: bool = True) -> Check:
    """Entries with these fields; the first required one names them, and no two have the same."""
    entry = _fields(known, required)

    def check(where: str, value: Any) -> Iterator[FieldProblem]:
        if not isinstance(value, list):
            yield FieldProblem(where, f"is {_shown(value)}", "a list")
            return
        seen: dict[Any, int] = {}
        for number, inner in enumerate(value):
            yield from entry(f"{where}[{number}]", inner)
            name = inner.get(required[0]) if isinstance(inner, dict) else None
            if unique and isinstance(name, str) and seen.setdefault(name, number) != number:
                there = f"{where}[{seen[name]}]"
                yield FieldProblem(
                    f"{where}[{number}].{required[0]}", f"{name!r} is also that of {there}", ""
                )

    return check


_PLUGIN = _fields({"name": _TEXT, "parameters": _ANY_MAPPING}, ("name",))

SECTIONS: Mapping[str, Check] = {
    "currency": _or_null(_TEXT),
    "prices": _mapping_of(_NUMBER),
    "users": _list_of({"username": _TEXT, "email": _TEXT}, "username"),
    "tenants": _list_of(
        {
            "name": _TEXT,
            "title": _TEXT,
            "most_unfinished_jobs": _or_null(_WHOLE),
            "quota": _mapping_of(_WHOLE),
            "quota_cpus": _or_null(_NUMBER),
            "quota_memory_bytes": _or_null(_WHOLE),
            "budget": _or_null(
                _fields(
                    {
                        "amount": _NUMBER,
                        "unit": _TEXT,
                        "period": _TEXT,
                        "action": _TEXT,
                        "starts_at": _TEXT,
                    },
                    ("amount",),
                )
            ),
            "members": _mapping_of(_TEXT),
            "invitations": _list_of({"email": _TEXT, "role": _TEXT}, "email", "role"),
        },
        "name",
    ),
    "nodes": _list_of({"name": _TEXT, "rack": _TEXT, "cordoned": _TRUTH, "why": _TEXT}, "name"),
    "virtual_clusters": _list_of(
        {
            "name": _TEXT,
            "title": _TEXT,
            "policy_plugin": _PLUGIN,
            "placer_plugin": _PLUGIN,
            "default_time_limit_seconds": _NUMBER,
            "sharing": _TEXT,
            "min_run_seconds": _NUMBER,
            "reclaim_min_run_seconds": _NUMBER,
            "longest_wait_seconds": _NUMBER,
            "overcommit": _TEXT,
            "overcommit_margin": _NUMBER,
            "guaranteed": _mapping_of(_WHOLE),
            "members": _mapping_of(_NUMBER),
        },
        "name",
    ),
    # The server's own form, which `allot vc check` describes in full.
    "cells": _ANY_MAPPING,
}
