"""CPUs and memory by need: whatever the jobs, nobody below the proportional share's speed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.building_blocks.auxiliary_shares import (
    Need,
    Servers,
    Share,
    greedy,
    proportional,
    tune,
)

SERVERS = Servers(3, 8, 24, 500)
NEEDS = st.lists(
    st.builds(
        Need,
        st.sampled_from((1, 1, 2, 4, 8, 12)),
        st.tuples(st.sampled_from((1, 2, 3, 4, 6, 9, 12, 24)), st.sampled_from((20, 62.5, 125, 187.5))),
    ),
    max_size=30,
)


def check_sums(shares: list[Share | None]) -> None:
    for server in range(SERVERS.count):
        here = [(share.parts.get(server, 0), *share.per_gpu) for share in shares if share]
        assert sum(gpus for gpus, _, _ in here) <= SERVERS.gpus
        assert sum(gpus * cpus for gpus, cpus, _ in here) <= SERVERS.cpus + 1e-6
        assert sum(gpus * memory for gpus, _, memory in here) <= SERVERS.memory + 1e-6


@given(NEEDS)
def test_tune_runs_whose_gpus_fit_and_nobody_is_slower_than_with_its_proportional_share(
    needs: list[Need],
) -> None:
    shares = tune(SERVERS, needs)
    check_sums(shares)
    # GPUs alone decide who runs.
    assert [share is None for share in shares] == [share is None for share in proportional(SERVERS, needs)]
    for need, share in zip(needs, shares, strict=True):
        if share is not None:
            assert sum(share.parts.values()) == need.gpus
            assert all(
                has >= min(best, fair)
                for has, best, fair in zip(share.per_gpu, need.best, SERVERS.proportional, strict=True)
            )
            assert share.is_best == (share.per_gpu == need.best)


@given(NEEDS)
def test_greedy_gives_all_or_nothing_and_no_more_than_there_is(needs: list[Need]) -> None:
    shares = greedy(SERVERS, needs)
    check_sums(shares)
    assert all(share is None or share.per_gpu == need.best for need, share in zip(needs, shares, strict=True))


def test_greedy_leaves_gpus_idle_where_jobs_want_many_cpus_and_tune_does_not() -> None:
    needs = [Need(1, (12, 125))] * 24
    assert sum(share is not None for share in greedy(SERVERS, needs)) == 6
    shares = [share for share in tune(SERVERS, needs) if share]
    assert len(shares) == 24
    assert all(share.per_gpu == SERVERS.proportional for share in shares)
