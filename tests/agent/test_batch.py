"""Attempts through a batch system that loses answers and nodes, which a real one will not do on demand."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest

from nodeagent.batch.job_folder import BatchJobFolder
from nodeagent.batch.polling import BatchPoller
from nodeagent.batch.remote_runner import AssignedDevices
from nodeagent.batch.runtime import BatchRuntime
from nodeagent.batch.system import BatchError, BatchJob, BatchJobStatus, BatchNode, BatchSystem
from nodeagent.clock import boot_clock_seconds
from nodeagent.devices.inventory import Load, find_devices
from nodeagent.folder import read_json
from nodeagent.lease import read_lease
from nodeagent.machine import AttemptExited, AttemptPrepared, AttemptStarted, Event, Outcome
from nodeagent.messages import NO_SECRETS, DesiredPart, SecretsAnswer
from nodeagent.shim.freezing import FREEZE_SECONDS
from nodeagent.shim.main import KILL_MARGIN_SECONDS
from tests.agent.builders import GPU_BYTES, make_configuration, make_part, python, shell
from tests.agent.moved_clock import MovedClock
from tests.agent.runtime_node import LEASE_SECONDS, is_alive, settled
from tests.agent.test_freezing import TICKS
from tests.patience import until_async

NODE = BatchNode(
    gpu_model="V100",
    gpu_memory_bytes=GPU_BYTES,
    gpus=4,
    gpus_in_use=0,
    cpus=8.0,
    memory_bytes=2**34,
    address="127.0.0.1",
    problem="",
)
SLEEPS = shell("exec sleep 600")


class Local:
    """A batch system whose only node is this machine: what an executor for another system has to do."""

    name = "Local"

    def __init__(self) -> None:
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        #: What is said of a job instead of the truth.
        self.said: dict[str, BatchJobStatus] = {}
        self.submitted: list[str] = []
        self.loses_answers = False
        #: Jobs wait in the queue and are never begun.
        self.holds_jobs = False

    async def submit(self, job: BatchJob) -> str:
        self.submitted.append(job.name)
        if self.holds_jobs:
            self.said[job.name] = BatchJobStatus(number="7", state="waiting", words="PENDING (Priority)")
            return job.name
        with open(job.log, "ab") as log:
            self.running[job.name] = subprocess.Popen(
                ["sh", "-c", f"exec {job.command}"], stderr=log, start_new_session=True
            )
        if self.loses_answers:
            raise BatchError("the answer was lost")
        return job.name

    async def jobs(self) -> Mapping[str, BatchJobStatus]:
        def state(process: subprocess.Popen[bytes]) -> BatchJobStatus:
            is_ended = process.poll() is not None
            return BatchJobStatus(
                number="7", state="ended" if is_ended else "running", words=f"STATUS {process.returncode}"
            )

        return {name: state(process) for name, process in self.running.items()} | self.said

    async def cancel(self, name: str) -> None:
        if (process := self.running.get(name)) is not None:
            os.killpg(process.pid, signal.SIGTERM)

    async def nodes(self) -> Mapping[str, BatchNode]:
        return {"node-1": NODE}


class BatchNodeOfTests:
    """The runtime of one node, its lease renewed until an attempt runs."""

    def __init__(self, folder: Path) -> None:
        self.system = Local()
        system: BatchSystem = self.system  # The seam, as mypy sees it.
        self.poller = BatchPoller(system, {"node-1": NODE}, 0.05)
        self.configuration = replace(make_configuration(folder), sandbox="off", users=None)
        self.ready: set[int] = set()
        self.started: set[int] = set()
        self.outcomes: dict[int, Outcome] = {}
        self.runtime = BatchRuntime(self.configuration, self.note, self.poller)
        self.asking = asyncio.create_task(self.poller.keep_asking())

    def note(self, event: Event) -> None:
        match event:
            case AttemptPrepared(attempt=attempt):
                self.ready.add(attempt)
            case AttemptStarted(attempt=attempt):
                self.started.add(attempt)
            case AttemptExited(attempt=attempt, outcome=outcome):
                assert attempt not in self.outcomes, "an end was told twice"
                self.outcomes[attempt] = outcome

    def renew_lease(self) -> None:
        deadline = boot_clock_seconds() + LEASE_SECONDS
        self.runtime.extend_lease(deadline, LEASE_SECONDS, list(self.runtime.records))

    async def start(
        self, desired: DesiredPart, secrets: SecretsAnswer = NO_SECRETS, code: IO[bytes] | None = None
    ) -> str:
        """Return the job's name, once the attempt runs."""
        self.runtime.prepare(desired, code)
        await until_async(lambda: desired.attempt in self.ready)
        self.runtime.start(desired, secrets)

        def is_started() -> bool:
            self.renew_lease()  # As long as nothing was heard of the job, it has none.
            return desired.attempt in self.started

        await until_async(is_started)
        return self.system.submitted[-1]

    async def lease_deadline(self, attempt: int) -> float:
        """When its shim's lease ends, once the remote runner knows of the newest."""
        granted = BatchJobFolder(str(self.runtime.jobs_folder / str(attempt))).lease
        lease = read_json(self.runtime.folder(attempt).spec)["lease"]

        def renewed() -> float | None:
            deadline = read_lease(lease)
            return deadline if deadline == pytest.approx(read_json(granted)["deadline"], abs=1e-3) else None

        return float(await until_async(renewed))

    async def end_of(self, attempt: int) -> Outcome:
        await until_async(lambda: attempt in self.outcomes)
        return self.outcomes[attempt]

    async def close(self) -> None:
        self.asking.cancel()
        self.runtime.close()
        for process in self.system.running.values():
            process.terminate()
            await asyncio.to_thread(process.wait)


@pytest.fixture
async def node(clock: MovedClock, tmp_path: Path) -> AsyncIterator[BatchNodeOfTests]:
    node = BatchNodeOfTests(tmp_path)
    yield node
    await node.close()


async def test_what_was_told_to_be_refused_never_runs(node: BatchNodeOfTests) -> None:
    node.system.loses_answers = True
    node.runtime.prepare(make_part(shell("exit 3"), attempt=1))
    outcome = await node.end_of(1)
    assert (outcome.category, outcome.exit_code) == ("lost", None)
    assert "did not take the job: the answer was lost" in outcome.message
    (process,) = node.system.running.values()
    await asyncio.to_thread(process.wait)
    assert node.started == node.ready == set()


async def test_the_agent_says_what_waits_in_the_queue_of_a_node_that_starts_jobs(
    node: BatchNodeOfTests,
) -> None:
    node.system.holds_jobs = True
    node.runtime.prepare(make_part(SLEEPS, attempt=1))
    assert not node.runtime.is_queued(1), "before it is known what the system does with it"
    await until_async(lambda: node.runtime.is_queued(1))
    # What waits for a node that is drained may wait for ever.
    node.poller.nodes = {"node-1": replace(NODE, problem="Local: DRAIN")}
    assert not node.runtime.is_queued(1)
    node.poller.nodes = {"node-1": NODE}
    assert node.runtime.is_queued(1)
    node.runtime.release(1)
    await node.end_of(1)
    assert not node.runtime.is_queued(1)


async def test_what_has_begun_waits_in_no_queue(node: BatchNodeOfTests) -> None:
    name = await node.start(make_part(SLEEPS, attempt=1))
    # The list is older than what its remote runner says.
    node.poller.jobs = {name: BatchJobStatus(number="7", state="waiting", words="PENDING")}
    assert not node.runtime.is_queued(1)


async def test_an_agent_that_died_before_it_submitted_does_so_when_it_is_back(
    node: BatchNodeOfTests,
) -> None:
    desired = make_part(SLEEPS, attempt=1)
    node.runtime.prepare(desired)
    node.runtime.close()  # Before the event loop could do anything.
    node.runtime = BatchRuntime(node.configuration, node.note, node.poller)
    assert [adopted.part.desired for adopted in node.runtime.recover()] == [desired]
    await until_async(lambda: 1 in node.ready)
    assert len(node.system.submitted) == 1


async def test_a_state_that_is_not_understood_costs_no_other_attempt_its_lease(
    node: BatchNodeOfTests, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = node.runtime._look

    def breaks(attempt: int, *what: object) -> None:
        if attempt == 1:
            raise KeyError("clock")
        look(attempt, *what)  # type: ignore[arg-type]

    monkeypatch.setattr(node.runtime, "_look", breaks)
    node.runtime.prepare(make_part(SLEEPS, attempt=1))
    await node.start(make_part(SLEEPS, attempt=2))


async def test_a_folder_that_cannot_be_written_to_costs_no_other_attempt_its_lease(
    node: BatchNodeOfTests,
) -> None:
    for attempt in (1, 2):
        await node.start(make_part(SLEEPS, attempt=attempt))
    before = await node.lease_deadline(2)
    # As a name, a lease cannot be put in the place of a folder.
    granted = Path(BatchJobFolder(str(node.runtime.jobs_folder / "1")).lease)
    granted.unlink()
    granted.mkdir()
    (granted / "in the way").touch()

    def is_renewed() -> bool:
        node.renew_lease()  # Until it is counted from a later beat of the node.
        return (read_lease(read_json(node.runtime.folder(2).spec)["lease"]) or 0.0) > before

    await until_async(is_renewed)
    assert node.runtime.lease_deadline() > before


async def test_of_a_silent_node_an_end_is_told_when_its_lease_is_over(
    clock: MovedClock, node: BatchNodeOfTests
) -> None:
    node.runtime.configuration = replace(node.configuration, freeze_seconds=0.0)
    name = await node.start(make_part(SLEEPS, attempt=1))
    process = node.system.running[name]
    deadline = await node.lease_deadline(1)
    pid = read_json(node.runtime.folder(1).status)["replicas"][0]["pid"]
    # Slurm does not reach the node, and neither do we: the remote runner stands still.
    node.system.said[name] = BatchJobStatus(number="7", state="lost", words="NODE_FAIL")
    process.send_signal(signal.SIGSTOP)
    clock.stop_at(deadline - KILL_MARGIN_SECONDS)
    await until_async(lambda: not is_alive(pid))
    lists = node.poller.lists
    await until_async(lambda: node.poller.lists > lists + 5)
    assert node.outcomes == {}
    clock.go_on_from(node.runtime.records[1].dead_by)
    outcome = await node.end_of(1)
    process.send_signal(signal.SIGCONT)
    assert (outcome.category, outcome.message) == ("lost", "Local ended job 7: NODE_FAIL.")


async def test_without_a_lease_it_stands_still_on_its_node_until_it_has_one_again(
    clock: MovedClock, node: BatchNodeOfTests
) -> None:
    await node.start(make_part(python(TICKS), attempt=1, grace_seconds=0.1))
    folder, record = node.runtime.folder(1), node.runtime.records[1]
    deadline = await node.lease_deadline(1)

    async def heard_at(seconds: float) -> None:
        """Let it be that time, and hear of the remote runner once more."""
        clock.stop_at(seconds)
        await until_async(lambda: record.beats[-1][0] >= seconds - 0.1)

    await heard_at(deadline - KILL_MARGIN_SECONDS - FREEZE_SECONDS / 2)
    await until_async(lambda: os.path.exists(folder.frozen))
    # Less than it takes until a remote runner counts as silent.
    await heard_at(record.dead_by + 1.0)
    lists = node.poller.lists
    await until_async(lambda: node.poller.lists > lists + 5)
    # Neither the remote runner has killed it nor we had it cancelled, though its lease is over for long.
    assert node.runtime.is_frozen(1)
    size = await settled(lambda: os.path.getsize(folder.log(0)))
    clock.go_on_from(boot_clock_seconds())

    def goes_on() -> bool:
        node.renew_lease()
        return os.path.getsize(folder.log(0)) > size + 100

    await until_async(goes_on)
    assert node.outcomes == {}


async def test_whoever_comes_to_a_job_late_does_nothing(tmp_path: Path) -> None:
    folder = BatchJobFolder(str(tmp_path / "job"))
    assert not folder.take("first")
    folder.make({"name": "first"})
    assert not folder.take("another")
    assert folder.take("first")
    assert not folder.take("first")


@pytest.mark.parametrize("first", ["shim", "command"])
async def test_what_the_system_ends_is_lost_though_the_remote_runner_hears_of_it_last(
    node: BatchNodeOfTests, first: str
) -> None:
    name = await node.start(make_part(SLEEPS, attempt=1))
    status, remote_runner = read_json(node.runtime.folder(1).status), node.system.running[name]
    remote_runner.send_signal(signal.SIGSTOP)
    os.kill(status["pid"] if first == "shim" else status["replicas"][0]["pid"], signal.SIGTERM)
    await until_async(lambda: not is_alive(status["pid"]))
    # The end is there already when it goes on.
    remote_runner.terminate()
    remote_runner.send_signal(signal.SIGCONT)
    outcome = await node.end_of(1)
    assert (outcome.category, outcome.message) == ("lost", "Local ended job 7: STATUS 0.")


async def test_a_command_that_ends_itself_by_that_signal_is_not_ended_by_the_system(
    node: BatchNodeOfTests,
) -> None:
    await node.start(make_part(shell("kill -TERM $$"), attempt=1))
    outcome = await node.end_of(1)
    assert (outcome.category == "lost", outcome.signal) == (False, "SIGTERM")


async def test_the_shortest_grace_counts_and_nothing_is_left(node: BatchNodeOfTests) -> None:
    await node.start(make_part(shell("trap '' TERM; echo up; sleep 600"), attempt=1))
    log = Path(node.runtime.folder(1).log(0))
    await until_async(lambda: log.exists() and log.read_text() == "up\n")
    node.runtime.stop(1, 600.0)
    node.runtime.stop(1, 0.1)
    assert (await node.end_of(1)).category == "stopped"
    node.runtime.forget(1)
    await until_async(lambda: not any(node.runtime.jobs_folder.iterdir()))


def test_plans_count_and_the_system_chooses(tmp_path: Path) -> None:
    devices = AssignedDevices(find_devices(make_configuration(tmp_path)), {5, 1}, ["0", "3"])
    assert devices.names([1, 5]) == {1: "0", 5: "3"}
    samples = devices.samples({1: Load(busy=0.5, memory_bytes=1), 5: Load(busy=1.0, memory_bytes=2)})
    assert [(sample.index, sample.utilisation_percent) for sample in samples] == [(1, 50.0), (5, 100.0)]
