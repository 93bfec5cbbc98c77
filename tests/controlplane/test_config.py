"""Settings that do not fit together stop the start, each with its name."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from controlplane import config as module


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"ALLOT_SOLVER_BUDGET_SECONDS": "0"}, "ALLOT_SOLVER_BUDGET_SECONDS: Input should be greater than 0"),
        (
            {"ALLOT_SOLVER_BUDGET_SECONDS": "12"},
            "ALLOT_SOLVER_BUDGET_SECONDS: must be less than ALLOT_ROUND_LEASE_SECONDS, 10",
        ),
        (
            {"ALLOT_ROUND_LEASE_SECONDS": "2"},
            "ALLOT_SOLVER_BUDGET_SECONDS: must be less than ALLOT_ROUND_LEASE_SECONDS, 2",
        ),
        ({"ALLOT_SOLVER_MEMORY_BYTES": "1000"}, "ALLOT_SOLVER_MEMORY_BYTES: "),
        ({"ALLOT_SOLVER_RECYCLE_CALLS": "0"}, "ALLOT_SOLVER_RECYCLE_CALLS: "),
        ({"DATABASE_URL": "mysql://a@h/b"}, "DATABASE_URL: must look like postgresql://"),
        ({"DATABASE_URL": "postgresql://a@h"}, "DATABASE_URL: names no database"),
        (
            {"DATABASE_URL": "postgresql://a@h/b?sslmod=require"},
            'DATABASE_URL: invalid URI query parameter: "sslmod"',
        ),
        (
            {"DATABASE_URL": "postgresql://a@h/b?sslmode=yes"},
            "DATABASE_URL: sslmode=yes is unknown; use one of disable, allow, prefer, require",
        ),
        (
            {"DATABASE_URL": "postgresql://a@h/b?sslmode=verify-full&sslrootcert=/no/such.pem"},
            "DATABASE_URL: sslrootcert=/no/such.pem: there is no such file",
        ),
        ({"REDIS_URL": "http://h"}, "REDIS_URL: must look like rediss://"),
        (
            {"REDIS_URL": "rediss://h?ssl_ca=/x"},
            "REDIS_URL: option ssl_ca is unknown; there are ssl_ca_certs",
        ),
        ({"REDIS_URL": "redis://h?ssl_cert_reqs=none"}, "REDIS_URL: option ssl_cert_reqs needs TLS"),
        ({"REDIS_URL": "rediss://h?ssl_cert_reqs=no"}, "REDIS_URL: ssl_cert_reqs=no is unknown"),
        ({"ALLOT_TRUSTED_PROXIES": "10.0.0.5, proxy"}, "ALLOT_TRUSTED_PROXIES: 'proxy' is not an address"),
        ({"ALLOT_TRUSTED_PROXIES": "10.0.0.5/24"}, "ALLOT_TRUSTED_PROXIES: '10.0.0.5/24' is not an address"),
        ({"ALLOT_TRUSTED_PROXIES": "0.0.0.0/0"}, "ALLOT_TRUSTED_PROXIES: '0.0.0.0/0' contains all addresses"),
        ({"ALLOT_PUBLIC_URL": "gpus.example.org"}, "ALLOT_PUBLIC_URL: must look like https://"),
        ({"ALLOT_EMAIL_URL": "mail.example.org:25"}, "ALLOT_EMAIL_URL: must look like smtp+starttls://"),
        ({"ALLOT_METRICS_TOKEN": "short"}, "ALLOT_METRICS_TOKEN: needs at least 16 characters, or none"),
    ],
)
def test_what_does_not_fit_is_named(
    variables: dict[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALLOT_HOME", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    # The cached one is what everybody else works with.
    with pytest.raises(ImproperlyConfigured) as refused:
        module.config.__wrapped__()
    assert str(refused.value).startswith(said)


def test_a_token_is_not_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOT_HOME", str(tmp_path))
    monkeypatch.setenv("ALLOT_METRICS_TOKEN", "a-token-for-metrics")
    found = module.config.__wrapped__()
    assert found.metrics_token.get_secret_value() == "a-token-for-metrics"
    assert "a-token" not in repr(found)


def test_a_password_that_cannot_be_read_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALLOT_HOME", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", "postgresql://ann:my secret@h/b")
    with pytest.raises(ImproperlyConfigured, match="percent-encoded") as refused:
        module.config.__wrapped__()
    assert "secret@" not in str(refused.value)
