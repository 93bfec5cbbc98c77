"""A trainer that goes on until its test lets it end, and the function of its input workers; both run as jobs.

python batches.py       the trainer: it says which item it missed, and how many workers it had batches of
python batches.py stream  one that follows a stream with others: it says the number of its last batch
"""

import itertools
import os
import sys
from pathlib import Path

import numpy as np

import allot.training


def make(item: int) -> object:
    return np.array([item, int(os.environ["ALLOT_ATTEMPT"])])


def follow() -> None:
    may_end = Path(os.environ["ALLOT_CHECKPOINT_DIR"]) / "go"
    had: set[int] = set()
    makers: set[int] = set()
    with allot.training.session() as run, run.input_workers() as inputs:
        for number, (made, maker) in inputs.stream():
            if made != number or number in had:
                raise SystemExit(f"batch {number} is {made}, or comes twice")
            had.add(number)
            makers.add(int(maker))
            run.report(step=len(had), makers=len(makers), number=number)
            if may_end.exists():
                break


def main() -> None:
    may_end = Path(os.environ["ALLOT_CHECKPOINT_DIR"]) / "go"
    makers: set[int] = set()
    with allot.training.session() as run, run.input_workers() as inputs:
        for expected, (item, (made, maker)) in enumerate(inputs.batches(itertools.count())):
            if not expected == item == made:
                raise SystemExit(f"batch {expected} is {made}, of item {item}")
            makers.add(int(maker))
            run.report(step=expected + 1, makers=len(makers))
            if may_end.exists():
                break
    print(f"had {expected + 1} batches of attempts", *sorted(makers), flush=True)


if __name__ == "__main__":
    follow() if "stream" in sys.argv else main()
