"""The fuzzer of the night: a few of its cases every day, and that it notices what it is there for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from scheduler.core.building_blocks.policy import View
from scheduler.core.model.plan import Decision
from scheduler.core.round.registry import POLICIES
from tests import fuzz


@pytest.mark.parametrize("number", range(12))
def test_a_few_random_runs_violate_nothing(number: int) -> None:
    case = fuzz.make_case(0, number)
    assert list(fuzz.violations(case)) == [], case.plugins


def test_a_case_is_the_same_by_its_number() -> None:
    assert fuzz.make_case(3, 5) == fuzz.make_case(3, 5) != fuzz.make_case(3, 6)


@dataclass(frozen=True)
class NeverReturns:
    def allocate(self, view: View, memory: Mapping[str, Any]) -> Decision:
        while True:
            pass


@dataclass(frozen=True)
class Fails:
    def allocate(self, view: View, memory: Mapping[str, Any]) -> Decision:
        raise KeyError("lost")


@dataclass(frozen=True)
class StartsNothing:
    def allocate(self, view: View, memory: Mapping[str, Any]) -> Decision:
        return Decision(grants=(), memory=memory)


@pytest.mark.parametrize(
    ("policy", "said"),
    [(NeverReturns, "it had not ended after 2 s"), (Fails, "lost"), (StartsNothing, "wait for ever")],
)
def test_a_policy_that_fails_its_jobs_is_noticed(
    monkeypatch: pytest.MonkeyPatch, policy: type, said: str
) -> None:
    monkeypatch.setattr(fuzz, "CASE_SECONDS", 2.0)
    for name in list(POLICIES):
        monkeypatch.setitem(POLICIES, name, policy)
    monkeypatch.setattr(fuzz, "VARIANTS", {})
    assert said in " ".join(fuzz.violations(fuzz.make_case(0, 0)))
