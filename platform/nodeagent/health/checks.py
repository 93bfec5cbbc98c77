"""What a health check is, which a node has, and the monitor that asks them again and again without waiting.

A broken disk or driver blocks any call to it, so each check runs in a thread of its own. A check that does
not answer in time has failed, and is not asked again before it answers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from nodeagent.configuration import Configuration
from nodeagent.devices.inventory import Devices
from nodeagent.devices.nvml import NvmlDevices
from nodeagent.health.gpus import GpuCheck
from nodeagent.health.node import ClockCheck, FolderCheck, IsolationCheck
from nodeagent.health.script import ScriptCheck
from nodeagent.messages import Finding, InventoryGpu

log = logging.getLogger(__name__)

LONGEST_MESSAGE_CHARACTERS = 200


class Check(Protocol):
    """One thing that is checked again and again."""

    #: The name of the finding that states whether the check itself answers.
    name: str
    every_seconds: float
    #: How long a check may take.
    patience_seconds: float

    def look(self) -> Sequence[Finding]:
        """Return what is found now; may block."""


class CheckState:
    """One check, its look under way, and what it found last."""

    def __init__(self, check: Check) -> None:
        self.check = check
        #: None before the first answer.
        self.findings: tuple[Finding, ...] | None = None
        self.looked_at: float | None = None
        self.thread: threading.Thread | None = None
        self._answer: tuple[Finding, ...] | None = None

    def step(self, now: float) -> None:
        """Begin a check when it is time; read the findings of one that is done."""
        if self.thread is not None:
            if not self.thread.is_alive():
                self.thread, self.findings = None, self._answer
            elif self.looked_at is not None and now - self.looked_at >= self.check.patience_seconds:
                self.findings = self._without_answer()
            return
        if self.looked_at is None or now - self.looked_at >= self.check.every_seconds:
            self.looked_at = now
            # Nothing waits for a daemon at the end of the program: it may hang for ever.
            self.thread = threading.Thread(target=self._look, name=f"check {self.check.name}", daemon=True)
            self.thread.start()

    def _look(self) -> None:
        try:
            found = tuple(self.check.look())
        except Exception as error:
            # A bug must not take nodes out of service.
            log.exception("The health check %s failed itself", self.check.name)
            found = (Finding(name=self.check.name, verdict="warning", message=f"Could not check: {error!r}"),)
        self._answer = tuple(
            [replace(one, message=one.message[:LONGEST_MESSAGE_CHARACTERS]) for one in found]
        )

    def _without_answer(self) -> tuple[Finding, ...]:
        name, patience = self.check.name, self.check.patience_seconds
        others = [finding for finding in self.findings or () if finding.name != name]
        return (Finding(name=name, verdict="failed", message=f"No answer within {patience:g} s."), *others)


class Monitor:
    """All checks of the node."""

    def __init__(self, checks: Sequence[Check]) -> None:
        self.states = [CheckState(check) for check in checks]
        #: None until every check has been answered once: what is not known yet is neither good nor bad.
        self.findings: tuple[Finding, ...] | None = None

    def step(self, now: float) -> bool:
        """Begin checks that are due, read those that are done; return whether the findings have changed.

        `now`: seconds of any clock that does not jump.
        """
        before = self.findings
        found: list[Finding] = []
        is_complete = True
        for state in self.states:
            state.step(now)
            is_complete = is_complete and state.findings is not None
            found += state.findings or ()
        if is_complete:
            self.findings = tuple(found)
        return self.findings != before

    def judged(self, gpus: Sequence[InventoryGpu]) -> tuple[InventoryGpu, ...]:
        """Return the devices, those of which a check has failed as not healthy."""
        failed = {
            finding.gpu: finding.message
            for finding in self.findings or ()
            if finding.gpu is not None and finding.verdict == "failed"
        }
        return tuple(
            [
                replace(gpu, healthy=False, problem=gpu.problem or failed[gpu.index])
                if gpu.index in failed
                else gpu
                for gpu in gpus
            ]
        )


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
