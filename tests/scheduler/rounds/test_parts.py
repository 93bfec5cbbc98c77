"""Several jobs have parts of one GPU, from the round to the agent."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from nodeagent.messages import GpuPart
from scheduler.agents.services.desired import desired_parts
from scheduler.jobs.attempts.services.lifecycle import promote_overdue, release_gpus
from scheduler.jobs.budgets.services import Owner, used
from scheduler.jobs.representations import jobs as represented
from scheduler.jobs.services.control import job_submit
from scheduler.models import AllocatedGpu, Attempt, Explanation, Job
from scheduler.models.budgets import BudgetUnit
from scheduler.models.metrics import UsageSample
from scheduler.rounds.apply import apply_plan
from scheduler.rounds.run import run_round
from scheduler.rounds.snapshot import read_snapshot
from scheduler.telemetry.metrics.services import sample_usage
from scheduler.wiring.clock import database_now
from tenants.audit import triggers
from tenants.selectors import viewer_of
from tests.scheduler.builders import gpus_of, make_member, make_node, make_tenant, make_vc
from tests.scheduler.rounds.test_apply import plan, start, stop

pytestmark = pytest.mark.django_db

GIB = 2**30


@pytest.fixture
def submit():
    """Submit a job with so much of a GPU for each replica; four are guaranteed to its virtual cluster."""
    tenant = make_tenant("vision")
    make_vc("research", members=[tenant], guaranteed={"V100": 4})
    viewer = viewer_of(make_member(tenant))

    def submit(gpu: float, *, replicas: int = 1, **resources) -> Job:
        task = {"name": "main", "replicas": replicas, "command": ["true"]}
        spec = {
            "name": f"part-{gpu:g}",
            "virtual_cluster": "research",
            "tasks": [task | {"resources": {"gpu": gpu, **resources}}],
        }
        return job_submit(viewer=viewer, tenant="vision", spec=spec)

    return submit


def held(node) -> dict[int, list[int]]:
    """Return by index of the GPU what each who holds it has, in thousandths."""
    found: dict[int, list[int]] = {}
    rows = AllocatedGpu.objects.filter(gpu__node=node, phase="held").order_by("allocation_id")
    for index, request in rows.values_list("gpu__index", "request"):
        found.setdefault(index, []).append(request)
    return found


def test_three_tenths_and_seven_share_a_gpu_and_what_no_longer_fits_waits(submit):
    node = make_node(gpus=1)
    jobs = [submit(0.3, gpu_limit=0.6, gpu_memory="4GiB"), submit(0.7)]
    run_round()
    assert held(node) == {0: [300, 700]}
    orders = {part.job: part.replicas[0].gpu_part for part in desired_parts(node)}
    assert orders == {
        jobs[0].id: GpuPart(request=300, limit=600, memory_bytes=4 * GIB),
        # In proportion to the request.
        jobs[1].id: GpuPart(request=700, limit=700, memory_bytes=16 * GIB * 7 // 10),
    }
    shown = [job["attempt"]["placement"][0]["gpus"][0] for job in represented(job.id for job in jobs)]
    assert [(gpu["index"], gpu["part"]) for gpu in shown] == [(0, 0.3), (0, 0.7)]
    third, whole = submit(0.2), submit(1)
    run_round()
    for job in (third, whole):
        assert not job.attempts.exists()
        assert Explanation.objects.get(job=job).reasons[0]["code"]
    facts = {job.id: job for job in read_snapshot(9).jobs}
    assert [facts[job.id].milligpus for job in jobs] == [300, 700]


def test_whole_gpus_are_ordered_as_ever(submit):
    node = make_node(gpus=2)
    job = submit(2)
    run_round()
    assert held(node) == {0: [1000], 1: [1000]}
    (shown,) = represented([job.id])
    assert all("part" not in gpu for gpu in shown["attempt"]["placement"][0]["gpus"])
    (part,) = desired_parts(node)
    assert part.replicas[0].gpu_part is None


def test_a_part_waits_for_the_one_that_leaves_and_not_for_the_one_that_stays(submit):
    node = make_node(gpus=1)
    (gpu,) = gpus_of(node)
    staying, leaving = submit(0.3), submit(0.5)
    apply_plan(read_snapshot(8), plan(start(staying, [gpu]), start(leaving, [gpu])))
    victim = leaving.attempts.get()
    victim.job.refresh_from_db()
    fits, waits = submit(0.2), submit(0.5)
    applied = apply_plan(read_snapshot(9), plan(stop(victim), start(fits, [gpu]), start(waits, [gpu])))
    assert applied.dropped == []
    states = {job.id: job.attempts.get().state for job in (staying, fits, waits)}
    assert states == {staying.id: "starting", fits.id: "starting", waits.id: "planned"}
    promote_overdue()
    assert waits.attempts.get().state == "planned"
    release_gpus(victim.allocation, at=database_now())
    assert waits.attempts.get().state == "starting"
    assert held(node) == {0: [300, 200, 500]}


def test_a_successor_that_nobody_promoted_is_found_when_there_is_room(submit):
    (gpu,) = gpus_of(make_node(gpus=1))
    staying, leaving = submit(0.3), submit(0.7)
    apply_plan(read_snapshot(8), plan(start(staying, [gpu]), start(leaving, [gpu])))
    victim = leaving.attempts.get()
    waits = submit(0.6)
    apply_plan(read_snapshot(9), plan(stop(victim), start(waits, [gpu])))
    AllocatedGpu.objects.filter(allocation=victim.allocation).update(phase="released")
    promote_overdue()
    assert waits.attempts.get().state == "starting"


def test_a_part_for_which_there_is_no_room_any_more_is_dropped(submit):
    (gpu,) = gpus_of(make_node(gpus=1))
    one, other = submit(0.6), submit(0.5)
    applied = apply_plan(read_snapshot(8), plan(start(one, [gpu]), start(other, [gpu])))
    assert [drop["why"] for drop in applied.dropped] == [f"GPU {gpu.id} is promised to another job"]
    applied = apply_plan(read_snapshot(9), plan(start(other, [gpu])))
    assert [drop["why"] for drop in applied.dropped] == [f"GPU {gpu.id} is still in use"]
    assert not other.attempts.exists()


def test_service_counts_a_part_by_its_request(submit):
    (gpu,) = gpus_of(make_node(gpus=1))
    job = submit(0.3)
    apply_plan(read_snapshot(8), plan(start(job, [gpu])))
    allocation = Attempt.objects.get(job=job).allocation
    assert (allocation.gpu_amount, allocation.gpu_count) == (0.3, 1)
    until = database_now() + timedelta(hours=10)
    hours = used(Owner(job.tenant), BudgetUnit.GPU_HOURS, until - timedelta(days=1), until)
    assert hours == pytest.approx(3.0, rel=1e-3)


# Going back and forth computes the state of all tables several times.
@pytest.mark.slow
def test_rows_of_before_get_their_parts_and_going_back_leaves_one_holder(submit):
    (gpu,) = gpus_of(make_node(gpus=1))
    jobs = [submit(0.3, gpu_limit=0.6), submit(0.7)]
    apply_plan(read_snapshot(8), plan(*(start(job, [gpu]) for job in jobs)))
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    first = jobs[0].attempts.get().allocation_id
    before = [("scheduler", "0033_resized")]
    # As before every run of `migrate`.
    triggers.remove(plan=before)
    MigrationExecutor(connection).migrate(before)
    with connection.cursor() as cursor:
        cursor.execute("SELECT allocation_id FROM scheduler_allocatedgpu WHERE phase = 'held'")
        assert cursor.fetchall() == [(first,)]
    MigrationExecutor(connection).migrate([("scheduler", "0034_parts_of_gpus")])
    found = AllocatedGpu.objects.filter(phase="held").values_list("request", "limit", "memory_bytes")
    assert list(found) == [(300, 600, 0)]


def test_what_tenants_use_are_parts_and_the_gpu_is_in_use_once(submit):
    make_node(gpus=2)
    for _ in range(3):
        submit(0.25)
    run_round()
    sample_usage()
    sample = UsageSample.objects.get()
    assert (sample.total, sample.held, sample.by_tenant) == (2, 1, {"vision": 0.75})
    submit(0.25)
    submit(1)
    run_round()
    sample_usage()
    assert UsageSample.objects.latest("at").by_tenant == {"vision": 2}
