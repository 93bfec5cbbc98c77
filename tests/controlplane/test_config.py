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
