"""The pruning of rows that will not be read again."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduler.models import NodeMetrics
from scheduler.models.metrics import Resolution
from scheduler.tasks import pruning
from tenants import housekeeping
from tenants.housekeeping import delete_rows
from tests.scheduler.builders import make_node


def test_a_step_that_fails_keeps_no_other_from_being_taken(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    taken = []

    def fails() -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(pruning, "_STEPS", (lambda: taken.append(1), fails, lambda: taken.append(2)))
    pruning.prune()
    assert taken == [1, 2]
    assert "fails failed" in caplog.text


@pytest.mark.django_db
@pytest.mark.parametrize(("seconds", "left"), [(60.0, 1), (-1.0, 4)])
def test_old_rows_go_some_in_a_transaction_until_the_turn_is_over(
    monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any, seconds: float, left: int
) -> None:
    monkeypatch.setattr(housekeeping, "_ROWS_AT_ONCE", 2)
    monkeypatch.setattr(housekeeping, "TURN_SECONDS", seconds)
    now, node = timezone.now(), make_node()
    for days_ago in range(6):
        at = now - timedelta(days=days_ago)
        # The key of these has several columns.
        NodeMetrics.objects.create(node=node, seconds=Resolution.READING, at=at, simulated=False, values={})
    old = NodeMetrics.objects.filter(at__lt=now)
    with django_assert_num_queries(1 if left == 4 else 4):
        assert delete_rows(old) == 6 - left
    assert NodeMetrics.objects.count() == left
    assert NodeMetrics.objects.filter(at=now).exists()
