"""Fragmentation gradient descent: the measure by hand, and where the placer puts gangs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.fitting.fragmentation import Ask, Fragmentation, Free, fragment, frequent, score
from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.model.task_kind import TaskKind
from scheduler.core.round.registry import make_placer
from tests.builders import make_job, make_node, make_running
from tests.core.placers.cases import case, placed
from tests.effort import examples

#: Half of what comes asks for a GPU, a quarter for two, a quarter for half a GPU.
ONE, TWO, HALF = Ask(1, cpus=4.0), Ask(2, cpus=8.0), Ask(1, cpus=2.0, share=500)
MEASURE = Fragmentation({ONE: 0.5, TWO: 0.25, HALF: 0.25})

#: One GPU is whole, 0.4 of another is left; CPUs only for small tasks; nothing.
A = Free("V100", 16.0, (1_000, 400))
B = Free("V100", 3.0, (1_000, 1_000))
C = Free("V100", 16.0, (0, 0))


def test_the_fragments_of_three_nodes() -> None:
    assert [fragment(A, ask) for ask in (ONE, TWO, HALF)] == [400, 1_400, 400]
    assert [fragment(B, ask) for ask in (ONE, TWO, HALF)] == [2_000, 2_000, 0]
    assert MEASURE.of(A) == 0.5 * 400 + 0.25 * 1_400 + 0.25 * 400
    assert MEASURE.of(B) == 0.5 * 2_000 + 0.25 * 2_000
    assert MEASURE.of(C) == 0
    # What needs no GPU, or another model, finds no use for any of them.
    assert fragment(A, Ask(0, cpus=1.0)) == 1_400
    assert fragment(A, Ask(1, models=frozenset({"P100"}))) == 1_400


def test_the_descent_prefers_the_node_that_is_of_little_use_anyway() -> None:
    # On A it would break the one whole GPU: 0.5 x 900 + 0.25 x 900 + 0.25 x 400 = 775, up from 650. B can
    # serve nothing afterwards, which is 1,500 as before.
    assert MEASURE.best(A, HALF) == (score(650 - 775), Free("V100", 14.0, (500, 400)))
    assert MEASURE.best(B, HALF) == (50, Free("V100", 1.0, (500, 1_000)))
    assert score(-125) == 46
    assert MEASURE.best(C, HALF) is None


def test_a_share_goes_to_the_gpu_that_is_broken_already() -> None:
    found = MEASURE.best(Free("V100", 16.0, (1_000, 600)), HALF)
    assert found is not None
    assert found[1].shares == (1_000, 100)


def test_the_target_workload_is_what_is_frequent() -> None:
    counts = {ONE: 60.0, TWO: 35.0, HALF: 5.0}
    assert frequent(counts) == {ONE: 60 / 95, TWO: 35 / 95}


def test_of_kinds_as_frequent_the_larger_is_in_the_target_workload() -> None:
    small, large = Ask(1, cpus=4.0), Ask(1, cpus=8.0)
    assert frequent({small: 5.0, ONE: 90.0, large: 5.0}) == {ONE: 90 / 95, large: 5 / 95}


@settings(max_examples=examples(100), derandomize=True)
@given(st.floats(0, 20), st.lists(st.sampled_from((0, 100, 499, 500, 1_000)), max_size=8))
def test_a_fragment_is_part_of_what_is_idle(cpus: float, shares: list[int]) -> None:
    assert 0 <= MEASURE.of(Free("V100", cpus, tuple(shares))) <= sum(shares)


def test_the_placer_spares_the_model_that_others_need() -> None:
    nodes = [make_node(number, gpu_model=model) for number, model in ((1, "A100"), (2, "A100"), (3, "V100"))]
    picky = make_job(9, 8, gpu_models=("A100",))
    running = [make_running(picky, range(100, 108), gpu_model="A100")]
    assert placed(case("consolidate", nodes, [picky, make_job(10)], running))[10] == [2]
    assert placed(case("fgd", nodes, [picky, make_job(10)], running))[10] == [3]
    expected = case("fgd:workload=1:0:10|8:0:1:V100", nodes, [picky, make_job(10)], running)
    assert placed(expected)[10] == [2]


def test_the_placer_counts_cpus() -> None:
    # Most of what comes needs 8 CPUs, which node 2 has not: its GPUs are for those that need none.
    nodes = [make_node(1, cpus=64.0), make_node(2, cpus=4.0)]
    assert placed(case("fgd:workload=1:8:9|1:0:1", nodes, [make_job(1), make_job(2)])) == {1: [2], 2: [2]}


def test_what_jobs_of_the_last_days_asked_for_counts_before_the_jobs_of_the_view() -> None:
    nodes = [make_node(number, gpu_model=model) for number, model in ((1, "A100"), (2, "A100"), (3, "V100"))]
    picky = make_job(9, 8, gpu_models=("A100",))
    running = [make_running(picky, range(100, 108), gpu_model="A100")]
    facts = case("fgd", nodes, [picky, make_job(10)], running)
    lately = (TaskKind(gpus=1, count=10), TaskKind(gpus=8, gpu_models=("V100",)))
    assert placed(replace(facts, workload=lately))[10] == [2]


@pytest.mark.parametrize(
    "entry", ["abc", "1:x:1", "1:4:-70", "inf:4:70", "nan:4:70", "1:4:nan", "-1:2:1", ""]
)
def test_a_workload_that_cannot_be_read_is_refused(entry: str) -> None:
    with pytest.raises(UnknownPlugin, match=f"must be GPUS:CPUS:WEIGHT or .* not '{entry}'"):
        make_placer("fgd", {"workload": [entry]})
