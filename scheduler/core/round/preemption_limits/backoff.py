"""The back-off of a job that was repeatedly preempted before its minimum run time: it may not borrow.

Without it, an opportunistic job on GPUs that come and go would start and stop repeatedly, and pay for a
checkpoint and a start each time. The wait doubles each time, as for colliding senders (R. Metcalfe and D.
Boggs, "Ethernet", CACM 19(7), 1976), up to a bound, so that the job always comes back.
"""

from __future__ import annotations


def after_preemption(
    short_runs: int, *, ran_seconds: float, least_seconds: float, first_wait: float, longest_wait: float
) -> tuple[int, float]:
    """Return how many runs in a row were too short, including this one, and the seconds to wait.

    A run that was long enough clears the record: (0, 0).
    """
    if ran_seconds >= least_seconds:
        return 0, 0.0
    # Limit the doublings to what a float can hold.
    return short_runs + 1, min(first_wait * 2.0 ** min(short_runs, 60), longest_wait)
