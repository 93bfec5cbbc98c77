"""Policies and placers as people choose them: by name, with a sentence and their parameters."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.round.registry import (
    PLACERS,
    POLICIES,
    make_placer,
    make_policy,
    traits_of,
)
from tenants.errors import FieldError

_KINDS: dict[Any, tuple[type, ...]] = {bool: (bool,), int: (int,), float: (float, int), str: (str,)}
_WORDS: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}

#: In `Parameter` a field is called `type`.
_Class = type


@dataclass(frozen=True, slots=True)
class Parameter:
    """One keyword of a plugin. `type` is "bool", "int", "float", "str", or "list"."""

    name: str
    type: str
    default: Any
    #: What a value, or each entry of a list, is an instance of.
    kinds: tuple[_Class, ...]
    #: The only values that it accepts, where they can be listed.
    choices: tuple[Any, ...] = ()

    def accepts(self, value: object) -> bool:
        """Whether a JSON value is of the parameter's type; true and false are not numbers."""
        if self.choices:
            return value in self.choices
        if self.type == "list":
            # A single value stands for a list of one, as in the text that people type.
            return all(map(self._fits, value if isinstance(value, list | tuple) else [value]))
        return self._fits(value)

    @property
    def expected(self) -> str:
        """What to write, in words."""
        if self.choices:
            return f"one of: {', '.join(map(str, self.choices))}"
        if self.type != "list":
            return _WORDS[self.kinds[0]]
        return f"a list, each entry {_WORDS.get(self.kinds[0], 'as its description says')}"

    def _fits(self, value: object) -> bool:
        return isinstance(value, self.kinds) and (bool in self.kinds or not isinstance(value, bool))


def parameters_of(plugin: type) -> list[Parameter]:
    """Return the parameters of a policy or placer in the order of their declaration."""
    hints = get_type_hints(plugin)
    return [_parameter(field, hints[field.name]) for field in fields(plugin)]


def _parameter(field: Field[Any], hint: Any) -> Parameter:
    name, default = field.name, None if field.default is MISSING else field.default
    if get_origin(hint) is Literal:
        return Parameter(name, "str", default, (str,), get_args(hint))
    if hint in _KINDS:
        # Where the type does not list the values, the declaration may.
        return Parameter(name, hint.__name__, default, _KINDS[hint], field.metadata.get("choices", ()))
    return Parameter(name, "list", default, _KINDS.get(next(iter(get_args(hint)), object), (object,)))


def has_targets(policy: str) -> bool:
    """Whether the policy of that name sets each job a target share of each GPU model."""
    return traits_of(policy).has_targets


def described_plugins() -> dict[str, list[dict[str, Any]]]:
    """Return every policy and placer, JSON-ready."""
    return {"policies": _described(POLICIES), "placers": _described(PLACERS)}


def _described(plugins: Any) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "summary": (inspect.getdoc(plugin) or "").split("\n\n")[0].replace("\n", " "),
            "parameters": [
                {
                    "name": parameter.name,
                    "type": parameter.type,
                    "default": parameter.default,
                    "choices": list(parameter.choices),
                }
                for parameter in parameters_of(plugin)
            ],
        }
        for name, plugin in sorted(plugins.items())
    ]


@dataclass(frozen=True, slots=True)
class ChosenPlugin:
    """A policy or placer as a user chose it; parameters that are not stated have their defaults."""

    name: str
    #: JSON values by name.
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "parameters": dict(self.parameters)}


@dataclass(frozen=True, slots=True)
class PluginKind:
    """What can be chosen of one kind, and how it is made."""

    word: str
    known: Mapping[str, type]
    make: Callable[[str, Mapping[str, Any]], object]

    def problems(self, chosen: ChosenPlugin, at: str) -> list[FieldError]:
        """Return what is wrong with a choice that a request states in the field `at`."""
        name, given = chosen.name, chosen.parameters
        if name not in self.known:
            there = f"one of: {', '.join(sorted(self.known))}"
            return [FieldError(f"{at}.name", f"there is no {name[:80]!r}", there)]
        declared = {each.name: each for each in parameters_of(self.known[name])}
        unknown = [
            FieldError(
                f"{at}.parameters.{parameter[:80]}",
                f"{self.word} {name} has no parameter {parameter[:80]}",
                self.takes(name),
            )
            for parameter in given
            if parameter not in declared
        ]
        wrong = [
            FieldError(
                f"{at}.parameters.{parameter}",
                f"{given[parameter]!r} is not a valid {parameter} of {name}"[:500],
                each.expected,
            )
            for parameter, each in declared.items()
            if parameter in given and not each.accepts(given[parameter])
        ]
        if unknown or wrong or not (refusal := self._refusal(name, given)):
            return unknown + wrong
        if not self._refusal(name, {}):
            # A value that is refused beside default values only is itself at fault.
            wrong = [
                FieldError(f"{at}.parameters.{parameter}", f"cannot be {value!r}"[:500], _rule(alone)[:500])
                for parameter, value in given.items()
                if (alone := self._refusal(name, {parameter: value}))
            ]
        return wrong or [FieldError(f"{at}.parameters", str(refusal)[:500], self.takes(name))]

    def _refusal(self, name: str, given: Mapping[str, Any]) -> UnknownPlugin | None:
        try:
            self.make(name, given)
        except UnknownPlugin as error:
            return error
        return None

    def takes(self, name: str) -> str:
        """Return which parameters there are."""
        declared = parameters_of(self.known[name])
        listed = ", ".join(f"{each.name} ({each.type})" for each in declared) or "none"
        return f"parameters of {name}: {listed}"


def _rule(refusal: UnknownPlugin) -> str:
    """Return what would be right, in the plug-in's own words if it has some."""
    own = refusal.__cause__
    return str(own if isinstance(own, TypeError | ValueError) else refusal)


POLICY = PluginKind("policy", POLICIES, make_policy)
PLACER = PluginKind("placer", PLACERS, make_placer)
