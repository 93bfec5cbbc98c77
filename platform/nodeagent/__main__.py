"""`python -m nodeagent --config FILE`: run the agent of one node until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path

from nodeagent.agent import Agent, AlreadyRunning
from nodeagent.configuration import Configuration, ConfigurationError, read_configuration
from nodeagent.nvml import NoDriver


def main() -> int:
    """Return the exit status: 2 when the configuration or the machine is at fault."""
    parser = argparse.ArgumentParser(prog="nodeagent", description="Run the node agent of this machine.")
    parser.add_argument("--config", type=Path, required=True, help="the agent's configuration, a JSON file")
    parser.add_argument(
        "--stop-jobs-on-exit",
        action="store_true",
        help="stop the attempts too when the agent is stopped; otherwise they go on and are found again",
    )
    arguments = parser.parse_args()
    if sys.platform != "linux":
        print("nodeagent: the node agent runs on Linux only", file=sys.stderr)
        return 2
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    try:
        configuration = read_configuration(arguments.config)
        asyncio.run(_run(configuration, stop_jobs_on_exit=arguments.stop_jobs_on_exit))
    except (ConfigurationError, NoDriver, AlreadyRunning) as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return 2
    return 0


async def _run(configuration: Configuration, *, stop_jobs_on_exit: bool) -> None:
    agent = Agent(configuration)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.leave)
    await agent.run(stop_jobs_on_exit=stop_jobs_on_exit)


if __name__ == "__main__":
    sys.exit(main())
