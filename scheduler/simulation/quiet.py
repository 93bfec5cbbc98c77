"""Commands whose stdout is read by programs: nothing that solvers print may stand amid the results."""

from __future__ import annotations

import ctypes
import os
import platform
from functools import cache


@cache
def silence_solvers() -> None:
    """Let what C writes to its `stdout` go nowhere from now on.

    Where HiGHS repairs a solution that violates a row by a rounding error, it calls `printf`, whatever its
    options say. Python has a buffer of its own, and the descriptor stays what it is: other threads and
    children write on.
    """
    # Elsewhere C's `stdout` is no variable that may be set.
    if platform.libc_ver()[0] != "glibc":
        return
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    if (nowhere := libc.fopen(os.devnull.encode(), b"w")) is not None:
        ctypes.c_void_p.in_dll(libc, "stdout").value = nowhere
