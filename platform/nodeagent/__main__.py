"""`python -m nodeagent --config FILE`: run a node's agent, or those of Slurm's, until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from nodeagent.agent import Agent, AlreadyRunning, keep_going
from nodeagent.configuration import (
    Configuration,
    ConfigurationError,
    Slurm,
    read_configurations,
    require_encryption,
)
from nodeagent.devices.nvml import NoDriver
from nodeagent.process.isolation import Isolation


def main() -> int:
    """Return the exit status: 2 when the configuration or the machine is at fault."""
    parser = argparse.ArgumentParser(prog="nodeagent", description="Run the node agent of this machine.")
    parser.add_argument("--config", type=Path, required=True, help="the agent's configuration, a JSON file")
    parser.add_argument(
        "--stop-jobs-on-exit",
        action="store_true",
        help="stop the attempts too when the agent is stopped; otherwise they go on and are found again",
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="allow http:// to another machine, where others on the way can read the node's token",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="say as JSON how jobs would be isolated here, and start nothing; the exit status is 1 if they"
        " would not run",
    )
    arguments = parser.parse_args()
    if sys.platform != "linux":
        print("nodeagent: the node agent runs on Linux only", file=sys.stderr)
        return 2
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    try:
        configurations = read_configurations(arguments.config)
        require_encryption(configurations[0], insecure=arguments.insecure)
        if arguments.check:
            return _check(configurations[0])
        asyncio.run(_run(configurations, stop_jobs_on_exit=arguments.stop_jobs_on_exit))
    except (ConfigurationError, NoDriver, AlreadyRunning) as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return 2
    return 0


def _check(configuration: Configuration) -> int:
    attempts = Path(configuration.work_folder) / "attempts"
    attempts.mkdir(parents=True, exist_ok=True)
    isolation = Isolation(configuration, str(attempts))
    answer = {
        "isolation_level": isolation.level,
        "problem": isolation.problem,
        "warning": isolation.warning(),
    }
    print(json.dumps(answer))
    return 1 if isolation.problem else 0


async def _run(configurations: Sequence[Configuration], *, stop_jobs_on_exit: bool) -> None:
    if (slurm := configurations[0].slurm) is not None:
        await _run_slurm(slurm, configurations, stop_jobs_on_exit=stop_jobs_on_exit)
        return
    agent = Agent(configurations[0])
    _leave_on_signals([agent])
    await agent.run(stop_jobs_on_exit=stop_jobs_on_exit)


async def _run_slurm(
    slurm: Slurm, configurations: Sequence[Configuration], *, stop_jobs_on_exit: bool
) -> None:
    # Only here: an agent that starts no other system's jobs need not have them in memory.
    from nodeagent.batch.agents import batch_agents
    from nodeagent.batch.slurm import SlurmSystem

    agents, poller = await batch_agents(SlurmSystem(slurm), configurations, slurm.every_seconds)
    _leave_on_signals(agents)
    asking = asyncio.create_task(keep_going(poller.keep_asking))
    await asyncio.gather(*(agent.run(stop_jobs_on_exit=stop_jobs_on_exit) for agent in agents))
    asking.cancel()


def _leave_on_signals(agents: Sequence[Agent]) -> None:
    def leave() -> None:
        for agent in agents:
            agent.leave()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, leave)


if __name__ == "__main__":
    sys.exit(main())
