"""Policies and placers as people choose them: by name, with a sentence and their parameters."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.model.plugin_text import parse_plugin
from scheduler.core.round.registry import PLACERS, POLICIES, make_placer, make_policy
from tenants.errors import FieldError

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
            # A single value stands for a list of one, as in `plugin_text`.
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


def problems_with_policy(
    text: str, parameters: Mapping[str, Any], *, field: str = "policy"
) -> list[FieldError]:
    """Return what is wrong with a policy, by name or as "name:parameter=value,...", and its parameters."""
    return _problems(POLICIES, make_policy, text, parameters, field)


def problems_with_placer(text: str, *, field: str = "placer") -> list[FieldError]:
    """Return what is wrong with a placer, by name or as "name:parameter=value,..."."""
    return _problems(PLACERS, make_placer, text, {}, field)


def split_policy(text: str, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name and all parameters of a policy with which nothing is wrong."""
    name, stated = (text, {}) if text in POLICIES else parse_plugin(text)
    return name, {**stated, **parameters}


def _problems(
    known: Mapping[str, Any],
    make: Callable[[str, Mapping[str, Any]], object],
    text: str,
    parameters: Mapping[str, Any],
    field: str,
) -> list[FieldError]:
    name = text.partition(":")[0].strip()
    if name not in known:
        problem = f"there is no {name[:80]!r}"
        return [FieldError(field, problem, f"one of: {', '.join(sorted(known))}")]
    declared = parameters_of(known[name])
    takes = ", ".join(f"{each.name} ({each.type})" for each in declared) or "none"
    where = field
    try:
        stated = parse_plugin(text)[1]
        wrong = _wrong_values(name, declared, stated, lambda parameter: field)
        wrong += _wrong_values(
            name, declared, parameters, lambda parameter: f"{field}_parameters.{parameter}"
        )
        if not wrong:
            where = f"{field}_parameters" if parameters and not stated else field
            make(text, parameters)
    except UnknownPlugin as error:
        return [FieldError(where, str(error)[:500], f"parameters of {name}: {takes}")]
    return wrong


def _wrong_values(
    name: str, declared: Sequence[Parameter], given: Mapping[str, Any], where: Callable[[str], str]
) -> list[FieldError]:
    return [
        FieldError(
            where(each.name),
            f"{given[each.name]!r} is no {each.name} of {name}"[:500],
            each.expected,
        )
        for each in declared
        if each.name in given and not each.accepts(given[each.name])
    ]
