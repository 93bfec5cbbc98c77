"""The options of a reader of traces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from scheduler.core.model import wording
from scheduler.simulation.errors import InputError
from scheduler.simulation.rates import ThroughputTable


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """The assumptions under which a trace is read; the workload's notes state each that matters."""

    #: A gang larger than this becomes equal replicas. None for the node size of the trace's own cluster.
    gpus_per_node: int | None = None
    #: With "exact" the scheduler sees every job's true duration (an oracle), with "none" no duration.
    estimates: Literal["exact", "none"] = "exact"
    #: Sigma of the log-normal factor (median 1) by which estimates are wrong.
    estimate_error: float = 0.0
    seed: int = 0
    #: Jobs of more GPUs than this are problems, and elastic jobs grow up to it at most.
    largest_gpus: int | None = None
    #: The models that jobs may name; empty for any.
    gpu_models: frozenset[str] = frozenset()
    #: Whether a job's tenant is its user or its virtual cluster, where the trace knows both. In Slurm's, its
    #: user or its account.
    tenants: Literal["virtual_cluster", "user"] = "virtual_cluster"
    #: Whether jobs that the trace calls best effort are opportunistic, or guaranteed like all others.
    best_effort: Literal["guaranteed", "opportunistic"] = "guaranteed"
    #: Rates by kind of job, for traces that give work in steps (gavel).
    throughputs: ThroughputTable | None = None
    #: Folder of measured profiles, for jobs that progress by them (pollux, and jobs with a batch_size).
    profiles: Path | None = None
    #: For pollux: with "none" only run times count. Otherwise jobs progress as measured on any GPUs, with
    #: their own size and batch, with any size, or with any size and batch.
    scaling: Literal["none", "rigid", "resizable", "adaptive"] = "none"


_CHOICES = {
    "estimates": ("exact", "none"),
    "tenants": ("virtual_cluster", "user"),
    "best_effort": ("guaranteed", "opportunistic"),
    "scaling": ("none", "rigid", "resizable", "adaptive"),
}
_COUNTS = ("gpus_per_node", "largest_gpus")


def parse_options(texts: Mapping[str, str], options: TraceOptions | None = None) -> TraceOptions:
    """Return the options changed by what the user wrote, such as {"estimate_error": "0.5"}."""
    given: dict[str, Any] = {}
    known = [field.name for field in fields(TraceOptions) if field.name != "throughputs"]
    for name, text in texts.items():
        if name not in known:
            raise InputError(f"there is no trace option {name!r}; choose {wording.either(sorted(known))}")
        given[name] = _value(name, text)
    return replace(options or TraceOptions(), **given)


def _value(name: str, text: str) -> Any:
    if name in _CHOICES:
        if text not in _CHOICES[name]:
            raise InputError(f"{name}: {text!r} is not {wording.either(_CHOICES[name])}")
        return text
    if name == "profiles":
        return Path(text)
    if name == "gpu_models":
        return frozenset(text.split("|"))
    try:
        if name == "estimate_error":
            sigma = float(text)
            if not 0 <= sigma <= 10:
                raise ValueError
            return sigma
        value = int(text)
        if name in _COUNTS and value < 1:
            raise ValueError
        return value
    except ValueError:
        what = "a number from 0 to 10" if name == "estimate_error" else "a whole number"
        least = " of at least 1" if name in _COUNTS else ""
        raise InputError(f"{name}: {text!r} is not {what}{least}") from None
