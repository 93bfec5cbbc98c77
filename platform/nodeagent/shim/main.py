"""The shim: a tiny parent of one attempt's processes that outlives the agent and obeys the lease.

    python -I -S -c "...; main()" FOLDER

It starts the replicas of `spec.json`, each in a session of its own, and pumps their output into files of
limited size. They end on SIGTERM (the file `stop` says how), or when one of them fails. When the node's lease
is not moved forward in time everything is frozen *by* the deadline: it goes on when the file `resume` says
so, and is killed when it has to stop or after `freeze_seconds`. Without an agent it is stopped a while
before, and dead by the deadline. Nothing escapes: orphans become the shim's children, and replicas die with
the shim. In a sandbox orphans become children of its first process, and all in it die with that one.

One thread, one loop, and only modules that load in milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time

from nodeagent.clock import boot_clock_seconds, wait_seconds, wall_clock_seconds
from nodeagent.folder import AttemptFolder, read_json, write_json
from nodeagent.grace import shorter_grace
from nodeagent.lease import read_lease
from nodeagent.procfs import (
    PR_SET_CHILD_SUBREAPER,
    descendants,
    is_same_process,
    kernel_oom_kills,
    prctl,
    process_identity,
)
from nodeagent.shim.disk import SHORTEST_SECONDS, DiskMeter
from nodeagent.shim.enclosure import Enclosure, EnclosureError
from nodeagent.shim.freezing import (
    CONTAINER_FREEZE_SECONDS,
    FREEZE_SECONDS,
    LOOK_FIRST_SECONDS,
    LOOK_SECONDS,
    Freezer,
    Lapse,
    Turns,
)
from nodeagent.shim.guest import Guests
from nodeagent.shim.landlock import Confinement, ConfinementError
from nodeagent.shim.replica import CommandNotStarted, OutputFile, RunningReplica
from nodeagent.shim.secrets import Mask, Secrets
from nodeagent.shim.sharing import Sharing

TYPE_CHECKING = False  # What typing.TYPE_CHECKING is, without loading typing.
if TYPE_CHECKING:
    from typing import Any

#: All is killed this long before the deadline, since a kill takes a moment to be complete.
KILL_MARGIN_SECONDS = 0.5
#: An engine takes its time to kill a container.
CONTAINER_KILL_MARGIN_SECONDS = 2.0
#: How long an uninterruptible process is waited for before it is killed once more.
KILL_AGAIN_SECONDS = 0.05
#: The longest sleep: timers stand still while a machine is suspended, the lease does not.
LONGEST_SLEEP_SECONDS = 5.0
#: How often the lease, and the agent, are checked when its end is near.
LEASE_LOOK_SECONDS = 1.0
#: What fills the disk, or memory that others need, gets no more time than this to save its work.
DISK_GRACE_SECONDS = 2.0
#: A shorter standstill is not reported.
SHORT_SECONDS = 1.0
RUNNING = b"running\n"


class Shim:
    """Starts, watches and ends the replicas of one attempt on one node."""

    def __init__(self, folder: AttemptFolder, spec: dict[str, Any]) -> None:
        self.folder = folder
        self.spec = spec
        self.replicas: list[RunningReplica] = []
        self.guests = Guests(folder.door, self.replicas)
        self.freezer = Freezer(self.replicas)
        self.turns = Turns.read(read_json(folder.turns))
        #: In the turn of another: whether everything was seen to be frozen.
        self.stands_still = False
        self.sharing = Sharing(folder.held, self.replicas)
        self.poll = select.poll()
        sandbox = spec["sandbox"]
        self.enclosure = Enclosure(sandbox) if sandbox else None
        landlock = spec["landlock"]
        self.confinement = Confinement(landlock) if landlock else None
        has_containers = any(replica["container"] for replica in spec["replicas"])
        self.kill_margin_seconds = CONTAINER_KILL_MARGIN_SECONDS if has_containers else KILL_MARGIN_SECONDS
        self.freezing_seconds = CONTAINER_FREEZE_SECONDS if has_containers else FREEZE_SECONDS
        self.lease_grace_seconds = float(spec["lease_grace_seconds"])
        self.longest_stop_seconds = self.kill_margin_seconds + max(
            self.lease_grace_seconds, self.freezing_seconds
        )
        self.lapse: Lapse | None = None
        self.secrets = Secrets.receive(spec["secrets"])
        self.disks = [
            DiskMeter(path, limit, lambda: descendants(os.getpid()))
            for path, limit in spec["disk_limits"].items()
        ]
        self.first_failed: int | None = None
        self.freeze_seconds = float(spec["freeze_seconds"])
        self.reason = ""
        self.problem = ""
        self.started_at: float | None = None
        self.kill_at: float | None = None
        self.has_killed = False
        self.deadline = 0.0
        self.oom_kills_before = kernel_oom_kills()

    def run(self) -> None:
        wake = _catch_signals()
        self.write_status(is_final=False)
        if (stop := read_json(self.folder.stop)) is not None:
            self.reason = stop["reason"]
        elif boot_clock_seconds() >= self.lease_end() - self.lease_stop_seconds():
            self.reason = "lease"
        else:
            self.start_replicas()
        self.watch(wake)
        for replica in self.replicas:
            while replica.pump():
                pass
            replica.output.finish()
            replica.cgroup.remove()
        self.secrets.remove()
        self.write_status(is_final=True)

    def start_replicas(self) -> None:
        try:
            self.secrets.hand_to(self.spec["replicas"])
        except OSError as error:
            self.problem = f"Its secrets could not be handed to it: {error}"
            self.reason = "replica"
            return
        for spec in self.spec["replicas"]:
            mask = Mask(self.secrets.values)
            output = OutputFile(self.folder.log(spec["rank"]), self.spec["log_bytes"], mask)
            replica = RunningReplica(spec, output, self.enclosure, self.confinement)
            self.replicas.append(replica)
            self.sharing.add(replica, self.poll, is_alone=len(self.spec["replicas"]) == 1)
            try:
                if self.enclosure is not None and not self.enclosure.pid:
                    self.enclosure.open()
                if self.confinement is not None and not self.confinement.is_open:
                    self.confinement.open()
                replica.start()
            except (CommandNotStarted, EnclosureError, ConfinementError) as error:
                self.problem = str(error)
                self.first_failed = replica.rank
                output.write(f"[allotment] {error}\n".encode())
                self.stop("replica", 0.0)
                return
        self.started_at = time.time()
        self.take_turns()
        self.write_status(is_final=False)
        with contextlib.suppress(BrokenPipeError):  # The agent may be gone; it reads the status later.
            os.write(1, RUNNING)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)

    def watch(self, wake: int) -> None:
        """Return when no process of the attempt is left."""
        poll = self.poll
        poll.register(wake, select.POLLIN)
        pipes = {replica.pipe: replica for replica in self.replicas if replica.pipe is not None}
        for pipe in pipes:
            poll.register(pipe, select.POLLIN)
        self.guests.open(poll)
        while self.reap():
            for descriptor, _ in poll.poll(max(0.0, wait_seconds(self.sleep_seconds())) * 1000):
                if descriptor == wake:
                    if signal.SIGTERM in os.read(wake, 512):
                        self.read_stop()
                    self.turns = Turns.read(read_json(self.folder.turns))
                elif descriptor in self.guests:
                    self.guests.handle(descriptor)
                elif descriptor in self.sharing:
                    self.sharing.handle(descriptor, boot_clock_seconds())
                elif descriptor not in pipes:
                    continue  # One that was closed a moment ago.
                elif not pipes[descriptor].pump() and pipes[descriptor].pipe is None:
                    poll.unregister(descriptor)
            self.check_times()

    def reap(self) -> bool:
        """Collect the dead, orphans included; return whether anything lives."""
        while True:
            try:
                pid, wait_status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                break
            self.guests.ended(pid, wait_status)
            for replica in self.replicas:
                if replica.pid == pid:
                    self.replica_ended(replica, wait_status)
        if (
            not self.has_killed
            and self.waits_for_orphans()
            and self.enclosure is not None
            and not self.enclosure.has_others()
        ):
            self.enclosure.close()
        return True

    def waits_for_orphans(self) -> bool:
        """Whether only what the commands left behind is alive, whose end in a sandbox is not reported."""
        return self.enclosure is not None and all(
            replica.wait_status is not None for replica in self.replicas
        )

    def replica_ended(self, replica: RunningReplica, wait_status: int) -> None:
        replica.ended(wait_status)
        if replica.has_failed and self.first_failed is None:
            self.first_failed = replica.rank
        if all(other.wait_status is not None for other in self.replicas):
            self.guests.end_all()
        if self.kill_at is None:
            # A replica ends when its command ends. When it had to stop, its children keep their grace.
            replica.signal_group(signal.SIGKILL)
            if all(other.wait_status is not None for other in self.replicas):
                self.end_rest()
            elif replica.has_failed:
                self.stop("replica", self.spec["grace_seconds"])

    def read_stop(self) -> None:
        stop = read_json(self.folder.stop) or {}
        self.stop(stop.get("reason", "stopped"), stop.get("grace_seconds", self.spec["grace_seconds"]))

    def stop(self, reason: str, grace_seconds: float) -> None:
        """Ask all to end, and kill them after the grace. The first reason stays, the shortest grace wins.

        What stands still since the lease ended is killed at once: it may not run again, even to end well.
        """
        self.go_on_if_allowed()
        kill_at = boot_clock_seconds() + (grace_seconds if self.lapse is None else 0.0)
        self.kill_at = shorter_grace(self.kill_at, kill_at)
        is_first = not self.reason
        self.reason = self.reason or reason
        if self.lapse is not None:
            self.kill()
        elif is_first:
            # The members of a group begin to end together, no matter which has the turn or the token.
            self.freezer.thaw()
            self.sharing.close()
            for replica in self.replicas:
                if replica.pid:
                    replica.signal_group(signal.SIGTERM)
                    replica.signal_group(signal.SIGCONT)  # A stopped process would not get the signal.

    def end_rest(self) -> None:
        """End what the commands left behind. A sandbox ends with its first process.

        To look for what is below the shim costs more than all else that a short job costs it. What stands
        still must be killed before anything goes on, and so one by one.
        """
        if self.enclosure is None or self.freezer.is_frozen:
            self.kill()
            return
        self.enclosure.close()
        self.has_killed = True
        self.kill_at = boot_clock_seconds() + KILL_AGAIN_SECONDS

    def kill(self) -> None:
        """SIGKILL to everything below the shim, also what moved to a session of its own."""
        self.kill_at = self.kill_at or boot_clock_seconds()
        self.has_killed = True
        for replica in self.replicas:
            if replica.pid and replica.wait_status is None:
                replica.kill()
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # Only now, so that what is frozen dies where it stands.
        self.freezer.release()
        self.sharing.release()

    def check_times(self) -> None:
        now = boot_clock_seconds()
        if self.kill_at is not None and now >= self.kill_at:
            self.kill()
        if self.lapse is not None:
            self.stand_still(self.lapse, now)
            return
        if self.reason in ("", "disk"):
            # Also once it has to end: what others delete hides from the free space what it writes on.
            exceeds = any([disk.step(now) for disk in self.disks])
            if exceeds and not self.reason:
                self.stop("disk", shorter_grace(DISK_GRACE_SECONDS, self.spec["grace_seconds"]))
            if self.reason and any([disk.is_far_beyond() for disk in self.disks]):
                self.kill()
        if not self.reason and (replica := self.sharing.who_exceeds_memory(now)) is not None:
            self.first_failed = replica.rank
            self.stop("gpu_memory", shorter_grace(DISK_GRACE_SECONDS, self.spec["grace_seconds"]))
        if self.kill_at is None:
            self.take_turns()
        if self.is_lease_near(now) and now >= self.renewed_lease_end():
            if self.can_freeze():
                kill_by = self.deadline - self.kill_margin_seconds
                until = self.deadline + self.freeze_seconds
                self.lapse = Lapse(deadline=self.deadline, complete_by=kill_by, until=until, now=now)
                self.guests.refusal = "The attempt stands still until the control plane answers the node."
                self.freezer.freeze()
                self.sharing.stand_down()
                self.stand_still(self.lapse, boot_clock_seconds())
            else:
                self.stop("lease", self.deadline - self.kill_margin_seconds - now)

    def can_freeze(self) -> bool:
        """Whether the end of the lease freezes the attempt. One that is being stopped is killed.

        So is one without an agent, from which no word could come: it is stopped before and can save its work.
        """
        if not self.freeze_seconds or self.kill_at is not None:
            return False
        agent = read_json(self.spec["agent"]) or {}
        return is_same_process(agent.get("pid", 0), agent.get("identity", ""))

    def stand_still(self, lapse: Lapse, now: float) -> None:
        """See to it that all stay frozen, and say so, until they may go on or have to be killed."""
        if self.kill_at is not None or self.go_on_if_allowed():
            return
        is_complete = self.freezer.is_complete()
        said = {"until": lapse.until}
        if is_complete and read_json(self.folder.frozen) != said:
            # Without it the agent does not know that they are frozen: it kills them, or never says that they
            # may go on. A full disk may refuse it now, and take it at another look.
            with contextlib.suppress(OSError):
                write_json(self.folder.frozen, said)
        lapse.looked(now, is_complete=is_complete)
        if lapse.must_end(now):
            self.stop("lease", 0.0)
        elif not is_complete:
            self.freezer.freeze()

    def go_on_if_allowed(self) -> bool:
        """Thaw what the end of a lease froze, if the server still wants it; return whether it goes on."""
        if self.lapse is None:
            return False
        now, resume = boot_clock_seconds(), float(read_json(self.folder.resume) or 0.0)
        if not self.lapse.is_over(resume, now, self.freezing_seconds + self.kill_margin_seconds):
            return False
        self.deadline = max(self.deadline, resume)
        stood_seconds = now - self.lapse.began_at
        self.lapse = None
        self.guests.refusal = ""
        with contextlib.suppress(OSError):
            os.unlink(self.folder.frozen)
        for replica in self.replicas if stood_seconds >= SHORT_SECONDS else ():
            text = (
                f"\n[allotment] It stood still for {stood_seconds:.0f} s: the control plane did not answer.\n"
            )
            replica.output.write(text.encode())
        self.take_turns()
        return True

    def take_turns(self) -> None:
        """Freeze what runs in the turns of others, and thaw it when its own begins."""
        if self.turns is None or self.turns.is_on(wall_clock_seconds()):
            self.freezer.thaw()
            self.sharing.step(boot_clock_seconds())
        elif not self.freezer.is_frozen:
            self.stands_still = False
            self.freezer.freeze()
            self.sharing.stand_down()
        else:
            self.stands_still = self.freezer.is_complete()
            if not self.stands_still:
                # A process was made while the others were stopped, or was let go on.
                self.freezer.freeze()

    def sleep_seconds(self) -> float:
        now = boot_clock_seconds()
        if self.has_killed or self.waits_for_orphans():
            return KILL_AGAIN_SECONDS
        if self.lapse is not None:
            return self.lapse.look_again_seconds(now)
        times = [now + LONGEST_SLEEP_SECONDS, self.lease_end() - self.longest_stop_seconds]
        if self.is_lease_near(now):
            times = [now + LEASE_LOOK_SECONDS, self.lease_end() - self.lease_stop_seconds()]
        if not self.reason:
            times += [disk.next_at for disk in self.disks]
        times.append(self.sharing.next_at(now))
        if self.turns is not None:
            wall = wall_clock_seconds()
            times.append(now + self.turns.changes_at(wall) - wall)
            if self.freezer.is_frozen:
                times.append(now + (LOOK_SECONDS if self.stands_still else LOOK_FIRST_SECONDS))
        if self.kill_at is not None:
            times = [now + LONGEST_SLEEP_SECONDS, self.kill_at, self.lease_end() - self.kill_margin_seconds]
            if self.reason == "disk":
                times.append(now + SHORTEST_SECONDS)
        return min(times) - now

    def is_lease_near(self, now: float) -> bool:
        """Whether its end is near enough to look whether it was moved forward, and how it would be met."""
        return now >= self.lease_end() - self.longest_stop_seconds

    def lease_end(self) -> float:
        if not self.deadline:
            self.renewed_lease_end()
        return self.deadline

    def renewed_lease_end(self) -> float:
        """Read the deadline again; return when the attempt would have to be frozen or stopped."""
        lease = read_lease(self.spec["lease"])
        if lease is not None:
            self.deadline = max(self.deadline, lease)
        return self.deadline - self.lease_stop_seconds()

    def lease_stop_seconds(self) -> float:
        """How long before the deadline the attempt is frozen, or stopped."""
        if self.can_freeze():
            return self.freezing_seconds + self.kill_margin_seconds
        return self.lease_grace_seconds + self.kill_margin_seconds

    def write_status(self, *, is_final: bool) -> None:
        status = {
            "pid": os.getpid(),
            "identity": process_identity(os.getpid()),
            "is_final": is_final,
            "reason": self.reason,
            "problem": self.problem,
            "first_failed": self.first_failed,
            "started_at": self.started_at,
            "ended_at": time.time() if is_final else None,
            "kernel_killed_for_memory": is_final and kernel_oom_kills() > self.oom_kills_before,
            "replicas": [replica.status() for replica in self.replicas],
        }
        write_json(self.folder.status, status)


def main() -> None:
    """Mind the attempt whose folder is the only argument; do nothing when another does, or it is over."""
    folder = AttemptFolder(sys.argv[1])
    lock = folder.lock_shim()
    if lock is None or (read_json(folder.status) or {}).get("is_final"):
        return
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    Shim(folder, read_json(folder.spec)).run()


def _catch_signals() -> int:
    """Make SIGTERM and the end of children readable from the returned descriptor; ignore the terminal's."""
    read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return read


if __name__ == "__main__":
    main()
