"""sacct: jobs of the past, as scripts ask for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from allot.commands.options import connect
from allot.errors import NotFound
from allot.output import print_line, say
from allot.slurm import words
from allot.slurm.formats import collapsed, named_parts
from allot.slurm.options import Options, jobs_of, listed_ids
from allot.times import past

if TYPE_CHECKING:
    from allot.client import Client
    from allot.schema import Job

DEFAULT = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
BRIEF = "JobID,State,ExitCode"
#: A field is so wide unless the format says otherwise.
_WIDTH = 10
_WIDTHS = {"JobID": -12, "Start": 19, "End": 19, "Submit": 19, "Eligible": 19, "NodeList": 15}

FIELDS: Mapping[str, Callable[[Job], object]] = {
    "JobID": words.job_id,
    "JobIDRaw": lambda job: job["id"],
    "JobName": lambda job: job["name"],
    "User": lambda job: job["submitted_by"],
    "Account": lambda job: job["tenant"],
    "Partition": lambda job: job["virtual_cluster"],
    "QOS": lambda job: job["guarantee"],
    "Priority": lambda job: job["priority"],
    "State": words.state_of,
    "Reason": words.reason_of,
    "ExitCode": words.exit_code,
    "DerivedExitCode": words.exit_code,
    "Submit": lambda job: words.moment(job["submitted_at"]),
    "Eligible": lambda job: words.moment(job["eligible_at"] or job["submitted_at"]),
    "Start": lambda job: words.moment(words.started_at(job)),
    "End": lambda job: words.moment(job["ended_at"]),
    "Elapsed": lambda job: words.span(words.run_seconds(job), padded=True),
    "ElapsedRaw": lambda job: int(words.run_seconds(job)),
    "CPUTimeRAW": lambda job: int(words.run_seconds(job)) * words.cpus_of(job),
    "Timelimit": lambda job: words.span(words.limit_seconds(job), padded=True),
    "NNodes": words.node_count,
    "AllocNodes": lambda job: len(words.nodes_of(job)),
    "NCPUS": words.cpus_of,
    "AllocCPUS": words.cpus_of,
    "ReqCPUS": words.cpus_of,
    "ReqMem": words.memory_of,
    "ReqTRES": words.tres_of,
    "AllocTRES": lambda job: words.tres_of(job) if words.nodes_of(job) else "",
    "NodeList": lambda job: words.hostlist(words.nodes_of(job)) or "None assigned",
    "Comment": lambda job: job["spec"].get("description") or "",
    "SubmitLine": words.command_of,
    "Restarts": lambda job: max(0, job["attempts"] - 1),
}


def sacct(arguments: list[str]) -> int:
    options = Options("sacct")
    options.switch("-n", "--noheader")
    options.switch("-P", "--parsable2")
    options.switch("-p", "--parsable")
    options.switch("-b", "--brief")
    options.switch("-a", "--allusers")
    # There are no steps, and no rows of earlier attempts.
    options.ignored("-X", "--allocations", "-L", "--allclusters")
    options.value("-o", "--format", "--fields", dest="format")
    options.value("--delimiter", default="|")
    options.chosen(
        "-j", "--jobs", "--job", dest="jobs", of=lambda text: listed_ids(text, "sacct", with_steps=True)
    )
    options.value("-S", "--starttime", dest="since")
    options.value("-E", "--endtime", dest="until")
    options.chosen("-u", "--user", "--uid", dest="user")
    options.chosen("-s", "--state", dest="states", of=words.states_named)
    options.chosen("-r", "--partition", dest="partition")
    options.chosen("-A", "--account", "--accounts", dest="account")
    options.chosen("--name", dest="name")
    given = options.parse(arguments)
    parts = named_parts(given.format or (BRIEF if given.brief else DEFAULT), FIELDS, "sacct")
    with connect() as client:
        jobs = _found(client, given)
    rows = [[collapsed(FIELDS[part.field](job)) for part in parts] for job in jobs]
    if given.parsable or given.parsable2:
        end = given.delimiter if given.parsable else ""
        header = [] if given.noheader else [[part.field for part in parts]]
        for row in (*header, *rows):
            # A description with the delimiter in it would shift the fields behind it.
            fields = [value.replace(given.delimiter, " ") if given.delimiter else value for value in row]
            print_line(given.delimiter.join(fields) + end)
        return 0
    widths = [part.width * (1 if part.is_right else -1) or _WIDTHS.get(part.field, _WIDTH) for part in parts]
    if not given.noheader:
        print_line(" ".join(_cell(part.field, width) for part, width in zip(parts, widths, strict=True)))
        print_line(" ".join("-" * abs(width) for width in widths))
    for row in rows:
        print_line(" ".join(_cell(value, width) for value, width in zip(row, widths, strict=True)))
    return 0


def _cell(value: object, width: int) -> str:
    text, columns = str(value), abs(width)
    if len(text) > columns:
        return text[: columns - 1] + "+"
    return text.ljust(columns) if width < 0 else text.rjust(columns)


def _found(client: Client, given: object) -> list[Job]:
    asked = vars(given)
    states = asked["states"]
    if asked["jobs"] is not None:
        jobs: list[Job] = []
        for each in asked["jobs"]:
            try:
                jobs += jobs_of(client, [each])
            except NotFound:
                # Slurm prints nothing for a job that it does not know; here the user may look for a mistake.
                say(f"sacct: there is no job {each[0]}, or it is of a tenant that you are not a member of.")
    else:
        since = past(asked["since"] or "today", "sacct: --starttime").isoformat()
        until = past(asked["until"], "sacct: --endtime").isoformat() if asked["until"] else None
        names = {name: asked[name] or [] for name in ("user", "partition", "account", "name")}
        if not asked["allusers"] and not names["user"]:
            names["user"] = [client.me()["user"]["username"]]
        one = {name: found[0] if len(found) == 1 else None for name, found in names.items()}
        jobs = list(
            client.jobs(
                since=since,
                until=until,
                state=",".join(sorted({words.OURS[state] for state in states})) if states else None,
                submitted_by=one["user"],
                virtual_cluster=one["partition"],
                tenant=one["account"],
                name=one["name"],
            )
        )
        of = {"user": "submitted_by", "partition": "virtual_cluster", "account": "tenant", "name": "name"}
        jobs = [
            job
            for job in jobs
            if all(not found or job[of[name]] in found for name, found in names.items())  # type: ignore[literal-required]
        ]
    if states is not None:
        jobs = [job for job in jobs if words.state_of(job) in states]
    return sorted(jobs, key=lambda job: job["id"])
