"""The agent itself: carries out what `machine.py` decides and keeps the server informed."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import random
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial

from nodeagent import VERSION
from nodeagent.client import Backoff, Client, Refusal, Unreachable, stay_awake
from nodeagent.clock import boot_clock_seconds, wait_seconds
from nodeagent.code.fetching import CodeStore, CodeUnavailable
from nodeagent.code.named import Code
from nodeagent.configuration import Configuration
from nodeagent.describing import describe
from nodeagent.devices.inventory import machine_cpus, machine_memory_bytes
from nodeagent.executor import Executor, start_failed
from nodeagent.folder import read_json
from nodeagent.health.checks import Monitor, checks_of
from nodeagent.machine import (
    ALIVE,
    LEFT,
    NEVER_STARTED,
    REPORTED,
    AgentLeaving,
    AttemptExited,
    ChangeLimits,
    DesiredReceived,
    Event,
    ExtendLease,
    Forget,
    Instruction,
    Kill,
    LeaseChecked,
    NameTrainers,
    Part,
    Phase,
    Prepare,
    Release,
    Start,
    State,
    Stop,
    TakeTurns,
    step,
)
from nodeagent.messages import (
    NO_SECRETS,
    PROTOCOL,
    DesiredPart,
    Finding,
    GpuSample,
    Inventory,
    PartReport,
    SecretsAnswer,
    SecretsRequest,
)
from nodeagent.messages import Report as ReportMessage
from nodeagent.metrics.exposition import Figures, keep_exposing
from nodeagent.metrics.jobs import agent_usage
from nodeagent.metrics.sampling import Sampler
from nodeagent.output.shipping import Shipper
from nodeagent.process.ports import input_ports
from nodeagent.process.runtime import ProcessRuntime
from nodeagent.process.sharing import enforcement_of, note_gpu_memory
from nodeagent.sessions.serving import Sessions
from nodeagent.threads import in_own_thread

log = logging.getLogger(__name__)

#: Progress alone makes no more reports than this.
PROGRESS_SECONDS = 2.0
LEASE_LOOK_SECONDS = 1.0
#: The checks themselves say how often each is due.
HEALTH_LOOK_SECONDS = 1.0
#: Until the server has stated how often it wants reports.
FIRST_REPORT_SECONDS = 0.5
RETRY_FIRST_SECONDS = 0.25
RETRY_MOST_SECONDS = 3.0
#: The token is not, or no longer, valid: asking again soon would not help.
NOT_LET_IN = frozenset({401, 403})
REFUSED_SECONDS = 10.0
LEAVING_GRACE_SECONDS = 2.0
LEAVING_LONGEST_SECONDS = 8.0
#: The control plane may be leaving too.
LEAVING_REPORT_SECONDS = 1.0
LEAVING_LOOK_SECONDS = 0.1
CRASHED_SECONDS = 1.0


class AlreadyRunning(Exception):
    """Another agent uses this work folder."""


class Agent:
    """One node's agent. `run` returns after `leave`."""

    def __init__(self, configuration: Configuration, executor: Executor = ProcessRuntime) -> None:
        os.makedirs(configuration.work_folder, mode=0o700, exist_ok=True)
        self.lock = lock_folder(configuration.work_folder)
        self.configuration = configuration
        self.runtime = executor(configuration, self.post)
        self.devices = self.runtime.devices
        self.client = Client(configuration.server_url, configuration.token)
        self.shipper = Shipper(self.client, self.runtime.folder, lambda: self.state.parts, self.post)
        self.sessions = Sessions(self.client, self.runtime.folder, lambda: self.state.parts)
        self.boot = uuid.uuid4().hex
        self.state = State(lease_deadline=self.runtime.lease_deadline())
        self.events: deque[Event] = deque()
        self.is_stepping = False
        #: Those whose secrets are being asked for, by attempt.
        self.starting: dict[int, asyncio.Task[None]] = {}
        self.codes = CodeStore(configuration, self.client)
        #: Those whose code is being fetched, by attempt.
        self.fetching: dict[int, asyncio.Task[None]] = {}
        self.report_seconds = FIRST_REPORT_SECONDS
        self.changed = asyncio.Event()
        self.leaving = asyncio.Event()
        self.monitor = Monitor(
            checks_of(
                configuration,
                self.devices,
                lambda: self.client.clock_ahead_seconds,
                self.runtime.problem,
            )
        )
        self.inventory = self.read_inventory()
        self.known_inventory: Inventory | None = None
        self.known_findings: tuple[Finding, ...] | None = None
        self.samples: tuple[GpuSample, ...] = ()
        self.sampler = Sampler(configuration, self.devices, self.runtime.folder)
        self.last_report_at = 0.0

    async def run(self, *, stop_jobs_on_exit: bool) -> None:
        """Work until `leave`; then stop the attempts too if so asked, else let them go on."""
        for adopted in self.runtime.recover():
            log.info("Attempt %d was found and is watched again.", adopted.part.desired.attempt)
            self.shipper.follow(adopted.part)
            self.post(adopted)
        loops = (
            self.keep_reporting,
            self.keep_shipping_output,
            self.keep_reading_devices,
            self.keep_checking,
            self.keep_lease,
        )
        tasks = [asyncio.create_task(keep_going(loop)) for loop in loops]
        if address := self.configuration.metrics_address:
            tasks.append(asyncio.create_task(keep_exposing(address, self.figures)))
        tasks.append(asyncio.create_task(stay_awake(self.client, self.changed.set, self.sessions.hear)))
        try:
            await self.leaving.wait()
            if stop_jobs_on_exit:
                await self.stop_everything()
        finally:
            tasks += [*self.starting.values(), *self.fetching.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.sessions.close()
            await self.client.close()
            self.runtime.close()
            os.close(self.lock)

    def leave(self) -> None:
        self.leaving.set()

    # What the machine decides

    def post(self, event: Event) -> None:
        """Pass an event to the machine, and carry its instructions out. Instructions may post more events."""
        self.events.append(event)
        if self.is_stepping:
            return
        self.is_stepping = True
        try:
            while self.events:
                self.state, instructions = step(self.state, self.events.popleft())
                for instruction in instructions:
                    try:
                        self.carry_out(instruction)
                    except Exception:
                        # A full disk, say. The other instructions matter as much as this one.
                        log.exception("Not carried out: %s", describe(instruction))
        finally:
            self.is_stepping = False

    def carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case ExtendLease():
                deadline, lease_seconds = instruction.deadline, instruction.lease_seconds
                self.runtime.extend_lease(deadline, lease_seconds, instruction.attempts)
                return
            case Prepare(desired=desired) if desired.code is not None:
                task = asyncio.create_task(self.prepare_with_code(desired, desired.code))
                self.fetching[desired.attempt] = task
            case Prepare(desired=desired):
                self.runtime.prepare(desired)
            case Release(attempt=attempt):
                if self.gives_up(attempt):
                    outcome = LEFT if self.state.is_leaving else NEVER_STARTED
                    self.post(AttemptExited(attempt=attempt, outcome=outcome))
            case Start(desired=desired):
                if desired.has_secrets:
                    self.starting[desired.attempt] = asyncio.create_task(self.start_with_secrets(desired))
                else:
                    self.runtime.start(desired)
                self.shipper.follow(self.state.parts[desired.attempt])
            case Stop():
                self.runtime.stop(
                    instruction.attempt, instruction.grace_seconds, is_leaving=instruction.is_leaving
                )
            case TakeTurns(attempt=attempt, turn=turn):
                self.runtime.take_turns(attempt, turn)
            case ChangeLimits(desired=desired):
                self.runtime.change_limits(desired)
            case NameTrainers(attempt=attempt, trainers=trainers):
                self.runtime.name_trainers(attempt, trainers)
            case Kill(attempt=attempt):
                self.runtime.kill(attempt)
            case Forget(attempt=attempt):
                self.shipper.forget(attempt)
                self.runtime.forget(attempt)
            case _:
                self.changed.set()
                return
        log.info("%s", describe(instruction))

    def gives_up(self, attempt: int) -> bool:
        """Give back what preparing it takes; return whether its end is still to be posted."""
        if (fetching := self.fetching.pop(attempt, None)) is not None:
            fetching.cancel()
            return True
        return self.runtime.release(attempt)

    async def prepare_with_code(self, desired: DesiredPart, code: Code) -> None:
        """Fetch what the attempt's working folders begin with, and prepare it with that."""
        try:
            archive = await self.codes.fetch(desired.attempt, code)
        except CodeUnavailable as error:
            message = f"Its code could not be fetched. {error}"
            self.post(start_failed(desired.attempt, message, "code_unavailable"))
        except Exception as error:
            # The attempt must not wait for ever because of a bug.
            log.exception("The code of attempt %d could not be fetched", desired.attempt)
            message = f"Its code could not be fetched. {error!r}"
            self.post(start_failed(desired.attempt, message, "code_unavailable"))
        else:
            self.runtime.prepare(desired, archive)
        finally:
            self.fetching.pop(desired.attempt, None)

    async def start_with_secrets(self, desired: DesiredPart) -> None:
        """Ask for the attempt's secrets, for as long as it is to start at all, and start it with them."""
        answer, backoff = NO_SECRETS, Backoff(RETRY_FIRST_SECONDS, RETRY_MOST_SECONDS, random.random)
        # One that has to stop meanwhile is started too, without them: it ends at once, as every other.
        while self.state.parts[desired.attempt].phase is Phase.STARTING:
            try:
                answer = await self.client.secrets(SecretsRequest(attempt=desired.attempt))
                break
            except Unreachable as error:
                log.warning("The secrets of attempt %d are not available yet: %s", desired.attempt, error)
                await asyncio.sleep(wait_seconds(backoff.failed()))
            except Refusal as error:
                answer = SecretsAnswer(problem=f"The server did not hand out its secrets: {error}")
                break
            except Exception as error:
                # The attempt must not wait for ever because of a bug.
                log.exception("The secrets of attempt %d could not be fetched", desired.attempt)
                answer = SecretsAnswer(problem=f"Its secrets could not be fetched: {error!r}")
                break
        del self.starting[desired.attempt]
        try:
            self.runtime.start(desired, answer)
        except OSError:
            log.exception("Not carried out: %s", describe(Start(desired=desired)))

    # Reports

    async def keep_reporting(self) -> None:
        backoff = Backoff(RETRY_FIRST_SECONDS, RETRY_MOST_SECONDS, random.random)
        is_answered = False
        while True:
            try:
                await self.report()
                if not is_answered or backoff.failures:
                    # `manage.py up` waits for this line.
                    log.info("The control plane answers.")
                is_answered = True
                backoff.succeeded()
                rest_seconds = self.report_seconds
            except Unreachable as error:
                if not backoff.failures:
                    log.warning("The control plane does not answer: %s", error)
                rest_seconds = wait_seconds(backoff.failed())
            except Refusal as error:
                log.error("The control plane refused the report: %s", error)
                self.shipper.drop_progress()
                self.sampler.delivered(self.sampler.next_readings())
                await asyncio.sleep(REFUSED_SECONDS if error.status in NOT_LET_IN else backoff.failed())
                continue
            except Exception:
                # As after a refusal: what one job wrote must not keep the next report back too.
                self.shipper.drop_progress()
                raise
            await wait_until(self.changed, rest_seconds)

    async def report(self) -> None:
        """Report what is, and store what should be."""
        await self.shipper.ship_last()
        self.changed.clear()
        message = ReportMessage(
            protocol=PROTOCOL,
            boot=self.boot,
            generation=self.state.generation,
            parts=tuple(self.part_reports()),
            inventory=None if self.inventory == self.known_inventory else self.inventory,
            samples=self.samples,
            readings=self.sampler.next_readings(),
            sent_at=time.time() if self.sampler.waiting else None,
            findings=None if self.monitor.findings == self.known_findings else self.monitor.findings,
        )
        self.samples = ()
        sent_at = boot_clock_seconds()
        self.last_report_at = sent_at
        desired = await self.client.sync(message)
        if message.inventory is not None:
            self.known_inventory = message.inventory
        elif desired.want_inventory:
            self.known_inventory = None
            self.changed.set()
        if message.findings is not None:
            self.known_findings = message.findings
        if desired.want_inventory:
            self.known_findings = None
        self.sampler.delivered(message.readings)
        for part in message.parts:
            self.shipper.progress_reported(part)
        self.report_seconds = desired.report_seconds
        exited = frozenset(part.attempt for part in message.parts if part.state == "exited")
        self.post(DesiredReceived(desired=desired, sent_at=sent_at, exited=exited))

    def part_reports(self) -> Iterator[PartReport]:
        """One attempt that cannot be reported must not cost the others their lease."""
        for part in self.state.parts.values():
            try:
                yield self.part_report(part)
            except Exception:
                log.exception("Attempt %d is left out of a report", part.desired.attempt)

    def part_report(self, part: Part) -> PartReport:
        report = PartReport(
            attempt=part.desired.attempt,
            state=REPORTED[part.phase],
            master_port=part.master_port,
            started_at=part.started_at,
            progress=self.shipper.progress_of(part),
            enforcement=enforcement_of(
                part.desired, read_json(self.runtime.folder(part.desired.attempt).held)
            ),
            input_ports=input_ports(self.runtime.folder(part.desired.attempt), part.desired),
            is_queued=self.runtime.is_queued(part.desired.attempt),
        )
        if (outcome := part.outcome) is not None:
            report = replace(
                report,
                exit_code=outcome.exit_code,
                category=outcome.category,
                message=outcome.message,
                last_lines=outcome.last_lines,
                signal=outcome.signal,
                started_at=outcome.started_at,
                ended_at=outcome.ended_at,
            )
        return report

    async def keep_shipping_output(self) -> None:
        await self.shipper.keep_shipping(self.has_progress)

    def has_progress(self) -> None:
        if boot_clock_seconds() - self.last_report_at >= PROGRESS_SECONDS:
            self.changed.set()

    async def keep_lease(self) -> None:
        """The shims freeze or end their attempts in time; this is for a shim that hangs."""
        while True:
            now, frozen = boot_clock_seconds(), frozenset[int]()
            if now >= self.state.lease_deadline:
                frozen = frozenset(filter(self.runtime.is_frozen, self.state.parts))
            self.post(LeaseChecked(now=now, frozen=frozen))
            left_seconds = self.state.lease_deadline - boot_clock_seconds()
            await asyncio.sleep(wait_seconds(max(LEASE_LOOK_SECONDS, left_seconds)))

    # Devices

    async def keep_reading_devices(self) -> None:
        """A broken device can block its driver, so it is asked in a thread: reports go on meanwhile."""
        inventory_at = boot_clock_seconds()
        while True:
            alive = [part for part in self.state.parts.values() if part.phase in ALIVE]
            self.samples = await in_own_thread("sample", partial(self.sampler.step, alive))
            note_gpu_memory(self.runtime.folder, [part.desired for part in alive], self.sampler.replicas)
            if boot_clock_seconds() - inventory_at >= self.runtime.inventory_seconds:
                inventory_at = boot_clock_seconds()
                self.inventory = await in_own_thread("read inventory", self.read_inventory)
                if self.inventory != self.known_inventory:
                    self.changed.set()
            await asyncio.sleep(self.report_seconds)

    async def keep_checking(self) -> None:
        while True:
            if self.monitor.step(boot_clock_seconds()):
                # Devices that are well again are taken back when the inventory is read again.
                self.inventory = replace(self.inventory, gpus=self.monitor.judged(self.inventory.gpus))
                self.changed.set()
            await asyncio.sleep(wait_seconds(HEALTH_LOOK_SECONDS))

    def figures(self) -> Figures:
        cpu_seconds, memory_bytes = agent_usage()
        return Figures(
            node=self.configuration.node,
            inventory=self.inventory,
            gpus=self.sampler.gpus,
            host=self.sampler.host,
            attempts=sum(part.phase in ALIVE for part in self.state.parts.values()),
            agent_cpu_seconds=cpu_seconds,
            agent_memory_bytes=memory_bytes,
        )

    def read_inventory(self) -> Inventory:
        configured = self.configuration.inventory
        return Inventory(
            gpu_model=self.devices.gpu_model,
            gpus=self.monitor.judged(self.devices.gpus()),
            cpus=configured.cpus or machine_cpus(),
            memory_bytes=configured.memory_bytes or machine_memory_bytes(),
            storage_bandwidth=configured.storage_bandwidth,
            cache_bytes=configured.cache_bytes,
            address=self.configuration.address,
            agent_version=VERSION,
            isolation=self.runtime.isolation,
        )

    # The end

    async def stop_everything(self) -> None:
        """Stop all attempts, and report that to the server if it answers quickly."""
        self.post(AgentLeaving(grace_seconds=LEAVING_GRACE_SECONDS))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVING_LONGEST_SECONDS):
                while any(part.phase in ALIVE for part in self.state.parts.values()):
                    await asyncio.sleep(LEAVING_LOOK_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVING_REPORT_SECONDS):
                while not all(part.is_acknowledged for part in self.state.parts.values()):
                    self.changed.set()
                    await asyncio.sleep(LEAVING_LOOK_SECONDS)


def lock_folder(work_folder: str) -> int:
    """Hold the work folder for this process; raise AlreadyRunning when another agent does."""
    path = os.path.join(work_folder, "agent.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise AlreadyRunning(f"another agent already uses the work folder {work_folder}") from error
    return descriptor


async def keep_going(loop: Callable[[], Awaitable[None]]) -> None:
    """Run an endless loop for ever. A bug met by one attempt must not cost all the others their lease."""
    while True:
        try:
            await loop()
        except Exception:
            log.exception("A loop of the agent failed and is started again")
            await asyncio.sleep(CRASHED_SECONDS)


async def wait_until(event: asyncio.Event, seconds: float) -> None:
    """Return when the event is set or the time has passed."""
    # Not wait_for: before Python 3.12 it loses a cancellation that comes just after the event.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
