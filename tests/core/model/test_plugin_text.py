"""Policies and placers with parameters as people type them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.model.plugin_text import Value, format_plugin, parse_plugin
from scheduler.core.placers.delay import Delay
from scheduler.core.policies.fifo import Fifo
from scheduler.core.round.registry import make_placer, make_policy


@pytest.mark.parametrize(
    ("text", "name", "parameters"),
    [
        ("fifo", "fifo", {}),
        ("las:slice_seconds=300", "las", {"slice_seconds": 300}),
        ("las: weight=0.5 , share=1e-3", "las", {"weight": 0.5, "share": 0.001}),
        ("fifo:backfill=false", "fifo", {"backfill": False}),
        ("tiresias:bounds=3200|6400,kind=2d las", "tiresias", {"bounds": (3200, 6400), "kind": "2d las"}),
        ("tiresias:thresholds=3200|", "tiresias", {"thresholds": (3200,)}),
        ("fgd:workload=1:4:70|8:64:30", "fgd", {"workload": ("1:4:70", "8:64:30")}),
    ],
)  # fmt: skip
def test_reads_names_numbers_booleans_lists_and_strings(
    text: str, name: str, parameters: dict[str, Value]
) -> None:
    assert parse_plugin(text) == (name, parameters)
    assert parse_plugin(format_plugin(name, parameters)) == (name, parameters)


def test_lists_are_written_as_tuples() -> None:
    assert format_plugin("tiresias", {"thresholds": [3200]}) == "tiresias:thresholds=3200|"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no name"),
        (":a=1", "has no name"),
        ("las:", "'' names no parameter"),
        ("las:300", "'300' names no parameter"),
        ("las:slice_seconds", "parameter slice_seconds has no value"),
        ("las:slice_seconds=,a=1", "parameter slice_seconds has no value"),
        ("las:a=1,b=2,a=3", "parameter a is given twice"),
        (f"fifo:x={'9' * 5_000}", "^fifo: the number of parameter x is too large$"),
        (f"fifo:x=-{'9' * 400}", "the number of parameter x is too large"),
        ("las:a=1,quantum_seconds=1e999", "the number of parameter quantum_seconds is too large"),
        ("tiresias:thresholds=1|1e999", "the number of parameter thresholds is too large"),
    ],
)
def test_says_which_parameter_is_wrong(text: str, message: str) -> None:
    with pytest.raises(UnknownPlugin, match=message):
        parse_plugin(text)


def test_the_registry_takes_the_same_text() -> None:
    assert make_placer("delay:relax_after_seconds=600") == Delay(relax_after_seconds=600)
    assert make_policy("fifo:backfill=false") == Fifo(backfill=False)
    assert make_policy("fifo", {"backfill": False}) == Fifo(backfill=False)
    assert make_placer("fgd:workload=1:4:70") == make_placer("fgd", {"workload": ["1:4:70"]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dealy", "there is no placer 'dealy'; choose aryl, "),
        ("delay:after=3", "placer delay has no parameter after; it takes relax_after_seconds"),
        ("delay:relax_after_seconds=soon", "relax_after_seconds of placer delay is a number, not 'soon'"),
        ("delay:relax_after_seconds=true", "relax_after_seconds of placer delay is a number, not True"),
        ("random:seed=1.5", "seed of placer random is a whole number, not 1.5"),
    ],
)
def test_the_registry_says_what_a_parameter_must_be(text: str, message: str) -> None:
    with pytest.raises(UnknownPlugin, match=message):
        make_placer(text)


@pytest.mark.parametrize(
    ("policy", "parameters"),
    [
        ("las", {"quantum_seconds": math.inf}),
        ("las", {"quantum_seconds": math.nan}),
        ("las", {"quantum_seconds": 10**400}),
        ("tiresias", {"thresholds": [1, math.inf]}),
    ],
)
def test_numbers_of_parameters_are_finite(policy: str, parameters: dict[str, Any]) -> None:
    (name,) = parameters
    with pytest.raises(UnknownPlugin, match=f"^{name} of policy {policy} must be a finite number$"):
        make_policy(policy, parameters)


def test_a_parameter_is_not_given_in_two_ways() -> None:
    with pytest.raises(UnknownPlugin, match="parameter backfill of policy fifo is given twice"):
        make_policy("fifo:backfill=false", {"backfill": True})
