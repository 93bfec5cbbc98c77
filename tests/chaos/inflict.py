"""Carries a fault out, and takes back what can be taken back."""

import contextlib
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import httpx
import psutil

from nodeagent.clock import boot_clock_seconds
from tests.chaos.accounting import Full
from tests.chaos.faults import Fault
from tests.chaos.flood import Flood
from tests.chaos.visitors import Crowd
from tests.chaos.world import SMALL, STEPPED, Node, World

T = TypeVar("T")
#: More would leave a job waiting for minutes before it is tried again.
HITS_PER_JOB = 2
#: Until a process that is to go on does.
GO_ON_SECONDS = 0.5
SAVE_SECONDS = 2.0
#: Shorter than a server takes to be of use.
KILL_AGAIN_SECONDS = 0.05
ASK_SECONDS, ANSWER_SECONDS = 0.25, 10.0


@dataclass(frozen=True)
class Inflicted:
    """What was done. `undo` is to be called when the fault has lasted, if it is one that lasts."""

    description: str
    #: What has to work again: a node's name, a job's number, or the server.
    subject: str
    undo: Callable[[], None] | None = None


class Inflicter:
    """Hurts one world."""

    def __init__(self, world: World, crowd: Crowd, flood: Flood) -> None:
        self.world = world
        self.crowd = crowd
        self.flood = flood
        self.full: list[Full] = []
        self.no_room: list[tuple[float, float]] = []
        self.hits: Counter[str] = Counter()

    def inflict(self, fault: Fault) -> Inflicted | None:
        """Carry it out; None when there is nobody to hit."""
        match fault.verb, fault.target:
            case "kill", "agent":
                return self._kill_agent(fault)
            case "kill", "supervisor":
                return self._kill_supervisor()
            case "restart", _:
                return self._restart()
            case "cut", _:
                return self._cut(fault)
            case "fill", _:
                return self._fill(fault)
            case (("revoke" | "remove" | "disable"), _):
                return self._take_right(fault)
            case "overload", _:
                self.flood.begin()
                return Inflicted(f"overload for {fault.lasts_seconds:.1f} s", "server", self.flood.end)
            case "step", _:
                return self._step_clock(fault)
            case "withhold", name:
                kept_away = KeptAway(lambda: self.world.server(name))
                words = f"withhold {name} for {fault.lasts_seconds:.1f} s"
                return Inflicted(words, "server", kept_away.end)
        victims, subject = self._victims(fault)
        if not victims:
            return None
        name = f"{fault.kind}: {subject}, process {victims[0].pid}"
        if fault.verb == "kill":
            _send(victims, signal.SIGKILL)
            return Inflicted(name, subject)
        return self._pause(fault, victims, subject, name)

    # Kill and pause

    def _victims(self, fault: Fault) -> tuple[list[psutil.Process], str]:
        """Return the processes to hit together, and whose they are."""
        match fault.target:
            case "job":
                return self._job(fault)
            case "shim":
                shims = [(shim, _job_of(shim)) for shim in self.world.shims()]
                return self._spared(fault, [(shim, job) for shim, job in shims if job])
            case "agent":
                node = self._node(fault)
                return ([psutil.Process(node.agent.process.pid)], node.name) if _lives(node) else ([], "")
            case "token daemon":
                daemons = self.world.token_daemons()
                if not daemons:
                    return [], ""
                path, process = _pick(list(daemons.items()), fault.draw)
                return [process], path
            case "node":
                node = self._node(fault)
                return node.processes(), node.name
            case "worker's child":
                children = self.world.server("worker")[1:]
                return ([_pick(children, fault.draw)] if children else []), "server"
            case name:
                return self.world.server(name), "server"

    def _job(self, fault: Fault) -> tuple[list[psutil.Process], str]:
        return self._spared(fault, [(process, _job_of(process)) for process in self.world.jobs()])

    def _spared(
        self, fault: Fault, candidates: Sequence[tuple[psutil.Process, str]]
    ) -> tuple[list[psutil.Process], str]:
        """Pick one whose job was not hit too often, when it counts as the job's failure."""
        limit = HITS_PER_JOB if fault.verb == "kill" else 10**6
        left = [(process, job) for process, job in candidates if job and self.hits[job] < limit]
        if not left:
            return [], ""
        process, job = _pick(left, fault.draw)
        self.hits[job] += fault.verb == "kill"
        return [process], f"job {job}"

    def _pause(self, fault: Fault, victims: list[psutil.Process], subject: str, name: str) -> Inflicted:
        _send(victims, signal.SIGSTOP)
        if fault.target == "web":
            stopped = time.monotonic()
            self.world.web_stops.append((stopped, stopped + fault.lasts_seconds + GO_ON_SECONDS))

        def go_on() -> None:
            now = boot_clock_seconds()
            for node in self.world.nodes.values():
                if fault.target in ("job", "shim") or node.name == subject:
                    node.thaws.append(now)
            _send(victims, signal.SIGCONT)

        return Inflicted(f"{name} for {fault.lasts_seconds:.1f} s", subject, go_on)

    def _kill_agent(self, fault: Fault) -> Inflicted | None:
        node = self._node(fault)
        if not _lives(node):
            return None
        node.start_at = time.monotonic() + fault.lasts_seconds
        node.agent.kill()
        return Inflicted(f"kill agent of {node.name}, away for {fault.lasts_seconds:.1f} s", node.name)

    def _kill_supervisor(self) -> Inflicted:
        supervisor = self.world.platform.supervisor
        assert supervisor is not None
        supervisor.kill()
        supervisor.wait()
        self._start_again()
        return Inflicted("kill supervisor, start it again", "server")

    def _restart(self) -> Inflicted:
        supervisor = self.world.platform.supervisor
        assert supervisor is not None
        supervisor.send_signal(signal.SIGINT)
        supervisor.wait(90)
        self._start_again()
        return Inflicted("stop the control plane, start it again", "server")

    def _start_again(self) -> None:
        self.world.platform.start("--no-demo")

    # Nodes

    def _node(self, fault: Fault) -> Node:
        return _pick(list(self.world.nodes.values()), fault.draw)

    def _cut(self, fault: Fault) -> Inflicted:
        node = _pick([node for node in self.world.nodes.values() if node.place], fault.draw)
        assert node.place is not None
        node.place.cut()
        return Inflicted(f"cut {node.name} off for {fault.lasts_seconds:.1f} s", node.name, node.place.mend)

    def _fill(self, fault: Fault) -> Inflicted | None:
        name = f"{fault.kind} for {fault.lasts_seconds:.1f} s"
        match fault.target:
            case "database's disk":
                disk = self.world.database_disk
                disk.fill()
                asked = Asked(f"{self.world.platform.url}/readyz")

                def make_room() -> None:
                    self.full.append(asked.end())
                    disk.make_room()

                return Inflicted(name, "server", make_room)
            case "checkpoints' disk":
                if not self.world.jobs():
                    return None
                began = boot_clock_seconds()
                self.world.checkpoint_disk.fill()

                def make_room_to_save() -> None:
                    self.world.checkpoint_disk.make_room()
                    # A save that failed shortly before is written down as a step shortly after.
                    self.no_room.append((began, boot_clock_seconds() + SAVE_SECONDS))

                return Inflicted(name, "server", make_room_to_save)
        disk_of_node = self.world.nodes[SMALL].disk
        assert disk_of_node is not None
        disk_of_node.fill()
        return Inflicted(name, SMALL, disk_of_node.make_room)

    # People

    def _take_right(self, fault: Fault) -> Inflicted | None:
        there = [each for each in self.crowd.visitors if each.is_there and each.wanted is None]
        if not there:
            return None
        visitor = _pick(there, fault.draw)
        visitor.wanted = fault.kind
        return Inflicted(f"{fault.kind}: {visitor.name}", visitor.name)

    def _step_clock(self, fault: Fault) -> Inflicted:
        clock = self.world.nodes[STEPPED].clock
        assert clock is not None
        clock.write_text(f"{fault.clock_step_seconds:.3f}")
        hours = fault.clock_step_seconds / 3600
        return Inflicted(f"set the clock of {STEPPED}'s agent {hours:+.1f} h off", STEPPED)


class KeptAway:
    """Kills a server's process as often as the supervisor starts it again."""

    def __init__(self, processes: Callable[[], list[psutil.Process]]) -> None:
        self.processes = processes
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._keep_away, name="kept away", daemon=True)
        self.thread.start()

    def end(self) -> None:
        self.is_over.set()
        self.thread.join()

    def _keep_away(self) -> None:
        while not self.is_over.wait(KILL_AGAIN_SECONDS):
            _send(self.processes(), signal.SIGKILL)


class Asked:
    """Asks `/readyz` again and again while the disk below the database is full."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.began = time.monotonic()
        self.answers: list[tuple[float, int]] = []
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._ask, name="readyz", daemon=True)
        self.thread.start()

    def end(self) -> Full:
        """Return what was said while it was full; what is asked for then tells nothing any more."""
        self.is_over.set()
        return Full(time.monotonic() - self.began, tuple(self.answers))

    def _ask(self) -> None:
        while not self.is_over.wait(ASK_SECONDS):
            after = time.monotonic() - self.began
            with contextlib.suppress(httpx.HTTPError):
                answer = httpx.get(self.address, timeout=ANSWER_SECONDS, verify=False, trust_env=False)
                if not self.is_over.is_set():
                    self.answers.append((after, answer.status_code))


def _pick(choices: Sequence[T], draw: float) -> T:
    return choices[int(draw * len(choices))]


def _lives(node: Node) -> bool:
    return node.agent.process is not None and node.agent.process.poll() is None


def _job_of(process: psutil.Process) -> str:
    """Return the number of the job that a process, or one that it started, belongs to; "" when unknown."""
    with contextlib.suppress(psutil.Error):
        for member in [process, *process.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                if job := member.environ().get("ALLOT_JOB"):
                    return job
    return ""


def _send(processes: Sequence[psutil.Process], number: int) -> None:
    for process in processes:
        # It looks whether the process is still the one it was.
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)
