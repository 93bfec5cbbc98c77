"""How noisy gradients are, what a larger batch is worth then, and by how much to raise the learning rate.

S. McCandlish et al., "An Empirical Model of Large-Batch Training" (2018), appendix A: the squared norm of the
mean of `count` gradients is larger than that of the true gradient by the variance of one over count, and the
mean of their squared norms by all of it. Two such numbers give both. As in Pollux (OSDI'21, section 3.1) they
are means over time, each observation weighs 0.999 to the power of its scale times the next, and the variance
is that at the initial batch.

Numbers only: two sums of squares are all that this module needs of the program and library that compute
gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

#: What an observation at the initial batch leaves of the weight of those before.
SMOOTHING = 0.999


class GradientNoise:
    """Squared norm and variance of the gradient at the initial batch, by group of parameters.

    The number of groups is that of the first observation; with another number it starts again.
    """

    def __init__(self) -> None:
        self._sqr: list[float] = []
        self._var: list[float] = []
        # The weight of all observations so far; it removes from the means the 0 that they begin with.
        self._weight = 0.0
        self._is_of_pairs = False

    @property
    def is_known(self) -> bool:
        return self._weight > 0

    @property
    def groups(self) -> int:
        """Groups of parameters that were observed; 0 when nothing was."""
        return len(self._sqr)

    def observe(
        self,
        local: Sequence[float],
        total: Sequence[float],
        *,
        count: int,
        scale: float,
        iterations: int = 1,
    ) -> None:
        """Add one iteration's gradients.

        local       mean over `count` gradients of their squared norms, by group
        total       squared norm of the mean of the gradients, by group
        count       gradients of equally many samples that the mean is of, at least 2: replicas times
                    gradients of each, or only replicas where the norm is that of each one's sum
        scale       size of the whole batch relative to the initial one
        iterations  since the last one that was observed; the measures of a run may be samples

        Passed over when a number is not finite, as with a step too large for 16 bits. The first ends what
        pairs contributed, as these are biased: their two gradients were not taken at the same weights.
        """
        if self._is_of_pairs:
            self.reset()
        self._add(local, total, count=count, scale=scale, weight_of=scale * iterations)

    def observe_pair(
        self,
        before: Sequence[float],
        now: Sequence[float],
        product: Sequence[float],
        *,
        scale: float,
        iterations: int = 1,
    ) -> None:
        """Take in two successive gradients, where an iteration has only one: their squared norms and their
        inner product, by group. Passed over when better is known."""
        if self.is_known and not self._is_of_pairs:
            return
        local = [(a + b) / 2 for a, b in zip(before, now, strict=True)]
        total = [(a + b + 2 * p) / 4 for a, b, p in zip(before, now, product, strict=True)]
        self._is_of_pairs = True
        # Both together are a batch of twice the size.
        self._add(local, total, count=2, scale=2 * scale, weight_of=scale * iterations)

    def _add(
        self, local: Sequence[float], total: Sequence[float], *, count: int, scale: float, weight_of: float
    ) -> None:
        if not all(map(math.isfinite, (*local, *total))):
            return
        if len(local) != len(self._sqr):
            self._sqr, self._var, self._weight = [0.0] * len(local), [0.0] * len(local), 0.0
        kept = SMOOTHING**weight_of
        self._weight = kept * self._weight + 1 - kept
        for group, (each, mean) in enumerate(zip(local, total, strict=True)):
            sqr, var = (count * mean - each) / (count - 1), (each - mean) * scale / (count - 1)
            self._sqr[group] = kept * self._sqr[group] + (1 - kept) * sqr
            self._var[group] = kept * self._var[group] + (1 - kept) * var

    def estimate(self, group: int | None = None) -> tuple[float, float]:
        """Return squared norm and variance at the initial batch, of one group or of all; at least 0.

        Both are 0 where nothing is known.
        """
        if not self.is_known:
            return 0.0, 0.0
        sqr, var = (sum(values) if group is None else values[group] for values in (self._sqr, self._var))
        return max(sqr / self._weight, 0.0), max(var / self._weight, 0.0)

    def gain(self, scale: float, group: int | None = None) -> float:
        """Return how many steps at the initial batch one in a batch `scale` times as large is worth.

        From 1 to `scale` (T. Johnson et al., "AdaScale SGD", ICML 2020, section 3); 1 where nothing is known.
        """
        sqr, var = self.estimate(group)
        return (var + sqr) / (var / scale + sqr) if var + sqr > 0 else 1.0

    def reset(self) -> None:
        """Forget all, as when gradients are measured in another unit from now on."""
        self._sqr, self._var, self._weight, self._is_of_pairs = [], [], 0.0, False

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps of it."""
        return {
            "sqr": list(self._sqr),
            "var": list(self._var),
            "weight": self._weight,
            "pairs": self._is_of_pairs,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where that state was. Raises KeyError, TypeError or ValueError for what is not a state."""
        self._sqr = [float(each) for each in state["sqr"]]
        self._var = [float(each) for each in state["var"]]
        self._weight, self._is_of_pairs = float(state["weight"]), bool(state["pairs"])


#: The factor for the learning rate, from: scale of the batch; its gain; samples had so far, in
#: initial batches.
Rule = Callable[[float, float, float], float]

RULES: dict[str, Rule] = {
    # For SGD: Johnson et al., "AdaScale SGD", ICML 2020.
    "adascale": lambda scale, gain, steps: gain,
    # For Adam and its kin, whose steps grow with the root: Pollux's adaptation of AdaScale.
    "adam": lambda scale, gain, steps: math.sqrt(gain),
    # Goyal et al., "Accurate, Large Minibatch SGD" (2017).
    "linear": lambda scale, gain, steps: scale,
    # Krizhevsky, "One weird trick for parallelizing convolutional neural networks" (2014).
    "square_root": lambda scale, gain, steps: math.sqrt(scale),
}


def legw(warmup_steps: float) -> Rule:
    """Return the rule of Y. You et al., "Large-Batch Training for LSTM and Beyond" (SC'19).

    The root of the scale, after a warm-up that is as many times as long, counted in samples. `warmup_steps`:
    that of the initial batch, which the learning rate's own schedule then must not have.
    """

    def rule(scale: float, gain: float, steps: float) -> float:
        warm = min(steps / (warmup_steps * scale), 1.0) if warmup_steps > 0 else 1.0
        return math.sqrt(scale) * warm

    return rule
