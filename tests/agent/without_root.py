"""What a job is under an agent that is not root: run by test_hostile.py as another user, prints JSON.

without_root.py FOLDER sandbox|landlock
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

from nodeagent.isolation_levels import isolation_level
from nodeagent.process import sandbox
from tests.agent.builders import make_part, python, shell
from tests.agent.hostile_job import attacked
from tests.agent.runtime_node import RuntimeNode

CANNOT = 77
IGNORES = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.fork()
print("up")
time.sleep(600)
"""


async def main(folder: Path, level: str) -> None:
    if level == "landlock":
        sandbox.bubblewraps = lambda: []
    node = RuntimeNode(folder)
    if node.runtime.isolated.problem or isolation_level(node.runtime.isolation) != level:
        print(f"{node.runtime.isolated.warning()} {node.runtime.isolation}", file=sys.stderr)
        sys.exit(CANNOT)
    attack = await attacked(node, folder)
    outcome = await node.run(make_part(shell("exit 3"), attempt=4))
    # The shim dies, and what it looked after is found by its mark.
    node.runtime.shims[1].signal(signal.SIGKILL)
    await node.end_of(1)
    left = node.alive(1)
    await node.start(make_part(python(IGNORES), attempt=3))
    await node.line("up", 3)
    node.restart()
    node.runtime.stop(3, 0.1)
    stopped = await node.end_of(3)
    isolation = {kind: node.runtime.isolation[kind] for kind in ("signals", "user", "processes")}
    print(
        json.dumps(
            {
                "exit_code": outcome.exit_code,
                "attack": attack,
                "stopped": stopped.category,
                "left": left + node.alive(3),
                "isolation": isolation,
            }
        )
    )
    await node.clean_up()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
