"""Adaptive training with PyTorch: what `AdaptiveBatch` needs, measured around an optimiser.

    batch = run.adaptive_batch(initial=128, most=1024, local=(8, 256))
    tuned = AdaptiveOptimiser(batch, optimiser, model)
    for step in run.steps(10_000):
        for share in tuned.gradients(sampler):
            tuned.backward(loss_function(model(inputs[share]), labels[share]))
        tuned.step()
        run.report(...)

Gradients are measured in one of 32 iterations, and in each of the first 16. Only means over a thousand are
reported, to which the other iterations would add little and cost as much.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import get_total_norm
from torch.optim import Adam, AdamW, NAdam, Optimizer, RAdam

from allot.training.adaptive import FIRST_CHOICE, AdaptiveBatch
from allot.training.errors import TrainingError
from allot.training.sampler import Sampler

#: One in this many iterations is measured, once the first choice of a batch has been made.
MEASURED_EVERY = 32
#: Steps until Adam's estimate of the second moment means something.
UNCONDITIONED_STEPS = 5
#: Numbers that are measured at once: they stay in the processor's cache, or fill a GPU.
BLOCK, BLOCK_ON_GPU = 2**16, 2**24
#: Numbers that are gathered at once from all processes.
GATHERED_NUMBERS = 2**22
#: If a scaler of the loss skips this many steps in a row, the training has failed.
SKIPPED_MOST = 100

EXACT = (torch.float32, torch.float64)

Tensors = Sequence[Any]


class AdaptiveOptimiser:
    """Accumulates, measures, and steps with the learning rate that suits the batch.

    batch      from `run.adaptive_batch`
    optimiser  of any kind; for Adam and its kin gradients are measured relative to the root of the second
               moment, as its steps are, and the rule of the learning rate is `adam` unless one was chosen
    module     what learns; with several ranks wrapped in DistributedDataParallel, without a hook of its own
    scaler     of the loss (`torch.amp.GradScaler`), for float16. Steps that it skips, as their gradients are
               not finite, do not count for the noise or as steps

    With several replicas noise is computed from what each one has accumulated, so `count` is their number.
    Pollux counts each single gradient, which has to be read as it is computed. On one replica that
    accumulates, each gradient counts; on one that does not, pairs of successive ones.

    Not for parameters that are divided over ranks (FSDP).
    """

    def __init__(
        self,
        batch: AdaptiveBatch,
        optimiser: Optimizer,
        module: torch.nn.Module,
        *,
        scaler: torch.amp.GradScaler | None = None,
    ) -> None:
        self.batch, self.optimiser, self.scaler = batch, optimiser, scaler
        self._parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
        self._group_of = {
            parameter: number
            for number, group in enumerate(optimiser.param_groups)
            for parameter in group["params"]
        }
        self._parallel = module if isinstance(module, DistributedDataParallel) else None
        if batch.replicas > 1:
            if self._parallel is None or dist.get_world_size(self._parallel.process_group) != batch.replicas:
                raise TrainingError(
                    f"with {batch.replicas} ranks the module must be DistributedDataParallel over all of them"
                )
            self._parallel.register_comm_hook(None, lambda state, bucket: self._reduce(bucket))
        self._is_adam = isinstance(optimiser, Adam | AdamW | NAdam | RAdam)
        if self._is_adam and batch.is_rule_open:
            batch.use_rule("adam")
        if batch.noise.groups != len(optimiser.param_groups):
            batch.noise.reset()
        self._device = self._parameters[0].device
        if self._device.type == "cuda":
            batch.clock = self._time_on_gpu
        #: Whether the gradients of this iteration are measured.
        self.is_measured = False
        self._is_unscaled = False
        self._is_divided = False
        self._skipped = 0
        #: Adam's divisors of gradients, by parameter; None: there are none. Their memory stays: to allocate
        #: it again each time costs more than to compute them.
        self._denominators: dict[Any, Any] | None = None
        self._memory: dict[Any, Any] = {}
        self._block = BLOCK_ON_GPU if self._device.type == "cuda" else BLOCK
        #: Of this iteration: sums of squared norms of gradients, by group.
        self._squares = self._no_squares()
        self._reduction: Any = None
        self._kept: list[Any] | None = None
        self._before: tuple[list[Any], list[float]] | None = None

    def gradients(self, sampler: Sampler) -> Iterator[list[int]]:
        """Yield this rank's samples of each gradient of a step: call `backward` for each, and then `step`."""
        self._begin()
        accumulation = self.batch.accumulation
        for number, share in enumerate(self.batch.gradients(sampler)):
            if self._parallel is not None and number < accumulation:
                with self._parallel.no_sync():
                    yield share
            else:
                yield share
            if self.batch.replicas == 1 and accumulation and self.is_measured:
                with self.batch.measuring():
                    self._set_aside(is_last=number == accumulation)

    def backward(self, loss: Any) -> None:
        """Add the gradient of a loss, which is the mean over its samples."""
        # Ranks add their gradients up: to divide these afterwards means to read each again.
        count = self._gradients
        loss = loss / count if count > 1 else loss
        self._is_divided = True
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()

    @property
    def _gradients(self) -> int:
        """The number of gradients, of all ranks, of which a step takes the mean."""
        return (self.batch.accumulation + 1) * self.batch.replicas

    def unscale(self) -> None:
        """Divide the gradients by what the loss was scaled by, as before clipping them. `step` does it."""
        if self.scaler is not None and not self._is_unscaled:
            self.scaler.unscale_(self.optimiser)
            self._is_unscaled = True

    def step(self) -> None:
        """Let the optimiser step, with the learning rates of its groups raised for this step, and clear the
        gradients. Schedules of the learning rate go by `run.step`.

        Raises TrainingError when gradients were not finite so often that no scale of the loss will do, or
        when a gradient of several came from the loss itself and was not divided by their number.
        """
        if self._gradients > 1 and not self._is_divided:
            raise TrainingError("call backward(loss) of this optimiser instead of loss.backward()")
        self._is_divided = False
        if self.is_measured:
            self.unscale()
            if self._device.type == "cuda":
                # What is waited for anyway is not measuring.
                torch.cuda.current_stream(self._device).synchronize()
            with self.batch.measuring():
                self._observe()
        groups = self.optimiser.param_groups
        rates = [group["lr"] for group in groups]
        try:
            for number, (group, rate) in enumerate(zip(groups, rates, strict=True)):
                group["lr"] = rate * self.batch.lr_factor_of(number)
            self._step()
        finally:
            for group, rate in zip(groups, rates, strict=True):
                group["lr"] = rate
        self.optimiser.zero_grad(set_to_none=True)

    def _step(self) -> None:
        if self.scaler is None:
            self.optimiser.step()
            return
        before = self.scaler.get_scale()
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self._is_unscaled = False
        if self.scaler.get_scale() >= before:
            self._skipped = 0
            return
        # It lowers the scale when, and only when, it has skipped the step.
        self.batch.skip_step()
        self._skipped += 1
        if self._skipped == SKIPPED_MOST:
            raise TrainingError(
                f"gradients were not finite in {SKIPPED_MOST} steps in a row; a lower learning rate may help"
            )

    def _begin(self) -> None:
        iteration = self.batch.iterations
        # A pair takes two iterations, one after the other.
        alone = self.batch.replicas == 1 and self.batch.accumulation == 0
        self.is_measured = iteration < FIRST_CHOICE or iteration % MEASURED_EVERY < 1 + alone
        if not alone or not self.is_measured:
            self._before = None
        if self.is_measured:
            with self.batch.measuring():
                self._squares, self._reduction, self._kept = self._no_squares(), None, None
                # The second of a pair is measured in the unit of the first.
                if self._before is None or iteration < FIRST_CHOICE:
                    self._denominators = self._precondition()

    def _precondition(self) -> dict[Any, Any] | None:
        """Return Adam's present divisors of gradients, flat; None: there are none, or none are known yet."""
        if not self._is_adam:
            return None
        found = {}
        for group in self.optimiser.param_groups:
            for parameter in group["params"]:
                state = self.optimiser.state.get(parameter)
                if not state:
                    continue
                steps = float(state["step"])
                if steps < UNCONDITIONED_STEPS:
                    return None
                moments = state["exp_avg_sq"].reshape(-1)
                if parameter not in self._memory:
                    self._memory[parameter] = torch.empty_like(moments)
                found[parameter] = self._memory[parameter]
                correction = 1 / (1 - group["betas"][1] ** steps)
                for moment, place in zip(
                    moments.split(self._block), found[parameter].split(self._block), strict=True
                ):
                    torch.mul(moment, correction, out=place).sqrt_().add_(group["eps"])
        if found and self._denominators is None and self.batch.iterations:
            # In another unit from now on.
            self.batch.noise.reset()
            self._before = None
        return found or None

    def _reduce(self, bucket: Any) -> Any:
        """Measure what is this rank's of a bucket of gradients, and begin to make the mean over all ranks."""
        group = self._parallel.process_group  # type: ignore[union-attr]
        if self.is_measured:
            with self.batch.measuring():
                self._squares += self._squares_of(bucket.parameters(), bucket.gradients())
        work = dist.all_reduce(bucket.buffer(), group=group, async_op=True)
        if bucket.is_last():
            self.batch.gradient_is_computed()
            if self.is_measured:
                self._reduction = dist.all_reduce(self._squares, group=group, async_op=True)
        return work.get_future().then(lambda done: done.value()[0])

    def _set_aside(self, *, is_last: bool) -> None:
        """Measure the gradient by itself that was just computed, and add it to those before it."""
        found = [parameter.grad for parameter in self._parameters]
        self._squares += self._squares_of(self._parameters, found)
        if self._kept is None:
            self._kept = found
        else:
            self._kept = [
                one if other is None else other if one is None else one.add_(other)
                for one, other in zip(self._kept, found, strict=True)
            ]
        for parameter, kept in zip(self._parameters, self._kept, strict=True):
            parameter.grad = kept if is_last else None

    def _observe(self) -> None:
        batch = self.batch
        since = 1 if batch.iterations < FIRST_CHOICE else MEASURED_EVERY
        # Single gradients were measured before they were unscaled.
        unit = 1.0 if self.scaler is None else self.scaler.get_scale() ** 2
        gradients = [parameter.grad for parameter in self._parameters]
        total = self._squares_of(self._parameters, gradients).tolist()
        if batch.replicas > 1:
            self._reduction.wait()
            # The loss was divided by their number, and the mean is over as many.
            local = (self._squares * batch.replicas / unit).tolist()
            batch.noise.observe(local, total, count=batch.replicas, scale=batch.scale, iterations=since)
        elif batch.accumulation:
            count = batch.accumulation + 1
            # Each was divided by their number.
            local = (self._squares * count / unit).tolist()
            batch.noise.observe(local, total, count=count, scale=batch.scale, iterations=since)
        else:
            self._observe_pair(gradients, total, since)

    def _observe_pair(self, gradients: Tensors, squares: list[float], since: int) -> None:
        if self._before is not None:
            kept, before = self._before
            product = self._sums(
                (parameter, self._product(parameter, one, other))
                for parameter, one, other in zip(self._parameters, kept, gradients, strict=True)
                if one is not None and other is not None
            ).tolist()
            self.batch.noise.observe_pair(before, squares, product, scale=self.batch.scale, iterations=since)
        # `zero_grad` lets go of them, so that they need no copy.
        self._before = (list(gradients), squares)

    def _squares_of(self, parameters: Iterable[Any], gradients: Tensors) -> Any:
        """Return the squared norms of gradients, by group of parameters."""
        plain: dict[int, list[Any]] = {}
        parts = []
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if gradient is None or parameter not in self._group_of:
                continue
            if gradient.dtype in EXACT and parameter not in (self._denominators or ()):
                plain.setdefault(self._group_of[parameter], []).append(gradient)
            else:
                parts.append((parameter, self._product(parameter, gradient, gradient)))
        squares = self._sums(parts)
        for group, those in plain.items():
            squares[group] += get_total_norm(those).to(self._device, torch.float64) ** 2
        return squares

    def _product(self, parameter: Any, one: Any, other: Any) -> Any:
        """Return the inner product of two gradients of a parameter, as they are measured."""
        divisor = (self._denominators or {}).get(parameter)
        ones, others, parts = one.reshape(-1), other.reshape(-1), []
        for begin in range(0, max(one.numel(), 1), self._block):
            block = slice(begin, begin + self._block)
            first = self._measured(ones[block], divisor, block)
            second = first if other is one else self._measured(others[block], divisor, block)
            parts.append(torch.dot(first, second))
        return torch.stack(parts).sum(dtype=torch.float64)

    def _measured(self, numbers: Any, divisor: Any, block: slice) -> Any:
        # In 16 bits a norm would say nothing of a small variance.
        numbers = numbers if numbers.dtype in EXACT else numbers.float()
        return numbers if divisor is None else numbers / divisor[block]

    def _sums(self, parts: Iterable[tuple[Any, Any]]) -> Any:
        """Return the sums of numbers of parameters, by group of parameters."""
        by_group: dict[int, list[Any]] = {}
        for parameter, number in parts:
            by_group.setdefault(self._group_of[parameter], []).append(number)
        sums = self._no_squares()
        for group, numbers in by_group.items():
            sums[group] = torch.stack([number.to(self._device) for number in numbers]).sum()
        return sums

    def _no_squares(self) -> Any:
        groups = len(self.optimiser.param_groups)
        return torch.zeros(groups, dtype=torch.float64, device=self._device)

    def _time_on_gpu(self) -> float | None:
        """Return when what was given to the GPU is done; only where it is waited for anyway."""
        if not self.is_measured:
            return None
        torch.cuda.current_stream(self._device).synchronize()
        return time.perf_counter()


class FixedWorldOptimiser:
    """Steps by the mean of the gradients of all ranks of a fixed world, added up in their order.

    So the weights are the same to the last bit on any number of processes:

        fixed = FixedWorldOptimiser(optimiser, run.logical_world_size)
        for step in run.steps(10_000):
            for share in sampler.take_for_logical_ranks(256):
                loss_function(network(inputs[share]), labels[share]).backward()
                fixed.take()
            fixed.step()

    The network must not be a DistributedDataParallel. Each process holds a gradient for each rank that it
    plays, and gathers those of all: with W ranks W/2 times what an all-reduce carries.
    """

    def __init__(self, optimiser: Optimizer, logical_world_size: int) -> None:
        self.optimiser = optimiser
        self._parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
        self._ranks = logical_world_size
        self._processes = dist.get_world_size() if dist.is_initialized() else 1
        self._taken: list[Any] = []

    def take(self) -> None:
        """Take the gradient of the rank that was just played; none, as of an empty share, counts as 0."""
        gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in self._parameters]
        self._taken.append(torch.cat([gradient.reshape(-1) for gradient in gradients]))
        self.optimiser.zero_grad(set_to_none=True)

    def step(self) -> None:
        """Step by the mean over all ranks, and clear the gradients.

        Raises TrainingError when not every rank's gradient was taken.
        """
        each = self._ranks // self._processes
        if len(self._taken) != each:
            raise TrainingError(
                f"{len(self._taken)} gradients were taken; there must be one for each of {each} ranks"
            )
        own: Any = torch.stack(self._taken)
        self._taken = []
        mean: Any = torch.cat([self._mean_of(part) for part in own.split(GATHERED_NUMBERS, dim=1)])
        parts = mean.split([parameter.numel() for parameter in self._parameters])
        for parameter, part in zip(self._parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def _mean_of(self, own: Any) -> Any:
        """Return the mean over all ranks of some columns of their gradients."""
        blocks = [own]
        if self._processes > 1:
            own = own.contiguous()
            blocks = [torch.empty_like(own) for _ in range(self._processes)]
            dist.all_gather(blocks, own)
        total, *others = [row for block in blocks for row in block]
        for row in others:
            total = total + row
        return total / self._ranks
