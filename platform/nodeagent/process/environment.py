"""What one replica runs in: its folders, limits and environment, as the shim gets them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nodeagent.configuration import Configuration
from nodeagent.folder import AttemptFolder, write_private
from nodeagent.launching.commands import launched
from nodeagent.messages import DesiredPart, Replica
from nodeagent.process.container import Containers, environment_file
from nodeagent.process.mps import mps_limits
from nodeagent.process.ports import path_variable, port_variable
from nodeagent.process.sandbox import TEMPORARY
from nodeagent.shim.cgroups import Cgroups

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: How podman and docker find their own things.
ENGINE_VARIABLES = ("PATH", "HOME", "XDG_RUNTIME_DIR", "CONTAINER_HOST", "DOCKER_HOST", "DOCKER_CONFIG")
#: Programs make sockets in TMPDIR, and the path of a socket has at most 107 bytes.
TEMPORARY_FOLDER_LONGEST_CHARACTERS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGrants:
    """What the node gives an attempt beside what is desired."""

    is_sandboxed: bool
    #: Then what lies outside of its folders, such as /tmp, is not for it.
    is_confined: bool
    #: User and group number; None: the agent's.
    user: int | None
    #: By index, what CUDA_VISIBLE_DEVICES calls it.
    devices: Mapping[int, str]
    has_device_files: bool
    containers: Containers
    #: Where the tenant's Multi-Process Service listens; "" when the GPUs are not shared by one.
    service: str = ""
    #: The folder in which the shim lays out secrets; "" when the attempt is given none.
    secrets: str = ""
    #: By rank and name, the numbers of the ports at which the job is to listen.
    ports: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    #: By rank, what the shim holds replicas to that have a part of a GPU.
    parts: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)


def replica_spec(
    configuration: Configuration,
    cgroups: Cgroups,
    folder: AttemptFolder,
    part: DesiredPart,
    replica: Replica,
    grants: NodeGrants,
) -> dict[str, Any]:
    """Return all the shim needs to start the replica; raise OSError when that cannot be passed on."""
    group = cgroups.group(f"attempt-{part.attempt}-rank-{replica.rank}")
    environment = replica_environment(configuration, folder, part, replica, os.environ, grants)
    replica = replace(replica, command=launched(replica, environment))
    spec = {
        "rank": replica.rank,
        "command": list(replica.command),
        "env": environment,
        "cwd": folder.work(replica.rank),
        "user": grants.user,
        "processes": configuration.limits.processes,
        "files": configuration.limits.files,
        "cpus": replica.cpus,
        "memory_bytes": replica.memory_bytes,
        "cgroup": {"is_unified": group.is_unified, "paths": group.paths},
        "container": None,
        "ports": dict(grants.ports.get(replica.rank, {})),
        "part": grants.parts.get(replica.rank),
    }
    if not replica.image:
        return spec
    if "PATH" not in replica.env:
        del environment["PATH"]  # The image has its own.
    write_private(folder.environment(replica.rank), environment_file(environment))
    user = os.geteuid() if grants.user is None else grants.user
    # Simulated devices have no files, and no engine knows them.
    devices = [grants.devices[index] for index in replica.gpu_indexes if grants.has_device_files]
    checkpoints = checkpoint_folder(configuration, part)
    container = grants.containers.commands(
        folder, checkpoints, part, replica, user, devices, secrets=grants.secrets
    )
    return spec | {
        "command": container["run"],
        # Nothing of the job's: the engine's client has the agent's rights.
        "env": {name: os.environ[name] for name in ENGINE_VARIABLES if name in os.environ},
        "cwd": "/",
        "user": None,
        # The limits are the engine's matter, which must not itself be short of anything.
        "cgroup": {"is_unified": group.is_unified, "paths": {}},
        "container": container,
    }


def replica_environment(
    configuration: Configuration,
    folder: AttemptFolder,
    part: DesiredPart,
    replica: Replica,
    inherited: Mapping[str, str],
    grants: NodeGrants,
) -> dict[str, str]:
    """Return a little of the agent's environment, the user's variables, and last the platform's.

    Each replica is a node of its own to the job, as a pod is: torchrun with --nnodes=$NNODES and
    --node-rank=$NODE_RANK works, and so does a script that reads env:// itself. Launchers read it, too.
    """
    path = inherited.get("PATH", DEFAULT_PATH)
    if configuration.python:
        path = f"{os.path.dirname(configuration.python)}{os.pathsep}{path}"
    temporary = TEMPORARY if grants.is_sandboxed else folder.temporary
    if not grants.is_confined and len(temporary) > TEMPORARY_FOLDER_LONGEST_CHARACTERS:
        temporary = tempfile.gettempdir()
    defaults = {
        "HOME": folder.work(replica.rank),
        "LANG": "C.UTF-8",
        "PATH": path,
        # Output is shown while the job runs; a user who prefers speed sets it to nothing.
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": temporary,
    }
    if grants.user is not None:
        # It has no entry among the machine's users, and programs that ask who they are look here first.
        defaults |= {"LOGNAME": part.tenant, "USER": part.tenant}
    devices = ",".join(grants.devices[index] for index in replica.gpu_indexes)
    ours = {
        "ALLOT_ATTEMPT": str(part.attempt),
        "ALLOT_CHECKPOINT_DIR": checkpoint_folder(configuration, part),
        "ALLOT_GPU_MODEL": part.gpu_model,
        "ALLOT_JOB": str(part.job),
        "ALLOT_NODE": configuration.node,
        "ALLOT_PROGRESS": folder.progress(replica.rank),
        "ALLOT_RESTARTS": str(part.number - 1),
        "ALLOT_TASK": replica.task,
        "ALLOT_TENANT": part.tenant,
        # NVML and CUDA count devices alike only in this order.
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": devices,
        "NVIDIA_VISIBLE_DEVICES": devices or "void",
        "MASTER_ADDR": part.master_address or "127.0.0.1",
        "MASTER_PORT": str(part.master_port),
        "RANK": str(replica.rank),
        "WORLD_SIZE": str(part.world_size),
        "NODE_RANK": str(replica.rank),
        "NNODES": str(part.world_size),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
    }
    if grants.secrets:
        hidden = os.path.join(grants.secrets, "files")
        ours["ALLOT_SECRETS_DIR"] = folder.secrets if grants.is_sandboxed else hidden
    if grants.service:
        ours["CUDA_MPS_PIPE_DIRECTORY"] = grants.service
        ours |= mps_limits(replica.gpu_part)
    if replica.rank in grants.parts:
        ours["ALLOT_GPU_TOKEN"] = folder.token(replica.rank)
    ours |= store_environment(configuration, part)
    if part.trainers:
        ours["ALLOT_INPUT_TRAINERS_FILE"] = folder.trainers
    for name, number in grants.ports.get(replica.rank, {}).items():
        ours |= {port_variable(name): str(number), path_variable(name): f"/job/{part.job}/{name}/"}
    if configuration.examples_folder:
        ours["ALLOT_EXAMPLES"] = configuration.examples_folder
    return {**defaults, **replica.env, **ours}


def disk_limits(configuration: Configuration, folder: AttemptFolder, checkpoints: str) -> dict[str, int]:
    """Return by folder how many bytes an attempt may have there, where that is limited."""
    limits = {
        folder.path: configuration.limits.disk_bytes,
        checkpoints: configuration.limits.checkpoint_bytes,
    }
    return {path: limit for path, limit in limits.items() if limit is not None}


def store_environment(configuration: Configuration, part: DesiredPart) -> dict[str, str]:
    """Return where in the checkpoint store the job's part is, if the node has one."""
    if not configuration.checkpoint_store or not configuration.checkpoint_endpoint:
        return {}
    # Below the tenant's name, so that the store can give each tenant keys for its own part alone.
    store = configuration.checkpoint_store.rstrip("/")
    return {
        "ALLOT_CHECKPOINT_STORE": f"{store}/{part.tenant}/{part.job}",
        "ALLOT_CHECKPOINT_ENDPOINT": configuration.checkpoint_endpoint,
    }


def checkpoint_folder(configuration: Configuration, part: DesiredPart) -> str:
    """Return the folder that all attempts of the job share, on whatever nodes they run."""
    return os.path.join(configuration.checkpoint_folder, str(part.job))


def stray_mark(folder: AttemptFolder, rank: int) -> str:
    """Return a setting by which a process of this replica is known, and of no other on this machine."""
    return f"ALLOT_PROGRESS={folder.progress(rank)}"
