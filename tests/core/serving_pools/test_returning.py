"""Which nodes go back first, and what that leaves of the jobs on them."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from itertools import combinations

import pytest

from scheduler.core.model.snapshot import FIXED_WORLD, LENT, Job, Node, NodeLoan, Running
from scheduler.core.serving_pools.returning import kept_replicas, nodes_to_return
from tests.builders import make_job, make_node, make_running

POOL = "chat"


def lent(number: int, gpus: int = 2) -> Node:
    return make_node(number, gpus=gpus, loan=NodeLoan(pool=POOL, state=LENT))


def elastic(number: int, least: int, **fields: object) -> Job:
    return make_job(number, 1, replicas=least, elastic=(least, 16), **fields)


def chosen(nodes: Sequence[Node], count: int, held: Sequence[tuple[Job, Sequence[int]]]) -> list[int]:
    running = [make_running(job, [[gpu] for gpu in gpus]) for job, gpus in held]
    return [each.node for each in nodes_to_return(nodes, POOL, count, [job for job, _ in held], running)]


def test_free_nodes_go_first_then_those_with_flexible_workers_then_the_cheapest() -> None:
    nodes = [make_node(1, gpus=4), lent(2), lent(3), lent(4), lent(5)]
    rigid, wide = make_job(1, 1, replicas=2), make_job(2, 1, replicas=3)
    flexible = elastic(3, 2)
    held = [(rigid, (200, 201)), (wide, (300, 102, 103)), (flexible, (400, 401, 100, 101))]
    # Node 5 is free, node 4 has flexible workers alone; the job on node 3 spans two nodes, that on 2 one.
    assert chosen(nodes, 4, held) == [5, 4, 3, 2]


def test_the_other_nodes_of_a_preempted_job_become_free() -> None:
    nodes = [lent(1), lent(2), lent(3, gpus=4)]
    spanning, other, third = (make_job(number, 1, replicas=2) for number in (1, 2, 3))
    held = [(spanning, (100, 200)), (other, (300, 301)), (third, (302, 303))]
    returns = nodes_to_return(
        nodes,
        POOL,
        2,
        [spanning, other, third],
        [make_running(job, [[g] for g in gpus]) for job, gpus in held],
    )
    assert [(each.node, each.preempts) for each in returns] == [(1, (1,)), (2, ())]


def test_a_gang_gives_up_workers_on_several_nodes_only_as_far_as_its_base_allows() -> None:
    nodes = [lent(1), lent(2), lent(3)]
    gang = elastic(1, 3)
    running = [make_running(gang, [[100], [101], [200], [201], [300]])]
    returns = nodes_to_return(nodes, POOL, 3, [gang], running)
    assert [(each.node, each.shrinks, each.preempts) for each in returns] == [
        (3, (1,), ()),  # It shrinks least by this one.
        (1, (), (1,)),
        (2, (), ()),
    ]


def test_only_nodes_that_this_pool_lends_are_chosen() -> None:
    nodes = [make_node(1), make_node(2, loan=NodeLoan(pool=POOL)), lent(3)]
    other = make_node(4, loan=NodeLoan(pool="search", state=LENT))
    assert chosen([*nodes, other], 4, []) == [3]


def test_ranks_that_share_devices_keep_numbers_that_divide_the_world() -> None:
    job = make_job(1, 1, replicas=4, elastic=(1, 4), elastic_mode=FIXED_WORLD)
    running = make_running(job, [[100], [101], [200], [201]])
    assert kept_replicas(job, running, {200}) == ((100,), (101,))
    assert kept_replicas(job, running, {100, 101, 200}) == ((201,),)
    assert kept_replicas(job, running, {100, 101, 200, 201}) is None
    assert kept_replicas(make_job(2, 1, replicas=2), make_running(2, [[100], [200]]), {200}) is None


def preempted(nodes: Collection[int], jobs: Sequence[Job], running: Sequence[Running]) -> int:
    """Return how many jobs stop when these nodes go back."""
    leaving = {gpu for held in running for gpu in held.gpus if gpu // 100 in nodes}
    on_them = [(job, held) for job, held in zip(jobs, running, strict=True) if leaving & set(held.gpus)]
    return sum(kept_replicas(job, held, leaving) is None for job, held in on_them)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_nearly_as_few_jobs_stop_as_with_the_best_choice_of_all(count: int) -> None:
    """Against every choice of nodes: the greedy rule of the paper is not exact. Here it is one job worse in
    a tenth of the worlds, and never by more."""
    worlds, worse = 200, 0
    for seed in range(worlds):
        rng = random.Random(f"{count}:{seed}")
        nodes = [lent(number, gpus=3) for number in range(1, 7)]
        free = [gpu.id for node in nodes for gpu in node.gpus]
        rng.shuffle(free)
        jobs, running = [], []
        for number in range(1, 7):
            size = rng.randint(1, 4)
            gpus, free = free[:size], free[size:]
            if len(gpus) < size:
                break
            jobs.append(
                elastic(number, rng.randint(1, size))
                if rng.random() < 0.6
                else make_job(number, 1, replicas=size)
            )
            running.append(make_running(jobs[-1], [[gpu] for gpu in gpus]))
        greedy = [each.node for each in nodes_to_return(nodes, POOL, count, jobs, running)]
        best = min(preempted(choice, jobs, running) for choice in combinations(range(1, 7), count))
        found = preempted(greedy, jobs, running)
        assert best <= found <= best + 1
        worse += found > best
    assert worse <= worlds * 0.15
