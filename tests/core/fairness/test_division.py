"""Who is entitled to what, has it, lends it and would be better off alone, on clusters one can overlook."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.fairness.division import Division, Gang, account_of, speed_alone
from scheduler.core.fairness.lent import Share, uses
from scheduler.core.fairness.properties import Bundle, Envy, envies
from scheduler.core.model.loan_terms import Lending
from scheduler.core.model.snapshot import Member, NodeId, Snapshot, Task, VirtualCluster
from scheduler.core.round.decide import decide
from tests.builders import NOW, make_job, make_node, make_part, make_running, make_snapshot
from tests.effort import examples

#: Three times as fast on V100, and a half.
FAST, EVEN = {"V100": 3.0, "K80": 1.0}, {"V100": 1.5, "K80": 1.0}


def shared(guaranteed: Mapping[str, int], weights: Mapping[str, float], **fields: Any) -> VirtualCluster:
    members = tuple(Member(tenant=tenant, weight=weight) for tenant, weight in weights.items())
    return VirtualCluster(name="shared", guaranteed=guaranteed, members=members, **fields)


def division(snapshot: Snapshot, name: str = "shared") -> Division:
    return account_of(snapshot, {}).divisions[name]


def two_models(running: bool = True, **fields: Any) -> Snapshot:
    """Four V100 and four K80 for two equals: vision gains most on V100, and each has two of both."""
    jobs = [
        make_job(number, tenant=tenant, virtual_cluster="shared", throughput=speeds)
        for first, tenant, speeds in ((1, "vision", FAST), (11, "speech", EVEN))
        for number in range(first, first + 6)
    ]
    holds = [
        make_running(number, [gpu], gpu_model=model)
        for number, gpu, model in (
            (1, 100, "V100"), (2, 101, "V100"), (3, 200, "K80"), (4, 201, "K80"),
            (11, 102, "V100"), (12, 103, "V100"), (13, 202, "K80"), (14, 203, "K80"),
        )
    ]  # fmt: skip
    return make_snapshot(
        nodes=[make_node(1, gpus=4), make_node(2, gpus=4, gpu_model="K80")],
        virtual_clusters=[shared({"V100": 4, "K80": 4}, {"vision": 1, "speech": 1})],
        jobs=jobs,
        running=holds if running else (),
        **fields,
    )


def test_equals_hold_their_parts_and_nobody_is_worse_off_than_alone() -> None:
    found = division(two_models()).standings
    vision, speech = found["vision"], found["speech"]
    assert vision.own == vision.entitled == vision.received == {"V100": 2, "K80": 2}
    assert (vision.jobs_running, vision.jobs_waiting, vision.demand_gpus) == (4, 2, 6)
    # Two on V100 at full speed, two on K80 at a third of it, or at two thirds.
    assert vision.speed_here == vision.speed_alone == pytest.approx(2 + 2 / 3)
    assert speech.speed_here == speech.speed_alone == pytest.approx(2 + 4 / 3)
    assert (vision.borrowed, vision.lent, vision.demand_since) == (0, 0, NOW - 10_000 + 1)
    assert vision.rho_worst >= vision.rho_mean > 0
    assert [job.id for job in vision.waiting] == [5, 6]


#: A tenant's job: whose, of how many GPUs, and whether it gains much on V100.
OWNED = st.tuples(st.sampled_from("ab"), st.sampled_from((1, 2)), st.booleans())


@settings(max_examples=examples(30))
@given(st.lists(OWNED, min_size=1, max_size=9))
def test_entitled_is_what_gandiva_fair_goes_by(owned: list[tuple[str, int, bool]]) -> None:
    """Who wants less than its part has its fastest models of that first, here and there."""
    jobs = [
        make_job(number, gpus, tenant=tenant, virtual_cluster="shared", throughput=FAST if fast else EVEN)
        for number, (tenant, gpus, fast) in enumerate(owned, start=1)
    ]
    vc = shared({"V100": 4, "K80": 4}, {"a": 2, "b": 1}, policy="gandiva_fair")
    machines = [make_node(1, gpus=4), make_node(2, gpus=4, gpu_model="K80")]
    facts = make_snapshot(nodes=machines, virtual_clusters=[vc], jobs=jobs)
    books = decide(facts).memory["shared"]["books"]["entitled"]
    standings = division(facts).standings
    for tenant, gpus in books.items():
        entitled = standings[tenant].entitled
        assert {model: entitled.get(model, 0.0) for model in gpus} == pytest.approx(gpus, abs=1e-5)


def test_what_was_traded_is_neither_borrowed_nor_lent() -> None:
    trade = {"buyer": "vision", "seller": "speech", "fast": "V100", "slow": "K80"}
    books = {"trades": [{**trade, "fast_gpus": 1.0, "slow_gpus": 2.0}]}
    snapshot = two_models(running=False, memory={"shared": {"books": books}})
    holds = [make_running(n, [99 + n], gpu_model="V100") for n in (1, 2, 3)]
    holds += [make_running(11, [103])]
    holds += [make_running(n, [188 + n], gpu_model="K80") for n in (12, 13, 14, 15)]
    found = division(replace(snapshot, running=tuple(holds))).standings
    vision, speech = found["vision"], found["speech"]
    assert (vision.traded_in, vision.traded_out) == ({"V100": 1.0}, {"K80": 2.0})
    assert (speech.traded_in, speech.traded_out) == ({"K80": 2.0}, {"V100": 1.0})
    assert (vision.borrowed, vision.lent, speech.borrowed, speech.lent) == (0, 0, 0, 0)
    # Both gained: 3 > 2 2/3, and 1 + 4 x 2/3 > 2 + 4/3.
    assert vision.speed_here > vision.speed_alone
    assert speech.speed_here > speech.speed_alone


def test_what_one_leaves_another_is_entitled_to_and_borrows() -> None:
    """Eight GPUs and three equals, one of whom can use two (the paper's example of water filling)."""
    jobs = [make_job(n, tenant="a", virtual_cluster="shared") for n in (1, 2)]
    jobs += [make_job(n, tenant="b", virtual_cluster="shared") for n in range(11, 19)]
    jobs += [make_job(n, tenant="c", virtual_cluster="shared", guaranteed=n > 30) for n in range(30, 39)]
    holds = [make_running(job, [100 + place]) for place, job in enumerate([*jobs[:2], *jobs[2:7], jobs[10]])]
    found = division(
        make_snapshot(
            virtual_clusters=[shared({"V100": 8}, {"a": 1, "b": 1, "c": 1})], jobs=jobs, running=holds
        )
    ).standings
    assert [sum(found[name].entitled.values()) for name in "abc"] == pytest.approx([2, 3, 3])
    assert found["b"].borrowed == pytest.approx(5 - 8 / 3)
    # The opportunistic job runs on what is its own tenant's.
    assert (found["c"].borrowed, found["c"].received) == (0, {})
    assert found["a"].lent + found["c"].lent == pytest.approx(found["b"].borrowed)


def test_the_order_of_its_own_jobs_is_nobody_elses_fault() -> None:
    """Of four GPUs a gang of three runs; two gangs of two would use more, and nobody is in their way."""
    jobs = [make_job(1, gpus=3, virtual_cluster="shared", tenant="vision")]
    jobs += [make_job(n, gpus=2, virtual_cluster="shared", tenant="vision") for n in (2, 3)]
    vc, node = shared({"V100": 4}, {"vision": 1}), make_node(1, gpus=4)
    holds = [make_running(jobs[0], [100, 101, 102])]
    found = division(make_snapshot(nodes=[node], virtual_clusters=[vc], jobs=jobs, running=holds))
    assert found.standings["vision"].speed_alone == found.standings["vision"].speed_here == 3
    idle = division(make_snapshot(nodes=[node], virtual_clusters=[vc], jobs=jobs))
    assert idle.standings["vision"].speed_alone == 4


def test_a_loan_leaves_the_own_part_as_it_is() -> None:
    vc = shared({"V100": 4}, {"vision": 1, "speech": 3})
    lending = Lending(own_gpus={"shared": {"V100": 8}})
    job = make_job(1, gpus=8, virtual_cluster="shared")
    found = division(make_snapshot(virtual_clusters=[vc], jobs=[job], lending=lending))
    assert (found.own, found.standings["vision"].own) == ({"V100": 8}, {"V100": 2})
    assert found.standings["speech"].own == {"V100": 6}


@pytest.mark.parametrize(
    ("part", "gangs", "expected"),
    [
        (2.5, [1, 1, 1], 2.5),  # the third runs half the time
        (2.5, [3], 2.5),  # five sixths of the time there are three
        (2.5, [4], 0),  # there never are four
        (4, [3, 2, 2], 4),  # smallest first
        (4, [1, 4], 4),  # largest first
        (0.5, [1], 0.5),
        (8, [1], 1),  # no more than it can use
    ],
)
def test_gangs_stay_whole_on_a_part_of_their_own(part: float, gangs: list[int], expected: float) -> None:
    assert speed_alone({"V100": part}, [Gang(size, {"V100": 1.0}) for size in gangs]) == pytest.approx(
        expected
    )


def test_alone_the_fastest_model_goes_to_those_who_gain() -> None:
    gangs = [Gang(2, {"V100": 1.0, "K80": 0.25}), Gang(2, {"K80": 1.0})]
    assert speed_alone({"V100": 2, "K80": 2}, gangs) == pytest.approx(4)
    assert speed_alone({"V100": 1, "K80": 1}, [Gang(1, {"V100": 1.0, "K80": 0.25})]) == 1


def test_envy_is_by_own_speeds_per_weight_and_by_what_one_could_have_used() -> None:
    fast, slow = {"V100": 1.0, "K80": 0.25}, {"K80": 1.0, "V100": 1.0}
    had = {
        "vision": Bundle(weight=1, demand=800, speeds=fast, received={"K80": 400}),
        "speech": Bundle(weight=1, demand=800, speeds=slow, received={"V100": 200}),
    }
    # 100 for its own, 200 for the other's; the other is content with neither more nor less of one kind.
    assert envies(had) == {"vision": Envy(0.5, "speech"), "speech": Envy(0.5, "vision")}
    twice = {**had, "speech": Bundle(weight=2, demand=800, speeds=slow, received={"V100": 200})}
    assert envies(twice)["vision"] == Envy(0.0, "")
    modest = {**had, "vision": Bundle(weight=1, demand=100, speeds=fast, received={"K80": 400})}
    assert envies(modest)["vision"] == Envy(0.75, "speech")


@settings(max_examples=examples(30))
@given(st.dictionaries(st.sampled_from("abcd"), st.tuples(st.floats(0.1, 9), st.floats(1, 100)), min_size=1))
def test_nobody_envies_anybody_when_all_have_the_same_per_weight(
    tenants: dict[str, tuple[float, float]],
) -> None:
    had = {
        name: Bundle(
            weight=weight,
            demand=demand,
            speeds={"V100": 1.0, "K80": 0.5},
            received={"V100": 3 * weight, "K80": 5 * weight},
        )
        for name, (weight, demand) in tenants.items()
    }
    assert all(envy.amount == 0 for envy in envies(had).values())


@st.composite
def shares(draw: st.DrawFn) -> dict[tuple[str, str], Share]:
    gpus = st.dictionaries(st.sampled_from(["V100", "K80"]), st.integers(0, 8).map(float))
    keys = draw(st.lists(st.tuples(st.sampled_from("mn"), st.sampled_from("abc")), unique=True, min_size=1))
    return {key: Share(own=draw(gpus), guaranteed=draw(gpus), opportunistic=draw(gpus)) for key in keys}


@settings(max_examples=examples(40))
@given(shares(), st.integers(0, 6))
def test_nobody_lends_what_he_uses_or_what_nobody_borrows(
    parts: dict[tuple[str, str], Share], unguaranteed: int
) -> None:
    found = uses(parts, {"V100": float(unguaranteed)})
    for key, share in parts.items():
        own = sum(share.own.values())
        assert -1e-9 <= found[key].lent <= own + 1e-9
        if not share.own:
            assert found[key].lent == 0
    lent, borrowed = (sum(getattr(use, name) for use in found.values()) for name in ("lent", "borrowed"))
    assert lent <= borrowed + 1e-9


@settings(max_examples=examples(25))
@given(
    st.lists(st.floats(0.1, 5), min_size=1, max_size=4),
    st.integers(1, 8),
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1, 2, 4])), max_size=12),
)
def test_parts_make_up_the_guarantee_and_entitlements_no_more(
    weights: list[float], gpus: int, wanted: list[tuple[int, int]]
) -> None:
    members = {f"t{number}": weight for number, weight in enumerate(weights)}
    jobs = [
        make_job(number, gpus=size, tenant=f"t{owner}", virtual_cluster="shared")
        for number, (owner, size) in enumerate(wanted, start=1)
        if f"t{owner}" in members
    ]
    found = division(make_snapshot(virtual_clusters=[shared({"V100": gpus}, members)], jobs=jobs)).standings
    assert sum(each.own["V100"] for each in found.values()) == pytest.approx(gpus)
    entitled = sum(sum(each.entitled.values()) for each in found.values())
    demand = sum(each.demand_gpus for each in found.values())
    assert entitled == pytest.approx(min(gpus, demand))
    for name, each in found.items():
        assert each.own["V100"] == pytest.approx(gpus * members[name] / sum(weights))
        # Whoever could use its part is entitled to it at least; alone it would not do more than that.
        assert sum(each.entitled.values()) >= min(each.own["V100"], each.demand_gpus) - 1e-6
        assert each.speed_alone <= min(each.own["V100"], each.demand_gpus) + 1e-9


@settings(max_examples=examples(25))
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=4),
    st.integers(1, 2),
    st.lists(st.integers(0, 3), min_size=4, max_size=4),
    st.floats(0.1, 10),
)
def test_whoever_holds_its_own_part_is_never_worse_off_than_alone(
    parts: list[int], times: int, waiting: list[int], unit: float
) -> None:
    """Parts in proportion to weights, whatever else waits: nobody borrows, lends or would be better off."""
    gpus = times * sum(parts)
    jobs, holds = [], []
    for owner, part in enumerate(parts):
        mine = [
            make_job(100 * (owner + 1) + n, tenant=f"t{owner}", virtual_cluster="shared")
            for n in range(part * times + waiting[owner])
        ]
        holds += [make_running(job, [100 + len(holds) + n]) for n, job in enumerate(mine[: part * times])]
        jobs += mine
    members = {f"t{owner}": part * unit for owner, part in enumerate(parts)}
    found = division(
        make_snapshot(
            nodes=[make_node(1, gpus=gpus)],
            virtual_clusters=[shared({"V100": gpus}, members)],
            jobs=jobs,
            running=holds,
        )
    ).standings
    for each in found.values():
        assert each.speed_here == pytest.approx(each.speed_alone)
        assert (each.borrowed, each.lent) == pytest.approx((0, 0), abs=1e-6)
        assert sum(each.entitled.values()) == pytest.approx(sum(each.received.values()))


def test_jobs_without_gpus_have_no_part() -> None:
    """As no policy divides CPUs; one that runs, and one that waits."""
    tasks = (Task(replicas=1, gpus=0, cpus=1.0),)
    running, waiting = [
        make_job(number, tenant="vision", virtual_cluster="shared", tasks=tasks) for number in (31, 32)
    ]
    world = two_models()
    holds = make_running(running, [[]], nodes=(NodeId(1),))
    found = division(replace(world, jobs=(*world.jobs, running, waiting), running=(*world.running, holds)))
    before = division(world).standings["vision"]
    vision = found.standings["vision"]
    assert (vision.jobs_running, vision.jobs_waiting) == (5, 3)
    assert replace(vision, jobs_running=4, jobs_waiting=2) == before


def test_parts_are_held_and_demanded_as_such() -> None:
    quarters = [make_part(number, 0.25, tenant="vision", virtual_cluster="shared") for number in range(1, 7)]
    running = [make_running(job, [100], since=NOW - 60) for job in quarters[:4]]
    found = division(
        make_snapshot(
            nodes=[make_node(1, gpus=4)],
            virtual_clusters=[shared({"V100": 4}, {"vision": 1, "speech": 1})],
            jobs=[*quarters, make_job(9, tenant="speech", virtual_cluster="shared", gpus=4)],
            running=running,
        )
    ).standings
    vision = found["vision"]
    assert (vision.received, vision.demand_gpus) == ({"V100": 1.0}, 1.5)
    assert (vision.entitled, found["speech"].entitled) == ({"V100": 1.5}, {"V100": 2.5})
    assert (vision.borrowed, vision.lent) == (0.0, 0.0)
    # The four are as fast as they would be on their own part, on which the other two would run besides.
    assert (vision.speed_here, vision.speed_alone) == (1.0, 1.5)
    assert (vision.demanded_gpus, vision.useful_gpus) == (1.5, 1.0)
