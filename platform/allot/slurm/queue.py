"""squeue and scancel."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from allot.commands.options import connect
from allot.errors import Busy, NotFound, NotSignedIn, Refused, WrongUse
from allot.output import parse_time, print_line, say
from allot.slurm import words
from allot.slurm.formats import percent_lines
from allot.slurm.options import Options, jobs_of, listed, listed_ids

if TYPE_CHECKING:
    from allot.client import Client
    from allot.schema import Job

DEFAULT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"


def _place(job: Job) -> str:
    """Where it runs, or why it waits."""
    return words.hostlist(words.nodes_of(job)) if job["state"] == "running" else f"({words.reason_of(job)})"


def _left(job: Job) -> float | None:
    """Seconds until its time limit; None: it has none."""
    limit = words.limit_seconds(job)
    return None if limit is None else max(0.0, limit - words.run_seconds(job))


def _array(job: Job) -> Mapping[str, Any]:
    return job["array"] or {}


def _ends_at(job: Job) -> str:
    from datetime import timedelta

    if job["ended_at"]:
        return words.moment(job["ended_at"])
    start, limit = words.started_at(job), words.limit_seconds(job)
    if start is None or limit is None:
        return "N/A"
    return words.moment((parse_time(start) + timedelta(seconds=limit)).isoformat())


FIELDS: Mapping[str, tuple[str, Callable[[Job], object]]] = {
    "i": ("JOBID", words.job_id),
    "A": ("JOBID", lambda job: job["id"]),
    "F": ("ARRAY_JOB_ID", lambda job: _array(job).get("number", job["id"])),
    "K": ("ARRAY_TASK_ID", lambda job: _array(job).get("index", "N/A")),
    "j": ("NAME", lambda job: job["name"]),
    "u": ("USER", lambda job: job["submitted_by"]),
    "a": ("ACCOUNT", lambda job: job["tenant"]),
    "P": ("PARTITION", lambda job: job["virtual_cluster"]),
    "q": ("QOS", lambda job: job["guarantee"]),
    "T": ("STATE", words.state_of),
    "t": ("ST", lambda job: words.COMPACT[words.state_of(job)]),
    "r": ("REASON", words.reason_of),
    "R": ("NODELIST(REASON)", _place),
    "N": ("NODELIST", lambda job: words.hostlist(words.nodes_of(job))),
    "B": ("EXEC_HOST", lambda job: next(iter(words.nodes_of(job)), "n/a")),
    "D": ("NODES", words.node_count),
    "C": ("CPUS", words.cpus_of),
    "m": ("MIN_MEMORY", lambda job: words.mebibytes(words.node_memory(job))),
    "b": ("TRES_PER_NODE", lambda job: f"gres/gpu:{words.node_gpus(job)}"),
    "M": ("TIME", lambda job: words.span(words.run_seconds(job))),
    "l": ("TIME_LIMIT", lambda job: words.span(words.limit_seconds(job))),
    "L": ("TIME_LEFT", lambda job: words.span(_left(job))),
    "S": ("START_TIME", lambda job: words.moment(words.started_at(job), "N/A")),
    "e": ("END_TIME", _ends_at),
    "V": ("SUBMIT_TIME", lambda job: words.moment(job["submitted_at"])),
    "Q": ("PRIORITY", lambda job: job["priority"]),
    "p": ("PRIORITY", lambda job: job["priority"]),
    "k": ("COMMENT", lambda job: job["spec"].get("description") or "(null)"),
    "o": ("COMMAND", words.command_of),
}

#: What fields are sorted by whose text has another order than what it stands for.
_ORDERS: Mapping[str, Callable[[Job], object]] = {
    **dict.fromkeys("iA", lambda job: job["id"]),
    "M": words.run_seconds,
    "l": lambda job: _or_endless(words.limit_seconds(job)),
    "L": lambda job: _or_endless(_left(job)),
    "m": words.node_memory,
    "b": words.node_gpus,
}


def _or_endless(seconds: float | None) -> float:
    return math.inf if seconds is None else seconds


def squeue(arguments: list[str]) -> int:
    options = Options("squeue")
    options.switch("-h", "--noheader")
    options.switch("-l", "--long")
    options.switch("--me")
    options.switch("--json")
    options.ignored("-a", "--all", "-r", "--array")
    options.value("-o", "--format")
    options.value("-S", "--sort")
    _selecting(options)
    given = options.parse(arguments)
    with connect() as client:
        jobs = _selected(client, given, default={"PENDING", "RUNNING"})
    # What runs first, and then by number, unless another order is asked for.
    jobs.sort(key=lambda job: (job["state"] != "running", job["id"]))
    for key in reversed(listed(given.sort)):
        _sort(jobs, key)
    if given.json:
        sys.stdout.write(json.dumps(_as_json(jobs), indent=2) + "\n")
        return 0
    form = given.format or (LONG if given.long else DEFAULT)
    for line in percent_lines(jobs, form, FIELDS, "squeue", header=not given.noheader):
        print_line(line)
    return 0


def _sort(jobs: list[Job], key: str) -> None:
    letter = key.lstrip("+-")
    if letter not in FIELDS:
        raise WrongUse(f"squeue: --sort={key}: there is no field {letter}.")

    def value(job: Job) -> tuple[bool, Any]:
        found = _ORDERS.get(letter, FIELDS[letter][1])(job)
        return (isinstance(found, str), found)

    jobs.sort(key=value, reverse=key.startswith("-"))


def _selecting(options: Options) -> None:
    options.chosen("-u", "--user", "--users", dest="users")
    options.chosen("-j", "--jobs", "--job", dest="jobs", of=lambda text: listed_ids(text, options.prog))
    options.chosen("-t", "--states", "--state", dest="states", of=words.states_named)
    options.chosen("-p", "--partition", "--partitions", dest="partitions")
    options.chosen("-A", "--account", "--accounts", dest="accounts")
    options.chosen("-n", "--name", "--names", dest="names")
    options.chosen("-w", "--nodelist", dest="nodes", of=words.hostnames)


def _selected(client: Client, given: Any, *, default: set[str]) -> list[Job]:
    """The jobs that all options choose; `default`: their states, unless -t names some."""
    if given.me and given.users is not None:
        raise WrongUse("Give either --me or -u.")
    states = default if given.states is None else given.states
    users = [client.me()["user"]["username"]] if given.me else given.users
    if given.jobs is not None:
        jobs: Iterable[Job] = jobs_of(client, given.jobs)
    elif not states:
        jobs = []
    else:
        jobs = _asked(client, given, users, states)
    wanted = (
        (users, lambda job: job["submitted_by"]),
        (given.partitions, lambda job: job["virtual_cluster"]),
        (given.accounts, lambda job: job["tenant"]),
        (given.names, lambda job: job["name"]),
        (states, words.state_of),
    )
    return [
        job
        for job in jobs
        if all(chosen is None or of(job) in chosen for chosen, of in wanted)
        and (given.nodes is None or not set(given.nodes).isdisjoint(words.nodes_of(job)))
    ]


def _asked(client: Client, given: Any, users: list[str] | None, states: set[str]) -> Iterable[Job]:
    """All jobs that may match: what one filter can express is asked of the server."""

    def only(names: list[str] | None) -> str | None:
        return names[0] if names is not None and len(names) == 1 else None

    return client.jobs(
        state=",".join(sorted({words.OURS[state] for state in states})),
        submitted_by=only(users),
        virtual_cluster=only(given.partitions),
        tenant=only(given.accounts),
        name=only(given.names),
    )


def _number(text: str | None) -> dict[str, Any]:
    value = int(parse_time(text).timestamp()) if text else 0
    return {"set": bool(text), "infinite": False, "number": value}


def _as_json(jobs: list[Job]) -> dict[str, Any]:
    return {
        "meta": {"plugin": {"type": "openapi/slurmctld", "name": "allot"}},
        "jobs": [_object(job) for job in jobs],
        "warnings": [],
        "errors": [],
    }


def _object(job: Job) -> dict[str, Any]:
    limit, code, array = words.limit_seconds(job), job["exit_code"] or 0, job["array"]
    return {
        "job_id": job["id"],
        "array_job_id": {"set": bool(array), "infinite": False, "number": array["number"] if array else 0},
        "array_task_id": {"set": bool(array), "infinite": False, "number": array["index"] if array else 0},
        "name": job["name"],
        "user_name": job["submitted_by"],
        "account": job["tenant"],
        "partition": job["virtual_cluster"],
        "qos": job["guarantee"],
        "job_state": [words.state_of(job)],
        "state_reason": words.reason_of(job),
        "state_description": job["reasons"][0]["message"] if job["reasons"] else "",
        "priority": {"set": True, "infinite": False, "number": job["priority"]},
        "submit_time": _number(job["submitted_at"]),
        "eligible_time": _number(job["eligible_at"] or job["submitted_at"]),
        "start_time": _number(words.started_at(job)),
        "end_time": _number(job["ended_at"]),
        "time_limit": {
            "set": limit is not None,
            "infinite": limit is None,
            "number": int((limit or 0) // 60),
        },
        "nodes": words.hostlist(words.nodes_of(job)),
        "node_count": {"set": True, "infinite": False, "number": words.node_count(job)},
        "cpus": {"set": True, "infinite": False, "number": words.cpus_of(job)},
        "tres_req_str": words.tres_of(job),
        "command": words.command_of(job),
        "comment": job["spec"].get("description") or "",
        "exit_code": {
            "return_code": {"set": job["exit_code"] is not None, "infinite": False, "number": max(code, 0)},
            "signal": {"id": {"set": code < 0, "infinite": False, "number": max(-code, 0)}},
        },
    }


def scancel(arguments: list[str]) -> int:
    options = Options("scancel")
    options.switch("--me")
    options.ignored("-Q", "--quiet", "-v", "--verbose")
    _selecting(options)
    options.add_argument("ids", nargs="*", type=lambda text: listed_ids(text, "scancel"))
    given = options.parse(arguments)
    ids = [*chain.from_iterable(given.ids), *(given.jobs or [])]
    filters = (given.users, given.states, given.partitions, given.accounts, given.names, given.nodes)
    if not ids and not given.me and all(one is None for one in filters):
        raise WrongUse("scancel: name jobs by their numbers, or say which: --me, -u, -n, -t, -p, -A.")
    with connect() as client:
        return _cancel(client, given, ids)


def _cancel(client: Client, given: Any, ids: list[tuple[int, str]]) -> int:
    code = 0
    jobs: list[Job] = []
    for number, indices in ids:
        try:
            given.jobs = [(number, indices)]
            jobs += _selected(client, given, default=set(words.COMPACT))
        except NotFound:
            code = _not_cancelled(f"{number}_[{indices}]" if indices else number, "Invalid job id specified")
    if not ids:
        # Slurm refuses the jobs of others; here some may be cancelled, so they have to be asked for by -u.
        given.me = given.me or given.users is None
        jobs = _selected(client, given, default={"PENDING", "RUNNING"})
    # A job that has ended is left as it is, without a word, as Slurm does.
    for job in jobs:
        if job["state"] in ("queued", "running"):
            try:
                client.cancel(job["id"])
            except (NotSignedIn, Busy):
                raise
            except Refused as error:
                if error.status != 409:
                    code = _not_cancelled(job["id"], str(error))
    return code


def _not_cancelled(job: object, why: str) -> int:
    """Say so, and return what scancel exits with after the other jobs."""
    say(f"scancel: error: Kill job error on job id {job}: {why}")
    return 1
