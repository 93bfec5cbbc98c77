"""What experiments tell policies of jobs that share GPUs: measured pairs, a tree of them, profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product

import pytest

from scheduler.core.model.gpu_parts import SHARE_FREE, SHARE_MEASURED
from scheduler.core.model.snapshot import GpuId, JobId, NodeId
from scheduler.core.model.training import Profile
from scheduler.core.perf.interference import predicted
from scheduler.core.sim.result import Result, Stay
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.speeds import Speeds
from scheduler.core.sim.stays import with_company
from scheduler.core.sim.workload import Arrival, Truth, Workload
from scheduler.simulation.clusters import load_cluster
from scheduler.simulation.experiment import Experiment
from scheduler.simulation.joining import join
from scheduler.simulation.rates import ThroughputTable
from scheduler.simulation.run import simulate
from tests.core.sim.worlds import arrival

#: By application; all were measured beside all.
MEASURED = {f"job-{number}": Profile(utilisation=(number + 0.5) / 8) for number in range(8)}
LIGHT = Profile(utilisation=0.1, memory_utilisation=0.05)
#: By their scores two heavy ones do not go together, and two medium ones do.
HEAVY = Profile(utilisation=0.3, memory_utilisation=0.7)
MEDIUM = Profile(utilisation=0.9, memory_utilisation=0.1)


def table(applications: Sequence[str] = tuple(MEASURED)) -> ThroughputTable:
    """Pairs that go at half their speed as soon as both together compute for more than all of the time."""

    def speed(one: str, other: str) -> float:
        busy = [MEASURED[each].utilisation or 0.0 for each in (one, other)]
        return 0.5 if sum(busy) > 1 else 1.0

    return ThroughputTable(
        name="pairs",
        pairs={(one, other, 1, ""): speed(one, other) for one, other in product(applications, repeat=2)},
    )


def experiment(
    profiles: Mapping[str, Profile],
    *,
    sharing: str = SHARE_FREE,
    pairs: ThroughputTable | None = None,
    policy: str = "lucid",
    gpus: int = 1,
) -> Experiment:
    """Jobs of 1,000 s that come at once, and long after them one of each application that was measured."""
    jobs: list[Arrival] = []
    for place, (application, profile) in enumerate([*profiles.items(), *MEASURED.items()]):
        at = 0.0 if application in profiles else 1e6 + 1e4 * place
        jobs.append(arrival(place + 1, at, 1_000.0, application=application, profile=profile))
    cluster, workload = join(load_cluster(f"v100={gpus}:{gpus}"), Workload(name="few", arrivals=tuple(jobs)))
    shared = tuple(replace(vc, sharing=sharing) for vc in cluster.virtual_clusters)
    return Experiment(
        cluster=replace(cluster, virtual_clusters=shared),
        workload=workload,
        policy=policy,
        rules=Rules(speeds=Speeds(tables=pairs or table())),
        round_seconds=0.0,
    )


def pairs_of(result: Result) -> list[tuple[int, int]]:
    """Return who shared GPUs, the earlier job first."""
    pairs = [(stay.job, other) for stay in result.stays for other in stay.shared_with]
    return sorted(pair for pair in pairs if pair[0] < pair[1])


def test_an_experiment_tells_what_measured_pairs_tell_of_others() -> None:
    tree = experiment({}).facts().interference
    busy, idle = Profile(utilisation=0.8), Profile(utilisation=0.1)
    assert predicted(tree, [busy, busy, idle], [busy, idle, idle]) == pytest.approx([0.5, 1.0, 1.0])


def test_it_tells_nothing_where_nobody_may_go_by_it_or_little_was_measured() -> None:
    assert experiment({}, sharing=SHARE_MEASURED).facts().interference == ()
    assert experiment({}, pairs=table(("job-0", "job-1"))).facts().interference == ()
    of_nobody = experiment({})
    jobs = [replace(each, job=replace(each.job, profile=None)) for each in of_nobody.workload.arrivals]
    unknown = replace(of_nobody.workload, arrivals=tuple(jobs))
    assert replace(of_nobody, workload=unknown).facts().interference == ()


@pytest.mark.parametrize(
    ("profile", "sharing", "shared"),
    [
        (HEAVY, SHARE_FREE, True),
        (HEAVY, SHARE_MEASURED, False),
        (MEDIUM, SHARE_FREE, False),
        (MEDIUM, SHARE_MEASURED, True),
    ],
)
def test_lucid_goes_by_what_is_foretold_where_jobs_share_freely(
    profile: Profile, sharing: str, shared: bool
) -> None:
    """Nobody measured the two; by the tree heavy ones go together, and medium ones do not."""
    result = simulate(experiment({"x": profile, "y": profile}, sharing=sharing))
    assert pairs_of(result) == ([(1, 2)] if shared else [])


#: Each of three keeps a resource of its own busy: by their stages, none slows the others.
OWN_STAGE = {
    name: Profile(stages=stages)
    for name, stages in (("a", (0.6, 0.0, 0.0)), ("b", (0.0, 0.6, 0.0)), ("c", (0.0, 0.0, 0.6)))
}


def three_of_muri(tables: ThroughputTable) -> Experiment:
    """One of each at once under `muri`, on one GPU."""
    return experiment(OWN_STAGE, sharing=SHARE_MEASURED, policy="muri", pairs=tables)


def most_together(result: Result, jobs: Sequence[int]) -> int:
    return 1 + max(len(stay.shared_with) for stay in result.stays if stay.job in jobs)


@pytest.mark.parametrize(("speed", "company"), [(0.5, 3), (0.3, 2)])
def test_muri_forms_no_group_that_the_table_says_is_slower_than_turns(speed: float, company: int) -> None:
    sides = (("a", ("b", "c")), ("b", ("a", "c")), ("c", ("a", "b")))
    groups = {(one, others, 1, "v100"): speed for one, others in sides}
    result = simulate(three_of_muri(ThroughputTable(name="groups", groups=groups)))
    assert not result.degraded
    assert most_together(result, (1, 2, 3)) == company
    if company == 3:
        assert [stay.ended_at for stay in result.stays if stay.job <= 3] == [1_000.0 / speed] * 3


def test_a_group_that_turns_out_to_be_slower_than_turns_is_known_once_it_was_measured() -> None:
    """Any two of them get along. Nobody said that three do not: each is then slowed by both others."""
    pairs = {(one, other, 1, ""): 0.55 for one, other in permutations("abc", 2)}
    once = three_of_muri(ThroughputTable(name="pairs", pairs=pairs))
    first, later = once.workload.arrivals[:3], once.workload.arrivals[3:]
    again = [
        replace(each, job=replace(each.job, id=JobId(20 + each.job.id), submitted_at=1e5)) for each in first
    ]
    workload = replace(once.workload, arrivals=(*first, *again, *later))
    result = simulate(replace(once, workload=workload))
    assert not result.degraded
    assert most_together(result, (1, 2, 3)) == 3
    assert most_together(result, (21, 22, 23)) == 2


def test_who_shared_is_who_was_there_at_the_same_time() -> None:
    """The first has its GPU with the second, then alone, then with the third, and at last alone."""

    def stay(job: int, gpus: tuple[int, ...], begin: float, end: float) -> Stay:
        return Stay(
            job=JobId(job),
            gpu_model="v100",
            gpus=tuple(map(GpuId, gpus)),
            nodes=(NodeId(1),),
            started_at=begin,
            ended_at=end,
            end="finished",
            # What is known when it ends: who is there then.
            shared_with=(JobId(9),),
        )

    stays = [
        stay(1, (1, 2), 0, 100),
        stay(2, (1,), 0, 40),
        stay(3, (2,), 60, 80),
        stay(4, (1,), 100, 150),
        stay(5, (1,), 50, 50),
        stay(3, (3,), 80, 120),
    ]
    assert [each.shared_with for each in with_company(stays)] == [(2, 3), (1,), (1,), (), (), ()]


def test_a_job_that_was_left_alone_did_share() -> None:
    """The shorter of two ends first; who stays shared the GPU with it all the same."""
    both = experiment({"x": HEAVY, "y": HEAVY})
    shorter = replace(both.workload.arrivals[0], truth=Truth(work_seconds=100.0))
    workload = replace(both.workload, arrivals=(shorter, *both.workload.arrivals[1:]))
    result = simulate(replace(both, workload=workload))
    first, second = (next(stay for stay in result.stays if stay.job == job) for job in (1, 2))
    assert (first.shared_with, second.shared_with) == ((2,), (1,))


def test_a_policy_that_measures_profiles_is_told_none_before() -> None:
    """Four light jobs on two GPUs. Told, they share at once. Else each is profiled on its own; the first goes
    on as one of the others, where the second joins it, and after these two the others share."""
    light = {name: LIGHT for name in ("w", "x", "y", "z")}
    told = simulate(experiment(light, gpus=2))
    assert pairs_of(told) == [(1, 3), (2, 4)]
    measured = simulate(experiment(light, gpus=2, policy="lucid:profiler_gpus=1,lent_gpus=0"))
    assert measured.degraded == {}
    withheld = "How a job uses GPUs is known once it, or a similar job, has run alone"
    assert [any(note.startswith(withheld) for note in each.notes) for each in (told, measured)] == [
        False,
        True,
    ]
    stays = {number: [stay for stay in measured.stays if stay.job == number] for number in (1, 2, 3, 4)}
    assert [(its[0].started_at, its[0].ended_at) for its in stays.values()] == [
        (0.0, 1_460.0),
        (200.0, 400.0),
        (400.0, 600.0),
        (600.0, 800.0),
    ]
    assert pairs_of(measured) == [(1, 2), (3, 4)]
    # The next round after 400 is when the third is known.
    assert [stays[number][1].started_at for number in (2, 3, 4)] == [540.0, 1_800.0, 1_800.0]
