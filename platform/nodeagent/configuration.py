"""The agent's configuration file: one JSON object, checked before anything else happens."""

from __future__ import annotations

import ipaddress
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from nodeagent.code.named import FETCH_MOST_SECONDS
from nodeagent.messages import MessageError, decode

MOST_FREEZE_SECONDS = 604_800.0


class ConfigurationError(ValueError):
    """The configuration file cannot be used; says which field and what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedGpu:
    """One device that exists only in the configuration."""

    index: int
    memory_bytes: int
    socket: int = 0
    switch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryConfiguration:
    """Which GPUs the node has: read from the driver (`nvml`), `simulated` and listed here, or `none`."""

    kind: Literal["simulated", "nvml", "none"]
    #: With nvml: which of the machine's models this node is, where it mixes several.
    gpu_model: str = ""
    gpus: tuple[SimulatedGpu, ...] = ()
    cpus: float | None = None
    memory_bytes: int | None = None
    #: What the storage that jobs read from delivers in a second, and how much of it stays in the cache; 0:
    #: not counted.
    storage_bandwidth: float = 0.0
    cache_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRange:
    """User numbers for tenants: `count` of them from `first` on, which are not used otherwise on
    the nodes.
    """

    first: int = 450_000
    count: int = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most one job may have on this node beside the CPUs and memory it asked for."""

    #: The most processes of one replica, threads included.
    processes: int = 8_192
    #: Open in one process.
    files: int = 65_536
    #: In the working folders and TMPDIR of one attempt; None: as much as there is.
    disk_bytes: int | None = None
    #: In the checkpoints of one job. Looked at by its shims, so only where that folder does not hang.
    checkpoint_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Containers:
    """Which images jobs may name here, and how podman or docker runs them."""

    #: Beginnings of allowed images, such as "registry.example/team/".
    images: tuple[str, ...]
    #: A name or path; empty: podman or docker, whichever is there.
    engine: str = ""
    pull: Literal["never", "missing"] = "missing"
    #: "host", so that gangs reach one another, or a network of the engine's.
    network: str = "host"
    #: More arguments to the engine's run command, such as ("--runtime", "runc").
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLimits:
    """What jobs may bring along for their working folders (docs/code.md)."""

    #: The most of one: bytes packed, bytes unpacked, files, and the time in which it must be fetched.
    bytes: int = 256 * 2**20
    unpacked_bytes: int = 2 * 2**30
    files: int = 100_000
    timeout_seconds: float = FETCH_MOST_SECONDS
    #: The most bytes that are kept for the next attempts.
    kept_bytes: int = 4 * 2**30
    #: How git addresses may begin; with ssh they are asked with the keys of the agent's user.
    git: tuple[Literal["https", "ssh", "git", "file"], ...] = ("https",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What the health checks of the node check beside its devices, its folders and its clock."""

    #: A command that ends with 0 (ok), 1 (warning) or 2 (failed); the first line it writes says why.
    script: tuple[str, ...] = ()
    every_seconds: float = 60.0
    #: When a script is ended that runs on; that counts as failed.
    timeout_seconds: float = 30.0
    #: Less free space in a folder that jobs write to is failed; None: 1 GiB, or 2 % of a smaller disk.
    least_free_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slurm:
    """Nodes whose attempts are carried out as jobs of Slurm (docs/slurm.md)."""

    partition: str
    #: By a node's name, which is the same in Slurm and here: its token.
    nodes: dict[str, str]
    #: The memory of each device: Slurm does not know it.
    gpu_memory_bytes: int
    #: What the model is called here; empty: as in Slurm (Gres=gpu:MODEL:COUNT).
    gpu_model: str = ""
    #: The model as jobs ask for it; empty: they ask for GPUs of whatever model the node has.
    gres_type: str = ""
    account: str = ""
    #: More arguments to sbatch, such as ("--qos=allotment", "--time=7-0").
    flags: tuple[str, ...] = ()
    #: How often Slurm is asked for its jobs; for its nodes, each fifth time.
    every_seconds: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What one agent needs to know. Folders may be relative to the configuration file."""

    server_url: str
    node: str
    token: str
    work_folder: str
    checkpoint_folder: str
    inventory: InventoryConfiguration
    #: Where the other nodes of a gang reach this one.
    address: str = "127.0.0.1"
    examples_folder: str | None = None
    #: An interpreter whose folder comes first on the jobs' PATH.
    python: str | None = None
    #: What keeps jobs apart, bubblewrap or else Landlock: no attempt without it, or wherever it works, or
    #: nothing at all.
    sandbox: Literal["required", "preferred", "off"] = "required"
    #: Folders that jobs can read, beside the system's.
    readable_folders: tuple[str, ...] = ()
    #: The users as which jobs run when the agent is root; None, which takes sandbox "off": as root.
    users: UserRange | None = UserRange()
    limits: Limits = Limits()
    code: CodeLimits = CodeLimits()
    #: None: jobs that name an image do not run here.
    containers: Containers | None = None
    #: Jobs of one tenant that share GPUs use them at the same time, by CUDA's Multi-Process Service.
    mps: bool = False
    #: Jobs with parts of GPUs are held to them by a token for each GPU, where MPS does not hold them.
    tokens: bool = True
    #: s3://BUCKET/PREFIX for checkpoints of allot.training, and that store's address: both or neither.
    checkpoint_store: str | None = None
    checkpoint_endpoint: str | None = None
    #: For how long jobs stand still when the control plane has not answered for a lease, before they are
    #: killed; 0: they are stopped just before the lease ends, and killed by then.
    freeze_seconds: float = 3600.0
    health: Health = Health()
    #: How often what the node and its jobs use is read, to be kept.
    metrics_seconds: float = 10.0
    #: HOST:PORT at which Prometheus may ask for it too, such as 127.0.0.1:9400; empty: nowhere.
    metrics_address: str = ""
    #: For an agent on a machine that speaks for nodes of Slurm; None: the node is this machine.
    slurm: Slurm | None = None
    #: Where this was read from: what no job may read.
    file: str = ""


def read_configurations(path: Path) -> tuple[Configuration, ...]:
    """Read and check a file that may speak for many nodes; return one configuration for each.

    Raises ConfigurationError with the field at fault.
    """
    value = _read_object(path)
    slurm = value.get("slurm")
    if slurm is None:
        return (_checked(path, value),)
    if "node" in value or "token" in value:
        raise ConfigurationError(f"{path}: node, token: leave them out; slurm.nodes states them")
    if value.get("metrics_address"):
        raise ConfigurationError(f"{path}: metrics_address: is for one node, so leave it out beside slurm")
    nodes = slurm.get("nodes") if isinstance(slurm, dict) else None
    if not isinstance(nodes, dict) or not nodes or not all(isinstance(one, str) for one in nodes.values()):
        raise ConfigurationError(f"{path}: slurm.nodes: must name at least one node, each with its token")
    return tuple(_checked(path, _of_node(path, value, name, token)) for name, token in nodes.items())


def require_encryption(configuration: Configuration, *, insecure: bool) -> None:
    """Raise ConfigurationError where the token would cross a network in the clear without `insecure`."""
    parts = urlsplit(configuration.server_url)
    if parts.scheme == "https" or insecure or _is_this_machine(parts.hostname or ""):
        return
    raise ConfigurationError(
        f"{configuration.file}: server_url: over http:// to another machine others on the way can read the "
        "node's token and its jobs' output; use https://, or start the agent with --insecure where you "
        "trust the network"
    )


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _of_node(path: Path, value: dict[str, Any], name: str, token: str) -> dict[str, Any]:
    """Return what the file would be if it spoke for one node: with a work folder of its own."""
    if "/" in name or name.startswith("."):
        raise ConfigurationError(f"{path}: slurm.nodes: must be names of nodes, not {name!r}")
    own = value | {"node": name, "token": token}
    if isinstance(value.get("work_folder"), str):
        own["work_folder"] = f"{value['work_folder']}/{name}"
    return own


def _read_object(path: Path) -> dict[str, Any]:
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigurationError(f"{path}: is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigurationError(f"{path}: must be one JSON object")
    return value


def _checked(path: Path, value: dict[str, Any]) -> Configuration:
    folder = path.resolve().parent
    for field in ("work_folder", "checkpoint_folder", "examples_folder"):
        if isinstance(value.get(field), str):
            value[field] = str(folder / value[field])
    value["file"] = str(path.resolve())
    try:
        configuration = decode(Configuration, value, is_strict=True)
    except MessageError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    _check(path, configuration)
    return configuration


def _check(path: Path, configuration: Configuration) -> None:
    if not configuration.server_url.startswith(("http://", "https://")):
        raise ConfigurationError(f"{path}: server_url: must start with http:// or https://")
    for field in ("node", "token"):
        value: str = getattr(configuration, field)
        if not value or any(character.isspace() or not character.isprintable() for character in value):
            raise ConfigurationError(f"{path}: {field}: must be text without spaces, and not empty")
    if not 0.0 <= configuration.freeze_seconds <= MOST_FREEZE_SECONDS:
        raise ConfigurationError(
            f"{path}: freeze_seconds: must be from 0 to {MOST_FREEZE_SECONDS:g}, a week,"
            f" not {configuration.freeze_seconds:g}"
        )
    _check_limits(path, configuration)
    _check_health(path, configuration.health)
    _check_metrics(path, configuration)
    _check_store(path, configuration.checkpoint_store, configuration.checkpoint_endpoint)
    if configuration.slurm is not None:
        _check_slurm(path, configuration.slurm)
    inventory = configuration.inventory
    for field in ("storage_bandwidth", "cache_bytes"):
        amount: float = getattr(inventory, field)
        if not 0 <= amount < math.inf:
            raise ConfigurationError(f"{path}: inventory.{field}: must be 0 or more bytes, not {amount:g}")
    if inventory.kind == "simulated":
        if inventory.gpus and not inventory.gpu_model:
            raise ConfigurationError(f"{path}: inventory.gpu_model: is missing, for example V100")
        indexes = [gpu.index for gpu in inventory.gpus]
        if len(set(indexes)) != len(indexes):
            raise ConfigurationError(f"{path}: inventory.gpus: two devices have the same index")
    elif inventory.kind == "none" and (inventory.gpus or inventory.gpu_model):
        raise ConfigurationError(f"{path}: inventory: with kind none leave out gpus and gpu_model")
    elif inventory.gpus:
        raise ConfigurationError(f"{path}: inventory: with kind nvml leave out gpus; the driver reports them")


def _check_store(path: Path, store: str | None, endpoint: str | None) -> None:
    if store is not None and not (store.startswith("s3://") and store.removeprefix("s3://").strip("/")):
        raise ConfigurationError(f"{path}: checkpoint_store: must be s3://BUCKET/PREFIX, not {store!r}")
    is_address = endpoint is not None and endpoint.startswith(("http://", "https://"))
    if is_address != (store is not None):
        raise ConfigurationError(
            f"{path}: checkpoint_endpoint: must be the address of checkpoint_store, https://HOST,"
            " and be there if that is"
        )


def _check_slurm(path: Path, slurm: Slurm) -> None:
    if not slurm.partition or slurm.gpu_memory_bytes < 1:
        raise ConfigurationError(
            f"{path}: slurm: partition and gpu_memory_bytes must state which GPUs the nodes have"
        )
    if not 0.1 <= slurm.every_seconds <= 60.0:
        raise ConfigurationError(f"{path}: slurm.every_seconds: must be from 0.1 to 60")


def _check_health(path: Path, health: Health) -> None:
    if health.script and not health.script[0].startswith("/"):
        raise ConfigurationError(
            f"{path}: health.script: must begin with an absolute path, not {health.script[0]!r}"
        )
    if not 1.0 <= health.timeout_seconds <= health.every_seconds:
        raise ConfigurationError(
            f"{path}: health.timeout_seconds: must be from 1 to every_seconds, {health.every_seconds:g}"
        )
    if health.least_free_bytes is not None and health.least_free_bytes < 0:
        raise ConfigurationError(f"{path}: health.least_free_bytes: must be 0 or more")


def _check_metrics(path: Path, configuration: Configuration) -> None:
    if not 1.0 <= configuration.metrics_seconds <= 60.0:
        raise ConfigurationError(
            f"{path}: metrics_seconds: must be from 1 to 60, not {configuration.metrics_seconds:g}"
        )
    host, _, port = configuration.metrics_address.rpartition(":")
    is_address = bool(host) and port.isdecimal() and 0 < int(port) < 2**16
    if configuration.metrics_address and not is_address:
        raise ConfigurationError(
            f"{path}: metrics_address: must be HOST:PORT, such as 127.0.0.1:9400,"
            f" not {configuration.metrics_address!r}"
        )


def _check_limits(path: Path, configuration: Configuration) -> None:
    for folder in configuration.readable_folders:
        if not folder.startswith("/") or folder == "/":
            raise ConfigurationError(
                f"{path}: readable_folders: must be absolute paths of folders, not {folder!r}"
            )
    numbers = configuration.users
    if numbers is None and configuration.sandbox != "off":
        raise ConfigurationError(
            f'{path}: users: may be null, which lets jobs be root, only together with "sandbox": "off"'
        )
    if numbers is not None and (
        numbers.first < 1 or numbers.count < 1 or numbers.first + numbers.count > 2**32 - 2
    ):
        raise ConfigurationError(
            f"{path}: users: must be user numbers other than root's, such as 450000 and 50000 more"
        )
    allowed = configuration.containers
    if allowed is not None and not all(image[:1].isalnum() for image in allowed.images):
        raise ConfigurationError(f"{path}: containers.images: must be beginnings of images, such as team/")
    limits = configuration.limits
    for field in ("processes", "files", "disk_bytes", "checkpoint_bytes"):
        limit: int | None = getattr(limits, field)
        if limit is not None and limit < 1:
            raise ConfigurationError(f"{path}: limits.{field}: must be 1 or more")
    for field in ("bytes", "unpacked_bytes", "files", "timeout_seconds", "kept_bytes"):
        if not getattr(configuration.code, field) > 0:
            raise ConfigurationError(f"{path}: code.{field}: must be more than 0")
    if configuration.code.timeout_seconds > FETCH_MOST_SECONDS:
        raise ConfigurationError(
            f"{path}: code.timeout_seconds: must be at most {FETCH_MOST_SECONDS:g}, not"
            f" {configuration.code.timeout_seconds:g}: the server stops an attempt that takes longer to begin"
        )
