"""Who used what: by any grouping the same sum, equal to budgets and to the attempts themselves."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import combinations
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.core.model.gpu_parts import GpuPart
from scheduler.jobs.budgets.selectors import GROUPINGS, UsageQuestion, usage
from scheduler.jobs.budgets.services import Owner, used
from scheduler.models import AllocatedGpu, Allocation, Attempt, GpuModel
from tenants.models import Tenant, User
from tenants.selectors import viewer_of
from tests.api.caller import caller, is_error
from tests.scheduler.builders import (
    gpus_of,
    make_attempt,
    make_job,
    make_member,
    make_node,
    make_tenant,
    make_user,
    make_vc,
)

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
#: The middle of a month that is over, so that nothing depends on when the test runs.
NOON = datetime(2026, 3, 14, 12, tzinfo=UTC)


def ran(
    tenant: Tenant,
    user: User,
    *,
    at: datetime,
    hours: float | None,
    gpus: int = 2,
    model: str = "V100",
    part: GpuPart | None = None,
    opportunistic: int = 0,
    **spec: Any,
) -> Attempt:
    """An attempt that had its GPUs from an instant on for so many hours, or has them still."""
    job = make_job(tenant=tenant, submitted_by=user, gpus=gpus, **spec)
    attempt = make_attempt(job, gpus_of(make_node(gpus=gpus, gpu_model=model)), part=part)
    Allocation.objects.filter(id=attempt.allocation_id).update(held_at=at, opportunistic_gpus=opportunistic)
    Attempt.objects.filter(id=attempt.id).update(starting_at=at, running_at=at)
    if hours is not None:
        end = at + timedelta(hours=hours)
        AllocatedGpu.objects.filter(allocation=attempt.allocation).update(phase="released", released_at=end)
        Allocation.objects.filter(id=attempt.allocation_id).update(phase="released", released_at=end)
        Attempt.objects.filter(id=attempt.id).update(state="ended", outcome="succeeded", ended_at=end)
    return attempt


def asked(
    *by: str, since: datetime = NOON - 24 * HOUR, until: datetime = NOON + 24 * HOUR, **more: str
) -> UsageQuestion:
    return UsageQuestion(since=since, until=until, by=by or ("tenant",), **more)


def hours(rows: Any) -> dict[Any, Decimal]:
    return {tuple(row.key.values()): row.gpu_hours for row in rows}


def a_busy_day() -> tuple[Tenant, Tenant]:
    """Whole GPUs, parts, a GPU that two tenants have together, nights, edges of the range, and what runs."""
    red, blue = make_tenant("red"), make_tenant("blue")
    ann, bob, eve = (
        make_member(tenant, name) for tenant, name in ((red, "ann"), (red, "bob"), (blue, "eve"))
    )
    ran(red, ann, at=NOON - 30 * HOUR, hours=10)  # 4 of its 10 hours are in the range
    ran(red, ann, at=NOON, hours=1 / 3, model="K80")
    ran(red, bob, at=NOON + 8 * HOUR, hours=10, gpus=4, guaranteed=False)
    ran(red, bob, at=NOON, hours=6, gpus=4, opportunistic=1)
    ran(blue, eve, at=NOON, hours=5, gpus=1, part=GpuPart(request=300, limit=500, memory_bytes=0))
    ran(blue, eve, at=NOON + 20 * HOUR, hours=None, gpus=1)  # runs still
    shared = ran(red, ann, at=NOON - 9 * HOUR, hours=8, gpus=3)
    Attempt.objects.create(
        job=make_job(tenant=blue, submitted_by=eve, gpus=3), number=1, allocation=shared.allocation,
        state="ended", outcome="succeeded", planned_at=NOON, starting_at=NOON - 7 * HOUR,
        ended_at=NOON - 6 * HOUR,
    )  # fmt: skip
    leaving = ran(blue, eve, at=NOON + 2 * HOUR, hours=4, gpus=2)
    first = AllocatedGpu.objects.filter(allocation=leaving.allocation).order_by("id")[:1].get()
    AllocatedGpu.objects.filter(id=first.id).update(released_at=NOON + 3 * HOUR)
    return red, blue


#: GPU-hours by hand: those of each attempt above that are in the range.
RED = Decimal(2 * 4 + 4 * 10 + 4 * 6) + Decimal(2) / 3 + 3 * (7 + Decimal("0.5"))
BLUE = Decimal("0.3") * 5 + 4 + 3 * Decimal("0.5") + (4 + 1)


def test_it_is_what_the_attempts_had_and_what_budgets_count() -> None:
    red, blue = a_busy_day()
    found = usage(viewer_of(make_user(operator=True)), asked())
    assert {key: pytest.approx(value) for (key,), value in hours(found.rows).items()} == {
        "red": RED,
        "blue": BLUE,
    }
    for tenant, expected in ((red, RED), (blue, BLUE)):
        budget = used(Owner(tenant), "gpu_hours", NOON - 24 * HOUR, NOON + 24 * HOUR)
        assert budget == pytest.approx(float(expected))
    GpuModel.objects.filter(name="V100").update(price_per_hour=2.5)
    cost = sum(used(Owner(tenant), "cost", NOON - 24 * HOUR, NOON + 24 * HOUR) for tenant in (red, blue))
    assert float(usage(viewer_of(make_user(operator=True)), asked()).total.cost) == pytest.approx(cost)


def test_every_grouping_has_the_same_sum() -> None:
    a_busy_day()
    operator = viewer_of(make_user(operator=True))
    whole = usage(operator, asked()).total
    assert float(whole.gpu_hours) == pytest.approx(float(RED + BLUE))
    for size in (1, 2, len(GROUPINGS)):
        for by in combinations(GROUPINGS, size):
            found = usage(operator, asked(*by))
            assert found.total == whole
            for figure in ("gpu_hours", "guaranteed_gpu_hours", "cost"):
                rows = sum(getattr(row, figure) for row in found.rows)
                assert round(rows, 9) == round(getattr(whole, figure), 9), (by, figure)
    by_user = usage(operator, asked("user", tenant="red"))
    (of_red,) = [row for row in usage(operator, asked()).rows if row.key == {"tenant": "red"}]
    assert sum(row.gpu_hours for row in by_user.rows) == by_user.total.gpu_hours == of_red.gpu_hours


def test_days_are_those_of_utc_and_ranges_next_to_each_other_add_up() -> None:
    a_busy_day()
    operator = viewer_of(make_user(operator=True))
    days = hours(usage(operator, asked("day", user="bob")).rows)
    assert {str(day): value for (day,), value in days.items()} == {
        "2026-03-14": 4 * 4 + 4 * 6,
        "2026-03-15": 4 * 6,
    }
    cut = NOON + timedelta(minutes=7)
    parts = [usage(operator, asked(since=NOON - 24 * HOUR, until=cut)), usage(operator, asked(since=cut))]
    whole = usage(operator, asked())
    assert round(sum(part.total.gpu_hours for part in parts), 9) == round(whole.total.gpu_hours, 9)


def test_what_was_delivered_on_guaranteed_gpus_stands_beside_what_was_guaranteed() -> None:
    red = make_tenant("red")
    vc, other = make_vc("own", members=[red], guaranteed={"V100": 4}), make_vc("idle", guaranteed={"K80": 1})
    ann = make_member(red, "ann")
    ran(red, ann, at=NOON, hours=6, gpus=4, opportunistic=1, virtual_cluster=vc)
    ran(red, ann, at=NOON, hours=2, gpus=1, guaranteed=False, virtual_cluster=vc)
    found = usage(viewer_of(make_user(operator=True)), asked("virtual_cluster", "gpu_model"))
    (idle, own) = found.rows
    assert own.key == {"virtual_cluster": "own", "gpu_model": "V100"}
    assert (own.gpu_hours, own.guaranteed_gpu_hours, own.entitled_gpu_hours) == (26, 18, 4 * 48)
    assert (idle.key["virtual_cluster"], idle.gpu_hours, idle.entitled_gpu_hours) == (other.name, 0, 48)
    # A member knows of the virtual clusters of his tenant.
    assert [row.key["virtual_cluster"] for row in usage(viewer_of(ann), asked("virtual_cluster")).rows] == [
        "own"
    ]
    by_day = usage(viewer_of(ann), asked("virtual_cluster", "day")).rows
    assert [row.entitled_gpu_hours for row in by_day] == [4 * 12, 4 * 24, 4 * 12]
    assert usage(viewer_of(ann), asked("virtual_cluster", "tenant")).rows[0].entitled_gpu_hours is None


def test_gpus_beyond_the_guarantee_are_the_last_ones_whichever_leave_first() -> None:
    red = make_tenant("red")
    attempt = ran(red, make_member(red, "ann"), at=NOON, hours=6, gpus=4, opportunistic=1)
    first, *_, last = [gpu for replica in attempt.allocation.replicas for gpu in replica]

    def figures() -> tuple[Decimal, Decimal]:
        total = usage(viewer_of(make_user(operator=True)), asked()).total
        return total.gpu_hours, total.guaranteed_gpu_hours

    held = AllocatedGpu.objects.filter(allocation=attempt.allocation)
    held.filter(gpu=last).update(released_at=NOON + 2 * HOUR)
    assert figures() == (3 * 6 + 2, 3 * 6)
    held.filter(gpu=first).update(released_at=NOON + HOUR)
    assert figures() == (2 * 6 + 2 + 1, 2 * 6 + 1)
    # Some that came and went together are of either kind.
    held.filter(gpu=last).update(released_at=NOON + HOUR)
    assert figures() == (2 * 6 + 2 * 1, 2 * 6 + 1)


def test_it_costs_one_statement_however_much_there_was() -> None:
    a_busy_day()
    operator = viewer_of(make_user(operator=True))
    for by in GROUPINGS:
        with CaptureQueriesContext(connection) as captured:
            usage(operator, asked(by))
        # What is guaranteed is asked beside it.
        assert len(captured) == (2 if by == "virtual_cluster" else 1)


def test_what_failed_and_what_was_thrown_away_is_wasted() -> None:
    red = make_tenant("red")
    ann = make_member(red, "ann")
    operator = viewer_of(make_user(operator=True))

    def ended(attempt: Attempt, outcome: str, lost_seconds: float | None = None) -> None:
        Attempt.objects.filter(id=attempt.id).update(outcome=outcome, lost_seconds=lost_seconds)

    ran(red, ann, at=NOON, hours=3)
    ended(ran(red, ann, at=NOON, hours=2), "failed")
    ended(ran(red, ann, at=NOON, hours=1, part=GpuPart(request=250, limit=250, memory_bytes=1)), "lost")
    ended(ran(red, ann, at=NOON, hours=5), "preempted", lost_seconds=1_800)
    total = usage(operator, asked()).total
    # Two GPUs each: 4 hours that failed, a quarter of two GPUs for an hour, and the last half hour of five.
    assert total.wasted_gpu_hours == Decimal("4") + Decimal("0.5") + Decimal("1")
    # What was thrown away is the end of the attempt, in whatever range it lies.
    before = usage(operator, asked(until=NOON + timedelta(hours=4, minutes=45))).total
    assert before.wasted_gpu_hours == Decimal("5")
    by_day = usage(operator, asked("day", until=NOON + 24 * HOUR)).rows
    assert sum(row.wasted_gpu_hours for row in by_day) == total.wasted_gpu_hours


def test_members_see_their_tenants_and_by_user_its_admins_alone() -> None:
    red, _ = a_busy_day()
    member, admin = caller(User.objects.get(username="ann")), caller(make_member(red, "ada", role="admin"))
    until = (NOON + 24 * HOUR).isoformat().replace("+", "%2B")
    span = f"since={(NOON - 24 * HOUR).isoformat().replace('+', '%2B')}&until={until}"

    def rows(who: Any, query: str) -> list[list[Any]]:
        answer = who.get(f"/usage?{span}&{query}")
        assert answer.status_code == 200, answer.content
        body = answer.json()
        return [[*(row[name] for name in body["by"]), row["gpu_hours"]] for row in body["rows"]]

    operator = caller(make_user(operator=True))
    assert [tenant for tenant, _ in rows(operator, "by=tenant")] == ["blue", "red"]
    assert rows(member, "by=tenant") == [["red", pytest.approx(float(RED))]]
    assert [user for user, _ in rows(admin, "by=user")] == ["ann", "bob"]
    assert [user for user, _ in rows(admin, "by=tenant&user=bob")] == ["red"]
    is_error(member.get(f"/usage?{span}&by=user"), 403, "not_allowed")
    is_error(member.get(f"/usage?{span}&by=tenant&user=bob"), 403, "not_allowed")
    is_error(member.get(f"/usage?{span}&by=user&tenant=red"), 403, "not_allowed")
    assert [user for user, _ in rows(member, "by=user&user=ann")] == ["ann"]
    is_error(member.get(f"/usage?{span}&tenant=blue"), 404, "not_found")
    is_error(admin.get(f"/usage?{span}&by=user&tenant=blue"), 404, "not_found")
    stranger = caller(make_member(make_tenant("green"), "sam"))
    assert rows(stranger, "by=tenant") == []


def test_csv_has_the_same_rows_as_json() -> None:
    a_busy_day()
    operator = caller(make_user(operator=True))
    query = "by=user,gpu_model&since=2026-03-13T12:00:00Z&until=2026-03-15T12:00:00Z"
    shown = operator.get(f"/usage?{query}").json()
    text = operator.get(f"/usage/export?{query}").content.decode()
    lines = list(csv.DictReader(io.StringIO(text)))
    assert [line["user"] for line in lines] == [row["user"] for row in shown["rows"]]
    assert [float(line["gpu_hours"]) for line in lines] == [row["gpu_hours"] for row in shown["rows"]]


def test_money_is_in_the_currency_of_the_site() -> None:
    olga = make_user("olga", operator=True)
    tenant = make_tenant("red")
    ran(tenant, make_user("ann"), at=NOON, hours=2)
    GpuModel.objects.update(price_per_hour=2.5)
    path = "/usage?by=gpu_model&since=2026-03-01T00:00:00Z&until=2026-04-01T00:00:00Z"
    asked = caller(olga).get(path).json()
    assert (asked["total"]["cost"], asked["total"]["currency"]) == (10.0, None)
    settings = "/cluster/settings"
    assert caller(olga).get(settings).json()["currency"] == ""
    for wrong in ("euro", "eur", "E", "€"):
        told = is_error(caller(olga).patch(settings, {"currency": wrong}), 400, "invalid")
        assert told["detail"] == "currency: is not a code of ISO 4217"
        assert told["fields"][0]["expected"] == "a code of ISO 4217, such as EUR or USD"
    assert caller(olga).patch(settings, {"currency": "EUR"}).json()["currency"] == "EUR"
    asked = caller(olga).get(path).json()
    assert (asked["total"]["cost"], asked["total"]["currency"]) == (10.0, "EUR")
    assert asked["rows"][0]["currency"] == "EUR"
    text = caller(olga).get(path.replace("/usage", "/usage/export")).content.decode()
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["cost"], row["currency"]) == ("10.0", "EUR")
    assert caller(olga).get("/gpu-models").json()["results"][0]["currency"] == "EUR"
    assert caller(olga).get("/tenants/red/budget").json()["currency"] == "EUR"
    # The same sum as a budget by cost counts.
    owner = Owner(Tenant.objects.get(name="red"))
    assert used(owner, "cost", NOON - HOUR, NOON + 3 * HOUR) == pytest.approx(10.0)


def test_a_name_in_csv_is_no_formula() -> None:
    red = make_tenant("red")
    ran(red, make_member(red, "+1"), at=NOON, hours=1, gpus=1)
    query = "by=user&since=2026-03-14T00:00:00Z&until=2026-03-15T00:00:00Z"
    text = caller(make_user(operator=True)).get(f"/usage/export?{query}").content.decode()
    assert text.splitlines()[1].startswith("'+1,1,1.0,")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("by=tenants", "by"),
        ("by=tenant,tenant", "by"),
        ("since=2999-01-01T00:00:00Z", "since"),
        ("since=yesterday", "since"),
        ("since=2026-02-01T00:00:00Z&until=2026-01-01T00:00:00Z", "since"),
        ("grouped=user", "grouped"),
    ],
)
def test_a_wrong_question_is_refused_by_field(query: str, field: str) -> None:
    answer = caller(make_user(operator=True)).get(f"/usage?{query}")
    assert is_error(answer, 400, "invalid")["fields"][0]["field"] == field


def test_by_default_it_is_this_month_until_now() -> None:
    red = make_tenant("red")
    now = timezone.now()
    ran(red, make_member(red, "ann"), at=now - HOUR, hours=None, gpus=2)
    body = json.loads(caller(make_user(operator=True)).get("/usage").content)
    assert body["by"] == ["tenant"]
    assert datetime.fromisoformat(body["since"]) == now.replace(
        day=1, hour=0, minute=0, second=0, microsecond=0
    )
    expected = min(HOUR, now - datetime.fromisoformat(body["since"])) / HOUR * 2
    assert body["total"]["gpu_hours"] == pytest.approx(expected, abs=0.05)
