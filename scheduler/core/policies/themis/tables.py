"""Bid tables: the rho that an app would reach with each bundle of GPUs (Themis, section 4.3).

A row says how many of an app's jobs run on which GPU model, in the order of their submission, and whether
gangs are as near together as they can be. The row's worth is 1 / rho.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.time_shares.run_options import RunOptions
from scheduler.core.fitting.demand import demand_of, shape_in
from scheduler.core.model.snapshot import Job, JobId
from scheduler.core.policies.themis.apps import App, rho, spread_speed
from scheduler.core.policies.themis.auction.table import Bid, Good, Row
from scheduler.core.policies.themis.offer import Offer, Way, ways

#: An app of several jobs bids with at most this many rows.
MOST_ROWS = 32


@dataclass(frozen=True, slots=True)
class Seat:
    """One job on one model."""

    job: JobId
    model: str
    way: Way
    #: Work a second, in GPU-seconds of its best model.
    rate: float
    #: The GPUs that it takes; a part of a GPU counts as a fraction.
    gpus: float


@dataclass(frozen=True, slots=True)
class Choice:
    """A row of a table: the jobs that would run, their models, and the app's resulting rho."""

    seats: tuple[Seat, ...]
    rho: float

    @property
    def gpus(self) -> dict[str, float]:
        """Return the GPUs of each model."""
        return gpus_of(self.seats)


def gpus_of(seats: Iterable[Seat]) -> dict[str, float]:
    """Return the GPUs of each model that the seats take together."""
    gpus: dict[str, float] = {}
    for seat in seats:
        gpus[seat.model] = gpus.get(seat.model, 0) + seat.gpus
    return gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """Bids for an app: what the app has, what it wants, and the rho that it would reach."""

    app: App
    lease_seconds: float
    #: Whether a bundle is valued as kept until the app ends; else for a lease.
    to_end: bool
    elapsed: float
    #: Time alone on its even part, at the mean contention of its life.
    alone: float
    #: Work a second on its even part, at the present number of apps.
    even: float
    #: Work a second of its jobs within their leases.
    kept: float
    #: Those of its jobs that wait or whose leases have ended, in the order of their submission.
    wants: tuple[Job, ...]
    #: Work that is lost when one of these that runs is stopped or moved.
    stakes: Mapping[JobId, float]

    @property
    def rho_of_nothing(self) -> float:
        """Return the app's rho if it gets nothing for a lease."""
        return self.rho(self.kept, sum(self.stakes.values()))

    def rho(self, rate: float, lost: float = 0.0) -> float:
        """Return the app's rho if it works at this rate, with some of its work lost."""
        return rho(self.elapsed, self._seconds(rate, self.app.left + lost), self.alone)

    def _seconds(self, rate: float, left: float) -> float:
        lease = self.lease_seconds
        if not self.to_end:
            done = rate * lease
            return left / rate if left <= done else lease + (left - done) / self.even
        if rate > self.kept:
            return left / rate
        best = self.app.gpus * max(self.app.speeds.values())
        waiting = lease + max(0.0, left - self.kept * lease) / best
        return min(waiting, left / self.kept) if self.kept > 0 else waiting


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of an app that fit the offer, and the same rows as the auction's bid."""

    agent: Agent
    choices: tuple[Choice, ...]
    bid: Bid


class Catalogue:
    """The seats that jobs could have, in which jobs of a shape are alike."""

    def __init__(self, view: View, run_options: RunOptions) -> None:
        self._view, self._run_options = view, run_options
        self._ways: dict[Hashable, tuple[Way, ...]] = {}

    def seats(self, job: Job) -> Iterator[Seat]:
        """Yield the seats of a job, model by model, the better ways first."""
        run_option = self._run_options.of(job)
        assert run_option is not None
        for model, speed in run_option.speeds.items():
            spread = spread_speed(job, model)
            for way in self._ways_on(job, model, run_option.gpus, spreads_well=spread >= 1):
                rate = run_option.amount * speed * (1.0 if way.near else spread)
                yield Seat(job.id, model, way, rate, run_option.amount)

    def _ways_on(self, job: Job, model: str, gpus: int, *, spreads_well: bool) -> tuple[Way, ...]:
        cluster = self._view.capacity.cluster
        key = shape_in(cluster, job), gpus, model, spreads_well
        if key not in self._ways:
            demand = demand_of(job, cluster, gpus, model)
            fleet = cluster.fleets[model]
            self._ways[key] = ways(demand, fleet, cluster.node_rank, spreads_well=spreads_well)
        return self._ways[key]

    def ways(self, agents: Iterable[Agent]) -> dict[str, set[Way]]:
        """Return the ways in which the agents' jobs would use GPUs of each model."""
        ways: dict[str, set[Way]] = {}
        for agent in agents:
            for job in agent.wants:
                for seat in self.seats(job):
                    ways.setdefault(seat.model, set()).add(seat.way)
        return ways

    def table(self, agent: Agent, offer: Offer) -> Table:
        """Return what the app bids."""
        choices, rows = [], []
        for choice in self._choices(agent):
            takes: dict[Good, int] = {}
            for seat in choice.seats:
                for good, pieces in offer.takes(seat.model, seat.way, seat.gpus).items():
                    takes[good] = takes.get(good, 0) + pieces
            if all(pieces <= offer.supply[good] for good, pieces in takes.items()):
                choices.append(choice)
                rows.append(Row(1 / choice.rho, takes))
        return Table(agent, tuple(choices), Bid(nothing=1 / agent.rho_of_nothing, rows=rows))

    def _choices(self, agent: Agent) -> list[Choice]:
        """Return all rows of the app, whether or not they fit the offer."""
        wants = agent.wants
        if len(wants) == 1:
            return [self._choice(agent, (seat,)) for seat in self.seats(wants[0])]
        models = sorted(agent.app.speeds, key=lambda model: (-agent.app.speeds[model], model))
        seats = [self._best_by_model(job) for job in wants]
        found: dict[tuple[Seat, ...], Choice] = {}
        for counts in _counts(len(wants), len(models)):
            taken = _dealt_out(seats, dict(zip(models, counts, strict=True)))
            if taken and taken not in found:
                found[taken] = self._choice(agent, taken)
        return list(found.values())

    def _best_by_model(self, job: Job) -> dict[str, Seat]:
        best: dict[str, Seat] = {}
        for seat in self.seats(job):
            best.setdefault(seat.model, seat)
        return best

    def _choice(self, agent: Agent, seats: tuple[Seat, ...]) -> Choice:
        lost = 0.0
        if agent.stakes:
            where = {seat.job: seat.model for seat in seats}
            running = self._view.running
            lost = sum(
                [stake for job, stake in agent.stakes.items() if where.get(job) != running[job].gpu_model]
            )
        return Choice(seats, agent.rho(agent.kept + sum([seat.rate for seat in seats]), lost))


def _counts(jobs: int, models: int) -> list[tuple[int, ...]]:
    """Return numbers of jobs by model: all possible ones, or a few where these are too many."""
    doubling = [2**power for power in range(jobs.bit_length()) if 2**power < jobs]
    for steps in (range(jobs + 1), [0, *doubling, jobs], [0, 1, jobs // 2, jobs], [0, jobs]):
        different = sorted(set(steps))
        # All combinations are tried only where they are few.
        if len(different) ** models <= 50 * MOST_ROWS:
            found = [counts for counts in product(different, repeat=models) if 0 < sum(counts) <= jobs]
            if len(found) <= MOST_ROWS:
                return found
    return [tuple([jobs * (place == model) for place in range(models)]) for model in range(models)]


def _dealt_out(seats: Sequence[Mapping[str, Seat]], counts: Mapping[str, int]) -> tuple[Seat, ...]:
    """Return the seats when the first jobs go to the first model, up to its count, and so on."""
    left = dict(counts)
    taken = []
    for own in seats:
        model = next((model for model in left if left[model] and model in own), None)
        if model is not None:
            left[model] -= 1
            taken.append(own[model])
    return tuple(taken)
