"""What the models promise of indexes is what the database has, and none of the busy ones is written twice."""

import pytest
from django.apps import apps
from django.db import connection

pytestmark = pytest.mark.django_db

# Written by rounds, reports and submits, row by row.
BUSY = (
    "scheduler_job",
    "scheduler_attempt",
    "scheduler_attemptpart",
    "scheduler_allocation",
    "scheduler_allocatedgpu",
    "scheduler_event",
    "scheduler_explanation",
    "scheduler_logchunk",
    "scheduler_progresspoint",
)
# Indexes with all their columns at the beginning of another one of their table, and no condition.
_TWICE = """
SELECT one.indexrelid::regclass::text, other.indexrelid::regclass::text
FROM pg_index one JOIN pg_index other ON other.indrelid = one.indrelid AND other.indexrelid <> one.indexrelid
WHERE one.indrelid = ANY(%s::regclass[]) AND NOT one.indisunique
  AND one.indpred IS NULL AND other.indpred IS NULL
  AND other.indkey::text || ' ' LIKE one.indkey::text || ' %%'
  -- Every expression is column 0.
  AND one.indexprs::text IS NOT DISTINCT FROM other.indexprs::text
"""


def test_every_index_and_constraint_of_the_models_is_in_the_database():
    named = {
        each.name
        for model in apps.get_models()
        for each in (*model._meta.indexes, *model._meta.constraints)
        if model._meta.managed
    }
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_class UNION ALL SELECT conname FROM pg_constraint")
        assert named - {name for (name,) in cursor.fetchall()} == set()


def test_no_index_of_a_busy_table_is_the_beginning_of_another_one():
    with connection.cursor() as cursor:
        cursor.execute(_TWICE, [list(BUSY)])
        assert cursor.fetchall() == []
