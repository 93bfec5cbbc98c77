"""Counting says when it is not worth looking for a place yet, and never when there is one."""

from __future__ import annotations

import random

import pytest

from scheduler.core.fitting.coming_free import ComingFree, needed
from scheduler.core.fitting.demand import demand_of
from scheduler.core.round.engine import RoundEngine
from tests.builders import NOW, make_cluster, make_job, make_running, make_snapshot


@pytest.mark.parametrize("seed", range(40))
def test_who_lacks_gpus_fits_nowhere_and_dropping_at_once_is_dropping_in_turn(seed: int) -> None:
    dice = random.Random(seed)
    nodes = make_cluster(4, gpus=4)
    free = [[gpu.id for gpu in node.gpus] for node in nodes]
    jobs, running = [], []
    for number in range(1, 12):
        size = dice.choice((1, 1, 2, 4))
        place = next((gpus for gpus in dice.sample(free, 4) if len(gpus) >= size), None)
        if place is not None:
            gpus = [place.pop() for _ in range(size)]
            jobs.append(make_job(number, size))
            running.append(make_running(number, gpus, since=NOW - number))
    head = make_job(99, dice.choice((2, 3, 4)), replicas=dice.choice((1, 2, 3)))
    engine = RoundEngine(make_snapshot(nodes=nodes, jobs=[*jobs, head], running=running))
    capacity = next(iter(engine.views().values())).capacity
    demand = demand_of(head, capacity.cluster)
    ends = [(float(place), holding) for place, holding in enumerate(capacity.pending.values())]
    capacity.keep_all()
    counted, by_one = ComingFree(capacity, demand), capacity.fork()
    assert not counted.lacks or capacity.find(demand) is None
    for _, holding in ends:
        counted.end(holding)
        by_one.drop(holding)
        assert not counted.lacks or by_one.find(demand) is None
    at_once = capacity.fork()
    at_once.drop_all([holding for _, holding in ends])
    assert at_once.dropped == by_one.dropped
    for model in capacity.models:
        assert at_once.offered(model) == by_one.offered(model)
        assert at_once.offered_by_node(model) == by_one.offered_by_node(model)
    first = list(needed(capacity, demand, ends))
    assert first == ends[: len(first)]
    before = capacity.fork()
    before.drop_all([holding for _, holding in first[:-1]])
    assert not first or before.find(demand) is None
