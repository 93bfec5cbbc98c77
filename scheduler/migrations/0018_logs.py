import django.db.models.deletion
from django.db import migrations, models

# So far `log_size` counted characters. A limit of what is kept is one of bytes.
_COUNT_BYTES = """
UPDATE scheduler_attemptpart AS part SET log_size = stored.bytes
FROM (
    SELECT part.id, sum(octet_length(chunk.text)) AS bytes
    FROM scheduler_attemptpart AS part
    CROSS JOIN LATERAL jsonb_array_elements(part.replicas) AS replica
    JOIN scheduler_logchunk AS chunk
        ON chunk.attempt_id = part.attempt_id AND chunk.rank = (replica ->> 'rank')::int
    GROUP BY part.id
) AS stored
WHERE stored.id = part.id
"""


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0017_terminals")]

    operations = [
        migrations.CreateModel(
            name="LogRemoval",
            fields=[
                (
                    "attempt",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="log_removal",
                        serialize=False,
                        to="scheduler.attempt",
                    ),
                ),
                ("at", models.DateTimeField()),
                (
                    "cause",
                    models.CharField(
                        choices=[
                            ("age", "Age"),
                            ("platform_bytes", "Platform Bytes"),
                            ("tenant_bytes", "Tenant Bytes"),
                        ],
                        max_length=16,
                    ),
                ),
                ("limit", models.PositiveBigIntegerField()),
                ("bytes", models.PositiveBigIntegerField()),
            ],
        ),
        migrations.RunSQL(_COUNT_BYTES, migrations.RunSQL.noop),
    ]
