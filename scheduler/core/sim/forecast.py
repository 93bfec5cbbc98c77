"""Predict when each waiting job starts: run the coming rounds ahead under each view's own policy and placer.

The present facts go through the simulator three times: once with every job using its whole time limit, once
with each running as long as expected, and once as short as is likely (`run_times`). A job's expected start is
that of the second run; the earliest and the latest of the three are its interval. Longer run times do not
always mean later starts (a job may be backfilled because another one runs longer), so the interval is that of
the three runs, not a bound. Far ahead, rounds are further apart than in the live loop (`Bounds`), so starts
hours ahead come out some percent late.

A forecast assumes that nothing is submitted, fails or is cancelled, that nodes do not fail, that starting and
stopping cost no time, and that a job runs equally long on every GPU model. What an elastic job gains from
more GPUs, or loses with fewer, follows from its goodput facts (`goodput_speeds`). Nodes of serving pools come
and go by the given curves and instants (`pools`), and otherwise stay where they are. Deadlines of draining
nodes, budgets, trial runs (each as long as allowed) and the rules of the market act as in the live loop;
where there is much trade, only that of the next hours (`Bounds.loan_changes`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from scheduler.core.building_blocks.computing import Timekeeper, untimed
from scheduler.core.model.plan import Plan, Tier
from scheduler.core.model.snapshot import Job, JobId, Running, Snapshot
from scheduler.core.round.reservations import UNKNOWN_LIMIT_SECONDS
from scheduler.core.round.run_view import ViewOutcome, queue_of
from scheduler.core.serving_pools.steering import ServingPool
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.goodput_speeds import GoodputSpeeds, scales_by_facts
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.run_times import Assumption, RunTimes, Source, attempt_seconds
from scheduler.core.sim.speeds import Speeds
from scheduler.core.sim.workload import Truth

DAY_SECONDS = 86_400.0
#: The most jobs times rounds that `Bounds.for_jobs` allows.
_JOBS_TIMES_ROUNDS = 24_000

#: Longer than any horizon.
_AGES_SECONDS = 36_500 * DAY_SECONDS

#: Codes of holds that end automatically.
_PASSING = frozenset(
    {"backoff", "begins_later", "stopping", "dependency", "singleton", "array_limit", "reserved"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How far a forecast looks."""

    horizon_seconds: float = 30 * DAY_SECONDS
    #: The most rounds in each of the three runs.
    rounds: int = 1_000
    #: This many first rounds of the expected run come as in the live loop. After them, the interval between
    #: rounds doubles after every `rounds_to_double` rounds, because far ahead seconds do not matter; if that
    #: is None, never. The other two runs, which only bound the interval of a start, get half of both.
    exact_rounds: int = 16
    rounds_to_double: int | None = 8
    #: After this many changes of guarantees by loans no new loan is made: each costs as much as several
    #: rounds.
    loan_changes: int = 20

    @classmethod
    def for_jobs(cls, jobs: int) -> Bounds:
        """Return bounds that are more exact for fewer jobs, at about the same cost."""
        exact = min(max(_JOBS_TIMES_ROUNDS // max(jobs, 1), 16), 1_000)
        return cls(
            exact_rounds=exact, rounds_to_double=exact // 2, rounds=40 * exact, loan_changes=max(exact, 20)
        )

    def doubles_after(self, rounds: int, kind: Assumption) -> bool:
        """Return whether the interval between rounds doubles after this many rounds."""
        if self.rounds_to_double is None:
            return False
        parts = 1 if kind is Assumption.EXPECTED else 2
        every = max(1, self.rounds_to_double // parts)
        beyond = rounds - self.exact_rounds // parts
        return beyond >= 0 and beyond % every == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """When a waiting job starts. Instants are Unix seconds."""

    job: JobId
    #: The place in its view's queue, 1 for the head; None when it starts at once or is not in a queue.
    position: int | None = None
    #: None if there is no prediction (see `why_not`).
    starts_at: float | None = None
    earliest: float | None = None
    #: None beside an expected start if it is after the horizon.
    latest: float | None = None
    #: Why no start can be predicted, as a sentence; empty otherwise.
    why_not: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The predictions for all requested waiting jobs."""

    made_at: float
    round_number: int
    predictions: Mapping[JobId, Prediction]
    #: "if jobs run as long as ...": completes every prediction.
    assumption: str
    #: Up to this instant rounds are as frequent as in the live loop; later starts are known to about a tenth
    #: of their distance.
    exact_until: float = float("inf")
    #: Rounds of the three runs together.
    rounds: int = 0


def forecast(
    snapshot: Snapshot,
    run_times: RunTimes | None = None,
    *,
    bounds: Bounds | None = None,
    jobs: Collection[JobId] | None = None,
    pools: Sequence[ServingPool] = (),
    timekeeper: Timekeeper = untimed,
) -> Forecast:
    """Predict the start of the snapshot's waiting jobs, or only of those in `jobs`.

    `pools` states how the serving pools lend their nodes, which are in the snapshot. `timekeeper` is that of
    `decide()`.
    """
    run_times, bounds = run_times or RunTimes(), bounds or Bounds.for_jobs(len(snapshot.jobs))
    facts = _without_far_loans(_without_strays(snapshot), bounds.loan_changes)
    subjects = [job for job in waiting_jobs(facts) if jobs is None or job.id in jobs]
    rules = Rules(speeds=believed_speeds(facts))
    runs = {
        kind: _Run(facts, rules, subjects, run_times, bounds, kind, pools, timekeeper)
        for kind in Assumption
        if subjects
    }
    return Forecast(
        made_at=facts.now,
        round_number=facts.round_number,
        predictions={job.id: _prediction(job, runs, bounds) for job in subjects},
        assumption=_assumption({run_times.source(job) for job in facts.jobs}),
        exact_until=runs[Assumption.EXPECTED].exact_until if runs else float("inf"),
        rounds=sum(run.rounds for run in runs.values()),
    )


def waiting_jobs(snapshot: Snapshot) -> list[Job]:
    """Return the jobs that hold no GPUs, in the order of their ids."""
    placed = {job for running in snapshot.running if running.phase == "held" for job in running.jobs}
    return sorted((job for job in snapshot.jobs if job.id not in placed), key=lambda job: job.id)


@dataclass(slots=True)
class _Recorder:
    """Remembers the first round's queues and holds, and which jobs have not started yet."""

    left: list[JobId]
    bounds: Bounds
    kind: Assumption
    positions: dict[JobId, int] = field(default_factory=dict)
    held: dict[JobId, str] = field(default_factory=dict)
    #: (instant, seconds between rounds from then on), ascending.
    coarser: list[tuple[float, float]] = field(default_factory=list)
    is_market_closed: bool = False

    def on_round(self, engine: Engine, outcomes: Sequence[ViewOutcome], plan: Plan) -> None:
        if engine.rounds > 1:
            self._stride(engine)
            if not self.is_market_closed and engine.loan_changes >= self.bounds.loan_changes:
                engine.close_market()
                self.is_market_closed = True
            return
        for outcome in outcomes:
            self.positions.update((job, place) for place, job in enumerate(queue_of(outcome), start=1))
        for job, reasons in engine.round_engine.admission.held_back.items():
            lasting = [
                reason.message
                for reason in reasons
                if reason.tier in (Tier.NEVER, Tier.HELD) and reason.code not in _PASSING
            ]
            if lasting:
                self.held[job] = lasting[0]
        self.left = [job for job in self.left if job not in self.held]

    def _stride(self, engine: Engine) -> None:
        if self.bounds.doubles_after(engine.rounds, self.kind):
            # Doubled, so that every later tick is also a tick of the earlier clock.
            facts = engine.round_engine.facts
            facts.frame = replace(facts.frame, round_seconds=2 * facts.frame.round_seconds)
            self.coarser.append((engine.now, facts.frame.round_seconds))

    def between_rounds(self, at: float, round_seconds: float) -> float:
        """Return about when a start would have been if rounds were as frequent as in the live loop.

        Its GPUs became free at some instant since the previous round: half an interval ago, on average.
        """
        place = bisect_left(self.coarser, (at,)) - 1
        if place < 0:
            return at
        since, apart = self.coarser[place]
        return max(since, at - (apart - round_seconds) / 2)

    def all_started(self, engine: Engine) -> bool:
        # Check from the end, so that each job is checked only until it has started.
        while self.left and engine.progress[self.left[-1]].first_started_at is not None:
            self.left.pop()
        return not self.left


class _Run:
    """One of the three runs: starts by job, and the first round's queues and holds."""

    def __init__(
        self,
        facts: Snapshot,
        rules: Rules,
        subjects: Sequence[Job],
        run_times: RunTimes,
        bounds: Bounds,
        kind: Assumption,
        pools: Sequence[ServingPool],
        timekeeper: Timekeeper,
    ) -> None:
        self._recorder = _Recorder([job.id for job in subjects], bounds, kind)
        self._ends_at, self._most_rounds = facts.now + bounds.horizon_seconds, bounds.rounds
        truths = believed_truths(facts, rules.speeds, run_times, kind)
        engine = Engine(
            facts,
            rules=rules,
            truths=truths,
            pools=pools,
            on_round=self._recorder.on_round,
            timekeeper=timekeeper,
        )
        engine.run(self._is_enough)
        self.rounds = engine.rounds
        self.exact_until = min([since for since, _ in self._recorder.coarser], default=float("inf"))
        self.out_of_rounds = engine.rounds >= bounds.rounds
        self.out_of_time = engine.now >= self._ends_at
        self.positions, self.held = self._recorder.positions, self._recorder.held
        #: Why the jobs held back in the last round may not start.
        self.held_at_end = {
            job: reasons[0].message for job, reasons in engine.round_engine.admission.held_back.items()
        }
        self.starts = {
            job.id: max(self._recorder.between_rounds(at, facts.round_seconds), _not_before(job, facts))
            for job in subjects
            if (at := engine.progress[job.id].first_started_at) is not None and at <= self._ends_at
        }

    def _is_enough(self, engine: Engine) -> bool:
        too_far = engine.now >= self._ends_at or engine.rounds >= self._most_rounds
        return too_far or self._recorder.all_started(engine)


def _not_before(job: Job, facts: Snapshot) -> float:
    """Return the instant at which a job, or its reservation, begins."""
    own = [each.starts_at for each in facts.reservations if each.is_for(job) and facts.now < each.ends_at]
    return max([job.eligible_at, *own])


def _prediction(job: Job, runs: Mapping[Assumption, _Run], bounds: Bounds) -> Prediction:
    expected = runs[Assumption.EXPECTED]
    if job.id in expected.held:
        return Prediction(job=job.id, why_not=expected.held[job.id])
    starts = [run.starts[job.id] for run in runs.values() if job.id in run.starts]
    position = expected.positions.get(job.id)
    if job.id not in expected.starts:
        return Prediction(
            job=job.id,
            position=position,
            earliest=min(starts, default=None),
            why_not=_why_not(job.id, expected, bounds),
        )
    return Prediction(
        job=job.id,
        position=position,
        starts_at=expected.starts[job.id],
        earliest=min(starts),
        latest=max(starts) if len(starts) == len(runs) else None,
    )


def _why_not(job: JobId, run: _Run, bounds: Bounds) -> str:
    if run.out_of_time:
        return f"It is not expected to start within {bounds.horizon_seconds / DAY_SECONDS:g} days."
    if run.out_of_rounds:
        return f"It is further ahead than the {bounds.rounds:,} rounds that a forecast looks at."
    if job in run.held_at_end:
        return run.held_at_end[job]
    return (
        "Nothing that is known of would let it start: even when all that runs has ended, what it asks for"
        " is not free for it."
    )


def believed_speeds(facts: Snapshot) -> Speeds:
    """Return the assumed speeds of jobs on any GPUs."""
    return GoodputSpeeds(gpus_per_node=max([len(node.gpus) for node in facts.nodes], default=1) or 1)


def believed_truths(
    facts: Snapshot, speeds: Speeds, run_times: RunTimes, kind: Assumption
) -> dict[JobId, Truth]:
    """Return the work of each job: the seconds that it will run where it is."""
    limits = {vc.name: vc.default_time_limit_seconds for vc in facts.virtual_clusters}
    current = {job: running for running in facts.running for job in running.jobs}
    node_of = {gpu.id: node.id for node in facts.nodes for gpu in node.gpus}

    def rate(job: Job, running: Running) -> float:
        """Return the rate that the simulator will use."""
        if not running.gpus:
            return 1.0
        nodes = len({node_of.get(gpu) for gpu in running.gpus})
        return speeds.alone(job, running.gpu_model, len(running.gpus), nodes) / len(running.jobs)

    def truth(job: Job, running: Running | None) -> Truth:
        present = rate(job, running) if running else 1.0
        if job.trial is not None:
            left = max(0.0, job.trial.seconds - attempt_seconds(job, running, facts.now))
            return Truth(work_seconds=left * present, after_trial=truth(job.trial.gang, None))
        default = limits.get(job.virtual_cluster, UNKNOWN_LIMIT_SECONDS)
        believed = present if running and running.phase == "held" and scales_by_facts(job) else None
        left = run_times.left_seconds(job, running, facts.now, default, kind, believed)
        return Truth(work_seconds=left * present)

    return {job.id: truth(job, current.get(job.id)) for job in facts.jobs}


def _without_strays(snapshot: Snapshot) -> Snapshot:
    """Leave out allocations of jobs that are gone, so that their GPUs are free at once."""
    known = {job.id for job in snapshot.jobs}
    if all(known.issuperset(running.jobs) for running in snapshot.running):
        return snapshot
    return replace(
        snapshot, running=tuple(running for running in snapshot.running if known.issuperset(running.jobs))
    )


def _without_far_loans(snapshot: Snapshot, most: int) -> Snapshot:
    """Keep only the next few beginnings and ends of existing loans."""
    lending, now = snapshot.lending, snapshot.now
    if lending is None:
        return snapshot
    changes = sorted({at for loan in lending.loans for at in (loan.starts_at, loan.ends_at) if at > now})
    if len(changes) <= most:
        return snapshot
    last = changes[most - 1]
    loans = [
        replace(loan, ends_at=loan.ends_at if loan.ends_at <= last else now + _AGES_SECONDS)
        for loan in lending.loans
        if loan.starts_at <= last
    ]
    return replace(snapshot, lending=replace(lending, loans=tuple(loans)))


def _assumption(sources: Iterable[Source]) -> str:
    words = {
        Source.STEPS: "as their steps suggest",
        Source.ESTIMATE: "as they were estimated to",
        Source.HISTORY: "as jobs like them usually did",
        Source.LIMIT: "half of their time limit where nothing better is known",
    }
    found = set(sources)
    known = [words[source] for source in Source if source in found and source is not Source.LIMIT]
    parts = [f"as long {' or '.join(known)}"] if known else []
    if Source.LIMIT in found:
        parts.append(words[Source.LIMIT] if known else "half of their time limit")
    ran = ", or ".join(parts) or "as long as is usual"
    return f"if jobs run {ran}, and nothing new is submitted"
