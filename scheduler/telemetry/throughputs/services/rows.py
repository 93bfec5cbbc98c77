"""What is known of throughputs, row by row, and what people correct. A row is a job class, a gang size, near
or spread, alone or beside a partner, with whole GPUs or parts; it has one throughput for each GPU model."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.core.validators import RegexValidator
from django.db import connection, transaction

from scheduler.core.model.gpu_parts import WHOLE_GPU
from scheduler.core.perf.estimator import ThroughputEstimator
from scheduler.core.perf.throughput import (
    LARGEST_RATIO,
    JobClass,
    Setting,
    Throughput,
    problem_with,
    too_far_apart,
)
from scheduler.models.nodes import GpuModel
from scheduler.models.throughputs import SpeedCorrection, SpeedMeasurement
from scheduler.telemetry.throughputs.services.on_record import read_estimator
from scheduler.wiring.clock import database_now
from scheduler.wiring.jsonb import read_jsonb
from scheduler.wiring.wakeups import request_round_on_commit
from tenants.errors import FieldError, Invalid, NotFound, QuotaExceeded
from tenants.models import Role, Tenant
from tenants.selectors import Viewer

MOST_CORRECTIONS_PER_TENANT = 20_000
JOB_CLASS_NAME = RegexValidator(
    r"^(name:)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z",
    "An application, or name: and a job's name; letters, digits, '.', '_' and '-'.",
)

#: What unfinished jobs declare, for each job class and size by the newest job.
_DECLARED = """
SELECT DISTINCT ON (t.name, application, j.gpus) t.name, application, j.gpus, j.shape->'throughput'
FROM (SELECT *, coalesce(nullif(shape->>'application', ''), 'name:' || name) AS application
      FROM scheduler_job WHERE state IN ('queued', 'running') AND shape->'throughput' <> '{}') j
JOIN tenants_tenant t ON t.id = j.tenant_id
WHERE t.id = ANY(%s) ORDER BY t.name, application, j.gpus, j.id DESC
"""


class Row(NamedTuple):
    """One row; sorts as the list shows it."""

    tenant: str
    application: str
    gpus: int
    spread: bool
    partner: str
    gpu_limit: int = WHOLE_GPU

    @property
    def job_class(self) -> JobClass:
        return JobClass(self.tenant, self.application)

    def setting(self, gpu_model: str) -> Setting:
        return Setting(gpu_model, self.gpus, self.spread, self.partner, self.gpu_limit)

    @property
    def is_plain(self) -> bool:
        """Near, alone and with whole GPUs: what jobs declare, and what is estimated."""
        return not self.spread and not self.partner and self.gpu_limit == WHOLE_GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What is known of one row on one GPU model."""

    gpu_model: str
    #: None: nothing at all.
    throughput: Throughput | None
    declared: float | None
    measurement: SpeedMeasurement | None
    correction: SpeedCorrection | None


@dataclass(frozen=True, slots=True)
class Throughputs:
    """Everything that a viewer may see of throughputs."""

    viewer: Viewer
    tenants: Mapping[str, Tenant]
    estimator: ThroughputEstimator
    declared: Mapping[tuple[JobClass, int], Mapping[str, float]]
    gpu_models: tuple[str, ...]

    @classmethod
    def seen_by(cls, viewer: Viewer, tenant: str | None = None) -> "Throughputs":
        """Read what the viewer may see, of one tenant or of all."""
        visible = viewer.tenants() if tenant is None else viewer.tenants().filter(name=tenant)
        tenants = {each.name: each for each in visible}
        models = GpuModel.objects.order_by("name").values_list("name", flat=True)
        return cls(viewer, tenants, read_estimator(), _declared(tenants.values()), tuple(models))

    def rows(self) -> list[Row]:
        """Return every row of which anything is on record or declared, in order."""
        found = {
            Row(*job_class, setting.gpus, setting.spread, setting.partner, setting.gpu_limit)
            for job_class, settings in self.estimator.entries.items()
            if job_class.tenant in self.tenants
            for setting in settings
        }
        found |= {Row(*job_class, gpus, False, "") for job_class, gpus in self.declared}
        return sorted(found)

    def models_known(self, row: Row) -> list[str]:
        """Return the models of which the row has something on record or declared."""
        settings = self.estimator.entries.get(row.job_class, {})
        alike = {setting.gpu_model for setting in settings if setting == row.setting(setting.gpu_model)}
        return sorted(alike | self._declared_for(row).keys())

    def may_correct(self, row: Row) -> bool:
        return row.gpu_limit == WHOLE_GPU and self.viewer.may(self.tenants[row.tenant], Role.ADMIN)

    def cells(self, rows: Iterable[Row]) -> dict[Row, list[Cell]]:
        """Return the cells of some rows: first for each model of the cluster, then for others
        that are known.
        """
        rows = list(rows)
        measured = _by_place(SpeedMeasurement, self.tenants, rows)
        corrected = _by_place(SpeedCorrection, self.tenants, rows)
        return {row: self._cells_of(row, measured, corrected) for row in rows}

    def _cells_of(self, row: Row, measured: Mapping[Any, Any], corrected: Mapping[Any, Any]) -> list[Cell]:
        more = [model for model in self.models_known(row) if model not in self.gpu_models]
        models, declared = (*self.gpu_models, *more), self._declared_for(row)
        if not row.is_plain:
            throughputs = {model: self.estimator.at(row.job_class, row.setting(model)) for model in models}
        else:
            throughputs = {**self.estimator.throughputs(row.job_class, row.gpus, models, declared)}
        return [
            Cell(
                gpu_model=model,
                throughput=throughputs.get(model),
                declared=declared.get(model),
                measurement=measured.get((row, model)),
                correction=corrected.get((row, model)),
            )
            for model in models
        ]

    def _declared_for(self, row: Row) -> Mapping[str, float]:
        return self.declared.get((row.job_class, row.gpus), {}) if row.is_plain else {}


def _declared(tenants: Iterable[Tenant]) -> dict[tuple[JobClass, int], Mapping[str, float]]:
    with connection.cursor() as cursor:
        cursor.execute(_DECLARED, [[tenant.id for tenant in tenants]])
        rows = cursor.fetchall()
    return {
        (JobClass(tenant, application), gpus): read_jsonb(rates) for tenant, application, gpus, rates in rows
    }


def _by_place(table: Any, tenants: Mapping[str, Tenant], rows: list[Row]) -> dict[tuple[Row, str], Any]:
    """Return the table's rows for these rows, by row and model."""
    rows_seen, names = set(rows), {tenant.id: name for name, tenant in tenants.items()}
    found = table.objects.filter(
        tenant_id__in={tenants[row.tenant].id for row in rows},
        application__in={row.application for row in rows},
    )
    if table is SpeedCorrection:
        found = found.select_related("by")
    by_place = {}
    for each in found:
        row = Row(
            names[each.tenant_id], each.application, each.gpus, each.spread, each.partner, each.gpu_limit
        )
        if row in rows_seen:
            by_place[row, each.gpu_model] = each
    return by_place


# -- corrections -------------------------------------------------------------------------------------


@transaction.atomic
def throughput_correct(
    *, by: Viewer, tenant: Tenant, application: str, setting: Setting, value: float, reason: str = ""
) -> None:
    """Set a throughput; raise Invalid for an impossible value."""
    by.require(tenant, Role.ADMIN)
    check_value(read_estimator(), JobClass(tenant.name, application), setting, value)
    place = {"application": application, **setting._asdict()}
    # One at a time in a tenant, so that its limit holds.
    Tenant.objects.select_for_update().get(id=tenant.id)
    before = SpeedCorrection.objects.filter(tenant=tenant, **place).values_list("value", flat=True).first()
    if before is None and _corrections_of(tenant) >= MOST_CORRECTIONS_PER_TENANT:
        raise too_many(tenant)
    SpeedCorrection.objects.update_or_create(
        tenant=tenant,
        **place,
        defaults={"value": value, "reason": reason, "by": by.user, "at": database_now()},
    )
    request_round_on_commit()


@transaction.atomic
def throughput_correction_remove(*, by: Viewer, tenant: Tenant, application: str, setting: Setting) -> None:
    """Take a correction back, so that what was measured, declared or estimated stands again."""
    by.require(tenant, Role.ADMIN)
    place = {"application": application, **setting._asdict()}
    row = SpeedCorrection.objects.select_for_update().filter(tenant=tenant, **place).first()
    if row is None:
        raise NotFound(f"There is no correction of {application} on {setting.gpu_model} in this setting.")
    row.delete()
    request_round_on_commit()


def check_value(
    estimator: ThroughputEstimator,
    job_class: JobClass,
    setting: Setting,
    value: float,
    *,
    field: str = "value",
    but: Container[Setting] = (),
) -> None:
    """Raise Invalid for a throughput that is too far from those on record on other models, `but` left out."""
    problem, expected = problem_with(value, beside_partner=bool(setting.partner)), "0 (does not run) or more"
    others = {
        other.gpu_model: throughput.value
        for other in estimator.entries.get(job_class, {})
        if other == setting._replace(gpu_model=other.gpu_model) and other != setting and other not in but
        if (throughput := estimator.at(job_class, other)) is not None and throughput.value > 0
    }
    if problem is None and value > 0:
        apart = [model for model, known in others.items() if too_far_apart([value, known])]
        if apart:
            problem = f"{value:g} is too far from {others[apart[0]]:g} on {apart[0]}"
            expected = f"within a factor of {LARGEST_RATIO:,.0f}; 0 where it does not run"
    if problem is not None:
        raise Invalid.of(FieldError(field, problem, expected))


def _corrections_of(tenant: Tenant) -> int:
    return SpeedCorrection.objects.filter(tenant=tenant).count()


def too_many(tenant: Tenant) -> QuotaExceeded:
    return QuotaExceeded(
        f"Tenant {tenant.name} would have more than {MOST_CORRECTIONS_PER_TENANT:,} corrected throughputs;"
        " remove some first."
    )


# -- prices ------------------------------------------------------------------------------------------


@transaction.atomic
def price_set(*, by: Viewer, gpu_model: str, price_per_hour: float) -> None:
    """Set what a GPU of a model costs for an hour."""
    by.require_operator()
    row = GpuModel.objects.select_for_update().filter(name=gpu_model).first()
    if row is None:
        raise NotFound(f"There is no GPU model {gpu_model[:80]!r}.")
    before, row.price_per_hour = row.price_per_hour, price_per_hour
    if before != price_per_hour:
        row.save(update_fields=["price_per_hour"])
        request_round_on_commit()
