"""Policies and placers as they are typed: the client reads the line as the server's own commands do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from allot.errors import AllotError
from allot.plugin_text import plugin_of, text_of
from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.model.plugin_text import format_plugin, parse_plugin

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
WORDS = st.text(alphabet="abz019.+-eE_: ", min_size=1, max_size=8)
PLAIN = st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False))
VALUES = st.one_of(PLAIN, st.lists(PLAIN, min_size=1, max_size=3))


def listed(value: Any) -> Any:
    """JSON has lists for tuples."""
    if isinstance(value, dict):
        return {name: listed(each) for name, each in value.items()}
    return [listed(each) for each in value] if isinstance(value, tuple) else value


def read_by_server(text: str) -> tuple[str, Any] | str:
    try:
        name, parameters = parse_plugin(text)
    except UnknownPlugin as error:
        return str(error)
    return name, listed(parameters)


def read_by_client(text: str) -> tuple[str, Any] | str:
    try:
        chosen = plugin_of(text)
    except AllotError as error:
        return str(error)
    return chosen["name"], chosen["parameters"]


@given(NAMES, st.lists(st.tuples(NAMES, st.lists(WORDS, min_size=1, max_size=3).map("|".join)), max_size=3))
@example("fgd", [("workload", "1:4:70|")])
@example("las", [("weight", " .5e-3 "), ("weight", "1")])
@example("las", [("a", "")])
@example("las", [("a", "9" * 5_000)])
@example("las", [("a", "1|1e999")])
@example("las", [("a", "9" * 400)])
def test_the_client_reads_what_the_server_reads(name: str, assignments: list[tuple[str, str]]) -> None:
    text = f"{name}:{','.join(f'{key}={value}' for key, value in assignments)}" if assignments else name
    assert read_by_client(text) == read_by_server(text)


@given(NAMES, st.dictionaries(NAMES, VALUES, max_size=3))
def test_it_writes_what_it_and_the_server_read(name: str, parameters: dict[str, Any]) -> None:
    chosen = {"name": name, "parameters": parameters}
    assert plugin_of(text_of(chosen)) == chosen  # type: ignore[arg-type]
    assert text_of(chosen) == format_plugin(name, parameters)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", ":a=1", "las:", "las:300", "las:=3", "las:a=1,b=2,a=3"])
def test_it_says_what_is_wrong_in_the_servers_words(text: str) -> None:
    said = read_by_client(text)
    assert isinstance(said, str)
    assert said == read_by_server(text)
