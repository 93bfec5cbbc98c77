"""The throughputs of the jobs of a snapshot: the best known ones of each, by its job class."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from scheduler.core.model.interference import GroupSpeeds, PairSpeeds
from scheduler.core.perf.estimator import ThroughputEstimator
from scheduler.core.perf.throughput import JobClass, Setting, Source, Throughput
from scheduler.telemetry.throughputs.services.on_record import read_estimator

_MODELS = "SELECT name, price_per_hour FROM scheduler_gpumodel ORDER BY name"
#: Answers kept; jobs that state no application and are all named differently are as many job classes.
_MOST_KEPT = 50_000


class JobThroughputs(NamedTuple):
    """The known throughputs of a job, as its facts state them."""

    throughput: Mapping[str, float] = {}
    #: The models for which that is an estimate.
    estimated: tuple[str, ...] = ()
    #: Its speed over several nodes relative to its speed near together, where both are on record.
    spread: Mapping[str, float] = {}
    #: Models on which it is on record, or declared, not to run.
    not_on: frozenset[str] = frozenset()

    def accepted(self, gpu_models: tuple[str, ...]) -> tuple[str, ...]:
        """Return the models that a job accepts (none: any) and runs on; unchanged, if it runs on none.

        So no policy puts a job where it does not run, whether the policy reads throughputs or not.
        """
        if not self.not_on:
            return gpu_models
        fastest_first = sorted(self.throughput, key=lambda model: (-self.throughput[model], model))
        left = tuple(model for model in gpu_models or fastest_first if model not in self.not_on)
        return left or gpu_models


_NOTHING = JobThroughputs()


class KnownThroughputs:
    """Throughputs of many jobs of few job classes, computed once for each class and shape, and again when
    other facts are known of it. `before`: the predecessor, whose answers are kept where they still hold."""

    def __init__(
        self,
        estimator: ThroughputEstimator,
        prices: Mapping[str, float],
        before: "KnownThroughputs | None" = None,
    ) -> None:
        self.estimator, self.prices = estimator, prices
        self._entries: Mapping[JobClass, object] = estimator.entries
        self._found: dict[tuple[tuple[str, str] | None, object], JobThroughputs] = {}
        if (
            before is not None
            and before.prices == prices
            and before.estimator.references is estimator.references
        ):
            was = before.estimator.entries
            changed = {
                job_class for job_class, entries in estimator.entries.items() if was.get(job_class) != entries
            }
            self._found = {key: found for key, found in before._found.items() if key[0] not in changed}

    @property
    def job_classes(self) -> Iterable[JobClass]:
        """The job classes with records."""
        return self._entries

    def of(
        self, job_class: tuple[str, str], gpus: int, declared: Mapping[str, float], shape: object
    ) -> JobThroughputs:
        """Return the throughputs of a job: `shape` stands for what it declares and its size."""
        known = job_class in self._entries
        if not known and not declared:
            return _NOTHING
        # Unknown job classes that declare the same are alike.
        key = (job_class if known else None, shape)
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= _MOST_KEPT:
                self._found.clear()
            found = self._found[key] = self._think(JobClass(*job_class), gpus, declared)
        return found

    def _think(self, job_class: JobClass, gpus: int, declared: Mapping[str, float]) -> JobThroughputs:
        models = sorted({*self.prices, *declared})
        throughputs = self.estimator.throughputs(job_class, gpus, models, declared)
        # Assumed ones are left out: the policies that need them assume the same (`core.run_time`).
        known = {
            model: throughputs[model]
            for model in models
            if model in throughputs and throughputs[model].source is not Source.ASSUMED
        }
        return JobThroughputs(
            throughput={model: each.value for model, each in known.items()},
            estimated=tuple(
                model for model, throughput in known.items() if throughput.source is Source.ESTIMATED
            ),
            spread=self._spread(job_class, gpus, known),
            not_on=frozenset(model for model, each in known.items() if each.value == 0),
        )

    def _spread(self, job_class: JobClass, gpus: int, near: Mapping[str, Throughput]) -> dict[str, float]:
        spread = {model: self.estimator.at(job_class, Setting(model, gpus, True, "")) for model in near}
        return {
            model: min(1.0, throughput.value / near[model].value)
            for model, throughput in spread.items()
            if throughput is not None and near[model].value > 0
        }

    def pairs(self, job_classes: Iterable[tuple[str, str]]) -> tuple[PairSpeeds, ...]:
        """Return how fast applications are beside each other, as far as both are among these job classes'."""
        if not self.estimator.pairs:
            return ()
        present = {application for _, application in job_classes}
        return tuple(
            PairSpeeds(
                applications=(pair.first, pair.second),
                gpus=pair.gpus,
                gpu_model=pair.gpu_model,
                speeds=speeds,
            )
            for pair, speeds in self.estimator.pairs.items()
            if pair.first in present and pair.second in present
        )

    def groups(self, job_classes: Iterable[tuple[str, str]]) -> tuple[GroupSpeeds, ...]:
        """Return the same for three applications or more."""
        present = {application for _, application in job_classes} if self.estimator.groups else set[str]()
        return tuple(
            GroupSpeeds(
                applications=group.applications, gpus=group.gpus, gpu_model=group.gpu_model, speeds=speeds
            )
            for group, speeds in self.estimator.groups.items()
            if len(group.applications) > 2 and present.issuperset(group.applications)
        )


_newest = KnownThroughputs(ThroughputEstimator({}), {})


def known_throughputs(cursor: Any) -> KnownThroughputs:
    """Return the throughputs that are known in the state of the cursor's transaction."""
    global _newest
    estimator = read_estimator(cursor)
    cursor.execute(_MODELS)
    prices = dict(cursor.fetchall())
    newest = _newest
    if newest.estimator is not estimator or newest.prices != prices:
        newest = _newest = KnownThroughputs(estimator, prices, newest)
    return newest
