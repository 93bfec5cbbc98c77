"""The glossary is that of the code: what it names is there, and nothing that users meet is missing."""

import enum
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest
from django.apps import apps
from django.db import models

PAGE = (Path(__file__).parents[1] / "docs" / "glossary.md").read_text()
#: Names of modules, classes and fields.
NAMES = re.findall(r"`((?:[a-z_]+\.)+[A-Za-z_]+)`", re.sub(r"^\| `[^`]*`", "", PAGE, flags=re.MULTILINE))
SECTIONS = re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]
#: Enumerations of the core that answers of the API and pages show; those of rows are found by themselves.
SHOWN = (
    "scheduler.core.model.lifecycle.JobState",
    "scheduler.core.model.lifecycle.AttemptState",
    "scheduler.core.model.lifecycle.Outcome",
    "scheduler.core.model.lifecycle.StopCause",
    "scheduler.core.model.lifecycle.HoldPhase",
    "scheduler.core.model.reason_kinds.Tier",
    "scheduler.core.model.reason_kinds.Cause",
    "scheduler.core.fairness.causes.Cause",
    "scheduler.core.failures.taxonomy.CLASSES",
    "scheduler.core.failures.taxonomy.Layer",
    "scheduler.core.failures.site_rules.Retry",
    "scheduler.core.model.snapshot.GUARANTEED",
    "scheduler.core.model.snapshot.OPPORTUNISTIC",
    "scheduler.core.perf.throughput.Source",
    "nodeagent.messages.Enforcement",
    "nodeagent.isolation_levels.IsolationLevel",
)


def resolved(name: str) -> Any:
    """Return what a dotted name of the code stands for: a module, something in one, or a field of a class.

    Raises AttributeError or ImportError where there is nothing of that name.
    """
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            fields = getattr(found, "__dataclass_fields__", {})
            found = fields[part] if part in fields else getattr(found, part)
        return found
    raise ImportError(name)


def values_of(name: str) -> set[str]:
    """Return the values that a field of this kind may have, without the empty one."""
    kind = resolved(name)
    if isinstance(kind, str):
        return {kind}
    if isinstance(kind, Mapping):
        return set(kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {str(one.value) for one in kind if one.value}
    return {value for value in get_args(kind) if value}


@pytest.mark.parametrize("name", sorted(set(NAMES)))
def test_what_it_names_is_in_the_code(name: str) -> None:
    assert resolved(name) is not None


def kinds_of(section: str) -> list[str]:
    stated = re.search(r"In the code:((?: (?:and )?`[^`]+`)+)", " ".join(section.split()))
    assert stated, section[:80]
    return re.findall(r"`([^`]+)`", stated[1])


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.splitlines()[0])
def test_a_kind_of_value_has_all_of_its_values(section: str) -> None:
    listed = re.findall(r"^\| `([^`]+)` \|", section, flags=re.MULTILINE)
    expected = set().union(*(values_of(name) for name in kinds_of(section)))
    assert sorted(listed) == sorted(expected)


def test_failures_have_the_layer_and_the_words_of_the_code() -> None:
    classes = resolved("scheduler.core.failures.taxonomy.CLASSES")
    for one in classes.values():
        assert f"| `{one.name}` | {one.layer.value} | {one.words} |" in PAGE


def test_each_enumeration_that_users_meet_has_a_section() -> None:
    found = {id(resolved(name)) for section in SECTIONS for name in kinds_of(section)}
    assert [name for name in SHOWN if id(resolved(name)) not in found] == []
    missing = []
    for label in ("scheduler", "tenants"):
        for module in {model.__module__ for model in apps.get_app_config(label).get_models()}:
            missing += [
                f"{module}.{name}"
                for name, kind in vars(import_module(module)).items()
                if isinstance(kind, type)
                and issubclass(kind, models.TextChoices)
                and kind.__module__ == module
                and id(kind) not in found
            ]
    assert missing == []


def test_terms_are_in_the_order_of_the_alphabet() -> None:
    table = PAGE.split("## Values")[0]
    terms = [term.lower() for term in re.findall(r"^\| (?!term|-)([^|]+?) \|", table, flags=re.MULTILINE)]
    assert len(terms) > 40
    assert terms == sorted(terms)
