"""What a job is under an agent that is not root: run by test_hostile.py as another user, prints JSON."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

from tests.agent.builders import make_part, python, shell
from tests.agent.runtime_node import RuntimeNode

CANNOT = 77
IGNORES = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.fork()
print("up")
time.sleep(60)
"""


async def main(folder: Path) -> None:
    node = RuntimeNode(folder)
    if node.runtime.sandbox.problem:
        print(node.runtime.sandbox.problem, file=sys.stderr)
        sys.exit(CANNOT)
    (folder / "node-1" / "secret").write_text("seen")
    script = "id -u; grep CapBnd /proc/self/status; "
    script += f"cat {folder}/node-1/secret 2>/dev/null || echo no secret; exit 3"
    outcome = await node.run(make_part(shell(script)))
    await node.start(make_part(python(IGNORES), attempt=2))
    await node.line("up", 2)
    # The minder dies, and what it minded is found by its mark.
    node.runtime.minded[2].signal(signal.SIGKILL)
    await node.end_of(2)
    left = node.alive(2)
    await node.start(make_part(python(IGNORES), attempt=3))
    await node.line("up", 3)
    node.restart()
    node.runtime.stop(3, 0.1)
    stopped = await node.end_of(3)
    isolation = {kind: node.runtime.isolation[kind] for kind in ("sandbox", "user", "processes")}
    print(
        json.dumps(
            {
                "exit_code": outcome.exit_code,
                "text": node.text(),
                "stopped": stopped.category,
                "left": left + node.alive(3),
                "isolation": isolation,
            }
        )
    )
    await node.clean_up()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
