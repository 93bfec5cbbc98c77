"""What measured pairs tell of others: fitted on what is on record, and shown to operators."""

from itertools import combinations_with_replacement

import pytest

from scheduler.models import InterferenceFit
from scheduler.tasks import fit_interference
from tests.api.caller import Caller, caller
from tests.scheduler.builders import make_class_profile, make_measurement, make_tenant, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator() -> Caller:
    return caller(make_user("olga", operator=True))


def test_rules_are_fitted_on_pairs_whose_profiles_are_known(operator: Caller) -> None:
    tenant = make_tenant()
    compute = {f"app-{number}": 0.05 + number / 7 for number in range(6)}
    for name, part in compute.items():
        make_class_profile(tenant, name, {"utilisation": part})
    for one, other in combinations_with_replacement([*compute, "unknown"], 2):
        speed = 0.5 if compute.get(one, 0) + compute.get(other, 0) > 1 else 1.0
        for first, second in {(one, other), (other, one)}:
            make_measurement(tenant, first, speed, partner=second)
    # Within a part of a GPU, which says nothing of whole ones.
    make_measurement(tenant, "app-0", 0.1, partner="app-1", gpu_limit=100)
    fit_interference()
    found = operator.get("/throughputs/interference").json()
    assert found["rules"] == [
        "Where both together compute 103% of the time or more: 50% of its speed alone (12 measured).",
        "Where both together compute less than 103% of the time: 100% of its speed alone (30 measured).",
    ]
    assert found["pairs"] == 21
    assert found["error"] < 0.03 < 0.2 < found["error_of_mean"]
    assert found["fitted_at"]


def test_with_too_few_pairs_nothing_is_foretold(operator: Caller) -> None:
    InterferenceFit.objects.create(pairs=20, error=0.1, error_of_mean=0.1, fitted_at="2026-01-01T00:00Z")
    fit_interference()
    found = operator.get("/throughputs/interference").json()
    assert found == {
        "least_pairs": 20, "pairs": 0, "error": None, "error_of_mean": None, "fitted_at": None, "rules": [],
    }  # fmt: skip
