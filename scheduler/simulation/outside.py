"""Policies and placers named by the place of their class: `package.module:Class[:parameter=value,...]`.

This is for trying one that is not installed as a plug-in. Only the command line accepts it, because anyone
who can type it can run any code here anyway.
"""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.round.registry import PLACERS, POLICIES, Plugins, checked

_PLACE = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Z]\w*)(:.*)?")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def policy_text(text: str) -> str:
    """Return the text of a policy; if it names a class, register the class under its name.

    Raises UnknownPlugin where the class does not exist or is not a policy, or another policy has its name.
    """
    return _known(text, POLICIES, "allocate")


def placer_text(text: str) -> str:
    """Return the text of a placer, as `policy_text` does for a policy."""
    return _known(text, PLACERS, "place")


def _known(text: str, known: Plugins[Any], method: str) -> str:
    match = _PLACE.fullmatch(text)
    if match is None:
        return text
    if "" not in sys.path:
        # Also find modules in the current folder, as `python -m` does.
        sys.path.insert(0, "")
    module, name, parameters = match[1], match[2], match[3] or ""
    try:
        plugin = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UnknownPlugin(f"{text}: {error}") from error
    own = _HUMP.sub("_", name).lower()
    if known.setdefault(own, checked(text, plugin, method)) is not plugin:
        raise UnknownPlugin(f"{text}: {own} is the name of another plug-in; rename the class")
    return own + parameters
