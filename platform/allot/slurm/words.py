"""Slurm's words for what Allotment reports of a job: its number, state, reason, times and amounts."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from allot.output import parse_time

if TYPE_CHECKING:
    from allot.schema import Job

COMPACT: Mapping[str, str] = {
    "PENDING": "PD",
    "RUNNING": "R",
    "COMPLETED": "CD",
    "FAILED": "F",
    "CANCELLED": "CA",
    "TIMEOUT": "TO",
    "OUT_OF_MEMORY": "OOM",
    "PREEMPTED": "PR",
    "NODE_FAIL": "NF",
}
#: Our states among which a state of Slurm can be.
OURS: Mapping[str, str] = {
    "PENDING": "queued",
    "RUNNING": "running",
    "COMPLETED": "succeeded",
    "CANCELLED": "cancelled",
    **dict.fromkeys(("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "PREEMPTED", "NODE_FAIL"), "failed"),
}
#: Slurm knows these states, in which nothing is here for long.
_OTHER_STATES = frozenset({"configuring", "cf", "completing", "cg", "suspended", "s", "requeued", "rq"})
#: The most nodes in a range such as `n[1-65536]`, as in Slurm.
LONGEST_RANGE = 65_536
_OUT_OF_MEMORY = ("cpu_out_of_memory", "gpu_out_of_memory", "gpu_memory_exceeded")
#: Codes of reasons (docs/reasons.md) for which Slurm has a word; others keep their code.
_REASONS: Mapping[str, str] = {
    "held": "JobHeldUser",
    "begins_later": "BeginTime",
    "backoff": "BeginTime",
    "dependency": "Dependency",
    "singleton": "Dependency",
    "dependency_never": "DependencyNeverSatisfied",
    "array_limit": "JobArrayTaskLimit",
    "quota": "AssocGrpGRES",
    "quota_resources": "AssocGrpGRES",
    "user_quota": "AssocGrpGRES",
    "budget_spent": "AssocGrpGRESMinutes",
    "user_budget_spent": "AssocGrpGRESMinutes",
    **dict.fromkeys(
        (
            "no_idle_gpus", "guarantee_short", "vc_guarantee_in_use", "fragmented", "topology",
            "no_part_left", "node_resources", "no_round_yet", "stopping", "waiting_for_release",
            "candidate_nodes",
        ),
        "Resources",
    ),
    **dict.fromkeys(
        (
            "first_in_line", "higher_priority_first", "behind_longest_wait", "longest_wait", "later_round",
            "less_service_left_first", "dominant_share", "planned_later", "less_progress_first",
            "behind_target_first", "fewest_first", "tiers", "next_cycle",
        ),
        "Priority",
    ),
    **dict.fromkeys(
        (
            "exceeds_cluster", "exceeds_node", "exceeds_guarantee", "exceeds_quota",
            "exceeds_quota_resources", "exceeds_user_quota",
        ),
        "BadConstraints",
    ),
}  # fmt: skip


def state_of(job: Job) -> str:
    """PENDING, RUNNING, or how it ended."""
    state = job["state"]
    if state in ("queued", "running", "succeeded", "cancelled"):
        return {"queued": "PENDING", "running": "RUNNING", "succeeded": "COMPLETED"}.get(state, "CANCELLED")
    attempt = job["attempt"]
    if attempt is None:
        return "FAILED"
    if attempt["stop_cause"] == "time_limit":
        return "TIMEOUT"
    if attempt.get("failure") in _OUT_OF_MEMORY or attempt["category"] == "out_of_memory":
        return "OUT_OF_MEMORY"
    return {"lost": "NODE_FAIL", "preempted": "PREEMPTED"}.get(attempt["outcome"] or "", "FAILED")


def reason_of(job: Job) -> str:
    """Slurm's name for why a job waits, where one fits, else the reason's own code; `None`: it
    does not wait.
    """
    if job["state"] != "queued":
        return "None"
    if job["held"]:
        return "JobHeldUser"
    code = job["reasons"][0]["code"] if job["reasons"] else ""
    return _REASONS.get(code, code) or "Priority"


def states_named(text: str) -> set[str]:
    """The states of jobs that `pd,RUNNING` means. Raises ValueError for another word."""
    return states_in(text, COMPACT, COMPACT, _OTHER_STATES)


def states_in(text: str, known: Iterable[str], short: Mapping[str, str], others: Collection[str]) -> set[str]:
    """Those of the `known` states that a list means, in any case and by long or `short` names.

    `others`: states of Slurm in which nothing is here. Raises ValueError for a word that is none of these.
    """
    names = {word.lower(): name for name in known for word in (name, short.get(name, name))}
    found: set[str] = set()
    for word in filter(None, (part.strip() for part in text.split(","))):
        if word.lower() == "all":
            found.update(names.values())
        elif word.lower() in names:
            found.add(names[word.lower()])
        elif word.lower() not in others:
            raise ValueError(f"there is no state {word}; {', '.join(known)}")
    return found


def job_id(job: Job) -> str:
    """`12`, or `12_3` for a task of an array."""
    array = job["array"]
    return f"{array['number']}_{array['index']}" if array else str(job["id"])


def exit_code(job: Job) -> str:
    """`3:0`, or `0:9` where a signal ended it."""
    code = job["exit_code"] or 0
    return f"0:{-code}" if code < 0 else f"{code}:0"


def nodes_of(job: Job) -> list[str]:
    attempt = job["attempt"]
    if attempt is None or (job["state"] == "queued" and attempt["state"] == "ended"):
        return []
    return [share["node"] for share in attempt["placement"]]


def node_count(job: Job) -> int:
    return len(nodes_of(job)) or sum(task.get("replicas", 1) for task in tasks_of(job)) or 1


def tasks_of(job: Job) -> list[Mapping[str, Any]]:
    return list(job["spec"].get("tasks", []))


def _shares(job: Job, name: str, default: float) -> list[float]:
    """What each replica asks for of a resource, by rank."""
    found: list[float] = []
    for task in tasks_of(job):
        value = (task.get("resources") or {}).get(name)
        found += [value if isinstance(value, int | float) else default] * task.get("replicas", 1)
    return found


def cpus_of(job: Job) -> int:
    """What it asks for, a CPU for each replica that leaves it open."""
    return max(1, round(sum(_shares(job, "cpu", 1.0))))


def memory_of(job: Job) -> str:
    return mebibytes(sum(_shares(job, "memory", 0.0)))


def mebibytes(memory: float) -> str:
    return f"{round(memory / 2**20)}M" if memory else "0"


def node_memory(job: Job) -> float:
    """The most bytes that it has on a node, or needs there while it waits."""
    shares = dict(enumerate(_shares(job, "memory", 0.0)))
    if not nodes_of(job):
        return max(shares.values(), default=0.0)
    assert job["attempt"] is not None
    return max(sum(shares.get(rank, 0.0) for rank in part["ranks"]) for part in job["attempt"]["placement"])


def node_gpus(job: Job) -> int:
    """The most GPUs that it has on a node, or needs there while it waits."""
    if not nodes_of(job):
        return math.ceil(max(_shares(job, "gpu", 0.0), default=0.0))
    assert job["attempt"] is not None
    return max(len(part["gpus"]) for part in job["attempt"]["placement"])


def tres_of(job: Job) -> str:
    memory = memory_of(job)
    parts = [f"cpu={cpus_of(job)}", *([f"mem={memory}"] if memory != "0" else []), f"node={node_count(job)}"]
    return ",".join([*parts, f"billing={job['gpus']}", f"gres/gpu={job['gpus']}"])


def command_of(job: Job) -> str:
    command = next((task.get("command") for task in tasks_of(job)), None) or []
    # A batch script comes over as text behind `-c`; what follows is its name.
    if len(command) > 3 and "-c" in command:
        command = command[command.index("-c") + 2 :]
    return shlex.join(map(str, command)) if isinstance(command, list) else str(command)


def limit_seconds(job: Job) -> float | None:
    limit = job["spec"].get("time_limit")
    return float(limit) if isinstance(limit, int | float) else None


def run_seconds(job: Job) -> float:
    """How long its newest attempt ran, or runs."""
    attempt = job["attempt"]
    if attempt is None or not attempt["running_at"] or job["state"] == "queued":
        return 0.0
    end = parse_time(attempt["ended_at"]) if attempt["ended_at"] else datetime.now(UTC)
    return max(0.0, (end - parse_time(attempt["running_at"])).total_seconds())


def started_at(job: Job) -> str | None:
    """When its newest attempt began to run; else the job's first start."""
    attempt = job["attempt"]
    if job["state"] == "queued":
        return None
    return (attempt["running_at"] if attempt else None) or job["started_at"]


def span(seconds: float | None, *, padded: bool = False) -> str:
    """`1-02:03:04`, `2:03`; padded as sacct writes it, `00:02:03`."""
    if seconds is None:
        return "UNLIMITED"
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02}:{minute:02}:{second:02}"
    if hour or padded:
        return f"{hour:02}:{minute:02}:{second:02}" if padded else f"{hour}:{minute:02}:{second:02}"
    return f"{minute}:{second:02}"


def moment(text: str | None, missing: str = "Unknown") -> str:
    return parse_time(text).astimezone().strftime("%Y-%m-%dT%H:%M:%S") if text else missing


def hostlist(names: Iterable[str]) -> str:
    """`n[1-3,7],login`, as Slurm shortens names."""
    groups: dict[tuple[str, int], list[int]] = {}
    plain: list[str] = []
    for name in sorted(set(names)):
        match = re.fullmatch(r"(.*?)(\d+)", name)
        if match is None or len(match[2]) > 9:
            plain.append(name)
        else:
            padded = len(match[2]) if match[2].startswith("0") else 0
            groups.setdefault((match[1], padded), []).append(int(match[2]))
    found = [_group(prefix, width, sorted(numbers)) for (prefix, width), numbers in groups.items()]
    return ",".join([*found, *plain])


def _group(prefix: str, width: int, numbers: list[int]) -> str:
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    parts = [f"{a:0{width}}" if a == b else f"{a:0{width}}-{b:0{width}}" for a, b in ranges]
    return f"{prefix}{parts[0]}" if len(numbers) == 1 else f"{prefix}[{','.join(parts)}]"


def hostnames(text: str) -> list[str]:
    """The names in `n[1-3,07],rack[1-2]-n[1-8]`. Raises ValueError for a text that is no such list."""
    # Commas within brackets separate numbers.
    parts = filter(None, re.split(r",(?![^\[]*\])", text))
    return [name for part in parts for name in _expanded(part)]


def _expanded(text: str) -> list[str]:
    match = re.fullmatch(r"([^\[\]]*)(?:\[([^\[\]]*)\](.*))?", text)
    if match is None:
        raise ValueError(f"{text!r} is not a list of nodes; expected one such as n[1-3,7]")
    before, ranges, after = match.groups()
    if ranges is None:
        return [text]
    ends = _expanded(after)
    return [f"{before}{number}{end}" for number in _numbers(ranges) for end in ends]


def _numbers(ranges: str) -> list[str]:
    """The numbers in `1-3,07`, as wide as they are written."""
    found = []
    for part in ranges.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if match is None or not 0 <= last - first < LONGEST_RANGE:
            raise ValueError(f"[{ranges}] is not a list of numbers; expected one such as [1-3,7]")
        found += [f"{number:0{len(match[1])}}" for number in range(first, last + 1)]
    return found
