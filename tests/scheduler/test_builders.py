import pytest

from scheduler.models import AllocatedGpu
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node

pytestmark = pytest.mark.django_db


def test_an_attempt_holds_the_gpus_of_every_replica_on_its_nodes() -> None:
    nodes = [make_node(gpus=4), make_node(gpus=4)]
    attempt = make_attempt(make_job(gpus=2, replicas=3), gpus_of(*nodes)[:6])

    assert AllocatedGpu.objects.filter(allocation=attempt.allocation, phase="held").count() == 6
    ranks = {part.node_id: [replica["rank"] for replica in part.replicas] for part in attempt.parts.all()}
    assert ranks == {nodes[0].id: [0, 1], nodes[1].id: [2]}
