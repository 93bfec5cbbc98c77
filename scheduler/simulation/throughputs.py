"""Read throughput tables. The content of a file shows which kind it is.

- Gavel's throughput JSON (stanford-futuredata/gavel, OSDI'20): steps/s by GPU model, job type and gang size,
  alone and in pairs, and for gangs that are spread over nodes (`*_unconsolidated`);
- Chronus's model_info.json (SoCC'21): relative speed by number of nodes;
- Lucid's colocate_pairs.csv (ASPLOS'23): relative speeds of two jobs on one GPU;
- our own CSV: application, gpus, gpu_model, rate and, where measured, nodes or other (up to three
  applications, with a plus between them).
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from scheduler.core.model import wording
from scheduler.core.perf.throughput import MOST_TOGETHER, partners_of
from scheduler.simulation.errors import ThroughputError
from scheduler.simulation.file_kinds import decoded, json_fault, not_a_table
from scheduler.simulation.rates import ThroughputTable
from scheduler.simulation.traces.fields import as_float

_SPREAD = "_unconsolidated"
#: The most digits of a plausible number of GPUs or nodes.
_DIGITS = 9
_GAVEL_KEY = re.compile(r"\('(.*)', (\d{1,9})\)")


def read_throughputs(path: str | Path, *, reference: str | None = None) -> ThroughputTable:
    """Read a file of any of the four kinds, which its content shows; raise ThroughputError.

    `reference` is the model that counts as 1: by default v100 for Gavel, and the first one for our CSV.
    """
    path = Path(path)
    try:
        text = decoded(path.read_bytes())
    except OSError as error:
        raise ThroughputError(f"{path.name}: cannot be read: {error}") from None
    except ValueError as error:
        raise ThroughputError(f"{path.name}: {error}") from None
    reference = reference.lower() if reference else None
    if text.lstrip().startswith("{"):
        try:
            table = json.loads(text)
        except (ValueError, RecursionError) as error:
            words, place = json_fault(error)
            line = text.count("\n", 0, place or 0) + 1
            raise ThroughputError(f"{path.name}:{line}: is not JSON: {words}") from None
        if any(
            _GAVEL_KEY.fullmatch(key) for rates in table.values() if isinstance(rates, dict) for key in rates
        ):
            return _gavel(path.name, table, reference or "v100")
        return _chronus(path.name, table)
    rows = csv.DictReader(text.splitlines())
    columns = set(rows.fieldnames or ())
    if words := not_a_table(rows.fieldnames or ()):
        raise ThroughputError(f"{path.name}:1: {words}")
    if {"model1", "speed1", "model2", "speed2"} <= columns:
        return _lucid(path.name, rows)
    if missing := sorted({"application", "gpus", "gpu_model", "rate"} - columns):
        raise ThroughputError(
            f"{path.name}:1: the header has no column {wording.listed(missing)}; a throughput table has "
            "application, gpus, gpu_model and rate"
        )
    return _own(path.name, rows, reference)


def _number(place: str, value: Any) -> float:
    number = as_float(value)
    if not 0 <= number < math.inf:
        raise ThroughputError(f"{place}: {value!r} is not a rate of at least 0")
    return number


@lru_cache(maxsize=4096)
def _job_type(key: str) -> tuple[str, int] | None:
    match = _GAVEL_KEY.fullmatch(key)
    return (match[1], int(match[2])) if match else None


def _gavel(name: str, table: Mapping[str, Any], reference: str) -> ThroughputTable:
    alone: dict[tuple[str, int, str], float] = {}
    spread: dict[tuple[str, int, str], float] = {}
    pairs: dict[tuple[str, str, int, str], float] = {}
    for model, entries in table.items():
        for place, key, others in _entries(f"{name}: {model}", entries):
            application, gpus = key
            rate = _number(f"{place}: null", others.get("null"))
            if model.endswith(_SPREAD):
                spread[application, gpus, model.removesuffix(_SPREAD).lower()] = rate
                continue
            alone[application, gpus, model.lower()] = rate
            for other_key, rates in others.items():
                other = _job_type(other_key)
                if other is None:
                    continue
                if not isinstance(rates, list) or len(rates) != 2:
                    raise ThroughputError(f"{place}: {other_key}: {rates!r} is not a pair of rates")
                own = _number(f"{place}: {other_key}", rates[0])
                if other[1] == gpus and rate:
                    pairs[application, other[0], gpus, model.lower()] = own / rate
    if not any(model == reference for _, _, model in alone):
        models = wording.listed(sorted({model for _, _, model in alone}))
        raise ThroughputError(f"{name}: has no rates for the reference model {reference}; it has {models}")
    return ThroughputTable(name=name, reference=reference, alone=alone, spread=spread, pairs=pairs)


def _entries(place: str, entries: Any) -> Iterator[tuple[str, tuple[str, int], Mapping[str, Any]]]:
    if not isinstance(entries, dict):
        raise ThroughputError(f"{place}: must be an object of job types")
    for key, others in entries.items():
        kind = _job_type(key)
        if kind is None or not isinstance(others, dict):
            raise ThroughputError(
                f"{place}: {key!r} is not a job type such as ('LM (batch size 5)', 2) with its rates"
            )
        yield f"{place}: {key}", kind, others


def _chronus(name: str, table: Mapping[str, Any]) -> ThroughputTable:
    by_nodes: dict[tuple[str, int], Mapping[int, float]] = {}
    for model, sizes in table.items():
        if not isinstance(sizes, dict) or not all(isinstance(speeds, dict) for speeds in sizes.values()):
            raise ThroughputError(f"{name}: {model}: must be GPUs -> number of nodes -> relative speed")
        for gpus, speeds in sizes.items():
            place = f"{name}: {model}: {gpus}"
            if not all(text.isdecimal() and len(text) <= _DIGITS for text in (gpus, *speeds)):
                raise ThroughputError(f"{place}: numbers of GPUs and of nodes must be whole numbers")
            by_nodes[model, int(gpus)] = {
                int(nodes): _number(f"{place}: {nodes}", speed) for nodes, speed in speeds.items()
            }
    return ThroughputTable(name=name, by_nodes=by_nodes)


def lucid_application(model: str, dataset: str, batch_size: str, amp: str) -> str:
    """Return the name of one of Lucid's configurations, such as "ResNet18/CIFAR-10/64" or ".../64/amp"."""
    return f"{model}/{dataset}/{batch_size}" + ("/amp" if amp in {"1", "1.0", "True"} else "")


def _lucid(name: str, rows: csv.DictReader[str]) -> ThroughputTable:
    pairs: dict[tuple[str, str, int, str], float] = {}
    for row in rows:
        one, two = (
            lucid_application(row[f"model{n}"], row[f"dataset{n}"], row[f"batchsize{n}"], row[f"amp{n}"])
            for n in "12"
        )
        place = f"{name}:{rows.line_num}"
        pairs[one, two, 1, ""] = _number(f"{place}: speed1", row["speed1"])
        pairs[two, one, 1, ""] = _number(f"{place}: speed2", row["speed2"])
    return ThroughputTable(name=name, pairs=pairs)


def _own(name: str, rows: csv.DictReader[str], reference: str | None) -> ThroughputTable:
    alone: dict[tuple[str, int, str], float] = {}
    apart: list[tuple[str, str, int, str, int, float]] = []
    beside: list[tuple[str, str, int, str, tuple[str, ...], float]] = []
    for row in rows:
        place = f"{name}:{rows.line_num}"
        application, model = row["application"], (row["gpu_model"] or "").lower()
        reference = reference or model
        gpus, nodes = _whole(place, "gpus", row["gpus"]), row.get("nodes") or ""
        rate = _number(f"{place}: rate", row["rate"])
        if other := row.get("other"):
            beside.append((place, application, gpus, model, _others(place, other, nodes), rate))
        elif nodes not in {"", "1"}:
            apart.append((place, application, gpus, model, _whole(place, "nodes", nodes), rate))
        else:
            alone[application, gpus, model] = rate
    by_nodes: dict[tuple[str, int], dict[int, float]] = {}
    pairs: dict[tuple[str, str, int, str], float] = {}
    groups: dict[tuple[str, tuple[str, ...], int, str], float] = {}
    for place, application, gpus, model, nodes_count, rate in apart:
        whole = _alone_first(place, alone, (application, gpus, model))
        if model == reference:
            by_nodes.setdefault((application, gpus), {1: 1.0})[nodes_count] = rate / whole
    for place, application, gpus, model, others, rate in beside:
        speed = rate / _alone_first(place, alone, (application, gpus, model))
        if len(others) == 1:
            pairs[application, others[0], gpus, model] = speed
        else:
            groups[application, others, gpus, model] = speed
    return ThroughputTable(
        name=name, reference=reference or "", alone=alone, by_nodes=by_nodes, pairs=pairs, groups=groups
    )


def _others(place: str, text: str, nodes: str) -> tuple[str, ...]:
    """Return the applications beside which a rate was measured, in alphabetical order."""
    others = tuple(sorted([other.strip() for other in partners_of(text)]))
    if not all(others):
        raise ThroughputError(
            f"{place}: other: {text!r} has a plus without an application on both sides of it"
        )
    if len(others) >= MOST_TOGETHER:
        raise ThroughputError(
            f"{place}: other: {text!r} are {len(others)} applications; at most {MOST_TOGETHER} gangs share "
            f"GPUs, so {MOST_TOGETHER - 1} can be beside one"
        )
    if len(others) > 1 and nodes not in {"", "1"}:
        raise ThroughputError(
            f"{place}: a row says how fast a gang is over nodes, or beside others, not both"
        )
    return others


def _whole(place: str, column: str, text: str) -> int:
    if not (text or "").isdecimal() or len(text) > _DIGITS or int(text) < 1:
        raise ThroughputError(f"{place}: {column}: {text!r} is not a whole number of at least 1")
    return int(text)


def _alone_first(place: str, alone: Mapping[tuple[str, int, str], float], key: tuple[str, int, str]) -> float:
    if not (rate := alone.get(key)):
        application, gpus, model = key
        raise ThroughputError(
            f"{place}: rate: {application} with {gpus} GPUs on {model} needs a row without nodes and other: "
            "how fast it is alone"
        )
    return rate
