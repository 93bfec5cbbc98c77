"""Every sample once per epoch, whatever the numbers of ranks, batch sizes and interruptions."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allot.training import Sampler, TrainingError
from allot.training.place import Place
from allot.training.sampler import Order
from tests.effort import examples

STAY = st.tuples(
    st.integers(1, 7),  # ranks
    st.integers(1, 40),  # samples a step, over all ranks
    st.integers(0, 12),  # steps until the checkpoint
    st.integers(0, 5),  # steps after it, which the interruption undoes
)


@settings(max_examples=examples(40))
@given(length=st.integers(1, 150), seed=st.integers(0, 2**40), stays=st.lists(STAY, min_size=1, max_size=8))
def test_any_sequence_of_world_sizes_and_interruptions_sees_each_sample_once_per_epoch(
    length: int, seed: int, stays: list[tuple[int, int, int, int]]
) -> None:
    kept = {"epoch": 0, "position": 0}
    learned: Counter[tuple[int, int]] = Counter()
    for world_size, batch, saved_steps, undone_steps in stays:
        ranks = [
            Sampler(length, seed=seed, rank=rank, world_size=world_size, **kept) for rank in range(world_size)
        ]
        for step in range(saved_steps + undone_steps):
            epoch = ranks[0].epoch
            shares = [rank.take(batch) for rank in ranks]
            assert len({(rank.epoch, rank.position) for rank in ranks}) == 1
            assert max(map(len, shares)) - min(map(len, shares)) <= 1
            if step < saved_steps:
                learned.update((epoch, sample) for share in shares for sample in share)
            if step + 1 == saved_steps:
                kept = {"epoch": ranks[0].epoch, "position": ranks[0].position}
    assert set(learned.values()) <= {1}
    for epoch in range(kept["epoch"]):
        assert {sample for each, sample in learned if each == epoch} == set(range(length))
    assert len(learned) == kept["epoch"] * length + kept["position"]


def test_the_order_is_a_shuffle_that_differs_by_seed_and_epoch() -> None:
    length = 20_000
    orders = [Order(length, seed=seed, epoch=epoch) for seed, epoch in ((0, 0), (0, 1), (1, 0))]
    shuffled = [[order[place] for place in range(length)] for order in orders]
    for places in shuffled:
        assert sorted(places) == list(range(length))
        # Neighbours have as little to do with one another as in any shuffle: a third of the length apart.
        apart = sum(abs(a - b) for a, b in pairwise(places)) / (length - 1)
        assert apart == pytest.approx(length / 3, rel=0.03)
        assert sum(place == index for index, place in enumerate(places)) < 10
    for one, other in ((0, 1), (0, 2), (1, 2)):
        alike = sum(a == b for a, b in zip(shuffled[one], shuffled[other], strict=True))
        assert alike < 10


def test_reading_ahead_counts_nothing_as_had() -> None:
    sampler = Sampler(10, seed=3, rank=1, world_size=2)
    ahead = list(sampler.batches(4))
    assert [len(batch) for batch in ahead] == [2, 2, 1]
    assert (sampler.epoch, sampler.position) == (0, 0)
    assert [sampler.take(4) for _ in range(3)] == ahead
    assert (sampler.epoch, sampler.position, sampler.epochs_done) == (1, 0, 1.0)


def test_what_cannot_be_sampled_is_refused() -> None:
    with pytest.raises(TrainingError, match="at least one sample, not 0"):
        Sampler(0, seed=0, rank=0, world_size=1)
    with pytest.raises(TrainingError, match="at least one sample, not 0"):
        Sampler(5, seed=0, rank=0, world_size=1).take(0)
    with pytest.raises(TrainingError, match="position 5 in epoch 0"):
        Sampler(5, seed=0, rank=0, world_size=1, position=5)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"WORLD_SIZE": "none"}, "WORLD_SIZE must be a whole number from 1 to 100000, not 'none'"),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is 2, so RANK must be set too"),
        ({"WORLD_SIZE": "2", "RANK": "2"}, "RANK must be a whole number from 0 to 1, not '2'"),
        (
            {"WORLD_SIZE": "3", "RANK": "0", "ALLOT_LOGICAL_WORLD_SIZE": "4"},
            "ALLOT_LOGICAL_WORLD_SIZE is 4, which 3 processes cannot share equally",
        ),
        ({"ALLOT_ATTEMPT": "-1"}, "ALLOT_ATTEMPT must be a whole number"),
    ],
)
def test_an_environment_that_makes_no_sense_is_refused(environment: dict[str, str], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        Place.from_environment(environment)


def test_the_shares_of_a_batch_add_up() -> None:
    shares = [Place(rank=rank, world_size=3).share(10) for rank in range(3)]
    assert shares == [4, 3, 3]


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_logical_ranks_have_the_same_shares_on_any_number_of_processes(processes: int) -> None:
    alone = [Sampler(10, seed=3, rank=rank, world_size=4) for rank in range(4)]
    environment = {"WORLD_SIZE": str(processes), "ALLOT_LOGICAL_WORLD_SIZE": "4"}
    places = [Place.from_environment({**environment, "RANK": str(rank)}) for rank in range(processes)]
    played = [
        Sampler(10, seed=3, rank=place.rank, world_size=processes, ranks_each=place.ranks_each)
        for place in places
    ]
    assert [rank for place in places for rank in place.logical_ranks] == [0, 1, 2, 3]
    for _ in range(4):
        shares = [share for sampler in played for share in sampler.take_for_logical_ranks(6)]
        assert shares == [sampler.take(6) for sampler in alone]


def test_whole_batches_go_on_into_the_next_epoch() -> None:
    samplers = [Sampler(10, seed=3, rank=rank, world_size=3) for rank in range(3)]
    batches = [[sampler.take_whole(6) for sampler in samplers] for _ in range(5)]
    assert {len(share) for batch in batches for share in batch} == {2}
    had = Counter(sample for batch in batches for share in batch for sample in share)
    assert had == Counter({sample: 3 for sample in range(10)}), "each once in each of three epochs"
    assert {sampler.epochs_done for sampler in samplers} == {3.0}


def test_one_rank_takes_whole_batches_in_the_order_of_the_epochs() -> None:
    sampler = Sampler(10, seed=3, rank=0, world_size=1)
    order = [Order(10, seed=3, epoch=epoch)[place] for epoch in range(2) for place in range(10)]
    assert sampler.take_whole(25)[:20] == order
    assert (sampler.epoch, sampler.position) == (2, 5)
