"""The input of a planning window: how much each job needs, and how many GPUs there are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bidder:
    """A gang that would run in some of the coming rounds. Times are those on the model it is fastest on."""

    #: Its name in the timetable; among equal bidders the lower number goes first.
    number: int
    #: In the unit of the window.
    gpus: int
    #: By GPU model, relative to the fastest: 0 where it does not run.
    speeds: tuple[float, ...]
    #: Part of its epochs that is done, from 0 to below 1.
    done: float
    #: Seconds that it still has to run; above 0.
    left_seconds: float
    #: Seconds from now to its fair end; negative when that is past.
    due_seconds: float
    #: Seconds from submission to its end with its uniform share from now on, divided by those to its fair
    #: end.
    lateness: float
    #: GPU model that it runs on now, by place; -1: none.
    runs_on: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningWindow:
    """Rounds of GPUs, and by priority, the highest first, the gangs that would run in them."""

    #: By model; in thousandths of a GPU where some gangs have parts.
    gpus: tuple[int, ...]
    rounds: int
    round_seconds: float
    #: Part of its time that each job would have if all had the same: above 0, at most 1.
    uniform_share: float
    #: The value of shortening the longest remaining run by a second, relative to the mean utility of a round.
    makespan_weight: float
    #: How much later than fair a job may end; a factor.
    fairness_bound: float
    #: Power of its lateness by which the utility of a late job counts more.
    fairness_power: float
    #: The most seconds for solving one program.
    solve_seconds: float
    levels: tuple[tuple[Bidder, ...], ...]
