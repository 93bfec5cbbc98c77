"""Apps, the units of finish-time fairness (K. Mahajan et al., "Themis", NSDI 2020, sections 2 and 4).

An app is one job, or all unfinished jobs of a tenant that name the same search. Its rho is the time from its
submission to its end on the shared cluster, divided by the same on its own even part of the cluster; at most
1 means that sharing did no harm. Work is counted in GPU-seconds of each job's best model, so that the work of
different jobs adds up. Deviations from the paper:

- The even part of one of N apps is an N-th of every GPU model, of which a smaller gang uses what it needs,
  and a larger gang takes turns: as `allocation.instance.Instance.isolated_shares`. The paper divides what the
  app would reach on the whole cluster by N, as if every gang could use all of it: a small gang would then be
  allowed N times the time that it takes in its part. Ours is never longer than that.
- Apps count by weight: that of their tenant as a member, times that of their highest priority. So the N of an
  app is the sum of all weights divided by its own.
- An app of several jobs is one pool of work: it advances at the rate of all its gangs that run, whichever
  these are, and ends when its work is done. The work of an app's ended jobs, and the time before the first of
  the remaining jobs was submitted, no longer count.
- N is the mean over the app's life as far as it is remembered (`Contention`); before, today's stands in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.run_time import size_speed, work_left_seconds
from scheduler.core.building_blocks.service import INSTANT_SECONDS, attained_service
from scheduler.core.building_blocks.time_shares.run_options import RunOption, RunOptions, believed
from scheduler.core.building_blocks.time_shares.solver_input import believed_weights, weight_of
from scheduler.core.fitting.demand import amount_of
from scheduler.core.fitting.holding import Holding
from scheduler.core.model.snapshot import Job, Memory

#: An app's part of the cluster is at least one in this many, however unequal the weights.
MOST_APPS = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """Jobs that count as one. Work is in GPU-seconds of each job's best model."""

    #: A job's number, or "tenant/search".
    name: str
    tenant: str
    #: In the order of their submission; only those that can run here.
    jobs: tuple[Job, ...]
    submitted_at: float
    weight: float
    #: GPUs of all its gangs together; here and below a part of a GPU counts as a fraction.
    gpus: float
    #: By model, the GPUs of the gangs that can run there.
    runnable: Mapping[str, float]
    #: By model, the average speed of those gangs there, relative to each one's best model.
    speeds: Mapping[str, float]
    #: Work done, and left; the latter above 0.
    done: float
    left: float

    @property
    def work(self) -> float:
        """The work of its jobs, done and left."""
        return self.done + self.left


def apps_of(view: View, run_options: RunOptions) -> tuple[App, ...]:
    """Return the apps of a view, by their earliest jobs; jobs that can run on nothing here are in none."""
    weights = believed_weights(view)
    members: dict[str, list[tuple[Job, RunOption]]] = {}
    for number in sorted(view.jobs):
        job = view.jobs[number]
        run_option = run_options.of(job)
        if run_option is not None:
            members.setdefault(name_of(job), []).append((job, run_option))
    return tuple([_app(name, pairs, weights, view) for name, pairs in members.items()])


def weights_by_app(view: View, run_options: RunOptions) -> dict[str, float]:
    """Return the weight of every app of the view, as in `apps_of`."""
    weights = believed_weights(view)
    found: dict[str, float] = {}
    for number in sorted(view.jobs):
        job = view.jobs[number]
        if run_options.of(job) is not None:
            name = name_of(job)
            found[name] = max(found.get(name, 0.0), weights[job.tenant] * weight_of(job))
    return found


def name_of(job: Job) -> str:
    """Return the name of the job's app."""
    return f"{job.tenant}/{job.search}" if job.search else str(job.id)


def _app(name: str, members: list[tuple[Job, RunOption]], weights: Mapping[str, float], view: View) -> App:
    members.sort(key=lambda pair: (pair[0].submitted_at, pair[0].id))
    gpus, done, left, weight = 0.0, 0.0, 0.0, 0.0
    runnable: dict[str, float] = {}
    reached: dict[str, float] = {}
    for job, run_option in members:
        gpus += run_option.amount
        weight = max(weight, weight_of(job))
        before, after = _work(job, run_option, view)
        done, left = done + before, left + after
        for model, speed in run_option.speeds.items():
            runnable[model] = runnable.get(model, 0) + run_option.amount
            reached[model] = reached.get(model, 0.0) + run_option.amount * speed
    tenant = members[0][0].tenant
    return App(
        name=name,
        tenant=tenant,
        jobs=tuple([job for job, _ in members]),
        submitted_at=members[0][0].submitted_at,
        weight=weight * weights[tenant],
        gpus=gpus,
        runnable=runnable,
        speeds={model: reached[model] / runnable[model] for model in runnable},
        done=done,
        left=left,
    )


def _work(job: Job, run_option: RunOption, view: View) -> tuple[float, float]:
    """Return the work that the job has done and has left, in GPU-seconds of its best model here."""
    running, known = view.running.get(job.id), believed(job)
    seconds = work_left_seconds(known, running, view.now, view.default_time_limit_seconds)
    # A second of the job's own gang on the model that its run time holds on is `unit` samples (at the size
    # planned); its best model makes `best` of them.
    best = max(run_option.rates.values())
    left = seconds * amount_of(job) * run_option.unit / best
    done = 0.0
    if job.attained_service or running is not None:
        at_best = {model: rate / best for model, rate in run_option.rates.items()}
        done = sum([had * at_best.get(model, 1.0) for model, had in job.attained_service.items()])
        if running is not None:
            had = attained_service(job, running, view.now) - attained_service(job, None, view.now)
            # The time of its own gang for the same work, as in what is left.
            gpus = len(running.gpus)
            had *= size_speed(known, running.gpu_model, gpus) * job.gpus / gpus if gpus else 1.0
            done += had * at_best.get(running.gpu_model, 1.0)
    return done, left


def elapsed_seconds(app: App, now: float) -> float:
    """Return the time since its submission."""
    return max(0.0, now - app.submitted_at)


def even_rate(app: App, gpus: Mapping[str, int], contention: float) -> float:
    """Return the work a second that the app does alone on one `contention`-th of the GPUs of every model.

    It takes turns on as much of its part as its gangs can use. A gang that could run on several models
    divides its time in proportion to their GPUs. Work is in GPU-seconds of the best model, so this is a
    number of GPUs.
    """
    part = {model: gpus.get(model, 0) / max(contention, 1.0) for model in app.speeds}
    used = sum(part.values())
    squeeze = min(1.0, app.gpus / used) if used else 0.0
    return sum(
        [min(part[model] * squeeze, app.runnable[model]) * speed for model, speed in app.speeds.items()]
    )


def rate_here(app: App, view: View, run_options: RunOptions) -> float:
    """Return the work a second that the app does with what it holds now; 0 when none of it runs."""
    return sum([_rate_of(job, view, run_options) for job in app.jobs])


def _rate_of(job: Job, view: View, run_options: RunOptions) -> float:
    running, run_option = view.running.get(job.id), run_options.of(job)
    if running is None or run_option is None:
        return 0.0
    gpus = amount_of(job, sum(map(len, running.replicas)))
    # It runs there, whatever its throughput says.
    rate = gpus * (run_option.speeds.get(running.gpu_model) or 1.0)
    holding = view.capacity.pending.get(running.jobs)
    if holding is not None and is_spread(holding, view):
        rate *= spread_speed(job, running.gpu_model)
    return rate * running.speeds.get(job.id, 1 / len(running.jobs))


def is_spread(holding: Holding, view: View) -> bool:
    """Return whether a gang is on more nodes than it needs."""
    largest = view.capacity.cluster.fleets[holding.model].largest_node
    return len(holding.parts) > math.ceil(holding.gpus / max(largest, 1))


def spread_speed(job: Job, model: str) -> float:
    """Return the gang's speed over several nodes relative to consolidated; 1 where that is unknown."""
    speed = job.spread_speeds.get(model, 1.0)
    return speed if 0 < speed <= 1 else 1.0


def rho(elapsed: float, left: float, alone: float) -> float:
    """Return finish-time fairness: seconds since submission and seconds left here, over seconds alone."""
    return (elapsed + left) / alone


def rho_now(app: App, view: View, run_options: RunOptions, contention: float) -> float | None:
    """Return the app's rho if it keeps what it holds; None when none of it runs."""
    rate, even = rate_here(app, view, run_options), even_rate(app, run_options.gpus, contention)
    if not (rate > 0 and even > 0):
        return None
    return rho(elapsed_seconds(app, view.now), app.left / rate, app.work / even)


class Contention:
    """The mean number of apps on the cluster since each app came, itself included, by weight.

    Memory: `total`, the sum of weights that stands `since` an instant, its integral up to then (`area`), and
    for each app when it was first seen and the integral at that instant (`came`). The time between rounds
    counts with what the earlier round saw, and the sums change only when the weights do, so the means do not
    depend on the number of rounds.
    """

    def __init__(self, memory: Memory, now: float, weights: Mapping[str, float]) -> None:
        self.total = math.fsum(weights.values())
        self._now, self._since = now, float(memory.get("since", now))
        self._area = float(memory.get("area", 0.0))
        before = float(memory.get("total", self.total))
        if now < self._since:
            # The clock went back, so the memory is useless.
            memory, before, self._since, self._area = {}, self.total, now, 0.0
        if before != self.total:
            self._area, self._since = self._area + before * (now - self._since), now
        came: Mapping[str, Sequence[float]] = memory.get("came", {})
        here = (now, self._integral)
        self._came = {name: came.get(name, here) for name in weights}

    @property
    def _integral(self) -> float:
        return self._area + self.total * (self._now - self._since)

    def of(self, app: App) -> float:
        """Return the mean, 1 to `MOST_APPS`; the time before the app was first seen counts like the
        present.
        """
        now = self.of_now(app)
        if app.weight <= 0:
            return now
        seen_at, area = self._came[app.name]
        life = max(elapsed_seconds(app, self._now), self._now - seen_at)
        if life <= INSTANT_SECONDS:
            return now
        seen = self._now - seen_at
        mean = (self._integral - area + self.total * (life - seen)) / life
        return min(max(1.0, mean / app.weight), MOST_APPS)

    def of_now(self, app: App) -> float:
        """Return the present number of apps by weight, 1 to `MOST_APPS`."""
        apps = self.total / app.weight if app.weight > 0 else float(len(self._came))
        return min(max(1.0, apps), MOST_APPS)

    def remember(self) -> dict[str, Any]:
        """Return the memory for the next round."""
        came = {name: list(entry) for name, entry in self._came.items()}
        return {"since": self._since, "area": self._area, "total": self.total, "came": came}
