"""Advice for clusters so small that the best assignment can be found by hand, or by trying all."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest

from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.errors import SpecificationError
from scheduler.core.model.cell_specification import CellType, PhysicalCell, Specification, VirtualCells
from scheduler.core.model.snapshot import Snapshot, Topology
from scheduler.core.sim.advice import Advice, AdviceError, Demands, Effort, advise
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.recommending import recommendation
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.workload import Arrival
from tests.builders import make_cluster, make_node, make_snapshot, make_virtual_cluster
from tests.core.sim.worlds import arrival
from tests.effort import first_every_day

HOUR = 3_600.0
DAY = 86_400.0


def facts(nodes: int = 4, *more: object) -> Snapshot:
    clusters = [make_virtual_cluster(name, {}) for name in ("products", "research")]
    return make_snapshot(
        now=0.0, round_seconds=10.0, nodes=(*make_cluster(nodes), *more), virtual_clusters=clusters
    )


def specification(
    nodes: int = 4,
    products: dict[str, int] | None = None,
    research: dict[str, int] | None = None,
    **pinned: str,
) -> Specification:
    """Nodes of two sockets of two switches of two GPUs."""
    return Specification(
        types=(
            CellType(name="SWITCH", of="V100", count=2),
            CellType(name="SOCKET", of="SWITCH", count=2),
            CellType(name="NODE", of="SOCKET", count=2, node=True),
        ),
        physical=tuple(
            PhysicalCell(type="NODE", name=f"node-{n:04d}", nodes=(f"node-{n:04d}",))
            for n in range(1, nodes + 1)
        ),
        virtual_clusters={
            "products": VirtualCells(cells=products or {}, pinned=pinned),
            "research": VirtualCells(cells=research or {}),
        },
    )


def products(number: int, at: float, seconds: float, gpus: int = 1, **fields: object) -> Arrival:
    return arrival(number, at, seconds, gpus, virtual_cluster="products", **fields)


def busy(first: int, vc: str, jobs: int, every: float, seconds: float, gpus: int) -> list[Arrival]:
    return [arrival(first + n, n * every, seconds, gpus, virtual_cluster=vc) for n in range(jobs)]


def cells(advice: Advice) -> dict[str, dict[str, int]]:
    return {name: dict(owner.cells) for name, owner in advice.specification.virtual_clusters.items()}


def ask(
    history: Sequence[Arrival], base: Specification, demands: Demands | None = None, **more: object
) -> Advice:
    return advise(facts(len(base.physical)), base, history, demands, window_seconds=DAY, **more)  # type: ignore[arg-type]


class TestShape:
    def test_gpus_go_where_jobs_wait(self) -> None:
        """research has two jobs of a whole node at a time and one node; products has three and one job."""
        history = [*busy(1, "research", 10, 2 * HOUR, 4 * HOUR, 8), products(100, 0.0, HOUR, 4)]
        advice = ask(history, specification(4, {"NODE": 3}, {"NODE": 1}))
        assert cells(advice) == {"products": {"SOCKET": 1}, "research": {"NODE": 2}}
        found = {one.virtual_cluster: one for one in advice.chosen}
        assert found["research"].advised.delay_seconds == 0.0
        assert found["research"].today.delay_mean_seconds > HOUR
        compiled(advice.specification)

    def test_cells_are_as_large_as_they_can_be(self) -> None:
        history = [arrival(1, 0.0, HOUR, 4, replicas=3), arrival(2, 0.0, HOUR, 1)]
        advice = ask(history, specification(2))
        # Two jobs at once: three replicas of four GPUs, and one GPU more.
        assert cells(advice)["research"] == {"NODE": 1, "SOCKET": 1, "V100": 1}

    def test_a_gang_that_must_be_near_needs_one_cell(self) -> None:
        near = Topology(level="node", required=True)
        advice = ask([arrival(1, 0.0, HOUR, 1, replicas=8, topology=near)], specification(2))
        assert cells(advice)["research"] == {"NODE": 1}

    def test_models_that_jobs_do_not_accept_are_not_advised(self) -> None:
        base = specification(2)
        slow = CellType(name="OLD", of="P100", count=8, node=True)
        base = Specification(
            types=(*base.types, slow),
            physical=(*base.physical, PhysicalCell(type="OLD", name="old", nodes=("node-0009",))),
            virtual_clusters=base.virtual_clusters,
        )
        here = facts(2, make_node(9, gpu_model="P100"))
        history = [arrival(n, 0.0, HOUR, 8, gpu_models=("V100",)) for n in (1, 2)]
        history.append(products(3, 0.0, HOUR, 8))
        advice = advise(here, base, history, window_seconds=DAY)
        assert cells(advice) == {"research": {"NODE": 2}, "products": {"OLD": 1}}


class TestDemands:
    history = tuple(
        [*busy(1, "research", 10, 2 * HOUR, 4 * HOUR, 8), *busy(50, "products", 10, 2 * HOUR, 4 * HOUR, 8)]
    )

    def test_a_budget_is_kept(self) -> None:
        advice = ask(self.history, specification(4), Demands(budget_gpus={"V100": 24}))
        assert sum(chosen.advised.total_gpus for chosen in advice.chosen) == 24

    def test_a_budget_that_is_too_small_is_refused_with_the_numbers(self) -> None:
        with pytest.raises(AdviceError) as error:
            ask(
                self.history,
                specification(4, {"NODE": 2}),
                Demands(budget_gpus={"V100": 16}, keep=["products"]),
            )
        (problem,) = error.value.problems
        assert problem.field == "budget_gpus.V100"
        assert "at least 24 V100 GPUs" in problem.problem

    def test_who_is_to_be_kept_is_kept(self) -> None:
        advice = ask(self.history, specification(4, {"NODE": 1, "SWITCH": 1}), Demands(keep=["products"]))
        assert cells(advice) == {"products": {"NODE": 1, "SWITCH": 1}, "research": {"NODE": 2}}
        kept = next(one for one in advice.chosen if one.virtual_cluster == "products")
        assert "as you asked" in kept.kept

    def test_a_minimum_may_be_part_of_larger_cells(self) -> None:
        advice = ask(self.history[:10], specification(4), Demands(minimum={"research": {"SOCKET": 3}}))
        assert cells(advice)["research"] == {"NODE": 2}
        advice = ask(
            [arrival(1, 0.0, HOUR, 1)], specification(4), Demands(minimum={"research": {"SOCKET": 3}})
        )
        assert cells(advice)["research"] == {"SOCKET": 3}

    def test_a_minimum_counts_for_those_without_jobs(self) -> None:
        advice = ask(self.history[:10], specification(4), Demands(minimum={"products": {"SOCKET": 1}}))
        assert cells(advice) == {"products": {"SOCKET": 1}, "research": {"NODE": 2}}

    def test_who_had_no_jobs_is_left_alone(self) -> None:
        advice = ask(self.history[:10], specification(4, {"NODE": 2}))
        assert cells(advice) == {"products": {"NODE": 2}, "research": {"NODE": 2}}

    def test_pinned_cells_stay_and_count(self) -> None:
        base = specification(4, demo="node-0004/0")
        advice = ask(self.history, base)
        assert advice.specification.virtual_clusters["products"].pinned == {"demo": "node-0004/0"}
        # Three nodes are whole, and half of the fourth is pinned.
        assert sum(owner["NODE"] for owner in cells(advice).values()) == 3
        compiled(advice.specification)

    def test_a_price_makes_the_dearer_model_the_second_choice(self) -> None:
        base = specification(2)
        base = Specification(
            types=(*base.types, CellType(name="OLD", of="P100", count=8, node=True)),
            physical=(*base.physical, PhysicalCell(type="OLD", name="old", nodes=("node-0009",))),
            virtual_clusters=base.virtual_clusters,
        )
        here = facts(2, make_node(9, gpu_model="P100"))
        for prices, expected in (({"V100": 3.0, "P100": 1.0}, "OLD"), ({"V100": 1.0, "P100": 3.0}, "NODE")):
            demands = Demands(price_per_gpu_hour=prices)
            advice = advise(here, base, [arrival(1, 0.0, HOUR, 8)], demands, window_seconds=DAY)
            assert cells(advice)["research"] == {expected: 1}
            (_, row) = recommendation(advice, prices).rows
            assert row.advised.cost_per_day == 8 * 24 * 1.0

    @pytest.mark.parametrize(
        ("demands", "field", "words"),
        [
            (Demands(budget_gpus={"V10": 3}), "budget_gpus.V10", "did you mean 'V100'"),
            (Demands(price_per_gpu_hour={"A100": 3}), "price_per_gpu_hour.A100", "no GPU model"),
            (Demands(keep=["product"]), "keep", "did you mean 'products'"),
            (Demands(minimum={"sales": {"NODE": 1}}), "minimum.sales", "no virtual cluster 'sales'"),
            (Demands(minimum={"research": {"NOD": 1}}), "minimum.research.NOD", "did you mean 'NODE'"),
            (Demands(minimum={"research": {"NODE": 9}}), "minimum.research", "more than there is"),
            (
                Demands(minimum={"research": {"NODE": 1}}, keep=["research"]),
                "minimum.research",
                "left as it is",
            ),
        ],
    )
    def test_wrong_demands_are_named(self, demands: Demands, field: str, words: str) -> None:
        with pytest.raises(AdviceError) as error:
            ask(self.history, specification(4), demands)
        assert [problem.field for problem in error.value.problems] == [field]
        assert words in error.value.problems[0].problem

    def test_a_wrong_specification_is_refused(self) -> None:
        with pytest.raises(SpecificationError):
            ask(self.history, specification(1, {"NODE": 1}, {"NODE": 1}))


def random_history(seed: int) -> list[Arrival]:
    """Two virtual clusters with jobs of all sizes, at more than the cluster can take at times."""
    dice = random.Random(seed)
    history = []
    for number in range(1, 81):
        history.append(
            arrival(
                number,
                dice.uniform(0, 0.8 * DAY),
                dice.expovariate(1 / HOUR) + 60,
                dice.choice((1, 1, 2, 4)),
                virtual_cluster=dice.choice(("products", "research")),
            )
        )
    return history


@pytest.mark.parametrize("seed", first_every_day([1, 2, 3]))
def test_it_is_as_good_as_trying_all_that_was_tried(seed: int) -> None:
    """The advised assignment against every combination on the two curves, by the rules that it states."""
    advice = ask(random_history(seed), specification(2), Demands(budget_gpus={"V100": 12}))
    one, other = (chosen.tried for chosen in advice.chosen)
    fitting = [(a, b) for a, b in product(one, other) if a.total_gpus + b.total_gpus <= 12]
    least = min(a.delay_seconds + b.delay_seconds for a, b in fitting)
    slack = max(0.01 * least, advice.jobs)
    good = [(a, b) for a, b in fitting if a.delay_seconds + b.delay_seconds <= least + slack]
    cheapest = min(a.total_gpus + b.total_gpus for a, b in good)
    a, b = (chosen.advised for chosen in advice.chosen)
    assert (a, b) in good
    assert a.total_gpus + b.total_gpus == cheapest


@pytest.mark.parametrize("seed", first_every_day([4, 5]))
def test_looking_closer_finds_what_a_full_search_finds(seed: int) -> None:
    """One virtual cluster alone, so that its whole curve can be tried."""
    history = [one for one in random_history(seed) if one.job.virtual_cluster == "research"]
    everything = Effort(simulated_jobs=10_000_000, assignments=1_000, refinements=50)
    rough, full = (ask(history, specification(2), effort=effort) for effort in (Effort(), everything))
    assert cells(rough)["research"] == cells(full)["research"]


@pytest.mark.parametrize("seed", first_every_day([1, 2, 3]))
def test_in_the_shared_cluster_nobody_waits_longer_than_was_said(seed: int) -> None:
    """Everything at once, under the advised cells: each job waits as long as in the private cluster."""
    dice = random.Random(seed)
    history = [
        arrival(
            number,
            dice.uniform(0, 0.5 * DAY),
            dice.expovariate(1 / HOUR) + 60,
            8,
            replicas=dice.choice((1, 1, 2)),
            virtual_cluster=dice.choice(("products", "research", "research")),
        )
        for number in range(1, 61)
    ]
    advice = ask(history, specification(6))
    layout = compiled(advice.specification)
    here = facts(6)
    clusters = [replace(vc, guaranteed=layout.guaranteed(vc.name)) for vc in here.virtual_clusters]
    engine = Engine(
        replace(here, cells=advice.specification, virtual_clusters=tuple(clusters)), history, Rules()
    )
    assert engine.run() == ""
    for chosen in advice.chosen:
        delays = [
            progress.first_started_at - progress.job.submitted_at
            for progress in engine.progress.values()
            if progress.job.virtual_cluster == chosen.virtual_cluster
            and progress.first_started_at is not None
        ]
        assert len(delays) == chosen.advised.jobs
        assert sum(delays) == pytest.approx(chosen.advised.delay_seconds)


def test_it_takes_as_long_as_it_may() -> None:
    history = random_history(1)
    advice = ask(history, specification(2), effort=Effort(jobs_of_each=10, simulated_jobs=60))
    assert advice.jobs == 20
    assert advice.jobs_left_out == 60
    # Two for each, and today's.
    assert advice.assignments <= 6
    assert "60 older ones were left out" in recommendation(advice, {}).assumption


def test_jobs_from_before_the_window_are_there_and_do_not_count() -> None:
    history = [arrival(1, -50.0, 2 * HOUR, 8), arrival(2, 0.0, HOUR, 8)]
    advice = ask(history, specification(1, None, {"NODE": 1}), Demands(keep=["research", "products"]))
    (_, research) = advice.chosen
    assert (research.today.jobs, research.today.delay_seconds) == (1, 2 * HOUR)
    assert research.today.utilisation == pytest.approx(3 / 24)


def test_the_words_say_what_changes() -> None:
    history = [*busy(1, "research", 10, 2 * HOUR, 4 * HOUR, 8), products(100, 0.0, HOUR, 4)]
    said = recommendation(ask(history, specification(4, {"NODE": 3}, {"NODE": 1})), {"V100": 2.0})
    products_row, research_row = said.rows
    assert research_row.why.startswith("8 GPUs more give its 10 jobs a mean delay of 0 s instead of")
    assert products_row.why.startswith("20 GPUs fewer give its one job a mean delay of 0 s")
    assert research_row.today.cells == {"NODE": 1}
    assert research_row.advised.cost_per_day == 16 * 2.0 * 24
    assert (said.today.gpus, said.advised.gpus) == (32, 20)
    assert said.today.cost_per_day == 32 * 2.0 * 24
    assert said.advised.delay_mean_seconds == 0.0 < said.today.delay_mean_seconds
    curve = said.curves["research"]
    assert [point.gpus for point in curve] == sorted(point.gpus for point in curve)
    assert curve[0].delay_mean_seconds > curve[-1].delay_mean_seconds


def test_the_words_say_that_nothing_changes() -> None:
    history = busy(1, "research", 10, 2 * HOUR, 4 * HOUR, 8)
    said = recommendation(ask(history, specification(4, {"NODE": 1}, {"NODE": 2})), {})
    assert "no guaranteed jobs" in said.rows[0].why
    assert said.rows[1].why.startswith("What it has suits its 10 jobs best")
    assert said.today == said.advised
    assert said.today.cost_per_day is None


@pytest.mark.slow
def test_the_same_question_has_the_same_answer() -> None:
    first, second = (ask(random_history(7), specification(2)) for _ in range(2))
    assert first.specification == second.specification
    assert first.chosen == second.chosen
