"""What Gavel's policies say in its own rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from scheduler.core.model.errors import PolicyError, UnknownPlugin
from scheduler.core.solvers.checking import checked_instance
from scheduler.core.solvers.errors import SolverError
from scheduler.core.solvers.polytope import polytope_of
from scheduler.core.solvers.solving import solve
from scheduler.simulation.gavel.centre import central_shares
from scheduler.simulation.gavel.choices import rules_named, shares_named
from scheduler.simulation.gavel.jobs import Standing, Unit
from scheduler.simulation.gavel.matching import AlloX
from scheduler.simulation.gavel.programs import Program
from scheduler.simulation.gavel.queues import AnyModel, FastestFirst, PublishedAnyModel
from scheduler.simulation.gavel.rounds import GavelRounds, Rules
from scheduler.simulation.gavel.splits import Gandiva, IsolatedSplit
from tests.simulation.gavel.worlds import cluster, job, standing

PAIRS = {(one, other): [(0.7, 0.8), (0.6, 0.6), (0.1, 0.1)] for one in range(3) for other in range(3)}
POLICIES = [
    "allox",
    "allox:alpha=0.5",
    "fifo",
    "fifo:aware=false",
    "fifo:aware=false,published=true",
    "fifo:sharing=true",
    "gandiva",
    "isolated",
    "gavel",
    "gavel:aware=false",
    "gavel:sharing=true",
    "gavel:centre=true",
    "gavel:parts=2",
    "gavel:objective=water_filling",
    "gavel:objective=finish_time_fairness",
    "gavel:objective=finish_time_fairness,aware=false",
    "gavel:objective=makespan",
    "gavel:objective=makespan,sharing=true",
    "gavel:objective=max_sum_throughput",
    "gavel:objective=throughput_per_cost",
    "gavel:objective=min_cost_slo",
]


@pytest.mark.parametrize("text", POLICIES)
def test_every_policy_ends_all_jobs_and_always_alike(text: str) -> None:
    where = cluster(2, 2, 2, pairs=PAIRS)
    jobs = [
        job(300 * number, 900 + 200 * number, 2.0, 1.0 + number % 3 / 3, 0.5, kind=number % 3)
        for number in range(9)
    ]
    outcomes = [GavelRounds(where, jobs, shares_named(text, 3), Rules(seed=3)).run() for _ in range(2)]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0].complete
    for number, course in outcomes[0].courses.items():
        assert course.steps_left == 0
        # Nobody is faster than alone on its best model, not even in a pair.
        assert course.ended_at is not None
        assert course.ended_at >= jobs[number].arrived_at + jobs[number].steps / 2.0 - 1e-6


def test_the_queue_takes_the_fastest_model_with_room_and_nobody_overtakes() -> None:
    jobs = [job(0, 1, 1.0, 3.0), job(0, 1, 1.0, 3.0), job(0, 1, 1.0, 3.0, gang=2), job(0, 1, 1.0, 3.0)]
    assert FastestFirst().decide(standing(cluster(2, 1), jobs)) == {(0,): (0.0, 1.0), (1,): (1.0, 0.0)}


def test_the_queue_shares_gpus_when_that_pays_and_the_first_that_does_not_ends_it() -> None:
    where = cluster(1, 1, pairs={(0, 1): [(0.9, 0.9), (0.5, 0.5)], (0, 2): [(0.7, 0.7), (0.7, 0.7)]})
    kinds = (0, 0, 1, 2, 1)
    jobs = [job(0, 1, 1.0, 1.0, kind=kind) for kind in kinds]
    # By name the second model is filled first; there the pair would not pay.
    shares = FastestFirst(sharing=True).decide(standing(where, jobs))
    assert shares == {(0,): (0.0, 1.0), (1, 2): (1.0, 0.0)}


def test_the_agnostic_queue_draws_among_models_with_room_and_stays() -> None:
    where = cluster(1, 2, 3)
    jobs = [job(0, 1, 1.0, 1.0, 1.0, gang=gang) for gang in (3, 2, 1)]
    policy = AnyModel(0)
    shares = policy.decide(standing(where, jobs))
    assert shares == {(0,): (0.0, 0.0, 1.0), (1,): (0.0, 1.0, 0.0), (2,): (1.0, 0.0, 0.0)}
    assert policy.decide(standing(where, jobs[1:])) != {}


def test_the_published_queue_takes_the_last_model_by_name_be_there_room_or_not() -> None:
    # It draws k80 or p100, has v100 in its hands, and gives two GPUs of the one there is.
    where = cluster(1, 4, 4)
    shares = PublishedAnyModel(0).decide(standing(where, [job(0, 1, 1.0, 1.0, 1.0, gang=2)]))
    assert shares == {(0,): (1.0, 0.0, 0.0)}


def test_allox_gives_the_short_job_the_gpu_first_and_takes_no_gangs() -> None:
    where = cluster(1)
    policy = AlloX()
    assert policy.decide(standing(where, [job(0, 500), job(0, 100)])) == {(1,): (1.0,)}
    # Who has a GPU keeps it.
    assert policy.decide(standing(where, [job(0, 10), job(0, 100)])) == {(1,): (1.0,)}
    with pytest.raises(PolicyError, match="gang"):
        AlloX().decide(standing(cluster(2), [job(0, 1, gang=2)]))


def test_isolated_jobs_have_equal_parts_and_no_more_than_all_their_time() -> None:
    jobs = [job(0, 1, 1.0, 1.0), job(0, 1, 1.0, 1.0, gang=2)]
    assert IsolatedSplit().decide(standing(cluster(4, 2), jobs)) == {
        (0,): (pytest.approx(2 / 3), pytest.approx(1 / 3)),
        (1,): (pytest.approx(2 / 3), pytest.approx(1 / 3)),
    }
    assert IsolatedSplit().decide(standing(cluster(1, 1), jobs)) == {(0,): (0.5, 0.5), (1,): (0.25, 0.25)}


def test_gandiva_pairs_jobs_only_when_they_do_not_all_fit() -> None:
    where = cluster(2, pairs={(0, 0): [(0.8, 0.8)]})
    assert set(Gandiva(0).decide(standing(where, [job(0, 1)] * 2))) == {(0,), (1,)}
    units = set(Gandiva(0).decide(standing(where, [job(0, 1)] * 4)))
    assert all(len(unit) == 2 for unit in units)
    assert sorted(number for unit in units for number in unit) == [0, 1, 2, 3]


def test_an_agnostic_program_believes_that_all_models_are_alike() -> None:
    where = cluster(1, 1)
    shares = Program("max_min", aware=False).decide(
        standing(where, [job(0, 1, 9.0, 1.0), job(0, 1, 1.0, 1.0), job(0, 1, 1.0, 0.0)])
    )
    for parts in shares.values():
        assert parts == pytest.approx((1 / 3, 1 / 3), abs=1e-6)


def test_time_on_its_own_part_is_counted_from_what_was_done_since() -> None:
    # Two jobs on two GPUs: alone each has one. The first did 100 of 400 steps in 400 s, so is well behind.
    where = cluster(2, 2)
    policy = Program("finish_time_fairness")
    jobs = [job(0, 400, 1.0, 0.5), job(0, 400, 1.0, 0.5), job(0, 400, 1.0, 0.5)]
    first = policy.decide(standing(where, jobs))
    later = standing(where, jobs, now=400)
    behind = {0: 300.0, 1: 50.0, 2: 50.0}
    second = policy.decide(
        type(later)(now=400, cluster=where, jobs=later.jobs, steps_left=behind, due_at=later.due_at)
    )
    assert second[0,][0] > first[0,][0]


@pytest.mark.parametrize("seed", range(6))
def test_the_centre_is_as_good_as_the_optimum_and_possible(seed: int) -> None:
    dice = np.random.default_rng(seed)
    jobs = int(dice.integers(2, 25))
    instance = checked_instance(
        throughput=dice.choice([0.2, 1.0, 3.0], (jobs, 3)),
        gpus=dice.integers(1, 9, 3),
        gang=dice.choice([1, 1, 2], jobs),
        weight=dice.choice([1.0, 5.0], jobs),
    )
    runnable = instance.take(np.flatnonzero(instance.runs))
    polytope = polytope_of(runnable, runnable.weight[:, None])
    shares = central_shares(polytope, polytope.marks[:, 0])
    assert (shares > 0).all()
    assert (polytope.use.of(shares) <= polytope.gpus + 1e-6).all()
    assert (polytope.time.of(shares) <= polytope.size + 1e-6).all()
    level = (polytope.progress.of(shares) / polytope.marks[:, 0]).min()
    assert level == pytest.approx(solve(runnable, "max_min").objective, rel=1e-5)


@pytest.mark.parametrize("gang", [1, 2, 4, 8])
def test_the_centre_of_a_gang_alone_on_models_that_are_alike_is_an_equal_part_of_each(gang: int) -> None:
    where = cluster(8, 8, 8)
    shares = Program("max_min", centre=True).decide(standing(where, [job(0, 900, 1.0, 1.0, 1.0, gang=gang)]))
    assert shares[0,] == pytest.approx((1 / 3, 1 / 3, 1 / 3), abs=1e-6)


def test_a_centre_that_is_not_found_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: object) -> None:
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr(np.linalg, "solve", fails)
    monkeypatch.setattr(np.linalg, "lstsq", fails)
    with pytest.raises(SolverError, match=r"path to the centre was lost: Singular matrix"):
        Program("max_min", centre=True).decide(standing(cluster(8), [job(0, 900)]))


def test_a_run_ends_where_the_policy_finds_no_shares_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    found, decide = [0], Program.decide

    def once(self: Program, of: Standing) -> Mapping[Unit, Sequence[float]]:
        found[0] += 1
        if found[0] > 1:
            raise SolverError("no centre")
        return decide(self, of)

    monkeypatch.setattr(Program, "decide", once)
    jobs = [job(0, 900), job(0, 9000), job(5000, 900)]
    outcome = GavelRounds(cluster(2), jobs, shares_named("gavel", 3), Rules(seed=3)).run()
    assert (outcome.complete, outcome.without_shares) == (False, "no centre")
    assert outcome.courses[0].ended_at is not None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tiresias", "have no policy 'tiresias'"),
        ("gavel:objective=luck", "no objective 'luck'"),
        ("gavel:aware=false,sharing=true", "sharing is for policies that know speeds"),
        ("gavel:objective=makespan,centre=true", "centre is for objective=max_min"),
        ("gavel:parts=0", "parts is 0; it must be a whole number from 1 on"),
        ("fifo:published=true", "published for the one that does not"),
        ("fifo:aware=3", "aware is 3; it must be true or false"),
        ("isolated:seed=1", "has no parameter 'seed'; there are none"),
    ],
)
def test_says_what_is_wrong_with_a_policy(text: str, words: str) -> None:
    with pytest.raises(UnknownPlugin, match=words):
        shares_named(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("themis", "no rounds 'themis'; choose gavel"),
        ("gavel:order=alphabetical", "choose published, fixed or shuffled"),
        ("gavel:reallocate_seconds=-1", "must be a number of at least 0"),
        ("gavel:start_seconds=360", "shorter than a round"),
        ("gavel:seed=1", "no parameter 'seed'"),
    ],
)
def test_says_what_is_wrong_with_rounds(text: str, words: str) -> None:
    with pytest.raises(UnknownPlugin, match=words):
        rules_named(text, round_seconds=360, seed=0)


def test_reads_departures() -> None:
    rules = rules_named("gavel:order=fixed,one_list=true,reallocate_seconds=0", round_seconds=120, seed=2)
    assert rules == Rules(round_seconds=120, seed=2, order="fixed", one_list=True, reallocate_seconds=0)
