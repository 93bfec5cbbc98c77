"""Which checks a node has."""

from __future__ import annotations

from collections.abc import Callable

from nodeagent.configuration import Configuration
from nodeagent.devices.inventory import Devices
from nodeagent.devices.nvml import NvmlDevices
from nodeagent.health.checks import Check
from nodeagent.health.clock import ClockCheck
from nodeagent.health.folders import FolderCheck
from nodeagent.health.gpus import GpuCheck
from nodeagent.health.isolation import IsolationCheck
from nodeagent.health.script import ScriptCheck


def checks_of(
    configuration: Configuration,
    devices: Devices,
    clock_ahead_seconds: Callable[[], float | None],
    problem: str = "",
) -> list[Check]:
    """Return the checks that the configuration asks for and the devices allow.

    `problem`: why the runtime starts no job; "" when it does.
    """
    least, node = configuration.health.least_free_bytes, configuration.node
    checks: list[Check] = [
        FolderCheck("work_folder", configuration.work_folder, node, least),
        FolderCheck("checkpoint_folder", configuration.checkpoint_folder, node, least),
        ClockCheck(clock_ahead_seconds),
        IsolationCheck(problem),
    ]
    if isinstance(devices, NvmlDevices):
        checks.append(GpuCheck(devices))
    if configuration.health.script:
        checks.append(ScriptCheck(configuration))
    return checks
