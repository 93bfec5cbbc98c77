"""A reservation for the head of a queue, and which jobs may start ahead of it without delaying it.

EASY backfilling: D. Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995; A. Mu'alem and D. Feitelson,
"Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the IBM SP2 with
Backfilling", IEEE TPDS 12(6), 2001. Only the first job that does not fit gets a reservation. Deviations:

- Fitting is by nodes and topology, as for placements, not by a count of processors.
- A job gets the placer's place or none: if that place would delay the head, the job waits, even if another
  place would not.
- Jobs that have outlived their estimates are assumed, in each round, to end together one round later.
- If the head would not fit even after all jobs of its view had ended (the GPUs that it waits for are broken
  or held by other views), there is no reservation and nothing is held back for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile

from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.coming_free import needed
from scheduler.core.fitting.demand import Demand
from scheduler.core.fitting.holding import Fit, Holding

#: Ends that differ by no more are the same instant: a float holds Unix seconds no more finely.
_ROUNDING_SECONDS = 1e-6


class BackfillReservation:
    """The earliest instant at which a gang fits, by the expected `ends` of running jobs, in order.

    If all jobs whose GPUs it needs should have ended already, it starts at `soonest`.
    """

    def __init__(
        self, demand: Demand, capacity: Capacity, ends: Iterable[tuple[float, Holding]], *, soonest: float
    ) -> None:
        self._demand = demand
        self._then = capacity.fork()
        #: What else comes free at that instant, for backfilled jobs. Most rounds never need to look at it.
        self._besides: Iterator[Holding] = iter(())
        #: Unix seconds; None when no instant can be named.
        self.starts_at: float | None = None
        ends = iter(ends)
        first = list(needed(self._then, demand, ends))
        self._then.drop_all([holding for _, holding in first])
        if first and self._then.find(demand) is not None:
            self.starts_at = first[-1][0]
        while self.starts_at is None and (another := next(ends, None)) is not None:
            self._then.drop(another[1])
            if self._then.find(demand) is not None:
                self.starts_at = another[0]
        if self.starts_at is not None:
            last = self.starts_at + _ROUNDING_SECONDS
            self._besides = (holding for _, holding in takewhile(lambda end: end[0] <= last, ends))
            self.starts_at = max(self.starts_at, soonest)

    def outlasts(self, ends_at: float) -> bool:
        """Whether a job that ends at that instant has left before the reservation begins."""
        return self.starts_at is None or ends_at <= self.starts_at

    def spares(self, fit: Fit) -> bool:
        """Whether a job may hold these GPUs for ever without delaying the reservation; if so, they count as
        held.
        """
        if self._fits_beside(fit):
            return True
        # More free GPUs can only help the head, so they are counted where it would be delayed without them.
        besides = list(self._besides)
        self._then.drop_all(besides)
        return bool(besides) and self._fits_beside(fit)

    def _fits_beside(self, fit: Fit) -> bool:
        if fit.victims:
            then = self._then.fork()
            then.take(fit)
            if then.find(self._demand) is None:
                return False
            self._then = then
            return True
        take_back = self._then.take_for_now(fit)
        if self._then.find(self._demand) is None:
            take_back()
            return False
        return True
