"""Every policy and placer by name: ours, and those of installed packages.

One of ours needs a file and a line here. An outside package declares entry points in the groups
`allotment.policies` and `allotment.placers`, named after its plug-ins (docs/adding-a-policy.md).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, MutableMapping
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, TypeVar

from scheduler.core.building_blocks.policy import Placer, Policy, Traits
from scheduler.core.model import wording
from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.model.plugin_text import Value, is_finite, parse_plugin
from scheduler.core.model.snapshot import VirtualCluster

T = TypeVar("T")

_POLICIES: Mapping[str, str] = {
    "allox": "scheduler.core.policies.allox.policy:AlloX",
    "aryl": "scheduler.core.policies.aryl:Aryl",
    "drf": "scheduler.core.policies.drf:Drf",
    "fair": "scheduler.core.policies.fair:Fair",
    "fifo": "scheduler.core.policies.fifo:Fifo",
    "gandiva": "scheduler.core.policies.gandiva.policy:Gandiva",
    "gandiva_fair": "scheduler.core.policies.gandiva_fair.policy:GandivaFair",
    "gavel": "scheduler.core.policies.gavel:Gavel",
    "iadeep": "scheduler.core.policies.iadeep:IADeep",
    "las": "scheduler.core.policies.las:Las",
    "lucid": "scheduler.core.policies.lucid.policy:Lucid",
    "muri": "scheduler.core.policies.muri:Muri",
    "optimus": "scheduler.core.policies.optimus:Optimus",
    "orion": "scheduler.core.policies.orion:Orion",
    "pai": "scheduler.core.policies.pai:Pai",
    "pollux": "scheduler.core.policies.pollux.policy:Pollux",
    "priority": "scheduler.core.policies.priority:Priority",
    "qssf": "scheduler.core.policies.qssf:Qssf",
    "shockwave": "scheduler.core.policies.shockwave.policy:Shockwave",
    "sia": "scheduler.core.policies.sia.policy:Sia",
    "singularity": "scheduler.core.policies.singularity.policy:Singularity",
    "sjf": "scheduler.core.policies.sjf:Sjf",
    "slaq": "scheduler.core.policies.slaq:Slaq",
    "srtf": "scheduler.core.policies.srtf:Srtf",
    "themis": "scheduler.core.policies.themis.policy:Themis",
    "tiresias": "scheduler.core.policies.tiresias:Tiresias",
}

_PLACERS: Mapping[str, str] = {
    "aryl": "scheduler.core.placers.aryl:ArylPlacer",
    "best_fit": "scheduler.core.placers.best_fit:BestFit",
    "clustering": "scheduler.core.placers.clustering:Clustering",
    "consolidate": "scheduler.core.placers.consolidate:Consolidate",
    "delay": "scheduler.core.placers.delay:Delay",
    "dot_product": "scheduler.core.placers.dot_product:DotProduct",
    "fgd": "scheduler.core.placers.fgd:Fgd",
    "kubeshare": "scheduler.core.placers.kubeshare:KubeShare",
    "medea": "scheduler.core.placers.medea:Medea",
    "packing": "scheduler.core.placers.packing:Packing",
    "random": "scheduler.core.placers.random:Random",
    "spread": "scheduler.core.placers.spread:Spread",
}


#: The reason for each installed plug-in that cannot be used.
UNUSABLE: dict[str, str] = {}


def line_in(modules: Container[str], error: BaseException) -> str:
    """Return " in FILE, line N": the innermost line of these modules that an error passed; "" if none.

    The author of a plug-in finds the mistake by it, which the error's words alone may not show. Folders are
    left out: on a server, tenants read why their jobs wait.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f" in {_file(error.filename)}, line {error.lineno}"
    found, trace = "", error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") in modules:
            found = f" in {_file(trace.tb_frame.f_code.co_filename)}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return found


def _file(path: str) -> str:
    return path.rpartition("/")[2]


def checked(name: str, plugin: object, method: str) -> Any:
    """Return a plug-in's class; raise UnknownPlugin if it is not a frozen dataclass with that method."""
    if not (isinstance(plugin, type) and is_dataclass(plugin) and callable(getattr(plugin, method, None))):
        raise UnknownPlugin(f"{name} is {plugin!r}, and no dataclass with a method {method}")
    if not plugin.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise UnknownPlugin(f"{name} is a dataclass that can be changed; declare it with frozen=True")
    return plugin


class Plugins(MutableMapping[str, type[T]]):
    """The classes of plug-ins by name; one of ours is imported when it is first asked for.

    So no process loads the programs of policies that nothing in it uses.
    """

    def __init__(self, ours: Mapping[str, str]) -> None:
        #: By name: the class, or "module:Class" of one that is not imported yet.
        self._known: dict[str, type[T] | str] = {**ours}

    def __getitem__(self, name: str) -> type[T]:
        known = self._known[name]
        if isinstance(known, str):
            module, _, plugin = known.partition(":")
            known = self._known[name] = getattr(import_module(module), plugin)
        return known

    def __setitem__(self, name: str, plugin: type[T]) -> None:
        self._known[name] = plugin

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._known))

    def __len__(self) -> int:
        return len(self._known)


def with_installed(group: str, method: str, ours: Mapping[str, str]) -> Plugins[Any]:
    """Return our plug-ins, given as "module:Class", and those that installed packages declare.

    A plug-in that cannot be loaded, or has a name of ours, is left out and named in `UNUSABLE`: a broken
    package must not stop the scheduler.
    """
    found = Plugins[Any](ours)
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        try:
            if point.name in found:
                raise UnknownPlugin(f"{point.value}: another plug-in has this name")
            found[point.name] = checked(point.value, point.load(), method)
        except (Exception, SystemExit) as error:
            UNUSABLE[point.name] = f"{type(error).__name__}: {error}"
    return found


POLICIES: Plugins[Policy] = with_installed("allotment.policies", "allocate", _POLICIES)
PLACERS: Plugins[Placer] = with_installed("allotment.placers", "place", _PLACERS)


def make_policy(text: str, parameters: Mapping[str, Any] | None = None) -> Policy:
    """Return the policy of that name, or of "name:parameter=value,..." (`plugin_text`).

    The text is what users type, and what earlier versions stored in rounds. Raises UnknownPlugin for a wrong
    name or parameter.
    """
    return _make("policy", POLICIES, text, parameters or {})


def only_starts(vc: VirtualCluster) -> bool:
    """Return whether a virtual cluster's policy never stops, moves or joins a job for one that starts."""
    return traits_of(vc.policy, vc.policy_parameters).only_starts


def traits_of(policy: str, parameters: Mapping[str, Any] | None = None) -> Traits:
    """Return what a policy declares of all its decisions; an invalid policy declares nothing."""
    try:
        return Traits.of(make_policy(policy, parameters))
    except UnknownPlugin:
        return Traits()


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
    # The code of a plug-in may fail in any way.
    except (Exception, SystemExit) as error:
        where = line_in((known[name].__module__,), error)
        raise UnknownPlugin(f"{kind} {name} cannot be made: {error!r}{where}") from error


def _checked(what: str, parameter: Field[Any], value: Any) -> Any:
    """Return the value; raise UnknownPlugin if it is not of the kind of the parameter's default, or not
    finite.
    """
    if not is_finite(value):
        raise UnknownPlugin(f"{what} must be a finite number")
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
