"""Instances as JSON objects, as people write them (docs/solve.md), and solutions as JSON objects."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from scheduler.core.solvers.checking import checked_instance
from scheduler.core.solvers.errors import InstanceError, Problem
from scheduler.core.solvers.instance import Instance, Pairs
from scheduler.core.solvers.solution import Solution

_TOP = ("models", "jobs", "entities", "pairs")
_MODEL = ("gpus", "price_per_hour")
_PAIR = ("job_classes", "throughput")
#: The numbers of a job besides its throughputs, and their defaults.
_NUMBERS = {
    "gang": 1.0,
    "weight": 1.0,
    "steps_left": math.nan,
    "age_seconds": 0.0,
    "slo_seconds": math.inf,
}
_JOB = ("name", "throughput", "entity", "job_class", "isolated_seconds", *_NUMBERS)


def instance_from(document: Any) -> Instance:
    """Return the instance that a JSON object describes; raise InstanceError that lists everything wrong."""
    reader = _Reader()
    instance = reader.read(document)
    if instance is None:
        raise InstanceError(reader.problems)
    return instance


class _Reader:
    """Reads as much of a document as possible, and notes what is wrong with its form."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def read(self, document: Any) -> Instance | None:
        top = self._object("", "", document, _TOP, needed=("models", "jobs"))
        models = self._object("", "models", top.get("models", {}))
        hardware = [self._model(name, value) for name, value in models.items()]
        jobs = list(self._jobs(top.get("jobs", []), tuple(models)))
        entities = self._object("", "entities", top.get("entities", {}))
        weights = {name: self._number(f"entity {name}", "weight", value) for name, value in entities.items()}
        for job in jobs:
            weights.setdefault(job["entity"], 1.0)
        job_classes = {job["job_class"]: None for job in jobs}
        pairs = self._pairs(top.get("pairs", []), tuple(models), tuple(job_classes))
        if self.problems:
            return None
        return checked_instance(
            names=[job["name"] for job in jobs],
            models=list(models),
            gpus=[gpus for gpus, _ in hardware],
            price=[price for _, price in hardware],
            throughput=np.array([job["throughput"] for job in jobs]).reshape(len(jobs), len(models)),
            isolated_seconds=[job["isolated_seconds"] for job in jobs],
            entity=[list(weights).index(job["entity"]) for job in jobs],
            entities=list(weights),
            entity_weight=list(weights.values()),
            job_class=[list(job_classes).index(job["job_class"]) for job in jobs],
            job_classes=list(job_classes),
            pairs=pairs,
            **{field: [job[field] for job in jobs] for field in _NUMBERS},
        )

    def _model(self, name: str, value: Any) -> tuple[float, float]:
        subject = f"model {name}"
        if not isinstance(value, dict):
            return self._number(subject, "gpus", value), 1.0
        given = self._object(subject, "", value, _MODEL, needed=("gpus",))
        gpus = self._number(subject, "gpus", given.get("gpus", 0))
        return gpus, self._number(subject, "price_per_hour", given.get("price_per_hour", 1.0))

    def _jobs(self, value: Any, models: Sequence[str]) -> Iterator[dict[str, Any]]:
        for number, entry in enumerate(self._list("", "jobs", value), start=1):
            name = str(entry.get("name", number)) if isinstance(entry, dict) else str(number)
            subject = f"job {name}"
            given = self._object(subject, "", entry, _JOB, needed=("throughput",))
            throughputs = self._object(subject, "throughput", given.get("throughput", {}))
            job: dict[str, Any] = {
                "name": name,
                "entity": str(given.get("entity", "")),
                "job_class": str(given.get("job_class", name)),
                # A table of throughputs may list models that this cluster does not have.
                "throughput": [
                    self._number(subject, f"throughput on {model}", throughputs.get(model, 0.0))
                    for model in models
                ],
            }
            for field, default in _NUMBERS.items():
                job[field] = self._number(subject, field, given[field]) if field in given else default
            age = job["age_seconds"]
            job["isolated_seconds"] = self._number(
                subject, "isolated_seconds", given.get("isolated_seconds", age)
            )
            yield job

    def _pairs(self, value: Any, models: Sequence[str], job_classes: Sequence[str]) -> Pairs | None:
        first, second, throughput = [], [], []
        for number, entry in enumerate(self._list("", "pairs", value), start=1):
            subject = f"pair {number}"
            given = self._object(subject, "", entry, _PAIR, needed=_PAIR)
            both = [str(each) for each in self._list(subject, "job_classes", given.get("job_classes", []))]
            if len(both) != 2:
                self._wrong(subject, "job_classes", f"are {len(both)}", "the classes of two jobs")
                continue
            throughputs = self._object(subject, "throughput", given.get("throughput", {}))
            of_pair = [
                self._two(subject, f"throughput on {model}", throughputs.get(model, [0, 0]))
                for model in models
            ]
            if set(both) <= set(job_classes):
                # A table of pairs may list classes that have no jobs now.
                first.append(job_classes.index(both[0]))
                second.append(job_classes.index(both[1]))
                throughput.append(np.array(of_pair).T.reshape(2, len(models)))
        if not first:
            return None
        return Pairs(first=np.array(first), second=np.array(second), throughput=np.array(throughput))

    def _two(self, subject: str, field: str, value: Any) -> list[float]:
        entries = self._list(subject, field, value)
        if len(entries) != 2:
            self._wrong(
                subject, field, f"has {len(entries)} numbers", "two: of the first and of the second job"
            )
            return [0.0, 0.0]
        return [self._number(subject, field, entry) for entry in entries]

    def _object(
        self, subject: str, field: str, value: Any, known: Sequence[str] = (), needed: Sequence[str] = ()
    ) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            self._wrong(subject, field, "is not an object", "names and values in braces")
            return {}
        for key in value:
            if known and key not in known:
                self._wrong(subject, str(key), "is not known here", f"one of {', '.join(known)}")
        for key in needed:
            if key not in value:
                self._wrong(subject, key, "is missing", "it must be given")
        return value

    def _list(self, subject: str, field: str, value: Any) -> Sequence[Any]:
        if isinstance(value, list):
            return value
        self._wrong(subject, field, "is not a list", "values in brackets")
        return ()

    def _number(self, subject: str, field: str, value: Any) -> float:
        try:
            if isinstance(value, int | float) and not isinstance(value, bool):
                return float(value)
        except OverflowError:
            pass
        self._wrong(subject, field, f"is {_short(value)}", "a number")
        return 0.0

    def _wrong(self, subject: str, field: str, problem: str, hint: str) -> None:
        self.problems.append(Problem(subject, field, problem, hint))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def solution_to(solution: Solution) -> dict[str, Any]:
    """Return a solution as a JSON object; a number that is not finite (no job has a claim) becomes null."""
    instance = solution.instance
    shares, names = solution.shares, instance.names
    return {
        "objective": _finite(solution.objective),
        "achieved": _finite(solution.achieved),
        "spending_per_hour": solution.spending,
        "jobs": [
            {
                "name": names[job],
                "throughput": float(solution.throughput[job]),
                "shares": _by_model(instance, shares[job]),
                "alone": _by_model(instance, solution.alone[job]),
            }
            for job in range(instance.jobs)
        ],
        "shared": [
            {
                "first": [names[job] for job in part.first],
                "second": [names[job] for job in part.second],
                "time": _by_model(instance, part.time),
            }
            for part in solution.shared
        ],
        "gpus_used": _by_model(instance, solution.used),
        "runs_nowhere": [names[job] for job in solution.stuck],
        "misses_slo": [names[job] for job in solution.missed],
        "groups": solution.groups,
        "columns": solution.columns,
    }


def _by_model(instance: Instance, values: Any) -> dict[str, float]:
    return {model: float(value) for model, value in zip(instance.models, values, strict=True)}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
