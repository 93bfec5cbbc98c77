"""Which samples each rank learns from: every sample once per epoch, whatever happens to the run.

The order is a function of length, seed and epoch alone. How far the run is in it is one number, counted over
all ranks together and kept in every checkpoint. So a run that is interrupted, or goes on with more or fewer
ranks or another batch size, takes up where its checkpoint was, without loss or repetition.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator

from allot.training.errors import TrainingError

#: The rounds of the Feistel network that shuffles; four suffice against chance, six are still cheap.
ROUNDS = 6
MASK = 2**64 - 1


class Order:
    """A pseudo-random permutation of 0..length-1 that is computed, not stored: any place in it at once.

    A Feistel network over pairs (left, right) of numbers below about the square root of the length. What
    falls outside is sent through again until it falls inside (cycle walking: Black and Rogaway, "Ciphers
    with Arbitrary Finite Domains", CT-RSA 2002, section 4), which is rare as the pairs hardly outnumber it.
    """

    def __init__(self, length: int, *, seed: int, epoch: int) -> None:
        self.length = length
        self._left = math.isqrt(length - 1) + 1
        self._right = -(-length // self._left)
        digest = hashlib.blake2b(f"{seed}/{epoch}".encode(), digest_size=8 * ROUNDS).digest()
        self._keys = [int.from_bytes(digest[8 * each : 8 * each + 8], "big") for each in range(ROUNDS)]

    def __getitem__(self, place: int) -> int:
        while True:
            left, right = divmod(place, self._right)
            size, other = self._left, self._right
            for key in self._keys:
                left, right = right, (left + _mix(right ^ key)) % size
                size, other = other, size
            # After an even number of rounds each half has its own size again.
            place = left * self._right + right
            if place < self.length:
                return place


def _mix(number: int) -> int:
    """Scatter 64 bits (the finaliser of SplitMix64: Steele, Lea and Flood, OOPSLA 2014)."""
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & MASK
    return number ^ (number >> 31)


class Sampler:
    """Deals the samples of a data set to the ranks, epoch after epoch."""

    def __init__(
        self,
        length: int,
        *,
        seed: int,
        rank: int,
        world_size: int,
        ranks_each: int = 1,
        epoch: int = 0,
        position: int = 0,
    ) -> None:
        if length < 1:
            raise TrainingError(f"a sampler needs at least one sample, not {length}")
        if not 0 <= position < length or epoch < 0:
            raise TrainingError(f"position {position} in epoch {epoch} is not within {length} samples")
        self.length, self.seed = length, seed
        self.rank, self.world_size = rank, world_size
        self._ranks_each = ranks_each
        #: The epoch under way, from 0, and how many of its samples all ranks together have had.
        self.epoch, self.position = epoch, position
        self._order = Order(length, seed=seed, epoch=epoch)

    @property
    def epochs_done(self) -> float:
        """How many epochs are done, with parts of one: what `run.report(epoch=...)` is for."""
        return self.epoch + self.position / self.length

    def take(self, global_batch: int) -> list[int]:
        """Return this rank's share of the next samples, and count them all as used.

        An epoch's last batch may be smaller; then the share of some ranks may be empty. They have to take
        part in the step all the same.
        """
        share = self._share(self.position, global_batch, self.rank, self.world_size)
        self.advance(global_batch)
        return share

    def take_for_logical_ranks(self, global_batch: int) -> list[list[int]]:
        """Return the shares of the ranks that this process plays (`run.logical_ranks`), and count the batch.

        Each is what that rank would have if it were a process of its own; as of `take`, some may be empty.
        """
        each, world_size = self._ranks_each, self.world_size * self._ranks_each
        ranks = range(self.rank * each, (self.rank + 1) * each)
        shares = [self._share(self.position, global_batch, rank, world_size) for rank in ranks]
        self.advance(global_batch)
        return shares

    def take_whole(self, global_batch: int) -> list[int]:
        """Return this rank's share of a batch that is never smaller, and count it as used: what is missing at
        the end of an epoch comes from the next. Where the ranks divide the batch, the shares are as large."""
        share: list[int] = []
        rank, left = self.rank, _at_least_one(global_batch)
        while left:
            had = min(left, self.length - self.position)
            share += self._share(self.position, had, rank, self.world_size)
            # Behind the end it goes on with the next rank in turn.
            rank = (rank - had) % self.world_size
            left -= had
            self.advance(had)
        return share

    def batches(self, global_batch: int) -> Iterator[list[int]]:
        """Yield this rank's shares of the rest of the epoch, without counting them as used.

        For loaders that read ahead, as PyTorch's `batch_sampler`: call `advance` after each step.
        """
        for position in range(self.position, self.length, _at_least_one(global_batch)):
            yield self._share(position, global_batch, self.rank, self.world_size)

    def advance(self, global_batch: int) -> None:
        """Count a batch as used by all ranks together; the next epoch begins behind the last one."""
        self.position = min(self.position + _at_least_one(global_batch), self.length)
        if self.position == self.length:
            self.epoch, self.position = self.epoch + 1, 0
            self._order = Order(self.length, seed=self.seed, epoch=self.epoch)

    def state(self) -> dict[str, int]:
        """Return what a checkpoint keeps of it."""
        return {
            "length": self.length,
            "seed": self.seed,
            "epoch": self.epoch,
            "position": self.position,
        }

    def _share(self, position: int, global_batch: int, rank: int, world_size: int) -> list[int]:
        end = min(position + _at_least_one(global_batch), self.length)
        return [self._order[place] for place in range(position + rank, end, world_size)]


def _at_least_one(global_batch: int) -> int:
    if global_batch < 1:
        raise TrainingError(f"a batch needs at least one sample, not {global_batch}")
    return global_batch
