"""update: other values for fields of jobs that were submitted already."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from allot.commands.fate import each_of
from allot.commands.options import JobIds, connect
from allot.errors import WrongUse
from allot.spec_flags import spec_flags, values_of

#: As the server has it (`jobs/services/changing.py`).
CHANGEABLE = (
    "name",
    "description",
    "virtual_cluster",
    "priority",
    "guarantee",
    "time_limit",
    "begin",
    "reservation",
    "labels",
)


def update(
    job_ids: JobIds,
    no_time_limit: Annotated[bool, typer.Option("--no-time-limit", help="Remove the time limit.")] = False,
    no_reservation: Annotated[bool, typer.Option("--no-reservation", help="Remove the reservation.")] = False,
    **given: Any,
) -> None:
    """Change waiting jobs: `allot update 17 18 --priority 5 --time-limit 2h`.

    While a job has GPUs, you can change only its name, description, priority and labels, and shorten its time
    limit. The labels that you give replace all labels of the job.
    """
    changes = values_of(given)
    for name, is_without in (("time_limit", no_time_limit), ("reservation", no_reservation)):
        if is_without and name in changes:
            flag = name.replace("_", "-")
            raise WrongUse(f"Give either --{flag} or --no-{flag}.")
        if is_without:
            changes[name] = None
    if not changes:
        raise WrongUse("Nothing to change. Say what: `allot update 17 --priority 5`.")
    with connect() as client:
        each_of(job_ids, lambda job_id: client.change(job_id, changes), lambda job: "changed")


def register(app: typer.Typer) -> None:
    signature = inspect.signature(update, eval_str=True)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    flags = [flag.parameter() for flag in spec_flags() if flag.where in CHANGEABLE]
    others = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own[1:]]
    setattr(update, "__signature__", signature.replace(parameters=[own[0], *flags, *others]))  # noqa: B010
    app.command()(update)
