"""Throughputs as a file: taken over as a whole or not at all, and handed out as they are known."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from django.db import transaction

from scheduler.core.model.gpu_parts import WHOLE_GPU
from scheduler.core.perf.tables import Key, Table, TableEntry, read_table, write_csv, write_gavel
from scheduler.core.perf.throughput import JobClass, Setting
from scheduler.models.nodes import GpuModel
from scheduler.models.throughputs import SETTING_FIELDS, SpeedCorrection
from scheduler.telemetry.throughputs.services.on_record import read_estimator
from scheduler.telemetry.throughputs.services.rows import (
    MOST_CORRECTIONS_PER_TENANT,
    Throughputs,
    check_value,
    too_many,
)
from scheduler.wiring.clock import database_now
from scheduler.wiring.wakeups import request_round_on_commit
from tenants.errors import ApplicationError, FieldError, Invalid
from tenants.models import Role, Tenant
from tenants.selectors import Viewer

PROBLEMS_NAMED = 100
_AT_ONCE = 2_000


class Change(NamedTuple):
    """What would become of one setting."""

    application: str
    setting: Setting
    #: The correction so far; None: there was none.
    before: float | None
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """What a file would change, or changed."""

    layout: str
    changes: list[Change]
    unchanged: int
    #: Models in the file that no node ever reported.
    unknown_models: list[str]
    renamed: dict[str, str]


@transaction.atomic
def throughputs_import(
    *, by: Viewer, tenant: Tenant, content: str, dry_run: bool, reason: str = ""
) -> Import:
    """Take a table over as corrections; raise Invalid naming every wrong line, and then change nothing."""
    by.require(tenant, Role.ADMIN)
    table = _with_known_models(read_table(content), tenant)
    problems = [FieldError(each.place, each.problem, each.expected) for each in table.problems]
    problems = problems or _misfits(table, tenant)
    if problems:
        more = f" {len(problems)} lines are wrong." if len(problems) > 1 else ""
        message = f"Nothing was imported. {problems[0].field}: {problems[0].problem}.{more}"
        raise Invalid(message, problems[:PROBLEMS_NAMED])
    # One at a time in a tenant, so that its limit holds.
    Tenant.objects.select_for_update().get(id=tenant.id)
    now = {
        (row.application, Setting(row.gpu_model, row.gpus, row.spread, row.partner)): row.value
        for row in SpeedCorrection.objects.filter(tenant=tenant)
    }
    changes = [
        Change(application, setting, now.get((application, setting)), value)
        for (application, setting), value in sorted(table.throughputs.items())
        if now.get((application, setting)) != value
    ]
    if len(now.keys() | table.throughputs.keys()) > MOST_CORRECTIONS_PER_TENANT:
        raise too_many(tenant)
    known = set(GpuModel.objects.values_list("name", flat=True))
    done = Import(
        layout=table.layout,
        changes=changes,
        unchanged=len(table.throughputs) - len(changes),
        unknown_models=sorted({setting.gpu_model for _, setting in table.throughputs} - known),
        renamed=table.renamed,
    )
    if changes and not dry_run:
        _write(by, tenant, done, reason)
    return done


def _with_known_models(table: Table, tenant: Tenant) -> Table:
    """Return the table with models spelled as the cluster spells them, or what is on record: Gavel's are all
    in lower case."""
    on_record = {
        setting.gpu_model
        for job_class, settings in read_estimator().entries.items()
        if job_class.tenant == tenant.name
        for setting in settings
    }
    names = [*sorted(on_record), *GpuModel.objects.order_by("-name").values_list("name", flat=True)]
    spelled = {name.lower(): name for name in names}

    def key(application: str, setting: Setting) -> Key:
        model = spelled.get(setting.gpu_model.lower(), setting.gpu_model)
        return application, setting._replace(gpu_model=model)

    throughputs: dict[Key, float] = {}
    for written, value in table.throughputs.items():
        place = key(*written)
        if place in throughputs:
            application, setting = written
            problem = f"{application} with {setting.gpus} GPUs appears under two spellings of the model"
            table.refuse(f"{setting.gpu_model}", problem, place[1].gpu_model)
        throughputs[place] = value
    return replace(table, throughputs=throughputs)


def _misfits(table: Table, tenant: Tenant) -> list[FieldError]:
    """Return the values that are too far from what is on record outside of the table."""
    estimator = read_estimator()
    problems: list[FieldError] = []
    replaced: dict[str, set[Setting]] = {}
    for application, setting in table.throughputs:
        replaced.setdefault(application, set()).add(setting)
    for (application, setting), value in sorted(table.throughputs.items()):
        job_class = JobClass(tenant.name, application)
        if not estimator.knows(job_class):
            continue
        field = f"{application}, {setting.gpus}, {setting.gpu_model}"
        try:
            check_value(estimator, job_class, setting, value, field=field, but=replaced[application])
        except ApplicationError as error:
            problems += error.fields
    return problems


def _write(by: Viewer, tenant: Tenant, done: Import, reason: str) -> None:
    at = database_now()
    rows = [
        SpeedCorrection(
            tenant=tenant,
            application=change.application,
            **change.setting._asdict(),
            value=change.after,
            reason=reason,
            by=by.user,
            at=at,
        )
        for change in done.changes
    ]
    SpeedCorrection.objects.bulk_create(
        rows,
        batch_size=_AT_ONCE,
        update_conflicts=True,
        unique_fields=["tenant", *SETTING_FIELDS],
        update_fields=["value", "reason", "by", "at"],
    )
    request_round_on_commit()


def throughputs_export(*, viewer: Viewer, tenant: Tenant, layout: str) -> str:
    """Return what is on record or declared of a tenant's job classes, as a file; estimates are left out."""
    write = {"csv": write_csv, "gavel": write_gavel}[layout]
    return write(dict(_written(Throughputs.seen_by(viewer, tenant.name))))


def _written(throughputs: Throughputs) -> Iterator[tuple[Key, TableEntry]]:
    for row in throughputs.rows():
        # Files are of whole GPUs.
        if row.gpu_limit < WHOLE_GPU:
            continue
        declared = throughputs.declared.get((row.job_class, row.gpus), {}) if row.is_plain else {}
        for model in throughputs.models_known(row):
            setting = row.setting(model)
            throughput = throughputs.estimator.at(row.job_class, setting, declared.get(model))
            if throughput is not None:
                yield (
                    (row.application, setting),
                    TableEntry(throughput.value, throughput.source.value, throughput.samples),
                )
