"""Entitlements: the paper's example, and what holds whoever claims what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.building_blocks.entitlement import Claim, entitled

MODELS = ("K80", "P100", "V100")


def claim(gpus: float, weight: float = 1.0, **by_model: float) -> Claim:
    return Claim(weight, gpus, by_model or dict.fromkeys(MODELS, gpus))


def test_who_needs_less_than_its_part_leaves_the_rest_to_the_others() -> None:
    """Section 4.2 of Gandiva-Fair: 8 GPUs and three users, one of whom has a single job of two GPUs."""
    held = entitled({"V100": 8}, {"a": claim(2), "b": claim(20), "c": claim(20)})
    assert {user: amounts["V100"] for user, amounts in held.items()} == pytest.approx(
        {"a": 2, "b": 3, "c": 3}
    )


def test_everyone_has_its_part_of_every_model_by_weight() -> None:
    held = entitled({"V100": 6, "K80": 12}, {"a": claim(50), "b": claim(50, weight=2.0)})
    assert held["a"] == pytest.approx({"V100": 2, "K80": 4})
    assert held["b"] == pytest.approx({"V100": 4, "K80": 8})


def test_a_model_that_few_can_use_is_theirs() -> None:
    held = entitled({"V100": 6, "K80": 6}, {"a": claim(12, V100=12.0), "b": claim(12)})
    assert held["a"] == pytest.approx({"V100": 3})
    assert held["b"] == pytest.approx({"V100": 3, "K80": 6})


def test_who_can_not_use_all_of_its_part_takes_its_best_models_of_it() -> None:
    worth = {"V100": 4.0, "K80": 1.0}
    few, many = Claim(1.0, 5.0, {"V100": 5.0, "K80": 5.0}, worth), claim(50)
    held = entitled({"V100": 6, "K80": 12}, {"a": few, "b": many})
    # Its part is three V100 and six K80; no more than that, though b would have been content with K80.
    assert held["a"] == pytest.approx({"V100": 3, "K80": 2})
    assert held["b"] == pytest.approx({"V100": 3, "K80": 10})


def test_a_weight_of_zero_claims_nothing() -> None:
    assert entitled({"V100": 4}, {"a": claim(4, weight=0.0), "b": claim(2)}) == {"a": {}, "b": {"V100": 2.0}}


claims = st.dictionaries(
    st.integers(0, 20),
    st.builds(
        lambda weight, by_model, part, worth: Claim(weight, part * sum(by_model.values()), by_model, worth),
        st.sampled_from((1.0, 1.0, 3.0, 0.5)),
        st.dictionaries(st.sampled_from(MODELS), st.integers(1, 30).map(float), min_size=1),
        st.sampled_from((1.0, 0.4)),
        st.sampled_from(({}, {"V100": 4.0, "P100": 2.0, "K80": 1.0})),
    ),
    max_size=12,
)


@given(st.dictionaries(st.sampled_from(MODELS), st.integers(0, 40).map(float)), claims)
def test_nobody_has_too_much_and_nothing_of_use_is_left(
    gpus: dict[str, float], claims: dict[int, Claim]
) -> None:
    held = entitled(gpus, claims)
    for model, count in gpus.items():
        given_out = sum(amounts.get(model, 0.0) for amounts in held.values())
        assert given_out <= count + 1e-6
        if given_out < count - 1e-6:
            for user, claim in claims.items():
                has, all_it_has = held[user].get(model, 0.0), sum(held[user].values())
                assert has >= claim.by_model.get(model, 0.0) - 1e-6 or all_it_has >= claim.gpus - 1e-6
    for user, amounts in held.items():
        assert sum(amounts.values()) <= claims[user].gpus + 1e-6
        assert all(amount <= claims[user].by_model[model] + 1e-6 for model, amount in amounts.items())


@given(st.dictionaries(st.sampled_from(MODELS), st.integers(1, 40).map(float), min_size=1), claims)
def test_nobody_has_less_than_its_part_that_it_can_use(
    gpus: dict[str, float], claims: dict[int, Claim]
) -> None:
    weight = sum(claim.weight for claim in claims.values())
    for user, amounts in entitled(gpus, claims).items():
        claim = claims[user]
        part = {
            model: min(gpus.get(model, 0.0) * claim.weight / weight, wanted)
            for model, wanted in claim.by_model.items()
        }
        assert sum(amounts.values()) >= min(sum(part.values()), claim.gpus) - 1e-6
