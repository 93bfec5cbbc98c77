"""Classes of failures, by what a node reported about an attempt's end.

The classes are those of M. Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training
Workloads" (Philly), USENIX ATC 2019, table 7, who found them with more than 230 rules over logs. Here the
node has already chosen the decisive line of the log and a category (`nodeagent/process/outcome.py`); the few
rules below read that line. A site's own rules come before them (`site_rules`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Layer(StrEnum):
    """The layer that causes a failure and can fix it."""

    #: The job as it was submitted: the next attempt fails again.
    USER = "user"
    #: Libraries and drivers below it: the next attempt may fail again.
    ENGINE = "engine"
    #: Machines, networks, disks.
    PLATFORM = "platform"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FailureClass:
    """A kind of failure."""

    name: str
    layer: Layer
    #: A few words for people.
    words: str
    #: Whether the device itself is to blame, so that the job avoids the node.
    is_hardware: bool = False

    @property
    def advice(self) -> str:
        """What the job's owner can do about it; empty for a class that the site defined."""
        return _ADVICE.get(self.name, "")


@dataclass(frozen=True, slots=True)
class Rule:
    """A failure is of the class when the node's category and line match. An empty category matches any."""

    failure: FailureClass
    category: str = ""
    pattern: re.Pattern[str] | None = None

    def matches(self, category: str, message: str) -> bool:
        if self.category and category != self.category:
            return False
        return self.pattern is None or self.pattern.search(message) is not None


def _rule(
    name: str, layer: Layer, words: str, category: str = "", *patterns: str, hardware: bool = False
) -> Rule:
    pattern = re.compile("|".join(patterns), re.IGNORECASE) if patterns else None
    return Rule(FailureClass(name, layer, words, hardware), category, pattern)


NO_SIGNATURE = FailureClass("no_signature", Layer.UNKNOWN, "unclassified failure")
#: Not found in a log, because the platform stopped the attempt.
STUCK = FailureClass("stuck", Layer.ENGINE, "it reported no progress")
IDLE_GPUS = FailureClass("idle_gpus", Layer.ENGINE, "its GPUs did nothing")

_USER, _ENGINE, _PLATFORM = Layer.USER, Layer.ENGINE, Layer.PLATFORM

#: The first rule that matches counts.
RULES: tuple[Rule, ...] = (
    _rule("node_lost", _PLATFORM, "the node was lost", "lost"),
    _rule("start_failed", _USER, "the command could not be started", "start_failed"),
    _rule("code_refused", _USER, "its code could not be unpacked", "code_refused"),
    _rule("code_unavailable", _PLATFORM, "its code could not be fetched", "code_unavailable"),
    _rule("gpu_ecc_error", _PLATFORM, "the GPU's memory is faulty", "hardware", r"ECC", hardware=True),
    _rule(
        "cuda_version_mismatch", _ENGINE, "driver and library do not fit together", "hardware",
        r"version mismatch", hardware=True,
    ),
    _rule("gpu_failure", _PLATFORM, "the GPU or its driver failed", "hardware", hardware=True),
    _rule(
        "gpu_out_of_memory", _USER, "it needs more GPU memory", "out_of_memory",
        r"CUDA", r"CUBLAS", r"CUDNN", r"RESOURCE_EXHAUSTED", r"torch\.OutOfMemoryError",
    ),
    _rule("cpu_out_of_memory", _USER, "it needs more memory", "out_of_memory"),
    _rule(
        "gpu_memory_exceeded", _USER, "it used more memory than its part of the GPU has",
        "gpu_memory_exceeded",
    ),
    _rule("disk_limit", _USER, "it wrote more to the node's disk than it may", "out_of_disk"),
    _rule(
        "collective_error", _PLATFORM, "the processes of the gang lost each other", "network",
        r"NCCL", r"Gloo", r"c10d|TCPStore|Dist\w*Error|Rendezvous", r"Watchdog",
    ),
    _rule("connection_error", _PLATFORM, "a connection broke", "network"),
    _rule("disk_full", _PLATFORM, "a disk is full", "", r"No space left on device", r"Disk quota exceeded"),
    _rule(
        "model_checkpoint_error", _PLATFORM, "a checkpoint could not be read or written", "",
        r"PytorchStreamReader", r"Error\(s\) in loading state_dict", r"Stale file handle",
        r"Input/output error", r"Read-only file system", r"checkpoint.*(corrupt|damaged|truncated)",
    ),
    _rule(
        "cuda_init_failed", _ENGINE, "CUDA could not be started", "",
        r"no CUDA-capable device", r"CUDA_ERROR_NO_DEVICE", r"cuda.*initiali[sz]ation (error|failed)",
    ),
    _rule(
        "invalid_memory_access", _ENGINE, "it touched memory that is not its own", "",
        r"illegal memory access", r"device-side assert", r"SIGSEGV", r"SIGBUS",
    ),
    _rule("cuda_failure", _ENGINE, "a CUDA library failed", "", r"CUDA error|CUBLAS_STATUS|CUDNN_STATUS"),
    _rule("core_dump", _ENGINE, "it crashed", "", r"SIGABRT", r"core dumped"),
    _rule("mpi_error", _PLATFORM, "MPI failed", "", r"\bMPI_\w+", r"\bmpirun\b", r"\borted?\b"),
    _rule("syntax_error", _USER, "it has a syntax error", "", r"SyntaxError|IndentationError|TabError"),
    _rule(
        "import_error", _USER, "a module is missing", "",
        r"ImportError|ModuleNotFoundError|No module named", r"cannot open shared object file",
    ),
    _rule("permission_error", _USER, "it may not do that", "", r"PermissionError", r"permission denied"),
    _rule(
        "model_diverged", _USER, "the model diverged", "",
        r"\b(loss|gradient)\w*\b.*\b(nan|inf)\b", r"diverged",
    ),
    _rule(
        "incorrect_inputs", _USER, "an input is missing or not what it should be", "",
        r"error: (argument|unrecognized arguments|the following arguments)",
        r"FileNotFoundError|IsADirectoryError|NotADirectoryError|EOFError", r"No such file or directory",
        r"Unicode\w*Error|JSONDecodeError|ParserError",
    ),
    _rule("timeout", _PLATFORM, "something took too long", "", r"TimeoutError", r"timed out"),
    _rule(
        "semantic_error", _USER, "the program has an error", "",
        r"\b(Type|Value|Key|Index|Attribute|Name|UnboundLocal|Assertion|ZeroDivision|NotImplemented|Runtime)Error",
    ),
    _rule(
        "traceback_from_crash", _ENGINE, "it ended with an exception", "",
        r"^(Rank \d+: )?([a-z_]\w*\.)*\w*(Error|Exception)\b",
    ),
)  # fmt: skip


#: By name.
CLASSES: Mapping[str, FailureClass] = {
    failure.name: failure for failure in (*[rule.failure for rule in RULES], NO_SIGNATURE, STUCK, IDLE_GPUS)
}
#: The names that an owner may use in a job's rules.
KNOWN_FAILURES: tuple[str, ...] = (*sorted(CLASSES), *[layer.value for layer in Layer])


_ASK_AN_OPERATOR = "If it happens again on the same node, tell an operator."
_ADVICE: Mapping[str, str] = {
    "no_signature": "Read the end of the log. To recognise such failures, an operator can add a rule.",
    "stuck": "Check for a deadlock or a blocked data loader. If steps take long, raise watch.silent.",
    "idle_gpus": "Check that the program uses its GPUs, or ask for fewer. watch.idle_gpus sets the limit.",
    "node_lost": "Nothing: the job is tried again. Save checkpoints to lose less work.",
    "start_failed": "Check what the cause names: the command and its interpreter on the node or in the "
    + "image, or a secret.",
    "code_refused": "Pack plain files without links that lead out, and fewer or smaller ones (docs/code.md).",
    "code_unavailable": "Check that the node can reach the git address and that it serves the commit. "
    + _ASK_AN_OPERATOR,
    "gpu_ecc_error": "Nothing: the job is tried again on another node. Tell an operator which node it was.",
    "cuda_version_mismatch": "Use a CUDA version that the node's driver supports, or name another GPU model.",
    "gpu_failure": "Nothing: the job is tried again on another node. Tell an operator which node it was.",
    "gpu_out_of_memory": "Reduce the batch size, shard the model, or ask for a GPU model with more memory.",
    "cpu_out_of_memory": "Raise the task's memory, or use fewer data loader workers.",
    "gpu_memory_exceeded": "Raise gpu_memory or the part of the GPU, or make the program use less.",
    "disk_limit": "Write less to the working directory, or ask an operator to raise limits.disk_bytes.",
    "collective_error": "Look for the rank that failed first: the others only lost it. " + _ASK_AN_OPERATOR,
    "connection_error": "Check that the address can be reached from the node. " + _ASK_AN_OPERATOR,
    "disk_full": "Remove old checkpoints and data, or write elsewhere. " + _ASK_AN_OPERATOR,
    "model_checkpoint_error": "Check that the checkpoint is complete, or start from an earlier one.",
    "cuda_init_failed": "Check that the task asks for a GPU and that CUDA fits the driver. "
    + _ASK_AN_OPERATOR,
    "invalid_memory_access": "Run it with CUDA_LAUNCH_BLOCKING=1 to find the call that failed.",
    "cuda_failure": "Run it with CUDA_LAUNCH_BLOCKING=1 to find the call that failed.",
    "core_dump": "Run it with PYTHONFAULTHANDLER=1 to see where it crashed.",
    "mpi_error": "Look for the rank that failed first: the others only lost it. " + _ASK_AN_OPERATOR,
    "syntax_error": "Correct the line that the log names, and submit the job again.",
    "import_error": "Install the module for the interpreter that the command uses, or use another image.",
    "permission_error": "Check who may read and write the path that the log names.",
    "model_diverged": "Lower the learning rate, or start from an earlier checkpoint.",
    "incorrect_inputs": "Check the path and the arguments that the log names.",
    "timeout": "Find out what did not answer in time. " + _ASK_AN_OPERATOR,
    "semantic_error": "Correct the line that the log names, and submit the job again.",
    "traceback_from_crash": "Correct the line that the log names, and submit the job again.",
}


def class_of(category: str, message: str) -> FailureClass:
    """Return the class of a failure from the node's category and decisive line."""
    return next((rule.failure for rule in RULES if rule.matches(category, message)), NO_SIGNATURE)


def signature_of(failure: FailureClass, message: str) -> str:
    """Return a text that is equal for similar failures: it ignores numbers, addresses and ranks."""
    text = re.sub(r"^Rank \d+: ", "", message)
    return f"{failure.name}: {re.sub(r'0x[0-9a-fA-F]+|[0-9]+', '#', text)}"
