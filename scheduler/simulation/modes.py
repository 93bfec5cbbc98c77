"""Refuse options that a way of using `manage.py simulate` ignores, by name and with the reason."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from scheduler.core.model import wording
from scheduler.simulation.errors import InputError
from scheduler.simulation.gavel.workload import is_gavel

#: Options by their argparse names, where these differ from what users type.
_TYPED = {"moves": "no_moves"}
#: The options that an axis of --sweep replaces, where their names differ from that of the axis.
_OF_AXES = {"costs": "cost", "failures": "failure"}

_ITS_JOBS = "its jobs are in the file"
_ONE_RUN = "it is one run"
_SCENARIO = {
    **dict.fromkeys(("trace", "format", "generate", "limit", "option"), _ITS_JOBS),
    "window": "all of its jobs are measured",
    "rounds": "it runs in the platform's rounds",
    "private": "it has no private clusters",
    **dict.fromkeys(("sweep", "processes", "celery"), _ONE_RUN),
    "export": "only a trace or a generator is written in our own format",
}
_NOT_GAVELS = "Gavel's rounds do not support it"
_GAVEL_ROUNDS = dict.fromkeys(
    (
        "cells",
        "private",
        "placer",
        "cost",
        "failure",
        "locality",
        "steps",
        "goodput",
        "interference",
        "autoscaling",
        "moves",
        "ledger",
        "view_budget",
    ),
    _NOT_GAVELS,
)
_GENERATOR = {
    "trace": "a trace and a generator exclude each other",
    "format": "it is the format of a trace",
    "limit": "the generator's own parameters say how many jobs there are",
}
_CELERY = {
    "ledger": "it is written on this machine",
    "processes": "the workers decide how many runs there are at a time",
}
#: The options that writing a workload in our own format uses.
_EXPORTED = ("export", "trace", "format", "generate", "cluster", "throughputs", "limit", "option", "strict")
_EXPORT_MAY = frozenset({*_EXPORTED, "seed", "quiet"})
_EXPORTED_GENERATOR = {
    "cluster": "its jobs are the same for all clusters",
    "strict": "a generator leaves nothing out",
}
_NO_RUN = "nothing is simulated"
#: Options of reading, and the only formats that know them.
_OF_FORMATS = {
    "tenants": ("helios", "philly", "slurm"),
    "best_effort": ("alibaba-gpu-v2023", "chronus"),
    "scaling": ("pollux",),
    "profiles": ("allot", "pollux"),
}
_OF_TRACES = ("largest_gpus", "gpu_models")


@dataclass(frozen=True, slots=True)
class _Mode:
    """A way of using the command: its name in messages, and what it refuses with which reason."""

    name: str
    refuses: Mapping[str, str]


def given_options(parser: argparse.ArgumentParser, arguments: list[str]) -> frozenset[str]:
    """Return the names of the options that are on the command line, whatever their values."""
    unset = object()
    namespace = argparse.Namespace()
    lists = set()
    for action in parser._actions:
        if isinstance(action, argparse._AppendAction):
            lists.add(action.dest)
        else:
            setattr(namespace, action.dest, unset)
    parsed = vars(parser.parse_args(arguments, namespace))
    return frozenset(
        [name for name, value in parsed.items() if (value if name in lists else value is not unset)]
    )


def refuse_unused(given: argparse.Namespace, options: Collection[str]) -> None:
    """Raise InputError for the first option that has no effect with the others; `options` are those given."""
    axes = [text.partition("=")[0].partition(".")[0] for text in given.sweep]
    named = {option: typed(option) for option in options}
    named |= {_OF_AXES.get(axis, axis): f"--sweep {axis}" for axis in axes}
    for mode in _modes(given):
        for option, why in mode.refuses.items():
            if option in named:
                raise InputError(f"{named[option]} is not for {mode.name}: {why}")
    for option, most in (("policy", given.policy), ("seed", given.seed)):
        if (given.scenario or (given.export and option == "seed")) and len(most or ()) > 1:
            mode_name = "--scenario" if given.scenario else "--export"
            raise InputError(f"{typed(option)} is given {len(most)} times; {mode_name} takes one")
    if "jobs" in options and not {"json", "report"} & set(options):
        raise InputError("--jobs adds to what --json or --report writes: give one of them")
    if "format" in options and not given.trace:
        raise InputError("--format is the format of a trace: give --trace")
    _refuse_reading(given)


def typed(option: str) -> str:
    """Return an option as users type it."""
    return "--" + _TYPED.get(option, option).replace("_", "-")


def _modes(given: argparse.Namespace) -> Iterable[_Mode]:
    if given.scenario:
        yield _Mode("--scenario", _SCENARIO)
    if given.generate:
        yield _Mode("--generate", _GENERATOR)
    if given.export:
        every = dict.fromkeys(vars(given), _NO_RUN)
        yield _Mode("--export", {name: why for name, why in every.items() if name not in _EXPORT_MAY})
        if given.generate:
            yield _Mode("--export of a generator", _EXPORTED_GENERATOR)
        elif given.format != "gavel":
            yield _Mode("--export of this format", {"throughputs": "its jobs are written without rates"})
    if given.rounds:
        yield _Mode("--rounds", _GAVEL_ROUNDS)
    if given.celery:
        yield _Mode("--celery", _CELERY)


def _refuse_reading(given: argparse.Namespace) -> None:
    """Refuse options of reading that the format does not know, and those that another one makes void."""
    options = dict([text.partition("=")[::2] for text in given.option])
    if options.get("estimates") == "none" and "estimate_error" in options:
        raise InputError(
            "--option estimate_error is not for --option estimates=none: there are no estimates to be wrong"
        )
    for name in options:
        formats = _OF_FORMATS.get(name, ())
        if given.generate and (formats or name in _OF_TRACES):
            kind = "gavel:" if is_gavel(given.generate) else "a generator"
            raise InputError(f"--option {name} is for traces; {kind} does not support it")
        if formats and given.format not in formats:
            raise InputError(
                f"--option {name} is for {wording.either(formats)}; {given.format} does not support it"
            )
