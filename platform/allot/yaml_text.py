"""YAML 1.2 as the dashboard reads it, so that a file means the same there and here.

PyYAML reads YAML 1.1, in which `1_000` is 1000, `12:30:45` is 45045, `0012` is 10 and `on` is true. The core
schema of YAML 1.2 (section 10.3.2) has none of these. What jobs get as text is never taken for a number at
all: values of `env` and `labels` and the words of `command` are what is written there.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from typing import Any

import yaml

#: Fields whose scalars are texts, wherever they stand.
TEXTS = ("env", "labels", "command")
_INT, _FLOAT, _STR, _MERGE = (f"tag:yaml.org,2002:{name}" for name in ("int", "float", "str", "merge"))
_NOT_FINITE = re.compile(r"\.(?:inf|nan)$", re.IGNORECASE)
#: YAML 1.2, 10.3.2, with the first characters of what matches. Merge keys do not belong to it, but are in
#: use.
_SCHEMA = (
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$", list("-+0123456789")),
    (
        "float",
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        list("-+0123456789."),
    ),
    ("merge", r"^<<$", ["<"]),
)


class Refused(yaml.MarkedYAMLError):
    """It is YAML, but no document of ours."""

    def __init__(self, problem: str, node: yaml.Node) -> None:
        super().__init__(problem=problem, problem_mark=node.start_mark)


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, Any]]] = {}

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set[str]()
        for key, _ in node.value:
            # What is merged is not repeated: it is overridden.
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if key.value in seen:
                    raise Refused(f"{key.value} stands here twice", key)
                seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_integer(self, node: yaml.ScalarNode) -> int:
        text = node.value
        return (
            int(text, 8) if text.startswith("0o") else int(text, 16) if text.startswith("0x") else int(text)
        )


for name, pattern, first in _SCHEMA:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{name}", re.compile(pattern), first)
_Loader.add_constructor(_INT, _Loader.construct_integer)


def documents(text: str) -> Iterator[Any]:
    """Yield what each document of a text says. Raises yaml.YAMLError, ValueError and RecursionError."""
    loader = _Loader(text)
    try:
        while loader.check_node():
            if (node := loader.get_node()) is not None:
                _settle(node, "", is_text=False, done=set())
                yield loader.construct_document(node)
    finally:
        loader.dispose()


def _settle(node: yaml.Node, place: str, *, is_text: bool, done: set[int]) -> None:
    """Turn plain scalars of TEXTS into the text that is written, and refuse what is not a number where one
    belongs.

    `place` is where the node stands, such as `tasks[0].env`. An alias is checked once.
    """
    if isinstance(node, yaml.ScalarNode):
        if is_text and node.style is None:
            node.tag = _STR
        elif node.tag == _FLOAT and _NOT_FINITE.search(node.value):
            raise Refused(f"{place or 'it'}: {node.value} is not a number that a field can have", node)
        return
    if id(node) in done:
        return
    done.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            _settle(item, f"{place}[{number}]", is_text=is_text, done=done)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            named = str(key.value) if isinstance(key, yaml.ScalarNode) else "?"
            inside = f"{place}.{named}" if place else named
            _settle(value, inside, is_text=is_text or named in TEXTS, done=done)
