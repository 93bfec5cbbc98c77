"""Servers that are reached by TLS: the options of their URLs do what they say, for every client of ours."""

import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import redis
import trustme
from celery import Celery

from controlplane import server_urls
from tests.patience import PATIENCE_SECONDS
from tests.tls_front import tls_front

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def authority(tmp_path: Path) -> trustme.CA:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    return authority


@pytest.fixture
def context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    return context


def moved(url: str, port: int, options: str) -> str:
    parts = urlsplit(url)
    place = f"{parts.username or ''}:{parts.password}@localhost:{port}"
    return f"{parts.scheme}://{place}{parts.path}?{options}"


@pytest.fixture
def database_url(context: ssl.SSLContext, _postgres_server: None) -> Iterator[Callable[[str], str]]:
    url = os.environ["DATABASE_URL"]
    with tls_front(context, urlsplit(url).port or 5432, asked_for_by=b"\0\0\0\x08\x04\xd2\x16\x2f") as port:
        yield lambda options: moved(url, port, options)


@pytest.fixture
def secured_redis_url(context: ssl.SSLContext, redis_url: str) -> Iterator[Callable[[str], str]]:
    with tls_front(context, urlsplit(redis_url).port or 6379) as port:
        yield lambda options: moved(redis_url, port, options).replace("redis://", "rediss://")


def connect(url: str) -> psycopg.Connection:
    options = server_urls.database(url)
    return psycopg.connect(
        host=options["HOST"],
        port=options["PORT"],
        user=options["USER"],
        password=options["PASSWORD"],
        dbname="postgres",
        **options["OPTIONS"],
    )


def test_django_reaches_the_database_by_tls(database_url: Callable[[str], str], tmp_path: Path) -> None:
    script = (
        "import django; django.setup(); from django.db import connection as c; c.ensure_connection(); "
        "print('TLS' if c.connection.pgconn.ssl_in_use else 'plain')"
    )
    asked = subprocess.run(
        [sys.executable, "-c", script],
        env={
            **os.environ,
            "DATABASE_URL": database_url(f"sslmode=verify-full&sslrootcert={tmp_path}/ca.pem"),
            "DJANGO_SETTINGS_MODULE": "controlplane.settings",
            "PYTHONPATH": f"{ROOT}:{ROOT / 'platform'}",
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert asked.stdout == "TLS\n", asked.stderr


def test_the_authority_and_the_name_in_the_certificate_count(
    database_url: Callable[[str], str], tmp_path: Path
) -> None:
    trusted = database_url(f"sslmode=verify-full&sslrootcert={tmp_path}/ca.pem")
    with connect(trusted) as connection:
        assert connection.pgconn.ssl_in_use
    with pytest.raises(psycopg.OperationalError, match="certificate verify failed"):
        connect(trusted.replace("ca.pem", "other.pem"))
    with pytest.raises(psycopg.OperationalError, match=r"localhost.*does not match host name"):
        connect(trusted.replace("@localhost", "@127.0.0.1"))


def celery_reaches(url: str) -> bool:
    app = Celery(broker=url.partition("?")[0], set_as_current=False)
    app.conf.broker_use_ssl = server_urls.redis_tls(url) or False
    with app.connection() as connection:
        connection.channel().client.ping()
        return True


def test_redis_is_reached_by_tls_with_its_authority(
    secured_redis_url: Callable[[str], str], tmp_path: Path
) -> None:
    trusted = secured_redis_url(f"ssl_ca_certs={tmp_path}/ca.pem")
    assert redis.Redis.from_url(trusted).ping()
    assert celery_reaches(trusted)
    for options in (f"ssl_ca_certs={tmp_path}/other.pem", ""):
        with pytest.raises(redis.ConnectionError, match="certificate verify failed"):
            redis.Redis.from_url(secured_redis_url(options)).ping()
        with pytest.raises(Exception, match="certificate verify failed"):
            celery_reaches(secured_redis_url(options))


def test_redis_is_not_verified_only_when_the_url_says_so(secured_redis_url: Callable[[str], str]) -> None:
    unverified = secured_redis_url("ssl_cert_reqs=none")
    assert server_urls.redis_tls(unverified) == {"ssl_cert_reqs": ssl.CERT_NONE, "ssl_check_hostname": False}
    assert celery_reaches(unverified)
