"""A job, an attempt or a reason in a few words."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from allot.batch_shell import own_script
from allot.errors import FieldProblem
from allot.output import duration, local_time, parse_time, plural, since, size

if TYPE_CHECKING:
    from allot.schema import (
        Attempt,
        AttemptTurn,
        AuxiliaryShare,
        ClusterSettings,
        Dependency,
        Job,
        JobDependencies,
        JobInputWorkers,
        JobMaintenance,
        JobPreemptions,
        JobRunTime,
        Lot,
        Node,
        NodeMaintenance,
        Reason,
        VirtualCluster,
    )


#: The most jobs waiting for one that are named.
MOST_DEPENDENTS = 10
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


def gpu_amount(gpus: int, tasks: Iterable[Mapping[str, Any]]) -> str:
    """`2`; where replicas have parts, which are of a GPU each, `0.3`, `4×0.25`, `2 + 4×0.25`."""
    parts: dict[float, int] = {}
    for task in tasks:
        part = (task.get("resources") or {}).get("gpu", 1)
        if 0 < part < 1:
            parts[part] = parts.get(part, 0) + task.get("replicas", 1)
    whole = gpus - sum(parts.values())
    terms = [f"{part:g}" if count == 1 else f"{count}×{part:g}" for part, count in parts.items()]
    return " + ".join(([str(whole)] if whole or not terms else []) + terms)


def asked_words(gpus: int, tasks: Iterable[Mapping[str, Any]]) -> str:
    """`2 GPUs`, `0.3 of one GPU`, `4×0.25 GPU`; a job without GPUs reads `4 CPUs, 8 GiB`."""
    tasks = list(tasks)
    amount = gpu_amount(gpus, tasks)
    if amount == str(gpus):
        return plural(gpus, "GPU") if gpus else _processors_wanted(tasks)
    return f"{amount} of one GPU" if gpus == 1 else f"{amount} GPU"


def gpus_wanted(job: Job) -> str:
    """`2 GPUs of V100 or P100`."""
    wanted = asked_words(job["gpus"], job["spec"].get("tasks", []))
    return f"{wanted} of {' or '.join(job['gpu_models']) or 'any model'}" if job["gpus"] else wanted


def gpus_of(job: Job) -> str:
    """The GPUs that it asks for; for a running elastic job those that it has, and its range: `3 (1-4)`."""
    elastic, attempt = job["spec"].get("elastic"), job["attempt"]
    has = sum([len(share["gpus"]) for share in attempt["placement"]]) if attempt else 0
    if not elastic or job["state"] != "running" or not has:
        return gpu_amount(job["gpus"], job["spec"].get("tasks", []))
    return f"{has} ({elastic.get('min_gpus') or job['gpus']}-{elastic.get('max_gpus') or job['gpus']})"


def model_of(job: Job) -> str:
    """The model it runs or ran on, else those it would accept."""
    attempt = job["attempt"]
    if not job["gpus"]:
        return "-"
    if attempt and job["state"] != "queued" and attempt["gpu_model"]:
        return attempt["gpu_model"]
    return models(job["gpu_models"])


def nodes_of(attempt: Attempt) -> str:
    """`v100-1 ×4, v100-2 ×4`; of parts, `v100-1 ×0.3`; without GPUs `cpu-1`."""
    return ", ".join(
        f"{share['node']} ×{sum(gpu.get('part', 1) for gpu in share['gpus']):g}"
        if share["gpus"]
        else share["node"]
        for share in attempt["placement"]
    )


def run_time(job: Job) -> str:
    """How long its newest attempt ran, or has run, without waits between attempts."""
    attempt = job["attempt"]
    if not attempt or not attempt["running_at"] or job["state"] == "queued":
        return "-"
    return since(attempt["running_at"], until=attempt["ended_at"])


def after_first_start(job: Job) -> str:
    """How long it took from its first start, waits between attempts included."""
    return since(job["started_at"], until=job["ended_at"])


def latest_attempt(job: Job) -> int:
    """The number of the newest attempt, 0 when there is none yet. Not the same as `attempts`, which counts
    those that were started."""
    return job["attempt"]["number"] if job["attempt"] else 0


def change_line(job: Job) -> str:
    """One line for a job that has just changed."""
    words = detail(job)
    return f"Job {job['id']} {job['name']} {state_word(job)}{': ' + words if words else ''}"


def exit_words(exit_code: int | None, signal: str = "") -> str:
    """`exit code 3`, or the signal that ended the process."""
    if signal:
        return f"ended by {signal}"
    return "" if exit_code is None else f"exit code {exit_code}"


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


def closing_words(window: NodeMaintenance | JobMaintenance) -> str:
    return f"closes on {local_time(window['starts_at'])} for maintenance: {window['reason']}"


def maintenance_words(window: JobMaintenance) -> str:
    return f"its node {window['node']} {closing_words(window)}"


def in_maintenance(node: Node) -> bool:
    """Whether a window closes the node now."""
    window = node["maintenance"]
    return window is not None and parse_time(window["starts_at"]) <= datetime.now(UTC)


_WISHES = {"succeeded": "to succeed", "ended": "to end", "failed": "to fail", "started": "to start"}


def dependency_line(one: Dependency) -> str:
    """`job 17 prepare to succeed: it is running`."""
    what = f"job {one['job']} {one['name']} {_WISHES[one['when']]}"
    if one["state"] == "awaited":
        return f"{what}: it is {one['job_state']}"
    return f"{what}: {'done' if one['state'] == 'met' else 'it never will'}"


def dependent_words(dependencies: JobDependencies) -> str:
    """`jobs 18, 19 and 5 more`."""
    ids, count = [str(one["job"]) for one in dependencies["awaited_by"]], dependencies["awaited_by_count"]
    if count > MOST_DEPENDENTS:
        return f"jobs {', '.join(ids[:MOST_DEPENDENTS])} and {count - MOST_DEPENDENTS:,} more"
    return f"{'job' if count == 1 else 'jobs'} {', '.join(ids)}" if ids else ""


def input_worker_words(told: JobInputWorkers) -> str:
    """`2 run, 3 desired; its trainer waits for batches 12% of the time`, then which jobs they are."""
    lines = [f"{told['running']} run, {told['desired']} desired"]
    if told["stall"] is not None:
        lines[0] += f"; its trainer waits for batches {told['stall']:.0%} of the time"
    if told["skipped"] is not None:
        lines[0] += f"; it skipped {told['skipped']:,} of the stream's batches"
    if told["workers"]:
        numbers = [str(worker["job"]) for worker in told["workers"]]
        lines.append(f"{'job' if len(numbers) == 1 else 'jobs'} {', '.join(numbers)}")
    return "\n".join([*lines, *filter(None, [told["problem"]])])


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
    lapsed = " (lapsed: its cells no longer exist, and guaranteed jobs may take its GPUs)"
    return job["guarantee"] + (lapsed if job["guarantee_lapsed"] else "")


def attempt_detail(attempt: Attempt) -> str:
    """What was said about an attempt, or its exit code; then how much work was lost with it."""
    exit_code, signal = attempt["exit_code"], attempt["signal"]
    said = attempt["message"] or (exit_words(exit_code, signal) if exit_code else "")
    if signal and signal not in said:
        said = f"{said} ({signal})"
    if (rule := attempt["matched_rule"]) and rule["advice"]:
        said = f"{said.rstrip('.')}. Advice: {rule['advice']}"
    lost = attempt["lost_seconds"]
    return f"{said} {duration(lost)} of work lost.".strip() if lost and lost >= 1 else said


def limits_words(vc: VirtualCluster) -> str:
    """Return the limits on preemption and on waiting of a virtual cluster."""
    longest = vc["longest_wait_seconds"]
    waits = f"longest wait {duration(longest)}" if longest else "no longest wait"
    least, reclaim = vc["min_run_seconds"], vc["reclaim_min_run_seconds"]
    policies = (
        f"minimum run time before preemption {duration(least)}"
        if least
        else "no minimum run time before preemption"
    )
    before = f"minimum run time before a reclaim {duration(reclaim)}" if reclaim else "reclaim at once"
    return f"{policies}; {before}; {waits}"


def overcommit_words(vc: VirtualCluster) -> str:
    """Return whether unused CPUs and memory are lent, and how often more was used than was predicted."""
    if vc["overcommit"] == "never":
        return "what its jobs do not use is not lent"
    lends = "opportunistic jobs get CPUs and memory beyond the predicted peak"
    seen = vc["overcommit_violations"]
    rate = (
        f"exceeded in {seen['rate']:.2%} of {plural(seen['samples'], 'sample')}"
        if seen
        else "nothing measured"
    )
    return f"{lends}, margin {vc['overcommit_margin']:.0%}; {rate} in the last 7 days"


def settings_lines(settings: ClusterSettings) -> list[tuple[str, str]]:
    """Return the limits on preemption in the whole cluster."""
    most = settings["preemptions_per_round"]
    first, longest = settings["backoff_seconds"], settings["most_backoff_seconds"]
    return [
        ("Preemptions per round", "unlimited" if most is None else f"at most {most}"),
        ("Back-off", f"{duration(first)}, doubled each time up to {duration(longest)}"),
    ]


def preemption_words(preemptions: JobPreemptions) -> str:
    """Return how often a job was preempted while it ran, and what that cost."""
    lost, overhead = duration(preemptions["lost_seconds"]), duration(preemptions["overhead_seconds"])
    times = plural(preemptions["times"], "time")
    return f"{times}; {lost} of work lost, {overhead} to stop and start"


def run_time_words(run_time: JobRunTime) -> str:
    """Return how long the job runs by its own steps, and what was declared where that differs."""
    declared, measured = run_time["declared_seconds"], run_time["measured_seconds"]
    if measured is None:
        return ""
    before = f"declared {duration(declared)}, " if declared and run_time["differs"] else ""
    where = f" on {run_time['gpu_model']}" if run_time["gpu_model"] else ""
    after = ", longer than its time limit" if run_time["outlasts_limit"] else ""
    return f"{before}by its steps {duration(measured)}{where}{after}"


def usual_words(run_time: JobRunTime) -> str:
    """Return how long jobs like it ran, and how far off such estimates were."""
    usual, error = run_time.get("usual_seconds"), run_time.get("usual_error")
    if usual is None:
        return ""
    alike = {
        "size": "of the same application and size",
        "application": "of the same application",
    }.get(run_time["usual_by"], "of its user")
    off = "" if error is None else f", off by {error:.0%}"
    return f"{duration(usual)}, {plural(run_time['usual_jobs'], 'job')} {alike}{off}"


def turn_words(turn: AttemptTurn) -> str:
    """Return that an attempt shares its GPUs in turns."""
    return (
        f"of {duration(turn['seconds'])}, {turn['index'] + 1} of {turn['count']}; frozen in those of others"
    )


def part_words(enforcement: str) -> str:
    """Return how a node holds jobs to their parts of its GPUs; "" where it has not reported that."""
    return {
        "enforced": "enforced",
        "cooperative": "cooperative: jobs that ask for their time on the GPU are held",
        "placement_only": "placement only: nothing holds jobs to them",
    }.get(enforcement, "")


def enforcement_words(enforcement: str) -> str:
    """Return how an attempt is held to its part of a GPU; "" where that is not known."""
    return {
        "enforced": "enforced: the node holds it to its part",
        "cooperative": "cooperative: it requests its GPU time itself",
        "placement_only": "placement only: nothing holds it to its part but where it was placed",
    }.get(enforcement, "")


def auxiliary_lines(share: AuxiliaryShare) -> list[str]:
    """Return which CPUs and memory it has where it leaves these to the platform, ranks alike in one line."""
    lines: dict[str, list[int]] = {}
    for each in share["replicas"]:
        has = []
        if each["cpus"]:
            has.append(f"{each['cpus']:g} CPUs{_beside(each['cpus'], each['proportional_cpus'])}")
        if each["memory_bytes"]:
            memory, fair = each["memory_bytes"] / 2**30, each["proportional_memory_bytes"] / 2**30
            has.append(f"{memory:.4g} GiB{_beside(memory, fair)}")
        lines.setdefault(", ".join(has) or "as much as there is", []).append(each["rank"])
    said = [
        f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))}: {text}"
        for text, ranks in lines.items()
    ]
    return [*said, share["message"]] if share["message"] else said


def _beside(has: float, fair: float) -> str:
    """` (3 by its GPUs, 6 more)`; empty where it has just its part."""
    if round(has, 3) == round(fair, 3):
        return ""
    return f" ({fair:.4g} by its GPUs, {abs(has - fair):.4g} {'more' if has > fair else 'less'})"


#: What happened to an attempt whose job went on at once, by the cause.
_ON_THE_WAY = {"resized": "RESIZED", "migrated": "MOVED"}


def attempt_words(attempt: Attempt) -> str:
    """The state of an attempt, or how it ended."""
    word = _ON_THE_WAY.get(attempt["stop_cause"]) if attempt["outcome"] == "preempted" else None
    word = word or str(attempt["outcome"] or attempt["state"]).upper()
    return f"{word} (trial)" if attempt["is_trial"] else word


def task_line(task: Mapping[str, Any]) -> str:
    """`worker ×2, 4 GPUs, 8 CPUs, 16 GiB each: python train.py`."""
    resources = task.get("resources") or {}
    gpus = resources.get("gpu", 1)
    command = task.get("command") or []
    text = (
        shlex.join([own_script(str(word)) for word in command]) if isinstance(command, list) else str(command)
    )
    replicas = task.get("replicas", 1)
    each = " each" if replicas > 1 else ""
    has = [f"{gpus:g} GPU{'' if 0 < gpus <= 1 else 's'}", *_cpus_and_memory(resources)]
    return f"{task.get('name') or 'main'} ×{replicas}, {', '.join(has)}{each}: {text}"


def data_words(data: Mapping[str, Any] | None) -> str:
    """`imagenet, 140 GiB, 200 MiB/s for each replica`; empty for a job that names none."""
    if not data:
        return ""
    rate = f", {size(data['bandwidth'])}/s for each replica" if data.get("bandwidth") else ""
    return f"{data['name']}, {size(data['size'])}{rate}"


def storage_words(node: Node) -> str:
    """`2 GiB/s, cache 500 GiB`; empty for a node that says neither."""
    said = [
        f"{size(round(node['storage_bandwidth']))}/s" if node["storage_bandwidth"] else "",
        f"cache {size(node['cache_bytes'])}" if node["cache_bytes"] else "",
    ]
    return ", ".join(filter(None, said))


def _processors_wanted(tasks: Iterable[Mapping[str, Any]]) -> str:
    """`4 CPUs, 8 GiB`, `2×4 CPUs, 8 GiB`."""
    said = []
    for task in tasks:
        replicas = task.get("replicas", 1)
        has = ", ".join(_cpus_and_memory(task.get("resources") or {}))
        said.append(has if replicas == 1 else f"{replicas}×{has}")
    return " + ".join(said) or "no GPUs"


def _cpus_and_memory(resources: Mapping[str, Any]) -> list[str]:
    """`8 CPUs`, `16 GiB`; what is not asked for is left out."""
    cpus, memory = resources.get("cpu") or 0, resources.get("memory") or 0
    said = []
    if cpus:
        said.append("CPUs as needed" if isinstance(cpus, str) else f"{cpus:g} CPU{'' if cpus == 1 else 's'}")
    if memory:
        amount = size(memory) if isinstance(memory, int) else str(memory)
        said.append("memory as needed" if memory == "auto" else amount)
    return said


def time_limit_words(spec: Mapping[str, Any]) -> str:
    """`2h`, `none`."""
    limit = spec.get("time_limit")
    return duration(limit) if isinstance(limit, int | float) else str(limit or "none")


def problem_lines(prefix: str, message: str, fields: Sequence[FieldProblem]) -> list[str]:
    """The message, then a line for each field: `  tasks.0.cpu: is negative. Expected: 0 or more.`

    Nothing is repeated: a message that only repeats the fields becomes their number, and a problem that the
    message has stated already is left out.
    """
    if fields and all(problem.field in message for problem in fields):
        message = f"{plural(len(fields), 'mistake')}:"
    lines = [prefix + message]
    for problem in fields:
        told = problem.problem in message
        # The text of a name's pattern is both what is wrong and what would be right.
        is_both = problem.problem == problem.expected
        parts = [
            "" if told and not is_both else f"{problem.problem.rstrip('.')}.",
            f"Expected: {problem.expected.rstrip('.')}." if problem.expected and not is_both else "",
        ]
        lines.append(f"  {problem.field}: {' '.join(part for part in parts if part)}".rstrip(" :"))
    return lines


def limit_words(seconds: float | None) -> str:
    return "none" if seconds is None else duration(seconds)


def lot_words(lot: Lot | None) -> str:
    """`2 P100, 1 V100-NODE`; `-` for nothing."""
    counts = [*lot["gpus"].items(), *lot["cells"].items()] if lot else []
    return ", ".join(f"{count} {name}" for name, count in counts) or "-"
