"""A plan is carried out as far as the facts it was made from still hold, and never further."""

import pytest
from django.db import transaction
from django.utils import timezone

from scheduler.agents.services.desired import desired_parts
from scheduler.core.model.errors import SchedulingError
from scheduler.core.model.plan import Action, ActionKind, Placement, Plan, Reason, Tier
from scheduler.jobs import representations as job_representations
from scheduler.jobs.attempts.services.lifecycle import part_exited, release_gpus
from scheduler.models import Attempt, Budget, Event, Explanation, PolicyMemory, QueueOrder
from scheduler.rounds.apply import apply_plan
from scheduler.rounds.snapshot import read_snapshot
from tenants.models import Quota, VirtualClusterMember
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node

pytestmark = pytest.mark.django_db


def start(job, *replicas, kind=ActionKind.START, allocation=None) -> Action:
    return Action(
        kind=kind,
        jobs=(job.id,),
        virtual_cluster=job.virtual_cluster.name,
        guaranteed=job.guaranteed,
        placement=Placement(
            gpu_model="V100", replicas=tuple(tuple(gpu.id for gpu in gpus) for gpus in replicas)
        ),
        allocation=allocation,
    )


def stop(attempt, **said) -> Action:
    return Action(
        kind=ActionKind.STOP,
        jobs=(attempt.job_id,),
        virtual_cluster=attempt.job.virtual_cluster.name,
        allocation=attempt.allocation_id,
        **{"cause": "preempted", **said},
    )


def plan(*actions, **fields) -> Plan:
    return Plan(round_number=9, actions=actions, **fields)


def test_a_start_holds_its_gpus_and_tells_each_node_its_ranks():
    left, right = make_node(gpus=2), make_node(gpus=2)
    job = make_job(gpus=1, replicas=3)
    one, two, three = gpus_of(left)[:2] + gpus_of(right)[:1]
    applied = apply_plan(read_snapshot(9), plan(start(job, [one], [two], [three])))

    assert (applied.started, applied.dropped) == (1, [])
    attempt = job.attempts.get()
    assert (attempt.state, attempt.number, attempt.go) == ("starting", 1, False)
    assert set(attempt.allocation.gpus.values_list("gpu_id", "phase")) == {
        (gpu.id, "held") for gpu in (one, two, three)
    }
    ranks = {part.node_id: [replica["rank"] for replica in part.replicas] for part in attempt.parts.all()}
    assert ranks == {left.id: [0, 1], right.id: [2]}
    job.refresh_from_db()
    assert (job.state, job.version, job.attempts_started) == ("queued", 2, 1)
    assert Event.objects.filter(job_id=job.id, kind="attempt.starting", actor="round 9").exists()


def test_a_gang_on_one_node_need_not_wait_for_others():
    job = make_job(gpus=1, replicas=2)
    one, two = gpus_of(make_node(gpus=2))
    apply_plan(read_snapshot(9), plan(start(job, [one], [two])))
    assert job.attempts.get().go


def join(job, host) -> Action:
    gpus = [row.gpu for row in host.allocation.gpus.order_by("gpu")]
    return start(job, gpus, kind=ActionKind.JOIN, allocation=host.allocation_id)


def test_who_joins_has_an_attempt_of_its_own_and_the_host_is_left_as_it_is():
    gpus = gpus_of(make_node(gpus=2))
    host, guest = make_attempt(make_job(gpus=2), gpus), make_job(gpus=2)
    before = (host.job.version, list(host.allocation.gpus.values()))
    applied = apply_plan(read_snapshot(9), plan(join(guest, host)))
    assert (applied.started, applied.kept, applied.stopped, applied.dropped) == (1, 1, 0, [])
    attempt = guest.attempts.get()
    assert (attempt.state, attempt.go, attempt.allocation_id) == ("starting", True, host.allocation_id)
    host.refresh_from_db()
    host.job.refresh_from_db()
    assert (host.state, host.job.version, list(host.allocation.gpus.values())) == ("running", *before)
    (held,) = read_snapshot(10).running
    assert held.jobs == (host.job_id, guest.id)
    assert held.since_of(host.job_id) == host.starting_at.timestamp() < held.since_of(guest.id)
    assert held.since_of(guest.id) == attempt.starting_at.timestamp()
    # The node is told of both, and that they share.
    parts = {part.attempt: part for part in desired_parts(host.parts.get().node)}
    assert {number: part.shares_gpus for number, part in parts.items()} == {host.id: True, attempt.id: True}
    assert not any(part.stop for part in parts.values())

    # One of them stops, and the other keeps the GPUs.
    applied = apply_plan(read_snapshot(10), plan(stop(attempt)))
    assert (applied.kept, applied.stopped, applied.moved, applied.dropped) == (1, 1, 0, [])
    (held,) = read_snapshot(11).running
    assert (held.jobs, held.leaving, held.stopping) == ((host.job_id,), (guest.id,), False)
    done = {"exit_code": 143, "category": "stopped", "message": "", "actor": "a test"}
    part_exited(guest.attempts.get().parts.get(), at=timezone.now(), **done)
    host.refresh_from_db()
    assert host.state == "running"
    assert set(host.allocation.gpus.values_list("phase", flat=True)) == {"held"}


def test_nobody_joins_who_has_ended_or_is_told_to_stop():
    host, guest = make_attempt(make_job(), gpus_of(make_node(gpus=1))), make_job()
    snapshot = read_snapshot(9)
    Attempt.objects.filter(id=host.id).update(state="stopping")
    applied = apply_plan(snapshot, plan(join(guest, host)))
    words = "no job with which it would share GPUs still runs there"
    assert [each["why"] for each in applied.dropped] == [words]
    Attempt.objects.filter(id=host.id).update(state="running")
    release_gpus(host.allocation, at=timezone.now())
    applied = apply_plan(snapshot, plan(join(guest, host)))
    assert "no longer held" in applied.dropped[0]["why"]
    assert not guest.attempts.exists()


def test_a_job_that_changed_meanwhile_is_dropped_and_the_rest_applied():
    one, two = gpus_of(make_node(gpus=2))
    stale, fresh = make_job(), make_job()
    snapshot = read_snapshot(9)
    stale.version += 1
    stale.save()
    applied = apply_plan(snapshot, plan(start(stale, [one]), start(fresh, [two])))
    assert applied.started == 1
    assert applied.dropped == [
        {"kind": "start", "jobs": [stale.id], "why": f"job {stale.id} changed after the snapshot"}
    ]
    assert not stale.attempts.exists()
    assert fresh.attempts.get().state == "starting"


def test_a_victim_stays_when_the_job_that_would_have_its_gpus_changed_meanwhile():
    (gpu,) = gpus_of(make_node(gpus=1))
    victim, job = make_attempt(make_job(guaranteed=False), [gpu]), make_job()
    snapshot = read_snapshot(9)
    job.version += 1
    job.save()
    applied = apply_plan(snapshot, plan(stop(victim, preempted_by=(job.id,)), start(job, [gpu])))
    assert (applied.started, applied.stopped) == (0, 0)
    assert {drop["why"] for drop in applied.dropped} == {f"job {job.id} changed after the snapshot"}
    victim.refresh_from_db()
    assert victim.state == "running"


def less_quota(job) -> str:
    Quota.objects.create(tenant=job.tenant, gpu_model="V100", gpus=0)
    return f"a quota or budget of tenant {job.tenant.name} changed after the snapshot"


def a_spent_budget(job) -> str:
    now = timezone.now()
    Budget.objects.create(
        tenant=job.tenant, amount=1, action="hold", is_spent=True, starts_at=now, period_starts_at=now
    )
    return f"a quota or budget of tenant {job.tenant.name} changed after the snapshot"


def no_membership(job) -> str:
    VirtualClusterMember.objects.filter(tenant=job.tenant).delete()
    return f"tenant {job.tenant.name} is no longer a member of {job.virtual_cluster.name}"


@pytest.mark.parametrize("withdraw", [less_quota, a_spent_budget, no_membership])
def test_no_job_starts_against_rights_that_were_withdrawn_while_the_round_was_decided(withdraw):
    (one, two), running = gpus_of(make_node(gpus=2)), make_attempt(make_job(), gpus_of(make_node(gpus=1)))
    job, other = make_job(), make_job()
    snapshot = read_snapshot(9)
    why = withdraw(job)
    applied = apply_plan(snapshot, plan(start(job, [one]), start(other, [two]), stop(running)))
    assert (applied.started, applied.stopped) == (1, 1)
    assert applied.dropped == [{"kind": "start", "jobs": [job.id], "why": why}]
    assert not job.attempts.exists()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda node: node.gpus.filter(index=1).update(healthy=False),
        lambda node: node.gpus.filter(index=1).update(present=False),
        lambda node: type(node).objects.filter(id=node.id).update(cordoned=True),
        lambda node: type(node).objects.filter(id=node.id).update(state="lost"),
    ],
)
def test_a_gang_is_dropped_whole_when_one_gpu_is_no_longer_usable(spoil):
    node = make_node(gpus=2)
    job = make_job(gpus=1, replicas=2)
    one, two = gpus_of(node)
    snapshot = read_snapshot(9)
    spoil(node)
    applied = apply_plan(snapshot, plan(start(job, [one], [two])))
    assert applied.started == 0
    assert "no longer usable" in applied.dropped[0]["why"]
    assert not job.attempts.exists()


def test_a_preempting_start_is_planned_until_the_victim_has_left():
    (gpu,) = gpus_of(make_node(gpus=1))
    victim = make_attempt(make_job(guaranteed=False), [gpu])
    job = make_job()
    action = stop(victim, preempted_by=(job.id,), message="Reclaimed.")
    applied = apply_plan(read_snapshot(9), plan(action, start(job, [gpu])))
    assert (applied.started, applied.stopped) == (1, 1)
    victim.refresh_from_db()
    assert (victim.state, victim.stop_cause) == ("stopping", "preempted")
    assert (victim.preempted_by, victim.stop_message) == ([job.id], "Reclaimed.")
    successor = job.attempts.get()
    assert (successor.state, successor.allocation.phase) == ("planned", "planned")

    release_gpus(victim.allocation, at=applied.at)

    successor.refresh_from_db()
    successor.allocation.refresh_from_db()
    assert (successor.state, successor.allocation.phase, successor.go) == ("starting", "held", True)
    job.refresh_from_db()
    assert job.attempts_started == 1


def test_a_successor_waits_for_the_last_of_its_gpus():
    one, two, free = gpus_of(make_node(gpus=3))
    first, second = (
        make_attempt(make_job(), [one], state="stopping"),
        make_attempt(make_job(), [two], state="stopping"),
    )
    job = make_job(gpus=3)
    at = apply_plan(read_snapshot(9), plan(start(job, [one, two, free]))).at
    release_gpus(first.allocation, at=at)
    assert job.attempts.get().state == "planned"
    release_gpus(second.allocation, at=at)
    assert job.attempts.get().state == "starting"


def test_nobody_takes_the_gpus_of_a_victim_whose_stop_was_dropped():
    (gpu,) = gpus_of(make_node(gpus=1))
    victim = make_attempt(make_job(guaranteed=False), [gpu])
    job = make_job()
    snapshot = read_snapshot(9)
    victim.job.version += 1
    victim.job.save()
    applied = apply_plan(snapshot, plan(stop(victim), start(job, [gpu])))
    assert (applied.started, applied.stopped) == (0, 0)
    assert [drop["why"] for drop in applied.dropped] == [
        f"job {victim.job_id} changed after the snapshot",
        f"GPU {gpu.id} is still in use",
    ]


def test_a_planned_attempt_that_is_stopped_ends_at_once_and_makes_room():
    (gpu,) = gpus_of(make_node(gpus=1))
    make_attempt(make_job(), [gpu], state="stopping")
    waiting = make_attempt(make_job(guaranteed=False), [gpu], state="planned", phase="planned")
    urgent = make_job()
    applied = apply_plan(read_snapshot(9), plan(stop(waiting), start(urgent, [gpu])))
    assert applied.dropped == []
    waiting.refresh_from_db()
    assert (waiting.state, waiting.outcome) == ("ended", "preempted")
    waiting.job.refresh_from_db()
    assert (waiting.job.state, waiting.job.preemptions) == ("queued", 0)
    assert urgent.attempts.get().state == "planned"


def test_a_move_stops_here_and_is_planned_there():
    here, there = gpus_of(make_node(gpus=2))
    attempt = make_attempt(make_job(), [here])
    job = attempt.job
    action = start(job, [there], kind=ActionKind.MOVE, allocation=attempt.allocation_id)
    applied = apply_plan(read_snapshot(9), plan(action))
    assert (applied.started, applied.stopped, applied.moved) == (1, 1, 1)
    old, new = job.attempts.order_by("number")
    assert (old.state, old.stop_cause, new.state, new.number) == ("stopping", "migrated", "planned", 2)


def test_a_plan_that_gives_a_gpu_twice_is_a_bug_and_aborts_the_whole_round():
    (gpu,) = gpus_of(make_node(gpus=1))
    one, two = make_job(), make_job()
    with pytest.raises(SchedulingError, match=f"gives GPU {gpu.id} twice"), transaction.atomic():
        apply_plan(read_snapshot(9), plan(start(one, [gpu]), start(two, [gpu])))
    assert not one.attempts.exists()


def because(message: str, code: str = "no_idle_gpus") -> tuple[Reason, ...]:
    return (Reason(code=code, tier=Tier.CAPACITY, message=message, needed=1, available=0),)


def test_reasons_and_queue_are_written_only_when_they_change():
    job = make_job()
    view = job.virtual_cluster.name
    snapshot = read_snapshot(9)
    # The other one was deleted since the snapshot.
    reasons = {job.id: because("Full."), job.id + 1: because("Full.")}
    apply_plan(snapshot, plan(reasons=reasons, queues={view: (job.id,)}))
    assert Explanation.objects.get().reasons[0]["message"] == "Full."
    assert QueueOrder.objects.get(view=view).jobs == [job.id]

    again = Plan(round_number=10, reasons={job.id: because("Full.")}, queues={view: (job.id,)})
    apply_plan(snapshot, again)
    assert Explanation.objects.get(job=job).round_number == 9

    later = Plan(round_number=11, reasons={job.id: because("Still full.")}, queues={})
    apply_plan(snapshot, later)
    assert Explanation.objects.get(job=job).reasons[0]["message"] == "Still full."
    assert QueueOrder.objects.get(view=view).jobs == []
    # The same decisive reason in other words is no new event.
    assert Event.objects.filter(job_id=job.id, kind="job.waiting").count() == 1


def test_an_explanation_ends_with_the_wait():
    job = make_job()
    snapshot = read_snapshot(9)
    apply_plan(snapshot, plan(reasons={job.id: because("Full.")}))
    apply_plan(snapshot, plan(start(job, gpus_of(make_node(gpus=1)))))
    assert not Explanation.objects.exists()


def test_memory_is_kept_by_view():
    apply_plan(read_snapshot(9), plan(memory={"research": {"passes": [1]}}))
    apply_plan(read_snapshot(9), plan(memory={"research": {"passes": [2]}}))
    assert PolicyMemory.objects.get(view="research").memory == {"passes": [2]}
    assert read_snapshot(10).memory == {"research": {"passes": [2]}}


def change_guarantee(attempt, *, guaranteed: bool) -> Action:
    return Action(
        kind=ActionKind.REGRADE,
        jobs=(attempt.job_id,),
        virtual_cluster=attempt.job.virtual_cluster.name,
        guaranteed=guaranteed,
        allocation=attempt.allocation_id,
        cause="cells_back" if guaranteed else "cells_lost",
        message="Its cell is no more.",
    )


def test_a_guarantee_lapses_and_returns_while_the_job_runs_on():
    attempt = make_attempt(make_job(), gpus_of(make_node(gpus=1)))
    for guaranteed, kind in ((False, "guarantee.lapsed"), (True, "guarantee.returned")):
        applied = apply_plan(read_snapshot(9), plan(change_guarantee(attempt, guaranteed=guaranteed)))
        assert (applied.dropped, applied.kept, applied.stopped) == ([], 1, 0)
        attempt.refresh_from_db()
        assert (attempt.state, attempt.allocation.guaranteed) == ("running", guaranteed)
        event = Event.objects.get(job_id=attempt.job_id, kind=kind)
        assert (event.actor, event.message) == ("round 9", "Its cell is no more.")
        (told,) = job_representations.jobs([attempt.job_id])
        assert told["guarantee_lapsed"] is not guaranteed
        attempt.allocation.refresh_from_db()
    assert attempt.allocation.view == attempt.job.virtual_cluster.name
    assert told["version"] == 3


def test_a_guarantee_is_not_regraded_when_the_job_moved_on_meanwhile():
    attempt = make_attempt(make_job(), gpus_of(make_node(gpus=1)))
    snapshot = read_snapshot(9)
    attempt.job.version += 1
    attempt.job.save()
    applied = apply_plan(snapshot, plan(change_guarantee(attempt, guaranteed=False)))
    assert applied.dropped[0]["kind"] == "regrade"
    applied = apply_plan(read_snapshot(9), plan(change_guarantee(attempt, guaranteed=True)))
    assert "so already" in applied.dropped[0]["why"]
    attempt.allocation.refresh_from_db()
    assert attempt.allocation.guaranteed
    assert not Event.objects.filter(kind__startswith="guarantee.").exists()
