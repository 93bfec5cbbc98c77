import pytest
from django.db import connection, transaction

from scheduler.rounds.run import FenceError, give_up, hold_fence, take_number

pytestmark = pytest.mark.django_db


def let_the_lease_end() -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE scheduler_leadership SET expires_at = now() - interval '1 second'")


def test_numbers_follow_one_another():
    first = take_number()
    hold_fence(first)
    assert take_number() == first + 1


def test_only_one_round_is_under_way():
    assert take_number() is not None
    assert take_number() is None


def test_a_round_that_overstays_is_overtaken_and_fenced():
    slow = take_number()
    let_the_lease_end()
    fast = take_number()
    assert fast == slow + 1
    with pytest.raises(FenceError, match=f"round {slow} was overtaken by round {fast}"), transaction.atomic():
        hold_fence(slow)
    hold_fence(fast)


def test_a_round_that_ends_late_but_alone_may_still_write():
    slow = take_number()
    let_the_lease_end()
    hold_fence(slow)


def test_an_overtaken_round_cannot_give_up_the_lease_of_another():
    slow = take_number()
    let_the_lease_end()
    take_number()
    give_up(slow)
    assert take_number() is None
