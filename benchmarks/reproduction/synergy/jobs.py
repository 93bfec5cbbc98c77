"""Jobs of the replay traces: iterations, how long one takes, what a job is fastest with."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.reproduction.synergy.optimal import Profile
from scheduler.core.building_blocks.auxiliary_shares import Need
from scheduler.simulation.errors import InputError

#: GB for each GPU in the published definitions, which the stored profiles have only in part.
_MEMORY = {"alexnet": 125.0, "shufflenet": 125.0, "m5": 187.5}
_LANGUAGE = {"bert", "gnmt", "lstm", "transformer", "vae"}
_MEMORY_OF_LANGUAGE, _MEMORY_OF_OTHERS = 20.0, 62.5
#: Rows and columns of the published matrices of speeds: CPUs, and memory in GB, for each GPU.
CPUS, MEMORY = (1, 2, 3, 4, 5, 6, 9, 12, 24), (20.83, 62.5, 125, 187.5, 250)


@dataclass(slots=True, eq=False)
class SynergyJob:
    """A job and its state; times in seconds."""

    number: int
    arrived_at: float
    iterations: int
    #: With the proportional share.
    iteration_seconds: float
    #: How many times as fast with what it needs.
    speedup: float
    need: Need
    #: Its speeds, by which OPT decides.
    profile: Profile
    #: By which the next round sorts: 1 after a round in which it was cut.
    believed_speedup: float
    done: int = 0
    attained_seconds: float = 0.0


def read_jobs(trace: Path, profiles: Path) -> list[SynergyJob]:
    """Return a trace's jobs with the profiles of servers with three CPUs for each GPU; raise InputError."""
    try:
        known = json.loads(profiles.read_text(encoding="utf-8"))["cpu_per_gpu_3"]
        with trace.open(encoding="utf-8", newline="") as file:
            return [_job(row, known) for row in csv.reader(file)]
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read: {error.strerror}") from None
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(f"{trace.name} is no replay trace of Synergy's: {error}") from None


def _job(row: list[str], known: dict[str, dict[str, Any]]) -> SynergyJob:
    number, model, arrival, iterations, gpus = row
    profile = known[f"{model}_{gpus}"]
    memory = _MEMORY_OF_LANGUAGE if model in _LANGUAGE else _MEMORY.get(model, _MEMORY_OF_OTHERS)
    return SynergyJob(
        number=int(number),
        arrived_at=float(arrival),
        iterations=int(iterations),
        iteration_seconds=profile["iter_time"],
        speedup=profile["speedup"],
        need=Need(int(gpus), (profile["cpus"], memory)),
        profile=Profile.of_matrix(int(gpus), CPUS, MEMORY[: len(profile["tput"][0])], profile["tput"]),
        believed_speedup=profile["speedup"],
    )
