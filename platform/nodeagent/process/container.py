"""Replicas in containers, by the command line of podman or docker: what their shim is to execute.

The engine's client is the shim's child in the place of the command: it hands on output, exit code and
signals. The image is asked for by a job and allowed by the node. Everything in it is read-only but what a
sandbox may write too.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from nodeagent.configuration import Configuration
from nodeagent.folder import AttemptFolder
from nodeagent.messages import DesiredPart, Replica
from nodeagent.programs import problem_found
from nodeagent.threads import in_own_thread

log = logging.getLogger(__name__)

#: Looked for in this order.
ENGINES = ("podman", "docker")
TRIAL_SECONDS = 20.0
#: An engine that has not answered by then hangs.
ANSWER_SECONDS = 60.0
#: podman can put this before the command as process 1, and so can docker, which brings its own.
INIT_PROGRAMS = ("/usr/libexec/podman/catatonit", "/usr/bin/catatonit")
TEMPORARY = "/tmp"


class Containers:
    """Builds the commands about a replica's container; `problem` says why there can be none."""

    def __init__(self, configuration: Configuration, unique: str) -> None:
        self.configuration = configuration
        self.policy = configuration.containers
        self.unique = unique
        self.program = self._find_engine()
        self.problem = self._find_problem()

    @property
    def is_used(self) -> bool:
        return not self.problem

    def refusal(self, image: str) -> str:
        """Return why a container of this image is not started here; "" when it may be."""
        if self.problem or self.policy is None:
            return f"This node runs no containers. {self.problem}"
        if not image.startswith(self.policy.images):
            allowed = ", ".join(self.policy.images)
            return f"This node runs no image {image}; allowed are those that begin with {allowed}."
        return ""

    def commands(
        self,
        folder: AttemptFolder,
        checkpoints: str,
        part: DesiredPart,
        replica: Replica,
        user: int,
        devices: Sequence[str],
        secrets: str = "",
    ) -> dict[str, Any]:
        """Return the commands that run, enter, inspect and remove it.

        Its environment is in the file `folder.environment(rank)`: all users can see arguments. That of its
        secrets is in the folder `secrets`, which the shim makes; "" when there are none.
        """
        name = f"{self.unique}-attempt-{part.attempt}-rank-{replica.rank}"
        assert self.policy is not None
        run = [
            *(self.program, "run", "--name", name, "--pull", self.policy.pull, "--log-driver", "none"),
            *("--cap-drop", "all", "--security-opt", "no-new-privileges", "--read-only"),
            *("--network", self.policy.network, "--workdir", folder.work(replica.rank), "--entrypoint", ""),
            *("--env-file", folder.environment(replica.rank)),
            *self._user(user),
            *self._limits(replica),
            *self._mounts(folder, checkpoints, replica.rank),
        ]
        if secrets:
            source, target = os.path.join(secrets, "files"), folder.secrets
            run += ["--env-file", os.path.join(secrets, "environment")]
            run += ["--mount", f"type=bind,source={source},target={target},readonly"]
        for device in devices:
            run += ["--device", f"nvidia.com/gpu={device}"]
        if self._has_init():
            run.append("--init")
        return {
            "run": [*run, *self.policy.flags, replica.image, *replica.command],
            "exec": [self.program, "exec", name],
            "name": name,
            "update_cpus": [self.program, "update"],
            "pause": [self.program, "pause", name],
            "unpause": [self.program, "unpause", name],
            "was_out_of_memory": [self.program, "inspect", "--format", "{{.State.OOMKilled}}", name],
            # Without a word podman would first give it ten seconds to end.
            "remove": [self.program, "rm", "--force", *(["--time", "0"] if self._is_podman() else []), name],
        }

    def _user(self, user: int) -> list[str]:
        if os.geteuid() != 0 and self._is_podman():
            return ["--userns", "keep-id"]
        return ["--user", f"{user}:{user if os.geteuid() == 0 else os.getegid()}"]

    def _limits(self, replica: Replica) -> list[str]:
        limits = self.configuration.limits
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        files = limits.files if hard == resource.RLIM_INFINITY else min(limits.files, hard)
        flags = ["--pids-limit", str(limits.processes), "--ulimit", f"nofile={files}:{files}"]
        flags += ["--ulimit", "core=0:0"]
        if replica.cpus > 0:
            flags += ["--cpus", f"{replica.cpus:g}"]
        if replica.memory_bytes > 0:
            flags += ["--memory", str(replica.memory_bytes)]
        return flags

    def _mounts(self, folder: AttemptFolder, checkpoints: str, rank: int) -> list[str]:
        readable = [*self.configuration.readable_folders, self.configuration.examples_folder]
        if os.path.exists(folder.trainers):
            readable.append(folder.trainers)
        mounts = [(path, path, ",readonly") for path in readable if path]
        mounts += [(path, path, "") for path in (folder.works, checkpoints, folder.progress(rank))]
        mounts.append((folder.temporary, TEMPORARY, ""))
        return [
            word
            for source, target, mode in mounts
            for word in ("--mount", f"type=bind,source={source},target={target}{mode}")
        ]

    def _is_podman(self) -> bool:
        return os.path.basename(self.program) == "podman"

    def _has_init(self) -> bool:
        return not self._is_podman() or any(os.path.exists(path) for path in INIT_PROGRAMS)

    def _find_engine(self) -> str:
        if self.policy is None:
            return ""
        names = (self.policy.engine,) if self.policy.engine else ENGINES
        return next((path for name in names if (path := shutil.which(name))), "")

    def _find_problem(self) -> str:
        if self.policy is None:
            return "The configuration of the node agent allows no images."
        if not self.program:
            return f"There is no {self.policy.engine or ' or '.join(ENGINES)}."
        argv = [self.program, "ps", "--quiet"]
        return problem_found(argv, name=self.program, fails="does not work", seconds=TRIAL_SECONDS)


async def order(command: Sequence[str]) -> None:
    """Run a command of the engine about a container; one that hangs is killed.

    Whether it succeeds does not matter: the container may have ended.
    """
    # Its output goes nowhere: what it has started may keep a pipe open for ever.
    run = partial(
        subprocess.run,
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=ANSWER_SECONDS,
        check=False,
    )
    try:
        await in_own_thread("container engine", run)
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("The container engine did not do what it should: %s", error)


def main_process(container: Mapping[str, Sequence[str]]) -> int:
    """Return this machine's number of a container's first process; 0 when the engine knows of none."""
    program, _, name = container["exec"]
    command = [program, "inspect", "--format", "{{.State.Pid}}", name]
    with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):
        return int(subprocess.run(command, capture_output=True, timeout=TRIAL_SECONDS, check=False).stdout)
    return 0


def environment_file(environment: dict[str, str]) -> str:
    """Return the text of a file of variables; raise OSError for one it cannot hold."""
    for name, value in environment.items():
        if "\n" in value or "\r" in value:
            raise OSError(
                f"the variable {name} has several lines, which a container's environment cannot hold"
            )
    return "".join(f"{name}={value}\n" for name, value in environment.items())
