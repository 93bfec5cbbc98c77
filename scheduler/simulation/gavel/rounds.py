"""The clock of Gavel's published simulator: rounds of 360 s, shares at most every 1,920 s.

Unlike the ordinary simulator, it has these rules:

- A round lasts until the last of its jobs has done its part: as many whole steps as fit into the round, or
  all that are left. A job that is done earlier leaves its GPUs idle until then.
- Shares are decided again at the end of a round if jobs came or went, and the last decision is long enough
  ago, or was at time 0. A job that came since then has no share, but may keep others from leftover GPUs.
- Stopping, moving and starting cost nothing.

Four oddities of the published code change results, so they are kept. The assumed length of a round runs from
the end of the round before, though nothing may have run in between. Steps are divided among the GPUs of a
gang, and a round in which one of them gets no step has done nothing; a job fails at the fifth such round in a
row. Two jobs in a pair are both as late as the later one. And when nothing runs and no other job will come,
the last decision counts as made at time 0.

`Rules` are the departures from all that. Without any, results are those of the published code to the second,
where shares do not depend on a solver.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from scheduler.core.solvers.errors import SolverError
from scheduler.simulation.gavel.jobs import Cluster, RoundJob, Standing, Unit
from scheduler.simulation.gavel.turns import Lease, Turns, leases_of

#: The number of rounds in a row without a step at which a job fails.
MOST_EMPTY_ROUNDS = 5
#: The number of the stream from which the published simulator draws the order of models.
ORDER_STREAM = 5


class Shares(Protocol):
    """A policy: which part of its time each unit should spend on each model."""

    @property
    def knows_speeds(self) -> bool:
        """Return whether models are filled in their order, rather than in a new order each round."""
        ...

    @property
    def sharing(self) -> bool:
        """Return whether two jobs may share GPUs."""
        ...

    @property
    def strict(self) -> bool:
        """Return whether GPUs stay idle in which no job has a share."""
        ...

    def decide(self, standing: Standing) -> Mapping[Unit, Sequence[float]]:
        """Return shares by unit and model; a unit that is left out has none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Departures from the published rounds. The defaults are the published ones."""

    round_seconds: float = 360.0
    reallocate_seconds: float = 1920.0
    #: The order in which models are filled: that of the policy, always that of the cluster, or shuffled.
    order: Literal["published", "fixed", "shuffled"] = "published"
    #: Whether there is one list of turns for all models, as in the paper's algorithm 1, not one per model.
    one_list: bool = False
    #: Whether jobs that came since the last decision run on leftover GPUs.
    newcomers: bool = False
    #: Whether pairs without a share run on leftover GPUs, too.
    leftover_pairs: bool = True
    #: The time of a round that a start on other GPUs than in the round before costs.
    start_seconds: float = 0.0
    seed: int = 0


@dataclass(slots=True)
class Course:
    """The course of a job so far. Times are seconds since the beginning; None for what has not happened."""

    steps_left: float
    due_at: float
    started_at: float | None = None
    ended_at: float | None = None
    failed: bool = False
    empty_rounds: int = 0
    held_seconds: float = 0.0
    #: Rounds that began on other GPUs than the round before; how often it waited in between, or did not.
    starts: int = 0
    preemptions: int = 0
    moves: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A unit on its GPUs for one round."""

    unit: Unit
    lease: Lease
    began_at: float
    ended_at: float
    #: Whether it had the same GPUs in the round before.
    renewed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a run."""

    courses: Mapping[int, Course]
    ended_at: float
    rounds: int
    decisions: int
    #: The used part of the GPUs' time, as the published code counts it.
    utilisation: float
    #: The number of renewed leases, and of leases that could have been renewed.
    renewed: int
    renewable: int
    #: Whether all wanted jobs have ended. If not, the run was interrupted, nothing could run any more, or the
    #: policy found no shares and states why.
    complete: bool = True
    without_shares: str = ""


@dataclass(slots=True)
class _Running:
    """A unit in the present round: the steps each of its jobs does, and when it is done."""

    unit: Unit
    lease: Lease
    steps: list[float]
    done_at: float


@dataclass(slots=True)
class _State:
    now: float = 0.0
    #: When the last round ended, which the published code uses as the beginning of the present one.
    round_began_at: float = 0.0
    decided_at: float = 0.0
    changed: bool = True
    rounds: int = 0
    decisions: int = 0
    renewed: int = 0
    renewable: int = 0
    used_gpu_seconds: float = 0.0
    running: list[_Running] = field(default_factory=list)
    leases: dict[Unit, Lease] = field(default_factory=dict)


class GavelRounds:
    """One run. Jobs are numbered from 0 by arrival."""

    def __init__(
        self,
        cluster: Cluster,
        jobs: Sequence[RoundJob],
        shares: Shares,
        rules: Rules | None = None,
        *,
        on_turns: Callable[[float, Mapping[int, RoundJob], Sequence[Turn]], None] | None = None,
    ) -> None:
        self._cluster, self._arrivals, self._shares = cluster, jobs, shares
        self._rules = rules or Rules()
        self._on_turns = on_turns
        self._turns = Turns(cluster, round_seconds=self._rules.round_seconds, sharing=shares.sharing)
        self._order = random.Random(self._rules.seed + ORDER_STREAM)
        self._jobs: dict[int, RoundJob] = {}
        self._next = 0
        self._state = _State()
        self._stuck = False
        self.courses: dict[int, Course] = {}

    @property
    def ended(self) -> int:
        """The number of jobs that have come and gone."""
        return self._next - len(self._jobs)

    def run(
        self, until_ended: Iterable[int] | None = None, is_interrupted: Callable[[], bool] = lambda: False
    ) -> Outcome:
        """Go on until the wanted jobs, or all of them, have ended."""
        state = self._state
        waiting = set(range(len(self._arrivals)) if until_ended is None else until_ended)
        without_shares = ""
        while waiting and not self._stuck and not without_shares and not is_interrupted():
            self._advance()
            waiting.difference_update(self._finish_round())
            self._let_in()
            try:
                self._begin_round()
            except SolverError as error:
                without_shares = str(error)
        gpu_seconds = state.now * sum(self._cluster.gpus)
        return Outcome(
            courses=self.courses,
            ended_at=state.now,
            rounds=state.rounds,
            decisions=state.decisions,
            utilisation=state.used_gpu_seconds / gpu_seconds if gpu_seconds else 0.0,
            renewed=state.renewed,
            renewable=state.renewable,
            complete=not waiting,
            without_shares=without_shares,
        )

    def _has_ended(self, job: int) -> bool:
        course = self.courses.get(job)
        return course is not None and course.ended_at is not None

    # The clock

    def _advance(self) -> None:
        """Move to the end of the round, or to the next arrival when nothing runs."""
        state = self._state
        if state.running:
            state.now = max(each.done_at for each in state.running)
        elif self._next < len(self._arrivals):
            state.now = max(state.now, self._arrivals[self._next].arrived_at)
        else:
            # No job could run even after a new decision, so none ever will.
            self._stuck = state.decided_at == state.now and not state.changed
            state.decided_at, state.changed = 0.0, True

    def _finish_round(self) -> list[int]:
        """Record what each job did; return the jobs that ended."""
        state = self._state
        gone: list[int] = []
        # Take the latest first, as the published code does, so that sums of seconds agree to the last digit.
        for done in sorted(state.running, key=lambda each: (-each.done_at, len(each.unit), each.unit)):
            seconds = done.done_at - state.round_began_at
            if seconds > 0 and all(_every_gpu_works(steps, self._gang(done.unit)) for steps in done.steps):
                gone += self._credit(done, seconds)
            else:
                gone += self._lose(done)
        if state.running:
            state.round_began_at = state.now
            self._count_renewable()
        state.running = []
        if gone:
            state.changed = True
            self._turns.dismiss(gone)
            for job in gone:
                del self._jobs[job]
        return gone

    def _credit(self, done: _Running, seconds: float) -> list[int]:
        """Credit the steps of a unit to its jobs; return the jobs that ended."""
        state, ended = self._state, []
        gang = self._gang(done.unit)
        self._turns.credit(done.unit, done.lease.model, seconds)
        state.used_gpu_seconds += seconds * gang
        for job, steps in zip(done.unit, done.steps, strict=True):
            course = self.courses[job]
            if len(done.unit) == 1:
                course.empty_rounds = 0
            # This is exact: all but the last are whole steps, and the last are all that are left.
            course.steps_left -= steps
            course.cost += self._cluster.prices[done.lease.model] * seconds / 3600 * gang / len(done.unit)
            if course.steps_left <= 0:
                course.ended_at = done.done_at
                ended.append(job)
        return ended

    def _lose(self, done: _Running) -> list[int]:
        """Count a round in which a unit did nothing; return its job if that was one round too many."""
        self._state.changed = True
        if len(done.unit) > 1:
            return []
        (job,) = done.unit
        course = self.courses[job]
        course.empty_rounds += 1
        if course.empty_rounds < MOST_EMPTY_ROUNDS:
            return []
        course.failed, course.ended_at = True, done.done_at
        return [job]

    def _gang(self, unit: Unit) -> int:
        return self._arrivals[unit[0]].gang

    def _count_renewable(self) -> None:
        self._state.renewable += sum(
            any(not self._has_ended(job) for job in unit) for unit in self._state.leases
        )

    def _let_in(self) -> None:
        """Admit all jobs that have arrived by now."""
        arrived: dict[int, RoundJob] = {}
        now, arrivals = self._state.now, self._arrivals
        while self._next < len(arrivals) and arrivals[self._next].arrived_at <= now:
            job = arrivals[self._next]
            self.courses[self._next] = Course(steps_left=job.steps, due_at=now + job.slo_seconds)
            arrived[self._next] = job
            self._next += 1
        if arrived:
            self._turns.admit(arrived)
            self._jobs |= arrived
            self._state.changed = True

    # A round

    def _begin_round(self) -> None:
        state, rules = self._state, self._rules
        if state.changed and (
            state.now - state.decided_at >= rules.reallocate_seconds or state.decided_at == 0
        ):
            self._decide()
        chosen = self._turns.choose(
            self._order_of_models(),
            leftovers=not self._shares.strict,
            one_list=rules.one_list,
            newcomers=rules.newcomers,
            leftover_pairs=rules.leftover_pairs,
        )
        leases = leases_of(chosen, state.leases)
        renewed = {unit for unit, lease in leases.items() if state.leases.get(unit) == lease}
        state.renewed += len(renewed)
        self._count_interruptions(state.leases, leases, renewed)
        state.running = [self._start(unit, lease, unit in renewed) for unit, lease in leases.items()]
        state.leases = leases
        state.rounds += bool(leases)
        if self._on_turns is not None:
            self._on_turns(state.now, self._jobs, self._turns_of(renewed))

    def _decide(self) -> None:
        state = self._state
        self._turns.settle(state.now - state.decided_at)
        state.decided_at, state.changed = state.now, False
        state.decisions += 1
        standing = Standing(
            now=state.now,
            cluster=self._cluster,
            jobs=self._jobs,
            steps_left={job: self.courses[job].steps_left for job in self._jobs},
            due_at={job: self.courses[job].due_at for job in self._jobs},
        )
        self._turns.decide(self._shares.decide(standing))

    def _count_interruptions(
        self, before: Mapping[Unit, Lease], after: Mapping[Unit, Lease], renewed: set[Unit]
    ) -> None:
        running = {job for unit in after for job in unit}
        for unit in before:
            if unit in renewed:
                continue
            for job in unit:
                course = self.courses[job]
                if course.ended_at is None:
                    course.moves += job in running
                    course.preemptions += job not in running

    def _order_of_models(self) -> list[int]:
        order = list(range(len(self._cluster.models)))
        shuffled = self._rules.order == "shuffled" or (
            self._rules.order == "published" and not self._shares.knows_speeds
        )
        if shuffled:
            self._order.shuffle(order)
        return order

    def _start(self, unit: Unit, lease: Lease, renewed: bool) -> _Running:
        """Return what a unit does in this round."""
        state, rules = self._state, self._rules
        lost = 0.0 if renewed else rules.start_seconds
        rates = self._rates(unit, lease.model)
        steps = [
            min(float(int(rate * (rules.round_seconds - lost))), self.courses[job].steps_left)
            for job, rate in zip(unit, rates, strict=True)
        ]
        done_at = max(state.now + lost + each / rate for each, rate in zip(steps, rates, strict=True))
        for job in unit:
            course = self.courses[job]
            if course.started_at is None:
                course.started_at = state.now
            course.starts += not renewed
            course.held_seconds += done_at - state.now
        return _Running(unit, lease, steps, done_at)

    def _rates(self, unit: Unit, model: int) -> Sequence[float]:
        first = self._arrivals[unit[0]]
        if len(unit) == 1:
            return (first.rates[model],)
        together = self._cluster.together(first, self._arrivals[unit[1]])
        assert together is not None
        return together[model]

    def _turns_of(self, renewed: set[Unit]) -> list[Turn]:
        return [
            Turn(
                unit=each.unit,
                lease=each.lease,
                began_at=self._state.now,
                ended_at=each.done_at,
                renewed=each.unit in renewed,
            )
            for each in self._state.running
        ]


def _every_gpu_works(steps: float, gang: int) -> bool:
    """Return whether each GPU of a gang has a step to do; the last one does the remainder of the division."""
    part = steps // gang
    return part * (gang - 1) < steps and (gang == 1 or part > 0)
