"""compare: what differs between jobs, and what their metrics came to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from allot.commands.options import JobIds, OutputOption, connect
from allot.errors import Refused, WrongUse
from allot.output import Format, plural, print_objects, print_table, say

if TYPE_CHECKING:
    from allot.schema import ProgressPoint

LEAST, MOST = 2, 8
#: Metrics of which less is better, by a part of their names. More is better for all others, as on the pages.
_LESS_IS_BETTER = re.compile(r"loss|err|perplexity|ppl|mse|mae|wer|fid|time|seconds|latency", re.IGNORECASE)
#: They show how far a job is, not how well it goes.
_NO_METRICS = frozenset(
    {
        *("restored_step", "total_steps", "initial_batch", "max_batch", "min_local_batch", "max_local_batch"),
        *("timed_iterations", "grad_sqr", "grad_var"),
    }
)


def compare(job_ids: JobIds, output: OutputOption = Format.table) -> None:
    """Compare 2 to 8 jobs: what differs between them, and the last and best value of each metric.

    `allot compare 17 18 19`
    """
    ids = list(dict.fromkeys(job_ids))
    if not LEAST <= len(ids) <= MOST:
        raise WrongUse(f"Name {LEAST} to {MOST} different jobs.")
    jobs, reported = {}, {}
    with connect() as client:
        for job_id in ids:
            try:
                jobs[job_id] = client.job(job_id)
            except Refused as error:
                if error.status not in (403, 404):
                    raise
                say(f"Job {job_id} is left out: there is no such job, or you may not see it.")
            else:
                reported[job_id] = client.progress(job_id)
    if len(jobs) < LEAST:
        raise WrongUse(f"{plural(len(jobs), 'job')} left, and {LEAST} are needed.")
    fields = differences([job["spec"] for job in jobs.values()])
    values = {job_id: last_and_best(points) for job_id, points in reported.items()}
    metrics = list(dict.fromkeys(name for each in values.values() for name in each))
    if output is not Format.table:
        found = {
            "jobs": list(jobs),
            "differences": [{"field": name, "values": texts} for name, texts in fields.items()],
            "metrics": {name: {str(job_id): values[job_id].get(name) for job_id in jobs} for name in metrics},
        }
        print_objects(found, output)
        return
    heads = [f"JOB {job_id}" for job_id in jobs]
    if fields:
        print_table(
            ["FIELD", *heads], [[name, *(text or "-" for text in texts)] for name, texts in fields.items()]
        )
    else:
        say("The specifications are the same.")
    if metrics:
        say("")
        rows = [[_title(name), *(_figures(values[job_id].get(name)) for job_id in jobs)] for name in metrics]
        print_table(["METRIC", *heads], rows, right=heads)
    else:
        say("None of these jobs reported metrics.")


def differences(specs: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the fields that are not the same in all specifications, each with its text in every one of them;
    empty where a specification leaves it out."""
    flat = [dict(_fields(spec, "")) for spec in specs]
    names = dict.fromkeys(name for each in flat for name in each)
    found = {name: [each.get(name, "") for each in flat] for name in names}
    return {name: texts for name, texts in found.items() if len(set(texts)) > 1}


def _fields(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield paths and texts. Lists of things that have names, as tasks do, are gone into by name."""
    if isinstance(value, list) and value and all(isinstance(each, dict) and "name" in each for each in value):
        value = {each["name"]: each for each in value}
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _fields(inner, f"{path}.{key}" if path else str(key))
    elif value is not None:
        yield path, value if isinstance(value, str) else json.dumps(value)


def last_and_best(points: Sequence[ProgressPoint]) -> dict[str, dict[str, float]]:
    """Return the last and the best value of each metric, by its name. Steps that a later attempt did again
    count as that attempt did them."""
    by_step: dict[str, dict[int, tuple[int, float]]] = {}
    for point in points:
        for name, value in point["values"].items():
            steps = by_step.setdefault(name, {})
            if point["step"] not in steps or steps[point["step"]][0] <= point["attempt"]:
                steps[point["step"]] = (point["attempt"], value)
    found = {}
    for name, steps in by_step.items():
        if name not in _NO_METRICS:
            values = [value for _, (_, value) in sorted(steps.items())]
            best = min(values) if _LESS_IS_BETTER.search(name) else max(values)
            found[name] = {"last": values[-1], "best": best}
    return found


def _title(name: str) -> str:
    return f"{name} (best: {'lowest' if _LESS_IS_BETTER.search(name) else 'highest'})"


def _figures(found: Mapping[str, float] | None) -> str:
    return f"{found['last']:.4g} (best {found['best']:.4g})" if found else "-"


def register(app: typer.Typer) -> None:
    app.command()(compare)
