"""How a session can end other than by finishing.

The two that end the process derive from SystemExit: code that goes on after any `Exception` must not go on
after these.
"""

from __future__ import annotations

import sys

#: No program means anything else by it: sysexits.h ends at 78, signals begin at 128.
FENCED_EXIT_CODE = 79
SIGNAL_EXIT_CODES_FROM = 128


class TrainingError(Exception):
    """The session cannot do what was asked; says what, and what would be right."""


class StoreError(TrainingError):
    """The checkpoint store refused, or could not be reached in spite of several tries."""


class DamagedCheckpoint(TrainingError):
    """What is stored is not what was saved."""


class Fenced(SystemExit):
    """A newer start of the same job has taken over: this one must write nothing more.

    Not caught, it ends the process with FENCED_EXIT_CODE.
    """

    def __init__(self, ours: str, newest: str) -> None:
        super().__init__(FENCED_EXIT_CODE)
        self.ours, self.newest = ours, newest
        say(f"fenced: start {newest} of this job has taken over from start {ours}, which ends here")


class Stopped(SystemExit):
    """A signal asked for a stop, and what was learned is saved. The exit code is 128 + the signal's number.

    The platform asked, so it takes the attempt for preempted; exit code 0 would mean that the job is done.
    """

    def __init__(self, signal_number: int) -> None:
        super().__init__(SIGNAL_EXIT_CODES_FROM + signal_number)


def say(text: str) -> None:
    """Write a line for people into the job's log."""
    print(f"allot.training: {text}", file=sys.stderr, flush=True)
