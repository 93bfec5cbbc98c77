"""Gandiva-Fair: every user its part of every GPU model, and trades by which both sides gain.

S. Chaudhary, R. Ramjee, M. Sivathanu, N. Kwatra and S. Viswanatha, "Balancing Efficiency and Fairness in
Heterogeneous GPU Clusters for Deep Learning", EuroSys 2020. Tickets entitle a user to a part of the GPUs of
each model, whatever the number and size of its jobs; what it can not use goes to others by water filling
(`scheduler.core.entitlement`). Users then trade: those whose jobs gain much from a fast model buy time there
with time on a slow one, from those whose jobs gain little (`scheduler.core.trading`, section 4.4). Jobs of a
user have equal parts of what it holds, and whole gangs take turns of about a minute.

Users are the tenants of the virtual cluster, tickets their weights as members. Deviations and choices:

- Turns: the paper's split stride gives each server's small jobs to a local scheduler and gangs that span
  servers to a central one. Here one list serves the whole virtual cluster: who is owed most of its time goes
  first (`scheduler.core.targets`), which is what stride scheduling comes to, for gangs of any size. So no
  load has to be balanced among servers either. Places are the placer's.
- Entitlement and trades are decided anew at the end of a quantum when jobs, GPUs or speeds changed, not more
  often than every `interval_seconds`.
- The speed-up of a user is that of the mean of its jobs by their tickets, each measured by its best model;
  `profiling` is the part of the GPUs that may be used at a time to learn those that are only estimated.
  Without `trading` speeds count for nothing but left-over GPUs.
- Within a user a job of priority p has p + 1 times the tickets (below 0: 1 / (1 - p) times). Priority does
  not count between users: each could claim more by raising it.
- Idle GPUs are handed out at once, to whoever is owed most; they are no debt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from scheduler.core.entitlement import Claim, Holdings, entitled
from scheduler.core.plan import Decision
from scheduler.core.policy import View
from scheduler.core.snapshot import Job, Memory
from scheduler.core.targets.prospects import Prospect, Prospects
from scheduler.core.targets.question import believed_weights, question_of, weight_of
from scheduler.core.targets.rounds import Asked, Rounds, Rules
from scheduler.core.targets.units import NEGLIGIBLE_SHARE, Targets
from scheduler.core.trading import Trade, trade

#: Digits of GPUs in the books.
DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class GandivaFair:
    """Equal parts of every model for users by weight, and trades between models."""

    #: Who waits has its turn in a later quantum, though jobs neither come nor go.
    rotates: ClassVar[bool] = True
    #: It means each job to have a share of each GPU model, and remembers which.
    has_targets: ClassVar[bool] = True

    quantum_seconds: float = 60.0
    #: Entitlements and trades are not decided anew more often than this.
    interval_seconds: float = 60.0
    trading: bool = True
    #: Part of the GPUs that may be used at a time to learn speeds.
    profiling: float = 0.1

    def __post_init__(self) -> None:
        if not (self.quantum_seconds > 0 and self.interval_seconds >= 0):
            raise ValueError("quantum_seconds must be above 0 and interval_seconds at least 0")
        if not 0 <= self.profiling <= 1:
            raise ValueError("profiling must be between 0 and 1")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Change places where a quantum ends; else hand out what is idle."""
        if not view.jobs:
            return Decision(grants=(), keep_running=True)
        prospects = Prospects(view)
        books = _Books(view, prospects, memory.get("books", {}), trading=self.trading)
        rules = Rules(
            policy="gandiva_fair",
            manner=f"{self.trading}",
            lease_seconds=self.quantum_seconds,
            interval_seconds=self.interval_seconds,
            profiling=self.profiling,
        )
        decision = Rounds(view, memory, prospects, rules, books.ask).decision()
        return replace(decision, memory={**decision.memory, "books": books.written})


class _Books:
    """Who is entitled to what, what was traded, and what everyone holds then.

    Memory `books`: `entitled` and `held`, GPUs by tenant and model, and `trades`.
    """

    def __init__(
        self, view: View, prospects: Prospects, written: Mapping[str, Any], *, trading: bool
    ) -> None:
        self._view, self._prospects, self._trading = view, prospects, trading
        self.written = written

    def ask(self) -> Asked | None:
        question = question_of(self._view, self._prospects, by_tenant=True, sharing=False)
        return None if question is None else Asked((question.digest,), self._decided)

    def _decided(self) -> Targets:
        users = self._users()
        weights, gpus = believed_weights(self._view), self._prospects.gpus
        claims = {user: _claim(weights[user], jobs) for user, jobs in users.items()}
        before = entitled(gpus, claims)
        held, trades = before, list[Trade]()
        if self._trading:
            rates = {user: _rates(jobs, gpus) for user, jobs in users.items()}
            held, trades = trade(before, claims, rates, _fastest_first(users, gpus))
        self.written = {
            "entitled": _rounded(before),
            "held": _rounded(held),
            "trades": [_entry(one) for one in trades],
        }
        targets: Targets = {}
        for user, jobs in users.items():
            targets.update(_divided(held[user], jobs))
        return targets

    def _users(self) -> dict[str, list[tuple[Job, Prospect]]]:
        """Return the jobs of each tenant that can run here."""
        users: dict[str, list[tuple[Job, Prospect]]] = {}
        for number in sorted(self._view.jobs):
            job = self._view.jobs[number]
            prospect = self._prospects.of(job)
            if prospect is not None:
                users.setdefault(job.tenant, []).append((job, prospect))
        return dict(sorted(users.items()))


def _claim(weight: float, jobs: Iterable[tuple[Job, Prospect]]) -> Claim:
    by_model: dict[str, float] = {}
    gpus = 0
    for _, prospect in jobs:
        gpus += prospect.gpus
        for model in prospect.speeds:
            by_model[model] = by_model.get(model, 0.0) + prospect.gpus
    return Claim(weight, gpus, by_model)


def _rates(jobs: Sequence[tuple[Job, Prospect]], gpus: Mapping[str, int]) -> dict[str, float]:
    """Return what a GPU of each model is worth to the user, where the speed of all its jobs is known there.

    By tickets, the speeds of its jobs relative to their best; the ratio of two models' is its speed-up.
    """
    known: dict[str, float] = {}
    for model in gpus:
        if all(model in prospect.speeds and _is_known(job, model) for job, prospect in jobs):
            known[model] = sum([weight_of(job) * prospect.speeds[model] for job, prospect in jobs])
    return known


def _is_known(job: Job, model: str) -> bool:
    return job.throughput.get(model, 0.0) > 0 and model not in job.estimated


def _fastest_first(users: Mapping[str, Sequence[tuple[Job, Prospect]]], gpus: Mapping[str, int]) -> list[str]:
    """Return the models by how fast all jobs are there together."""
    speed = dict.fromkeys(gpus, 0.0)
    for jobs in users.values():
        for _, prospect in jobs:
            for model, relative in prospect.speeds.items():
                speed[model] += relative * prospect.gpus
    return sorted(speed, key=lambda model: (-speed[model], model))


def _divided(held: Mapping[str, float], jobs: Sequence[tuple[Job, Prospect]]) -> Targets:
    """Return the shares of a user's jobs: equal parts of what it holds, by their tickets."""
    claims = {
        job.id: Claim(weight_of(job), prospect.gpus, dict.fromkeys(prospect.speeds, float(prospect.gpus)))
        for job, prospect in jobs
    }
    parts = entitled(held, claims)
    targets: Targets = {}
    for job, prospect in jobs:
        shares = {model: gpus / prospect.gpus for model, gpus in parts[job.id].items()}
        shares = {model: share for model, share in shares.items() if share > NEGLIGIBLE_SHARE}
        if shares:
            targets[job.id,] = shares
    return targets


def _rounded(holdings: Holdings[str]) -> dict[str, dict[str, float]]:
    return {
        user: {model: round(gpus, DIGITS) for model, gpus in amounts.items()}
        for user, amounts in holdings.items()
    }


def _entry(done: Trade) -> dict[str, Any]:
    return {
        "buyer": done.buyer,
        "seller": done.seller,
        "fast": done.fast,
        "slow": done.slow,
        "fast_gpus": round(done.fast_gpus, DIGITS),
        "slow_gpus": round(done.slow_gpus, DIGITS),
        "price": round(done.price, DIGITS),
    }
