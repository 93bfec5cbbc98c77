"""Guarantees under two operators at once."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection

from scheduler.virtual_clusters.services import VirtualClusterSettings, virtual_cluster_create
from tenants.errors import QuotaExceeded
from tenants.models import Guarantee
from tests.scheduler.builders import make_node


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
