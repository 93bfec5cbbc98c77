"""Guarantees under two operators at once, and what operators may set against thrash."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection

from scheduler.rounds.snapshot import read_snapshot
from scheduler.virtual_clusters.services import VirtualClusterSettings, virtual_cluster_create
from tenants.errors import QuotaExceeded
from tenants.models import Guarantee
from tests.api.caller import is_error
from tests.scheduler.builders import make_node
from tests.scheduler.conftest import World


@pytest.mark.django_db(transaction=True)
def test_two_operators_do_not_promise_the_same_gpus() -> None:
    make_node(gpus=8)
    together = Barrier(2)

    def create(name: str) -> bool:
        try:
            together.wait()
            virtual_cluster_create(
                desired=VirtualClusterSettings(name=name, guaranteed={"V100": 5}), actor=f"user {name}"
            )
        except QuotaExceeded:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(create, ["one", "two"])) == [False, True]
    assert Guarantee.objects.get().gpus == 5


def test_least_times_are_those_of_the_next_round_and_stay_when_something_else_changes(world: World) -> None:
    (vc,) = read_snapshot(1).virtual_clusters
    assert vc.longest_wait_seconds == 6 * 3_600.0
    least = {"min_run_seconds": 300.0, "reclaim_min_run_seconds": 60.0, "longest_wait_seconds": 7_200.0}
    assert least.items() <= world.operator.put("/virtual-clusters/research", least).json().items()
    kept = world.operator.put("/virtual-clusters/research", {"title": "Research"}).json()
    assert least.items() <= kept.items()
    (vc,) = read_snapshot(1).virtual_clusters
    assert (vc.min_run_seconds, vc.reclaim_min_run_seconds) == (300.0, 60.0)
    assert vc.longest_wait_seconds == 7_200.0
    is_error(world.member.put("/virtual-clusters/research", least), 403, "not_allowed")


def test_the_budget_is_taken_away_by_null(world: World) -> None:
    world.operator.patch("/cluster/settings", {"preemptions_per_round": 2, "backoff_seconds": 5})
    assert read_snapshot(1).preemptions_per_round == 2
    assert read_snapshot(1).backoff_seconds == 5.0
    answer = world.operator.patch("/cluster/settings", {"preemptions_per_round": None}).json()
    assert (answer["preemptions_per_round"], answer["backoff_seconds"]) == (None, 5.0)


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/virtual-clusters/research", {"min_run_seconds": -1}),
        ("/cluster/settings", {"preemptions_per_round": -1}),
        ("/cluster/settings", {"most_backoff_seconds": 1e9}),
    ],
)
def test_what_is_out_of_range_is_refused_by_its_field(world: World, path: str, asked: dict) -> None:
    ask = world.operator.patch if path == "/cluster/settings" else world.operator.put
    body = is_error(ask(path, asked), 400, "invalid")
    assert [problem["field"] for problem in body["fields"]] == list(asked)


def test_a_virtual_cluster_where_nobody_was_preempted_says_so(world: World) -> None:
    told = world.member.get("/virtual-clusters/research/preemptions?hours=2").json()
    assert (told["hours"], told["preemptions"], told["lost_gpu_hours"]) == (2, 0, 0.0)
    is_error(world.member.get("/virtual-clusters/research/preemptions?hours=0"), 400, "invalid")
