"""The batch of an adaptive run: it measures what a step costs and what it is worth, and follows.

`run.adaptive_batch(...)` gives one. Around each step it times gradients and what is beyond them, measures how
noisy gradients are, counts progress in steps at the initial batch, and now and then chooses the batch again
for the replicas at hand.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from allot.training.batch_choice import Limits, Times, Way, best_way, goodput
from allot.training.errors import TrainingError
from allot.training.noise import RULES, GradientNoise, Rule
from allot.training.sampler import Sampler

#: Less is not worth a change of the batch (adaptdl, issue 27).
WORTHWHILE = 1.05
#: Iterations until the batch is chosen again: few after a change, then twice as many each time.
FIRST_CHOICE, RAREST_CHOICE = 16, 512
#: The cost of adapting is reported after this many iterations, those until the first choice not counted.
OVERHEAD_AFTER = 64
#: Times are reported over at least this long: shorter ones are too inexact, and the platform reads once a
#: second.
TOLD_SECONDS = 0.5


class AdaptiveBatch:
    """How large a batch is now, how it is computed, and by how much to raise the learning rate for it.

    All ranks do the same: `noise` is of numbers that all have, and the batch is rank 0's choice, by `agree`.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        replicas: int,
        rule: str | Rule | None = None,
        gpu_model: str = "",
        agree: Callable[[int], int] | None = None,
        is_first: bool = True,
        steps_before: int = 0,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        self.limits, self.replicas = limits, replicas
        self.noise = GradientNoise()
        self.use_rule(rule or "adascale")
        #: Whether the caller left the rule open, so that code that knows the optimiser may choose it.
        self.is_rule_open = rule is None
        #: Steps at the initial batch that the steps so far are worth, and samples had, over all replicas.
        self.progress, self.samples = float(steps_before), float(steps_before * limits.initial_batch)
        #: Now, or None where the time is unknown: on a GPU, while it works asynchronously.
        self.clock: Callable[[], float | None] = time.perf_counter
        #: Iterations since the process began.
        self.iterations = 0
        self._gpu_model = gpu_model
        self._agree, self._is_first = agree, is_first
        self._times = Times()
        self._way = limits.ways(replicas)[0]
        if state:
            self._restore(state)
        self._choose_at = self._interval = FIRST_CHOICE
        self._began: float | None = None
        self._computed: float | None = None
        # After a change the first iteration is slower than those that follow, and is not timed.
        self._is_new = True
        # Sums over iterations with this batch that no progress line has reported yet.
        self._gradient_seconds = self._iteration_seconds = 0.0
        self._timed = 0
        # Since the first choice: iterations, seconds of those that were timed, and seconds of measuring.
        self._overhead_from = FIRST_CHOICE
        self._all_timed, self._all_seconds, self._overhead_seconds = 0, 0.0, 0.0
        self._is_skipped = False

    @property
    def local_batch(self) -> int:
        """Samples of one gradient of one replica."""
        return self._way.local_batch

    @property
    def accumulation(self) -> int:
        """Gradients that a replica adds up before the one after which all synchronise."""
        return self._way.accumulation

    @property
    def batch_size(self) -> int:
        """Samples of a whole batch, over all replicas."""
        return self._way.batch(self.replicas)

    @property
    def scale(self) -> float:
        """Size of the batch relative to the initial one, at least 1."""
        return self.batch_size / self.limits.initial_batch

    @property
    def lr_factor(self) -> float:
        """The factor for the learning rate in this step."""
        return self.lr_factor_of(None)

    def lr_factor_of(self, group: int | None) -> float:
        """Return the factor for the learning rate of a group of parameters; None is all of them."""
        gain = self.noise.gain(self.scale, group)
        return self._rule(self.scale, gain, self.samples / self.limits.initial_batch)

    def use_rule(self, rule: str | Rule) -> None:
        """Raise the learning rate by this rule from now on. Raises TrainingError for an unknown name."""
        if isinstance(rule, str) and rule not in RULES:
            raise TrainingError(f"rule: {rule!r}; it must be one of {', '.join(RULES)}, or legw(...)")
        self._rule = RULES[rule] if isinstance(rule, str) else rule

    def gradients(self, sampler: Sampler) -> Iterator[list[int]]:
        """Yield this rank's samples of each gradient of a step, `accumulation` + 1 times `local_batch`.

        The batch's gradient is the mean over all of them and all ranks. The next one's step begins with the
        first.
        """
        share = sampler.take_whole(self.batch_size)
        self._began, self._computed = self.clock(), None
        for begin in range(0, len(share), self.local_batch):
            yield share[begin : begin + self.local_batch]
        if self._computed is None:
            self._computed = self.clock()

    def gradient_is_computed(self) -> None:
        """Note that this rank has its gradient, and that what follows is synchronising. `synchronising` does
        it; for callers that synchronise while the last gradient is under way.
        """
        self._computed = self.clock()

    @contextmanager
    def synchronising(self) -> Iterator[None]:
        """Wrap what makes the mean of all ranks' gradients."""
        self.gradient_is_computed()
        yield

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Wrap what is there for the sake of adapting only: its part of the time is reported."""
        began = time.perf_counter()
        yield
        self._overhead_seconds += time.perf_counter() - began

    @property
    def overhead(self) -> float | None:
        """What part of an iteration measuring and choosing take; None: not known yet."""
        iterations = self.iterations - self._overhead_from
        if iterations < OVERHEAD_AFTER or not self._all_seconds:
            return None
        each = self._overhead_seconds / iterations
        return min(each * self._all_timed / self._all_seconds, 1.0)

    def skip_step(self) -> None:
        """Note that the weights stay as they are after this iteration: it is worth no step."""
        self._is_skipped = True

    def finish_iteration(self) -> bool:
        """Count an iteration; return whether it was a step. The session does so at its end."""
        is_step, self._is_skipped = not self._is_skipped, False
        self._time()
        if is_step:
            self.progress += self.noise.gain(self.scale)
        self.samples += self.batch_size
        self.iterations += 1
        if self.iterations == self._choose_at:
            with self.measuring():
                self._choose()
        if self.iterations == self._overhead_from:
            # All of these were measured, and later only some are.
            self._all_timed, self._all_seconds, self._overhead_seconds = 0, 0.0, 0.0
        return is_step

    def line(self) -> dict[str, float]:
        """Return what a progress line states of it; times only when there is enough new since the last."""
        sqr, var = self.noise.estimate()
        limits = self.limits
        line: dict[str, float] = {
            "initial_batch": limits.initial_batch,
            "max_batch": limits.max_batch,
            "min_local_batch": limits.min_local_batch,
            "max_local_batch": limits.max_local_batch,
            "batch_size": self.batch_size,
            "local_batch": self.local_batch,
            "accumulation": self.accumulation,
            "lr_factor": self.lr_factor,
        }
        if self.noise.is_known:
            line |= {"grad_sqr": sqr, "grad_var": var}
        if (overhead := self.overhead) is not None:
            line["overhead"] = overhead
        if self._iteration_seconds >= TOLD_SECONDS:
            line |= {
                "gradient_seconds": self._gradient_seconds / self._timed,
                "iteration_seconds": self._iteration_seconds / self._timed,
                "timed_iterations": self._timed,
            }
            self._begin_times()
        return line

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps of it."""
        return {
            "initial_batch": self.limits.initial_batch,
            "replicas": self.replicas,
            "local_batch": self.local_batch,
            "accumulation": self.accumulation,
            "progress": self.progress,
            "samples": self.samples,
            "noise": self.noise.state(),
            "gpu_model": self._gpu_model,
            "times": self._times.state(),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        if state["initial_batch"] != self.limits.initial_batch:
            raise TrainingError(
                f"initial: {self.limits.initial_batch}, but the checkpoint counts its progress in batches of "
                f"{state['initial_batch']}: use the same, or start over in another folder"
            )
        self.progress, self.samples = float(state["progress"]), float(state["samples"])
        self.noise.restore(state["noise"])
        if state["gpu_model"] == self._gpu_model:
            self._times = Times.from_state(state["times"])
        before = Way(state["local_batch"], state["accumulation"])
        ways = self.limits.ways(self.replicas)
        if state["replicas"] == self.replicas and before in ways:
            self._way = before
            self._change_if_worthwhile()
        else:
            self._way = best_way(self.limits, self.replicas, self._times, self.noise)
        self._way = self._agreed(self._way)

    def _time(self) -> None:
        """Take in how long the iteration under way took, once it is over."""
        began, computed, now = self._began, self._computed, self.clock()
        self._began = self._computed = None
        if self._is_new:
            self._is_new = False
        elif began is not None and computed is not None and now is not None:
            gradient = (computed - began) / (self.accumulation + 1)
            self._times.add(self.local_batch, self.replicas, gradient=gradient, rest=now - computed)
            self._gradient_seconds += gradient
            self._iteration_seconds += now - began
            self._timed += 1
            self._all_seconds += now - began
            self._all_timed += 1

    def _begin_times(self) -> None:
        self._gradient_seconds = self._iteration_seconds = 0.0
        self._timed = 0

    def _choose(self) -> None:
        before = self._way
        self._change_if_worthwhile()
        self._way = self._agreed(self._way)
        self._is_new = self._way != before
        if self._is_new:
            self._begin_times()
        self._interval = FIRST_CHOICE if self._is_new else min(2 * self._interval, RAREST_CHOICE)
        self._choose_at = self.iterations + self._interval

    def _change_if_worthwhile(self) -> None:
        """Have the best way, if it promises enough more than the present one."""
        if not self._times.gradient:
            return
        best = best_way(self.limits, self.replicas, self._times, self.noise)
        now, then = (
            goodput(way, self.limits, self.replicas, self._times, self.noise) for way in (self._way, best)
        )
        if then > WORTHWHILE * now:
            self._way = best

    def _agreed(self, way: Way) -> Way:
        """Return rank 0's way on every rank: their clocks do not agree."""
        if self._agree is None:
            return way
        return Way(*(self._agree(number if self._is_first else 0) for number in way))
