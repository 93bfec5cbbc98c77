"""The embedded servers as `up` uses them: folders with spaces, kill -9, nothing left."""

import os
import signal
import socket
from dataclasses import replace
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from controlplane.embedded import ports
from controlplane.embedded.postgres import Postgres
from controlplane.embedded.redis import Redis
from controlplane.embedded.running import running


@pytest.fixture
def postgres(tmp_path: Path) -> Postgres:
    home = tmp_path / "a home with 'quotes' and spaces"
    home.mkdir(mode=0o700)
    return Postgres(data=home / "postgres", password="p@ss/word", port=ports.pick(), durable=False)


def test_postgres_keeps_what_was_committed_before_kill_9(postgres: Postgres) -> None:
    postgres = replace(postgres, durable=True)
    with running(postgres) as process:
        with psycopg.connect(postgres.url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert (postgres.data / "postmaster.pid").exists(), "a stale pid file is what this test is about"

    with running(postgres) as process, psycopg.connect(postgres.url) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)
        if os.geteuid() == 0:
            assert psutil.Process(process.pid).uids().effective != 0
    assert not psutil.pid_exists(process.pid)


def test_postgres_refuses_a_wrong_password(postgres: Postgres) -> None:
    with running(postgres), pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres.url.replace(":p%40ss%2Fword@", ":wrong@"))


def test_postgres_ends_a_server_left_on_its_folder(postgres: Postgres) -> None:
    with running(postgres) as first:
        postgres.prepare()
        assert first.wait(timeout=5) == 0


def test_redis_answers_only_with_its_password(tmp_path: Path) -> None:
    server = Redis(folder=tmp_path / "re dis", password="secret", port=ports.pick())
    with running(server) as process:
        assert redis.Redis.from_url(server.url).ping()
        with socket.create_connection(("127.0.0.1", server.port)) as stranger:
            stranger.sendall(b"PING\r\n")
            assert stranger.recv(64).startswith(b"-NOAUTH")
        assert "secret" not in " ".join(psutil.Process(process.pid).cmdline())
    assert not psutil.pid_exists(process.pid)
