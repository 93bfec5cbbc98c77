"""Themis: the apps with the worst fairness bid for GPUs at auctions, and pay with a shorter lease.

K. Mahajan, A. Balasubramanian, A. Singhvi, S. Venkataraman, A. Akella, A. Phanishayee and S. Chawla, "Themis:
Fair and Efficient GPU Cluster Scheduling", NSDI 2020. Apps (`apps`) get GPUs for leases. Where leases end or
GPUs come free, the fraction 1 - f of the apps that want GPUs, those with the worst rho, bid with tables of
the rho that each bundle gives them. The auction (`auction`) maximises the product of 1 / rho, and withholds a
part of what each one won. What is not sold goes to others. Deviations and choices:

- Rigid gangs: a part of a gang's GPUs is of no use to it, so what is withheld is time. An app that keeps the
  part c of what it won has a lease of c times `lease_seconds`, though not below `interval_seconds`.
- Goods are GPUs by model and places for gangs near together, not each machine's (`offer`). Within a rack a
  gang counts as fast as anywhere, since that is not measured: only gangs that must be in one bid so.
- A bundle is valued as if kept to the end, as in the paper; getting nothing is valued as a lease of waiting
  and then the best row (`horizon=end`). With `horizon=lease` a bundle is valued as kept for a lease and
  followed by the app's even part. On three published traces the worst rho is then lower on one and higher on
  two, while jobs take 14 to 21 % longer on average and are stopped three to four times as often
  (docs/reproduction.md). What a job that runs loses when it is stopped counts in both.
- The worse off an app is, the less its bids matter: a lease is a smaller and smaller part of its time. So, in
  addition to 1 - f, no app takes part whose rho is less than the worst one divided by `MOST_UNEQUAL`; a
  starving app finally bids alone. And while the worst-off app has a gang that is larger than what is on
  offer, no lease outlasts the running ones, so that at some instant everything is on offer.
- Leftovers go to apps outside the auction first: those that run stay where they are, then others in random
  order, each on the fastest model that has room; then to those that lost. They get a whole lease. The order
  is drawn by instant and not by round, so that the simulator, which skips rounds, draws the same order.
- Between auctions, which are not held more often than `interval_seconds`, idle GPUs are handed out at once,
  until the next auction. One is held only when a job waits that could be placed, or when no job waits and one
  whose lease has ended would be faster on an idle model.
- Weights of members and priorities make an app's even part larger (`apps`), and so its rho.
- Nothing in an auction keeps users from understating their run times: such an app looks worse off, and bids
  more often. Where jobs report their steps, their run times are measured once they run, and an app that came
  before its turn counts as submitted later (`debts`). Then understating does not pay on average. An app that
  does not report owes nothing.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

from scheduler.core.building_blocks.ordering import Outcome, waiting_jobs
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.service import INSTANT_SECONDS
from scheduler.core.building_blocks.time_shares.run_options import RunOptions
from scheduler.core.building_blocks.time_shares.units import Unit
from scheduler.core.fitting.demand import amount_of, demand_of, shape_in
from scheduler.core.model.plan import Decision
from scheduler.core.model.snapshot import Job, JobId, Memory
from scheduler.core.policies.themis.apps import (
    Contention,
    apps_of,
    elapsed_seconds,
    even_rate,
    name_of,
    rate_here,
    weights_by_app,
)
from scheduler.core.policies.themis.auction.holding import Result, Win, hold
from scheduler.core.policies.themis.debts import Debts
from scheduler.core.policies.themis.ledger_lines import AppStanding, LedgerLines
from scheduler.core.policies.themis.offer import Offer
from scheduler.core.policies.themis.placement import LeasePlacement
from scheduler.core.policies.themis.tables import Agent, Catalogue, Seat, Table

#: No app takes part in an auction whose rho is this many times smaller than the worst one.
MOST_UNEQUAL = 2.0
#: A job moves to left-over GPUs of another model only when it is this many times faster there.
WORTH_MOVING = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Themis:
    """Auctions among the apps whose finish-time fairness is the worst."""

    #: A waiting job has its turn when leases end, though jobs neither come nor go.
    rotates: ClassVar[bool] = True

    #: f: the worst-off 1 - f of the apps that want GPUs take part; 1: the very worst alone.
    fairness_knob: float = 0.8
    #: How long GPUs are given at a time.
    lease_seconds: float = 1200.0
    #: Auctions are not held more often than this.
    interval_seconds: float = 60.0
    #: How a bundle is valued: as if kept to the "end" of the app, or for a "lease".
    horizon: str = field(default="end", metadata={"choices": ("end", "lease")})

    def __post_init__(self) -> None:
        if not 0 <= self.fairness_knob <= 1:
            raise ValueError("fairness_knob must be between 0 and 1")
        if not (self.lease_seconds > 0 and 0 <= self.interval_seconds <= self.lease_seconds):
            raise ValueError("lease_seconds must be above 0, and interval_seconds between 0 and that")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Hold an auction where one is due; else hand out what is idle."""
        if not view.jobs:
            return Decision(grants=(), keep_running=True)
        if memory.get("policy") != "themis":
            memory = {}
        return _Round(self, view, memory).decision()


class _Round:
    """One round.

    Memory: `policy`; `leases`, the instant at which each job's ends; `auctioned_at`; `contention`; `said`,
    the estimates of jobs that won before they were measured; and the last auction's results for those that
    wait (`told`, by app).
    """

    def __init__(self, policy: Themis, view: View, memory: Memory) -> None:
        self._policy, self._view = policy, view
        self._dice = random.Random(f"{view.name}:{view.now}")
        self._run_options = RunOptions(view)
        self._catalogue = Catalogue(view, self._run_options)
        weights = weights_by_app(view, self._run_options)
        self._contention = Contention(memory.get("contention", {}), view.now, weights)
        known: Mapping[str, float] = memory.get("leases", {})
        self._leases = {
            job: float(known.get(str(job), held.since_of(job) + policy.lease_seconds))
            for job, held in view.running.items()
        }
        self._auctioned_at = float(memory.get("auctioned_at", -math.inf))
        if self._auctioned_at > view.now:
            # The clock went back.
            self._auctioned_at = -math.inf
        standings: Mapping[str, Sequence[Any]] = memory.get("told", {})
        self._standings = {name: AppStanding(*entry) for name, entry in standings.items() if name in weights}
        self._debts = Debts(memory.get("said", {}), view)
        self._ledger_lines = LedgerLines(view, policy.fairness_knob, policy.lease_seconds)
        self._waiting = [job for job in waiting_jobs(view) if self._run_options.of(job) is not None]
        #: Gangs whose leases have ended, unless they can run nowhere else.
        self._open = [
            unit
            for unit in view.capacity.pending
            if unit not in view.capacity.pinned
            and all(self._leases[job] <= view.now + INSTANT_SECONDS for job in unit)
            and all(self._run_options.of(view.jobs[job]) for job in unit)
        ]

    def decision(self) -> Decision:
        """Hold an auction where one is due; else hand out what is idle."""
        view = self._view
        line = [job.id for job in sorted(view.jobs.values(), key=lambda job: (job.submitted_at, job.id))]
        if self._is_time and (self._could_seat_someone() if self._waiting else self._open_to_move):
            placement = self._auction()
        else:
            placement = self._fill()
        outcome = placement.outcome(line)
        decision = outcome.decision(
            self._reasons(outcome), memory=self._remember(outcome), wake_at=self._wakes_at(outcome)
        )
        return replace(decision, ledger=self._ledger_lines.lines)

    # When

    @property
    def _next_auction_at(self) -> float:
        return self._auctioned_at + self._policy.interval_seconds

    @property
    def _is_time(self) -> bool:
        return self._view.now >= self._next_auction_at - INSTANT_SECONDS

    @cached_property
    def _emptied(self) -> LeasePlacement:
        """Return the cluster without the jobs whose lease has ended."""
        placement = LeasePlacement(self._view, self._run_options, self._open)
        for model in self._run_options.gpus:
            placement.clear(model)
        return placement

    def _could_seat_someone(self) -> bool:
        """Return whether a waiting job fits on what an auction would offer."""
        capacity = self._emptied.capacity
        if not self._emptied.has_room:
            return False
        tried = set()
        for job in self._waiting:
            run_option = self._run_options.of(job)
            assert run_option is not None
            shape = shape_in(capacity.cluster, job), tuple(run_option.speeds)
            if shape not in tried:
                tried.add(shape)
                for model in run_option.speeds:
                    demand = demand_of(job, capacity.cluster, run_option.gpus, model)
                    if capacity.find(demand) is not None:
                        return True
        return False

    @cached_property
    def _could_move(self) -> set[JobId]:
        """Return the jobs for which idle GPUs of another model would be much faster."""
        view, placement = self._view, LeasePlacement(self._view, self._run_options, ())
        idle = {model: placement.free(model) for model in self._run_options.gpus}
        if len(idle) == 1 or not any(gpus > 0 for gpus in idle.values()):
            return set()
        return {
            job
            for job, held in view.running.items()
            if len(held.jobs) == 1
            and (run_option := self._run_options.of(view.jobs[job])) is not None
            and any(
                speed >= WORTH_MOVING * run_option.speeds.get(held.gpu_model, 1.0)
                and run_option.gpus <= idle[model]
                for model, speed in run_option.speeds.items()
            )
        }

    @property
    def _open_to_move(self) -> bool:
        return not self._could_move.isdisjoint([job for unit in self._open for job in unit])

    def _wakes_at(self, outcome: Outcome) -> float | None:
        """Return when to decide again though nothing happens: when GPUs come free or may be auctioned."""
        now, leases = self._view.now + INSTANT_SECONDS, self._leases
        if not any(self._run_options.of(self._view.jobs[job]) for job in outcome.queue):
            if outcome.grants and len(self._run_options.gpus) > 1:
                # GPUs that these leave idle may be faster for others.
                return self._view.now + self._view.round_seconds
            leases = {job: end for job, end in leases.items() if job in self._could_move}
        ends = [end for end in leases.values() if end > now]
        instants = [max(min(ends), self._next_auction_at)] if ends else []
        if len(ends) < len(leases) and self._next_auction_at > now:
            instants.append(self._next_auction_at)
        return min(instants, default=None)

    # Between auctions

    def _fill(self) -> LeasePlacement:
        """Hand out what is idle until the next auction."""
        placement = LeasePlacement(self._view, self._run_options, ())
        if placement.has_room:
            self._hand_out(placement, self._shuffled(self._waiting), self._view.now)
        return placement

    def _hand_out(self, placement: LeasePlacement, jobs: Iterable[Job], lease_ends: float) -> None:
        """Start jobs on what is left over, each on the fastest model that has room."""
        for job in jobs:
            if not placement.has_room:
                return
            for model in self._preferred(job):
                if placement.start(job, model):
                    self._leases[job.id] = lease_ends
                    self._ledger_lines.left_over(job, model, lease_ends)
                    break

    def _preferred(self, job: Job) -> list[str]:
        run_option, running = self._run_options.of(job), self._view.running.get(job.id)
        assert run_option is not None
        speeds = dict(run_option.speeds)
        if running is not None and running.gpu_model in speeds:
            speeds[running.gpu_model] *= WORTH_MOVING
        return sorted(speeds, key=lambda model: (-speeds[model], model))

    def _shuffled(self, jobs: Iterable[Job]) -> list[Job]:
        """Return the jobs in a random order, the same whenever it is drawn at this instant."""
        drawn = sorted(jobs, key=lambda job: (job.submitted_at, job.id))
        self._dice.shuffle(drawn)
        return drawn

    # The auction

    def _auction(self) -> LeasePlacement:
        """Hold an auction, seat the winners, and hand out what is left over."""
        policy, view = self._policy, self._view
        ranked = sorted(self._agents(), key=_worst_first)
        worst = ranked[0].rho_of_nothing
        most = max(1, math.ceil((1 - policy.fairness_knob) * len(ranked) - 1e-9))
        bidders = [agent for agent in ranked[:most] if agent.rho_of_nothing * MOST_UNEQUAL >= worst]
        has_parts = any(job.has_parts for agent in bidders for job in agent.wants)
        offer = Offer(self._emptied.capacity, self._catalogue.ways(bidders), has_parts=has_parts)
        tables = [self._catalogue.table(agent, offer) for agent in bidders]
        result: Result = view.compute(hold, [table.bid for table in tables], offer.supply)
        latest = self._latest_end(worst_can_bid=bool(tables[0].choices))
        self._ledger_lines.auction(ranked, tables, offer, result)
        self._standings = self._ledger_lines.standings(ranked, tables)
        self._auctioned_at = view.now
        placement = self._seat_winners(tables, result, latest)
        self._seat_others(placement, bidders, min(latest, view.now + policy.lease_seconds))
        return placement

    def _agents(self) -> list[Agent]:
        """Return an agent for every app that wants GPUs."""
        view, policy = self._view, self._policy
        wanting = {job.id for job in self._waiting}.union(*self._open)
        gpus = self._run_options.gpus
        agents = []
        for app in apps_of(view, self._run_options):
            wants = tuple([job for job in app.jobs if job.id in wanting])
            if not wants:
                continue
            held = [job for job in app.jobs if job.id in view.running and job.id not in wanting]
            agents.append(
                Agent(
                    app=app,
                    lease_seconds=policy.lease_seconds,
                    to_end=policy.horizon == "end",
                    elapsed=max(0.0, elapsed_seconds(app, view.now) - self._debts.of(app)),
                    alone=app.work / even_rate(app, gpus, self._contention.of(app)),
                    even=even_rate(app, gpus, self._contention.of_now(app)),
                    kept=rate_here(replace(app, jobs=tuple(held)), view, self._run_options) if held else 0.0,
                    wants=wants,
                    stakes={
                        job.id: job.preemption_cost_seconds * amount_of(job, len(view.running[job.id].gpus))
                        for job in wants
                        if job.id in view.running
                    },
                )
            )
        return agents

    def _latest_end(self, *, worst_can_bid: bool) -> float:
        """Return when leases end at the latest: with those that run, if the worst-off app waits for room."""
        if worst_can_bid:
            return math.inf
        ends = [end for end in self._leases.values() if end > self._view.now + INSTANT_SECONDS]
        return max(ends, default=math.inf)

    def _seat_winners(self, tables: Sequence[Table], result: Result, latest: float) -> LeasePlacement:
        """Keep winners that won where they run, then start the others, the largest gangs first."""
        view, policy = self._view, self._policy
        placement = LeasePlacement(view, self._run_options, self._by_claim(tables))
        starts: list[tuple[Seat, float]] = []
        won: list[tuple[Table, Win, float]] = []
        needed: dict[str, float] = {}
        for win in result.wins:
            length = max(policy.interval_seconds, win.kept * policy.lease_seconds)
            ends = min(view.now + length, latest)
            won.append((tables[win.bidder], win, ends))
            for seat in tables[win.bidder].choices[win.row].seats:
                if placement.stay(seat.job, seat.model):
                    self._leases[seat.job] = ends
                else:
                    starts.append((seat, ends))
                    needed[seat.model] = needed.get(seat.model, 0) + seat.gpus
        placement.make_room(needed, [seat.job for seat, _ in starts])
        for seat, ends in sorted(starts, key=lambda start: -start[0].gpus):
            if placement.take(view.jobs[seat.job], seat.model, seat.way.locality):
                self._leases[seat.job] = ends
        for table, win, ends in won:
            seats = [seat for seat in table.choices[win.row].seats if placement.is_settled(seat.job)]
            self._ledger_lines.win(table, win, seats, ends - view.now)
            self._debts.win([seat.job for seat in seats], table.agent.elapsed)
        return placement

    def _by_claim(self, tables: Sequence[Table]) -> list[Unit]:
        """Return the gangs whose leases have ended, the one with the least claim to stay last."""
        lost = {job.id for table in tables for job in table.agent.wants}
        return sorted(self._open, key=lambda unit: (not lost.isdisjoint(unit), unit))

    def _seat_others(self, placement: LeasePlacement, bidders: Sequence[Agent], ends: float) -> None:
        """Hand out what was withheld or not sold: to apps outside the auction, then to those that lost."""
        inside = {job.id for agent in bidders for job in agent.wants}
        for part in (False, True):
            own = [unit for unit in self._open if inside.isdisjoint(unit) != part]
            for unit in placement.settle_back(own):
                for job in unit:
                    self._leases[job] = ends
                    self._ledger_lines.left_over(
                        self._view.jobs[job], self._view.running[job].gpu_model, ends
                    )
            jobs = [self._view.jobs[job] for unit in own for job in unit]
            jobs += [job for job in self._waiting if (job.id in inside) == part]
            self._hand_out(placement, self._shuffled(jobs), ends)

    # What is said and remembered

    def _reasons(self, outcome: Outcome) -> dict[JobId, Any]:
        ends = [end for end in self._leases.values() if end > self._view.now + INSTANT_SECONDS]
        return self._ledger_lines.reasons(
            outcome.queue, self._standings, self._run_options, min(ends, default=None)
        )

    def _remember(self, outcome: Outcome) -> dict[str, Any]:
        seated = {job for grant in outcome.grants for job in grant.jobs}.union(self._view.running)
        stopped = {job for stop in outcome.stops for job in self._view.running[stop].jobs}
        waits = {name_of(self._view.jobs[job]) for job in outcome.queue}
        self._leases = {
            job: end for job, end in sorted(self._leases.items()) if job in seated and job not in stopped
        }
        memory: dict[str, Any] = {
            "policy": "themis",
            "leases": {str(job): end for job, end in self._leases.items()},
            "contention": self._contention.remember(),
            "told": {name: list(each) for name, each in self._standings.items() if name in waits},
            "said": self._debts.remember(),
        }
        if self._auctioned_at > -math.inf:
            memory["auctioned_at"] = self._auctioned_at
        return memory


def _worst_first(agent: Agent) -> tuple[float, float, JobId]:
    return -agent.rho_of_nothing, agent.app.submitted_at, agent.app.jobs[0].id
