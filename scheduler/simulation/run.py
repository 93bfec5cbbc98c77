"""One simulation: an experiment in, a result out. This is the Python interface of `manage.py simulate`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from scheduler.core.model import wording
from scheduler.core.model.plan import Plan
from scheduler.core.model.plugin_text import format_plugin
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.round.registry import line_in, make_placer, make_policy, traits_of
from scheduler.core.round.run_view import ViewOutcome
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.result import Result
from scheduler.core.sim.stays import with_company
from scheduler.core.sim.workload import Arrival
from scheduler.simulation.errors import InputError
from scheduler.simulation.experiment import Experiment, Milestone
from scheduler.simulation.gavel.run import simulate_rounds
from scheduler.simulation.private import PrivateClusters
from scheduler.wiring.watchdog import ViewOverran, Watchdog

_WITHHELD = "How a job uses GPUs is known once it, or a similar job, has run alone for two to three minutes."


def simulate(
    experiment: Experiment,
    *,
    on_progress: Callable[[Milestone], None] = lambda milestone: None,
    is_interrupted: Callable[[], bool] = lambda: False,
    on_round: Callable[[Engine, Sequence[ViewOutcome], Plan], None] | None = None,
) -> Result:
    """Run to the end, or until `is_interrupted`, which is called after every round.

    A result that ends early is valid as far as it goes, and `cut_short` states the reason. `on_progress` is
    called about a hundred times. Gavel's own rounds have no plans, so they do not call `on_round`.
    """
    if experiment.rounds:
        return simulate_rounds(experiment, on_progress=on_progress, is_interrupted=is_interrupted)
    facts, arrivals = experiment.facts(), _arrivals(experiment)
    if measures_profiles := _measures_profiles(facts):
        arrivals = _withheld(arrivals)
    watchdog = Watchdog(experiment.view_budget_seconds)
    privately = None
    if experiment.private:
        privately = _simulated_privately(experiment, facts, arrivals)
    engine = Engine(
        facts,
        arrivals,
        experiment.rules,
        script=experiment.script,
        pools=experiment.cluster.pools,
        on_round=privately.recording(on_round) if privately else on_round,
        # Reading the processor time costs a system call, which is too slow for twice a round.
        stopwatch=time.perf_counter,
        timekeeper=watchdog.turn_of,
    )
    watch = _Watch(experiment, arrivals, on_progress, is_interrupted)
    began, began_at = time.process_time(), time.perf_counter()
    try:
        left = watchdog.run(lambda: engine.run(until=watch.is_over))
    except ViewOverran as overrun:
        # What happened before this round stands.
        watch.cut_short = _overran(experiment, facts, overrun)
        left = ""
    elapsed, passed = time.process_time() - began, time.perf_counter() - began_at
    result = _result(experiment, facts, arrivals, engine, elapsed_seconds=elapsed, passed_seconds=passed)
    return replace(
        result,
        # With a window, the jobs after it are left as they are.
        cut_short=watch.cut_short or (left if experiment.window is None else ""),
        notes=(*result.notes, *([_WITHHELD] if measures_profiles else []), *result.left_out),
        private=privately.compare(engine, watch.measured) if privately else (),
    )


class _Watch:
    """Says when a run is over, and reports how far it has come."""

    def __init__(
        self,
        experiment: Experiment,
        arrivals: Sequence[Arrival],
        on_progress: Callable[[Milestone], None],
        is_interrupted: Callable[[], bool],
    ) -> None:
        self._experiment, self._jobs = experiment, len(arrivals)
        self._on_progress, self._is_interrupted = on_progress, is_interrupted
        first, end = experiment.window or (0, len(arrivals))
        self._awaited = [arrival.job.id for arrival in arrivals[first:end]]
        self.measured = frozenset(self._awaited)
        #: Why the run ends before its jobs have; "" if it does not.
        self.cut_short = ""
        self._reported = 0

    def is_over(self, engine: Engine) -> bool:
        """Return whether nothing more is to be seen; called after every round."""
        if self._experiment.strict and engine.never:
            raise InputError(f"--strict leaves nothing out: {_never(engine)[0]}")
        ended = engine.ended
        if ended >= self._reported + max(1, self._jobs // 100):
            self._reported = ended
            self._on_progress(Milestone(ended_jobs=ended, jobs=self._jobs, now=engine.now))
        if self._is_interrupted():
            self.cut_short = "it was interrupted"
            return True
        if self._experiment.window is None:
            return False
        # Check from the end: the last job to end is checked until it has ended.
        while self._awaited and _has_ended(engine, self._awaited[-1]):
            self._awaited.pop()
        return not self._awaited


def _simulated_privately(
    experiment: Experiment, facts: Snapshot, arrivals: Sequence[Arrival]
) -> PrivateClusters:
    watchdog = Watchdog(experiment.view_budget_seconds)
    try:
        return watchdog.run(lambda: PrivateClusters(facts, arrivals, experiment.rules, watchdog.turn_of))
    except ViewOverran as overrun:
        raise InputError(f"in its private cluster, {_overran(experiment, facts, overrun)}") from None


def _overran(experiment: Experiment, facts: Snapshot, overrun: ViewOverran) -> str:
    """Say which view took too long, and at which line of its policy or placer it was ended."""
    modules = {
        type(plugin).__module__
        for vc in facts.virtual_clusters
        for plugin in (
            make_policy(vc.policy, vc.policy_parameters),
            make_placer(vc.placer, vc.placer_parameters),
        )
    }
    where = line_in(modules, overrun.__cause__) if overrun.__cause__ is not None else ""
    return (
        f"view {overrun.view}: its policy or placer took longer than the"
        f" {experiment.view_budget_seconds:g} s that a view has in a round, and was ended{where}"
    )


def _result(
    experiment: Experiment,
    facts: Snapshot,
    arrivals: Sequence[Arrival],
    engine: Engine,
    *,
    elapsed_seconds: float,
    passed_seconds: float,
) -> Result:
    """Return what a run found, but not how it ended; it took `elapsed_seconds` of processor time."""
    cluster, workload = experiment.cluster, experiment.workload
    # Predicted ends that did not happen may be long after the last job.
    ended_at = engine.now if engine.round_engine.facts.jobs else engine.happened_at
    all_node_seconds = None if cluster.pools else len(cluster.nodes) * (ended_at - engine.began_at)
    out_seconds = 0.0 if engine.autoscaler is None else engine.autoscaler.out_seconds(ended_at)
    clusters = facts.virtual_clusters
    return Result(
        policy=_named({format_plugin(vc.policy, vc.policy_parameters) for vc in clusters}, experiment.policy),
        placer=_named({format_plugin(vc.placer, vc.placer_parameters) for vc in clusters}, experiment.placer),
        workload=workload.name,
        cluster=cluster.name,
        seed=experiment.rules.seed,
        round_seconds=experiment.round_seconds,
        gpus_by_model=cluster.gpus_by_model,
        node_names={node.id: node.name for node in cluster.nodes},
        division="counts" if cluster.cells is None else "cells",
        guaranteed={vc.name: dict(vc.guaranteed) for vc in clusters},
        members={vc.name: {member.tenant: member.weight for member in vc.members} for vc in clusters},
        speeds=_speeds_by_tenant(experiment, arrivals),
        jobs=tuple(engine.records()),
        stays=with_company(tuple(engine.stays)),
        samples=tuple(engine.samples),
        rounds=engine.rounds,
        node_seconds=None if all_node_seconds is None else all_node_seconds - out_seconds,
        all_node_seconds=all_node_seconds,
        is_autoscaled=engine.autoscaler is not None,
        peak_samples=engine.node_use.samples,
        peaks_exceeded=engine.node_use.exceeded,
        jobs_beyond=len(engine.node_use.beyond),
        elapsed_seconds=elapsed_seconds,
        decide_seconds=elapsed_seconds * engine.decide_seconds / passed_seconds if passed_seconds else 0.0,
        began_at=engine.began_at,
        ended_at=ended_at,
        notes=(*workload.notes, *cluster.notes, *_about(experiment)),
        left_out=(*workload.left_out, *cluster.left_out, *_never(engine)),
        degraded=dict(engine.degraded),
    )


def _arrivals(experiment: Experiment) -> tuple[Arrival, ...]:
    """Return the arrivals; no job accepts a model on which, by its table, it does not fit."""
    speeds, arrivals = experiment.rules.speeds, experiment.workload.arrivals
    if speeds.tables is None:
        return arrivals
    models = tuple(experiment.cluster.gpus_by_model)
    known: dict[object, tuple[str, ...]] = {}
    found = []
    for arrival in arrivals:
        job = arrival.job
        key = job.application, job.gpus, job.gpu_models
        if key not in known:
            accepted = [model for model in job.gpu_models or models if model in models]
            fitting = tuple([model for model in accepted if speeds.alone(job, model, job.gpus, 1) > 0])
            if accepted and not fitting:
                raise InputError(
                    f"{job.application} with {wording.gpus(job.gpus)} fits on none of"
                    f" {wording.listed(accepted)} by the throughput table; leave such jobs out, or simulate a"
                    " model that they fit on"
                )
            known[key] = job.gpu_models if len(fitting) == len(accepted) else fitting
        if known[key] != job.gpu_models:
            arrival = replace(arrival, job=replace(job, gpu_models=known[key]))
        found.append(arrival)
    return tuple(found)


def _measures_profiles(facts: Snapshot) -> bool:
    """Return whether a policy runs jobs to find out their profiles."""
    plugins = [(vc.policy, vc.policy_parameters) for vc in facts.virtual_clusters]
    plugins.append((facts.spare_policy, facts.spare_policy_parameters))
    return any(traits_of(*plugin).measures_profiles for plugin in plugins)


def _withheld(arrivals: tuple[Arrival, ...]) -> tuple[Arrival, ...]:
    """Return the arrivals without profiles, each of which is known only once the job has run."""
    return tuple(
        arrival
        if arrival.job.profile is None
        else replace(
            arrival,
            job=replace(arrival.job, profile=None),
            truth=replace(arrival.truth, profile=arrival.job.profile),
        )
        for arrival in arrivals
    )


def _speeds_by_tenant(
    experiment: Experiment, arrivals: Sequence[Arrival]
) -> Mapping[str, Mapping[str, float]]:
    """Return how fast each tenant's jobs are on every model relative to their best, weighted by work."""
    speeds, models = experiment.rules.speeds, tuple(experiment.cluster.gpus_by_model)
    if speeds.tables is None:
        return {}
    relative: dict[object, dict[str, float]] = {}
    sums: dict[str, dict[str, float]] = {}
    works: dict[str, float] = {}
    for arrival in arrivals:
        job = arrival.job
        key = job.application, job.gpus
        if key not in relative:
            rates = {model: speeds.alone(job, model, job.gpus, 1) for model in models}
            best = max(rates.values(), default=0.0) or 1.0
            relative[key] = {model: rate / best for model, rate in rates.items()}
        work = job.gpus * arrival.truth.work_seconds
        works[job.tenant] = works.get(job.tenant, 0.0) + work
        own = sums.setdefault(job.tenant, dict.fromkeys(models, 0.0))
        for model, speed in relative[key].items():
            own[model] += speed * work
    return {
        tenant: {model: total / works[tenant] for model, total in sorted(own.items())}
        for tenant, own in sorted(sums.items())
        if works[tenant] > 0
    }


def _has_ended(engine: Engine, job: object) -> bool:
    progress = engine.progress.get(job)  # type: ignore[call-overload]
    return progress is not None and bool(progress.outcome)


def _named(found: set[str], given: str) -> str:
    return given or (found.pop() if len(found) == 1 else "the cluster's")


def _about(experiment: Experiment) -> list[str]:
    """Return sentences on the rules of the run."""
    rules = experiment.rules
    said = []
    costs = rules.costs
    if costs.preemption_seconds or costs.migration_seconds:
        said.append(
            f"Starting costs {costs.start_seconds:g} s, a checkpoint {costs.checkpoint_seconds:g} s,"
            f" restoring {costs.restore_seconds:g} s, other GPUs {costs.migration_seconds:g} s more."
        )
    elif not costs.special and not costs.event_seconds:
        said.append("Starting, stopping and moving jobs costs nothing.")
    for each in costs.special:
        gangs = f" of {each.least_gpus} GPUs or more" if each.least_gpus else ""
        said.append(f"{each.name} of {each.application or 'all'} jobs{gangs}: {each.seconds:g} s.")
    if costs.event_seconds:
        said.append(
            f"Other running jobs pay {costs.event_seconds:g} s whenever a round starts, stops or moves a job."
        )
    if not rules.moves:
        said.append("A running job is never moved: it keeps its GPUs, or is preempted.")
    if rules.speeds.tables is None:
        said.append("Every job runs at the same speed on every GPU model.")
    if rules.speeds.default_locality < 1:
        said.append(
            f"A gang runs at {rules.speeds.default_locality:g} of its speed for each node beyond the fewest."
        )
    if rules.tells_steps:
        said.append("Jobs report their steps: measured run times overrule declared ones.")
    if (scaling := rules.autoscaling) is not None:
        most = scaling.max_nodes or len(experiment.cluster.nodes)
        said.append(
            f"{scaling.min_nodes} to {most} nodes are in service, so that their utility is from"
            f" {scaling.low_utility:g} to {scaling.high_utility:g}; that is checked every"
            f" {scaling.every_seconds:g} s."
        )
    if rules.failures.probability:
        said.append(
            f"{rules.failures.probability:.0%} of all attempts meet a failure (classes as in Philly's table);"
            f" a job is tried again up to {rules.failures.retries} times."
        )
    return said


def _never(engine: Engine) -> list[str]:
    if not engine.never:
        return []
    job, reason = next(iter(engine.never.items()))
    jobs = wording.counted(len(engine.never), "job")
    return [f"{jobs} can never run on this cluster. The first, job {job}: {reason}"]
