"""Samples of fragmentation: what is counted as the workload, what is stored, and who sees it."""

from collections import Counter
from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.models import FragmentationSample
from scheduler.rounds.snapshot import read_snapshot
from scheduler.tasks.pruning import prune
from scheduler.telemetry.metrics.services import HISTORY, sample_fragmentation, workload_counted
from tenants.models import User
from tests.api.caller import Caller, caller, is_error
from tests.scheduler.builders import (
    gpus_of,
    make_attempt,
    make_job,
    make_node,
    make_round,
    make_tenant,
    make_user,
    make_vc,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator() -> Caller:
    return caller(make_user(operator=True))


def counted() -> Counter[tuple[int, tuple[str, ...]]]:
    counts = Counter[tuple[int, tuple[str, ...]]]()
    for kind in workload_counted(timezone.now()):
        counts[kind.gpus, kind.gpu_models] += int(kind.count)
    return counts


def test_the_workload_is_of_the_last_days_and_of_what_has_not_ended() -> None:
    long_ago = timezone.now() - HISTORY - timedelta(hours=1)
    make_job(gpus=2, state="succeeded")
    make_job(gpus=2, replicas=3)
    make_job(gpus=1, submitted_at=long_ago)
    make_job(gpus=8, submitted_at=long_ago, state="succeeded")
    make_job(gpus=4, gpu_models=["A100"])
    assert counted() == {(2, ()): 4, (1, ()): 1, (4, ("A100",)): 1}


def test_a_sample_says_what_fragments_the_idle_gpus(operator: Caller) -> None:
    sample_fragmentation()
    assert operator.get("/cluster/fragmentation").json() == {"points": [], "newest": None}
    node, other = make_node("n1"), make_node("n2")
    make_attempt(make_job(gpus=6), gpus_of(node)[:6])
    make_attempt(make_job(gpus=4), gpus_of(other)[:4])
    make_job(gpus=4)
    make_job(gpus=2)
    make_round()
    sample_fragmentation()
    body = operator.get("/cluster/fragmentation?minutes=5").json()
    (point,) = body["points"]
    # Jobs of 6, 4, 4 and 2 GPUs: two are idle on n1, four on n2.
    assert (point["idle"], point["fragmented"]) == (6, 0.25 * 6 + 0.5 * 2)
    newest = body["newest"]
    assert newest["causes"] == {"gpus": 2.5}
    assert newest["nodes"] == [
        {"name": "n1", "idle": 2, "fragmented": 1.5},
        {"name": "n2", "idle": 4, "fragmented": 1.0},
    ]
    assert {kind["gpus"]: kind["usable"] for kind in newest["kinds"]} == {6: 0, 4: 4, 2: 6}
    # Nothing new without a new round.
    sample_fragmentation()
    assert FragmentationSample.objects.count() == 1
    make_round()
    sample_fragmentation()
    assert [sample.details is None for sample in FragmentationSample.objects.order_by("at")] == [True, False]
    assert len(operator.get("/cluster/fragmentation?minutes=5").json()["points"]) == 2


def test_members_are_refused(operator: Caller) -> None:
    member: User = make_user()
    is_error(caller(member).get("/cluster/fragmentation"), 403, "not_allowed")
    is_error(operator.get("/cluster/fragmentation?minutes=0"), 400, "invalid")


def test_rounds_know_the_workload_where_a_placer_goes_by_it() -> None:
    make_node()
    tenant = make_tenant()
    vc = make_vc(members=[tenant])
    make_job(tenant=tenant, virtual_cluster=vc, gpus=2, gpu_models=["V100"])
    make_round()
    sample_fragmentation()
    assert read_snapshot(1).workload == ()
    vc.placer = "fgd"
    vc.save()
    (kind,) = read_snapshot(1).workload
    assert (kind.gpus, kind.share, kind.gpu_models, kind.count) == (2, 1_000, ("V100",), 1)


def test_old_samples_are_pruned() -> None:
    now = timezone.now()
    for days in (8, 6):
        FragmentationSample.objects.create(at=now - timedelta(days=days), idle=1, fragmented=0)
    prune()
    (left,) = FragmentationSample.objects.all()
    assert left.at == now - timedelta(days=6)
