"""Policies and placers named by the place of their class: `package.module:Class[:parameter=value,...]`.

This is for trying one that is not installed as a plug-in. Only the command line accepts it, because anyone
who can type it can run any code here anyway.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

from scheduler.core.model import wording
from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.round.registry import PLACERS, POLICIES, UNUSABLE, Plugins, checked, line_in

_PLACE = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)(:.*)?")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def policy_text(text: str) -> str:
    """Return the text of a policy; if it names a class, register the class under its name.

    Raises UnknownPlugin where the class does not exist or is not a policy, or another policy has its name.
    """
    return _known(text, POLICIES, "allocate")


def placer_text(text: str) -> str:
    """Return the text of a placer, as `policy_text` does for a policy."""
    return _known(text, PLACERS, "place")


def check_name(lacks: str, text: str, known: Collection[str]) -> None:
    """Raise UnknownPlugin for a name that is not a known one, with the nearest of these.

    `lacks` begins the message: "there is no policy".
    """
    name = text.partition(":")[0].strip()
    if not name or name in known or text in known or name in UNUSABLE:
        return
    near = get_close_matches(name.lower().replace("-", "_"), known, 1)
    choice = f"did you mean {near[0]}?" if near else f"choose {wording.either(sorted(known))}"
    raise UnknownPlugin(f"{lacks} {name!r}; {choice}")


def _known(text: str, known: Plugins[Any], method: str) -> str:
    match = _PLACE.fullmatch(text)
    # With one of our names in front, what follows is a parameter without a value.
    if match is None or match[1] in known:
        return text
    if "" not in sys.path:
        # Also find modules in the current folder, as `python -m` does.
        sys.path.insert(0, "")
    module, name, parameters = match[1], match[2], match[3] or ""
    plugin = checked(f"{module}:{name}", _imported(text, module, name), method)
    own = _HUMP.sub("_", name).lower().lstrip("_")
    if known.setdefault(own, plugin) is not plugin:
        raise UnknownPlugin(f"{text}: {own} is the name of another plug-in; rename the class")
    return own + parameters


def _imported(text: str, module: str, name: str) -> object:
    """Return the class; raise UnknownPlugin, with the user's own line, where its module cannot be loaded."""
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            raise UnknownPlugin(
                f"{text}: {error.msg}: there is no such module here or in PYTHONPATH; write NAME or"
                " package.module:Class"
            ) from error
        raise UnknownPlugin(f"{text}: {error.msg}{line_in((module,), error)}") from error
    except (Exception, SystemExit) as error:
        # What a user's module does when it is loaded may fail in any way.
        words = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
        raise UnknownPlugin(f"{text}: cannot be loaded: {words}{line_in((module,), error)}") from error
    if not hasattr(found, name):
        near = get_close_matches(name, vars(found), 1)
        raise UnknownPlugin(
            f"{text}: module {module} has no class {name}" + (f"; did you mean {near[0]}?" if near else "")
        )
    return getattr(found, name)
