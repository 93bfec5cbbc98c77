"""What is known, and what is guessed from it, by hand."""

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.perf.completion import References, compares
from scheduler.core.perf.estimator import Pair, ThroughputEstimator
from scheduler.core.perf.throughput import Entry, JobClass, MovingAverage, Setting, Source, Throughput

MODELS = ("K80", "P100", "V100")
MINE = JobClass("vision", "mine")
OTHER = JobClass("speech", "other")
THIRD = JobClass("speech", "third")


def corrected(throughputs: Mapping[tuple[str, int], float]) -> dict[Setting, Entry]:
    return {
        Setting(model, gpus): Entry(corrected=throughput) for (model, gpus), throughput in throughputs.items()
    }


def near(*throughputs: float, gpus: int = 1) -> dict[tuple[str, int], float]:
    """Throughputs on K80, P100 and V100."""
    return {(model, gpus): throughput for model, throughput in zip(MODELS, throughputs, strict=True)}


def values(found: Mapping[str, Throughput]) -> dict[str, float]:
    return {model: throughput.value for model, throughput in found.items()}


def test_nothing_known_says_nothing() -> None:
    """Then it counts as equally fast everywhere (`core.run_time`)."""
    estimator = ThroughputEstimator({OTHER: corrected(near(1, 2, 4))})
    assert estimator.throughputs(MINE, 1, MODELS) == {}
    assert ThroughputEstimator({}).throughputs(MINE, 1, MODELS) == {}


def test_without_anything_to_compare_with_the_slowest_that_is_known_is_assumed() -> None:
    found = ThroughputEstimator({}).throughputs(MINE, 1, MODELS, {"P100": 20.0, "V100": 50.0})
    assert values(found) == {"K80": 20.0, "P100": 20.0, "V100": 50.0}
    assert found["K80"] == Throughput(20.0, Source.ASSUMED, 0, 0.0)
    assert found["V100"] == Throughput(50.0, Source.DECLARED, 0, 0.5)


def test_an_only_reference_tells_the_ratios() -> None:
    estimator = ThroughputEstimator({OTHER: corrected(near(10, 20, 50))})
    found = estimator.throughputs(MINE, 1, MODELS, {"V100": 200.0})
    assert values(found) == pytest.approx({"K80": 40.0, "P100": 80.0, "V100": 200.0})
    assert found["K80"].source is Source.ESTIMATED
    # Half of what a declaration is worth, times the likeness; that is 1, since there is only one to be like.
    assert found["K80"].confidence == pytest.approx(0.25, abs=0.01)


def test_of_several_references_the_nearest_is_taken() -> None:
    entries = {OTHER: corrected(near(10, 20, 50)), THIRD: corrected(near(45, 48, 50))}
    found = ThroughputEstimator(entries).throughputs(MINE, 1, MODELS, {"P100": 2.0, "V100": 5.0})
    assert values(found) == pytest.approx({"K80": 1.0, "P100": 2.0, "V100": 5.0}, rel=0.01)
    found = ThroughputEstimator(entries).throughputs(MINE, 1, MODELS, {"P100": 4.8, "V100": 5.0})
    assert values(found) == pytest.approx({"K80": 4.5, "P100": 4.8, "V100": 5.0}, rel=0.01)


def test_a_kind_is_no_reference_of_itself() -> None:
    entries = {OTHER: corrected(near(10, 20, 50)), MINE: corrected({("P100", 1): 2.0, ("V100", 1): 5.0})}
    assert values(ThroughputEstimator(entries).throughputs(MINE, 1, MODELS))["K80"] == pytest.approx(
        1.0, rel=0.02
    )
    alone = ThroughputEstimator({MINE: entries[MINE]})
    assert alone.throughputs(MINE, 1, MODELS)["K80"] == Throughput(2.0, Source.ASSUMED)


def test_what_is_known_of_one_model_only_compares_nothing() -> None:
    entries = {OTHER: corrected({("V100", 1): 10.0, ("V100", 2): 15.0})}
    found = ThroughputEstimator(entries).throughputs(MINE, 2, ["V100"], {})
    assert found == {}
    entries[MINE] = corrected({("V100", 1): 20.0})
    assert values(ThroughputEstimator(entries).throughputs(MINE, 2, ["V100"])) == {"V100": 40.0}


def test_references_tell_how_a_kind_scales() -> None:
    # Two GPUs are 1.5 times as fast as one.
    grown = {**near(10, 20, 50), **near(15, 30, 75, gpus=2)}
    estimator = ThroughputEstimator({OTHER: corrected(grown)})
    found = estimator.throughputs(MINE, 2, MODELS, {})
    assert found == {}
    known = ThroughputEstimator({OTHER: corrected(grown), MINE: corrected({("V100", 1): 100.0})})
    assert values(known.throughputs(MINE, 2, MODELS)) == pytest.approx(
        {"K80": 30.0, "P100": 60.0, "V100": 150.0}, rel=0.01
    )


def test_a_size_that_nobody_measured_is_in_proportion_to_the_nearest() -> None:
    estimator = ThroughputEstimator(
        {MINE: corrected({("V100", 2): 100.0, ("V100", 16): 500.0, ("K80", 2): 10.0})}
    )
    found = estimator.throughputs(MINE, 4, MODELS)
    assert values(found) == {"K80": 20.0, "P100": 20.0, "V100": 200.0}
    assert (found["V100"].source, found["P100"].source) == (Source.ESTIMATED, Source.ASSUMED)
    assert found["V100"].confidence == 0.25
    assert values(estimator.throughputs(MINE, 8, ["V100"])) == {"V100": 250.0}
    # As near to 2 as to 8 by ratio: the smaller.
    even = ThroughputEstimator({MINE: corrected({("V100", 2): 100.0, ("V100", 8): 500.0})})
    assert values(even.throughputs(MINE, 4, ["V100"])) == {"V100": 200.0}


def test_where_it_does_not_run_says_nothing_of_elsewhere() -> None:
    entries = {OTHER: corrected(near(0, 20, 50)), THIRD: corrected(near(10, 21, 51))}
    found = ThroughputEstimator(entries).throughputs(MINE, 1, MODELS, {"P100": 4.0, "V100": 10.0})
    assert found["K80"].value > 0
    nowhere = ThroughputEstimator({}).throughputs(MINE, 1, MODELS, {"K80": 0.0})
    assert values(nowhere) == {"K80": 0.0}
    some = ThroughputEstimator(entries).throughputs(MINE, 1, MODELS, {"K80": 0.0, "V100": 10.0})
    assert some["K80"] == Throughput(0.0, Source.DECLARED, 0, 0.5)


def test_spread_and_shared_gangs_are_kept_apart() -> None:
    settings = {
        Setting("V100", 2): Entry(measured=MovingAverage(10.0)),
        Setting("V100", 2, spread=True): Entry(measured=MovingAverage(4.0)),
        Setting("V100", 2, partner="other"): Entry(measured=MovingAverage(0.7)),
    }
    estimator = ThroughputEstimator({MINE: settings})
    assert values(estimator.throughputs(MINE, 2, ["V100"])) == {"V100": 10.0}
    assert estimator.beside(MINE, Setting("V100", 2, False, "other")) == 0.7
    assert estimator.beside(MINE, Setting("V100", 1, False, "other")) is None


def test_pairs_need_both_sides_and_join_tenants() -> None:
    def beside(partner: str, throughput: float, samples: int = 1) -> dict[Setting, Entry]:
        return {Setting("V100", 1, partner=partner): Entry(measured=MovingAverage(throughput, 0.0, samples))}

    entries = {
        JobClass("vision", "a"): beside("b", 0.6, 3),
        JobClass("speech", "a"): beside("b", 0.8, 1),
        JobClass("speech", "b"): {**beside("a", 0.9), **beside("c", 0.5), **beside("b", 0.4)},
    }
    assert ThroughputEstimator(entries).pairs == {
        Pair("a", "b", 1, "V100"): (pytest.approx(0.65), 0.9),
        Pair("b", "b", 1, "V100"): (0.4, 0.4),
    }


def test_tiny_and_huge_rows_are_told_as_well_as_others() -> None:
    for unit in (1e-9, 1e9):
        estimator = ThroughputEstimator({OTHER: corrected(near(10 * unit, 20 * unit, 50 * unit))})
        found = estimator.throughputs(MINE, 1, MODELS, {"V100": 5.0 / unit})
        assert found["K80"].value == pytest.approx(1.0 / unit)


throughputs = st.floats(min_value=1e-3, max_value=1e6)
cells = st.tuples(st.sampled_from(MODELS), st.sampled_from((1, 2, 4, 8)))
tables = st.dictionaries(
    st.builds(JobClass, st.sampled_from("xy"), st.sampled_from("abcdef")),
    st.dictionaries(cells, st.one_of(st.just(0.0), throughputs), max_size=8),
    max_size=8,
)


@given(tables, st.sampled_from((1, 2, 3, 8)), st.dictionaries(st.sampled_from(MODELS), throughputs))
def test_whatever_is_known(
    table: dict[JobClass, dict[tuple[str, int], float]], gpus: int, declared: dict[str, float]
) -> None:
    """Known cells come back unchanged, guesses are positive and marked, and the same again."""
    entries = {job_class: corrected(row) for job_class, row in table.items()}
    for job_class in [*table, MINE]:
        found = ThroughputEstimator(entries).throughputs(job_class, gpus, MODELS, declared)
        assert found == ThroughputEstimator(dict(reversed(entries.items()))).throughputs(
            job_class, gpus, MODELS, declared
        )
        for model, throughput in found.items():
            stated = table.get(job_class, {}).get((model, gpus), declared.get(model))
            assert 0 <= throughput.confidence <= 1
            if stated is None:
                assert throughput.source in (Source.ESTIMATED, Source.ASSUMED)
                assert 0 < throughput.value <= 1e12
                assert math.isfinite(throughput.value)
            else:
                assert throughput.value == stated
        row = table.get(job_class, {})
        if any(row.values()) or any((model, gpus) not in row for model in declared):
            assert set(found) == set(MODELS)


@given(
    st.lists(st.dictionaries(cells, throughputs, min_size=1), max_size=8), st.dictionaries(cells, throughputs)
)
def test_estimates_are_within_what_the_references_say(
    rows: list[dict[tuple[str, int], float]], known: dict[tuple[str, int], float]
) -> None:
    references = References({JobClass("x", str(number)): row for number, row in enumerate(rows)})
    estimated = references.estimate(known)
    if estimated is None:
        assert not known.keys() & {cell for row in rows if compares(row) for cell in row}
        return
    assert 0 <= estimated.likeness <= 1
    assert all(value > 0 and math.isfinite(value) for value in estimated.values.values())


def test_of_a_job_without_gpus_those_of_its_class_say_nothing() -> None:
    estimator = ThroughputEstimator({MINE: corrected(near(1, 2, 4)), OTHER: corrected(near(1, 2, 4))})
    assert estimator.throughputs(MINE, 1, MODELS)
    assert estimator.throughputs(MINE, 0, MODELS) == {}
