"""scontrol: show job, node and hostnames, hold, release, requeue, update."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from allot.beginning import begin_at
from allot.commands.options import connect
from allot.errors import Refused, WrongUse
from allot.output import print_line
from allot.sbatch_options import seconds_of
from allot.slurm import words
from allot.slurm.cluster import gres_of, reason_of, state_of
from allot.slurm.formats import collapsed
from allot.slurm.options import jobs_of, listed_ids

if TYPE_CHECKING:
    from allot.client import Client
    from allot.schema import Job, Node

KNOWN = (
    "show job ID, show node NAME, show hostnames LIST, show hostlist NAMES, hold ID, release ID, requeue ID,"
    " update JobId=ID NAME=VALUE"
)
#: What `scontrol update JobId=ID NAME=VALUE` changes here, by names in lower case.
_UPDATES: Mapping[str, Callable[[str], tuple[str, Any]]] = {
    "timelimit": lambda text: ("time_limit", seconds_of(text)),
    "priority": lambda text: ("priority", int(text)),
    "partition": lambda text: ("virtual_cluster", text),
    "name": lambda text: ("name", text),
    "jobname": lambda text: ("name", text),
    "comment": lambda text: ("description", text),
    "starttime": lambda text: ("begin", begin_at(text, "StartTime")),
    "eligibletime": lambda text: ("begin", begin_at(text, "EligibleTime")),
}


def scontrol(arguments: list[str]) -> int:
    one_line = any(word in ("-o", "--oneliner") for word in arguments)
    words_left = [word for word in arguments if word not in ("-o", "--oneliner")]
    unknown = [word for word in words_left if word.startswith("-")]
    if unknown:
        raise WrongUse(f"scontrol: {unknown[0]} is not known here.")
    action, *rest = words_left or [""]
    if action == "show" and rest:
        return _show(rest[0].lower(), rest[1:], one_line=one_line)
    if action in ("hold", "uhold", "release", "requeue") and rest:
        with connect() as client:
            refusals = [
                refusal
                for each in listed_ids(",".join(rest), "scontrol")
                if (refusal := _act_on_all(client, action, jobs_of(client, [each]))) is not None
            ]
        if refusals:
            raise refusals[0]
        return 0
    if action == "update" and rest:
        with connect() as client:
            _update(client, rest)
        return 0
    raise WrongUse(f"scontrol: {' '.join(arguments)!r} is not known here; {KNOWN}.")


def _act_on_all(client: Client, action: str, jobs: list[Job]) -> Refused | None:
    """Act on a job or the tasks of an array; return why not, where it was possible for none of them.

    As in Slurm, tasks that wait are held although others run.
    """
    refusals = []
    for job in jobs:
        try:
            _act(client, action, job)
        except Refused as error:
            if error.status != 409:
                raise
            refusals.append(error)
    return refusals[0] if refusals and len(refusals) == len(jobs) else None


def _act(client: Client, action: str, job: Job) -> None:
    if action == "release":
        client.release(job["id"])
    elif action == "requeue":
        client.requeue(job["id"])
    else:
        client.hold(job["id"])


def _update(client: Client, settings: list[str]) -> None:
    jobs, changes = "", dict[str, Any]()
    for setting in settings:
        name, equals, value = setting.partition("=")
        key = name.lower()
        if not equals or (key not in _UPDATES and key != "jobid"):
            raise WrongUse(
                f"scontrol: {setting!r} cannot be updated here; JobId=ID and {', '.join(_UPDATES)}."
            )
        if key == "jobid":
            jobs = value
            continue
        try:
            field, changed = _UPDATES[key](value)
        except ValueError:
            raise WrongUse(f"scontrol: {setting!r} is not a value of {name}.") from None
        changes[field] = changed
    if not jobs or not changes:
        raise WrongUse("scontrol: say which job and what: `scontrol update JobId=12 TimeLimit=2:00:00`.")
    for job in jobs_of(client, listed_ids(jobs, "scontrol")):
        client.change(job["id"], changes)


def _show(what: str, names: list[str], *, one_line: bool) -> int:
    if what in ("hostnames", "hostname") and names:
        for name in _nodes_named(names):
            print_line(name)
        return 0
    if what == "hostlist" and names:
        print_line(words.hostlist(_nodes_named(names)))
        return 0
    if what in ("job", "jobs"):
        with connect() as client:
            ids = listed_ids(",".join(names), "scontrol") if names else []
            jobs = jobs_of(client, ids) if ids else list(client.jobs(state="queued,running"))
        for job in jobs:
            _print(_job(job), one_line=one_line)
        return 0
    if what in ("node", "nodes"):
        with connect() as client:
            wanted = _nodes_named(names)
            nodes = [client.node(name) for name in wanted] if wanted else client.nodes()
        for node in nodes:
            _print(_node(node), one_line=one_line)
        return 0
    raise WrongUse(f"scontrol: show {what} is not known here; {KNOWN}.")


def _nodes_named(lists: list[str]) -> list[str]:
    try:
        return words.hostnames(",".join(lists))
    except ValueError as error:
        raise WrongUse(f"scontrol: {error}.") from None


def _print(lines: list[dict[str, object]], *, one_line: bool) -> None:
    texts = [" ".join(f"{key}={collapsed(value)}" for key, value in line.items()) for line in lines]
    if one_line:
        print_line(" ".join(texts))
        return
    print_line(texts[0])
    for text in texts[1:]:
        print_line(f"   {text}")
    print_line("")


def _job(job: Job) -> list[dict[str, object]]:
    array = job["array"]
    tasks = {"ArrayJobId": array["number"], "ArrayTaskId": array["index"]} if array else {}
    nodes = words.hostlist(words.nodes_of(job))
    return [
        {"JobId": job["id"], **tasks, "JobName": job["name"]},
        {"UserId": job["submitted_by"], "Account": job["tenant"], "QOS": job["guarantee"]},
        {"Priority": job["priority"]},
        {"JobState": words.state_of(job), "Reason": words.reason_of(job), "Dependency": _dependency(job)},
        {"Requeue": 1, "Restarts": max(0, job["attempts"] - 1), "ExitCode": words.exit_code(job)},
        {
            "RunTime": words.span(words.run_seconds(job), padded=True),
            "TimeLimit": words.span(words.limit_seconds(job), padded=True),
        },
        {
            "SubmitTime": words.moment(job["submitted_at"]),
            "EligibleTime": words.moment(job["eligible_at"] or job["submitted_at"]),
        },
        {"StartTime": words.moment(words.started_at(job)), "EndTime": words.moment(job["ended_at"])},
        {"Partition": job["virtual_cluster"]},
        {"NodeList": nodes or "(null)", "BatchHost": next(iter(words.nodes_of(job)), "(null)")},
        {"NumNodes": words.node_count(job), "NumCPUs": words.cpus_of(job), "TRES": words.tres_of(job)},
        # Free texts come last, as in Slurm: a reader that takes the first `JobState=` finds the job's own.
        {"Command": words.command_of(job)},
        {"Comment": job["spec"].get("description") or "(null)"},
    ]


def _dependency(job: Job) -> str:
    kinds = {"succeeded": "afterok", "ended": "afterany", "failed": "afternotok", "started": "after"}
    found = [f"{kinds[each['when']]}:{each['job']}" for each in job["spec"].get("after") or []]
    return ",".join([*found, *(["singleton"] if job["spec"].get("singleton") else [])]) or "(null)"


def _node(node: Node) -> list[dict[str, object]]:
    held = sum(gpu["state"] != "free" for gpu in node["gpus"])
    return [
        {"NodeName": node["name"], "NodeAddr": node["address"], "NodeHostName": node["name"]},
        {"CPUTot": round(node["cpus"]), "RealMemory": round(node["memory_bytes"] / 2**20)},
        {
            "AvailableFeatures": node["gpu_model"] or "(null)",
            "Gres": gres_of(node),
            "GresUsed": f"gpu:{held}",
        },
        {"State": state_of(node).upper(), "Version": node["agent_version"]},
        {"Reason": reason_of(node)},
    ]
