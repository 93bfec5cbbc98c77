"""Start an input worker: python -m allot.training.input_workers MODULE:FUNCTION --trainer HOST:PORT

It connects to the trainer, calls the function with each item it is given, and sends what comes back: NumPy
arrays or bytes, alone or in a list, tuple or dict. Exit code 0: the trainer is done, or it left on SIGTERM,
which loses nothing; 1: no trainer was found.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

from allot.training.errors import TrainingError
from allot.training.input_workers.line import address_of, secret_of
from allot.training.input_workers.worker import Make, Worker

TRAINERS_VARIABLE = "ALLOT_INPUT_TRAINERS"
#: A file that lists them as that variable would in one line, and changes as they come and go.
TRAINERS_FILE_VARIABLE = "ALLOT_INPUT_TRAINERS_FILE"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m allot.training.input_workers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("function", metavar="MODULE:FUNCTION", help="makes a batch of an item")
    parser.add_argument(
        "--trainer",
        action="append",
        metavar="HOST:PORT",
        help=f"where a trainer waits, once for each rank; else what {TRAINERS_VARIABLE} lists, by commas",
    )
    parser.add_argument(
        "--give-up-seconds", type=float, default=300.0, help="how long no trainer may be there (300)"
    )
    parser.add_argument(
        "--trainers-file",
        default=os.environ.get(TRAINERS_FILE_VARIABLE),
        metavar="FILE",
        help="lists trainers that share this worker, by commas in one line, and may change;"
        f" else the file that {TRAINERS_FILE_VARIABLE} names",
    )
    given = parser.parse_args()
    file = None if given.trainer else given.trainers_file
    try:
        names = given.trainer or os.environ.get(TRAINERS_VARIABLE, "").split(",")
        trainers = addresses_of(names)
        if not trainers and not file:
            raise TrainingError(f"give --trainer HOST:PORT, or {TRAINERS_VARIABLE}")
        worker = Worker(function_of(given.function), secret_of(None), give_up_seconds=given.give_up_seconds)
    except TrainingError as error:
        parser.error(str(error))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.leave())
    is_done = worker.follow(lambda: trainers_in(file)) if file else worker.work(trainers)
    return 0 if is_done else 1


def addresses_of(names: Iterable[str]) -> list[tuple[str, int]]:
    """Return host and port of each that is named. Raises TrainingError."""
    return [address_of(name) for name in names if name]


def trainers_in(file: str) -> list[tuple[str, int]] | None:
    """Return where trainers wait, by the first line of a file; None: it is being written, or not there."""
    try:
        text = Path(file).read_text(encoding="utf-8")
        return addresses_of(text.strip().split(",")) if text.endswith("\n") else None
    except (OSError, UnicodeDecodeError, TrainingError):
        return None


def function_of(name: str) -> Make:
    """Return the function that MODULE:FUNCTION names, found from the current folder. Raises TrainingError."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise TrainingError(f"the function must be named MODULE:FUNCTION, not {name!r}")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise TrainingError(f"{name}: {error}") from None
    if not callable(function):
        raise TrainingError(f"{name} is not a function")
    made: Make = function
    return made


if __name__ == "__main__":
    sys.exit(main())
