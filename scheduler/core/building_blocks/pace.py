"""How long a job will run by its own steps: measured overrules declared, which overrules limit and default.

A job whose progress lines state `step` and `total_steps` shows how far it has come; the time of its steps
shows how long the rest will take. Its whole run time is the time so far plus the remaining steps, each as
long as the timed ones. Work is GPU-seconds by model, counted by the job's speed there.

- The time between two lines of one attempt counts if the attempt did not share its GPUs. So starting,
  restoring and jobs on the same GPUs do not make steps look slower, and a job that begins in the middle, from
  another checkpoint, does not look fast.
- An attempt that begins at an earlier step than the last one reached repeats the steps between. Their first
  time was used as well, so the whole run time becomes longer.
- A counter that goes back within an attempt counts something other than the whole job, such as the steps of
  an epoch. From then on the job's progress is ignored.
- If the total changes, the newest counts. A job that runs on after all its steps has nothing left, and has
  outlived its run time like any other (`run_time`).
- The measurement replaces the declared time once the timed steps took `LEAST_SECONDS` and are `LEAST_PART` of
  the total; a shorter sample predicts little and is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from scheduler.core.building_blocks.run_time import LONGEST_SECONDS, relative_rates

#: A line counts if it comes this long after the last one that counted; the last line of an attempt also
#: counts.
EVERY_SECONDS = 60.0
LEAST_SECONDS = 60.0
LEAST_PART = 0.01
#: No job counts more steps than this.
MOST_STEPS = 2.0**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A progress line: its attempt, time, GPUs and contents."""

    attempt: int
    #: Grows within an attempt.
    sequence: int
    #: By the clock of all lines of the attempt.
    at: float
    step: float
    total_steps: float
    gpu_model: str
    #: A part of a GPU counts as a fraction.
    gpus: float
    #: Whether the attempt has not shared its GPUs since the line before.
    is_alone: bool
    #: GPU-seconds that the job has had by now, by model.
    service: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The state after a progress line."""

    attempt: int = 0
    sequence: int = 0
    at: float = 0.0
    step: float = 0.0
    total_steps: float = 0.0
    #: GPU-seconds received by then, by model.
    service: Mapping[str, float] = field(default_factory=dict)
    #: Steps that were timed, and the GPU-seconds by model that they took.
    timed_steps: float = 0.0
    timed: Mapping[str, float] = field(default_factory=dict)
    #: Whether its counter went back, so that it counts something else.
    is_void: bool = False

    def after(self, line: Line) -> Pace:
        """Return the state after one more line; unchanged if the line was counted already or states no
        steps.
        """
        counted = (line.attempt, line.sequence) <= (self.attempt, self.sequence)
        if counted or not (0 <= line.step <= MOST_STEPS and 0 < line.total_steps <= MOST_STEPS):
            return self
        goes_on = line.attempt == self.attempt
        steps = line.step - self.step
        known = Pace(
            attempt=line.attempt,
            sequence=line.sequence,
            at=line.at,
            step=line.step,
            total_steps=line.total_steps,
            service=line.service,
            timed_steps=self.timed_steps,
            timed=self.timed,
            is_void=self.is_void or (goes_on and steps < 0),
        )
        took = (line.at - self.at) * line.gpus
        if not (goes_on and line.is_alone and steps >= 0 and 0 < took <= LONGEST_SECONDS * line.gpus):
            return known
        timed = {**self.timed, line.gpu_model: self.timed.get(line.gpu_model, 0.0) + took}
        return replace(known, timed_steps=self.timed_steps + steps, timed=timed)

    def is_trusted(self, gpus: float) -> bool:
        """Whether it was timed for long enough; `gpus` is the size of the job's own gang."""
        return (
            not self.is_void
            and self.timed_steps > 0
            and self.timed_steps >= LEAST_PART * self.total_steps
            and sum(self.timed.values()) >= LEAST_SECONDS * gpus
        )


def measured_seconds(pace: Pace, gpus: float, throughput: Mapping[str, float]) -> float | None:
    """Return how long the job's own gang runs in all, alone on the fastest model that its throughput names.

    None: too little was measured, or the result is not usable.
    """
    if not gpus or not pace.is_trusted(gpus):
        return None
    speeds = relative_rates(throughput, [*pace.timed, *pace.service])
    # It ran there, whatever its throughput says.
    took = sum([seconds * (speeds[model] or 1.0) for model, seconds in pace.timed.items()])
    had = sum([seconds * speeds[model] for model, seconds in pace.service.items()])
    left = max(0.0, pace.total_steps - pace.step) * took / pace.timed_steps
    return min((had + left) / gpus, LONGEST_SECONDS)
