"""Small markets for tests."""

from __future__ import annotations

from typing import Any

from scheduler.core.policies.shockwave.bidding import Bidder, PlanningWindow


def make_bidder(number: int, left_seconds: float = 1_000.0, **fields: Any) -> Bidder:
    """A gang of one GPU at its beginning, due long after all rounds."""
    values: dict[str, Any] = {
        "gpus": 1,
        "speeds": (1.0,),
        "done": 0.0,
        "due_seconds": 1e9,
        "lateness": 0.5,
    }
    return Bidder(number=number, left_seconds=left_seconds, **{**values, **fields})


def make_market(*levels: list[Bidder], **fields: Any) -> PlanningWindow:
    """Four rounds of 100 s on two GPUs of one model."""
    values: dict[str, Any] = {
        "gpus": (2,),
        "rounds": 4,
        "round_seconds": 100.0,
        "uniform_share": 0.5,
        "makespan_weight": 0.0,
        "fairness_bound": 1.0,
        "fairness_power": 5.0,
        "solve_seconds": 10.0,
    }
    return PlanningWindow(levels=tuple(map(tuple, levels)), **{**values, **fields})
