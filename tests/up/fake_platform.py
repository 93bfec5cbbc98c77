"""A small platform of fake children, run as a process of its own by the tests of the supervisor.

Each child writes its pid to `<folder>/<name>.pid`, then "ready", then waits; when it is told to end
it appends its name to `<folder>/ended` first.
"""

import asyncio
import re
import sys
from dataclasses import replace
from pathlib import Path

from controlplane.embedded.spawn import Spawn
from controlplane.up.child import ChildSpec
from controlplane.up.console import Console, StartError
from controlplane.up.supervisor import Supervisor, in_foreground

CHILD = """
import os, signal, subprocess, sys
name, folder, manner = sys.argv[1:]
def end(*_):
    with open(f"{folder}/ended", "a") as file:
        file.write(name + "\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN if manner == "deaf" else end)
if manner in ("parent", "deaf"):
    # As an agent starts a job when it is "deaf": in a session of its own.
    pause = [sys.executable, "-c", "import signal; signal.pause()"]
    helper = subprocess.Popen(pause, start_new_session=manner == "deaf")
    open(f"{folder}/helper.pid", "w").write(str(helper.pid))
with open(f"{folder}/{name}.pid.new", "w") as file:
    file.write(str(os.getpid()))
os.replace(f"{folder}/{name}.pid.new", f"{folder}/{name}.pid")
if manner == "broken" or (manner == "refused" and not os.path.exists(f"{folder}/allowed")):
    sys.exit("cannot find my configuration")
print("ready", "x" * 200_000, flush=True)
while True:
    signal.pause()
"""


def spec(name: str, folder: Path, *, layer: int, manner: str = "plain") -> ChildSpec:
    argv = [sys.executable, "-S", "-c", CHILD, name, str(folder), manner]
    return ChildSpec(name, Spawn(argv, folder), ready_line=re.compile("^ready"), layer=layer, stop_seconds=2)


def main(folder: Path, manner: str) -> int:
    async def start(supervisor: Supervisor) -> None:
        await supervisor.start("database", [spec("database", folder, layer=0)])
        if manner == "refused":
            await supervisor.start("web", [spec("web", folder, layer=1)])
            agent = spec("agent", folder, layer=2, manner=manner)
            await supervisor.start("agent", [replace(agent, is_needed=False)])
        else:
            await supervisor.start("web", [spec("web", folder, layer=1, manner=manner)])
        console.say("all ready")
        console.follow = True

    console = Console()
    try:
        asyncio.run(in_foreground(start, console, folder))
    except StartError as error:
        console.fail(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
