"""One node's attempts, carried out by a batch system: each attempt's part on the node is one of its jobs.

Preparing an attempt submits the job, and the attempt is ready when the job *runs*: its remote runner
(`remote_runner`) is on the node and waits for the gang. So a gang starts on all of its nodes or on none,
however long one of them is busy with other people's work, and starting asks the batch system nothing. From
then on agent and remote runner exchange everything by files; the batch system is asked only what became of
jobs whose remote runners fell silent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import shlex
import sys
import zlib
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from nodeagent.batch.job_folder import BatchJobFolder, read, seal
from nodeagent.batch.polling import JOB_LISTS_PER_NODE_LIST, BatchDevices, BatchPoller
from nodeagent.batch.remote_runner import Stage, lost
from nodeagent.batch.system import BatchError, BatchJob, BatchJobStatus
from nodeagent.clock import boot_clock_seconds, wait_seconds
from nodeagent.configuration import Configuration
from nodeagent.executor import kept_desired
from nodeagent.folder import AttemptFolder, read_json, write_json
from nodeagent.machine import (
    NEVER_STARTED,
    AttemptAdopted,
    AttemptExited,
    AttemptPrepared,
    AttemptStarted,
    Event,
    Outcome,
    Part,
    Phase,
)
from nodeagent.messages import NO_SECRETS, DesiredPart, GpuSample, SecretsAnswer, Turn, decode, encode
from nodeagent.process.removing import remove
from nodeagent.programs import program
from nodeagent.threads import in_own_thread

log = logging.getLogger(__name__)

#: How often remote runners are read: while one is expected to report something, and otherwise.
LOOK_SOON_SECONDS = 0.1
LOOK_SECONDS = 0.5
#: A job that is not in a list may have been submitted while the list was made, and the last words of an
#: remote runner may be on their way. Not over two lists.
LISTS_UNTIL_OVER = 2
#: More than the node's clock is read between asking for a lease and having it.
BEATS_KEPT = 60
CANCEL_AGAIN_SECONDS = 10.0
#: A live remote runner writes at least this often, on a file system that is slow to show it.
SILENT_SECONDS = 10.0
#: Out of memory, in the words of Slurm and of Kubernetes.
OUT_OF_MEMORY = ("OUT_OF_MEMORY", "OOMKilled")

REMOTE_RUNNER = program("nodeagent.batch.remote_runner")


@dataclass(slots=True)
class JobRecord:
    """One batch job as the agent knows it."""

    name: str
    desired: DesiredPart
    #: When the batch system took it, by this machine's clock; infinite: not yet; None: it has to be asked.
    submitted_at: float | None = None
    stage: Stage = "preparing"
    #: By which secrets are sealed for the remote runner; "" when it needs none, or has said nothing yet.
    public_key: str = ""
    orders: dict[str, Any] = field(default_factory=dict)
    #: (when it was read, what the node's clock had shown), oldest first.
    beats: list[tuple[float, float]] = field(default_factory=list)
    #: By this machine's clock: from then on its lease lets no process run; 0: there never was any.
    dead_by: float = 0.0
    cancelled_at: float = -math.inf
    samples: tuple[GpuSample, ...] = ()
    #: How many lists in a row did not have its job any more, and the newest list that was read.
    lists_over: int = 0
    newest_list: int = 0
    is_over: bool = False
    #: Whether its remote runner's last words could not be taken in, which is logged once.
    is_unreadable: bool = False


class BatchRuntime:
    """Hands attempts to a batch system, and posts what becomes of them as events."""

    def __init__(
        self, configuration: Configuration, post: Callable[[Event], None], poller: BatchPoller
    ) -> None:
        self.configuration = configuration
        self.post = post
        self.poller = poller
        self.root = Path(configuration.work_folder)
        # The name is the first version's: what that left must be found.
        self.jobs_folder = self.root / "errands"
        for path in (self.root, self.jobs_folder):
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o711)  # Jobs run as other users, and have to pass through.
        self.lease = str(self.root / "lease")
        self.known_isolation = str(self.root / "isolation")
        # The same node may be served by two installations.
        self.prefix = f"allotment-{zlib.crc32(str(self.root).encode()):08x}-{configuration.node}"
        self.records: dict[int, JobRecord] = {}
        self.began_at = boot_clock_seconds()
        self.soon = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()
        self.devices = BatchDevices(configuration.node, poller, self._gpus_in_use, self._samples)
        poller.follow(
            lambda: any(not record.is_over for record in self.records.values()), self.devices.count_others
        )
        self._begin(self._keep_looking())

    @property
    def isolation(self) -> dict[str, bool]:
        """What the newest remote runner found on the node; nothing is known before the first."""
        found = read(self.known_isolation)
        if not found and self.configuration.sandbox != "required":
            return {"required": False}  # It may turn out that nothing isolates jobs there.
        return found

    @property
    def problem(self) -> str:
        return ""  # The remote runners on the node say so, of each attempt.

    @property
    def inventory_seconds(self) -> float:
        """As often as the batch system is asked for its nodes; to read its answer costs nothing."""
        return self.poller.every_seconds * JOB_LISTS_PER_NODE_LIST

    def folder(self, attempt: int) -> AttemptFolder:
        return self._job_folder(attempt).attempt(attempt)

    def extend_lease(self, deadline: float, lease_seconds: float, attempts: Collection[int]) -> None:
        """Hand the lease on, to each remote runner by its own clock."""
        polled_at = deadline - lease_seconds
        for attempt, record in self.records.items():
            clocks = [clock for read_at, clock in record.beats if read_at <= polled_at]
            if clocks and not record.is_over:
                record.dead_by = boot_clock_seconds() + lease_seconds
                grant = {
                    "deadline": clocks[-1] + lease_seconds,
                    "lease_seconds": lease_seconds,
                    "is_named": attempt in attempts,
                }
                try:
                    write_json(self._job_folder(attempt).lease, grant)
                except OSError:
                    # What is wrong with one folder must not cost the others their lease.
                    log.exception("The lease of attempt %d could not be handed on", attempt)
        write_json(self.lease, {"deadline": deadline, "lease_seconds": lease_seconds})

    def is_frozen(self, attempt: int) -> bool:
        """Whether the node still reports: then its remote runner takes care of the attempt."""
        record = self.records.get(attempt)
        if record is None or not self.configuration.freeze_seconds:
            return False
        heard_at = record.beats[-1][0] if record.beats else self.began_at
        return boot_clock_seconds() < heard_at + SILENT_SECONDS

    def lease_deadline(self) -> float:
        """Return the deadline left behind; should it be of an earlier boot, one that is not too far off."""
        kept = read(self.lease)
        return min(kept["deadline"], boot_clock_seconds() + kept["lease_seconds"]) if kept else 0.0

    def prepare(self, desired: DesiredPart, code: IO[bytes] | None = None) -> None:
        """Submit the job; its remote runner makes the folders and chooses the port."""
        record = JobRecord(name=f"{self.prefix}-{desired.attempt}", desired=desired, submitted_at=math.inf)
        self.records[desired.attempt] = record
        folder = self._job_folder(desired.attempt)
        # What it may do for jobs, but nothing in the name of the node.
        own = replace(self.configuration, token="", file="", work_folder=folder.path, slurm=None)
        try:
            with code or contextlib.nullcontext():
                folder.make(
                    {"name": record.name, "wish": encode(desired), "configuration": encode(own)}, code
                )
        except OSError as error:
            self._end(record, lost(f"The attempt could not be prepared: {error}"))
            return
        self._begin(self._submit(record))
        self.soon.set()

    def release(self, attempt: int) -> bool:
        """Withdraw the job. The side that has the claim decides: the remote runner, or this agent."""
        if (record := self.records.get(attempt)) is None or record.is_over:
            return False
        self.stop(attempt, 0.0)
        if self._job_folder(attempt).take(record.name):
            self._end(record, NEVER_STARTED)
        self._cancel(record)
        return False

    def is_queued(self, attempt: int) -> bool:
        """Whether its job waits, on a node where the batch system starts jobs: a closed one may stay so."""
        if (record := self.records.get(attempt)) is None or record.is_over or record.stage != "preparing":
            return False
        job = self.poller.jobs.get(record.name)
        is_waiting = job is not None and job.state == "waiting"
        return is_waiting and not self.poller.nodes[self.configuration.node].problem

    def start(self, desired: DesiredPart, secrets: SecretsAnswer = NO_SECRETS) -> None:
        """Order the remote runner to go; what is secret is sealed for it alone."""
        if (record := self.records.get(desired.attempt)) is None:
            return
        if secrets != NO_SECRETS:
            record.orders["secrets"] = seal(secrets, record.public_key, record.name)
        self._order(desired.attempt, "go", encode(desired))

    def stop(self, attempt: int, grace_seconds: float, *, is_leaving: bool = False) -> None:
        """Order the remote runner to stop, and how."""
        self._order(attempt, "stop", {"grace_seconds": grace_seconds, "is_leaving": is_leaving})

    def take_turns(self, attempt: int, turn: Turn | None) -> None:
        """Send the remote runner its turns."""
        self._order(attempt, "turn", {} if turn is None else encode(turn))

    def change_limits(self, desired: DesiredPart) -> None:
        """Do nothing: limits are the batch system's matter, set when a job begins."""

    def name_trainers(self, attempt: int, trainers: str) -> None:
        """Do nothing: a worker of the batch system serves those that were there when it began."""

    def kill(self, attempt: int) -> None:
        """Have the batch system kill the job."""
        if (record := self.records.get(attempt)) is not None and not record.is_over:
            self._cancel(record)

    def forget(self, attempt: int) -> None:
        """Remove the job's folder; without it, a job that is begun so late finds nothing to do."""
        self.records.pop(attempt, None)
        trash = self.jobs_folder / f".trash-{attempt}"
        try:
            os.rename(self._job_folder(attempt).path, trash)
        except FileNotFoundError:
            return
        self._begin(remove(trash))

    def recover(self) -> list[AttemptAdopted]:
        """Find the jobs of an earlier life of the agent; their remote runners go on as if nothing was."""
        found, others = [], []
        for path in sorted(self.jobs_folder.iterdir()):
            adopted = self._adopt(int(path.name)) if path.name.isdigit() else None
            if adopted is not None:
                found.append(adopted)
            else:
                others.append(path)
        self._begin(remove(*others))
        self.soon.set()
        return found

    def close(self) -> None:
        """Stop watching; jobs go on."""
        for task in self.tasks:
            task.cancel()

    def _job_folder(self, attempt: int) -> BatchJobFolder:
        return BatchJobFolder(str(self.jobs_folder / str(attempt)))

    def _gpus_in_use(self) -> set[int]:
        replicas = [replica for record in list(self.records.values()) for replica in record.desired.replicas]
        return {index for replica in replicas for index in replica.gpu_indexes}

    def _samples(self) -> tuple[GpuSample, ...]:
        return tuple(sample for record in list(self.records.values()) for sample in record.samples)

    def _order(self, attempt: int, order: str, value: dict[str, Any]) -> None:
        if (record := self.records.get(attempt)) is None or record.is_over:
            return
        record.orders[order] = value
        write_json(self._job_folder(attempt).orders, record.orders)
        self.soon.set()

    def _adopt(self, attempt: int) -> AttemptAdopted | None:
        folder = self._job_folder(attempt)
        kept = read(folder.job)
        desired = kept_desired(attempt, kept.get("wish"), read_json(self.folder(attempt).spec))
        if desired is None:
            return None  # It was not handed out yet. The server will ask for it again.
        state, orders = read(folder.state), read(folder.orders)
        key = state.get("public_key", "")
        record = self.records[attempt] = JobRecord(
            name=kept["name"], desired=desired, public_key=key, orders=orders
        )
        part = Part(desired=desired, master_port=state.get("master_port"))
        if "go" in orders:
            record.stage = "ready" if state.get("started_at") is None else "running"
            record.dead_by = boot_clock_seconds() + read(self.lease).get("lease_seconds", 0.0)
            phase = Phase.STOPPING if "stop" in orders else Phase.RUNNING
            part = replace(part, phase=phase, started_at=state.get("started_at"))
        elif state.get("stage") == "ready":
            record.stage = "ready"
            part = replace(part, phase=Phase.READY)
        return AttemptAdopted(part=part)

    async def _keep_looking(self) -> None:
        while True:
            expected = [
                record
                for record in self.records.values()
                if record.stage != "running" or "stop" in record.orders
            ]
            is_soon = any(not record.is_over for record in expected)
            self.soon.clear()
            try:
                async with asyncio.timeout(wait_seconds(LOOK_SOON_SECONDS if is_soon else LOOK_SECONDS)):
                    await self.soon.wait()
            except TimeoutError:
                pass
            for attempt, record in list(self.records.items()):
                if not record.is_over:
                    try:
                        # The file system is shared and may hang; reports have to go on.
                        look = partial(read, self._job_folder(attempt).state)
                        state = await in_own_thread("read state", look)
                        self._look(attempt, record, state)
                        record.is_unreadable = False
                    except Exception:
                        # What one remote runner wrote must not keep those of all others unread.
                        if not record.is_unreadable:
                            log.exception("The state of attempt %d is not understood", attempt)
                        record.is_unreadable = True

    def _look(self, attempt: int, record: JobRecord, state: dict[str, Any]) -> None:
        if record.is_over:
            return  # Meanwhile.
        self._take_in(attempt, record, state)
        is_late = 0 < record.dead_by <= boot_clock_seconds()
        if is_late and not record.is_over and not self.is_frozen(attempt):
            self._cancel(record)  # Its remote runner has fallen silent.
        if record.is_over or self.poller.lists == record.newest_list:
            return
        record.newest_list = self.poller.lists
        job = self.poller.jobs.get(record.name)
        if record.submitted_at is None:
            # An earlier life of the agent was about to submit it, and perhaps did.
            record.submitted_at = boot_clock_seconds()
            if job is None and not self._job_folder(attempt).is_claimed():
                self._begin(self._submit(record))
        elif self.poller.polled_at > record.submitted_at:
            is_alive = job is not None and job.state in ("waiting", "running")
            record.lists_over = 0 if is_alive else record.lists_over + 1
            if record.lists_over >= (1 if record.stage == "ended" else LISTS_UNTIL_OVER):
                self._over(attempt, record, job)

    def _take_in(self, attempt: int, record: JobRecord, state: dict[str, Any]) -> None:
        """What the remote runner says."""
        if not state:
            return
        if not record.beats or record.beats[-1][1] != state["clock"]:
            record.beats = [*record.beats[-BEATS_KEPT:], (boot_clock_seconds(), state["clock"])]
            record.samples = tuple(decode(GpuSample, sample) for sample in state.get("samples", ()))
        stage, before = state["stage"], record.stage
        if stage == before and stage != "ended":
            return
        record.public_key = state.get("public_key", "")
        if before == "preparing" and stage in ("ready", "running"):
            if state["isolation"] != self.isolation:
                write_json(self.known_isolation, state["isolation"])
            log.info("Attempt %d was given the GPUs %s.", attempt, ", ".join(state["assigned"]) or "none")
            self.post(AttemptPrepared(attempt=attempt, master_port=state["master_port"]))
        if stage == "running":
            self.post(AttemptStarted(attempt=attempt, at=state["started_at"]))
        record.stage = stage
        if stage == "ended" and not state["is_ended_by_system"]:
            self._end(record, decode(Outcome, state["outcome"]))
        elif stage == "ended" and before != "ended":
            self.poller.ask_soon()  # It knows why.

    def _over(self, attempt: int, record: JobRecord, job: BatchJobStatus | None) -> None:
        """The batch system says that the job is over, and its remote runner did not say how it ended."""
        name = self.poller.system.name
        number = f" {job.number}" if job else ""
        words = job.words if job else "it is gone"
        if self._job_folder(attempt).take(record.name):
            self._end(record, lost(f"{name} ended job{number} before the attempt started: {words}."))
        elif (job is not None and job.state == "ended") or boot_clock_seconds() >= record.dead_by:
            outcome = lost(f"{name} ended job{number}: {words}.")
            if any(word in words for word in OUT_OF_MEMORY):
                outcome = replace(outcome, category="out_of_memory")
            self._end(record, outcome)
            # The state of a silent node is unknown: what may stand still there must not be found again.
            self._cancel(record)

    def _end(self, record: JobRecord, outcome: Outcome) -> None:
        record.is_over = True
        self.post(AttemptExited(attempt=record.desired.attempt, outcome=outcome))

    async def _submit(self, record: JobRecord) -> None:
        desired, folder = record.desired, self._job_folder(record.desired.attempt)
        command = [sys.executable, "-I", "-c", REMOTE_RUNNER, folder.path, record.name]
        job = BatchJob(
            name=record.name,
            node=self.configuration.node,
            command=shlex.join(command),
            log=folder.log,
            gpu_model=desired.gpu_model,
            gpus=len({index for replica in desired.replicas for index in replica.gpu_indexes}),
            cpus=sum(replica.cpus for replica in desired.replicas),
            memory_bytes=sum(replica.memory_bytes for replica in desired.replicas),
        )
        try:
            number = await self.poller.system.submit(job)
            name = self.poller.system.name
            log.info("Attempt %d on %s is job %s of %s.", desired.attempt, job.node, number, name)
        except BatchError as error:
            # Perhaps it was taken and only the answer was lost. The holder of the claim knows.
            if not record.is_over and folder.take(record.name):
                self._end(record, lost(f"{self.poller.system.name} did not take the job: {error}"))
                self._cancel(record)
        record.submitted_at = boot_clock_seconds()

    def _cancel(self, record: JobRecord) -> None:
        now = boot_clock_seconds()
        if now >= record.cancelled_at + CANCEL_AGAIN_SECONDS:
            record.cancelled_at = now
            self._begin(self._have_cancelled(record))

    async def _have_cancelled(self, record: JobRecord) -> None:
        try:
            await self.poller.system.cancel(record.name)
        except BatchError as error:
            log.warning("The job %s could not be cancelled: %s", record.name, error)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
