"""The jobs that a Slurm cluster ran, as `sacct --parsable2` prints them.

    sacct -aXP -S 2026-10-01 -E 2026-11-01 \\
        -o JobID,User,Account,Partition,Submit,Eligible,State,ElapsedRaw,Timelimit,ReqTRES,AllocTRES

The columns are those of Slurm's manual of sacct. A job arrives when it was eligible: after its dependencies,
its begin time and its holds, which are not in the output. It runs as long as its last run did, without the
time in which it was suspended. Its tenant is its account, or its user with the option `tenants`; its virtual
cluster is its partition. GPUs are what it requested (`gres/gpu` of ReqTRES), with the models that it named,
else what it got. CPUs, memory and the number of nodes are not used. Jobs without GPUs, jobs that never ran or
have not ended, and steps are left out. Slurm drops fractions of a second: a job that started and ran for 0
seconds counts as one second. TIMEOUT, NODE_FAIL and PREEMPTED count as failures.
"""

from __future__ import annotations

import re

from scheduler.simulation.traces import parts
from scheduler.simulation.traces.fields import ABSENT, BadField, instant, named, seconds, shown, status
from scheduler.simulation.traces.source import ANY_TENANT, ANY_VIRTUAL_CLUSTER, Source, TracedJob

_REQUIRED = ("Submit", "State", "ElapsedRaw", "AllocTRES")
_OPTIONAL = ("JobID", "User", "Account", "Partition", "Eligible", "Timelimit", "ReqTRES")
#: States of jobs whose run time is not known yet.
_UNFINISHED = frozenset(
    {
        "COMPLETING",
        "CONFIGURING",
        "PENDING",
        "REQUEUED",
        "REQUEUE_HOLD",
        "RESIZING",
        "RUNNING",
        "STOPPED",
        "SUSPENDED",
    }
)
#: States of jobs that had started, however short they ran.
_STARTED = frozenset({"COMPLETED", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"})
_NO_LIMIT = ABSENT | {"UNLIMITED", "Partition_Limit"}
#: Days-hours:minutes:seconds; days and hours may be left out.
_SPAN = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)")
_GPU = "gres/gpu"


def read(source: Source) -> None:
    """Read the jobs that used GPUs and have ended."""
    by_user = source.options.tenants == "user"

    def job(row: tuple[str, ...]) -> TracedJob | None:
        submit, state, elapsed, allocated, name, user, account, partition, eligible, limit, requested = row
        # "CANCELLED by 1000" names who did it.
        ended = (state.split() or [""])[0].upper()
        ran = seconds("ElapsedRaw", elapsed)
        gpus, models = _gpus("ReqTRES", requested)
        if not gpus:
            gpus = _gpus("AllocTRES", allocated)[0]
        for is_left_out, sentence in (
            ("." in name, "steps of jobs were left out."),
            (ended in _UNFINISHED, "jobs that have not ended were left out."),
            (not gpus, "jobs without GPUs were left out."),
            (not ran and ended not in _STARTED, "jobs that never ran were left out."),
        ):
            if is_left_out:
                source.leave_out(sentence, name)
                return None
        if not ran:
            source.assumed["jobs ran for less than a second; they count as one second."] += 1
            ran = 1.0
        task, submitted_at = parts.replica(_GPU, gpus), instant("Submit", submit)
        owner, field = (user, "User") if by_user else (account, "Account")
        return TracedJob(
            submitted_at if eligible in ABSENT else max(submitted_at, instant("Eligible", eligible)),
            task.gpus,
            ran,
            named(field, owner) if owner else ANY_TENANT,
            named("Partition", partition) if partition else ANY_VIRTUAL_CLUSTER,
            status=status("State", ended),
            gpu_models=models,
            time_limit_seconds=_limit(limit, ran),
            tasks=None if task.part is None else (task,),
            user=user if user not in ABSENT else "",
        )

    source.read(source.rows(_REQUIRED, _OPTIONAL, delimiter="|"), job)


def _gpus(field: str, tres: str) -> tuple[str, tuple[str, ...]]:
    """Return the number of GPUs as written, "" for none, and their models: "gres/gpu=2,gres/gpu:a100=2"."""
    total, typed = "", dict[str, str]()
    for part in tres.split(",") if tres else ():
        name, sign, amount = part.partition("=")
        if not sign:
            raise BadField(field, f"{shown(part)} is not a resource and its amount, such as gres/gpu=2")
        if name == _GPU:
            total = amount
        elif name.startswith(f"{_GPU}:"):
            typed[name.removeprefix(f"{_GPU}:")] = amount
    if not total and typed:
        total = str(sum(seconds(field, amount, "GPUs") for amount in typed.values()))
    return "" if total == "0" else total, tuple(sorted(typed))


def _limit(text: str, ran: float) -> float | None:
    """Return the seconds of a time limit, at least those that it ran: Slurm ends jobs a little later."""
    if text in _NO_LIMIT:
        return None
    found = _SPAN.fullmatch(text)
    if found is None:
        raise BadField("Timelimit", f"{shown(text)} is not a time like 1-12:00:00")
    days, hours, minutes, seconds_ = (int(part or 0) for part in found.groups())
    return max(ran, 86_400.0 * days + 3_600 * hours + 60 * minutes + seconds_)
