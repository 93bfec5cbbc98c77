"""The remote runner, which a batch system begins on a node: a process runtime for one attempt.

    python -I -c "...; main()" FOLDER NAME

The agent is on another machine, so the two exchange everything by files (`batch/job_folder.py`). Begun twice,
by a system that does so or an agent that had to ask again, only the first does anything.

Two machines have two clocks. The remote runner says what its clock shows; the agent adds the length of a
lease to the newest such time that it had read *before* it asked the server for that lease. What comes back is
a deadline by the node's own clock that lies no later than the server's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from nodeagent.batch.job_folder import BatchJobFolder, RunnerKey, read
from nodeagent.clock import boot_clock_seconds, wait_seconds
from nodeagent.configuration import Configuration
from nodeagent.devices.inventory import Devices, Load, find_devices
from nodeagent.folder import write_json
from nodeagent.machine import (
    NEVER_STARTED,
    AttemptExited,
    AttemptPrepared,
    AttemptStarted,
    Event,
    Outcome,
    Part,
    Phase,
)
from nodeagent.messages import NO_SECRETS, DesiredPart, GpuSample, InventoryGpu, Turn, decode, encode
from nodeagent.metrics.sampling import Sampler
from nodeagent.process.runtime import ProcessRuntime
from nodeagent.shim.cgroups import Cgroups
from nodeagent.threads import in_own_thread

log = logging.getLogger(__name__)

#: How often orders are looked for: by those who wait for the gang, and by those whose attempt runs.
LOOK_READY_SECONDS = 0.1
LOOK_RUNNING_SECONDS = 0.25
BEAT_SECONDS = 1.0
BEAT_SHARE = 0.05
SAMPLE_SECONDS = 5.0
#: An agent that has written nothing for this long will not write anything.
FIRST_LEASE_SECONDS = 60.0
#: How long a batch system takes at most to signal all that it started.
SIGNALS_SECONDS = 1.0
ENDED_BY_SYSTEM = "The batch system ended it before the attempt started."

#: How far a batch job has come; the next one follows.
Stage = Literal["preparing", "ready", "running", "ended"]


class AssignedDevices:
    """The devices that the batch system assigned, under the desired indexes.

    The server names the number of devices and, for its own records, which; among equal ones the batch system
    chooses, and other people's jobs on the node rely on its choice.
    """

    def __init__(self, devices: Devices, desired: Iterable[int], assigned: Sequence[str]) -> None:
        self.devices = devices
        self.assigned = dict(zip(sorted(desired), assigned, strict=False))

    @property
    def gpu_model(self) -> str:
        return self.devices.gpu_model

    def gpus(self) -> tuple[InventoryGpu, ...]:
        return self.devices.gpus()

    def samples(self, loads: Mapping[int, Load | None]) -> tuple[GpuSample, ...]:
        """Return samples of the assigned devices alone, under the desired indexes."""
        own = self._own_indexes(loads)
        taken = self.devices.samples(
            {own[desired]: load for desired, load in loads.items() if desired in own}
        )
        desired_of = {index: desired for desired, index in own.items()}
        return tuple(replace(one, index=desired_of[one.index]) for one in taken if one.index in desired_of)

    def memory_by_process(self) -> Mapping[int, Mapping[int, int]]:
        known = self.devices.memory_by_process()
        own = self._own_indexes(self.assigned)
        return {desired: known[index] for desired, index in own.items() if index in known}

    def names(self, indexes: Iterable[int]) -> dict[int, str]:
        return {index: self.assigned.get(index, str(index)) for index in indexes}

    def files(self, indexes: Iterable[int]) -> tuple[str, ...]:
        return self.devices.files(self._own_indexes(indexes).values())

    def _own_indexes(self, desired: Iterable[int]) -> dict[int, int]:
        """Return the devices' own indexes, of those that are known here."""
        known = {name: gpu.index for gpu in self.devices.gpus() for name in (gpu.uuid, str(gpu.index))}
        return {index: known[name] for index, name in self.names(desired).items() if name in known}


class RemoteRunner:
    """Runs one attempt on its node. `run` returns when nothing of it is alive."""

    def __init__(
        self, folder: BatchJobFolder, name: str, configuration: Configuration, desired: DesiredPart
    ) -> None:
        self.folder = folder
        self.name = name
        self.key = RunnerKey() if desired.has_secrets else None
        self.desired = desired
        indexes = {index for replica in desired.replicas for index in replica.gpu_indexes}
        self.assigned = tuple(filter(None, os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")))
        devices = AssignedDevices(find_devices(configuration), indexes, self.assigned)
        # Limits are the batch system's matter, whose own groups are not to be left.
        unlimited = Cgroups(is_unified=False, folders={})
        self.runtime = ProcessRuntime(configuration, self.post, devices, unlimited)
        self.stage: Stage = "preparing"
        self.master_port: int | None = None
        self.started_at: float | None = None
        self.outcome: Outcome | None = None
        self.deadline: float | None = None
        self.is_going = False
        self.stop_order: dict[str, Any] | None = None
        self.turn_order: dict[str, Any] | None = None
        self.is_ended_by_system = False
        self.sampler = Sampler(configuration, devices, self.runtime.folder)
        self.begun_at = boot_clock_seconds()
        self.written_at = 0.0
        self.beat_seconds = BEAT_SECONDS
        self.changed = asyncio.Event()

    async def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.end_by_system)
        self.write_state()
        code = None if self.desired.code is None else open(self.folder.code, "rb")  # noqa: SIM115 - it is closed there
        self.runtime.prepare(self.desired, code)
        sampling = asyncio.create_task(self.keep_sampling())
        while self.outcome is None:
            self.obey_lease()
            self.obey_orders()
            if boot_clock_seconds() >= self.written_at + self.beat_seconds:
                self.write_state()
            self.changed.clear()
            look_seconds = LOOK_RUNNING_SECONDS if self.stage == "running" else LOOK_READY_SECONDS
            try:
                async with asyncio.timeout(wait_seconds(look_seconds)):
                    await self.changed.wait()
            except TimeoutError:
                continue
        await self.hear_of_system()
        self.write_state()
        sampling.cancel()
        self.runtime.close()

    def post(self, event: Event) -> None:
        """Take in what becomes of the attempt."""
        match event:
            case AttemptPrepared(master_port=port):
                self.stage, self.master_port = "ready", port
            case AttemptStarted(at=at):
                self.stage, self.started_at = "running", at
            case AttemptExited(outcome=outcome):
                # Written by `run`, which may have to find out first who ended it.
                self.end(outcome)
        if self.outcome is None:
            self.write_state()
        self.changed.set()

    async def hear_of_system(self) -> None:
        """Wait for the batch system's signal where the attempt ended as if by one: the system signals all
        that it started one after another, and this process may come last."""
        assert self.outcome is not None
        if self.stop_order is None and self.outcome.category == "stopped":
            self.is_ended_by_system = True  # Nothing else stops it without an order.
        elif self.stop_order is None and self.outcome.signal == "SIGTERM":
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SIGNALS_SECONDS):
                    while not self.is_ended_by_system:
                        self.changed.clear()
                        await self.changed.wait()

    async def keep_sampling(self) -> None:
        """A broken device can block its driver; orders and leases must not wait for it."""
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            if self.stage == "running":
                alive = [Part(desired=self.desired, phase=Phase.RUNNING)]
                await in_own_thread("sample", partial(self.sampler.step, alive))

    def obey_lease(self) -> None:
        lease = read(self.folder.lease)
        if lease and (self.deadline is None or lease["deadline"] > self.deadline):
            self.deadline = lease["deadline"]
            attempts = {self.desired.attempt} if lease.get("is_named") else set[int]()
            self.runtime.extend_lease(lease["deadline"], lease["lease_seconds"], attempts)
            # How old a beat is when it is read comes off the lease.
            self.beat_seconds = min(BEAT_SECONDS, lease["lease_seconds"] * BEAT_SHARE)
        end = self.begun_at + FIRST_LEASE_SECONDS if self.deadline is None else self.deadline
        if boot_clock_seconds() < end:
            return
        if self.is_going:
            # Its shim should have ended it by now, unless it stands still and the agent has not dropped it.
            if not (self.runtime.is_frozen(self.desired.attempt) and read(self.folder.job)):
                self.runtime.kill(self.desired.attempt)
        else:
            self.end(lost("The node lost contact with the node agent before the attempt started."))

    def obey_orders(self) -> None:
        orders = read(self.folder.orders)
        stop = orders.get("stop")
        if stop is not None and stop != self.stop_order:
            self.stop_order = stop
            if self.is_going:
                self.runtime.stop(self.desired.attempt, stop["grace_seconds"], is_leaving=stop["is_leaving"])
            else:
                self.end(NEVER_STARTED)
        going = orders.get("go")
        is_ready = self.stage == "ready" and self.deadline is not None and stop is None
        if going is not None and is_ready and not self.is_going:
            self.is_going = True
            sealed = orders.get("secrets")
            answer = NO_SECRETS if self.key is None or not sealed else self.key.open(sealed, self.name)
            self.runtime.start(decode(DesiredPart, going), answer)
        turn = orders.get("turn")
        if turn is not None and turn != self.turn_order and self.is_going:
            self.turn_order = turn
            self.runtime.take_turns(self.desired.attempt, decode(Turn, turn) if turn else None)

    def end_by_system(self) -> None:
        """The batch system sends SIGTERM to all that it started, so the attempt's processes have it too."""
        self.is_ended_by_system = True
        if self.is_going:
            self.runtime.stop(self.desired.attempt, self.desired.grace_seconds, is_leaving=True)
        else:
            self.end(lost(ENDED_BY_SYSTEM))
        self.changed.set()

    def end(self, outcome: Outcome) -> None:
        if self.outcome is None:
            self.outcome, self.stage = outcome, "ended"

    def write_state(self) -> None:
        self.written_at = boot_clock_seconds()
        state = {
            "clock": self.written_at,
            "stage": self.stage,
            "master_port": self.master_port,
            "started_at": self.started_at,
            "outcome": None if self.outcome is None else encode(self.outcome),
            "is_ended_by_system": self.is_ended_by_system and self.stop_order is None,
            "assigned": self.assigned,
            "isolation": self.runtime.isolation,
            "public_key": "" if self.key is None else self.key.public,
            "samples": [encode(sample) for sample in self.sampler.gpus],
        }
        try:
            write_json(self.folder.state, state)
        except OSError:
            log.exception("The state of the job could not be written")  # Again with the next beat.


def lost(message: str) -> Outcome:
    return Outcome(exit_code=None, category="lost", message=message)


def main() -> None:
    """Run the job of the folder and name given, unless another process does or did."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    folder, name = BatchJobFolder(sys.argv[1]), sys.argv[2]
    if not folder.take(name):
        log.info("The job %s is run by another agent, or no longer exists.", name)
        return
    job = read(folder.job)
    configuration = decode(Configuration, job["configuration"])
    desired = decode(DesiredPart, job["wish"])

    async def run() -> None:
        await RemoteRunner(folder, name, configuration, desired).run()

    asyncio.run(run())
