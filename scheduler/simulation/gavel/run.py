"""Run an experiment in Gavel's own rounds (`--rounds gavel`, docs/simulator.md), with the usual result.

These rounds compare policies, not platforms: there are no virtual clusters, quotas, placers, costs or
failures. A job runs on every model for which its throughput table has a rate.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from scheduler.core.model.snapshot import GpuId, NodeId
from scheduler.core.sim.result import JobRecord, Result, Sample, Stay, StayEnd
from scheduler.core.sim.workload import Arrival
from scheduler.simulation.errors import InputError
from scheduler.simulation.experiment import Experiment, Milestone
from scheduler.simulation.gavel.choices import DEPARTURES, rules_named, shares_named
from scheduler.simulation.gavel.jobs import Cluster, RoundJob, Standing, Unit
from scheduler.simulation.gavel.rounds import Course, GavelRounds, Outcome, Rules, Shares, Turn
from scheduler.simulation.inventory import ClusterSpec
from scheduler.simulation.rates import ThroughputTable

#: The default length of a round, in seconds.
ROUND_SECONDS = 360.0


def simulate_rounds(
    experiment: Experiment,
    *,
    on_progress: Callable[[Milestone], None],
    is_interrupted: Callable[[], bool],
) -> Result:
    """Run to the end, or until `is_interrupted`; raise InputError for what these rounds do not support."""
    table = experiment.rules.speeds.tables
    if not isinstance(table, ThroughputTable) or not table.reference:
        raise InputError("--rounds gavel needs rates by GPU model: give --throughputs")
    rules = rules_named(experiment.rounds, round_seconds=experiment.round_seconds, seed=experiment.rules.seed)
    shares = _TimedPolicy(shares_named(experiment.policy, experiment.rules.seed))
    arrivals = experiment.workload.arrivals
    models = _models(experiment.cluster)
    jobs, kinds = _jobs(arrivals, models, table)
    cluster = _cluster(experiment.cluster, models, kinds, table, shares.sharing)
    recorder = _Recorder(experiment.cluster, models, arrivals)
    reported = 0

    def is_over() -> bool:
        nonlocal reported
        if rounds.ended >= reported + max(1, len(arrivals) // 100):
            reported = rounds.ended
            on_progress(Milestone(ended_jobs=reported, jobs=len(arrivals), now=recorder.now))
        return is_interrupted()

    first, end = experiment.window or (0, len(arrivals))
    rounds = GavelRounds(cluster, jobs, shares, rules, on_turns=recorder.see)
    began = time.process_time()
    outcome = rounds.run(range(first, end), is_over)
    elapsed = time.process_time() - began
    left_out = (*experiment.workload.left_out, *experiment.cluster.left_out)
    notes = (
        *experiment.workload.notes,
        *experiment.cluster.notes,
        *_about(rules, outcome, len(arrivals)),
        *left_out,
    )
    return Result(
        policy=experiment.policy,
        placer="gavel",
        workload=experiment.workload.name,
        cluster=experiment.cluster.name,
        seed=experiment.rules.seed,
        round_seconds=rules.round_seconds,
        gpus_by_model=experiment.cluster.gpus_by_model,
        node_names={node.id: node.name for node in experiment.cluster.nodes},
        jobs=tuple(
            [
                _record(arrivals[number], jobs[number], course, table)
                for number, course in outcome.courses.items()
            ]
        ),
        stays=tuple(recorder.stays(outcome)),
        samples=tuple(recorder.samples),
        rounds=outcome.rounds,
        elapsed_seconds=elapsed,
        decide_seconds=shares.seconds,
        began_at=0.0,
        ended_at=outcome.ended_at,
        cut_short=_why_early(outcome),
        notes=notes,
        left_out=left_out,
    )


class _TimedPolicy:
    """A policy that counts the processor seconds of its decisions."""

    def __init__(self, shares: Shares) -> None:
        self._shares, self.seconds = shares, 0.0
        self.knows_speeds, self.sharing, self.strict = shares.knows_speeds, shares.sharing, shares.strict

    def decide(self, standing: Standing) -> Mapping[Unit, Sequence[float]]:
        began = time.process_time()
        decided = self._shares.decide(standing)
        self.seconds += time.process_time() - began
        return decided


# The input


def _models(cluster: ClusterSpec) -> tuple[str, ...]:
    """Return the models in the order of the cluster."""
    return tuple(dict.fromkeys(node.gpu_model for node in cluster.nodes))


def _jobs(
    arrivals: Sequence[Arrival], models: Sequence[str], table: ThroughputTable
) -> tuple[list[RoundJob], dict[tuple[str, int], int]]:
    """Return the jobs, and the number of each kind: an application with a gang size."""
    kinds: dict[tuple[str, int], int] = {}
    rates: dict[tuple[str, int], tuple[float, ...]] = {}
    jobs = []
    for arrival in arrivals:
        job = arrival.job
        if job.has_parts:
            raise InputError(
                f"job {job.id} has part of a GPU, which Gavel's rounds do not support; leave it out"
            )
        key = job.application, job.gpus
        if key not in rates:
            rates[key] = tuple([_rate(table, *key, model) for model in models])
            kinds[key] = len(kinds)
        accepted = [
            rate if not job.gpu_models or model in job.gpu_models else 0.0
            for model, rate in zip(models, rates[key], strict=True)
        ]
        if not any(accepted):
            raise InputError(
                f"job {job.id}: {table.name} has no rate of {job.application} with {job.gpus} GPUs on a model"
                " of this cluster; leave such jobs out"
            )
        jobs.append(
            RoundJob(
                arrived_at=job.submitted_at,
                gang=job.gpus,
                steps=_steps(arrival, table),
                rates=tuple(accepted),
                kind=kinds[key],
                weight=1.0 + job.priority,
                slo_seconds=math.inf if job.deadline_at is None else job.deadline_at - job.submitted_at,
            )
        )
    return jobs, kinds


def _rate(table: ThroughputTable, application: str, gpus: int, model: str) -> float:
    """Return the steps per second of a gang; if its size was not measured, those of a smaller one."""
    size = table.measured_size(application, gpus)
    return table.alone.get((application, size or gpus, model.lower()), 0.0)


def _steps(arrival: Arrival, table: ThroughputTable) -> float:
    """Return the steps of a job. In a trace, they were whole before they were converted to seconds."""
    rate = table.reference_rate(arrival.job.application, arrival.job.gpus) or 0.0
    steps = arrival.truth.work_seconds * rate
    whole = float(round(steps))
    return whole if abs(steps - whole) <= 2 * math.ulp(steps) else steps


def _cluster(
    spec: ClusterSpec,
    models: tuple[str, ...],
    kinds: Mapping[tuple[str, int], int],
    table: ThroughputTable,
    sharing: bool,
) -> Cluster:
    pairs: dict[tuple[int, int], tuple[tuple[float, float], ...]] = {}
    for (one, gpus), first in kinds.items() if sharing else ():
        for (other, others_gpus), second in kinds.items():
            known = any((one, other, gpus, model.lower()) in table.pairs for model in models)
            if gpus == others_gpus and known:
                # Include pairs that fit nowhere together, as the published tables do.
                pairs[first, second] = tuple(
                    [_rates_together(table, one, other, gpus, model) for model in models]
                )
    return Cluster(
        models=models,
        gpus=tuple([spec.gpus_by_model[model] for model in models]),
        prices=tuple([spec.prices.get(model, 1.0) for model in models]),
        pairs=pairs,
    )


def _rates_together(
    table: ThroughputTable, one: str, other: str, gpus: int, model: str
) -> tuple[float, float]:
    """Return the rates of two jobs on the same GPUs; zeros where nothing was measured."""
    model = model.lower()
    first = table.pairs.get((one, other, gpus, model), 0.0)
    second = table.pairs.get((other, one, gpus, model), 0.0)
    return first * _rate(table, one, gpus, model), second * _rate(table, other, gpus, model)


# The result


def _record(arrival: Arrival, job: RoundJob, course: Course, table: ThroughputTable) -> JobRecord:
    ended = "failed" if course.failed else "succeeded"
    begun = "waiting" if course.started_at is None else "running"
    rate = table.reference_rate(arrival.job.application, arrival.job.gpus)
    return JobRecord(
        id=arrival.job.id,
        tenant=arrival.job.tenant,
        virtual_cluster=arrival.job.virtual_cluster,
        application=arrival.job.application,
        gpus=job.gang,
        guaranteed=True,
        submitted_at=job.arrived_at,
        work_seconds=arrival.truth.work_seconds,
        status=arrival.truth.status,
        best_rate=max(job.rates) / rate if rate else 1.0,
        first_started_at=course.started_at,
        ended_at=course.ended_at,
        outcome=begun if course.ended_at is None else ended,
        attempts=course.starts,
        preemptions=course.preemptions,
        migrations=course.moves,
        held_seconds=course.held_seconds,
        gpu_seconds=course.held_seconds * job.gang,
    )


def _why_early(outcome: Outcome) -> str:
    if outcome.without_shares:
        return f"the policy found no shares: {outcome.without_shares}"
    return "" if outcome.complete else "it was interrupted, or no waiting job can ever run"


def _about(rules: Rules, outcome: Outcome, jobs: int) -> list[str]:
    departures = [
        f"{name}={value}" for name in DEPARTURES if (value := getattr(rules, name)) != getattr(Rules(), name)
    ]
    said = [
        "Gavel's own rounds" + (f", but {', '.join(departures)}." if departures else ", to the second."),
        f"{outcome.decisions:,} decisions; {outcome.renewed:,} of {outcome.renewable:,} leases were renewed;"
        f" {outcome.utilisation:.3f} of the GPUs' time was used.",
        f"The GPUs that jobs used cost {sum(each.cost for each in outcome.courses.values()):,.2f}.",
    ]
    failed = sum(course.failed for course in outcome.courses.values())
    if failed:
        said.append(f"{failed:,} jobs failed: they had fewer steps left than GPUs.")
    if len(outcome.courses) == jobs and outcome.ended_at > 0:
        said.append("All jobs had arrived before the end.")
    return said


class _Recorder:
    """Turns the turns of each round into stays and samples."""

    def __init__(self, cluster: ClusterSpec, models: Sequence[str], arrivals: Sequence[Arrival]) -> None:
        self.now = 0.0
        self.samples: list[Sample] = []
        self._arrivals, self._models = arrivals, models
        self._total = sum(cluster.gpus_by_model.values())
        #: By model, the GPUs in the order in which rounds count them, and the node of each.
        self._gpus: dict[str, list[tuple[GpuId, NodeId]]] = {model: [] for model in models}
        for node in cluster.nodes:
            self._gpus[node.gpu_model] += [(gpu.id, node.id) for gpu in node.gpus]
        self._open: dict[Unit, tuple[float, Turn]] = {}
        self._stays: list[Stay] = []

    def see(self, now: float, present: Mapping[int, RoundJob], turns: Sequence[Turn]) -> None:
        """Record a round that begins."""
        self.now = now
        running = {job for turn in turns for job in turn.unit}
        again = {turn.unit for turn in turns if turn.renewed}
        for unit in [unit for unit in self._open if unit not in again]:
            self._close(unit, "moved" if running.issuperset(unit) else "preempted")
        for turn in turns:
            began = self._open[turn.unit][0] if turn.renewed else turn.began_at
            self._open[turn.unit] = began, turn
        held = sum(len(turn.lease.gpus) for turn in turns)
        waiting = [job.gang for number, job in present.items() if number not in running]
        self.samples.append(
            Sample(
                at=now,
                usable_gpus=self._total,
                held_gpus=held,
                running_jobs=len(running),
                waiting_jobs=len(waiting),
                waiting_gpus=sum(waiting),
                most_waiting_jobs=len(waiting),
                fragmentation=0.0,
            )
        )

    def stays(self, outcome: Outcome) -> list[Stay]:
        """Return all stays; stays of jobs that still run at the end are marked as running."""
        for unit in list(self._open):
            self._close(unit, "running")
        ended = {number: course for number, course in outcome.courses.items() if course.ended_at is not None}
        return [self._ended(stay, ended.get(stay.job - 1)) for stay in self._stays]

    def _close(self, unit: Unit, end: StayEnd) -> None:
        began, turn = self._open.pop(unit)
        places = [self._gpus[self._models[turn.lease.model]][gpu] for gpu in turn.lease.gpus]
        for job in unit:
            self._stays.append(
                Stay(
                    job=self._arrivals[job].job.id,
                    gpu_model=self._models[turn.lease.model],
                    gpus=tuple([gpu for gpu, _ in places]),
                    nodes=tuple(dict.fromkeys(node for _, node in places)),
                    started_at=began,
                    ended_at=turn.ended_at,
                    end=end,
                    shared_with=tuple([self._arrivals[other].job.id for other in unit if other != job]),
                )
            )

    @staticmethod
    def _ended(stay: Stay, course: Course | None) -> Stay:
        """Return the stay with how it ended, if its job ended with it."""
        if course is None or course.ended_at is None or stay.ended_at < course.ended_at:
            return stay
        return replace(stay, end="failed" if course.failed else "finished")
