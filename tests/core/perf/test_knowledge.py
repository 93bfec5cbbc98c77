"""What is known, and what is guessed from it, by hand."""

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.perf.completion import References, compares
from scheduler.core.perf.knowledge import Knowledge, Pair
from scheduler.core.perf.speed import Entry, Kind, MovingAverage, Setting, Source, Speed

MODELS = ("K80", "P100", "V100")
MINE = Kind("vision", "mine")
OTHER = Kind("speech", "other")
THIRD = Kind("speech", "third")


def corrected(speeds: Mapping[tuple[str, int], float]) -> dict[Setting, Entry]:
    return {Setting(model, gpus): Entry(corrected=speed) for (model, gpus), speed in speeds.items()}


def near(*speeds: float, gpus: int = 1) -> dict[tuple[str, int], float]:
    """Speeds on K80, P100 and V100."""
    return {(model, gpus): speed for model, speed in zip(MODELS, speeds, strict=True)}


def values(found: Mapping[str, Speed]) -> dict[str, float]:
    return {model: speed.value for model, speed in found.items()}


def test_nothing_known_says_nothing() -> None:
    """Then it counts as equally fast everywhere (`core.run_time`)."""
    knowledge = Knowledge({OTHER: corrected(near(1, 2, 4))})
    assert knowledge.speeds(MINE, 1, MODELS) == {}
    assert Knowledge({}).speeds(MINE, 1, MODELS) == {}


def test_without_anything_to_compare_with_the_slowest_that_is_known_is_assumed() -> None:
    found = Knowledge({}).speeds(MINE, 1, MODELS, {"P100": 20.0, "V100": 50.0})
    assert values(found) == {"K80": 20.0, "P100": 20.0, "V100": 50.0}
    assert found["K80"] == Speed(20.0, Source.ASSUMED, 0, 0.0)
    assert found["V100"] == Speed(50.0, Source.DECLARED, 0, 0.5)


def test_an_only_reference_tells_the_ratios() -> None:
    knowledge = Knowledge({OTHER: corrected(near(10, 20, 50))})
    found = knowledge.speeds(MINE, 1, MODELS, {"V100": 200.0})
    assert values(found) == pytest.approx({"K80": 40.0, "P100": 80.0, "V100": 200.0})
    assert found["K80"].source is Source.ESTIMATED
    # Half of what a declaration is worth, times the likeness; that is 1, since there is only one to be like.
    assert found["K80"].confidence == pytest.approx(0.25, abs=0.01)


def test_of_several_references_the_nearest_is_taken() -> None:
    entries = {OTHER: corrected(near(10, 20, 50)), THIRD: corrected(near(45, 48, 50))}
    found = Knowledge(entries).speeds(MINE, 1, MODELS, {"P100": 2.0, "V100": 5.0})
    assert values(found) == pytest.approx({"K80": 1.0, "P100": 2.0, "V100": 5.0}, rel=0.01)
    found = Knowledge(entries).speeds(MINE, 1, MODELS, {"P100": 4.8, "V100": 5.0})
    assert values(found) == pytest.approx({"K80": 4.5, "P100": 4.8, "V100": 5.0}, rel=0.01)


def test_a_kind_is_no_reference_of_itself() -> None:
    entries = {OTHER: corrected(near(10, 20, 50)), MINE: corrected({("P100", 1): 2.0, ("V100", 1): 5.0})}
    assert values(Knowledge(entries).speeds(MINE, 1, MODELS))["K80"] == pytest.approx(1.0, rel=0.02)
    alone = Knowledge({MINE: entries[MINE]})
    assert alone.speeds(MINE, 1, MODELS)["K80"] == Speed(2.0, Source.ASSUMED)


def test_what_is_known_of_one_model_only_compares_nothing() -> None:
    entries = {OTHER: corrected({("V100", 1): 10.0, ("V100", 2): 15.0})}
    found = Knowledge(entries).speeds(MINE, 2, ["V100"], {})
    assert found == {}
    entries[MINE] = corrected({("V100", 1): 20.0})
    assert values(Knowledge(entries).speeds(MINE, 2, ["V100"])) == {"V100": 40.0}


def test_references_tell_how_a_kind_scales() -> None:
    # Two GPUs are 1.5 times as fast as one.
    grown = {**near(10, 20, 50), **near(15, 30, 75, gpus=2)}
    knowledge = Knowledge({OTHER: corrected(grown)})
    found = knowledge.speeds(MINE, 2, MODELS, {})
    assert found == {}
    known = Knowledge({OTHER: corrected(grown), MINE: corrected({("V100", 1): 100.0})})
    assert values(known.speeds(MINE, 2, MODELS)) == pytest.approx(
        {"K80": 30.0, "P100": 60.0, "V100": 150.0}, rel=0.01
    )


def test_a_size_that_nobody_measured_is_in_proportion_to_the_nearest() -> None:
    knowledge = Knowledge({MINE: corrected({("V100", 2): 100.0, ("V100", 16): 500.0, ("K80", 2): 10.0})})
    found = knowledge.speeds(MINE, 4, MODELS)
    assert values(found) == {"K80": 20.0, "P100": 20.0, "V100": 200.0}
    assert (found["V100"].source, found["P100"].source) == (Source.ESTIMATED, Source.ASSUMED)
    assert found["V100"].confidence == 0.25
    assert values(knowledge.speeds(MINE, 8, ["V100"])) == {"V100": 250.0}
    # As near to 2 as to 8 by ratio: the smaller.
    even = Knowledge({MINE: corrected({("V100", 2): 100.0, ("V100", 8): 500.0})})
    assert values(even.speeds(MINE, 4, ["V100"])) == {"V100": 200.0}


def test_where_it_does_not_run_says_nothing_of_elsewhere() -> None:
    entries = {OTHER: corrected(near(0, 20, 50)), THIRD: corrected(near(10, 21, 51))}
    found = Knowledge(entries).speeds(MINE, 1, MODELS, {"P100": 4.0, "V100": 10.0})
    assert found["K80"].value > 0
    nowhere = Knowledge({}).speeds(MINE, 1, MODELS, {"K80": 0.0})
    assert values(nowhere) == {"K80": 0.0}
    some = Knowledge(entries).speeds(MINE, 1, MODELS, {"K80": 0.0, "V100": 10.0})
    assert some["K80"] == Speed(0.0, Source.DECLARED, 0, 0.5)


def test_spread_and_shared_gangs_are_kept_apart() -> None:
    settings = {
        Setting("V100", 2): Entry(measured=MovingAverage(10.0)),
        Setting("V100", 2, spread=True): Entry(measured=MovingAverage(4.0)),
        Setting("V100", 2, partner="other"): Entry(measured=MovingAverage(0.7)),
    }
    knowledge = Knowledge({MINE: settings})
    assert values(knowledge.speeds(MINE, 2, ["V100"])) == {"V100": 10.0}
    assert knowledge.beside(MINE, Setting("V100", 2, False, "other")) == 0.7
    assert knowledge.beside(MINE, Setting("V100", 1, False, "other")) is None


def test_pairs_need_both_sides_and_join_tenants() -> None:
    def beside(partner: str, speed: float, samples: int = 1) -> dict[Setting, Entry]:
        return {Setting("V100", 1, partner=partner): Entry(measured=MovingAverage(speed, 0.0, samples))}

    entries = {
        Kind("vision", "a"): beside("b", 0.6, 3),
        Kind("speech", "a"): beside("b", 0.8, 1),
        Kind("speech", "b"): {**beside("a", 0.9), **beside("c", 0.5), **beside("b", 0.4)},
    }
    assert Knowledge(entries).pairs == {
        Pair("a", "b", 1, "V100"): (pytest.approx(0.65), 0.9),
        Pair("b", "b", 1, "V100"): (0.4, 0.4),
    }


def test_tiny_and_huge_rows_are_told_as_well_as_others() -> None:
    for unit in (1e-9, 1e9):
        knowledge = Knowledge({OTHER: corrected(near(10 * unit, 20 * unit, 50 * unit))})
        found = knowledge.speeds(MINE, 1, MODELS, {"V100": 5.0 / unit})
        assert found["K80"].value == pytest.approx(1.0 / unit)


speeds = st.floats(min_value=1e-3, max_value=1e6)
cells = st.tuples(st.sampled_from(MODELS), st.sampled_from((1, 2, 4, 8)))
tables = st.dictionaries(
    st.builds(Kind, st.sampled_from("xy"), st.sampled_from("abcdef")),
    st.dictionaries(cells, st.one_of(st.just(0.0), speeds), max_size=8),
    max_size=8,
)


@given(tables, st.sampled_from((1, 2, 3, 8)), st.dictionaries(st.sampled_from(MODELS), speeds))
def test_whatever_is_known(
    table: dict[Kind, dict[tuple[str, int], float]], gpus: int, declared: dict[str, float]
) -> None:
    """Known cells come back unchanged, guesses are positive and marked, and the same again."""
    entries = {kind: corrected(row) for kind, row in table.items()}
    for kind in [*table, MINE]:
        found = Knowledge(entries).speeds(kind, gpus, MODELS, declared)
        assert found == Knowledge(dict(reversed(entries.items()))).speeds(kind, gpus, MODELS, declared)
        for model, speed in found.items():
            stated = table.get(kind, {}).get((model, gpus), declared.get(model))
            assert 0 <= speed.confidence <= 1
            if stated is None:
                assert speed.source in (Source.ESTIMATED, Source.ASSUMED)
                assert 0 < speed.value <= 1e12
                assert math.isfinite(speed.value)
            else:
                assert speed.value == stated
        row = table.get(kind, {})
        if any(row.values()) or any((model, gpus) not in row for model in declared):
            assert set(found) == set(MODELS)


@given(st.lists(st.dictionaries(cells, speeds, min_size=1), max_size=8), st.dictionaries(cells, speeds))
def test_estimates_are_within_what_the_references_say(
    rows: list[dict[tuple[str, int], float]], known: dict[tuple[str, int], float]
) -> None:
    references = References({Kind("x", str(number)): row for number, row in enumerate(rows)})
    estimated = references.estimate(known)
    if estimated is None:
        assert not known.keys() & {cell for row in rows if compares(row) for cell in row}
        return
    assert 0 <= estimated.likeness <= 1
    assert all(value > 0 and math.isfinite(value) for value in estimated.values.values())
