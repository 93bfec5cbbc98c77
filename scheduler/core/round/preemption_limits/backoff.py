"""How long a job that was preempted again and again before it had run for long enough may not borrow.

Without it, an opportunistic job on GPUs that come and go is started and stopped again and again, and each
time pays for a checkpoint and a start. It waits twice as long each time, as colliding senders do (R. Metcalfe
and D. Boggs, "Ethernet", CACM 19(7), 1976), and never longer than a bound, so that it always comes back.
"""

from __future__ import annotations


def after_preemption(
    short_runs: int, *, ran_seconds: float, least_seconds: float, first_wait: float, longest_wait: float
) -> tuple[int, float]:
    """Return how many runs in a row were too short, this one included, and for how many seconds to wait.

    A run that was long enough clears the record: (0, 0).
    """
    if ran_seconds >= least_seconds:
        return 0, 0.0
    # No more doublings than a float can take.
    return short_runs + 1, min(first_wait * 2.0 ** min(short_runs, 60), longest_wait)
