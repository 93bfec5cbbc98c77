"""What a run reports about nodes that lent what guaranteed jobs did not use."""

from __future__ import annotations

from scheduler.core.sim.result import Result


def lending_words(result: Result) -> str:
    """Return how often use exceeded the prediction, and how many jobs ran on what was lent; empty if none."""
    if not result.peak_samples:
        return ""
    rate = result.peaks_exceeded / result.peak_samples
    return (
        f"Violation rate {rate:.2%} of {result.peak_samples:,} samples of nodes that lend;"
        f" {result.jobs_beyond:,} of {len(result.jobs):,} jobs ran beyond what their node has."
    )
