"""Which configuration each job gets: the integer program of Sia (SOSP'23, section 3.4).

A configuration is a number of GPUs of one model; a job gets one of its configurations or waits. A
configuration's utility is its goodput relative to the job's lowest, times the fewest GPUs that the job runs
on, so that a rigid gang of four counts as four GPUs that scale perfectly. With the power p, the penalty λ for
waiting and the restart factor r of every configuration but the present one, the program is

    minimise   Σ (r·utility)^p + λ·(jobs that wait)      for p < 0
    maximise   Σ (r·utility)^p - λ·(jobs that wait)      for p > 0

with the GPUs of each model as its only limits. Constants are left out, as the solver's gap is relative: over
waiting, a job gains λ - (r·utility)^p, or λ + (r·utility)^p, by a configuration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.core.goodput.batch import GoodputModel, best_batches
from scheduler.core.goodput.throughput import Floats, Ints

#: How far from the optimum a solution may be, relative to it.
GAP = 1e-4
#: Branches after which the best solution so far is taken; unlike a time limit, equal on every machine.
NODES = 200
#: The bonus of a job's present configuration over an equal one, so that equal jobs do not swap.
KEEP = 1e-3
#: The lower bound of a utility after a restart; a power of 0 would not be finite.
LEAST_UTILITY = 1e-6
#: The status of SciPy's `milp` for a solution within the gap of the optimum.
_OPTIMAL = 0


@dataclass(frozen=True, slots=True)
class Configuration:
    """GPUs of one model, by its place in the program."""

    model: int
    gpus: int
    #: How many nodes these are on.
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A job as the program sees it."""

    configurations: tuple[Configuration, ...]
    #: By place of the model: its goodput model; None: goodput is `speeds` times GPUs.
    goodput: tuple[GoodputModel | None, ...]
    speeds: tuple[float, ...]
    #: GPUs of a replica, and of the fewest replicas.
    replica_gpus: int = 1
    least_gpus: int = 1
    #: Place of its present configuration; -1: it waits.
    present: int = -1
    #: The factor by which a change of configuration reduces its utility.
    restart_factor: float = 1.0
    #: Higher ones choose first, in a program of their own.
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The parameters of the program, and the most seconds for solving it."""

    power: float
    penalty: float
    seconds: float


@dataclass(frozen=True, slots=True)
class _Choices:
    """Configurations of some candidates, in columns of one length; those that gain nothing are left out."""

    candidate: Ints
    place: Ints
    model: Ints
    gpus: Ints
    gain: Floats

    def __len__(self) -> int:
        return len(self.gain)


def choose(candidates: Sequence[Candidate], room: Sequence[int], terms: Terms) -> tuple[int, ...]:
    """Return the place of each candidate's configuration, -1 for one that waits; `room` is GPUs by model."""
    chosen, left = [-1] * len(candidates), np.array(room, dtype=np.int64)
    utilities = utilities_of(candidates)
    for priority in sorted({candidate.priority for candidate in candidates}, reverse=True):
        level = [number for number, each in enumerate(candidates) if each.priority == priority]
        choices = _choices_of(candidates, utilities, level, left, terms)
        for entry in _solve(choices, left, terms.seconds):
            chosen[int(choices.candidate[entry])] = int(choices.place[entry])
            left[choices.model[entry]] -= choices.gpus[entry]
    return tuple(chosen)


def utilities_of(candidates: Sequence[Candidate]) -> list[Floats]:
    """Return the utility of each configuration of each candidate; 0 where it makes no progress.

    The least that is above 0 is the fewest GPUs that the job runs on.
    """
    found = []
    for each, goodput in zip(candidates, _goodputs(candidates), strict=True):
        least = min(goodput[goodput > 0], default=1.0)
        found.append(goodput / least * each.least_gpus)
    return found


def _goodputs(candidates: Sequence[Candidate]) -> list[Floats]:
    """Return the goodput of each configuration; all that follow from goodput models at once."""
    found = [
        np.array(
            [each.speeds[option.model] * option.gpus for option in each.configurations], dtype=np.float64
        )
        for each in candidates
    ]
    models: list[GoodputModel] = []
    rows: list[tuple[int, int, int, int, int]] = []
    for number, each in enumerate(candidates):
        places = {}
        for model, known in enumerate(each.goodput):
            if known is not None:
                places[model] = len(models)
                models.append(known)
        for place, option in enumerate(each.configurations):
            if option.model in places:
                replicas = option.gpus // each.replica_gpus
                nodes = min(option.nodes, replicas)
                rows.append((number, place, places[option.model], nodes, replicas))
    if rows:
        _, _, which, nodes, replicas = np.array(rows, dtype=np.int64).T
        best = best_batches(models, which, nodes, replicas).goodput
        for (number, place, *_), value in zip(rows, best.tolist(), strict=True):
            found[number][place] = value
    return found


def _choices_of(
    candidates: Sequence[Candidate],
    utilities: Sequence[Floats],
    level: Sequence[int],
    room: Ints,
    terms: Terms,
) -> _Choices:
    rows: list[tuple[int, int, int, int]] = []
    gains: list[float] = []
    for number in level:
        each = candidates[number]
        sign = 1.0 if terms.power < 0 else -1.0
        for place, option in enumerate(each.configurations):
            kept = place == each.present
            factor = 1.0 if kept or each.present < 0 else each.restart_factor
            utility = float(utilities[number][place]) * factor
            if utility <= LEAST_UTILITY and not kept:
                continue
            gain = terms.penalty - sign * max(utility, LEAST_UTILITY) ** terms.power
            # A running job is not stopped because waiting would cost less.
            gain = max(gain, 0.0) + KEEP if kept else gain
            if gain > 0 and option.gpus <= room[option.model]:
                rows.append((number, place, option.model, option.gpus))
                gains.append(gain)
    columns: Ints = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return _Choices(
        candidate=columns[:, 0],
        place=columns[:, 1],
        model=columns[:, 2],
        gpus=columns[:, 3],
        gain=np.array(gains, dtype=np.float64),
    )


def _solve(choices: _Choices, room: Ints, seconds: float) -> list[int]:
    """Return the entries of the best choices that were found, ascending."""
    if not len(choices):
        return []
    best = _best_of_each(choices)
    if np.all(np.bincount(choices.model[best], choices.gpus[best], len(room)) <= room):
        return best  # Every candidate gets its best choice.
    found = _maximise(choices, room, seconds, whole=True)
    if found is not None and found[1]:
        whole: list[int] = np.flatnonzero(found[0] > 0.5).tolist()
        return whole
    relaxed = _maximise(choices, room, seconds, whole=False)
    rounded = rounding(choices, room, relaxed[0] if relaxed is not None else np.zeros(len(choices)))
    if found is None:
        return rounded
    searched: list[int] = np.flatnonzero(found[0] > 0.5).tolist()
    return max(searched, rounded, key=lambda entries: float(choices.gain[entries].sum()))


def _best_of_each(choices: _Choices) -> list[int]:
    """Return the choice by which each candidate gains most; among equal ones the one with fewer GPUs."""
    order = np.lexsort((choices.gpus, -choices.gain, choices.candidate))
    is_first = np.append(True, np.diff(choices.candidate[order]) > 0)
    found: list[int] = np.sort(order[is_first]).tolist()
    return found


def _maximise(
    choices: _Choices, room: Ints, seconds: float, *, whole: bool
) -> tuple[NDArray[np.float64], bool] | None:
    """Return a solution, and whether it is known to be within the gap; None where none was found."""
    # SciPy takes half a second to load, and most processes that know this never compute with it.
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array, vstack

    entries = np.arange(len(choices))
    _, row = np.unique(choices.candidate, return_inverse=True)
    one_each = csr_array((np.ones(len(choices)), (row, entries)), (int(row.max()) + 1, len(choices)))
    takes = csr_array((choices.gpus.astype(float), (choices.model, entries)), (len(room), len(choices)))
    most = np.concatenate([np.ones(one_each.shape[0]), room.astype(np.float64)])
    found = milp(
        -choices.gain,
        integrality=np.full(len(choices), int(whole)),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(vstack([one_each, takes]), -np.inf, most),
        options={"mip_rel_gap": GAP, "time_limit": seconds, "node_limit": NODES},
    )
    return None if found.x is None else (np.asarray(found.x, dtype=np.float64), found.status == _OPTIMAL)


def rounding(choices: _Choices, room: Ints, parts: Floats) -> list[int]:
    """Return choices that fit, one for each candidate: by their part in the relaxed solution, then by gain
    for each GPU.
    """
    order = np.lexsort((-choices.gain / choices.gpus, -parts))
    left, served, taken = room.copy(), set[int](), []
    for entry in order.tolist():
        who, model, gpus = int(choices.candidate[entry]), choices.model[entry], choices.gpus[entry]
        if who not in served and gpus <= left[model]:
            served.add(who)
            left[model] -= gpus
            taken.append(entry)
    return sorted(taken)
