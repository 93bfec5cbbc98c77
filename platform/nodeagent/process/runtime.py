"""Attempts as plain processes under a shim. What happens to them is posted as events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import time
import zlib
from collections.abc import Callable, Collection, Coroutine
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from nodeagent.clock import boot_clock_seconds
from nodeagent.configuration import Configuration
from nodeagent.devices.inventory import Devices, find_devices
from nodeagent.devices.nvml import INSTANCE
from nodeagent.executor import kept_desired, start_failed
from nodeagent.folder import AttemptFolder, overwrite, read_json, write_json
from nodeagent.grace import shorter_grace
from nodeagent.lease import read_lease, write_lease
from nodeagent.machine import (
    AttemptAdopted,
    AttemptExited,
    AttemptStarted,
    Event,
    Part,
    Phase,
)
from nodeagent.messages import NO_SECRETS, DesiredPart, SecretsAnswer, Turn, decode, encode
from nodeagent.process.accounts import account_files
from nodeagent.process.container import Containers, order
from nodeagent.process.environment import NodeGrants, checkpoint_folder, disk_limits, replica_spec, stray_mark
from nodeagent.process.isolation import Isolation
from nodeagent.process.limits import Limits
from nodeagent.process.mps import Mps
from nodeagent.process.outcome import read_outcome
from nodeagent.process.ports import HeldPorts
from nodeagent.process.preparing import Preparer
from nodeagent.process.removing import remove
from nodeagent.process.sharing import SharedGpus
from nodeagent.process.shim_process import (
    ShimProcess,
    ShimStarter,
    folder_for_secrets,
    forget_abandoned,
)
from nodeagent.process.users import make_file
from nodeagent.procfs import is_same_process, process_identity, processes_with_setting
from nodeagent.shim.cgroups import Cgroups, find_cgroups
from nodeagent.shim.secrets import remove_folder
from nodeagent.threads import in_own_thread

log = logging.getLogger(__name__)

#: The longest part of a lease that is spent on letting jobs end well.
LEASE_GRACE_SHARE = 0.25
CLEAR_AGAIN_SECONDS = 0.05
CLEAR_MOST_SECONDS = 5.0
#: So much later than its grace a shim that has not ended its attempt is taken to hang.
HANGING_SECONDS = 60.0
#: The file that says which process the agent is never takes more.
AGENT_BYTES = 128
#: Devices seldom break, and a driver takes its time to say so.
INVENTORY_SECONDS = 30.0


class ProcessRuntime:
    """Prepares, starts, stops and forgets attempts; what happens to them it posts as events."""

    def __init__(
        self,
        configuration: Configuration,
        post: Callable[[Event], None],
        devices: Devices | None = None,
        cgroups: Cgroups | None = None,
    ) -> None:
        self.configuration = configuration
        self.devices = devices or find_devices(configuration)
        self.post = post
        self.lease_seconds = 0.0
        self.root = Path(configuration.work_folder)
        self.attempts = self.root / "attempts"
        self.attempts.mkdir(parents=True, exist_ok=True)
        self.lease = str(self.root / "lease")
        #: The process that moves the lease forward. Shims check whether it lives.
        self.agent = str(self.root / "agent")
        this = json.dumps({"pid": os.getpid(), "identity": process_identity(os.getpid())})
        # In place, since jobs run on while a full disk would keep this agent from its start.
        overwrite(self.agent, this.ljust(AGENT_BYTES))
        # Two nodes of one name, in two demonstrations on one machine, must not share groups.
        unique = f"{configuration.node}-{zlib.crc32(str(self.root).encode()):08x}"
        self.cgroups = find_cgroups(unique) if cgroups is None else cgroups
        self.isolated = Isolation(configuration, str(self.attempts))
        self.users = self.isolated.users
        self.containers = Containers(configuration, f"allotment-{unique}")
        bubblewrap = self.isolated.sandbox.program if self.isolated.has_sandbox else ""
        self.mps = Mps(
            self.root / "mps", is_enabled=configuration.mps, bubblewrap=bubblewrap, devices=self.devices
        )
        self.shared_gpus = SharedGpus(self.root / "tokens", configuration, has_mps=self.mps.is_used)
        if warning := self.isolated.warning():
            log.warning("%s", warning)
        if self.containers.problem and configuration.containers is not None:
            log.warning("Jobs that name an image do not run here. %s", self.containers.problem)
        if self.mps.problem:
            log.warning("Jobs that share GPUs take turns. %s", self.mps.problem)
        forget_abandoned()
        self.starter = ShimStarter(str(self.attempts))
        self.shims: dict[int, ShimProcess] = {}
        self.limits = Limits(self.cgroups, self.folder, self.shims.keys(), self._begin)
        self.ports = HeldPorts()
        self.preparer = Preparer(configuration, self.isolated, self.mps, self.ports, self.folder, post)
        self.tasks: set[asyncio.Task[None]] = set()

    @property
    def isolation(self) -> dict[str, bool]:
        """What is really enforced on jobs here."""
        enforced = self.isolated.enforced(self.cgroups) | {"container": self.containers.is_used}
        return enforced | self.shared_gpus.holds | ({"mps": True} if self.mps.is_used else {})

    @property
    def problem(self) -> str:
        # Where there are containers, jobs that name an image run all the same.
        return "" if self.containers.is_used else self.isolated.problem

    @property
    def inventory_seconds(self) -> float:
        return INVENTORY_SECONDS

    def folder(self, attempt: int) -> AttemptFolder:
        return AttemptFolder(str(self.attempts / str(attempt)))

    def extend_lease(self, deadline: float, lease_seconds: float, attempts: Collection[int]) -> None:
        """Let every shim go on until the deadline; wake those that stand still and may go on."""
        self.lease_seconds = lease_seconds
        write_lease(self.lease, deadline)
        for attempt in attempts:
            folder, shim = self.folder(attempt), self.shims.get(attempt)
            if shim is not None and os.path.exists(folder.frozen):
                try:
                    write_json(folder.resume, deadline)
                except OSError:
                    # The disk is full, say. The others may go on, and this one at the next answer.
                    log.exception("The order to go on could not be written for attempt %d", attempt)
                    continue
                log.info("Attempt %d goes on: the control plane answers and still wants it.", attempt)
                shim.wake()

    def is_frozen(self, attempt: int) -> bool:
        """Whether the shim says that it froze the attempt, for no longer than it may."""
        frozen = read_json(self.folder(attempt).frozen)
        return frozen is not None and boot_clock_seconds() < frozen["until"]

    def lease_deadline(self) -> float:
        """Return the deadline an earlier life of the agent left behind."""
        return read_lease(self.lease) or 0.0

    def prepare(self, desired: DesiredPart, code: IO[bytes] | None = None) -> None:
        """Make the folders and, for rank 0, choose the port where the gang meets."""
        self._begin(self.preparer.prepare(desired, code))

    def release(self, attempt: int) -> bool:
        """Let go of the port; the folders go when the attempt is forgotten."""
        self.ports.release(attempt)
        return self.preparer.give_up(attempt)

    def is_queued(self, attempt: int) -> bool:
        """Never: the agent itself starts what runs here."""
        return False

    def start(self, desired: DesiredPart, secrets: SecretsAnswer = NO_SECRETS) -> None:
        """Start the shim, which starts the replicas."""
        folder = self.folder(desired.attempt)
        if not desired.master_port:
            # A gang of one node: no other node needs the port, so none was asked.
            port = (read_json(folder.part) or {}).get("master_port") or 0
            desired = replace(desired, master_port=port, master_address="127.0.0.1")
        self.ports.release(desired.attempt)
        try:
            if refusal := secrets.problem or self._refusal(desired):
                self.post(start_failed(desired.attempt, refusal))
                return
            write_json(folder.part, {"wish": encode(desired), "master_port": desired.master_port or None})
            if desired.turn is not None:
                write_json(folder.turns, encode(desired.turn))
            hidden = folder_for_secrets(folder) if secrets.secrets else ""
            write_json(folder.spec, self._shim_spec(folder, desired, hidden))
            shim = self.starter.start(folder, secrets.secrets)
        except Exception as error:
            # Whatever it is: the attempt would wait for its start for ever.
            log.exception("Attempt %d could not be started", desired.attempt)
            self.post(start_failed(desired.attempt, f"The node could not start the attempt: {error}"))
            return
        self._watch(desired.attempt, shim)

    def stop(self, attempt: int, grace_seconds: float, *, is_leaving: bool = False) -> None:
        """SIGTERM to all processes of the attempt, SIGKILL after the grace."""
        reason = "leaving" if is_leaving else "stopped"
        try:
            write_json(self.folder(attempt).stop, {"reason": reason, "grace_seconds": grace_seconds})
        except OSError:
            # Without the file the shim takes the grace it was started with.
            log.exception("The order to stop attempt %d could not be written", attempt)
        if (shim := self.shims.get(attempt)) is not None:
            shim.signal(signal.SIGTERM)
            loop = asyncio.get_running_loop()
            loop.call_later(grace_seconds + HANGING_SECONDS, self._kill_hanging, attempt, shim)

    def take_turns(self, attempt: int, turn: Turn | None) -> None:
        """Let an attempt run in its turns only, frozen in those of others; None: all the time."""
        write_json(self.folder(attempt).turns, None if turn is None else encode(turn))
        if (shim := self.shims.get(attempt)) is not None:
            shim.wake()

    def change_limits(self, desired: DesiredPart) -> None:
        """Let replicas have other CPUs and memory; memory that is in use is taken when it is not any more."""
        folder = self.folder(desired.attempt)
        port = (read_json(folder.part) or {}).get("master_port")
        write_json(folder.part, {"wish": encode(desired), "master_port": port})
        self.limits.change(desired)

    def name_trainers(self, attempt: int, trainers: str) -> None:
        """Write them where the worker looks; in place, for its sandbox has this very file."""
        with contextlib.suppress(OSError):  # It has ended, or the disk is full.
            Path(self.folder(attempt).trainers).write_text(f"{trainers}\n", encoding="utf-8")

    def _kill_hanging(self, attempt: int, shim: ShimProcess) -> None:
        """Kill a shim that does not obey: it would hold its GPUs for ever."""
        if self.shims.get(attempt) is shim:
            log.warning("The shim of attempt %d did not end it in time and is killed", attempt)
            shim.signal(signal.SIGKILL)

    def kill(self, attempt: int) -> None:
        """Kill the shim; what it looked after is killed when its end is seen."""
        if (shim := self.shims.get(attempt)) is not None:
            shim.signal(signal.SIGKILL)

    def forget(self, attempt: int) -> None:
        """Remove all that is left of an attempt that ended."""
        self.ports.forget(attempt)
        if self.mps.is_used:
            self._begin(in_own_thread("leave MPS", partial(self.mps.leave, attempt)))
        trash = self.attempts / f".trash-{attempt}"
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.folder(attempt).path, trash)
            self._begin(remove(trash))

    def recover(self) -> list[AttemptAdopted]:
        """Find what an earlier life of the agent left behind, and watch again what lives."""
        found, trash = [], []
        for path in sorted(self.attempts.iterdir()):
            if path.name.startswith(".trash-"):
                trash.append(path)
            elif path.name.isdigit() and (adopted := self._adopt(int(path.name))) is not None:
                found.append(adopted)
        self._begin(remove(*trash))
        if self.mps.is_used:
            alive = {adopted.part.desired.attempt for adopted in found}
            self._begin(in_own_thread("leave MPS", partial(self.mps.keep_only, alive)))
        return found

    def close(self) -> None:
        """Let go of everything; shims and their attempts go on."""
        for shim in self.shims.values():
            shim.close()
        self.shims.clear()
        self.starter.close()
        self.shared_gpus.close()
        self.ports.release_all()
        self.cgroups.remove()

    def _refusal(self, desired: DesiredPart) -> str:
        """Return why this node does not start the attempt as it is; "" when it does."""
        for image in sorted({replica.image for replica in desired.replicas if replica.image}):
            return self.containers.refusal(image)
        if self.isolated.problem:
            return f"This node starts no job. {self.isolated.problem}"
        for replica in desired.replicas:
            names = self.devices.names(replica.gpu_indexes).values()
            has_instances = any(name.startswith(INSTANCE) for name in names)
            if has_instances and replica.gpu_part is not None:
                return (
                    f"Rank {replica.rank} was given a part of an instance of a divided GPU (MIG), which a"
                    " job has whole: ask for one GPU."
                )
            if len(names) > 1 and has_instances:
                return (
                    f"Rank {replica.rank} was given {len(names)} parts of divided GPUs (MIG), and CUDA lets a"
                    " process use one: ask for more replicas with one GPU each."
                )
        return ""

    def _shim_spec(self, folder: AttemptFolder, desired: DesiredPart, secrets: str) -> dict[str, Any]:
        indexes = sorted({index for replica in desired.replicas for index in replica.gpu_indexes})
        # The user for whom the folder was prepared; the record of users may be on a file system that hangs.
        owner = os.stat(folder.temporary).st_uid
        for replica in desired.replicas:
            make_file(folder.progress(replica.rank), owner)
        if desired.trainers:
            make_file(folder.trainers, owner)
            self.name_trainers(desired.attempt, desired.trainers)
        device_files = self.devices.files(indexes)
        has_image = any(replica.image for replica in desired.replicas)
        # As it was prepared: others may have come to its GPUs between then and now.
        is_served = self.mps.is_for(desired) and self.mps.has_joined(owner, desired.attempt)
        service = self.mps.service(owner) if is_served else None
        grants = NodeGrants(
            is_sandboxed=self.isolated.has_sandbox or has_image,
            is_confined=self.isolated.has_landlock,
            user=None if owner == os.geteuid() else owner,
            devices=self.devices.names(indexes),
            has_device_files=bool(device_files),
            containers=self.containers,
            service="" if service is None else service.pipe,
            secrets=secrets,
            parts=self.shared_gpus.parts(folder, desired),
            ports={
                replica.rank: {
                    name: number or self.ports.reserve(desired.attempt)
                    for name, number in desired.ports.items()
                }
                for replica in desired.replicas
            },
        )
        sandbox = landlock = None
        ranks = [replica.rank for replica in desired.replicas]
        checkpoints = checkpoint_folder(self.configuration, desired)
        if self.isolated.has_sandbox and not has_image:
            shared = {} if service is None else {service.pipe: service.pipe, "/dev/shm": service.memory}
            accounts = account_files(folder, grants.user, desired.tenant, folder.work(min(ranks)))
            sandbox = self.isolated.sandbox.command(
                folder, checkpoints, ranks, device_files, shared, secrets, accounts
            )
        elif self.isolated.landlock is not None and self.isolated.has_landlock and not has_image:
            pipes = [] if service is None else [service.pipe]
            landlock = self.isolated.landlock.rules(folder, checkpoints, ranks, device_files, pipes, secrets)
        return {
            "lease": self.lease,
            "agent": self.agent,
            "lease_grace_seconds": shorter_grace(
                desired.grace_seconds, self.lease_seconds * LEASE_GRACE_SHARE
            ),
            "freeze_seconds": self.configuration.freeze_seconds,
            "grace_seconds": desired.grace_seconds,
            "log_bytes": desired.log_bytes,
            "disk_limits": disk_limits(self.configuration, folder, checkpoints),
            "sandbox": sandbox,
            "landlock": landlock,
            "secrets": {"folder": secrets, "user": grants.user} if secrets else None,
            "replicas": [
                replica_spec(self.configuration, self.cgroups, folder, desired, replica, grants)
                for replica in desired.replicas
            ],
        }

    def _watch(self, attempt: int, shim: ShimProcess) -> None:
        self.shims[attempt] = shim
        self.shared_gpus.join(attempt, self.folder(attempt))
        shim.watch(partial(self._shim_runs, attempt), partial(self._shim_ended, attempt))

    def _shim_runs(self, attempt: int) -> None:
        status = read_json(self.folder(attempt).status) or {}
        self.post(AttemptStarted(attempt=attempt, at=status.get("started_at") or time.time()))

    def _shim_ended(self, attempt: int) -> None:
        self.shims.pop(attempt).close()
        self.limits.forget(attempt)
        self._finish(attempt)

    def _finish(self, attempt: int, again_seconds: float = CLEAR_AGAIN_SECONDS) -> None:
        """Report the end once nothing is left alive; a shim that was killed left that to us."""
        folder = self.folder(attempt)
        lock = folder.lock_shim()
        if lock is None:
            # One that was started late by an earlier life of the agent. It will do nothing, but let it.
            self._finish_later(attempt, again_seconds)
            return
        try:
            status = read_json(folder.status) or {}
            if not status.get("is_final"):
                if self._kill_strays(attempt, status):
                    self._finish_later(attempt, again_seconds)
                    return
                if hidden := (read_json(folder.spec) or {}).get("secrets"):
                    remove_folder(hidden["folder"])
                self._begin(_remove_containers(folder))
                # Told to stop before it began, it just ends. That is no accident.
                stop = read_json(folder.stop) if not status.get("replicas") else None
                reason = stop["reason"] if stop else "shim"
                status |= {"is_final": True, "reason": reason, "ended_at": time.time()}
                with contextlib.suppress(OSError):  # A full disk must not keep the end from being reported.
                    write_json(folder.status, status)
        finally:
            os.close(lock)
        self.shared_gpus.leave(attempt)
        self.post(AttemptExited(attempt=attempt, outcome=read_outcome(folder, status)))

    def _finish_later(self, attempt: int, seconds: float) -> None:
        # What the kernel cannot kill yet may stay for long, and looking for it costs much.
        longer = min(2 * seconds, CLEAR_MOST_SECONDS)
        asyncio.get_running_loop().call_later(seconds, self._finish, attempt, longer)

    def _kill_strays(self, attempt: int, status: dict[str, Any]) -> bool:
        """Kill what a dead shim left behind; return whether there was anything."""
        found = False
        folder = self.folder(attempt)
        strays: set[int] = set()
        for spec in (read_json(folder.spec) or {}).get("replicas", []):
            group = self.cgroups.group(f"attempt-{attempt}-rank-{spec['rank']}")
            found |= group.kill()
            group.remove()
            users = () if spec["user"] is None else (spec["user"],)
            strays |= set(processes_with_setting(stray_mark(folder, spec["rank"]), *users))
        for replica in status.get("replicas", []):
            if is_same_process(replica["pid"], replica["identity"]):
                found = True
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(replica["pid"], signal.SIGKILL)
        for pid in strays:
            found = True
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return found

    def _adopt(self, attempt: int) -> AttemptAdopted | None:
        folder = self.folder(attempt)
        kept = read_json(folder.part) or {}
        desired = kept_desired(attempt, kept.get("wish"), read_json(folder.spec))
        if desired is None:
            # Preparing was cut short, so nothing was ever started. The server will ask for it again.
            self._begin(remove(Path(folder.path)))
            return None
        # Turns may have changed since it was started.
        turn = read_json(folder.turns)
        desired = replace(desired, turn=None if turn is None else decode(Turn, turn))
        part = Part(desired=desired, phase=Phase.READY, master_port=kept.get("master_port"))
        if not os.path.exists(folder.spec):
            return AttemptAdopted(part=part)
        status = read_json(folder.status) or {}
        part = replace(part, phase=Phase.RUNNING, started_at=status.get("started_at"))
        if os.path.exists(folder.stop):
            part = replace(part, phase=Phase.STOPPING)
        lock = folder.lock_shim()
        if lock is not None:
            os.close(lock)
            # Reported once the event loop runs: nothing may be alive before that.
            asyncio.get_running_loop().call_soon(self._finish, attempt)
        else:
            self._adopt_shim(attempt)
        return AttemptAdopted(part=part)

    def _adopt_shim(self, attempt: int) -> None:
        """Watch a shim that lives; one that has only just started has not written who it is."""
        status = read_json(self.folder(attempt).status) or {}
        if is_same_process(status.get("pid", 0), status.get("identity", "")):
            with contextlib.suppress(ProcessLookupError):
                self._watch(attempt, ShimProcess(status["pid"]))
                # An earlier life may have had no time to send it its turns.
                self.shims[attempt].wake()
                # Nor to change its limits, as it had written down.
                kept = kept_desired(attempt, (read_json(self.folder(attempt).part) or {}).get("wish"), None)
                if kept is not None:
                    self.limits.change(kept)
                return
        asyncio.get_running_loop().call_later(CLEAR_AGAIN_SECONDS, self._adopt_again, attempt)

    def _adopt_again(self, attempt: int) -> None:
        lock = self.folder(attempt).lock_shim()
        if lock is None:
            self._adopt_shim(attempt)
        else:
            os.close(lock)
            self._finish(attempt)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


async def _remove_containers(folder: AttemptFolder) -> None:
    """Let the engine forget containers whose processes are dead."""
    for replica in (read_json(folder.spec) or {}).get("replicas", []):
        if (container := replica.get("container")) is not None:
            await order(container["remove"])
