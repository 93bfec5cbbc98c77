"""squeue and scancel."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from allot.commands.options import connect
from allot.errors import NotFound, Refused, WrongUse
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


def _left(job: Job) -> str:
    limit = words.limit_seconds(job)
    return words.span(None if limit is None else max(0.0, limit - words.run_seconds(job)))


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
    "m": ("MIN_MEMORY", words.memory_of),
    "b": ("TRES_PER_NODE", lambda job: f"gres/gpu:{job['gpus']}"),
    "M": ("TIME", lambda job: words.span(words.run_seconds(job))),
    "l": ("TIME_LIMIT", lambda job: words.span(words.limit_seconds(job))),
    "L": ("TIME_LEFT", _left),
    "S": ("START_TIME", lambda job: words.moment(words.started_at(job), "N/A")),
    "e": ("END_TIME", _ends_at),
    "V": ("SUBMIT_TIME", lambda job: words.moment(job["submitted_at"])),
    "Q": ("PRIORITY", lambda job: job["priority"]),
    "p": ("PRIORITY", lambda job: job["priority"]),
    "k": ("COMMENT", lambda job: job["spec"].get("description") or "(null)"),
    "o": ("COMMAND", words.command_of),
}


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
        jobs = _selected(client, given, "squeue", default={"PENDING", "RUNNING"})
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
        found = job["id"] if letter in "iA" else FIELDS[letter][1](job)
        return (isinstance(found, str), found)

    jobs.sort(key=value, reverse=key.startswith("-"))


def _selecting(options: Options) -> None:
    options.value("-u", "--user", "--users", dest="user")
    options.value("-j", "--jobs", "--job", dest="jobs")
    options.value("-t", "--states", "--state", dest="states")
    options.value("-p", "--partition", "--partitions", dest="partition")
    options.value("-A", "--account", "--accounts", dest="account")
    options.value("-n", "--name", "--names", dest="name")
    options.value("-w", "--nodelist", dest="nodelist")


def _selected(client: Client, given: Any, command: str, *, default: set[str]) -> list[Job]:
    try:
        states = words.states_named(given.states) if given.states else default
    except ValueError as error:
        raise WrongUse(f"{command}: there is no state {error}; {', '.join(words.COMPACT)}.") from None
    if given.jobs:
        jobs: Iterable[Job] = jobs_of(client, listed_ids(given.jobs, command))
    elif states is not None and not states:
        jobs = []
    else:
        jobs = _asked(client, given, states)
    users = {client.me()["user"]["username"]} if getattr(given, "me", False) else set(listed(given.user))
    wanted = (
        (users, lambda job: job["submitted_by"]),
        (set(listed(given.partition)), lambda job: job["virtual_cluster"]),
        (set(listed(given.account)), lambda job: job["tenant"]),
        (set(listed(given.name)), lambda job: job["name"]),
        (states or set(), words.state_of),
    )
    nodes = set(words.hostnames(given.nodelist or ""))
    return [
        job
        for job in jobs
        if all(not chosen or of(job) in chosen for chosen, of in wanted)
        and (not nodes or not nodes.isdisjoint(words.nodes_of(job)))
    ]


def _asked(client: Client, given: Any, states: set[str] | None) -> Iterable[Job]:
    """All jobs that may match: what one filter can express is asked of the server."""

    def only(text: str | None) -> str | None:
        named = listed(text)
        return named[0] if len(named) == 1 else None

    me = client.me()["user"]["username"] if getattr(given, "me", False) else only(given.user)
    return client.jobs(
        state=",".join(sorted({words.OURS[state] for state in states})) if states else None,
        submitted_by=me,
        virtual_cluster=only(given.partition),
        tenant=only(given.account),
        name=only(given.name),
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
    options.add_argument("ids", nargs="*")
    given = options.parse(arguments)
    given.jobs = ",".join([*given.ids, *([given.jobs] if given.jobs else [])])
    filters = (given.me, given.user, given.states, given.partition, given.account, given.name, given.nodelist)
    if not given.jobs and not any(filters):
        raise WrongUse("scancel: name jobs by their numbers, or say which: --me, -u, -n, -t, -p, -A.")
    with connect() as client:
        return _cancel(client, given)


def _cancel(client: Client, given: Any) -> int:
    code = 0
    jobs: list[Job] = []
    if given.jobs:
        for each in listed_ids(given.jobs, "scancel"):
            text = f"{each[0]}_[{each[1]}]" if each[1] else str(each[0])
            try:
                given.jobs = text
                jobs += _selected(client, given, "scancel", default=set(words.COMPACT))
            except NotFound:
                say(f"scancel: error: Kill job error on job id {text}: Invalid job id specified")
                code = 1
    else:
        jobs = _selected(client, given, "scancel", default={"PENDING", "RUNNING"})
    # A job that has ended is left as it is, without a word, as Slurm does.
    for job in jobs:
        if job["state"] in ("queued", "running"):
            try:
                client.cancel(job["id"])
            except Refused as error:
                if error.status != 409:
                    raise
    return code
