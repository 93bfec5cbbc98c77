"""What is foretold of pairs that nobody measured."""

from __future__ import annotations

import csv
from itertools import combinations_with_replacement
from pathlib import Path

import pytest

from scheduler.core.model.interference import Branch
from scheduler.core.model.training import Profile
from scheduler.core.perf.interference import LEAST_PAIRS, MeasuredPair, fitted, predicted, rules_of

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "lucid"


def profile(compute: float, **fields: object) -> Profile:
    return Profile(utilisation=compute, **fields)


def planted(count: int = 8) -> list[MeasuredPair]:
    """Pairs that slow each other down as soon as both together ask for more than the device."""
    jobs = {f"job-{number}": profile((number + 0.5) / count) for number in range(count)}
    pairs = []
    for (one, first), (other, second) in combinations_with_replacement(jobs.items(), 2):
        speed = 0.5 if (first.utilisation or 0) + (second.utilisation or 0) > 1 else 1.0
        pairs.append(MeasuredPair((one, other), (first, second), (speed, speed)))
    return pairs


def test_a_planted_rule_is_found_and_foretells_pairs_that_were_held_out() -> None:
    found = fitted(planted())
    assert found is not None
    assert (found.pairs, found.error) == (36, pytest.approx(0.0, abs=1e-9))
    assert found.error_of_mean == pytest.approx(0.25, abs=0.02)
    busy, idle = profile(0.8), profile(0.1)
    assert predicted(found.tree, [busy, busy, idle], [busy, idle, idle]) == pytest.approx([0.5, 1.0, 1.0])
    assert rules_of(found.tree) == [
        "Where both together compute 106% of the time or more: 50% of its speed alone (32 measured).",
        "Where both together compute less than 106% of the time: 100% of its speed alone (40 measured).",
    ]


def test_too_few_pairs_and_jobs_of_which_nothing_is_known_tell_nothing() -> None:
    assert fitted(planted()[: LEAST_PAIRS - 1]) is None
    unknown = [pair._replace(profiles=(pair.profiles[0], Profile(memory_bytes=1))) for pair in planted()]
    assert fitted(unknown) is None
    found = fitted(planted())
    assert found is not None
    half_known = [profile(0.5), None, Profile(amp=True)]
    assert predicted(found.tree, half_known, [profile(0.1)] * 3)[1:] == [None, None]
    assert predicted((), [profile(0.5)], [profile(0.5)]) == [None]
    assert rules_of(()) == []


def test_the_same_pairs_in_another_order_make_the_same_tree() -> None:
    assert fitted(reversed(planted())) == fitted(planted())


def test_a_figure_that_is_not_known_goes_where_most_went() -> None:
    tree = (
        Branch(speed=0.8, samples=30, figure="both_memory", bound=0.5, below=1, above=2, unknown=1),
        Branch(speed=0.9, samples=20),
        Branch(speed=0.6, samples=10),
    )
    known = profile(0.5, memory_utilisation=0.3)
    assert predicted(tree, [known, known], [known, profile(0.5)]) == [0.6, 0.9]


def test_stages_tell_where_nothing_else_does() -> None:
    """Who waits for storage goes well with who computes, and not with its like."""
    waiting, computing = [profile(0.5, stages=stages) for stages in ((8.0, 1.0, 1.0), (0.5, 9.0, 0.5))]
    pairs = [
        MeasuredPair((f"one-{number}", f"other-{number}"), (one, other), (speed, speed))
        for number in range(10)
        for one, other, speed in (
            (waiting, computing, 0.9), (waiting, waiting, 0.5), (computing, computing, 0.5),
        )
    ]  # fmt: skip
    named = [pair._replace(applications=(f"{place}", "x")) for place, pair in enumerate(pairs)]
    found = fitted(named)
    assert found is not None
    assert found.tree[0].figure == "stages_speed"
    assert predicted(found.tree, [waiting, waiting], [computing, waiting]) == pytest.approx([0.9, 0.5])


@pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data/lucid is not here")
def test_lucids_pairs_are_foretold_better_than_by_their_mean() -> None:
    with (DATA / "single_profile.csv").open(encoding="utf-8") as file:
        alone = {
            _configuration(row, ""): Profile(
                utilisation=float(row["gpu_util"]) / 100,
                memory_utilisation=float(row["gmem_util"]) / 100,
                memory_bytes=round(float(row["gmem"]) * 2**20),
            )
            for row in csv.DictReader(file)
        }
    with (DATA / "colocate_pairs.csv").open(encoding="utf-8") as file:
        pairs = [
            MeasuredPair(
                (one, other), (alone[one], alone[other]), (float(row["speed1"]), float(row["speed2"]))
            )
            for row in csv.DictReader(file)
            for one, other in [(_configuration(row, "1"), _configuration(row, "2"))]
        ]
    found = fitted(pairs)
    assert found is not None
    assert found.pairs == 1_388
    # Of a speed of 0.92 on average.
    assert found.error == pytest.approx(0.049, abs=0.002)
    assert found.error_of_mean == pytest.approx(0.078, abs=0.002)
    assert len(rules_of(found.tree)) <= 16


def _configuration(row: dict[str, str], number: str) -> str:
    return " ".join([row[f"{field}{number}"] for field in ("model", "dataset", "batchsize", "amp")])
