"""The token of a shared GPU: shares stay between request and limit, to a few quotas a window."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeagent.tokens import (
    BASE_QUOTA,
    LEAST_QUOTA,
    MOST_QUOTA,
    WINDOW,
    Grant,
    History,
    Share,
    Use,
    Wait,
    next_holder,
)


def within_quotas(shares: dict[str, Share], history: History, now: int) -> None:
    """Never more than a quota above the limit; below the request by one quota, or one for each of several
    others: what leaves the window while others have their turns."""
    others = max(1, len(shares) - 1)
    for name, share in shares.items():
        used = history.used(name, now) * 1000
        assert used <= share.limit * WINDOW + BASE_QUOTA * 1000
        assert used >= share.request * WINDOW - others * BASE_QUOTA * 1000


def run(
    shares: dict[str, Share],
    until: int,
    check: Callable[[History, int], None] | None = None,
    bursts: dict[str, int] | None = None,
) -> tuple[History, int]:
    """All clients always wait and each uses its quota to the end."""
    history, now = History(began=0), 0
    while now < until:
        match next_holder(shares, list(shares), history, now, bursts):
            case Grant() as grant:
                history = history.returned(grant, now, now + grant.quota)
                now += grant.quota
                if check and now >= WINDOW:
                    check(history, now)
            case Wait(later):
                assert later > now
                now = later
    return history, now


def test_the_furthest_behind_its_request_is_first_then_who_used_least() -> None:
    shares = {"a": Share(request=300, limit=1000), "b": Share(request=600, limit=1000)}
    # Of 10 s: a has 2 of 3 s (two thirds), b 5 of 6 (five sixths).
    history = History(began=0, uses=(Use("a", 0, 2_000_000), Use("b", 2_000_000, 7_000_000)))
    assert next_holder(shares, ["b", "a"], history, WINDOW) == Grant("a", BASE_QUOTA)
    # a has 4 s and misses nothing: b, which does, is first although it used more.
    history = History(began=0, uses=(Use("a", 0, 4_000_000), Use("b", 4_000_000, 9_000_000)))
    assert next_holder(shares, ["a", "b"], history, WINDOW) == Grant("b", BASE_QUOTA)
    free = {"a": Share(request=0, limit=1000), "b": Share(request=0, limit=1000)}
    assert next_holder(free, ["b", "a"], history, WINDOW) == Grant("a", BASE_QUOTA)
    assert next_holder({**free, "new": free["a"]}, ["a", "new"], history, WINDOW) == Grant("new", BASE_QUOTA)


def test_who_is_at_the_limit_waits_until_use_leaves_the_window() -> None:
    shares = {"a": Share(request=300, limit=600)}
    history = History(began=0, uses=(Use("a", 2_000_000, 8_000_000),))
    assert next_holder(shares, ["a"], history, WINDOW) == Wait(12_000_001)
    assert next_holder(shares, ["a"], history, 12_000_001) == Grant("a", BASE_QUOTA)
    # In a window that is not full yet, time that passes is enough.
    early = History(began=0, uses=(Use("a", 0, 300_000),))
    assert next_holder(shares, ["a"], early, 300_000) == Wait(500_001)
    assert next_holder(shares, [], early, 300_000) is None


def test_a_quota_follows_bursts_within_bounds() -> None:
    shares = {"a": Share(request=300, limit=600)}
    for before, burst, quota in (
        (None, 450_000, 350_000),
        (350_000, 10, LEAST_QUOTA + 75_005),
        (100_000, 0, LEAST_QUOTA),
    ):
        history = History(began=0, quotas={} if before is None else {"a": before})
        assert next_holder(shares, ["a"], history, 0, {"a": burst}) == Grant("a", quota)
    for limit, most in ((600, MOST_QUOTA), (50, 500_000), (5, LEAST_QUOTA)):
        shares = {"a": Share(request=5, limit=limit)}
        assert next_holder(shares, ["a"], History(began=0), 0, {"a": 60_000_000}) == Grant("a", most)


def test_who_claims_long_bursts_gets_no_more_than_its_part() -> None:
    shares = {"claims": Share(request=300, limit=1000), "honest": Share(request=700, limit=1000)}
    history, now = run(shares, 3 * WINDOW, bursts={"claims": 10**30})
    assert history.used("claims", now) <= 300 * WINDOW // 1000 + MOST_QUOTA
    assert history.used("honest", now) >= 700 * WINDOW // 1000 - MOST_QUOTA


def test_overuse_is_charged_and_uses_follow_one_another() -> None:
    history = History(began=0).returned(Grant("a", BASE_QUOTA), 0, 900_000)
    assert history.used("a", 900_000) == 900_000
    with pytest.raises(ValueError, match="follow the use before"):
        history.returned(Grant("b", BASE_QUOTA), 800_000, 950_000)
    with pytest.raises(ValueError, match="expected 0 <= request <= limit"):
        Share(request=700, limit=600)


@st.composite
def saturating(draw: st.DrawFn) -> dict[str, Share]:
    """Up to eight clients whose requests are the whole GPU, with limits of any size above."""
    weights = draw(st.lists(st.integers(1, 20), min_size=1, max_size=8))
    requests = [max(1, 1000 * weight // sum(weights)) for weight in weights]
    requests[0] += 1000 - sum(requests)
    return {
        f"client {number}": Share(request=request, limit=draw(st.integers(request, 1000)))
        for number, request in enumerate(requests)
    }


@settings(max_examples=60, deadline=None)
@given(saturating())
def test_under_saturation_shares_stay_between_request_and_limit(shares: dict[str, Share]) -> None:
    checked = 0

    def check(history: History, now: int) -> None:
        nonlocal checked
        checked += 1
        within_quotas(shares, history, now)

    history, now = run(shares, 3 * WINDOW, check=check)
    within_quotas(shares, history, now)
    assert checked > 50


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 1000),
    st.lists(st.tuples(st.integers(0, 3_000_000), st.integers(1, 3_000_000)), max_size=12),
    st.integers(0, 2_000_000),
)
def test_a_wait_ends_at_the_first_moment_below_the_limit(
    limit: int, stretches: list[tuple[int, int]], later: int
) -> None:
    shares, history, now = {"a": Share(request=0, limit=limit)}, History(began=0), 0
    for idle, busy in stretches:
        history = history.returned(Grant("a", BASE_QUOTA), now + idle, now + idle + busy)
        now += idle + busy
    now += later
    answer = next_holder(shares, ["a"], history, now)
    if isinstance(answer, Wait):
        assert answer.until > now
        assert isinstance(next_holder(shares, ["a"], history, answer.until), Grant)
        assert answer.until == now + 1 or isinstance(
            next_holder(shares, ["a"], history, answer.until - 1), Wait
        )


@settings(max_examples=25, deadline=None)
@given(st.integers(50, 1000))
def test_an_idle_partners_part_is_used_up_to_the_limit(limit: int) -> None:
    history, now = run({"a": Share(request=50, limit=limit)}, 3 * WINDOW)
    assert abs(history.used("a", now) - limit * WINDOW // 1000) <= BASE_QUOTA
