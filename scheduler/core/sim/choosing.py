"""Choosing one option from each menu, within common limits, with the least sum of delays.

A multiple-choice knapsack with several constraints, solved exactly as a mixed-integer program (HiGHS). The
smallest sum is seldom worth every GPU that it costs: among all choices within `SLACK_PART` of it the cheapest
is taken, then the one with the least delay, then the one whose options come first.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

#: The sum of delays may exceed the least by this part of it, or by this many seconds a job.
SLACK_PART = 0.01
SLACK_SECONDS = 1.0

#: The tolerance of a solver that works with floating-point numbers; all rows are scaled to about one.
_EXACT = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One entry of a menu."""

    #: Sum over the jobs.
    delay_seconds: float
    cost: float
    #: By limit: the amount that this option takes.
    uses: Mapping[Hashable, float]


def choose(
    menus: Sequence[Sequence[Option]], limits: Mapping[Hashable, float], *, slack_seconds: float = 0.0
) -> tuple[int, ...] | None:
    """Return the index of the option chosen from each menu; None when no choice keeps all limits.

    For a lower cost, the delay may exceed the least by `slack_seconds` or `SLACK_PART` of it, if that is
    more.
    """
    if not menus:
        return ()
    program = _Program(menus, limits)
    delays = [option.delay_seconds for menu in menus for option in menu]
    costs = [option.cost for menu in menus for option in menu]
    places = [float(place) for menu in menus for place in range(len(menu))]
    least = program.minimise(delays)
    if least is None:
        return None
    program.keep_below(delays, least + max(SLACK_PART * least, slack_seconds))
    for values in (costs, delays):
        best = program.minimise(values)
        assert best is not None, "what was feasible stays so"
        program.keep_below(values, best)
    program.minimise(places)
    return program.chosen


class _Program:
    """A binary variable for each option; rows are added as goals are reached."""

    def __init__(self, menus: Sequence[Sequence[Option]], limits: Mapping[Hashable, float]) -> None:
        self._menus = menus
        options = [(number, option) for number, menu in enumerate(menus) for option in menu]
        self._count = len(options)
        one_each = np.zeros((len(menus), self._count))
        for column, (number, _) in enumerate(options):
            one_each[number, column] = 1.0
        self._rows: list[tuple[Any, Any, Any]] = [(one_each, 1.0, 1.0)]
        for limit, most in limits.items():
            uses = np.array([[float(option.uses.get(limit, 0.0)) for _, option in options]])
            self._rows.append((uses, -np.inf, most + _EXACT))
        self.chosen: tuple[int, ...] = ()

    def minimise(self, values: Sequence[float]) -> float | None:
        """Find the choice with the least sum of values, and return that; None when there is no choice."""
        # SciPy is slow to load, so only advice loads it.
        from scipy.optimize import Bounds, LinearConstraint, milp

        array = np.array(values)
        scale = max(1.0, float(np.abs(array).max()))
        found = milp(
            array / scale,
            integrality=np.ones(self._count),
            bounds=Bounds(0, 1),
            constraints=[LinearConstraint(*row) for row in self._rows],
            options={"mip_rel_gap": 0.0},
        )
        if found.x is None:
            return None
        taken = np.round(found.x).astype(bool)
        self.chosen = self._by_menu(taken)
        return float(array[taken].sum())

    def keep_below(self, values: Sequence[float], most: float) -> None:
        """Restrict later choices to those whose values sum to at most `most`."""
        array = np.array([values])
        scale = max(1.0, float(np.abs(array).max()))
        self._rows.append((array / scale, -np.inf, most / scale + _EXACT))

    def _by_menu(self, taken: Any) -> tuple[int, ...]:
        places, start = [], 0
        for menu in self._menus:
            places.append(int(np.argmax(taken[start : start + len(menu)])))
            start += len(menu)
        return tuple(places)
