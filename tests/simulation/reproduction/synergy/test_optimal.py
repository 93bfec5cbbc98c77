"""The best that CPUs and memory can do: no mechanism does better, and nobody pays for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.reproduction.synergy.optimal import Point, Profile, divide, optimal
from scheduler.core.building_blocks.auxiliary_shares import Need, Servers, proportional, tune
from scheduler.core.solvers.errors import SolverError

CPUS, MEMORY = (1, 2, 3, 4, 6, 9, 12, 24), (20.83, 62.5, 125, 187.5)
#: Of its CPUs the job is as fast as in proportion, up to a knee; and slower with less memory than another.
PROFILES = st.builds(
    lambda gpus, cpus, memory, slower: Profile.of_matrix(
        gpus,
        CPUS,
        MEMORY,
        [
            [min(min(has, cpus) / min(3, cpus), 1.5 if gb >= memory else slower) for gb in MEMORY]
            for has in CPUS
        ],
    ),
    st.sampled_from((1, 1, 2, 4, 8, 12)),
    st.sampled_from(CPUS),
    st.sampled_from(MEMORY),
    st.sampled_from((0.2, 0.7, 1.0)),
)


def test_six_cpus_go_to_who_gains_most_by_them() -> None:
    """Two GPUs and 6 CPUs. With 1, 3, 5 CPUs: the first job has speed 0.4, 1, 1.6; the second 1, 1, 1; so the
    second is left with 1, for it loses nothing, and the first gets 5. Of two like the first none can gain
    without the other's falling below 1."""
    servers = Servers(1, 2, 6, 100)
    hungry = Profile.of_matrix(1, (1, 3, 5), (50,), ((0.4,), (1,), (1.6,)))
    content = Profile.of_matrix(1, (1, 3, 5), (50,), ((1,), (1,), (1,)))
    best = optimal(servers, [hungry, content])
    assert best.points == [Point((5, 50), 1.6), Point((1, 50), 1)]
    assert best.total == best.bound == pytest.approx(2.6)
    assert divide(servers, [hungry, content], best.points) == [{0: pytest.approx(1)}, {0: pytest.approx(1)}]
    assert optimal(servers, [hungry, hungry]).points == [Point((3, 50), 1)] * 2


@given(st.lists(PROFILES, max_size=12))
def test_nobody_does_better_and_nobody_is_slower_than_with_the_proportional_share(
    profiles: list[Profile],
) -> None:
    servers = Servers(3, 8, 24, 500)
    best = optimal(servers, profiles)
    needs = [Need(profile.gpus, profile.best) for profile in profiles]
    shares = tune(servers, needs)
    tuned = sum(
        profile.speed(share.per_gpu) for profile, share in zip(profiles, shares, strict=True) if share
    )
    assert best.bound >= best.total >= tuned - 1e-6
    # GPUs alone decide who runs.
    fair = proportional(servers, needs)
    assert [point is None for point in best.points] == [share is None for share in fair]
    for profile, point in zip(profiles, best.points, strict=True):
        if point is not None:
            assert point.speed >= profile.speed(servers.proportional)
            assert point.speed == profile.speed(point.per_gpu)
    parts = divide(servers, profiles, best.points)
    check_parts(servers, profiles, best.points, parts)


def check_parts(
    servers: Servers,
    profiles: list[Profile],
    points: list[Point | None],
    parts: list[dict[int, float]],
) -> None:
    has = (servers.gpus, servers.cpus, servers.memory)
    for server in range(servers.count):
        taken = [0.0, 0.0, 0.0]
        for profile, point, part in zip(profiles, points, parts, strict=True):
            if point is not None:
                for kind, each in enumerate((1, *point.per_gpu)):
                    taken[kind] += profile.gpus * each * part.get(server, 0)
        assert all(some <= most + 1e-6 for some, most in zip(taken, has, strict=True))
    for point, part in zip(points, parts, strict=True):
        assert sum(part.values()) == pytest.approx(0 if point is None else 1)
    assert sum(len(part) > 1 for part in parts) <= 3 * servers.count


def test_what_is_not_known_and_what_does_not_fit_is_refused() -> None:
    servers = Servers(1, 2, 6, 100)
    unknown = Profile.of_matrix(1, (5,), (50,), ((1.6,),))
    with pytest.raises(ValueError, match="none that is within the proportional share, 3 CPUs and 50 GB"):
        optimal(servers, [unknown])
    assert optimal(servers, []).points == []
    with pytest.raises(SolverError, match="more GPUs, CPUs or memory than all servers have"):
        divide(servers, [unknown] * 2, [unknown.points[0]] * 2)
