"""Virtual clusters and their guarantees, checked against the hardware and the known policies."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import connection, transaction
from django.db.models import Count, F, Q

from scheduler.core.model.gpu_parts import SHARE_MEASURED
from scheduler.core.model.lifecycle import JOB_FINAL
from scheduler.core.model.loan_terms import MARKET
from scheduler.core.model.node_peaks import OVERCOMMIT_NEVER, USUAL_MARGIN
from scheduler.core.round.guarantees.binding import CELLS
from scheduler.jobspec import did_you_mean
from scheduler.models.events import Event
from scheduler.models.jobs import Job
from scheduler.models.market import BANK_NAME, OVER_AT, CreditTransfer, Loan, Offer, OfferState
from scheduler.models.nodes import Gpu
from scheduler.models.selectors.jobs import SPARE_VIEW
from scheduler.models.selectors.nodes import problems_with_gpu_models
from scheduler.models.virtual_clusters import LONGEST_WAIT_SECONDS, Overcommitment, PreemptionLimits
from scheduler.virtual_clusters.cells.selectors import cells_in_force
from scheduler.virtual_clusters.market.selectors import own_guarantees, problems_with_loans
from scheduler.virtual_clusters.representations import (
    least_seconds,
    overcommitment_of,
    publish_virtual_clusters,
)
from scheduler.wiring.clock import database_now
from scheduler.wiring.plugins import PLACER, POLICY, ChosenPlugin
from scheduler.wiring.wakeups import request_round_on_commit
from tenants.errors import Conflict, FieldError, Invalid, QuotaExceeded
from tenants.models import (
    SLUG,
    Guarantee,
    Tenant,
    VirtualCluster,
    VirtualClusterMember,
)

MAX_VIRTUAL_CLUSTERS = 1_000
#: PostgreSQL advisory lock under which the sum of all guarantees is checked and changed.
_GUARANTEES_LOCK = 0x616C6C6F


#: The defaults of a new virtual cluster.
USUAL_POLICY, USUAL_PLACER = ChosenPlugin("fifo"), ChosenPlugin("consolidate")


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualClusterSettings:
    """What a virtual cluster should be."""

    name: str
    title: str = ""
    policy_plugin: ChosenPlugin = USUAL_POLICY
    placer_plugin: ChosenPlugin = USUAL_PLACER
    default_time_limit_seconds: float = 86_400.0
    #: One of `tenants.models.SHARING`.
    sharing: str = SHARE_MEASURED
    #: How long an attempt runs at least before a policy, or a guarantee, may have its GPUs.
    min_run_seconds: float = 0.0
    reclaim_min_run_seconds: float = 0.0
    #: How long a job waits before GPUs are reserved for it; 0: for ever.
    longest_wait_seconds: float = LONGEST_WAIT_SECONDS
    #: One of `scheduler.models.virtual_clusters.OVERCOMMIT`, and the part of each node that is kept free.
    overcommit: str = OVERCOMMIT_NEVER
    overcommit_margin: float = USUAL_MARGIN
    #: GPUs by model.
    guaranteed: Mapping[str, int] = field(default_factory=dict)
    #: Weight by tenant.
    members: Mapping[str, float] = field(default_factory=dict)


@transaction.atomic
def virtual_cluster_create(*, desired: VirtualClusterSettings, actor: str) -> VirtualCluster:
    """Make a new virtual cluster; raise Invalid or QuotaExceeded naming what does not fit."""
    lock_guarantees()
    if VirtualCluster.objects.filter(name=desired.name).exists():
        problem = FieldError("name", "is taken", "a name that no virtual cluster has")
        raise Conflict(f"There is already a virtual cluster {desired.name!r}.", [problem])
    if VirtualCluster.objects.count() >= MAX_VIRTUAL_CLUSTERS:
        raise Conflict(f"There are already {MAX_VIRTUAL_CLUSTERS} virtual clusters; delete some first.")
    return _write(VirtualCluster(name=desired.name), desired, actor=actor, kind="virtual_cluster.created")


@transaction.atomic
def virtual_cluster_set(
    *,
    virtual_cluster: VirtualCluster,
    desired: VirtualClusterSettings,
    actor: str,
    version: int | None = None,
) -> VirtualCluster:
    """Change a virtual cluster to what is wanted, members and guarantees included; it keeps its name.

    Raise Conflict when it is no longer at `version`, if one is given.
    """
    lock_guarantees()
    row = VirtualCluster.objects.select_for_update(no_key=True).get(id=virtual_cluster.id)
    if version is not None and row.version != version:
        raise Conflict(
            f"Virtual cluster {row.name} was changed by someone else in the meantime; read it again."
        )
    return _write(row, desired, actor=actor, kind="virtual_cluster.changed")


@transaction.atomic
def virtual_cluster_delete(*, virtual_cluster: VirtualCluster, actor: str) -> None:
    """Remove a virtual cluster that no job, past or present, belongs to."""
    lock_guarantees()
    jobs = Job.objects.filter(virtual_cluster=virtual_cluster)
    unfinished = jobs.exclude(state__in=JOB_FINAL).count()
    if unfinished:
        raise Conflict(
            f"Virtual cluster {virtual_cluster.name} has {unfinished} unfinished jobs; wait or cancel"
            " them first."
        )
    if jobs.exists():
        raise Conflict(
            f"Virtual cluster {virtual_cluster.name} has jobs in its history; remove its guarantees"
            " and members instead."
        )
    if virtual_cluster.name in cells_in_force().layout.specification.virtual_clusters:
        raise Conflict(
            f"Virtual cluster {virtual_cluster.name} is named in the specification of cells; remove it"
            " there first (PUT /cells)."
        )
    _check_market(virtual_cluster)
    _record(virtual_cluster, "virtual_cluster.deleted", actor=actor, before=_facts(virtual_cluster))
    virtual_cluster.delete()
    request_round_on_commit()


def lock_guarantees() -> None:
    """Keep all others from changing guarantees or cells until this transaction ends."""
    # Two operators who each add what still fits must not both succeed.
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_GUARANTEES_LOCK])


def try_lock_guarantees() -> bool:
    """Do the same unless another transaction has it; return whether it is done."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_GUARANTEES_LOCK])
        return bool(cursor.fetchone()[0])


def _write(row: VirtualCluster, desired: VirtualClusterSettings, *, actor: str, kind: str) -> VirtualCluster:
    tenants = _check(desired)
    before = _facts(row) if row.pk else {}
    desired = _with_cells(desired)
    _check_guarantees(row, desired)
    if row.pk:
        _check_loans(row, desired)
    for name in ("title", "default_time_limit_seconds", "sharing"):
        setattr(row, name, getattr(desired, name))
    row.policy, row.policy_parameters = desired.policy_plugin.name, dict(desired.policy_plugin.parameters)
    row.placer, row.placer_parameters = desired.placer_plugin.name, dict(desired.placer_plugin.parameters)
    if row.pk:
        row.version = F("version") + 1
    row.save()
    row.refresh_from_db()
    least = {
        "min_run_seconds": desired.min_run_seconds,
        "reclaim_min_run_seconds": desired.reclaim_min_run_seconds,
        "longest_wait_seconds": desired.longest_wait_seconds,
    }
    row.preemption_limits, _ = PreemptionLimits.objects.update_or_create(virtual_cluster=row, defaults=least)
    row.overcommitment, _ = Overcommitment.objects.update_or_create(
        virtual_cluster=row,
        defaults={"overcommit": desired.overcommit, "margin": desired.overcommit_margin},
    )
    # Members that stay are left alone, so that the audit log has changes only.
    row.members.exclude(tenant__name__in=desired.members).delete()
    VirtualClusterMember.objects.bulk_create(
        [
            VirtualClusterMember(virtual_cluster=row, tenant=tenants[name], weight=weight)
            for name, weight in desired.members.items()
        ],
        update_conflicts=True,
        unique_fields=["virtual_cluster", "tenant"],
        update_fields=["weight"],
    )
    guarantees_set(row, desired.guaranteed)
    _record(row, kind, actor=actor, before=before)
    publish_virtual_clusters([row.id])
    request_round_on_commit()
    return row


def guarantees_set(
    row: VirtualCluster, gpus_of: Mapping[str, int], *, models: Collection[str] | None = None
) -> None:
    """Set the guarantees to these, those of other GPU models than `models` aside; 0 is none."""
    desired = {model: gpus for model, gpus in gpus_of.items() if gpus}
    others = row.guarantees.exclude(gpu_model__in=desired)
    (others if models is None else others.filter(gpu_model__in=models)).delete()
    Guarantee.objects.bulk_create(
        [Guarantee(virtual_cluster=row, gpu_model=model, gpus=gpus) for model, gpus in desired.items()],
        update_conflicts=True,
        unique_fields=["virtual_cluster", "gpu_model"],
        update_fields=["gpus"],
    )


def _check(desired: VirtualClusterSettings) -> dict[str, Tenant]:
    """Raise Invalid with everything wrong about it by itself; return the members' tenants by name."""
    problems = _problems_with_name(desired.name)
    problems += POLICY.problems(desired.policy_plugin, "policy_plugin")
    problems += PLACER.problems(desired.placer_plugin, "placer_plugin")
    problems += problems_with_gpu_models(desired.guaranteed, "guaranteed.{}")
    tenants = {tenant.name: tenant for tenant in Tenant.objects.filter(name__in=desired.members)}
    for name in desired.members:
        if name not in tenants:
            known = list(Tenant.objects.values_list("name", flat=True)[:1_000])
            problem = f"there is no tenant {name[:80]!r}{did_you_mean(name, known)}"
            problems.append(FieldError("members", problem, "tenants that exist"))
    if problems:
        raise Invalid(_summary(problems), problems)
    return tenants


def _problems_with_name(name: str) -> list[FieldError]:
    if name in (SPARE_VIEW, CELLS, MARKET, BANK_NAME):
        # Views, cells and the market are remembered by these names, and transfers name the bank.
        return [FieldError("name", f"{name!r} is used by the platform itself", "another name")]
    if not re.fullmatch(SLUG.regex, name):
        return [FieldError("name", f"{name[:80]!r} cannot be used", str(SLUG.message))]
    return []


def _with_cells(desired: VirtualClusterSettings) -> VirtualClusterSettings:
    """Fill in the guarantees that follow from cells; raise Invalid where other ones are asked for."""
    layout = cells_in_force().layout
    owned = layout.guaranteed(desired.name)
    problems = []
    for model in sorted(layout.gpu_models & set(desired.guaranteed)):
        gpus, there = desired.guaranteed[model], owned.get(model, 0)
        if gpus != there:
            problem = (
                f"GPU model {model} is divided by cells, and the cells of {desired.name} come to {there},"
                f" not {gpus}"
            )
            expected = f"{there}, or left out; its cells are changed by PUT /cells"
            problems.append(FieldError(f"guaranteed.{model}", problem, expected))
    if problems:
        raise Invalid(_summary(problems), problems)
    return replace(desired, guaranteed={**desired.guaranteed, **owned})


def own_gpus() -> dict[str, int]:
    """Return by model the GPUs that may be guaranteed: those of nodes outside serving pools."""
    own = Gpu.objects.filter(present=True, node__serving_pool=None)
    return dict(own.values_list("node__gpu_model__name").annotate(gpus=Count("id")))


def _check_guarantees(row: VirtualCluster, desired: VirtualClusterSettings) -> None:
    """Raise QuotaExceeded when the guarantees of all virtual clusters would exceed the GPUs.

    Nodes of serving pools do not count. What was guaranteed before may stay, though hardware has gone.
    """
    there, before = own_gpus(), dict[str, int]()
    guaranteed: Counter[str] = Counter()
    for owner, model, gpus in Guarantee.objects.values_list("virtual_cluster_id", "gpu_model", "gpus"):
        if owner == row.pk:
            before[model] = gpus
        else:
            guaranteed[model] += gpus
    problems = []
    divided = cells_in_force().layout.gpu_models
    for model, gpus in desired.guaranteed.items():
        if model in divided:
            continue  # Cells are counted against the hardware when they are given.
        left = max(there.get(model, 0) - guaranteed[model], 0)
        if gpus > max(left, before.get(model, 0)):
            lent = Gpu.objects.filter(
                present=True, node__gpu_model__name=model, node__serving_pool__isnull=False
            ).count()
            besides = f" ({lent} more are of serving pools, which may ask them back)" if lent else ""
            problem = (
                f"{gpus} {model} are {gpus - left} too many: the cluster has {there.get(model, 0)}{besides},"
                f" and {guaranteed[model]} are guaranteed to other virtual clusters"
            )
            problems.append(FieldError(f"guaranteed.{model}", problem, f"at most {left}"))
    if problems:
        raise QuotaExceeded(_summary(problems), problems)


def _check_loans(row: VirtualCluster, desired: VirtualClusterSettings) -> None:
    """Raise Conflict when what the virtual cluster has lent would no longer be its own."""
    own, now = own_guarantees(), database_now()
    after = replace(own, gpus={**own.gpus, row.name: desired.guaranteed})
    if found := problems_with_loans(own, after, now):
        problems = [FieldError(problem.field, problem.problem, problem.hint) for problem in found]
        raise Conflict(_summary(problems), problems)


def _check_market(row: VirtualCluster) -> None:
    """Raise Conflict when the virtual cluster takes part in the market, or did."""
    now = database_now()
    mine = Q(offer__lender=row) | Q(borrower=row)
    going_on = Loan.objects.alias(end=OVER_AT).filter(mine, end__gt=now).order_by("id")
    offers = Offer.objects.filter(lender=row, state=OfferState.OPEN, ends_at__gt=now).order_by("id")
    if going_on or offers:
        named = [f"loan {loan.id}" for loan in going_on[:5]] + [f"offer {offer.id}" for offer in offers[:5]]
        raise Conflict(
            f"Virtual cluster {row.name} takes part in the market ({', '.join(named)}); end its loans and"
            " withdraw its offers first."
        )
    paid = Q(debit__virtual_cluster=row) | Q(credit__virtual_cluster=row)
    if Loan.objects.filter(mine).exists() or CreditTransfer.objects.filter(paid).exists():
        raise Conflict(
            f"Virtual cluster {row.name} has loans or transfers in its history; remove its guarantees"
            " and members instead."
        )


def _facts(row: VirtualCluster) -> dict[str, Any]:
    return {
        "policy_plugin": ChosenPlugin(row.policy, row.policy_parameters).to_json(),
        "placer_plugin": ChosenPlugin(row.placer, row.placer_parameters).to_json(),
        "default_time_limit_seconds": row.default_time_limit_seconds,
        "sharing": row.sharing,
        **least_seconds(row),
        **overcommitment_of(row),
        "guaranteed": dict(row.guarantees.values_list("gpu_model", "gpus")),
        "members": dict(row.members.values_list("tenant__name", "weight")),
    }


@contextmanager
def recorded_change(row: VirtualCluster, *, actor: str) -> Iterator[None]:
    """Write the event of a change that is made inside."""
    before = _facts(row)
    yield
    _record(row, "virtual_cluster.changed", actor=actor, before=before)


def _record(row: VirtualCluster, kind: str, *, actor: str, before: dict[str, Any]) -> None:
    after = _facts(row)
    Event.objects.create(
        at=database_now(),
        kind=kind,
        subject="virtual_cluster",
        subject_id=row.id,
        actor=actor,
        message=f"{row.name}: {changes}" if (changes := _changes(before, after)) else row.name,
        data={"before": before, "after": after},
    )


def _changes(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return what was changed, in words; plug-ins with what they were."""
    said = []
    for name in after:
        was, now = before.get(name), after[name]
        if name.endswith("_plugin") and was and was != now:
            kind = name.removesuffix("_plugin")
            said.append(f"{kind} {_plugin_words(now)} instead of {_plugin_words(was)}")
        elif name in before and was != now:
            said.append(name.replace("_", " "))
    return ", ".join(said)


def _plugin_words(plugin: dict[str, Any]) -> str:
    said = ",".join(f"{name}={value}" for name, value in plugin["parameters"].items())
    return f"{plugin['name']}:{said}" if said else str(plugin["name"])


def _summary(problems: list[FieldError]) -> str:
    rest = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{problems[0].field}: {problems[0].problem}{rest}."
