"""Several allocations may hold parts of one GPU. What jobs with parts hold is made what they asked for."""

from django.db import migrations, models

_ROOM = """
CREATE FUNCTION scheduler_gpu_room() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    concerned bigint[];
    crowded record;
BEGIN
    SELECT array_agg(DISTINCT gpu_id) INTO concerned FROM changed WHERE phase <> 'released';
    IF concerned IS NULL THEN
        RETURN NULL;
    END IF;
    -- Whoever comes second waits here, and then sees what the first has written.
    PERFORM id FROM scheduler_gpu WHERE id = ANY(concerned) ORDER BY id FOR NO KEY UPDATE;
    SELECT g.id, rows.phase, sum(rows.request) AS request INTO crowded
    FROM scheduler_allocatedgpu rows JOIN scheduler_gpu g ON g.id = rows.gpu_id
    WHERE g.id = ANY(concerned) AND rows.phase IN ('held', 'planned')
    GROUP BY g.id, rows.phase
    HAVING sum(rows.request) > 1000
        OR g.memory_bytes > 0 AND g.memory_bytes
           < sum(coalesce(nullif(rows.memory_bytes, 0), g.memory_bytes * rows.request / 1000))
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = 'parts_fit_on_gpu',
            MESSAGE = format('parts_fit_on_gpu: GPU %s has no room for all that are %s: %s thousandths, or more'
                             ' memory than it has', crowded.id, crowded.phase, crowded.request);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER parts_fit_on_gpu_insert AFTER INSERT ON scheduler_allocatedgpu
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION scheduler_gpu_room();
CREATE TRIGGER parts_fit_on_gpu_update AFTER UPDATE ON scheduler_allocatedgpu
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION scheduler_gpu_room();
"""
_NO_ROOM = """
DROP TRIGGER parts_fit_on_gpu_insert ON scheduler_allocatedgpu;
DROP TRIGGER parts_fit_on_gpu_update ON scheduler_allocatedgpu;
DROP FUNCTION scheduler_gpu_room();
"""
# A shape's task: [replicas, gpus, cpus, memory] or, with parts, [request, limit, memory] besides; a replica with a
# part is on one GPU. Replicas are numbered by task.
_HAVE_PARTS = """
WITH parts AS (
    SELECT DISTINCT a.allocation_id, row_number() OVER (PARTITION BY a.id ORDER BY task.place, replica) - 1 AS rank,
           task.value -> 4 AS part
    FROM scheduler_attempt a JOIN scheduler_job j ON j.id = a.job_id,
         jsonb_array_elements(j.shape -> 'tasks') WITH ORDINALITY AS task(value, place),
         generate_series(1, (task.value ->> 0)::int) AS replica
    WHERE a.state <> 'ended'
)
UPDATE scheduler_allocatedgpu g
SET request = (p.part ->> 0)::int, "limit" = (p.part ->> 1)::int, memory_bytes = (p.part ->> 2)::bigint
FROM parts p JOIN scheduler_allocation l ON l.id = p.allocation_id
WHERE jsonb_typeof(p.part) = 'array' AND g.allocation_id = l.id AND g.phase <> 'released'
      AND g.gpu_id = (l.replicas -> p.rank::int ->> 0)::bigint
"""
# A GPU had one holder: the first stays it, and the others run on until they end.
_HAVE_WHOLE = """
UPDATE scheduler_allocatedgpu later SET phase = 'released', released_at = now()
WHERE later.phase IN ('held', 'planned') AND EXISTS (
    SELECT 1 FROM scheduler_allocatedgpu first
    WHERE first.gpu_id = later.gpu_id AND first.phase = later.phase AND first.id < later.id
)
"""


def _entry() -> models.Case:
    return models.Case(
        models.When(request=1000, then=models.Value(0)),
        default=models.F("allocation"),
        output_field=models.BigIntegerField(),
    )


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0033_resized")]

    operations = [
        migrations.AddField(
            model_name="allocatedgpu",
            name="request",
            field=models.PositiveSmallIntegerField(db_default=1000, default=1000),
        ),
        migrations.AddField(
            model_name="allocatedgpu",
            name="limit",
            field=models.PositiveSmallIntegerField(db_default=1000, default=1000),
        ),
        migrations.AddField(
            model_name="allocatedgpu",
            name="memory_bytes",
            field=models.PositiveBigIntegerField(db_default=0, default=0),
        ),
        migrations.AddConstraint(
            model_name="allocatedgpu",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("limit__lte", 1000), ("request__gte", 1), ("request__lte", models.F("limit"))
                ),
                name="part_is_of_one_gpu",
            ),
        ),
        migrations.RemoveConstraint(model_name="allocatedgpu", name="one_holder_per_gpu"),
        migrations.RemoveConstraint(model_name="allocatedgpu", name="one_successor_per_gpu"),
        migrations.AddConstraint(
            model_name="allocatedgpu",
            constraint=models.UniqueConstraint(
                models.F("gpu"), _entry(), condition=models.Q(("phase", "held")), name="one_holder_per_gpu"
            ),
        ),
        migrations.AddConstraint(
            model_name="allocatedgpu",
            constraint=models.UniqueConstraint(
                models.F("gpu"),
                _entry(),
                condition=models.Q(("phase", "planned")),
                name="one_successor_per_gpu",
            ),
        ),
        migrations.RunSQL(_HAVE_PARTS, _HAVE_WHOLE),
        migrations.RunSQL(_ROOM, _NO_ROOM),
    ]
