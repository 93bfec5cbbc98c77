"""Account for rounds after they were carried out: what tenants received, and which ones lose by sharing.

The stored snapshots are taken in order, some rounds late: no round waits for this, and under a backlog some
are left out, so that the time between two counts for the later one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction

from scheduler.core.fairness.causes import cause_of
from scheduler.core.fairness.division import Account, Division, Standing, account_of
from scheduler.core.fairness.properties import WINDOW_SECONDS, Bundle, Envy, Window, counted_seconds, envies
from scheduler.core.model import codec
from scheduler.core.model.snapshot import Snapshot
from scheduler.models.fairness import FairnessProgress, FairnessSample, FairnessState, FairnessViolation
from scheduler.models.rounds import Round, RoundState

log = logging.getLogger(__name__)

#: If more rounds wait, this many are read, evenly spread and the newest included.
MOST_AT_ONCE = 12
_MINUTE = 60
_SUMS = (
    "seconds", "own_gpu_seconds", "demand_gpu_seconds", "entitled_gpu_seconds", "received_gpu_seconds",
    "borrowed_gpu_seconds", "lent_gpu_seconds", "traded_gpu_seconds", "here_gpu_seconds", "alone_gpu_seconds",
    "tier_demand_gpu_seconds", "useful_gpu_seconds",
)  # fmt: skip
_WRITTEN = (*_SUMS, "received", "rho_worst", "rho_mean", "envy")

#: A virtual cluster and a tenant.
Key = tuple[str, str]


def account_for_rounds() -> int:
    """Account for the rounds since the last time; return for how many. 0 while another process does it."""
    FairnessProgress.objects.get_or_create(id=1)
    with transaction.atomic():
        progress = FairnessProgress.objects.select_for_update(skip_locked=True).filter(id=1).first()
        if progress is None:
            # The process that holds the row accounts for these rounds.
            return 0
        numbers = _chosen(progress.round_number)
        if not numbers:
            return 0
        books = _Books(progress.at)
        for number in numbers:
            stored = Round.objects.filter(number=number).values_list("snapshot", flat=True).first()
            if stored is not None:
                try:
                    account = books.account_of(codec.loads_snapshot(bytes(stored)))
                except Exception:
                    # One round that cannot be accounted for must not keep all later ones from it.
                    log.exception("Round %d is left out of the account", number)
                    continue
                books.enter(account)
        books.write()
        FairnessProgress.objects.filter(id=1).update(round_number=numbers[-1], at=books.at)
        return len(numbers)


def _chosen(after: int) -> list[int]:
    rounds = Round.objects.filter(state=RoundState.APPLIED, snapshot__isnull=False)
    numbers = list(rounds.filter(number__gt=after).order_by("number").values_list("number", flat=True))
    count = min(len(numbers), MOST_AT_ONCE)
    return [numbers[(place + 1) * len(numbers) // count - 1] for place in range(count)]


class _Books:
    """What has been accounted for lately, and what is added to it now."""

    def __init__(self, at: datetime | None) -> None:
        self.at = at
        self._before: float | None = None
        states = {row.virtual_cluster: row.memory for row in FairnessState.objects.all()}
        self._contention = {name: memory.get("contention", {}) for name, memory in states.items()}
        self._demand_since: dict[Key, float] = {
            (name, tenant): since
            for name, memory in states.items()
            for tenant, since in memory.get("wanted_since", {}).items()
        }
        self._samples: dict[Key, dict[int, FairnessSample]] = {}
        self._changed: set[tuple[Key, int]] = set()
        if at is not None:
            since = at - timedelta(seconds=WINDOW_SECONDS + _MINUTE)
            for row in FairnessSample.objects.filter(at__gte=since):
                key = row.virtual_cluster, row.tenant
                self._samples.setdefault(key, {})[int(row.at.timestamp())] = row
        self._open = {
            (row.virtual_cluster, row.tenant): row
            for row in FairnessViolation.objects.filter(ended_at__isnull=True)
        }
        self._touched: dict[Key, FairnessViolation] = {}
        self._states: list[FairnessState] = []

    def account_of(self, snapshot: Snapshot) -> Account:
        """Return how the round after those entered was divided."""
        return account_of(snapshot, self._contention)

    def enter(self, account: Account) -> None:
        """Add what the facts of a round say about the time since the last."""
        snapshot = account.snapshot
        self._before = self.at.timestamp() if self.at is not None else None
        seconds = counted_seconds(self._before, snapshot.now, snapshot.round_seconds)
        self.at = _instant(snapshot.now)
        self._contention = {name: division.memory for name, division in account.divisions.items()}
        self._states = [
            self._enter(name, division, account, seconds) for name, division in account.divisions.items()
        ]
        self._close_others(account)

    def _enter(self, name: str, division: Division, account: Account, seconds: float) -> FairnessState:
        now = account.snapshot.now
        windows: dict[str, FairnessSample] = {}
        for tenant, standing in division.standings.items():
            since = self._demand_began((name, tenant), standing, now)
            self._add((name, tenant), standing, seconds, now)
            windows[tenant] = self._window(
                (name, tenant), now, now - WINDOW_SECONDS if since is None else since
            )
        envy = envies(
            {tenant: _had(standing, windows[tenant]) for tenant, standing in division.standings.items()}
        )
        for tenant, standing in division.standings.items():
            self._judge((name, tenant), standing, windows[tenant], account, seconds)
            self._note_envy((name, tenant), now, envy[tenant])
        return FairnessState(
            virtual_cluster=name,
            at=_instant(now),
            round_number=account.snapshot.round_number,
            policy=division.virtual_cluster.policy,
            tenants=[
                _represented(standing, windows[tenant], envy[tenant], (name, tenant) in self._open)
                for tenant, standing in division.standings.items()
            ],
            memory={
                "contention": division.memory,
                "wanted_since": {
                    tenant: self._demand_since[name, tenant]
                    for tenant in division.standings
                    if (name, tenant) in self._demand_since
                },
            },
        )

    def _demand_began(self, key: Key, standing: Standing, now: float) -> float | None:
        """Return since when it has had demand without a break; None while it has none."""
        if standing.demand_since is None:
            self._demand_since.pop(key, None)
            return None
        if key not in self._demand_since:
            # A job may have come long ago and have been held: at the last account no job wanted anything.
            since = max(standing.demand_since, self._before) if self._before else standing.demand_since
            self._demand_since[key] = since
        self._demand_since[key] = min(self._demand_since[key], now)
        return self._demand_since[key]

    def _add(self, key: Key, standing: Standing, seconds: float, now: float) -> None:
        if not (standing.demand_gpus or standing.demanded_gpus or standing.received or standing.borrowed):
            return
        since = self._demand_since.get(key)
        counted = seconds if since is None else min(seconds, max(0.0, now - since))
        minute = int(now) // _MINUTE * _MINUTE
        sample = self._samples.setdefault(key, {}).get(minute)
        if sample is None:
            sample = _blank(key, minute)
            self._samples[key][minute] = sample
        self._changed.add((key, minute))
        for name, rate in _rates(standing).items():
            setattr(sample, name, getattr(sample, name) + rate * counted)
        for model, gpus in standing.received.items():
            sample.received[model] = sample.received.get(model, 0.0) + gpus * counted
        if standing.rho_worst is not None:
            sample.rho_worst = max(standing.rho_worst, sample.rho_worst or 0.0)
        sample.rho_mean = standing.rho_mean

    def _window(self, key: Key, now: float, since: float) -> FairnessSample:
        """Return the sums of the window that ends now, or of the time since its demand began."""
        first = max(since, now - WINDOW_SECONDS) // _MINUTE * _MINUTE
        total = _blank(key, int(first))
        for minute, sample in self._samples.get(key, {}).items():
            if first <= minute <= now:
                for name in _SUMS:
                    setattr(total, name, getattr(total, name) + getattr(sample, name))
                for model, gpus in sample.received.items():
                    total.received[model] = total.received.get(model, 0.0) + gpus
        return total

    def _note_envy(self, key: Key, now: float, envy: Envy) -> None:
        sample = self._samples.get(key, {}).get(int(now) // _MINUTE * _MINUTE)
        if sample is not None:
            sample.envy = envy.amount

    def _judge(
        self, key: Key, standing: Standing, sums: FairnessSample, account: Account, seconds: float
    ) -> None:
        """Open, continue or close the tenant's violation."""
        window = _window_of(sums)
        demand_since = self._demand_since.get(key)
        if demand_since is None or not window.is_violated:
            self._close(key)
            return
        gain = window.gain or 0.0
        lost = seconds * max(0.0, standing.speed_alone - standing.speed_here)
        row = self._open.get(key)
        if row is None:
            lost = window.alone_gpu_seconds - window.here_gpu_seconds
            row = FairnessViolation(
                virtual_cluster=key[0],
                tenant=key[1],
                began_at=_instant(account.snapshot.now),
                worst=gain,
                round_number=account.snapshot.round_number,
            )
            self._open[key] = row
        if lost > 0:
            finding = cause_of(account, *key, demand_since)
            row.causes[finding.cause] = row.causes.get(finding.cause, 0.0) + lost
            if max(row.causes, key=lambda cause: (row.causes[cause], cause)) == finding.cause:
                row.cause, row.message = finding.cause, finding.message
            row.lost_gpu_seconds += lost
        row.worst = min(row.worst, gain)
        self._touched[key] = row

    def _close(self, key: Key) -> None:
        row = self._open.pop(key, None)
        if row is not None:
            assert self.at is not None
            row.ended_at = max(self.at, row.began_at)
            row.save()
            self._touched.pop(key, None)

    def _close_others(self, account: Account) -> None:
        """Close violations of tenants and virtual clusters that no longer exist."""
        for name, tenant in list(self._open):
            division = account.divisions.get(name)
            if division is None or tenant not in division.standings:
                self._close((name, tenant))

    def write(self) -> None:
        """Write it all down."""
        samples = [self._samples[key][minute] for key, minute in sorted(self._changed)]
        FairnessSample.objects.bulk_create(
            [FairnessSample(**{name: getattr(row, name) for name in _COLUMNS}) for row in samples],
            batch_size=1_000,
            update_conflicts=True,
            unique_fields=["virtual_cluster", "tenant", "at"],
            update_fields=list(_WRITTEN),
        )
        for row in self._touched.values():
            row.save()
        FairnessState.objects.bulk_create(
            self._states,
            update_conflicts=True,
            unique_fields=["virtual_cluster"],
            update_fields=["at", "round_number", "policy", "tenants", "memory"],
        )
        names = [row.virtual_cluster for row in self._states]
        FairnessState.objects.exclude(virtual_cluster__in=names).delete()


_COLUMNS = ("virtual_cluster", "tenant", "at", *_WRITTEN)


def _blank(key: Key, minute: int) -> FairnessSample:
    return FairnessSample(
        virtual_cluster=key[0],
        tenant=key[1],
        at=datetime.fromtimestamp(minute, UTC),
        seconds=0.0,
        received={},
    )


def _rates(standing: Standing) -> dict[str, float]:
    """Return what a second adds to the sums of a sample."""
    return {
        "seconds": 1.0,
        "own_gpu_seconds": _total(standing.own),
        "demand_gpu_seconds": standing.demand_gpus,
        "entitled_gpu_seconds": _total(standing.entitled),
        "received_gpu_seconds": _total(standing.received),
        "borrowed_gpu_seconds": standing.borrowed,
        "lent_gpu_seconds": standing.lent,
        "traded_gpu_seconds": _total(standing.traded_in),
        "here_gpu_seconds": standing.speed_here,
        "alone_gpu_seconds": standing.speed_alone,
        "tier_demand_gpu_seconds": standing.demanded_gpus,
        "useful_gpu_seconds": standing.useful_gpus,
    }


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _total(gpus: Mapping[str, float]) -> float:
    return sum(gpus.values())


def _window_of(sums: FairnessSample) -> Window:
    return Window(
        seconds=sums.seconds,
        here_gpu_seconds=sums.here_gpu_seconds,
        alone_gpu_seconds=sums.alone_gpu_seconds,
    )


def _had(standing: Standing, sums: FairnessSample) -> Bundle:
    return Bundle(
        weight=standing.weight,
        demand=sums.demand_gpu_seconds,
        speeds=standing.speeds,
        received=sums.received,
    )


def _represented(
    standing: Standing, sums: FairnessSample, envy: Envy, is_better_off_alone: bool
) -> dict[str, Any]:
    """Return a tenant as the API shows it, to those who may see its name."""
    seconds = sums.seconds
    return {
        "tenant": standing.tenant,
        "weight": standing.weight,
        "jobs_running": standing.jobs_running,
        "jobs_waiting": standing.jobs_waiting,
        "demand_gpus": standing.demand_gpus,
        "own_part": _rounded(standing.own),
        "entitled": _rounded(standing.entitled),
        "received": _rounded(standing.received),
        "received_mean": round(sums.received_gpu_seconds / seconds, 3) if seconds else 0.0,
        "entitled_mean": round(sums.entitled_gpu_seconds / seconds, 3) if seconds else 0.0,
        "rho_worst": _three(standing.rho_worst),
        "rho_mean": _three(standing.rho_mean),
        "envy": round(envy.amount, 3),
        "envies": envy.of or None,
        "borrowed": round(standing.borrowed, 3),
        "lent": round(standing.lent, 3),
        "traded_in": _rounded(standing.traded_in),
        "traded_out": _rounded(standing.traded_out),
        "speed_here": round(standing.speed_here, 3),
        "speed_alone": round(standing.speed_alone, 3),
        "gain": _three(_window_of(sums).gain),
        "better_off_alone": is_better_off_alone,
    }


def _three(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _rounded(gpus: Mapping[str, float]) -> dict[str, float]:
    return {model: round(count, 3) for model, count in sorted(gpus.items()) if count}
