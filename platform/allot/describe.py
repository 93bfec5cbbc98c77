"""A job, an attempt or a reason in a few words."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from allot.errors import FieldProblem
from allot.output import duration, plural, since

if TYPE_CHECKING:
    from allot.schema import (
        Attempt,
        AttemptTurn,
        ClusterSettings,
        Job,
        JobPreemptions,
        JobRunTime,
        Lot,
        Reason,
        VirtualCluster,
    )


#: Jobs in these states never change again.
ENDED: frozenset[str] = frozenset({"succeeded", "failed", "cancelled"})


def state_word(job: Job) -> str:
    """The one word of the STATE column: the state, or the phase where that says more."""
    if job["state"] in ENDED:
        return job["state"].upper()
    if job["phase"] == "waiting":
        return "QUEUED"
    return job["phase"].upper()


def models(names: list[str]) -> str:
    """The accepted GPU models in order of preference."""
    return ",".join(names) or "any"


def gpus_wanted(job: Job) -> str:
    """`2 GPUs of V100 or P100`."""
    return f"{plural(job['gpus'], 'GPU')} of {' or '.join(job['gpu_models']) or 'any model'}"


def gpus_of(job: Job) -> str:
    """The GPUs that it asks for; of an elastic job that runs those that it has, and its range: `3 (1-4)`."""
    elastic, attempt = job["spec"].get("elastic"), job["attempt"]
    has = sum([len(share["gpus"]) for share in attempt["placement"]]) if attempt else 0
    if not elastic or job["state"] != "running" or not has:
        return str(job["gpus"])
    return f"{has} ({elastic.get('min_gpus') or job['gpus']}-{elastic.get('max_gpus') or job['gpus']})"


def model_of(job: Job) -> str:
    """The model it runs or ran on, else those it would accept."""
    attempt = job["attempt"]
    if attempt and job["state"] != "queued" and attempt["gpu_model"]:
        return attempt["gpu_model"]
    return models(job["gpu_models"])


def nodes_of(attempt: Attempt) -> str:
    """`v100-1 x4, v100-2 x4`."""
    return ", ".join(f"{share['node']} ×{len(share['gpus'])}" for share in attempt["placement"])


def run_time(job: Job) -> str:
    if not job["started_at"] or job["state"] == "queued":
        return "-"
    return since(job["started_at"], until=job["ended_at"])


def latest_attempt(job: Job) -> int:
    """The number of the newest attempt, 0 when there is none yet. Not the same as `attempts`, which counts
    those that were started."""
    return job["attempt"]["number"] if job["attempt"] else 0


def change_line(job: Job) -> str:
    """One line for a job that has just changed."""
    words = detail(job)
    return f"Job {job['id']} {job['name']} {state_word(job)}{': ' + words if words else ''}"


def exit_words(exit_code: int | None) -> str:
    """`exit code 3`, or the signal that ended the process."""
    if exit_code is None:
        return ""
    if exit_code < 0:
        import signal

        try:
            return f"killed by {signal.Signals(-exit_code).name}"
        except ValueError:
            return f"killed by signal {-exit_code}"
    return f"exit code {exit_code}"


def detail(job: Job) -> str:
    """The last column of the list: why it waits, where it runs, or how it ended."""
    attempt = job["attempt"]
    if job["state"] in ENDED:
        return job["message"] or (exit_words(job["exit_code"]) if job["state"] == "failed" else "")
    if job["cancelling"]:
        return "is being cancelled"
    if attempt and attempt["state"] != "ended":
        return f"{'to start ' if attempt['state'] == 'planned' else ''}on {nodes_of(attempt)}"
    if job["held"]:
        return "held until it is released"
    place = f"#{job['position']} in the queue" if job["position"] else ""
    reason = job["reasons"][0]["message"] if job["reasons"] else ""
    return ": ".join(part for part in (place, reason) if part)


def secret_line(use: Mapping[str, Any]) -> str:
    """`hf-token (the tenant's) as $HF_TOKEN`: which secret a job is given, not what it is."""
    whose = "the submitter's own" if use["scope"] == "user" else "the tenant's"
    target = f"${use['env']}" if use["env"] else f"the file {use['file']}"
    return f"{use['name']} ({whose}) as {target}"


def reason_lines(reason: Reason) -> list[str]:
    """The message, then what is short of what, then what can be done."""
    lines = [reason["message"]]
    amounts = _amounts(reason.get("needed"), reason.get("available"))
    if amounts:
        lines.append(amounts)
    if reason.get("hint"):
        lines.append(reason["hint"])
    return lines


def _amounts(needed: object, available: object) -> str:
    parts = []
    if needed not in (None, {}, ""):
        parts.append(f"needs {_value(needed)}")
    if available not in (None, {}, ""):
        parts.append(f"available {_value(available)}")
    return ", ".join(parts)


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return str(value)


def guarantee_words(job: Job) -> str:
    """`guaranteed`, unless the guarantee does not hold now."""
    lapsed = " (lapsed: its cells are no more, guaranteed jobs may take its GPUs)"
    return job["guarantee"] + (lapsed if job["guarantee_lapsed"] else "")


def attempt_detail(attempt: Attempt) -> str:
    """What was said about an attempt, or its exit code; then how much work was lost with it."""
    said = attempt["message"] or (exit_words(attempt["exit_code"]) if attempt["exit_code"] else "")
    if (rule := attempt["matched_rule"]) and rule["advice"]:
        said = f"{said.rstrip('.')}. Advice: {rule['advice']}"
    lost = attempt["lost_seconds"]
    return f"{said} {duration(lost)} of work lost.".strip() if lost and lost >= 1 else said


def least_words(vc: VirtualCluster) -> str:
    """Say after how long attempts may be displaced."""
    least, reclaim = vc["min_run_seconds"], vc["reclaim_min_run_seconds"]
    policies = (
        f"policies leave attempts alone for {duration(least)}" if least else "policies displace any attempt"
    )
    return f"{policies}; guarantees return {f'after {duration(reclaim)}' if reclaim else 'at once'}"


def settings_lines(settings: ClusterSettings) -> list[tuple[str, str]]:
    """Say how far policies may go in the whole cluster."""
    most = settings["preemptions_per_round"]
    first, longest = settings["backoff_seconds"], settings["most_backoff_seconds"]
    return [
        ("Displaced", "any number of jobs a round" if most is None else f"at most {most} a round"),
        ("Back-off", f"{duration(first)}, doubled each time up to {duration(longest)}"),
    ]


def preemption_words(preemptions: JobPreemptions) -> str:
    """Say how often a job was preempted while it ran, and what that cost."""
    lost, overhead = duration(preemptions["lost_seconds"]), duration(preemptions["overhead_seconds"])
    times = plural(preemptions["times"], "time")
    return f"{times}; {lost} of work done again, {overhead} to stop and start"


def run_time_words(run_time: JobRunTime) -> str:
    """Say how long the job runs by its own steps, and what was declared where that is something else."""
    declared, measured = run_time["declared_seconds"], run_time["measured_seconds"]
    if measured is None:
        return ""
    before = f"declared {duration(declared)}, " if declared and run_time["differs"] else ""
    where = f" on {run_time['gpu_model']}" if run_time["gpu_model"] else ""
    after = ", longer than its time limit" if run_time["outlasts_limit"] else ""
    return f"{before}by its steps {duration(measured)}{where}{after}"


def turn_words(turn: AttemptTurn) -> str:
    """Say that an attempt shares its GPUs in turns."""
    return (
        f"of {duration(turn['seconds'])}, {turn['index'] + 1} of {turn['count']}; frozen in those of others"
    )


def attempt_words(attempt: Attempt) -> str:
    """The state of an attempt, or how it ended."""
    word = str(attempt["outcome"] or attempt["state"]).upper()
    return f"{word} (trial)" if attempt["is_trial"] else word


def task_line(task: Mapping[str, Any]) -> str:
    """`worker ×2, 4 GPUs each: python train.py`."""
    resources = task.get("resources") or {}
    gpus = resources.get("gpu", 1)
    command = task.get("command") or []
    text = shlex.join(map(str, command)) if isinstance(command, list) else str(command)
    replicas = task.get("replicas", 1)
    each = " each" if replicas > 1 else ""
    return f"{task.get('name', 'main')} ×{replicas}, {gpus:g} GPU{'' if gpus == 1 else 's'}{each}: {text}"


def problem_lines(prefix: str, message: str, fields: Sequence[FieldProblem]) -> list[str]:
    """The message, then a line for each field: `  tasks.0.cpu: is negative. Expected: 0 or more.`

    Nothing is said twice: a message that only repeats the fields becomes their number, and a problem that
    the message has told already is left out.
    """
    if fields and all(problem.field in message for problem in fields):
        message = f"{plural(len(fields), 'mistake')}:"
    lines = [prefix + message]
    for problem in fields:
        told = problem.problem in message
        parts = [
            "" if told else f"{problem.problem.rstrip('.')}.",
            f"Expected: {problem.expected.rstrip('.')}." if problem.expected else "",
        ]
        lines.append(f"  {problem.field}: {' '.join(part for part in parts if part)}".rstrip(" :"))
    return lines


def limit_words(seconds: float | None) -> str:
    return "none" if seconds is None else duration(seconds)


def lot_words(lot: Lot | None) -> str:
    """`2 P100, 1 V100-NODE`; `-` for nothing."""
    counts = [*lot["gpus"].items(), *lot["cells"].items()] if lot else []
    return ", ".join(f"{count} {name}" for name, count in counts) or "-"
