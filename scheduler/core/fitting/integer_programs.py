"""The only file that knows the solver of integer programs: HiGHS, by way of SciPy."""

from __future__ import annotations

import ctypes
import os
import platform
from functools import cache
from typing import Any


def milp(costs: Any, **program: Any) -> Any:
    """Return the result of SciPy's `milp`, which writes nothing to stdout meanwhile."""
    # SciPy takes a third of a second to load, and most processes that know this never compute with it.
    from scipy.optimize import milp as solve

    _silence_stdout_of_c()
    return solve(costs, **program)


@cache
def _silence_stdout_of_c() -> None:
    """Let what C writes to its `stdout` go nowhere from now on.

    Where HiGHS repairs a solution that violates a row by a rounding error, it calls `printf`, whatever its
    options say. The line would stand amid the results of a simulation that are read from there.
    Python has a buffer of its own, and the descriptor stays what it is: other threads and children write on.
    """
    # Elsewhere C's `stdout` is no variable that may be set.
    if platform.libc_ver()[0] != "glibc":
        return
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    if (nowhere := libc.fopen(os.devnull.encode(), b"w")) is not None:
        ctypes.c_void_p.in_dll(libc, "stdout").value = nowhere
