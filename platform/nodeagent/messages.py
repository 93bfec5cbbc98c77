"""The messages between a node agent and the control plane. Standard library only; both sides import it.

One exchange carries everything but logs: the agent posts a Report of what *is* and is answered with the
DesiredState of its node. The report renews the node's lease, so a repeated, late or lost exchange is
harmless: there is no command to lose. Log text goes by LogBatch, numbered, and is stored once.

    POST /api/agent/v1/sync   Report   -> DesiredState
    POST /api/agent/v1/logs   LogBatch -> LogAnswer
    POST /api/agent/v1/secrets   SecretsRequest -> SecretsAnswer
    GET  /api/agent/v1/code/ATTEMPT   the archive of an attempt's code, as it is
    GET  /ws/agent            WebSocket; the server sends {"type": "wake"} when there is something new,
                              and {"type": "session", "session": SessionOffer} when a user wants in
    GET  /ws/agent/sessions/ID   WebSocket, opened for that; what goes over it is in `frames.py`
"""

from __future__ import annotations

import functools
import types
from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from nodeagent.code.named import CODE_SECONDS as CODE_SECONDS
from nodeagent.code.named import Code as Code

PROTOCOL = 1
#: The oldest one the server understands. What is added to messages has a default and needs no new number.
OLDEST_PROTOCOL = 1
#: Most progress lines carried by one report, and bytes of text in one log chunk.
PROGRESS_PER_REPORT = 100
LOG_CHUNK_BYTES = 32 * 1024
CHUNKS_PER_BATCH = 16
#: Most readings carried by one report; others that wait follow with the next ones.
READINGS_PER_REPORT = 10
#: The port of each replica to which its input workers come, among the `ports` of a part.
INPUT_PORT = "input-workers"

T = TypeVar("T")


class MessageError(ValueError):
    """A message does not have the agreed form; says which field and what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryGpu:
    """One device as the node sees it. `socket` and `switch` number its place inside the node."""

    index: int
    uuid: str
    memory_bytes: int
    socket: int = 0
    switch: int = 0
    healthy: bool = True
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What the node is; sent with every report of a changed inventory and with an agent's first."""

    gpu_model: str
    gpus: tuple[InventoryGpu, ...]
    cpus: float
    memory_bytes: int
    #: Where the other nodes of a gang reach this one.
    address: str
    agent_version: str
    #: What the runtime really enforces here, e.g. {"cpu": true, "memory": false, "sandbox": true}; of
    #: "required" true, nothing starts without a sandbox or Landlock.
    isolation: dict[str, bool] = field(default_factory=dict)
    #: Bytes a second of the storage that its jobs read from, and bytes of that in its cache; 0: not reported.
    storage_bandwidth: float = 0.0
    cache_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """What one device does now; lossy and unversioned. None is what it cannot say."""

    index: int
    utilisation_percent: float
    memory_used_bytes: int
    power_watts: float | None = None
    temperature_celsius: float | None = None
    sm_clock_mhz: float | None = None
    #: Part of the time in which its memory was read or written, in percent.
    memory_utilisation_percent: float | None = None
    #: Nothing was measured on a device: it is made up from what the processes of its job do.
    simulated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSample:
    """What the machine does, all of it; None is what it cannot say."""

    #: Percent of all CPUs, so at most 100.
    cpu_percent: float | None = None
    memory_used_bytes: int | None = None
    #: On the file system of the agent's work folder.
    disk_used_bytes: int | None = None
    disk_total_bytes: int | None = None
    network_received_bytes_per_second: float | None = None
    network_sent_bytes_per_second: float | None = None
    disk_read_bytes_per_second: float | None = None
    disk_written_bytes_per_second: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSample:
    """What the processes of one replica do; None is what cannot be measured."""

    attempt: int
    rank: int
    #: CPU seconds per second.
    cpus_used: float | None = None
    memory_used_bytes: int | None = None
    processes: int | None = None
    gpu_memory_bytes: int | None = None
    #: What it occupies on each of its devices, by the device's index.
    gpu_memory_by_index: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was measured since the reading before, until `at`: Unix seconds by the node's clock.

    A device's figures are the means of its samples in between. Unlike these, readings are kept for weeks:
    they wait in the agent until the server has them, and it keeps each once, by its time.
    """

    at: float
    gpus: tuple[GpuSample, ...] = ()
    host: HostSample = HostSample()
    replicas: tuple[ReplicaSample, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressLine:
    """One line the job appended to $ALLOT_PROGRESS; `sequence` is its line number in this attempt."""

    sequence: int
    at: float
    step: int
    samples: float | None = None
    values: dict[str, float] = field(default_factory=dict)


#: preparing: making the folder; ready: waits for the gang; then running, stopping (was signalled), exited.
PartState = Literal["preparing", "ready", "running", "stopping", "exited"]
#: Why a part ended, from its exit status and the tail of its log.
Category = Literal[
    "",
    "user_error",
    "out_of_memory",
    "out_of_disk",
    "gpu_memory_exceeded",
    "hardware",
    "network",
    "lost",
    "start_failed",
    "code_refused",
    "code_unavailable",
    "stopped",
]
#: How an attempt is held to its parts of GPUs: by the node, by its own doing (it asks before it runs), or by
#: nothing but where it was placed. "": it has no parts, or nothing is known yet.
Enforcement = Literal["", "enforced", "cooperative", "placement_only"]


def node_enforcement(isolation: Mapping[str, bool]) -> Enforcement:
    """Return how a node holds jobs to their parts of GPUs, by its inventory; empty: not reported."""
    if "gpu_parts" not in isolation:
        return ""
    if isolation["gpu_parts"]:
        return "enforced"
    return "cooperative" if isolation.get("gpu_tokens") else "placement_only"


def weakest_enforcement(found: Collection[str]) -> Enforcement:
    """Return how a whole is held, given how its parts are held: as the weakest of them."""
    levels: tuple[Enforcement, ...] = ("placement_only", "cooperative", "enforced")
    return next((level for level in levels if level in found), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartReport:
    """The state of one attempt on this node."""

    attempt: int
    state: PartState
    #: Chosen by the node that has rank 0, before it is ready.
    master_port: int | None = None
    #: When exited: the exit code of the first replica that failed, else 0; 128 + N when signal N ended it.
    exit_code: int | None = None
    category: Category = ""
    message: str = ""
    #: The end of the output of the replica that failed: the site's own rules look for more than a category.
    last_lines: str = ""
    #: Name of the signal that ended the first replica that failed, such as SIGSEGV; "" when none did.
    signal: str = ""
    #: By the node's clock, Unix seconds.
    started_at: float | None = None
    ended_at: float | None = None
    progress: tuple[ProgressLine, ...] = ()
    enforcement: Enforcement = ""
    #: By rank, the number of `INPUT_PORT`, once the replicas are started.
    input_ports: dict[str, int] = field(default_factory=dict)
    #: It waits in the queue of another scheduler; nothing of it is on the node yet.
    is_queued: bool = False


#: `failed` takes the node, or the one GPU it is about, out of service.
Verdict = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a health check of the node says now; `gpu` is the index of the one device that it is about."""

    name: str
    verdict: Verdict
    message: str = ""
    gpu: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is. `boot` names one life of the agent process; `generation` is of the newest answer it obeys."""

    protocol: int
    boot: str
    generation: int
    parts: tuple[PartReport, ...] = ()
    inventory: Inventory | None = None
    samples: tuple[GpuSample, ...] = ()
    readings: tuple[Reading, ...] = ()
    #: By the node's clock, Unix seconds: so that readings of a clock that is wrong are put right.
    sent_at: float | None = None
    #: The findings of all health checks; None: as the server knows them.
    findings: tuple[Finding, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPart:
    """A part of one GPU: compute that it gets whenever it can use it, and at most, in thousandths of the GPU;
    and memory on the device, 0: not counted.
    """

    request: int
    limit: int
    memory_bytes: int = 0


#: What starts the processes of a replica; "": its command is its process.
Launcher = Literal["", "torchrun", "mpi", "deepspeed", "accelerate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One process of the gang on this node."""

    rank: int
    task: str
    gpu_indexes: tuple[int, ...]
    command: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    cpus: float = 0.0
    memory_bytes: int = 0
    #: The container image it runs in; "" when the command runs on the node itself.
    image: str = ""
    #: The part of its one GPU; None: it has its GPUs whole.
    gpu_part: GpuPart | None = None
    launcher: Launcher = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Number `index` of `count` that take turns of this many seconds by the wall clock (`freezing.py`)."""

    index: int
    count: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredPart:
    """An attempt this node should be running. One that is absent here must be stopped.

    `go` is false until every node of the gang reported ready; then `master_address` and `master_port`
    are set. `stop` asks for SIGTERM, `grace_seconds`, SIGKILL; the end is reported as usual.
    """

    attempt: int
    job: int
    number: int
    name: str
    tenant: str
    gpu_model: str
    replicas: tuple[Replica, ...]
    world_size: int
    go: bool
    stop: bool
    grace_seconds: float
    has_rank_zero: bool
    master_address: str = ""
    master_port: int = 0
    log_bytes: int = 16 * 1024 * 1024
    #: Other attempts use its GPUs at the same time.
    shares_gpus: bool = False
    #: When it may run, where those that share the GPUs run one at a time; None: always.
    turn: Turn | None = None
    #: It is given secrets, which the agent asks for just before it starts.
    has_secrets: bool = False
    #: Names of the ports at which each replica is to listen, and the number where it is given, else 0.
    ports: dict[str, int] = field(default_factory=dict)
    #: What the working folder of each of its replicas begins with; None: it is empty.
    code: Code | None = None
    #: For an input worker that several trainers share: where they wait now, HOST:PORT by commas.
    trainers: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredState:
    """What should be on one node. An older `generation` than one already obeyed is ignored."""

    generation: int
    lease_seconds: float
    report_seconds: float
    parts: tuple[DesiredPart, ...] = ()
    #: The server has no inventory of this boot: send it with the next report.
    want_inventory: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretsRequest:
    """An attempt whose part on this node is about to start."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedSecret:
    """A secret as the job's processes get it: as a variable, or else as a file in $ALLOT_SECRETS_DIR."""

    value: str = field(repr=False)
    env: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretsAnswer:
    """All secrets of an attempt, or why it cannot have them. Kept in memory only, by all who pass it on."""

    secrets: tuple[HandedSecret, ...] = ()
    #: For people: why the attempt does not start.
    problem: str = ""


#: For the attempts that are given none.
NO_SECRETS = SecretsAnswer()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOffer:
    """A request to run a command beside a replica, or to connect to one of its ports. Not kept: the user
    waits for a moment only.
    """

    id: str
    attempt: int
    rank: int
    #: Empty: a shell.
    command: tuple[str, ...] = ()
    #: What the user's terminal calls itself, such as "xterm-256color"; empty: there is none.
    terminal: str = ""
    rows: int = 24
    columns: int = 80
    #: A port's name or number; empty: a command is wanted.
    port: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """Consecutive output of one replica. `sequence` counts from 0 in each (attempt, rank)."""

    sequence: int
    at: float
    text: str
    #: The bytes themselves in base64 where the text does not represent them, as with invalid UTF-8; else "".
    raw: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBatch:
    attempt: int
    rank: int
    chunks: tuple[LogChunk, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAnswer:
    """`next_sequence` is the first one not stored; `full` means the attempt's log limit is reached."""

    next_sequence: int
    full: bool = False


def encode(message: Any) -> dict[str, Any]:
    """Return the message as JSON-ready values.

    Fields that have their default are left out: what an older version does not know yet does not reach it
    before it is used, and an idle node's report is short.
    """
    values = ((spec, getattr(message, spec.name)) for spec in fields(message))
    return {spec.name: _plain(value) for spec, value in values if not _is_default(spec, value)}


def decode(kind: type[T], value: Any, where: str = "", *, is_strict: bool = False) -> T:
    """Build a message from JSON values; raise MessageError for a missing or ill-typed field.

    The other side may be newer: its fields that are not known here are passed over, and so are its words
    for a field that has a default. `is_strict` refuses both: in what people write they are mistakes.
    """
    if not is_dataclass(kind) or not isinstance(value, dict):
        raise MessageError(f"{where or kind.__name__}: must be an object")
    hints = _hints(kind)
    known = {spec.name: spec for spec in fields(kind)}
    if is_strict and (unknown := set(value) - set(known)):
        raise MessageError(f"{where or kind.__name__}: unknown field {sorted(unknown)[0]!r}")
    arguments = {}
    for name, spec in known.items():
        path = f"{where}.{name}" if where else name
        if name in value:
            if not is_strict and _is_new_word(hints[name], value[name], spec):
                continue
            arguments[name] = _convert(hints[name], value[name], path, is_strict)
        elif not _has_default(spec):
            raise MessageError(f"{path}: is missing")
    return kind(**arguments)


#: Reading them takes longer than all the rest of a report.
_hints = functools.cache(get_type_hints)


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return encode(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _has_default(spec: Field[Any]) -> bool:
    return spec.default is not MISSING or spec.default_factory is not MISSING


def _is_default(spec: Field[Any], value: Any) -> bool:
    if spec.default_factory is not MISSING:
        return bool(value == spec.default_factory())
    return spec.default is not MISSING and bool(value == spec.default)


def _is_new_word(hint: Any, value: Any, spec: Field[Any]) -> bool:
    is_word = get_origin(hint) is Literal and isinstance(value, str)
    return is_word and value not in get_args(hint) and _has_default(spec)


def _convert(hint: Any, value: Any, where: str, is_strict: bool) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (hint,) = (choice for choice in arguments if choice is not type(None))
        return _convert(hint, value, where, is_strict)
    if origin is Literal:
        if value not in arguments:
            raise MessageError(f"{where}: must be one of {', '.join(map(repr, arguments))}, not {value!r}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise MessageError(f"{where}: must be a list")
        return tuple(
            _convert(arguments[0], item, f"{where}.{index}", is_strict) for index, item in enumerate(value)
        )
    if origin is dict:
        if not isinstance(value, dict):
            raise MessageError(f"{where}: must be an object")
        return {
            str(key): _convert(arguments[1], item, f"{where}.{key}", is_strict) for key, item in value.items()
        }
    if is_dataclass(hint):
        return decode(hint, value, where, is_strict=is_strict)  # type: ignore[arg-type]
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise MessageError(f"{where}: must be of type {hint.__name__}")
    return value
