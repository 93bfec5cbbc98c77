"""Readings of many nodes go out together."""

from scheduler.stream import Gathering


def test_what_comes_too_soon_waits_for_the_next_and_only_the_newest_counts():
    gathering = Gathering(seconds=1_000.0)
    assert gathering.add("a", ("all", {"n": 1})) == [("all", {"n": 1})]
    assert gathering.add("b", ("all", {"n": 2})) == []
    assert gathering.add("b", ("all", {"n": 3})) == []
    gathering.seconds = 0.0
    assert gathering.add("a", ("all", {"n": 4})) == [("all", {"n": 3}), ("all", {"n": 4})]
    assert gathering.add("b", ("all", {"n": 5})) == [("all", {"n": 5})]
