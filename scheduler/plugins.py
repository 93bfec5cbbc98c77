"""Policies and placers as people choose them: by name, with a sentence and their parameters."""

import inspect
from dataclasses import MISSING, dataclass, fields
from typing import Any, get_type_hints

from scheduler.core.registry import PLACERS, POLICIES

_KINDS: dict[type, tuple[type, ...]] = {bool: (bool,), int: (int,), float: (int, float), str: (str,)}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One keyword of a policy. `type` is the name of a Python type that JSON has as well."""

    name: str
    type: str
    default: Any
    kinds: tuple[type, ...]

    def accepts(self, value: object) -> bool:
        """Whether a JSON value is of the parameter's type; true and false are no numbers."""
        return isinstance(value, self.kinds) and (bool in self.kinds or not isinstance(value, bool))


def parameters_of(plugin: type) -> list[Parameter]:
    """Return the parameters of a policy or placer in the order of their declaration."""
    hints = get_type_hints(plugin)
    return [
        Parameter(
            name=field.name,
            type=getattr(hints[field.name], "__name__", str(hints[field.name])),
            default=None if field.default is MISSING else field.default,
            kinds=_KINDS.get(hints[field.name], (object,)),
        )
        for field in fields(plugin)
    ]


def described_plugins() -> dict[str, list[dict[str, Any]]]:
    """Return every policy and placer, JSON-ready."""
    return {"policies": _described(POLICIES), "placers": _described(PLACERS)}


def _described(plugins: Any) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "summary": (inspect.getdoc(plugin) or "").split("\n\n")[0].replace("\n", " "),
            "parameters": [
                {"name": parameter.name, "type": parameter.type, "default": parameter.default}
                for parameter in parameters_of(plugin)
            ],
        }
        for name, plugin in sorted(plugins.items())
    ]
