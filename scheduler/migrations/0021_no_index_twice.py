"""Keys without an index of their own where another index begins with them: one write less for each row.

By name, since Django's own way also drops the unique indexes with a condition that are on the same column.
The names are those that Django gave them.
"""

import django.db.models.deletion
from django.db import migrations, models

CASCADE, PROTECT = django.db.models.deletion.CASCADE, django.db.models.deletion.PROTECT


def without_index(model: str, key: str, index: str, **options: object) -> migrations.RunSQL:
    return migrations.RunSQL(
        f"DROP INDEX {index}",
        f"CREATE INDEX {index} ON scheduler_{model} ({key}_id)",
        [migrations.AlterField(model, key, models.ForeignKey(db_index=False, **options))],
    )


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0020_measured_run_time"), ("tenants", "0003_placer_parameters")]

    operations = [
        without_index(
            "job", "tenant", "scheduler_job_tenant_id_8615d828",
            on_delete=PROTECT, related_name="jobs", to="tenants.tenant",
        ),
        without_index(
            "attempt", "job", "scheduler_attempt_job_id_6311d83f",
            on_delete=CASCADE, related_name="attempts", to="scheduler.job",
        ),
        without_index(
            "attemptpart", "attempt", "scheduler_attemptpart_attempt_id_1b8545e0",
            on_delete=CASCADE, related_name="parts", to="scheduler.attempt",
        ),
        without_index(
            "logchunk", "attempt", "scheduler_logchunk_attempt_id_4f0a6b0b",
            on_delete=CASCADE, related_name="log_chunks", to="scheduler.attempt",
        ),
        without_index(
            "progresspoint", "attempt", "scheduler_progresspoint_attempt_id_e957172c",
            on_delete=CASCADE, related_name="progress", to="scheduler.attempt",
        ),
        without_index(
            "allocatedgpu", "allocation", "scheduler_allocatedgpu_allocation_id_35e5ce05",
            on_delete=CASCADE, related_name="gpus", to="scheduler.allocation",
        ),
        without_index(
            "event", "tenant", "scheduler_event_tenant_id_acb81620",
            on_delete=CASCADE, null=True, related_name="+", to="tenants.tenant",
        ),
    ]  # fmt: skip
