"""What is known of fairness, as far as a viewer may see it: others' tenants only as a sum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Max, QuerySet, Sum
from django.db.models.functions import TruncMinute

from scheduler.core.fairness.tiers import tiers_of
from scheduler.models.fairness import FairnessSample, FairnessViolation
from scheduler.models.market import CreditTransfer, TransferKind
from scheduler.virtual_clusters.ledger.selectors import ANOTHER_TENANT
from scheduler.wiring.representation import OTHERS
from tenants.models import VirtualCluster, VirtualClusterMember
from tenants.selectors import Viewer
from tenants.times import iso

_ADDED = (
    "weight", "jobs_running", "jobs_waiting", "demand_gpus", "received_mean", "entitled_mean", "borrowed",
    "lent", "speed_here", "speed_alone",
)  # fmt: skip
_ADDED_BY_MODEL = ("own_part", "entitled", "received", "traded_in", "traded_out")
#: These have no meaning for many tenants together.
_UNSAID = {
    "rho_worst": None, "rho_mean": None, "envy": 0.0, "envies": None, "gain": None, "better_off_alone": False,
    "tier": None, "guaranteed_fraction": None, "gpu_fraction": None,
}  # fmt: skip
_SUMS = ("seconds", "entitled", "received", "borrowed", "lent", "traded", "here", "alone")


def may_see(viewer: Viewer, tenant: str) -> bool:
    return viewer.is_operator or tenant in viewer.tenant_names


def tenants_seen(viewer: Viewer, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the viewer's tenants by name, and all others as one."""
    mine: list[Mapping[str, Any]] = []
    others: list[Mapping[str, Any]] = []
    for row in rows:
        (mine if may_see(viewer, row["tenant"]) else others).append(row)
    shown = []
    for row in sorted(mine, key=lambda row: row["tenant"]):
        envies = row["envies"]
        is_hidden = envies is not None and not may_see(viewer, envies)
        shown.append({**row, "envies": ANOTHER_TENANT if is_hidden else envies})
    if others:
        shown.append(_together(others))
    return shown


def _together(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    rows = list(rows)
    by_model: dict[str, dict[str, float]] = {}
    for name in _ADDED_BY_MODEL:
        sums = by_model.setdefault(name, {})
        for row in rows:
            for model, gpus in row[name].items():
                sums[model] = round(sums.get(model, 0.0) + gpus, 3)
    added = {name: round(sum(row[name] for row in rows), 3) for name in _ADDED}
    return {"tenant": OTHERS, **added, **by_model, **_UNSAID}


def violations_visible(viewer: Viewer) -> QuerySet[FairnessViolation]:
    """Return those of the viewer's tenants; for operators all."""
    if viewer.is_operator:
        return FairnessViolation.objects.all()
    return FairnessViolation.objects.filter(tenant__in=viewer.tenant_names)


def samples_visible(viewer: Viewer, virtual_cluster: str) -> QuerySet[FairnessSample]:
    """Return the samples of a virtual cluster that are of the viewer's tenants; for operators all."""
    samples = FairnessSample.objects.filter(virtual_cluster=virtual_cluster)
    return samples if viewer.is_operator else samples.filter(tenant__in=viewer.tenant_names)


def samples_of_others(viewer: Viewer, virtual_cluster: str) -> QuerySet[FairnessSample, Any]:
    """Return one row a minute, the oldest first: the sums of all tenants that are not the viewer's."""
    samples = FairnessSample.objects.filter(virtual_cluster=virtual_cluster)
    samples = samples.none() if viewer.is_operator else samples.exclude(tenant__in=viewer.tenant_names)
    sums = {f"{name}_sum": Sum("seconds" if name == "seconds" else f"{name}_gpu_seconds") for name in _SUMS}
    return samples.order_by("at").values("at").annotate(longest=Max("seconds"), **sums)


def sample_of_others(row: Mapping[str, Any], paid: float) -> dict[str, Any]:
    """Return such a row as the API shows it."""
    means = {name: _mean(row[f"{name}_sum"], row["longest"]) for name in _SUMS[1:6]}
    return {
        "at": iso(row["at"]),
        "tenant": OTHERS,
        **means,
        "rho_worst": None,
        "rho_mean": None,
        "envy": 0.0,
        "paid": paid,
        "gain": None,
        "gpu_fraction": None,
    }


def sample(row: FairnessSample, paid: float) -> dict[str, Any]:
    """Return a minute of a tenant; GPUs are means over the part of it that was accounted for."""
    return {
        "at": iso(row.at),
        "tenant": row.tenant,
        "entitled": _mean(row.entitled_gpu_seconds, row.seconds),
        "received": _mean(row.received_gpu_seconds, row.seconds),
        "borrowed": _mean(row.borrowed_gpu_seconds, row.seconds),
        "lent": _mean(row.lent_gpu_seconds, row.seconds),
        "traded": _mean(row.traded_gpu_seconds, row.seconds),
        "rho_worst": row.rho_worst and round(row.rho_worst, 3),
        "rho_mean": row.rho_mean and round(row.rho_mean, 3),
        "envy": round(row.envy, 3),
        "paid": paid,
        "gain": round(row.here_gpu_seconds / row.alone_gpu_seconds, 3) if row.alone_gpu_seconds else None,
        "gpu_fraction": _fraction(row.useful_gpu_seconds, row.tier_demand_gpu_seconds),
    }


def _fraction(useful: float, demanded: float) -> float | None:
    return round(min(useful / demanded, 1.0), 3) if demanded > 0 else None


def fractions_since(virtual_cluster: str, since: datetime) -> dict[str, float]:
    """Return by tenant with demand the part of the GPU time demanded since then that its jobs had."""
    samples = FairnessSample.objects.filter(virtual_cluster=virtual_cluster, at__gte=since)
    sums = (
        samples.order_by()
        .values_list("tenant")
        .annotate(useful=Sum("useful_gpu_seconds"), demanded=Sum("tier_demand_gpu_seconds"))
    )
    found = {tenant: _fraction(useful, demanded) for tenant, useful, demanded in sums}
    return {tenant: fraction for tenant, fraction in found.items() if fraction is not None}


def with_tiers(
    rows: Iterable[Mapping[str, Any]], virtual_cluster: VirtualCluster, at: datetime
) -> tuple[list[dict[str, Any]], float]:
    """Return the tenants with their tiers under the policy, the fraction that each got, and the seconds until
    `at` over which that is.
    """
    rows = list(rows)
    tiers = tiers_of(
        virtual_cluster.policy, virtual_cluster.policy_parameters, [row["tenant"] for row in rows]
    )
    fractions = fractions_since(virtual_cluster.name, at - timedelta(seconds=tiers.window_seconds))
    found = []
    for row in rows:
        tier = tiers.by_tenant.get(row["tenant"])
        facts = {
            "tier": tier and tier.name,
            "guaranteed_fraction": tier and tier.guaranteed_fraction,
            "gpu_fraction": fractions.get(row["tenant"]),
        }
        found.append({**row, **facts})
    return found, tiers.window_seconds


def _mean(gpu_seconds: float, seconds: float) -> float:
    return round(gpu_seconds / seconds, 3) if seconds else 0.0


def may_see_credits(viewer: Viewer, virtual_cluster: str) -> bool:
    """Whether the viewer is a member of a tenant of it, or an operator."""
    members = VirtualClusterMember.objects.filter(
        virtual_cluster__name=virtual_cluster, tenant_id__in=list(viewer.roles)
    )
    return viewer.is_operator or members.exists()


def paid_by_minute(virtual_cluster: str, since: datetime, until: datetime) -> dict[datetime, float]:
    """Return the credits that a virtual cluster paid for loans, by begin of the minute."""
    payments = CreditTransfer.objects.filter(
        kind=TransferKind.PAYMENT,
        debit__virtual_cluster__name=virtual_cluster,
        at__gte=since,
        at__lt=until,
    )
    sums = payments.annotate(minute=TruncMinute("at")).values_list("minute").annotate(paid=Sum("amount"))
    return {minute: millicredits / 1_000 for minute, millicredits in sums.order_by()}
