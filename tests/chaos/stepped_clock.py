"""Runs the node agent with a wall clock that can be set: by as many seconds as the file named first says.

Only the agent's own clock steps. A machine's clock belongs to all its processes, and Linux has no name space
for it; the boot clock, which leases go by, cannot be stepped by anyone.
"""

import runpy
import sys
import time
from pathlib import Path

offset_file = Path(sys.argv.pop(1))
real_time = time.time


def stepped_time() -> float:
    return real_time() + float(offset_file.read_text() or 0)


time.time = stepped_time
runpy.run_module("nodeagent", run_name="__main__", alter_sys=True)
