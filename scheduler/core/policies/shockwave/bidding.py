"""What a planning window is made of: how much each job needs, and what there is of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bidder:
    """A gang that would run in some of the coming rounds. Times are those on the model it is fastest on."""

    #: Its name in the timetable; of equal bidders the one with the lower goes first.
    number: int
    #: In the unit of the window.
    gpus: int
    #: By GPU model, relative to the fastest: 0 where it does not run.
    speeds: tuple[float, ...]
    #: Part of its epochs that is done, from 0 to below 1.
    done: float
    #: How long it runs on in all; above 0.
    left_seconds: float
    #: By when it ought to end, seconds from now; negative when that is past.
    due_seconds: float
    #: How long after its submission it ends with its uniform share from now on, by how long it ought to.
    lateness: float
    #: GPU model that it runs on now, by place; -1: none.
    runs_on: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningWindow:
    """Rounds of GPUs, and by priority, the highest first, the gangs that would run in them."""

    #: By model; where some bid for parts of GPUs, in thousandths of one.
    gpus: tuple[int, ...]
    rounds: int
    round_seconds: float
    #: Part of its time that each job would have if all had the same: above 0, at most 1.
    uniform_share: float
    #: What a second less of the longest run that remains is worth, against the mean utility of a round.
    makespan_weight: float
    #: How much later than fair a job may end; a factor.
    fairness_bound: float
    #: Power of its lateness by which the utility of a late job counts more.
    fairness_power: float
    #: Longest that one program is worked on.
    solve_seconds: float
    levels: tuple[tuple[Bidder, ...], ...]
