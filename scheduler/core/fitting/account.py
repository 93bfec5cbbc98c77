"""How many GPUs of each model a view may still hand out, and what it has handed out so far."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from scheduler.core.fitting.holding import Holding
from scheduler.core.model.snapshot import JobId

#: A view's own holdings, by their jobs.
Holdings = dict[tuple[JobId, ...], Holding]


@dataclass(slots=True, eq=False)
class HeldGpus:
    """The GPUs of holdings, updated as holdings come and go. A GPU of which several have parts counts
    once.
    """

    by_model: dict[str, int] = field(default_factory=dict)
    #: GPUs of which holdings have parts, with the number of such holdings.
    opened: dict[tuple[str, int, int], int] = field(default_factory=dict)

    @classmethod
    def by(cls, holdings: Iterable[Holding]) -> HeldGpus:
        held = cls()
        for holding in holdings:
            held.add(holding)
        return held

    def copy(self) -> HeldGpus:
        return HeldGpus(self.by_model.copy(), self.opened.copy())

    def more_with(self, holding: Holding) -> int:
        """Return how many GPUs a holding adds."""
        shared = holding.shared
        return holding.gpus - sum([gpu in self.opened for gpu in shared]) if shared else holding.gpus

    def add(self, holding: Holding) -> None:
        self.by_model[holding.model] = self.by_model.get(holding.model, 0) + self.more_with(holding)
        for gpu in holding.shared:
            self.opened[gpu] = self.opened.get(gpu, 0) + 1

    def add_all(self, other: HeldGpus) -> None:
        for model, gpus in other.by_model.items():
            self.by_model[model] = self.by_model.get(model, 0) + gpus
        for gpu, count in other.opened.items():
            if gpu in self.opened:
                self.by_model[gpu[0]] -= 1
            self.opened[gpu] = self.opened.get(gpu, 0) + count

    def remove(self, holding: Holding) -> None:
        gpus = holding.gpus
        for gpu in holding.shared:
            left = self.opened.pop(gpu) - 1
            if left:
                self.opened[gpu] = left
                gpus -= 1
        self.by_model[holding.model] -= gpus


@dataclass(slots=True, eq=False)
class Account:
    """A view's limits and the holdings counted against them. Mutable; `fork` returns a copy."""

    #: The most GPUs of each model that may be handed out in all; None: no limit.
    limits: Mapping[str, int] | None = None
    #: The GPUs and the number of the view's own holdings before any was settled. Never changed.
    own: HeldGpus = field(default_factory=HeldGpus)
    own_count: int = 0
    _held: HeldGpus = field(default_factory=HeldGpus)
    #: Holdings that were counted one by one, and those that were counted all at once.
    _counted: set[Holding] = field(default_factory=set)
    _kept: Holdings = field(default_factory=dict)

    def fork(self) -> Account:
        return Account(
            self.limits, self.own, self.own_count, self._held.copy(), set(self._counted), self._kept
        )

    # Questions

    def room(self, model: str) -> int | None:
        """Return how many more GPUs of a model may be handed out; None: no limit is set."""
        if self.limits is None:
            return None
        return self.limits.get(model, 0) - self._held.by_model.get(model, 0)

    @property
    def is_overdrawn(self) -> bool:
        """Whether more GPUs were handed out than the limits allow."""
        return self.limits is not None and any(
            [gpus > self.limits.get(model, 0) for model, gpus in self._held.by_model.items()]
        )

    def cost(self, holding: Holding) -> int:
        """Return how many more GPUs are handed out with a holding: those not counted yet."""
        return self._held.more_with(holding)

    def has_opened(self, model: str, node: int, gpu: int) -> bool:
        """Whether a part of this GPU was handed out."""
        return (model, node, gpu) in self._held.opened

    def has_counted(self, holding: Holding) -> bool:
        if holding in self._counted:
            return True
        return holding.running is not None and self._kept.get(holding.running.jobs) is holding

    # Changes

    def count(self, holding: Holding) -> None:
        self._counted.add(holding)
        self._held.add(holding)

    def count_own(self, kept: Holdings, left: Collection[Holding], pinned: int) -> bool:
        """Count the view's own holdings that stay, if none was settled yet; return whether they were counted.

        `left`: the other holdings, which are not counted; `pinned`: the number of pinned ones, which were
        counted before. This is the usual case, with which every round of every view begins.
        """
        if len(kept) + len(left) + pinned != self.own_count:
            return False
        self._kept = kept
        if self._held.by_model:
            self._held.add_all(self.own)
        else:
            self._held = self.own.copy()
        for holding in left:
            self._held.remove(holding)
        return True

    def uncount(self, holding: Holding) -> None:
        """Take back what was counted."""
        self._counted.discard(holding)
        self._held.remove(holding)

    def uncount_all(self, holdings: Iterable[Holding]) -> None:
        """Take back those of these that were counted."""
        counted, kept, held = self._counted, self._kept, self._held
        for holding in holdings:
            # As `has_counted` and `uncount`, without their calls: a reservation asks for hundreds at once.
            if holding in counted:
                counted.discard(holding)
            elif holding.running is None or kept.get(holding.running.jobs) is not holding:
                continue
            if holding.shared:
                held.remove(holding)
            else:
                held.by_model[holding.model] -= holding.gpus

    def count_ahead(self, holdings: Collection[Holding], pending: int) -> None:
        """Count some of the view's own holdings before anything is settled; `pending`: the number of all its
        own.
        """
        self.own, self.own_count = self.own.copy(), pending
        for holding in holdings:
            self.own.remove(holding)
            self.count(holding)

    def reserve(self, model: str, gpus: int) -> None:
        """Reserve GPUs so that they are not handed out, at most those that are left."""
        if self.limits is not None:
            least = self._held.by_model.get(model, 0)
            self.limits = {**self.limits, model: max(self.limits.get(model, 0) - gpus, least)}
