"""A plan as remembered from round to round, and the facts that it was made for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.core.building_blocks.service import INSTANT_SECONDS
from scheduler.core.model.snapshot import JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a plan is made for: it is made again when this changes."""

    #: By job; 0 where it was not reported.
    batch_sizes: Mapping[JobId, int]
    #: GPUs to hand out, by model.
    gpus: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSchedule:
    """Which jobs run on which GPU model in each round from `at` on."""

    at: float
    round_seconds: float
    rounds: tuple[Mapping[JobId, str], ...]
    facts: Facts
    #: The last round that was begun; -1: none.
    begun: int = -1

    def round_at(self, now: float) -> int:
        """Return the number of the round; negative before the first."""
        return int((now - self.at + INSTANT_SECONDS) // self.round_seconds)

    def begins(self, number: int) -> float:
        return self.at + number * self.round_seconds

    def holds(self, now: float, facts: Facts) -> bool:
        """Whether the plan decides which jobs run now. Changes count when the next round begins."""
        number = self.round_at(now)
        return number == self.begun or (0 <= number < len(self.rounds) and facts == self.facts)

    def runs_in(self, number: int) -> Mapping[JobId, str]:
        """Return the model of each job that runs in that round."""
        return self.rounds[number] if number < len(self.rounds) else {}

    def first_round(self, job: JobId, number: int) -> int | None:
        """Return the first round of the job from that one on; None when it has none."""
        later = range(number, len(self.rounds))
        return next((each for each in later if job in self.rounds[each]), None)

    def to_json(self) -> dict[str, Any]:
        """Return what `remembered` takes; rounds are `runs`, {model: {job: [number, ...]}}."""
        runs: dict[str, dict[str, list[int]]] = {}
        for number, models in enumerate(self.rounds):
            for job, model in sorted(models.items()):
                runs.setdefault(model, {}).setdefault(str(job), []).append(number)
        return {
            "at": self.at,
            "round_seconds": self.round_seconds,
            "rounds": len(self.rounds),
            "begun": self.begun,
            "runs": runs,
            "batch_sizes": {str(job): size for job, size in sorted(self.facts.batch_sizes.items())},
            "gpus": dict(sorted(self.facts.gpus.items())),
        }


def remembered(memory: Mapping[str, Any]) -> RoundSchedule:
    """Return what `to_json` gave."""
    rounds: list[dict[JobId, str]] = [{} for _ in range(memory["rounds"])]
    for model, jobs in memory["runs"].items():
        for job, numbers in jobs.items():
            for number in numbers:
                rounds[number][JobId(int(job))] = model
    batch_sizes = {JobId(int(job)): size for job, size in memory["batch_sizes"].items()}
    return RoundSchedule(
        at=memory["at"],
        round_seconds=memory["round_seconds"],
        rounds=tuple(rounds),
        facts=Facts(batch_sizes=batch_sizes, gpus=memory["gpus"]),
        begun=memory["begun"],
    )
