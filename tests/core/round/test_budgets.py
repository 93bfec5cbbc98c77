"""A tenant whose budget is used up starts nothing more, keeps what runs, and goes on in the next period."""

from scheduler.core.model.plan import ActionKind, Tier
from scheduler.core.model.snapshot import JobId, Snapshot, Tenant
from scheduler.core.round.decide import decide
from scheduler.core.sim.forecast import forecast
from tests.builders import NOW, make_job, make_running, make_snapshot


def world(renewed_at: float | None) -> Snapshot:
    """Of speech, a job runs and two wait; of vision, one waits."""
    spent = [
        make_job(1, 2, tenant="speech"),
        make_job(2, 2, tenant="speech"),
        make_job(3, 2, tenant="speech", guaranteed=False),
    ]
    return make_snapshot(
        jobs=[*spent, make_job(4, 2, tenant="vision")],
        running=[make_running(spent[0], range(100, 102))],
        tenants=[
            Tenant(name="speech", budget_spent=True, budget_renewed_at=renewed_at),
            Tenant(name="vision"),
        ],
    )


def test_nothing_more_is_started_and_what_runs_goes_on() -> None:
    plan = decide(world(None))
    assert [(action.kind, action.jobs) for action in plan.actions] == [(ActionKind.START, (4,))]
    for job in (2, 3):
        (reason,) = plan.reasons[JobId(job)]
        assert (reason.code, reason.tier) == ("budget_spent", Tier.QUOTA)


def test_it_goes_on_when_the_next_period_begins() -> None:
    assert {action.jobs for action in decide(world(NOW)).actions} == {(2,), (3,), (4,)}
    predictions = forecast(world(NOW + 120)).predictions
    assert (predictions[JobId(2)].starts_at, predictions[JobId(3)].starts_at) == (NOW + 120, NOW + 120)
