"""The records of an auction: lines of the ledger, and why the other apps wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.run_time import runs_nowhere
from scheduler.core.building_blocks.time_shares.run_options import RunOptions
from scheduler.core.fitting.demand import amount_of
from scheduler.core.model import wording
from scheduler.core.model.plan import LedgerLine, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId
from scheduler.core.policies.themis.apps import name_of
from scheduler.core.policies.themis.auction.holding import Result, Win
from scheduler.core.policies.themis.offer import Offer
from scheduler.core.policies.themis.tables import Agent, Seat, Table, gpus_of

#: Rows of a table that are written down, the best first.
MOST_ROWS = 8
#: Digits of rho, and of what is paid.
DIGITS = 6


class AppStanding(NamedTuple):
    """The result of an auction for an app."""

    #: Its rho if it gets nothing for a lease.
    rho: float
    #: 1 for the worst-off among `apps` apps.
    rank: int
    apps: int
    #: Whether it took part.
    bids: bool
    #: Its rho with the best of its rows that were on offer; 0: none was.
    best: float


class LedgerLines:
    """The lines of one round."""

    def __init__(self, view: View, fairness_knob: float, lease_seconds: float) -> None:
        self._view, self._knob, self._lease_seconds = view, fairness_knob, lease_seconds
        self._lines: list[LedgerLine] = []

    @property
    def lines(self) -> tuple[LedgerLine, ...]:
        """Return the lines in the order in which they were written."""
        return tuple(self._lines)

    def auction(
        self,
        ranked: Sequence[Agent],
        tables: Sequence[Table],
        offer: Offer,
        result: Result,
    ) -> None:
        """Write down what was on offer, and what was bid."""
        gpus = {model: float(count) for model, count in offer.gpus.items() if count}
        on_offer = wording.listed([wording.gpus(int(count), [model]) for model, count in gpus.items()])
        self._lines.append(
            LedgerLine(
                kind="auction",
                gpus=gpus,
                seconds=self._lease_seconds,
                rho_before=round(ranked[0].rho_of_nothing, DIGITS),
                message=f"{len(tables)} of {len(ranked)} apps that want GPUs bid for {on_offer}.",
                details={
                    "apps": len(ranked),
                    "bidders": len(tables),
                    "winners": len(result.wins),
                    "fairness_knob": self._knob,
                    "exact_payments": result.exact_payments,
                    "gap": round(result.gap, DIGITS),
                },
            )
        )
        self._lines += [_bid(rank, table) for rank, table in enumerate(tables, 1)]

    def win(self, table: Table, win: Win, seats: Sequence[Seat], seconds: float) -> None:
        """Write down what an app won, which part of the lease is withheld, and whether it found places."""
        agent, choice = table.agent, table.choices[win.row]
        rate = agent.kept + sum([seat.rate for seat in choice.seats])
        rho = choice.rho if agent.to_end else replace(agent, lease_seconds=seconds).rho(rate)
        words = wording.listed([wording.gpus(gpus, [model]) for model, gpus in choice.gpus.items()])
        withheld = f"{100 * (1 - win.kept):.2g} % of the lease is withheld"
        message = f"Won {words} for {seconds:.0f} s; {withheld}."
        lacking = len(choice.seats) - len(seats)
        if lacking:
            message += f" For {lacking} of {len(choice.seats)} jobs there was no place after all."
        self._lines.append(
            LedgerLine(
                kind="win",
                party=agent.app.tenant,
                jobs=tuple([seat.job for seat in seats]),
                gpus=gpus_of(seats),
                price=round(1 - win.kept, DIGITS),
                seconds=seconds,
                rho_before=round(agent.rho_of_nothing, DIGITS),
                rho_after=None if lacking else round(rho, DIGITS),
                message=message,
                details={"app": agent.app.name},
            )
        )

    def left_over(self, job: Job, model: str, lease_ends: float) -> None:
        """Record that a job got GPUs that no bidder won."""
        running = self._view.running.get(job.id)
        stays = running is not None and running.gpu_model == model
        gpus = amount_of(job, len(running.gpus) if running is not None and stays else job.gpus)
        seconds = max(0.0, lease_ends - self._view.now)
        how_long = f"for {seconds:.0f} s" if seconds else "until the next auction"
        what = f"{'Keeps' if stays else 'Gets'} {wording.gpus(gpus, [model])}"
        self._lines.append(
            LedgerLine(
                kind="leftover",
                party=job.tenant,
                jobs=(job.id,),
                gpus={model: float(gpus)},
                seconds=seconds,
                message=f"{what} that nobody won, {how_long}.",
                details={"app": name_of(job)},
            )
        )

    def standings(self, ranked: Sequence[Agent], tables: Sequence[Table]) -> dict[str, AppStanding]:
        """Return the result of the auction for each app; the first ones took part, with these tables."""
        found = {}
        for place, agent in enumerate(ranked):
            rho = round(agent.rho_of_nothing, DIGITS)
            taking_part = place < len(tables)
            best = min([choice.rho for choice in tables[place].choices], default=0.0) if taking_part else 0.0
            found[agent.app.name] = AppStanding(rho, place + 1, len(ranked), taking_part, round(best, DIGITS))
        return found

    def reasons(
        self,
        queue: Iterable[JobId],
        standings: Mapping[str, AppStanding],
        run_options: RunOptions,
        next_end: float | None,
    ) -> dict[JobId, tuple[Reason, ...]]:
        """Return why each of the queued jobs waits."""
        later = (self._leased(next_end),)
        said: dict[JobId, tuple[Reason, ...]] = {}
        known: dict[AppStanding, tuple[Reason, ...]] = {}
        for number in queue:
            job = self._view.jobs[number]
            if run_options.of(job) is None:
                said[number] = (runs_nowhere(job),)
                continue
            entry = standings.get(name_of(job))
            if entry is None:
                said[number] = later
                continue
            if entry not in known:
                known[entry] = (_outbid(entry) if entry.best else _outside(entry), *later)
            said[number] = known[entry]
        return said

    def _leased(self, next_end: float | None) -> Reason:
        if next_end is None:
            message = "The GPUs that it could use are given out until the next auction."
            return Reason(code="leased", tier=Tier.ORDER, message=message)
        return Reason(
            code="leased",
            tier=Tier.ORDER,
            message=f"GPUs are leased to others; the next lease ends at {wording.instant(next_end)}.",
            blocking={"until": next_end},
        )


def _outbid(standing: AppStanding) -> Reason:
    return Reason(
        code="outbid",
        tier=Tier.ORDER,
        message=f"In the last auction it bid for GPUs with which it would come to a finish-time fairness of"
        f" {standing.best:.2f}, and of {standing.rho:.2f} without; what others bid for was worth more"
        f" together.",
        blocking={
            "rho": standing.rho,
            "rho_bid": standing.best,
            "rank": standing.rank,
            "apps": standing.apps,
        },
    )


def _outside(standing: AppStanding) -> Reason:
    blocking = {"rho": standing.rho, "rank": standing.rank, "apps": standing.apps}
    if standing.bids:
        message = (
            f"With a finish-time fairness of {standing.rho:.2f} it took part in the last auction, in which"
        )
        message += " there were no GPUs on offer on which it fits."
    else:
        message = (
            f"In the last auction others were worse off: with a finish-time fairness of {standing.rho:.2f}"
        )
        message += f" it was number {standing.rank} of {standing.apps} apps that wanted GPUs."
    return Reason(code="outside_auction", tier=Tier.ORDER, message=message, blocking=blocking)


def _bid(rank: int, bidding: Table) -> LedgerLine:
    agent = bidding.agent
    best = sorted(bidding.choices, key=lambda choice: choice.rho)
    table = [{"gpus": choice.gpus, "rho": round(choice.rho, DIGITS)} for choice in best[:MOST_ROWS]]
    before = agent.rho_of_nothing
    return LedgerLine(
        kind="bid",
        party=agent.app.tenant,
        jobs=tuple([job.id for job in agent.wants]),
        gpus=best[0].gpus if best else {},
        rho_before=round(before, DIGITS),
        rho_after=round(best[0].rho, DIGITS) if best else None,
        message=f"Number {rank} of the worst off: a finish-time fairness of {before:.2f}"
        + (f", {best[0].rho:.2f} with its best row." if best else "; nothing on offer fits it."),
        details={"app": agent.app.name, "rank": rank, "rows": len(best), "table": table},
    )
