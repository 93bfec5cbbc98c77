"""Read tables of throughputs from text, naming every wrong line, and write tables that can be read back.

There are two layouts, distinguished by their content; `scheduler.simulation.throughputs` reads them, too:

- Our CSV: application, gpus, gpu_model, rate and, where measured, nodes (more than 1: spread) or other (the
  applications that share the GPUs, up to three, with a plus between them). Further columns are ignored.
- Gavel's throughput JSON (stanford-futuredata/gavel, OSDI'20): GPU model (`*_unconsolidated`: spread) -> job
  type and gang size -> rate alone ("null") and rates beside others, [its own, the other's].

Rates are in samples (or steps) a second of the gang, beside a partner, too. A rate beside a partner is stored
relative to the rate alone in the same table, at most 1. A text that is not a valid name of an application is
converted: "LM (batch size 5)" becomes LM-batch-size-5.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.core.perf.throughput import (
    HIGHEST,
    LARGEST_RATIO,
    MOST_TOGETHER,
    Setting,
    beside,
    partners_of,
    problem_with,
    too_far_apart,
)

MOST_LINES = 20_000
MOST_GPUS = 32_768
CSV_COLUMNS = ("application", "gpus", "gpu_model", "rate", "nodes", "other", "source", "samples")

_SPREAD = "_unconsolidated"
_NAME = re.compile(r"(name:)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_JOB_TYPE = re.compile(r"\('(.*)', (\d{1,9})\)")


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake at one place, such as "line 17", and what would be right."""

    place: str
    problem: str
    expected: str = ""


#: The application and setting of a line of a table.
Key = tuple[str, Setting]


@dataclass
class Table:
    """The content of a text. `throughputs` is valid only when there are no problems."""

    layout: str
    #: Samples a second; beside a partner, relative to the rate alone.
    throughputs: dict[Key, float] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    #: Original names from the text where they had to be changed.
    renamed: dict[str, str] = field(default_factory=dict)

    def refuse(self, place: str, problem: str, expected: str = "") -> None:
        self.problems.append(Problem(place, problem, expected))


@dataclass(frozen=True, slots=True)
class _Line:
    """One line as it was written, not yet checked."""

    place: str
    application: Any
    gpus: Any
    gpu_model: Any
    rate: Any
    spread: bool = False
    others: tuple[str, ...] = ()


def read_table(text: str) -> Table:
    """Return the table read from either layout; its problems list every mistake, and nothing is raised."""
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        table = Table("gavel")
        lines = _gavel_lines(table, text.lstrip("\ufeff"))
    else:
        table = Table("csv")
        lines = _csv_lines(table, text.lstrip("\ufeff"))
    _take(table, lines)
    if not table.throughputs and not table.problems:
        table.refuse("line 1", "the table says nothing", "at least one line with a rate")
    return table


def _csv_lines(table: Table, text: str) -> Iterator[_Line]:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    rows = csv.DictReader(f"{line}\n" for line in lines)
    try:
        missing = [name for name in CSV_COLUMNS[:4] if name not in (rows.fieldnames or ())]
        if missing:
            expected = f"columns {', '.join(CSV_COLUMNS[:4])} and, if need be, nodes and other"
            table.refuse("line 1", f"the header has no column {', '.join(missing)}", expected)
            return
        for row in rows:
            place = f"line {rows.line_num}"
            nodes = (row.get("nodes") or "").strip()
            if nodes and not (nodes.isdecimal() and len(nodes) < 7 and int(nodes) > 0):
                table.refuse(
                    place, f"nodes: {_short(nodes)} is no number of nodes", "a whole number, or nothing"
                )
                continue
            model, other = row["gpu_model"], (row.get("other") or "").strip()
            spread = nodes not in ("", "1")
            if spread and other:
                table.refuse(place, "says both nodes and other", "one of them")
                continue
            others = partners_of(other)
            yield _Line(place, row["application"], row["gpus"], model, row["rate"], spread, others)
    except csv.Error as error:
        table.refuse(f"line {rows.line_num + 1}", f"is not CSV: {error}", "fields separated by commas")


def _gavel_lines(table: Table, text: str) -> Iterator[_Line]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        table.refuse(
            f"line {line}", f"is not JSON: {getattr(error, 'msg', 'nested too deeply')}", "one JSON object"
        )
        return
    for model, entries in document.items():
        spread = model.endswith(_SPREAD)
        name = model.removesuffix(_SPREAD)
        if not isinstance(entries, dict):
            table.refuse(_short(model), f"{_short(entries)} is not an object", "job types with their rates")
            continue
        for key, rates in entries.items():
            place, kind = f"{_short(model)}: {_short(key)}", _JOB_TYPE.fullmatch(key)
            if kind is None or not isinstance(rates, dict):
                expected = "a job type such as ('LM (batch size 5)', 2) with its rates"
                table.refuse(place, "is not a job type with rates", expected)
                continue
            yield _Line(place, kind[1], kind[2], name, rates.get("null"), spread)
            if not spread:
                yield from _gavel_pairs(table, place, (kind[1], kind[2], name), rates)


def _gavel_pairs(
    table: Table, place: str, own: tuple[str, str, str], rates: Mapping[str, Any]
) -> Iterator[_Line]:
    application, gpus, model = own
    for key, both in rates.items():
        other = _JOB_TYPE.fullmatch(key)
        if key == "null" or (other and int(other[2]) != int(gpus)):
            continue
        if other is None or not isinstance(both, list) or len(both) != 2:
            table.refuse(
                f"{place}: {_short(key)}", "is not a job type with two rates", "[its own, the other's]"
            )
            continue
        yield _Line(f"{place}: {_short(key)}", application, gpus, model, both[0], others=(other[1],))


def _take(table: Table, lines: Iterable[_Line]) -> None:
    """Add the valid lines to the table, rates alone first: those beside partners are relative to them."""
    shared: list[tuple[_Line, Key, float]] = []
    places: dict[Key, str] = {}
    for number, line in enumerate(lines):
        if number >= MOST_LINES:
            table.refuse(line.place, f"there are more than {MOST_LINES:,} lines", "several smaller tables")
            return
        key, rate = _key(table, line), _rate(table, line)
        if key is None or rate is None:
            continue
        if key in places:
            table.refuse(line.place, f"says the same as {places[key]}", "each setting once")
            continue
        places[key] = line.place
        if line.others:
            shared.append((line, key, rate))
        else:
            table.throughputs[key] = rate
    for line, (application, setting), rate in shared:
        alone = table.throughputs.get((application, setting._replace(partner="")))
        if alone is None:
            problem = f"{application} with {setting.gpus} GPUs on {setting.gpu_model} has no rate alone"
            table.refuse(line.place, problem, "a line of it without other, to compare with")
        elif alone > 0:
            table.throughputs[application, setting] = min(1.0, rate / alone)
    _check_ratios(table, places)


def _key(table: Table, line: _Line) -> Key | None:
    several = _short(beside(line.others))
    if len(line.others) >= MOST_TOGETHER:
        problem = f"other: {several} are {len(line.others)} applications"
        table.refuse(line.place, problem, f"at most {MOST_TOGETHER - 1}, with a plus between them")
        return None
    if not all([other.strip() for other in line.others]):
        table.refuse(line.place, f"other: {several} lacks an application", "one on both sides of a plus")
        return None
    application = _application(table, line, line.application)
    partners = [_application(table, line, other) for other in line.others]
    gpus, model = str(line.gpus or "").strip(), str(line.gpu_model or "").strip()
    if not (gpus.isdecimal() and len(gpus) < 7 and 1 <= int(gpus) <= MOST_GPUS):
        table.refuse(line.place, f"gpus: {_short(line.gpus)} is no size of a gang", f"1 to {MOST_GPUS}")
        return None
    if not _MODEL.fullmatch(model):
        expected = "letters, digits, '.', '_' and '-'"
        table.refuse(line.place, f"gpu_model: {_short(line.gpu_model)} is no model's name", expected)
        return None
    known = [partner for partner in partners if partner is not None]
    if application is None or len(known) < len(partners):
        return None
    return application, Setting(model, int(gpus), line.spread, beside(known))


def _application(table: Table, line: _Line, text: Any) -> str | None:
    """Return a valid name of an application."""
    written = str(text or "").strip()
    if _NAME.fullmatch(written):
        return written
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", written)[:63].strip(".-_")
    if not name:
        table.refuse(
            line.place, f"application: {_short(text)} is no name", "letters, digits, '.', '_' and '-'"
        )
        return None
    if any(was != written and now == name for was, now in table.renamed.items()):
        table.refuse(
            line.place, f"application: {_short(text)} would be called {name}, as another is", "another name"
        )
        return None
    table.renamed[written] = name
    return name


def _rate(table: Table, line: _Line) -> float | None:
    try:
        rate = float(line.rate) if not isinstance(line.rate, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        rate = math.nan
    problem = f"{_short(line.rate)} is not a number" if math.isnan(rate) else problem_with(rate)
    if problem is None:
        return rate
    table.refuse(line.place, f"rate: {problem}", f"a number from 0 (does not run) to {HIGHEST:g}")
    return None


def _check_ratios(table: Table, places: Mapping[Key, str]) -> None:
    rows: dict[tuple[str, int, bool], dict[Key, float]] = {}
    for (application, setting), rate in table.throughputs.items():
        if not setting.partner:
            row = rows.setdefault((application, setting.gpus, setting.spread), {})
            row[application, setting] = rate
    for row in rows.values():
        if too_far_apart(list(row.values())):
            slowest = min((key for key in row if row[key] > 0), key=lambda key: row[key])
            problem = f"rate: {row[slowest]:g} is too far from {max(row.values()):g} on another model"
            table.refuse(places[slowest], problem, f"within a factor of {LARGEST_RATIO:,.0f}")


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A throughput with its origin, to be written."""

    value: float
    source: str
    samples: int


def write_csv(throughputs: Mapping[Key, TableEntry]) -> str:
    """Return our CSV.

    It leaves out throughputs without one alone and near to compare with, and those both spread and shared.
    """
    # No name contains anything that would need quoting.
    rows: list[tuple[object, ...]] = [CSV_COLUMNS]
    for (application, setting), throughput in _comparable(throughputs):
        alone = throughputs[application, setting._replace(partner="", spread=False)].value
        rate = throughput.value * alone if setting.partner else throughput.value
        nodes = 2 if setting.spread else ""
        where = (application, setting.gpus, setting.gpu_model)
        rows.append((*where, f"{rate:.9g}", nodes, setting.partner, throughput.source, throughput.samples))
    return "".join([",".join(map(str, row)) + "\n" for row in rows])


def write_gavel(throughputs: Mapping[Key, TableEntry]) -> str:
    """Return Gavel's JSON, with models in lower case as there. Pairs that lack a side are left out."""
    document: dict[str, dict[str, dict[str, Any]]] = {}
    for (application, setting), throughput in sorted(throughputs.items()):
        if not setting.partner:
            model = setting.gpu_model.lower() + (_SPREAD if setting.spread else "")
            rates = document.setdefault(model, {}).setdefault(_job_type(application, setting.gpus), {})
            rates["null"] = throughput.value
    for (application, setting), throughput in sorted(throughputs.items()):
        partner = setting.partner
        if not partner or setting.spread:
            continue
        alone = throughputs.get((application, setting._replace(partner="")))
        others_alone = throughputs.get((partner, setting._replace(partner="")))
        other = throughputs.get((partner, setting._replace(partner=application)))
        if alone and others_alone and other:
            rates = document[setting.gpu_model.lower()][_job_type(application, setting.gpus)]
            both = [throughput.value * alone.value, other.value * others_alone.value]
            rates[_job_type(partner, setting.gpus)] = both
    return json.dumps(document, indent=1, sort_keys=True)


def _job_type(application: str, gpus: int) -> str:
    return f"('{application}', {gpus})"


def _comparable(throughputs: Mapping[Key, TableEntry]) -> Iterator[tuple[Key, TableEntry]]:
    """Yield throughputs alone and near, and those comparable with a positive one; without partners first."""
    for (application, setting), throughput in sorted(
        throughputs.items(), key=lambda each: (each[0][1].partner != "", each)
    ):
        near = throughputs.get((application, setting._replace(partner="", spread=False)))
        if (
            near
            and not (setting.partner and setting.spread)
            and (near.value > 0 or not (setting.partner or setting.spread))
        ):
            yield (application, setting), throughput
