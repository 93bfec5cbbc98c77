"""What HiGHS has to say of an integer program is no part of what a command writes to stdout."""

import subprocess
import sys

import pytest

#: Its solution violates the row by a rounding error, which HiGHS repairs, and says so.
PROGRAM = """
import os
from scipy.optimize import Bounds, LinearConstraint, milp
from scheduler.simulation.quiet import silence_solvers

{first}
row = LinearConstraint([[2e-4, 2e5]], 89106843703.1317, 89106843703.1317)
found = milp([-300.0, 20.0], integrality=[1, 0], bounds=Bounds(0, [100.0, 1e6]), constraints=row)
print(round(found.x[0]), flush=True)
os.system("echo of a child")
"""


@pytest.mark.parametrize(("first", "is_silent"), [("", False), ("silence_solvers()", True)])
def test_only_what_the_process_itself_writes_is_on_stdout(first: str, is_silent: bool) -> None:
    command = [sys.executable, "-c", PROGRAM.format(first=first)]
    written = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert ("HighsMipSolverData" not in written) == is_silent
    assert [line for line in written.splitlines() if "Highs" not in line] == ["100", "of a child"]
