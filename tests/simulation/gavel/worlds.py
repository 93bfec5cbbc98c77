"""Small worlds for Gavel's rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.simulation.gavel.jobs import Cluster, RoundJob, Standing, Unit
from scheduler.simulation.gavel.rounds import GavelRounds, Outcome, Rules, Shares

MODELS = ("v100", "p100", "k80")


def cluster(
    *gpus: int, pairs: Mapping[tuple[int, int], Sequence[tuple[float, float]]] | None = None
) -> Cluster:
    return Cluster(
        models=MODELS[: len(gpus)],
        gpus=gpus,
        prices=(1.0,) * len(gpus),
        pairs={kinds: tuple(rates) for kinds, rates in (pairs or {}).items()},
    )


def job(
    at: float, steps: float, *rates: float, gang: int = 1, kind: int = 0, weight: float = 1.0
) -> RoundJob:
    return RoundJob(arrived_at=at, gang=gang, steps=steps, rates=rates or (1.0,), kind=kind, weight=weight)


def run(where: Cluster, jobs: Sequence[RoundJob], shares: Shares, **rules: object) -> Outcome:
    return GavelRounds(where, jobs, shares, Rules(**rules)).run()  # type: ignore[arg-type]


def ends(outcome: Outcome) -> list[float | None]:
    return [course.ended_at for course in outcome.courses.values()]


def starts(outcome: Outcome) -> list[float | None]:
    return [course.started_at for course in outcome.courses.values()]


def standing(where: Cluster, jobs: Sequence[RoundJob], now: float = 0.0) -> Standing:
    numbered = dict(enumerate(jobs))
    return Standing(
        now=now,
        cluster=where,
        jobs=numbered,
        steps_left={number: each.steps for number, each in numbered.items()},
        due_at={number: each.arrived_at + each.slo_seconds for number, each in numbered.items()},
    )


class Given:
    """A policy that always says the same."""

    def __init__(
        self,
        shares: Mapping[Unit, Sequence[float]],
        *,
        knows_speeds: bool = True,
        sharing: bool = False,
        strict: bool = False,
    ) -> None:
        self._shares = shares
        self.knows_speeds, self.sharing, self.strict = knows_speeds, sharing, strict

    def decide(self, standing: Standing) -> Mapping[Unit, Sequence[float]]:
        return {unit: parts for unit, parts in self._shares.items() if set(unit) <= set(standing.jobs)}
