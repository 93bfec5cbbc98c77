"""Decide consecutive rounds with a kept engine, whose cost depends on what changed since the last one."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, TypeVar

from scheduler.core.building_blocks.computing import Compute, Timekeeper, of_view, run_inline, untimed
from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.round.decide import decided_by
from scheduler.core.round.engine import RoundEngine
from scheduler.core.round.gc_paused import gc_paused
from scheduler.core.round.taking_in import News, take_in

T = TypeVar("T")

#: The most characters printed of each of two values that differ.
_MOST_CHARACTERS = 200


@dataclass(slots=True)
class _LastRound:
    """An engine and its last plan."""

    engine: RoundEngine
    plan: Plan
    #: Until this instant the plan also holds for the same facts.
    stands_until: float
    #: Rounds decided since the engine was new.
    age: int = 0


class Rounds:
    """Decides snapshot after snapshot, each as `decide()` would.

    The engine of the last round is kept as long as `take_in` can apply all differences to it. It is not kept
    while a round is decided, so an interrupted round leaves no trace.

    Every `compared_every` rounds a new engine decides the snapshot, too; its plan is returned, and it
    replaces the old engine. So an engine's growth is bounded by what comes and goes in between.
    """

    def __init__(self, compared_every: int) -> None:
        self._compared_every = compared_every
        self._kept: _LastRound | None = None
        #: The first difference between the kept and the new engine in the last comparison; empty if none.
        self.difference = ""

    @gc_paused()
    def decide(
        self,
        snapshot: Snapshot,
        compute: Compute = run_inline,
        overran: Mapping[str, str] | None = None,
        timekeeper: Timekeeper = untimed,
    ) -> Plan:
        """Return the plan of `decide()` with the same arguments, and raise what it raises."""
        self.difference = ""
        kept, self._kept = self._kept, None
        news = News.TOO_MUCH if kept is None else take_in(kept.engine.facts, snapshot)
        if kept is None or news is News.TOO_MUCH:
            kept = _anew(snapshot, compute, overran, timekeeper)
            self._kept = kept
            return kept.plan
        kept.age += 1
        answers, is_compared = _Answers(compute), kept.age >= self._compared_every
        try:
            if news is News.NONE and not overran and snapshot.now < kept.stands_until:
                kept.plan = replace(kept.plan, round_number=snapshot.round_number)
            else:
                kept.engine.attempt(answers if is_compared else compute, overran, timekeeper)
                kept.plan, kept.stands_until = decided_by(kept.engine, snapshot)
        except Exception as error:
            self.difference = f"it raised {error!r}"[:_MOST_CHARACTERS]
            right = _anew(snapshot, compute, overran, timekeeper)
        else:
            # A policy's computing time does not follow from the snapshot, so compare the next round instead.
            if not is_compared or kept.plan.overran:
                self._kept = kept
                return kept.plan
            right = _anew(snapshot, answers.again, overran, timekeeper)
            if not right.plan.overran:
                self.difference = first_difference(kept.plan, right.plan)
        self._kept = right
        return right.plan


def _anew(
    snapshot: Snapshot, compute: Compute, overran: Mapping[str, str] | None, timekeeper: Timekeeper
) -> _LastRound:
    engine = RoundEngine(snapshot, compute, overran, timekeeper=timekeeper)
    return _LastRound(engine, *decided_by(engine, snapshot))


@dataclass(slots=True)
class _Answers:
    """A Compute that reuses the answers of one plan for another plan of the same snapshot.

    Computing twice would take twice the time, which a round may not have.
    """

    compute: Compute
    #: By view and question; the values of a question cannot always be compared by ==.
    _given: dict[tuple[str, bytes], Any] = field(default_factory=dict)

    def __call__(self, function: Callable[..., T], /, *arguments: Any, **keywords: Any) -> T:
        return self._noted("", function, *arguments, **keywords)

    def of_view(self, view: str) -> Compute:
        return partial(self._noted, view)

    def _noted(self, view: str, function: Callable[..., T], /, *arguments: Any, **keywords: Any) -> T:
        answer = of_view(self.compute, view)(function, *arguments, **keywords)
        self._given[view, pickle.dumps((function, arguments, keywords))] = answer
        return answer

    @property
    def again(self) -> Compute:
        """Return a Compute that repeats earlier answers, and computes others."""
        return _Again(self.compute, self._given)


@dataclass(slots=True)
class _Again:
    compute: Compute
    given: Mapping[tuple[str, bytes], Any]

    def __call__(self, function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
        return self._answered("", function, *arguments, **keywords)

    def of_view(self, view: str) -> Compute:
        return partial(self._answered, view)

    def _answered(self, view: str, function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
        question = view, pickle.dumps((function, arguments, keywords))
        if question in self.given:
            return self.given[question]
        return of_view(self.compute, view)(function, *arguments, **keywords)


def first_difference(plan: Plan, right: Plan) -> str:
    """Return the first difference of two plans; empty if there is none."""
    for name in [each.name for each in fields(Plan)]:
        ours, other = getattr(plan, name), getattr(right, name)
        if ours != other:
            return _where(name, ours, other)
    return ""


def _where(name: str, ours: Any, other: Any) -> str:
    if isinstance(ours, Mapping) and isinstance(other, Mapping):
        key = next(key for key in (*other, *ours) if ours.get(key) != other.get(key))
        return _where(f"{name} of {key}", ours.get(key), other.get(key))
    if isinstance(ours, tuple) and isinstance(other, tuple):
        both = zip(ours, other, strict=False)
        place = next(
            (place for place, (one, two) in enumerate(both) if one != two), min(len(ours), len(other))
        )
        ours, other = ours[place : place + 1], other[place : place + 1]
        name = f"{name}, number {place + 1}"
    return f"{name}: {str(ours)[:_MOST_CHARACTERS]} instead of {str(other)[:_MOST_CHARACTERS]}"
