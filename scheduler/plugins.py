"""Policies and placers as people choose them: by name, with a sentence and their parameters."""

import inspect
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.model.plugin_text import format_plugin
from scheduler.core.round.registry import (
    PLACERS,
    POLICIES,
    make_placer,
    make_policy,
    split_placer,
    split_policy,
)
from tenants.errors import FieldError, Invalid

_KINDS: dict[Any, tuple[type, ...]] = {bool: (bool,), int: (int,), float: (int, float), str: (str,)}

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
    #: The only values that it takes, where they can be listed.
    choices: tuple[Any, ...] = ()

    def accepts(self, value: object) -> bool:
        """Whether a JSON value is of the parameter's type; true and false are no numbers."""
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
        return f"a value of type {self.type}"

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
    """Whether the policy of that name means each job to have a share of each GPU model."""
    return getattr(POLICIES.get(policy), "has_targets", False)


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
    """A policy or placer as somebody chose it; parameters that are not stated are as usual."""

    name: str
    #: JSON values by name.
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The same in one line, as people type it: "name:parameter=value,..."."""
        return format_plugin(self.name, self.parameters)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "parameters": dict(self.parameters)}


@dataclass(frozen=True, slots=True)
class PluginKind:
    """What can be chosen of one kind, and how it is made."""

    word: str
    known: Mapping[str, type]
    make: Callable[[str, Mapping[str, Any]], object]
    split: Callable[[str], tuple[str, dict[str, Any]]]

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
                f"{given[parameter]!r} is no {parameter} of {name}"[:500],
                each.expected,
            )
            for parameter, each in declared.items()
            if parameter in given and not each.accepts(given[parameter])
        ]
        if unknown or wrong or not (refusal := self._refusal(name, given)):
            return unknown + wrong
        if not self._refusal(name, {}):
            # Whatever it refuses beside nothing but usual values is at fault by itself.
            wrong = [
                FieldError(f"{at}.parameters.{parameter}", said[:500], declared[parameter].expected)
                for parameter, value in given.items()
                if (said := self._refusal(name, {parameter: value}))
            ]
        return wrong or [FieldError(f"{at}.parameters", refusal[:500], self.takes(name))]

    def _refusal(self, name: str, given: Mapping[str, Any]) -> str:
        try:
            self.make(name, given)
        except UnknownPlugin as error:
            return str(error)
        return ""

    def takes(self, name: str) -> str:
        """Say which parameters there are."""
        declared = parameters_of(self.known[name])
        listed = ", ".join(f"{each.name} ({each.type})" for each in declared) or "none"
        return f"parameters of {name}: {listed}"


POLICY = PluginKind("policy", POLICIES, make_policy, split_policy)
PLACER = PluginKind("placer", PLACERS, make_placer, split_placer)


# What requests said before: a name or a text, and of virtual clusters' policies their parameters beside it.


def take_choice(
    kind: PluginKind, given: MutableMapping[str, Any], at: str, current: ChosenPlugin | None = None
) -> ChosenPlugin | None:
    """Take out of a request what it chooses in the field `at`, "..._plugin"; None: nothing.

    Its deprecated aliases, with nothing or "_parameters" in place of "_plugin", have a name or text, and JSON
    values. Where there is `current`, a name alone leaves the parameters of the same plug-in as they are.
    Raise Invalid for what is wrong with an alias, and when it says something else than the field.
    """
    alias = at.removesuffix("_plugin")
    aliases = {name: given.pop(name) for name in (alias, f"{alias}_parameters") if name in given}
    chosen = ChosenPlugin(**given.pop(at)) if at in given else None
    if not aliases:
        return chosen
    old = _of_aliases(kind, aliases, alias, None if current is None else chosen or current)
    if chosen is None:
        return old
    problems = kind.problems(chosen, at)
    if not problems and kind.make(old.name, old.parameters) != kind.make(chosen.name, chosen.parameters):
        says = " and ".join(aliases) + (" say" if len(aliases) > 1 else " says")
        problem = f"says {chosen.text[:200]}, and {says} {old.text[:200]}"
        problems = [FieldError(at, problem, f"{at} alone, or the same in {' and '.join(aliases)}")]
    _refuse(problems)
    return chosen


def _of_aliases(
    kind: PluginKind, aliases: Mapping[str, Any], alias: str, current: ChosenPlugin | None
) -> ChosenPlugin:
    parameters = aliases.get(f"{alias}_parameters")
    text = aliases[alias] if alias in aliases or current is None else current.name
    try:
        name, stated = kind.split(text)
    except UnknownPlugin as error:
        name = text.partition(":")[0].strip()
        if name in kind.known:
            _refuse([FieldError(alias, str(error)[:500], kind.takes(name))])
        stated = {}
    if parameters is None:
        parameters = current.parameters if current is not None and text == current.name else {}
    for each in stated:
        if each in parameters:
            _refuse([FieldError(alias, f"parameter {each} is also in {alias}_parameters", "one of the two")])

    def at_alias(problem: FieldError) -> FieldError:
        what, _, parameter = problem.field.removeprefix(f"{alias}.").partition(".")
        if what == "name" or parameter in stated or not parameters or (stated and not parameter):
            return replace(problem, field=alias)
        is_known = parameter in {each.name for each in parameters_of(kind.known[name])}
        return replace(problem, field=f"{alias}_parameters" + (f".{parameter}" if is_known else ""))

    chosen = ChosenPlugin(name, {**stated, **parameters})
    _refuse([at_alias(problem) for problem in kind.problems(chosen, alias)])
    return chosen


def _refuse(problems: Sequence[FieldError]) -> None:
    if problems:
        raise Invalid(f"{problems[0].field}: {problems[0].problem}.", problems)
