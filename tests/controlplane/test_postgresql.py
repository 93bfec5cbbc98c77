"""The engine for PostgreSQL: a request never gets a connection that the server has closed."""

import select

import psycopg
import pytest
from django.db import connection
from psycopg_pool import ConnectionPool

from tests.patience import until

pytestmark = pytest.mark.django_db(transaction=True)


def backend() -> int:
    """Return the process of the server that serves this thread, which gives its connection back."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        number: int = cursor.fetchone()[0]
    connection.close()
    return number


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[psycopg.Connection]:
    """The connections that the server was asked about. The pool has none of earlier tests."""
    connection.close()
    connection.close_pool()
    asked: list[psycopg.Connection] = []
    check = ConnectionPool.check_connection

    def noted(pooled: psycopg.Connection) -> None:
        asked.append(pooled)
        check(pooled)

    monkeypatch.setattr(ConnectionPool, "check_connection", noted)
    return asked


def test_a_living_connection_is_given_again_without_a_message(checks: list[psycopg.Connection]) -> None:
    assert backend() == backend()
    assert checks == []


def test_a_connection_that_the_server_closed_is_replaced(checks: list[psycopg.Connection]) -> None:
    before = backend()
    with psycopg.connect(**connection.get_connection_params(), autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [before])
        alive = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
        until(lambda: other.execute(alive, [before]).fetchone() == (0,), f"process {before} to end")
    assert backend() != before
    assert len(checks) == 1


def test_a_notice_does_not_cost_a_connection(checks: list[psycopg.Connection]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("LISTEN greetings")
    arrivals = select.poll()
    arrivals.register(connection.connection.fileno(), select.POLLIN)
    before = backend()
    with psycopg.connect(**connection.get_connection_params(), autocommit=True) as other:
        other.execute("NOTIFY greetings")
    until(lambda: bool(arrivals.poll(0)), "the notice to arrive")
    assert backend() == before
    assert len(checks) == 1
    with connection.cursor() as cursor:
        cursor.execute("UNLISTEN greetings")
