"""Cells under several operators at once, and what becomes of guarantees when models come and go."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.db import connection

from scheduler.models import CellSpecification, Event
from scheduler.virtual_clusters.cells.services import cells_apply
from scheduler.virtual_clusters.services import (
    VirtualClusterSettings,
    virtual_cluster_create,
    virtual_cluster_set,
)
from tenants.errors import ApplicationError, Conflict, Invalid, QuotaExceeded
from tenants.models import Guarantee, VirtualCluster
from tests.scheduler.builders import make_node, make_vc


def document(model: str = "V100", **owned: int) -> dict[str, Any]:
    """Return a specification: one node of eight GPUs, and who owns how many GPUs as cells."""
    return {
        "types": {"NODE": {"of": model, "count": 8, "node": True}},
        "physical": [{"type": "NODE", "nodes": ["node-a"]}],
        "virtual_clusters": {name: {"cells": {model: gpus}} for name, gpus in owned.items()},
    }


def guarantees() -> dict[tuple[str, str], int]:
    rows = Guarantee.objects.values_list("virtual_cluster__name", "gpu_model", "gpus")
    return {(name, model): gpus for name, model, gpus in rows}


@pytest.mark.django_db(transaction=True)
def test_of_two_operators_one_is_told_that_the_other_was_faster() -> None:
    make_node("node-a")
    for name in ("one", "two"):
        make_vc(name)
    together = Barrier(2)

    def apply(name: str) -> type[ApplicationError] | None:
        try:
            together.wait()
            cells_apply(document=document(**{name: 8}), version=0, actor=f"user {name}")
        except ApplicationError as error:
            return type(error)
        finally:
            connection.close()
        return None

    with ThreadPoolExecutor(2) as pool:
        assert sorted(map(str, pool.map(apply, ["one", "two"]))) == [str(Conflict), "None"]
    assert CellSpecification.objects.get().version == 1
    assert list(guarantees().values()) == [8]


@pytest.mark.django_db(transaction=True)
def test_a_count_and_cells_of_one_model_are_never_both_promised() -> None:
    make_node("node-a")
    make_vc("one")
    together = Barrier(2)

    def cells() -> None:
        cells_apply(document=document(one=8), version=0, actor="user one")

    def count() -> None:
        virtual_cluster_create(
            desired=VirtualClusterSettings(name="two", guaranteed={"V100": 8}), actor="user two"
        )

    def attempt(action: Any) -> bool:
        try:
            together.wait()
            action()
        except (Invalid, QuotaExceeded):
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(attempt, [cells, count])) == [False, True]
    assert list(guarantees().values()) == [8]


@pytest.fixture
def divided(db: None) -> None:
    """Eight V100 and four P100; one owns six V100 as cells and has two P100 by count."""
    make_node("node-a")
    make_node("node-b", gpus=4, gpu_model="P100")
    make_vc("one", guaranteed={"P100": 2})
    make_vc("two")
    cells_apply(document=document(one=6), version=0, actor="user olga")


def change(name: str, guaranteed: Mapping[str, int]) -> None:
    virtual_cluster = VirtualCluster.objects.get(name=name)
    virtual_cluster_set(
        virtual_cluster=virtual_cluster,
        desired=VirtualClusterSettings(name=name, guaranteed=guaranteed),
        actor="user olga",
    )


def test_cells_move_from_one_to_another_and_counts_stay(divided: None) -> None:
    cells_apply(document=document(two=8), version=1, actor="user olga")
    assert guarantees() == {("one", "P100"): 2, ("two", "V100"): 8}
    event = Event.objects.get(kind="cells.changed", subject_id=2)
    assert event.data["guaranteed"] == {
        "one": {"before": {"V100": 6}, "after": {}},
        "two": {"before": {}, "after": {"V100": 8}},
    }


def test_a_model_that_is_divided_no_more_keeps_what_the_cells_came_to(divided: None) -> None:
    cells_apply(document={}, version=1, actor="user olga")
    assert guarantees() == {("one", "P100"): 2, ("one", "V100"): 6}
    change("one", {"V100": 3})
    assert guarantees() == {("one", "V100"): 3}


def test_counts_of_other_models_are_checked_as_before(divided: None) -> None:
    with pytest.raises(QuotaExceeded, match="5 P100 are 1 too many"):
        change("one", {"P100": 5})
    change("one", {"P100": 4})
    assert guarantees() == {("one", "P100"): 4, ("one", "V100"): 6}


def test_only_virtual_clusters_that_change_are_touched(divided: None) -> None:
    before = dict(VirtualCluster.objects.values_list("name", "version"))
    cells_apply(document=document(one=7), version=1, actor="user olga")
    after = dict(VirtualCluster.objects.values_list("name", "version"))
    assert after == {"one": before["one"] + 1, "two": before["two"]}
