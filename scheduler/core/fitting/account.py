"""How many GPUs of each model a view may still hand out, and what it has handed out so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from scheduler.core.fitting.holding import Holding
from scheduler.core.model.snapshot import JobId

#: A view's own holdings by their jobs.
Holdings = dict[tuple[JobId, ...], Holding]
_NO_GPUS: Mapping[str, int] = {}


@dataclass(slots=True, eq=False)
class Account:
    """The limits of a view beside what was counted against them. Changes; `fork` gives a copy.

    A GPU of which several holdings have parts counts once.
    """

    #: GPUs of each model that may still be handed out; None: all that there are.
    limits: dict[str, int] | None = None
    #: GPUs of the view's own holdings when nothing was settled yet, by model; and how many these were.
    own: Mapping[str, int] = field(default_factory=lambda: _NO_GPUS)
    own_count: int = 0
    #: Whether some of these had parts of GPUs.
    has_parts: bool = False
    #: Holdings that were counted one by one, and those that were counted all at once.
    _counted: set[Holding] = field(default_factory=set)
    _kept: Holdings = field(default_factory=dict)
    #: GPUs that counted holdings have parts of, with how many do.
    _opened: Counter[tuple[str, int, int]] = field(default_factory=Counter)

    def fork(self) -> Account:
        limits = None if self.limits is None else dict(self.limits)
        counted, opened = set(self._counted), self._opened.copy()
        return Account(limits, self.own, self.own_count, self.has_parts, counted, self._kept, opened)

    # Questions

    def cost(self, holding: Holding) -> int:
        """Return how many more GPUs are handed out with a holding: those not counted yet."""
        shared = holding.shared
        return holding.gpus - sum([self._opened[gpu] > 0 for gpu in shared]) if shared else holding.gpus

    def has_opened(self, model: str, node: int, gpu: int) -> bool:
        """Whether a part of this GPU was handed out."""
        return self._opened.get((model, node, gpu), 0) > 0

    def has_counted(self, holding: Holding) -> bool:
        if holding in self._counted:
            return True
        return holding.running is not None and self._kept.get(holding.running.jobs) is holding

    # Changes

    def count(self, holding: Holding) -> None:
        self._counted.add(holding)
        if self.limits is not None:
            self.limits[holding.model] = self.limits.get(holding.model, 0) - self.cost(holding)
        for gpu in holding.shared:
            self._opened[gpu] += 1

    def count_own(self, kept: Holdings, left: Collection[Holding], pinned: int) -> bool:
        """Count those of the view's own that stay, if none was settled yet; return whether it was done.

        `left`: the others, which are not counted, without the number that are `pinned`: these were counted
        before. This is the usual case, with which every round of every view begins.
        """
        if len(kept) + len(left) + pinned != self.own_count or self.has_parts:
            return False
        self._kept = kept
        if self.limits is not None:
            for model, gpus in self.own.items():
                self.limits[model] = self.limits.get(model, 0) - gpus
            for holding in left:
                self.limits[holding.model] += holding.gpus
        return True

    def uncount(self, holding: Holding) -> None:
        """Take back what was counted."""
        self._counted.discard(holding)
        gpus = holding.gpus
        for gpu in holding.shared:
            self._opened[gpu] -= 1
            gpus -= self._opened[gpu] > 0
        if self.limits is not None:
            self.limits[holding.model] += gpus

    def count_ahead(self, holdings: Collection[Holding], pending: int) -> None:
        """Count some of the view's own before anything is settled; `pending`: how many its own are."""
        used = Counter(self.own)
        for holding in holdings:
            used[holding.model] -= holding.gpus
            self.count(holding)
        self.own, self.own_count = used, pending

    def reserve(self, model: str, gpus: int) -> None:
        """Keep GPUs from being handed out, at most those that are left."""
        if self.limits is not None:
            self.limits[model] = max(0, self.limits.get(model, 0) - gpus)
