"""Whose turn it is: priorities, deficits, leftovers."""

from __future__ import annotations

from scheduler.simulation.gavel.jobs import Cluster, RoundJob
from scheduler.simulation.gavel.turns import Choice, Lease, Turns, leases_of
from tests.simulation.gavel.worlds import cluster, job


def turns(where: Cluster, *jobs: RoundJob, sharing: bool = False) -> Turns:
    made = Turns(where, round_seconds=360, sharing=sharing)
    made.admit(dict(enumerate(jobs)))
    made.settle(0)
    return made


def units(chosen: dict[int, list[Choice]]) -> dict[int, list[tuple[int, ...]]]:
    return {model: [choice.unit for choice in choices] for model, choices in chosen.items()}


def test_the_largest_share_for_what_it_received_is_first() -> None:
    table = turns(cluster(1), job(0, 1), job(0, 1))
    table.decide({(0,): [0.6], (1,): [0.4]})
    order = []
    for _ in range(10):
        (choice,) = table.choose([0], leftovers=True)[0]
        order.append(choice.unit[0])
        table.credit(choice.unit, 0, 360)
    # 0.6/180 > 0.4/180; then 0.6/540 < 0.4/180; then 0.6/540 > 0.4/540; and so on: six turns of ten.
    assert order == [0, 1, 0, 1, 0, 0, 1, 0, 1, 0]


def test_what_was_missed_decides_between_equal_priorities() -> None:
    table = turns(cluster(1), job(0, 1), job(0, 1))
    table.decide({(0,): [0.5], (1,): [0.5]})
    table.credit((0,), 0, 360)
    table.settle(360)
    table.decide({(0,): [0.5], (1,): [0.5]})
    assert units(table.choose([0], leftovers=True)) == {0: [(1,)]}


def test_models_are_filled_one_after_the_other_leftovers_included() -> None:
    table = turns(cluster(1, 1), job(0, 1, 2.0, 1.0), job(0, 1, 2.0, 1.0))
    # Nobody has a share of the first model, so the first job is there before the second model is looked at.
    table.decide({(0,): [0.0, 1.0], (1,): [0.0, 0.5]})
    assert units(table.choose([0, 1], leftovers=True)) == {0: [(0,)], 1: [(1,)]}
    assert units(table.choose([0, 1], leftovers=False)) == {0: [], 1: [(0,)]}
    assert units(table.choose([0, 1], leftovers=True, one_list=True)) == {0: [(1,)], 1: [(0,)]}


def test_a_gang_that_does_not_fit_is_passed_over() -> None:
    table = turns(cluster(3), job(0, 1, gang=2), job(0, 1, gang=2), job(0, 1))
    table.decide({(0,): [0.9], (1,): [0.8], (2,): [0.1]})
    assert units(table.choose([0], leftovers=True)) == {0: [(0,), (2,)]}


def test_who_does_not_run_on_a_model_has_no_turn_there_whatever_its_share() -> None:
    table = turns(cluster(1), job(0, 1, 0.0), job(0, 1, 1.0))
    table.decide({(0,): [0.9], (1,): [0.1]})
    assert units(table.choose([0], leftovers=True)) == {0: [(1,)]}


def newcomer() -> Turns:
    """The first job had more than its share, which was nothing; the second one has just come."""
    table = turns(cluster(1), job(0, 1))
    table.decide({})
    table.credit((0,), 0, 720)
    table.settle(720)
    table.decide({})
    table.admit({1: job(0, 1)})
    return table


def test_a_newcomer_keeps_others_from_a_gpu_that_it_can_not_use() -> None:
    chosen = newcomer().choose([0], leftovers=True)
    assert chosen == {0: [Choice((1,), 1, False)]}
    assert leases_of(chosen, {}) == {}


def test_a_newcomer_runs_on_leftovers_where_that_is_asked_for() -> None:
    chosen = newcomer().choose([0], leftovers=True, newcomers=True)
    assert leases_of(chosen, {}) == {(1,): Lease(0, (0,))}


def test_a_job_is_in_one_unit_at_a_time() -> None:
    where = cluster(2, pairs={(0, 0): [(0.8, 0.8)]})
    table = turns(where, job(0, 1), job(0, 1), job(0, 1), sharing=True)
    table.decide({(0, 1): [0.5], (0,): [0.4], (2,): [0.3]})
    assert units(table.choose([0], leftovers=True)) == {0: [(0, 1), (2,)]}


def test_new_pairs_come_before_single_jobs_where_gpus_are_left_over() -> None:
    where = cluster(1, pairs={(0, 0): [(0.8, 0.8)]})
    table = turns(where, job(0, 1), job(0, 1), sharing=True)
    table.decide({})
    assert units(table.choose([0], leftovers=True)) == {0: [(0, 1)]}
    assert units(table.choose([0], leftovers=True, leftover_pairs=False)) == {0: [(0,)]}


def test_who_has_gone_has_no_turns_and_nor_have_its_pairs() -> None:
    where = cluster(1, pairs={(0, 0): [(0.8, 0.8)]})
    table = turns(where, job(0, 1), job(0, 1), job(0, 1), sharing=True)
    table.dismiss([0, 1])
    table.settle(0)
    table.decide({(2,): [1.0]})
    assert units(table.choose([0], leftovers=True)) == {0: [(2,)]}
    table.credit((2,), 0, 360)


def test_larger_gangs_choose_gpus_first_and_who_ran_there_keeps_its_own() -> None:
    chosen = {0: [Choice((0,), 1, True), Choice((1,), 2, True), Choice((2,), 1, True)]}
    assert leases_of(chosen, {}) == {(1,): Lease(0, (0, 1)), (0,): Lease(0, (2,)), (2,): Lease(0, (3,))}
    before = {(2,): Lease(0, (0,)), (0,): Lease(0, (3,))}
    assert leases_of(chosen, before) == {(1,): Lease(0, (0, 1)), (0,): Lease(0, (3,)), (2,): Lease(0, (2,))}
