"""Every policy and placer by name: ours, and those of installed packages.

One of ours needs a file and a line here. An outside package declares entry points in the groups
`allotment.policies` and `allotment.placers`, named after its plug-ins (docs/adding-a-policy.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib.metadata import entry_points
from typing import Any, TypeVar

from scheduler.core.building_blocks.policy import Placer, Policy
from scheduler.core.model import wording
from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.model.plugin_text import Value, parse_plugin
from scheduler.core.model.snapshot import VirtualCluster
from scheduler.core.placers.aryl import ArylPlacer
from scheduler.core.placers.best_fit import BestFit
from scheduler.core.placers.clustering import Clustering
from scheduler.core.placers.consolidate import Consolidate
from scheduler.core.placers.delay import Delay
from scheduler.core.placers.dot_product import DotProduct
from scheduler.core.placers.fgd import Fgd
from scheduler.core.placers.kubeshare import KubeShare
from scheduler.core.placers.medea import Medea
from scheduler.core.placers.packing import Packing
from scheduler.core.placers.random import Random
from scheduler.core.placers.spread import Spread
from scheduler.core.policies.allox.policy import AlloX
from scheduler.core.policies.aryl import Aryl
from scheduler.core.policies.drf import Drf
from scheduler.core.policies.fair import Fair
from scheduler.core.policies.fifo import Fifo
from scheduler.core.policies.gandiva.policy import Gandiva
from scheduler.core.policies.gandiva_fair.policy import GandivaFair
from scheduler.core.policies.gavel import Gavel
from scheduler.core.policies.iadeep import IADeep
from scheduler.core.policies.las import Las
from scheduler.core.policies.lucid.policy import Lucid
from scheduler.core.policies.muri import Muri
from scheduler.core.policies.optimus import Optimus
from scheduler.core.policies.orion import Orion
from scheduler.core.policies.pai import Pai
from scheduler.core.policies.pollux.policy import Pollux
from scheduler.core.policies.priority import Priority
from scheduler.core.policies.qssf import Qssf
from scheduler.core.policies.shockwave.policy import Shockwave
from scheduler.core.policies.sia.policy import Sia
from scheduler.core.policies.singularity.policy import Singularity
from scheduler.core.policies.sjf import Sjf
from scheduler.core.policies.slaq import Slaq
from scheduler.core.policies.srtf import Srtf
from scheduler.core.policies.themis.policy import Themis
from scheduler.core.policies.tiresias import Tiresias

T = TypeVar("T")

_POLICIES: Mapping[str, type[Policy]] = {
    "allox": AlloX,
    "aryl": Aryl,
    "drf": Drf,
    "fair": Fair,
    "fifo": Fifo,
    "gandiva": Gandiva,
    "gandiva_fair": GandivaFair,
    "gavel": Gavel,
    "iadeep": IADeep,
    "las": Las,
    "lucid": Lucid,
    "muri": Muri,
    "optimus": Optimus,
    "orion": Orion,
    "pai": Pai,
    "pollux": Pollux,
    "priority": Priority,
    "qssf": Qssf,
    "shockwave": Shockwave,
    "sia": Sia,
    "singularity": Singularity,
    "sjf": Sjf,
    "slaq": Slaq,
    "srtf": Srtf,
    "themis": Themis,
    "tiresias": Tiresias,
}

_PLACERS: Mapping[str, type[Placer]] = {
    "aryl": ArylPlacer,
    "best_fit": BestFit,
    "clustering": Clustering,
    "consolidate": Consolidate,
    "delay": Delay,
    "dot_product": DotProduct,
    "fgd": Fgd,
    "kubeshare": KubeShare,
    "medea": Medea,
    "packing": Packing,
    "random": Random,
    "spread": Spread,
}


#: The reason for each installed plug-in that cannot be used.
UNUSABLE: dict[str, str] = {}


def checked(name: str, plugin: object, method: str) -> Any:
    """Return a plug-in's class; raise UnknownPlugin if it is not a frozen dataclass with that method."""
    if not (isinstance(plugin, type) and is_dataclass(plugin) and callable(getattr(plugin, method, None))):
        raise UnknownPlugin(f"{name} is {plugin!r}, and no dataclass with a method {method}")
    if not plugin.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise UnknownPlugin(f"{name} is a dataclass that can be changed; declare it with frozen=True")
    return plugin


def with_installed(group: str, method: str, ours: Mapping[str, type[T]]) -> dict[str, type[T]]:
    """Return our plug-ins and those that installed packages declare, ordered by name.

    A plug-in that cannot be loaded, or has a name of ours, is left out and named in `UNUSABLE`: a broken
    package must not stop the scheduler.
    """
    found = dict(ours)
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        try:
            if point.name in found:
                raise UnknownPlugin(f"{point.value}: another plug-in has this name")
            found[point.name] = checked(point.value, point.load(), method)
        except Exception as error:
            UNUSABLE[point.name] = f"{type(error).__name__}: {error}"
    return dict(sorted(found.items()))


POLICIES = with_installed("allotment.policies", "allocate", _POLICIES)
PLACERS = with_installed("allotment.placers", "place", _PLACERS)


def make_policy(text: str, parameters: Mapping[str, Any] | None = None) -> Policy:
    """Return the policy of that name, or of "name:parameter=value,..." (`plugin_text`).

    The text is what users type, and what earlier versions stored in rounds. Raises UnknownPlugin for a wrong
    name or parameter.
    """
    return _make("policy", POLICIES, text, parameters or {})


def only_starts(vc: VirtualCluster) -> bool:
    """Return whether a virtual cluster's policy never stops, moves or joins a job for one that starts."""
    return declares("only_starts", vc.policy, vc.policy_parameters)


def declares(what: str, policy: str, parameters: Mapping[str, Any]) -> bool:
    """Return whether a policy declares a property of all its decisions; an invalid policy declares none."""
    try:
        return bool(getattr(make_policy(policy, parameters), what, False))
    except UnknownPlugin:
        return False


def make_placer(text: str, parameters: Mapping[str, Any] | None = None) -> Placer:
    """Return the placer of that name, or of "name:parameter=value,..."; raise UnknownPlugin likewise."""
    return _make("placer", PLACERS, text, parameters or {})


def split_policy(text: str) -> tuple[str, dict[str, Value]]:
    """Return the name and the parameters of a policy's text; raise UnknownPlugin where it cannot be read."""
    return _split(POLICIES, text)


def split_placer(text: str) -> tuple[str, dict[str, Value]]:
    """Return the name and the parameters of a placer's text; likewise."""
    return _split(PLACERS, text)


def _split(known: Mapping[str, object], text: str) -> tuple[str, dict[str, Value]]:
    # Plug-ins of other packages may have any name.
    return (text, {}) if text in known else parse_plugin(text)


def _make(kind: str, known: Mapping[str, type[T]], text: str, parameters: Mapping[str, Any]) -> T:
    name, stated = _split(known, text)
    if name not in known and name in UNUSABLE:
        raise UnknownPlugin(f"{kind} {name} is installed, but cannot be used: {UNUSABLE[name]}")
    if name not in known:
        raise UnknownPlugin(f"there is no {kind} {name!r}; choose {wording.either(sorted(known))}")
    twice = sorted(set(stated) & set(parameters))
    if twice:
        raise UnknownPlugin(f"parameter {wording.listed(twice)} of {kind} {name} is given twice")
    given = {**stated, **parameters}
    declared = {parameter.name: parameter for parameter in fields(known[name])}  # type: ignore[arg-type]
    wrong = sorted(set(given) - set(declared))
    if wrong:
        takes = wording.either(sorted(declared)) or "none"
        raise UnknownPlugin(f"{kind} {name} has no parameter {wording.listed(wrong)}; it takes {takes}")
    values = {key: _checked(f"{key} of {kind} {name}", declared[key], given[key]) for key in given}
    try:
        return known[name](**values)
    except (TypeError, ValueError) as error:
        raise UnknownPlugin(f"{kind} {name} does not take these parameters: {error}") from error


def _checked(what: str, parameter: Field[Any], value: Any) -> Any:
    """Return the value; raise UnknownPlugin if it is not of the kind of the parameter's default."""
    default = parameter.default
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if default is MISSING or default is None:
        return value
    if isinstance(default, tuple):
        # A single value stands for a list of one, and JSON has no tuples.
        return tuple(value) if isinstance(value, list | tuple) else (value,)
    if isinstance(default, bool):
        kind, fits = "true or false", isinstance(value, bool)
    elif isinstance(default, int):
        kind, fits = "a whole number", number and isinstance(value, int)
    elif isinstance(default, float):
        kind, fits = "a number", number
    else:
        return value
    if not fits:
        raise UnknownPlugin(f"{what} is {kind}, not {value!r}")
    return value
