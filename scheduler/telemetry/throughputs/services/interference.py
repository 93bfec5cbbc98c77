"""What is predicted of pairs of applications that were not measured: fitted now and then, for operators."""

from dataclasses import asdict
from typing import Any

from scheduler.core.model.interference import Branch
from scheduler.core.model.training import Profile
from scheduler.core.perf.interference import LEAST_PAIRS, fitted, measured_of, rules_of
from scheduler.core.perf.profiles import first_known, stored_profile
from scheduler.models.throughputs import ClassProfile, InterferenceFit
from scheduler.telemetry.throughputs.services.on_record import read_estimator
from scheduler.wiring.clock import database_now
from tenants.times import iso


def interference_fit() -> None:
    """Fit rules on the pairs that are on record; too few of them give no rules."""
    pairs = read_estimator().pairs
    sides = [((pair.first, pair.second), speeds) for pair, speeds in pairs.items()]
    predictor = fitted(measured_of(sides, _profiles()))
    if predictor is None:
        InterferenceFit.objects.all().delete()
        return
    InterferenceFit.objects.update_or_create(
        id=1,
        defaults={
            "tree": [asdict(branch) for branch in predictor.tree],
            "pairs": predictor.pairs,
            "error": predictor.error,
            "error_of_mean": predictor.error_of_mean,
            "fitted_at": database_now(),
        },
    )


def interference_report() -> dict[str, Any]:
    """Return the answer of the API, JSON-ready."""
    row = InterferenceFit.objects.first()
    return {
        "least_pairs": LEAST_PAIRS,
        "pairs": row.pairs if row else 0,
        "error": row.error if row else None,
        "error_of_mean": row.error_of_mean if row else None,
        "fitted_at": iso(row.fitted_at) if row else None,
        "rules": rules_of([Branch(**branch) for branch in row.tree]) if row else [],
    }


def _profiles() -> dict[str, Profile]:
    """Return what each application makes of its GPUs, figure by figure by the jobs measured last."""
    found: dict[str, list[Profile]] = {}
    rows = ClassProfile.objects.order_by("-updated_at", "-id").values_list("application", "profile")
    for application, values in rows:
        found.setdefault(application, []).append(stored_profile(values))
    known = {application: first_known(profiles) for application, profiles in found.items()}
    return {application: profile for application, profile in known.items() if profile is not None}
