"""Liveness and readiness, with parts that work and parts that do not."""

import pytest
import redis
from django.db import OperationalError, connection
from django.test import Client

from controlplane import health
from controlplane.embedded import ports


@pytest.fixture(autouse=True)
def nothing_known():
    """No answer of a test before."""
    health._parts.cache_clear()
    health._count_unisolated.cache_clear()


def test_alive_needs_neither_database_nor_redis(django_db_blocker):
    with django_db_blocker.block():
        assert Client().get("/healthz").json() == {"status": "ok"}


@pytest.mark.django_db
def test_ready_when_both_answer():
    response = Client().get("/readyz")
    assert response.status_code == 200
    assert response.json() == {"status": "ok", "parts": {"database": "ok", "redis": "ok"}}


@pytest.mark.django_db
def test_not_ready_without_redis(settings):
    settings.REDIS_URL = f"redis://127.0.0.1:{ports.pick()}/0"
    response = Client().get("/readyz")
    assert response.status_code == 503
    assert response.json()["parts"] == {"database": "ok", "redis": "unavailable"}


@pytest.mark.django_db
def test_not_ready_while_the_database_takes_only_reads():
    with connection.cursor() as cursor:
        cursor.execute("SET transaction_read_only = on")
    response = Client().get("/readyz")
    assert response.status_code == 503
    assert response.json()["parts"] == {"database": "not writable", "redis": "ok"}


@pytest.mark.django_db
def test_looking_takes_a_new_file_of_the_databases_disk():
    """Rows may find room in pages that vacuum has left free, on a disk that is full."""
    with connection.cursor() as cursor:
        cursor.execute(health._LITTLE_MEMORY)
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {health._SORT}")
        plan = cursor.fetchone()[0][0]["Plan"]
    while plan["Node Type"] != "Sort":
        (plan,) = plan["Plans"]
    assert plan["Sort Space Type"] == "Disk"
    assert plan["Sort Space Used"] > 100  # KiB


@pytest.mark.django_db
def test_not_ready_while_redis_takes_only_reads(settings):
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        # What a full disk does to one that saves: writes are refused while too few replicas have them.
        client.config_set("min-replicas-to-write", 1)
        try:
            response = Client().get("/readyz")
        finally:
            client.config_set("min-replicas-to-write", 0)
    assert response.status_code == 503
    assert response.json()["parts"] == {"database": "ok", "redis": "not writable"}


@pytest.mark.django_db
def test_not_ready_without_a_database(monkeypatch):
    def refuse() -> None:
        raise OperationalError("password=hunter2")

    monkeypatch.setattr(health, "_ask_database", refuse)
    response = Client().get("/readyz")
    assert response.status_code == 503
    assert b"hunter2" not in response.content
