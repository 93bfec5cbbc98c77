"""Many agents in one process: those of the nodes of a batch system, for which this machine speaks."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from nodeagent.agent import Agent
from nodeagent.batch.polling import BatchPoller
from nodeagent.batch.runtime import BatchRuntime
from nodeagent.batch.system import BatchError, BatchNode, BatchSystem
from nodeagent.client import Backoff
from nodeagent.configuration import Configuration, ConfigurationError, SimulatedGpu

log = logging.getLogger(__name__)

RETRY_FIRST_SECONDS = 1.0
RETRY_MOST_SECONDS = 15.0


async def batch_agents(
    system: BatchSystem, configurations: Sequence[Configuration], every_seconds: float
) -> tuple[list[Agent], BatchPoller]:
    """Return an agent for each node, and what has to be kept asking while they run.

    Waits until the system answers: what the nodes are, only it knows.
    """
    nodes = await _first_answer(system)
    for node in nodes.values():
        if not node.gpus or not node.gpu_model:
            raise ConfigurationError(
                "slurm.nodes: each must have GPUs of a model, Gres=gpu:MODEL:COUNT in slurm.conf"
                " (or the model's name in slurm.gpu_model)"
            )
    poller = BatchPoller(system, nodes, every_seconds)
    executor = partial(BatchRuntime, poller=poller)
    return [Agent(_with_hardware(one, nodes[one.node]), executor) for one in configurations], poller


def _with_hardware(configuration: Configuration, node: BatchNode) -> Configuration:
    """Return the configuration with what the batch system reports of the node."""
    inventory = replace(configuration.inventory, cpus=node.cpus, memory_bytes=node.memory_bytes)
    if inventory.kind == "simulated":
        gpus = (SimulatedGpu(index=index, memory_bytes=node.gpu_memory_bytes) for index in range(node.gpus))
        inventory = replace(inventory, gpu_model=node.gpu_model, gpus=tuple(gpus))
    return replace(configuration, inventory=inventory, address=node.address)


async def _first_answer(system: BatchSystem) -> Mapping[str, BatchNode]:
    backoff = Backoff(RETRY_FIRST_SECONDS, RETRY_MOST_SECONDS, random.random)
    while True:
        try:
            return await system.nodes()
        except BatchError as error:
            if not backoff.failures:
                log.warning("%s does not answer: %s", system.name, error)
            await asyncio.sleep(backoff.failed())
