"""NVIDIA devices: what the driver says of each, and the errors that it reported (Xid).

Most errors are a job's own doing: a bad pointer in a kernel is Xid 31. They end that job and say nothing of
the device. Others mean that the device has to be reset or replaced. What the numbers mean is in NVIDIA's
public Xid catalogue: https://docs.nvidia.com/deploy/xid-errors/
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from nodeagent.clock import boot_clock_seconds
from nodeagent.devices.nvml import NvmlDevices
from nodeagent.messages import Finding, Verdict

log = logging.getLogger(__name__)

#: A device that reported one of these is not fit for jobs before a person has repaired it.
HARDWARE = {
    48: "a memory error of two bits",
    62: "its micro-controller halted",
    64: "a bad memory row could not be taken out of use",
    74: "an NVLink error",
    79: "it has fallen off the bus",
    95: "an uncontained memory error",
    119: "its system processor does not answer",
    120: "an error of its system processor",
    140: "an unrecovered memory error",
    143: "it could not be initialised",
}
#: Worth knowing; the device goes on, and should be reset when there is time.
SUSPICIOUS = {
    61: "a fault in its micro-controller",
    63: "a bad memory row is taken out of use",
    92: "many corrected memory errors",
    94: "a contained memory error, which ended one job",
}
#: Faults of programs: an exception in a kernel, an illegal address, a channel that was given up for it.
APPLICATION = frozenset({8, 13, 31, 32, 43, 45, 68, 69})
#: How long a warning lasts for an error that the device has got over.
WARNED_SECONDS = 3_600.0


class GpuCheck:
    """All devices; its own name stands for the driver, which answers or does not.

    A device that reported a hardware error stays failed until the agent is started again, after whatever was
    done about it: no query shows whether it is sound again.
    """

    name = "driver"
    every_seconds = 5.0
    patience_seconds = 30.0

    def __init__(self, devices: NvmlDevices, clock: Callable[[], float] = boot_clock_seconds) -> None:
        self.devices, self.clock = devices, clock
        #: By device: a set of events of its own, so that an event says whose it is; None where it has none.
        self.events: list[Any] | None = None
        #: By device: the hardware error that it reported last.
        self.failures: dict[int, str] = {}
        #: By device: what to warn of, and until when.
        self.warnings: dict[int, tuple[str, float]] = {}

    def look(self) -> tuple[Finding, ...]:
        if self.events is None:
            self.events = [self._listen(handle) for handle in self.devices.parents]
        found = [Finding(name=self.name, verdict="ok")]
        for index, handle in enumerate(self.devices.parents):
            for xid in self._new_xids(index):
                self._note(index, xid)
            verdict, message = self._judged(index, handle)
            found.append(Finding(name=f"gpu-{index}", verdict=verdict, message=message, gpu=index))
        return tuple(found)

    def _judged(self, index: int, handle: Any) -> tuple[Verdict, str]:
        failure = self.failures.get(index) or self.devices.problem(handle)
        if failure:
            return "failed", failure
        warning, until = self.warnings.get(index, ("", 0.0))
        if warning and self.clock() < until:
            return "warning", warning
        if self._is_too_hot(handle):
            return "warning", "It runs slower than it could, to cool down."
        return "ok", ""

    def _is_too_hot(self, handle: Any) -> bool:
        nvml = self.devices.nvml
        try:
            reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
        except nvml.NVMLError:
            return False
        hot = nvml.nvmlClocksThrottleReasonHwThermalSlowdown | nvml.nvmlClocksThrottleReasonSwThermalSlowdown
        return bool(reasons & hot)

    # Errors that the driver reports by itself

    def _listen(self, handle: Any) -> Any:
        nvml = self.devices.nvml
        try:
            events = nvml.nvmlEventSetCreate()
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
        except nvml.NVMLError as error:
            log.info("The driver does not report errors of a device: %s", error)
            return None
        return events

    def _new_xids(self, index: int) -> list[int]:
        nvml, found = self.devices.nvml, list[int]()
        assert self.events is not None
        while (events := self.events[index]) is not None:
            try:
                # Not a moment is waited: without an event this is an error too.
                found.append(int(nvml.nvmlEventSetWait_v2(events, 0).eventData))
            except nvml.NVMLError:
                break
        return found

    def _note(self, index: int, xid: int) -> None:
        log.warning("GPU %d reported Xid %d", index, xid)
        if xid in HARDWARE:
            self.failures[index] = f"Xid {xid}: {HARDWARE[xid]}. Reset it, then restart the agent."
        elif xid not in APPLICATION:
            meaning = SUSPICIOUS.get(xid, "look it up in NVIDIA's catalogue")
            self.warnings[index] = f"Xid {xid}: {meaning}.", self.clock() + WARNED_SECONDS
