"""The columns of a job's row that people choose with `--format`, and how each is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from allot.arrays import task_name
from allot.describe import (
    detail,
    gpus_of,
    latest_attempt,
    model_of,
    nodes_of,
    run_time,
    state_word,
)
from allot.errors import WrongUse
from allot.output import local_time, since
from allot.specfiles import words

if TYPE_CHECKING:
    from allot.schema import Job

#: `label:team` is the value of that label.
LABEL = "label:"


@dataclass(frozen=True, slots=True)
class Column:
    """`shown` is for people; `plain`, where it differs, for programs: numbers and ISO 8601."""

    shown: Callable[[Job], object]
    plain: Callable[[Job], object] | None = None
    is_right: bool = False

    def value(self, job: Job, *, plain: bool) -> object:
        return (self.plain if plain and self.plain else self.shown)(job)


def _time(name: str) -> Column:
    return Column(lambda job: local_time(job[name]), lambda job: job[name] or "")  # type: ignore[literal-required]


def _nodes(job: Job) -> str:
    return nodes_of(job["attempt"]) if job["attempt"] else ""


def _failure(job: Job) -> str:
    return job["attempt"]["failure"] if job["attempt"] else ""


def _number(value: object) -> object:
    return "" if value is None else value


def _seconds(begin: str | None, end: str | None) -> object:
    from allot.output import parse_time

    return "" if not begin or not end else round((parse_time(end) - parse_time(begin)).total_seconds(), 3)


def _run_seconds(job: Job) -> object:
    attempt = job["attempt"]
    return _seconds(attempt["running_at"], attempt["ended_at"]) if attempt else ""


COLUMNS: Mapping[str, Column] = {
    "id": Column(lambda job: job["id"], is_right=True),
    "name": Column(task_name),
    "state": Column(state_word),
    "user": Column(lambda job: job["submitted_by"]),
    "tenant": Column(lambda job: job["tenant"]),
    "vc": Column(lambda job: job["virtual_cluster"]),
    "guarantee": Column(lambda job: job["guarantee"]),
    "priority": Column(lambda job: job["priority"], is_right=True),
    "gpus": Column(gpus_of, lambda job: job["gpus"], is_right=True),
    "model": Column(model_of),
    "nodes": Column(_nodes),
    "submitted": _time("submitted_at"),
    "started": _time("started_at"),
    "ended": _time("ended_at"),
    "waited": Column(
        lambda job: since(job["submitted_at"], until=job["started_at"] or job["ended_at"]),
        lambda job: _seconds(job["submitted_at"], job["started_at"] or job["ended_at"]),
        is_right=True,
    ),
    "time": Column(run_time, _run_seconds, is_right=True),
    "gpu_hours": Column(
        lambda job: f"{job['service_gpu_seconds'] / 3600:.2f}",
        lambda job: round(job["service_gpu_seconds"] / 3600, 6),
        is_right=True,
    ),
    "attempts": Column(lambda job: job["attempts"], is_right=True),
    "attempt": Column(latest_attempt, is_right=True),
    "preemptions": Column(lambda job: job["preemptions"], is_right=True),
    "exit": Column(lambda job: _number(job["exit_code"]), is_right=True),
    "failure": Column(_failure),
    "array": Column(lambda job: job["array"]["number"] if job["array"] else "", is_right=True),
    "index": Column(lambda job: job["array"]["index"] if job["array"] else "", is_right=True),
    "labels": Column(lambda job: " ".join(f"{key}={value}" for key, value in job["labels"].items())),
    "detail": Column(detail),
}


def chosen(text: str) -> dict[str, Column]:
    """Return the columns that `id,name,label:team` names, in its order."""
    found: dict[str, Column] = {}
    for name in words(text):
        found[name] = _label(name.removeprefix(LABEL)) if name.startswith(LABEL) else _known(name)
    if not found:
        raise WrongUse(f"--format names no column. Expected some of: {', '.join(COLUMNS)}, {LABEL}NAME.")
    return found


def _label(key: str) -> Column:
    return Column(lambda job: job["labels"].get(key, ""))


def _known(name: str) -> Column:
    if name in COLUMNS:
        return COLUMNS[name]
    near = get_close_matches(name, COLUMNS, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise WrongUse(
        f"--format: there is no column {name!r}.{hint} Columns: {', '.join(COLUMNS)}, {LABEL}NAME."
    )


def row(job: Job, columns: Mapping[str, Column], *, plain: bool = False) -> Sequence[object]:
    return [column.value(job, plain=plain) for column in columns.values()]
