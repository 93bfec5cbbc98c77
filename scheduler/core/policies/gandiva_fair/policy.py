"""Gandiva-Fair: every user gets its part of every GPU model, then users trade so that both sides gain.

S. Chaudhary, R. Ramjee, M. Sivathanu, N. Kwatra and S. Viswanatha, "Balancing Efficiency and Fairness in
Heterogeneous GPU Clusters for Deep Learning", EuroSys 2020. Tickets entitle a user to a part of the GPUs of
each model, whatever the number and size of its jobs; what it cannot use goes to others by water filling
(`core.building_blocks.entitlement`). Users then trade: those whose jobs gain much from a fast model buy time
there with time on a slow one, from those whose jobs gain little (`trading`, section 4.4). Jobs of a user have
equal parts of what it holds, and whole gangs take turns of about a minute by stride (`stride`).

Tickets have two levels: a tenant's are its weight as a member, and its users (`Job.user`; jobs without a
stated user have one together) have equal parts of them. Users of any two tenants may trade. Deviations and
choices:

- Turns: the paper's split stride gives each server's small jobs to a local scheduler and gangs that span
  servers to a central one, which needs the same quantum on several servers. Here one list serves the whole
  virtual cluster, for gangs of any size: local and central turns cannot collide.
- So fairness does not depend on which server a job is on, and no ticket load has to be balanced among
  servers: a job that has its turn runs wherever there is room. Only one kind of load balancing remains: jobs
  that have their turn are consolidated when a gang that also has its turn finds no place (`Rules.gathers`).
- A user that wants fewer GPUs than its part takes those of its fastest models first, not some of every model.
  Otherwise it would be better off alone while others had its fast GPUs.
- Entitlement and trades are decided again at the end of a quantum when jobs, GPUs or speeds changed, at most
  once in `interval_seconds`.
- The speed-up of a user is that of the mean of its jobs by their tickets, each measured by its best model;
  `profiling` is the part of the GPUs that may be used at a time to learn those that are only estimated.
  Without `trading`, speeds count only for left-over GPUs.
- Within a user a job of priority p has p + 1 times the tickets (below 0: 1 / (1 - p) times). Priority does
  not count between users: each could claim more by raising it.
- Idle GPUs are handed out at once, to the user that is owed most.
- A job whose user has parts of two models that are alike for it stays on the one where it runs, as long as no
  other job has its turn on these GPUs.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

from scheduler.core.building_blocks.entitlement import Claim, Holdings, claim_of, entitled, entitled_within
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.time_shares.deficits import Deficits
from scheduler.core.building_blocks.time_shares.rounds import Rounds, Rules, SolverRequest
from scheduler.core.building_blocks.time_shares.run_options import RunOption, RunOptions
from scheduler.core.building_blocks.time_shares.solver_input import believed_weights, weight_of
from scheduler.core.building_blocks.time_shares.time_slices import TimeSlices
from scheduler.core.building_blocks.time_shares.units import NEGLIGIBLE_SHARE, TimeShares
from scheduler.core.model import wording
from scheduler.core.model.plan import Decision, LedgerLine
from scheduler.core.model.snapshot import Job, Memory
from scheduler.core.policies.gandiva_fair.stride import (
    Stride,
    StrideTimeSlices,
    User,
    read_amounts,
    user_of,
    write_amounts,
)
from scheduler.core.policies.gandiva_fair.trading import Trade, trade

#: Digits after the point of GPUs in the books.
DIGITS = 6
#: How the price of a trade comes about.
PRICES = ("second", "clearing")


@dataclass(frozen=True, slots=True, kw_only=True)
class GandivaFair:
    """Equal parts of every model for users by weight, and trades between models."""

    #: A waiting job has its turn in a later quantum, though jobs neither come nor go.
    rotates: ClassVar[bool] = True
    #: It gives each job a target share of each GPU model, and remembers the shares.
    has_targets: ClassVar[bool] = True

    quantum_seconds: float = 60.0
    #: Entitlements and trades are decided again no more often than this.
    interval_seconds: float = 60.0
    trading: bool = True
    #: The price of a trade: the second highest speed-up, or the one at which as much is bought as sold, which
    #: leaves less to be gained by understating one's own.
    price: str = field(default="second", metadata={"choices": PRICES})
    #: Part of the GPUs that may be used at a time to learn speeds.
    profiling: float = 0.1

    def __post_init__(self) -> None:
        if not (self.quantum_seconds > 0 and self.interval_seconds >= 0):
            raise ValueError("quantum_seconds must be above 0 and interval_seconds at least 0")
        if not 0 <= self.profiling <= 1:
            raise ValueError("profiling must be between 0 and 1")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Change places where a quantum ends; else hand out what is idle."""
        if memory.get("policy") != "gandiva_fair":
            memory = {}
        if not view.jobs:
            return _nobody(memory)
        run_options = RunOptions(view)
        stride = Stride(view, memory.get("stride", {}))
        price = self.price if self.trading else ""
        books = _Books(view, run_options, memory.get("books", {}), price)
        stride.settle(books.parts)
        rules = Rules(
            policy="gandiva_fair",
            manner=f"{self.trading} {self.price}",
            lease_seconds=self.quantum_seconds,
            interval_seconds=self.interval_seconds,
            profiling=self.profiling,
            gathers=True,
        )

        def order(deficits: Deficits) -> TimeSlices:
            return StrideTimeSlices(view, run_options, deficits, stride, books.parts, self.quantum_seconds)

        decision = Rounds(view, memory, run_options, rules, books.ask, order).decision()
        return replace(
            decision,
            memory={**decision.memory, "books": books.written, "stride": stride.remember(decision)},
            ledger=books.lines,
        )


def _nobody(memory: Memory) -> Decision:
    """Return the decision where there are no jobs: the next user to come is owed nothing."""
    lines = tuple(_entitled_lines(memory.get("books", {}), {"entitled": {}, "users": {}}))
    return Decision(grants=(), keep_running=True, memory={"policy": "gandiva_fair"}, ledger=lines)


class _Books:
    """The entitlement of each user, the trades, and what each user holds after them.

    Memory `books`: `entitled` and `held`, GPUs by tenant and model, `users`, what each tenant's users hold,
    and `trades`; there are none without a `price`. `lines` report what changed in this round.
    """

    def __init__(self, view: View, run_options: RunOptions, written: Mapping[str, Any], price: str) -> None:
        self._view, self._run_options, self._price = view, run_options, price
        self.written = written
        self.lines: tuple[LedgerLine, ...] = ()

    @property
    def parts(self) -> Holdings[User]:
        """What users hold by the books."""
        return dict(read_amounts(self.written.get("users", {})))

    def ask(self) -> SolverRequest | None:
        """Return what entitlements and trades depend on: members, GPUs, and jobs with their known speeds."""
        users = self._users()
        if not users:
            return None
        known: dict[object, str] = {}
        digest = zlib.crc32(repr((believed_weights(self._view), self._run_options.gpus)).encode())
        for user, jobs in users.items():
            said = [repr(user)]
            for job, run_option in jobs:
                # Formatting numbers is slow, and most jobs are like others.
                alike = run_option.amount, *run_option.speeds.items()
                if alike not in known:
                    known[alike] = repr(alike)
                said.append(f"{job.id} {job.priority} {job.estimated} {known[alike]}")
            digest = zlib.crc32("|".join(said).encode(), digest)
        return SolverRequest((digest,), partial(self._decided, users))

    def _decided(self, users: Mapping[User, Sequence[tuple[Job, RunOption]]]) -> TimeShares:
        gpus = self._run_options.gpus
        # Users of a tenant count alike.
        claims = {
            user: claim_of(1.0, [(run_option.amount, run_option.speeds) for _, run_option in jobs])
            for user, jobs in users.items()
        }
        before = self._entitled(claims)
        rates = {user: _rates(jobs, gpus) for user, jobs in users.items()}
        held, trades = before, list[Trade[User]]()
        if self._price:
            models, clearing = _fastest_first(users, gpus), self._price == "clearing"
            held, trades = trade(before, claims, rates, models, clearing=clearing)
        earlier = self.written
        self.written = {
            "entitled": _by_tenant(before),
            "held": _by_tenant(held),
            "users": write_amounts(held, DIGITS),
            "trades": [_entry(one) for one in trades],
        }
        self.lines = tuple([*_entitled_lines(earlier, self.written), *_trade_lines(earlier, trades, rates)])
        time_shares: TimeShares = {}
        for user, jobs in users.items():
            time_shares.update(_divided(held[user], jobs))
        return time_shares

    def _entitled(self, claims: Mapping[User, Claim]) -> Holdings[User]:
        weights = believed_weights(self._view)
        groups: dict[str, tuple[float, dict[User, Claim]]] = {}
        for user, claim in claims.items():
            groups.setdefault(user[0], (weights[user[0]], {}))[1][user] = claim
        parts = entitled_within(self._run_options.gpus, groups)
        return {user: held for within in parts.values() for user, held in within.items()}

    def _users(self) -> dict[User, list[tuple[Job, RunOption]]]:
        """Return the jobs of each user that can run here."""
        users: dict[User, list[tuple[Job, RunOption]]] = {}
        for number in sorted(self._view.jobs):
            job = self._view.jobs[number]
            run_option = self._run_options.of(job)
            if run_option is not None:
                users.setdefault(user_of(job), []).append((job, run_option))
        return dict(sorted(users.items()))


def _rates(jobs: Sequence[tuple[Job, RunOption]], gpus: Mapping[str, int]) -> dict[str, float]:
    """Return what a GPU is worth to the user, for each model on which the speed of all its jobs is known.

    By tickets, the speeds of its jobs relative to their best; the ratio of two models' is its speed-up.
    """
    known: dict[str, float] = {}
    for model in gpus:
        if all(model in run_option.speeds and _is_known(job, model) for job, run_option in jobs):
            known[model] = sum([weight_of(job) * run_option.speeds[model] for job, run_option in jobs])
    return known


def _is_known(job: Job, model: str) -> bool:
    return job.throughput.get(model, 0.0) > 0 and model not in job.estimated


def _fastest_first(
    users: Mapping[User, Sequence[tuple[Job, RunOption]]], gpus: Mapping[str, int]
) -> list[str]:
    """Return the models by the total speed of all jobs on them, the fastest first."""
    speed = dict.fromkeys(gpus, 0.0)
    for jobs in users.values():
        for _, run_option in jobs:
            for model, relative in run_option.speeds.items():
                speed[model] += relative * run_option.amount
    return sorted(speed, key=lambda model: (-speed[model], model))


def _divided(held: Mapping[str, float], jobs: Sequence[tuple[Job, RunOption]]) -> TimeShares:
    """Return the shares of a user's jobs: equal parts of what it holds, by their tickets."""
    claims = {
        job.id: Claim(
            weight_of(job), run_option.amount, dict.fromkeys(run_option.speeds, float(run_option.amount))
        )
        for job, run_option in jobs
    }
    parts = entitled(held, claims)
    time_shares: TimeShares = {}
    for job, run_option in jobs:
        shares = {model: gpus / run_option.amount for model, gpus in parts[job.id].items()}
        shares = {model: share for model, share in shares.items() if share > NEGLIGIBLE_SHARE}
        if shares:
            time_shares[job.id,] = shares
    return time_shares


def _by_tenant(holdings: Holdings[User]) -> dict[str, dict[str, float]]:
    """Return what tenants hold, rounded, those that hold nothing included."""
    sums: dict[str, dict[str, float]] = {}
    for (tenant, _), amounts in holdings.items():
        own = sums.setdefault(tenant, {})
        for model, gpus in amounts.items():
            own[model] = own.get(model, 0.0) + gpus
    return {tenant: _rounded(amounts) for tenant, amounts in sums.items()}


def _rounded(amounts: Mapping[str, float]) -> dict[str, float]:
    return {model: round(gpus, DIGITS) for model, gpus in sorted(amounts.items())}


def _entry(done: Trade[User]) -> dict[str, Any]:
    return {
        "buyer": done.buyer[0],
        "buyer_user": done.buyer[1],
        "seller": done.seller[0],
        "seller_user": done.seller[1],
        "fast": done.fast,
        "slow": done.slow,
        "fast_gpus": round(done.fast_gpus, DIGITS),
        "slow_gpus": round(done.slow_gpus, DIGITS),
        "price": round(done.price, DIGITS),
    }


def _entitled_lines(earlier: Mapping[str, Any], books: Mapping[str, Any]) -> Iterator[LedgerLine]:
    """Yield a line for each tenant that is entitled to other GPUs than before, also for one that left."""
    before, now = earlier.get("entitled", {}), books["entitled"]
    for tenant in sorted({*before, *now}):
        had, has = _above_zero(before.get(tenant, {})), _above_zero(now.get(tenant, {}))
        if had != has:
            words = wording.listed([f"{gpus:.4g} {model}" for model, gpus in has.items()]) or "no GPUs"
            yield LedgerLine(
                kind="entitled",
                party=tenant,
                gpus=has,
                message=f"{tenant} is entitled to {words}.",
                details={"before": had, "users": len(books["users"].get(tenant, {}))},
            )


def _trade_lines(
    earlier: Mapping[str, Any], trades: Sequence[Trade[User]], rates: Mapping[User, Mapping[str, float]]
) -> Iterator[LedgerLine]:
    """Yield a line for each trade, and one when trading has ended; nothing if all is as before."""
    if [_entry(done) for done in trades] == list(earlier.get("trades", [])):
        return
    if not trades:
        yield LedgerLine(kind="trade", message="There are no more trades.")
    for done in trades:
        entry = _entry(done)
        fast, slow = f"{done.fast_gpus:.4g} {done.fast}", f"{done.slow_gpus:.4g} {done.slow}"
        worth = {side: rates[side][done.fast] / rates[side][done.slow] for side in (done.buyer, done.seller)}
        bought, sold = worth[done.buyer], worth[done.seller]
        yield LedgerLine(
            kind="trade",
            party=done.buyer[0],
            counterparty=done.seller[0],
            gpus={done.fast: entry["fast_gpus"]},
            given={done.slow: entry["slow_gpus"]},
            price=entry["price"],
            message=f"{done.buyer[0]} has {fast} of {done.seller[0]} for {slow}.",
            details={
                "user": done.buyer[1],
                "counterparty_user": done.seller[1],
                "speed_up": round(bought, DIGITS),
                "counterparty_speed_up": round(sold, DIGITS),
                # In GPUs of the slow model.
                "gain": round((bought - done.price) * done.fast_gpus, DIGITS),
                "counterparty_gain": round((done.price - sold) * done.fast_gpus, DIGITS),
            },
        )


def _above_zero(amounts: Mapping[str, float]) -> dict[str, float]:
    return {model: gpus for model, gpus in amounts.items() if gpus}
