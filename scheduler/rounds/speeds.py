"""How fast the jobs of a snapshot are: the best that is known of each, by its kind."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from django.db import connection

from scheduler.core.model import snapshot as core
from scheduler.core.perf.knowledge import Knowledge
from scheduler.core.perf.speed import Kind, Setting, Source, Speed, kind_of
from scheduler.speeds.services.on_record import read_knowledge

_MODELS = "SELECT name, price_per_hour FROM scheduler_gpumodel ORDER BY name"
#: Answers kept; jobs that state no application and are all named differently are as many kinds.
_MOST_KEPT = 50_000


class JobSpeeds(NamedTuple):
    """What is known of a job's speeds, as its facts state it."""

    throughput: Mapping[str, float] = {}
    #: The models for which that is an estimate.
    estimated: tuple[str, ...] = ()
    #: How fast it is over several nodes relative to near together, where both are on record.
    spread: Mapping[str, float] = {}
    #: Models on which it is on record, or declared, not to run.
    not_on: frozenset[str] = frozenset()

    def accepted(self, gpu_models: tuple[str, ...]) -> tuple[str, ...]:
        """Return the models that a job accepts (none: any) and runs on; as they were, where it runs on none.

        So that no policy, whether it looks at speeds or not, puts a job where it does not run.
        """
        if not self.not_on:
            return gpu_models
        by_speed = sorted(self.throughput, key=lambda model: (-self.throughput[model], model))
        left = tuple(model for model in gpu_models or by_speed if model not in self.not_on)
        return left or gpu_models


_NOTHING = JobSpeeds()


class KnownSpeeds:
    """Answers for many jobs of few kinds: each kind and shape is thought about once, and again when something
    else is known of it. `before`: who answered so far."""

    def __init__(
        self, knowledge: Knowledge, prices: Mapping[str, float], before: "KnownSpeeds | None" = None
    ) -> None:
        self.knowledge, self.prices = knowledge, prices
        self._entries: Mapping[Kind, object] = knowledge.entries
        self._found: dict[tuple[tuple[str, str] | None, object], JobSpeeds] = {}
        if (
            before is not None
            and before.prices == prices
            and before.knowledge.references is knowledge.references
        ):
            was = before.knowledge.entries
            changed = {kind for kind, entries in knowledge.entries.items() if was.get(kind) != entries}
            self._found = {key: found for key, found in before._found.items() if key[0] not in changed}

    def of(self, kind: tuple[str, str], gpus: int, declared: Mapping[str, float], shape: object) -> JobSpeeds:
        """Return the speeds of a job: `shape` stands for what it declares and its size."""
        known = kind in self._entries
        if not known and not declared:
            return _NOTHING
        # Of kinds that nothing is known of, all that declare the same are alike.
        key = (kind if known else None, shape)
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= _MOST_KEPT:
                self._found.clear()
            found = self._found[key] = self._think(Kind(*kind), gpus, declared)
        return found

    def _think(self, kind: Kind, gpus: int, declared: Mapping[str, float]) -> JobSpeeds:
        models = sorted({*self.prices, *declared})
        speeds = self.knowledge.speeds(kind, gpus, models, declared)
        # What is only assumed is left out: whoever reckons with it assumes the same (`core.run_time`).
        told = {model: speeds[model] for model in models if model in speeds}
        told = {model: speed for model, speed in told.items() if speed.source is not Source.ASSUMED}
        return JobSpeeds(
            throughput={model: speed.value for model, speed in told.items()},
            estimated=tuple(model for model, speed in told.items() if speed.source is Source.ESTIMATED),
            spread=self._spread(kind, gpus, told),
            not_on=frozenset(model for model, speed in told.items() if speed.value == 0),
        )

    def _spread(self, kind: Kind, gpus: int, near: Mapping[str, Speed]) -> dict[str, float]:
        spread = {model: self.knowledge.at(kind, Setting(model, gpus, True, "")) for model in near}
        return {
            model: min(1.0, speed.value / near[model].value)
            for model, speed in spread.items()
            if speed is not None and near[model].value > 0
        }

    def beside(self, first: Kind, second: Kind, gpu_model: str, gpus: int) -> tuple[float, float] | None:
        """Return how fast jobs of two kinds are that share GPUs, relative to alone; None: not known."""
        one = self.knowledge.beside(first, Setting(gpu_model, gpus, False, second.application))
        other = self.knowledge.beside(second, Setting(gpu_model, gpus, False, first.application))
        return None if one is None or other is None else (one, other)

    def pairs(self, kinds: Iterable[tuple[str, str]]) -> tuple[core.PairSpeeds, ...]:
        """Return how fast applications are beside each other, as far as both are among these kinds'."""
        if not self.knowledge.pairs:
            return ()
        present = {application for _, application in kinds}
        return tuple(
            core.PairSpeeds(
                applications=(pair.first, pair.second),
                gpus=pair.gpus,
                gpu_model=pair.gpu_model,
                speeds=speeds,
            )
            for pair, speeds in self.knowledge.pairs.items()
            if pair.first in present and pair.second in present
        )


_newest = KnownSpeeds(Knowledge({}), {})


def submitted_now(job: core.Job, name: str, now: float) -> core.Job:
    """Return a job that was not submitted yet as a snapshot would state it if it were submitted now."""
    with connection.cursor() as cursor:
        speeds = known_speeds(cursor)
    kind = kind_of(job.tenant, job.application, name)
    known = speeds.of(kind, job.gpus, job.throughput, (job.gpus, *sorted(job.throughput.items())))
    deadline_at = None if job.deadline_at is None else job.deadline_at - job.submitted_at + now
    return replace(
        job,
        submitted_at=now,
        deadline_at=deadline_at,
        throughput=known.throughput,
        estimated=known.estimated,
        gpu_models=known.accepted(job.gpu_models),
    )


def known_speeds(cursor: Any) -> KnownSpeeds:
    """Return what is known in the state that the cursor's transaction sees."""
    global _newest
    knowledge = read_knowledge(cursor)
    cursor.execute(_MODELS)
    prices = dict(cursor.fetchall())
    newest = _newest
    if newest.knowledge is not knowledge or newest.prices != prices:
        newest = _newest = KnownSpeeds(knowledge, prices, newest)
    return newest
