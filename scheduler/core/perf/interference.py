"""Predict how fast a job is beside another on the same GPUs, for pairs not measured, by a regression tree.

Q. Hu et al., "Lucid: A Non-intrusive, Scalable and Interpretable Scheduler for Deep Learning Training Jobs",
ASPLOS 2023, section 3.3, fits a tree on measured pairs, which predicts from the profile of one job how much
it slows others down. This tree reads the profiles of both jobs and predicts the speed of one of them,
relative to having the GPUs alone. It is a tree of Breiman et al. (CART): each question is the one that leaves
the least variance. It is `DEPTH` questions deep, with at least `LEAST_SAMPLES` speeds behind every answer, so
that people can read all of it (`rules_of`).

A pair with an unknown figure takes the branch that most pairs with a known figure took.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.core.model.interference import Branch
from scheduler.core.model.training import Profile
from scheduler.core.perf.interleaving import cycles_seconds

Floats = NDArray[np.float64]

#: The figures of a pair, in words that follow "where": parts of the time, GiB, and the speed by Muri's rule.
FIGURES: Mapping[str, str] = {
    "own_compute": "it computes",
    "partner_compute": "its partner computes",
    "both_compute": "both together compute",
    "own_memory": "it keeps the memory busy",
    "partner_memory": "its partner keeps the memory busy",
    "both_memory": "both together keep the memory busy",
    "both_gib": "both together occupy",
    "stages_speed": "the stages of their iterations leave it",
}
_GIB = 2**30
DEPTH = 4
LEAST_SAMPLES = 10
#: Fewer measured pairs make no tree.
LEAST_PAIRS = 20
FOLDS = 5


class MeasuredPair(NamedTuple):
    """A measured pair: the two applications, their profiles alone, and how fast each is beside the other."""

    applications: tuple[str, str]
    profiles: tuple[Profile, Profile]
    speeds: tuple[float, float]


def measured_of(
    pairs: Iterable[tuple[tuple[str, str], tuple[float, float]]], profiles: Mapping[str, Profile]
) -> Iterator[MeasuredPair]:
    """Yield the measured pairs of applications that both have profiles."""
    for applications, speeds in pairs:
        first, second = [profiles.get(application) for application in applications]
        if first is not None and second is not None:
            yield MeasuredPair(applications, (first, second), speeds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictor:
    """A tree and its error."""

    tree: tuple[Branch, ...]
    #: The number of pairs of applications that it was fitted on.
    pairs: int
    #: The mean absolute difference of predicted and measured speeds, for pairs that were held out of the fit.
    error: float
    #: The same difference if the mean speed of the other pairs were predicted for all.
    error_of_mean: float


def fitted(measured: Iterable[MeasuredPair]) -> Predictor | None:
    """Return the predictor fitted to these pairs; None if too few have known profiles of both jobs."""
    groups: dict[tuple[str, ...], list[MeasuredPair]] = {}
    for pair in measured:
        if all(_is_known(profile) for profile in pair.profiles):
            groups.setdefault(tuple(sorted(pair.applications)), []).append(pair)
    if len(groups) < LEAST_PAIRS:
        return None
    # Both sides of a pair, and all its measurements, are held out together.
    fold = np.array([place % FOLDS for place, name in enumerate(sorted(groups)) for _ in groups[name] * 2])
    pairs = [pair for name in sorted(groups) for pair in groups[name]]
    own = [profile for pair in pairs for profile in pair.profiles]
    partners = [profile for pair in pairs for profile in reversed(pair.profiles)]
    figures = _figures(_columns(own), _columns(partners))
    speeds = np.array([min(1.0, max(0.0, speed)) for pair in pairs for speed in pair.speeds])
    errors, of_mean = np.zeros(len(speeds)), np.zeros(len(speeds))
    for number in range(FOLDS):
        out = fold == number
        tree = _tree(figures[~out], speeds[~out])
        errors[out] = np.abs(_answers(tree, figures[out]) - speeds[out])
        of_mean[out] = np.abs(speeds[~out].mean() - speeds[out])
    return Predictor(
        tree=_tree(figures, speeds),
        pairs=len(groups),
        error=float(errors.mean()),
        error_of_mean=float(of_mean.mean()),
    )


def predicted(
    tree: Sequence[Branch], own: Sequence[Profile | None], partners: Sequence[Profile | None]
) -> list[float | None]:
    """Return how fast each job is beside its partner; None where it is unknown how busy both are."""
    ask = [
        place
        for place, pair in enumerate(zip(own, partners, strict=True))
        if tree and all(_is_known(profile) for profile in pair)
    ]
    answers: list[float | None] = [None] * len(own)
    if ask:
        columns = [_columns([each[place] for place in ask]) for each in (own, partners)]
        for place, speed in zip(ask, _answers(tree, _figures(*columns)).tolist(), strict=True):
            answers[place] = speed
    return answers


def rules_of(tree: Sequence[Branch]) -> list[str]:
    """Return every answer of a tree as a line that people can read, the slowest first."""
    found: list[tuple[float, str]] = []
    if not tree:
        return []
    open_: list[tuple[int, dict[str, tuple[float, float]]]] = [(0, {})]
    while open_:
        place, limits = open_.pop()
        branch = tree[place]
        if branch.figure:
            low, high = limits.get(branch.figure, (-math.inf, math.inf))
            open_.append((branch.below, {**limits, branch.figure: (low, branch.bound)}))
            open_.append((branch.above, {**limits, branch.figure: (branch.bound, high)}))
        else:
            names = [figure for figure in FIGURES if figure in limits]
            where = " and ".join([_condition(figure, *limits[figure]) for figure in names])
            rule = f"{branch.speed:.0%} of its speed alone ({branch.samples} measured)"
            found.append((branch.speed, f"Where {where}: {rule}." if where else f"Always {rule}."))
    return [rule for _, rule in sorted(found)]


def _condition(figure: str, low: float, high: float) -> str:
    if low == -math.inf:
        amount = f"less than {_amount(figure, high)}"
    elif high == math.inf:
        amount = f"{_amount(figure, low)} or more"
    else:
        amount = f"{_amount(figure, low)} to {_amount(figure, high)}"
    return f"{FIGURES[figure]} {amount}"


def _amount(figure: str, value: float) -> str:
    if figure == "both_gib":
        return f"{value:.3g} GiB"
    return f"{value:.0%} of its speed" if figure == "stages_speed" else f"{value:.0%} of the time"


def _is_known(profile: Profile | None) -> bool:
    return profile is not None and profile.utilisation is not None


def _columns(profiles: Sequence[Profile | None]) -> Floats:
    """Return compute, memory, GiB and three stages of each: shape (profiles, 6), NaN where unknown."""
    rows = []
    for profile in profiles:
        profile = profile or Profile()
        stages = profile.stages if profile.stages and sum(profile.stages) > 0 else (None, None, None)
        gib = None if profile.memory_bytes is None else profile.memory_bytes / _GIB
        rows.append((profile.utilisation, profile.memory_utilisation, gib, *stages))
    return np.array(rows, dtype=np.float64).reshape(-1, 6)


def _figures(own: Floats, partners: Floats) -> Floats:
    """Return `FIGURES` of each pair, shape (pairs, figures)."""
    both = own + partners
    speed = np.full(len(own), np.nan)
    staged = ~np.isnan(both[:, 3:]).any(axis=1)
    if staged.any():
        stages = np.stack([own[staged, 3:], partners[staged, 3:]], axis=1)
        speed[staged] = np.minimum(1.0, stages[:, 0].sum(axis=1) / cycles_seconds(stages))
    compute, memory = [[own[:, place], partners[:, place], both[:, place]] for place in (0, 1)]
    return np.stack([*compute, *memory, both[:, 2], speed], axis=1)


def _tree(figures: Floats, speeds: Floats) -> tuple[Branch, ...]:
    """Return the tree of these pairs, grown level by level."""
    tree: list[Branch] = []
    members = [np.arange(len(speeds))]
    depths = [0]
    while len(tree) < len(members):
        place = len(tree)
        here, depth = members[place], depths[place]
        branch = Branch(speed=float(speeds[here].mean()), samples=len(here))
        split = _best_split(figures[here], speeds[here]) if depth < DEPTH else None
        if split is not None:
            column, bound = split
            values = figures[here, column]
            low, high = values < bound, values >= bound
            # NaN is in neither side.
            side = low if low.sum() >= high.sum() else high
            is_unknown = np.isnan(values)
            below, above = len(members), len(members) + 1
            members += [here[each | is_unknown if each is side else each] for each in (low, high)]
            depths += [depth + 1] * 2
            branch = replace(
                branch,
                figure=list(FIGURES)[column],
                bound=bound,
                below=below,
                above=above,
                unknown=below if side is low else above,
            )
        tree.append(branch)
    return tuple(tree)


def _best_split(figures: Floats, speeds: Floats) -> tuple[int, float] | None:
    """Return the column and the bound that leave the least variance; None if nothing separates the pairs."""
    best: tuple[int, float] | None = None
    most = 1e-9
    for column in range(figures.shape[1]):
        known = ~np.isnan(figures[:, column])
        order = np.argsort(figures[known, column], kind="stable")
        values, ordered = figures[known, column][order], speeds[known][order]
        count = len(values)
        if count < 2 * LEAST_SAMPLES:
            continue
        places = np.arange(LEAST_SAMPLES, count - LEAST_SAMPLES + 1)
        places = places[values[places] > values[places - 1]]
        if not len(places):
            continue
        sums = np.cumsum(ordered)
        left, total = sums[places - 1], sums[-1]
        # How much the split reduces the squared differences from the mean.
        gains = left**2 / places + (total - left) ** 2 / (count - places) - total**2 / count
        place = int(np.argmax(gains))
        if gains[place] > most:
            cut = places[place]
            best, most = (column, float((values[cut - 1] + values[cut]) / 2)), float(gains[place])
    return best


def _answers(tree: Sequence[Branch], figures: Floats) -> Floats:
    columns = {figure: column for column, figure in enumerate(FIGURES)}
    answers = np.zeros(len(figures))
    members = {0: np.arange(len(figures))}
    while members:
        place, here = members.popitem()
        branch = tree[place]
        if not branch.figure:
            answers[here] = branch.speed
            continue
        values = figures[here, columns[branch.figure]]
        sides = [(branch.below, values < branch.bound), (branch.above, values >= branch.bound)]
        for there, goes in sides:
            if there == branch.unknown:
                goes = goes | np.isnan(values)
            members[there] = here[goes]
    return answers
