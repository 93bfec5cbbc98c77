"""Reservations: which nodes they have, who hears of them, and what rounds make of them."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduler.agents.maintenance.services import Choice, window_create
from scheduler.agents.reservations.services import (
    reservation_cancel,
    reservation_change,
    reservation_create,
    reservations_repair,
)
from scheduler.jobs.services.changing import job_change
from scheduler.jobs.services.control import job_submit
from scheduler.models import Allocation, Attempt, Event, Explanation, Job, Node, Reservation
from scheduler.notifications.services.topics import notices_of
from scheduler.rounds.run import run_round
from scheduler.rounds.snapshot import read_snapshot
from tenants.errors import ApplicationError, Conflict, Invalid
from tenants.models import Role, Tenant, User, VirtualCluster
from tenants.selectors import viewer_of
from tests.scheduler.builders import (
    gpus_of,
    make_attempt,
    make_job,
    make_node,
    make_tenant,
    make_user,
    make_vc,
)

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def reserve(tenant: Tenant, gpus: int = 8, starts: float = 1, ends: float = 3, **fields: Any) -> Reservation:
    now = timezone.now()
    return reservation_create(
        **{
            "name": "paper",
            "tenant": tenant,
            "gpu_model": "V100",
            "gpus": gpus,
            "starts_at": now + starts * HOUR,
            "ends_at": now + ends * HOUR,
            "actor": "user olga",
            **fields,
        }
    )


def time_passes(reservation: Reservation, hours: float) -> None:
    """Move a reservation towards the past."""
    reservation.refresh_from_db()
    starts_at, ends_at = (at - hours * HOUR for at in (reservation.starts_at, reservation.ends_at))
    Reservation.objects.filter(id=reservation.id).update(starts_at=starts_at, ends_at=ends_at)


def running(node: Node, **fields: Any) -> Attempt:
    return make_attempt(make_job(**fields), gpus_of(node)[:1])


def nodes_of(job: Job) -> set[str]:
    """The nodes on which a job is, or is nominated."""
    return set(
        Node.objects.filter(
            gpus__allocations__allocation__attempts__in=job.attempts.exclude(state="ended")
        ).values_list("name", flat=True)
    )


def problems(refused: pytest.ExceptionInfo[ApplicationError]) -> dict[str, str]:
    return {problem.field: problem.problem for problem in refused.value.fields}


class TestMaking:
    def test_it_has_whole_nodes_and_as_few_as_will_do(self) -> None:
        for name, gpus in (("a1", 4), ("a2", 8), ("a3", 8)):
            make_node(name, gpus=gpus)
        make_node("p1", gpu_model="P100")
        tenant = make_tenant()
        assert reserve(tenant, 9).nodes == ["a2", "a3"]
        assert reserve(tenant, 1, name="small").nodes == ["a1"]

    def test_a_node_has_one_reservation_at_a_time(self) -> None:
        make_node("a1")
        tenant = make_tenant("speech")
        first = reserve(tenant)
        assert reserve(tenant, name="later", starts=3.1, ends=4).nodes == ["a1"]
        with pytest.raises(Conflict, match="0 V100 can be reserved") as refused:
            reserve(make_tenant("vision"), name="another", starts=2, ends=3.05)
        assert "by reservation paper of tenant speech from" in problems(refused)["starts_at"]
        reservation_cancel(first, actor="user olga")
        assert reserve(make_tenant("third"), name="another", starts=2, ends=3.05).nodes == ["a1"]

    def test_nodes_out_of_service_or_in_maintenance_are_not_to_be_had(self) -> None:
        make_node("a1", cordoned=True)
        make_node("a2", state="lost")
        make_node("a3")
        make_node("a4")
        window_create(
            reason="fans",
            choice=Choice(nodes=["a3"]),
            starts_at=timezone.now() + 2 * HOUR,
            ends_at=timezone.now() + 4 * HOUR,
            actor="user olga",
        )
        with pytest.raises(Conflict) as refused:
            reserve(make_tenant(), 16)
        assert problems(refused)["gpu_model"] == "nodes accept no jobs: a1; a2"
        assert "maintenance window" in problems(refused)["starts_at"]
        assert reserve(make_tenant(), 8).nodes == ["a4"]

    def test_guaranteed_jobs_that_may_still_run_then_are_in_the_way(self) -> None:
        for name in ("a1", "a2", "a3", "a4"):
            make_node(name)
        a1, a2, a3, _ = Node.objects.order_by("name")
        unlimited, late = running(a1), running(a2, time_limit_seconds=7_200)
        running(a3, time_limit_seconds=600)
        with pytest.raises(Conflict, match="16 V100 can be reserved") as refused:
            reserve(make_tenant(), 24)
        problem = problems(refused)["starts_at"]
        assert f"job {unlimited.job_id}, which has no time limit" in problem
        assert f"job {late.job_id}, which may run until" in problem
        assert reserve(make_tenant(), 16).nodes == ["a3", "a4"]

    @pytest.mark.parametrize(
        ("fields", "field", "problem"),
        [
            ({"gpus": 9}, "gpus", "there are 8 V100 in this cluster"),
            ({"gpu_model": "H100"}, "gpu_model", "there is no GPU model"),
            ({"starts": -1}, "starts_at", "is not in the future"),
            ({"starts": 9_999, "ends": 10_000}, "starts_at", "too far"),
            ({"starts": 2, "ends": 1}, "ends_at", "is not after the start"),
        ],
    )
    def test_what_can_not_be_is_refused(self, fields: dict[str, Any], field: str, problem: str) -> None:
        make_node("a1")
        with pytest.raises(Invalid, match=problem) as refused:
            reserve(make_tenant(), **fields)
        assert list(problems(refused)) == [field]
        assert not Reservation.objects.exists()

    def test_user_and_virtual_cluster_must_be_of_the_tenant(self) -> None:
        make_node("a1")
        tenant = make_tenant()
        with pytest.raises(Invalid, match="is not a member of tenant") as refused:
            reserve(tenant, user=make_user("stranger"))
        assert list(problems(refused)) == ["user"]
        with pytest.raises(Invalid, match="is not a member of virtual cluster") as refused:
            reserve(tenant, virtual_cluster=make_vc("closed"))
        assert list(problems(refused)) == ["virtual_cluster"]

    def test_a_name_is_had_once_until_it_is_over(self) -> None:
        make_node("a1")
        tenant = make_tenant()
        first = reserve(tenant)
        with pytest.raises(Conflict, match="has a reservation paper that is not over"):
            reserve(tenant, starts=5, ends=6)
        time_passes(first, 4)
        assert reserve(tenant, starts=5, ends=6).name == "paper"

    def test_those_whose_jobs_have_to_leave_hear_of_it_and_so_do_its_admins(self) -> None:
        node, tenant = make_node("a1"), make_tenant("speech")
        attempt = running(node, guaranteed=False)
        make_attempt(make_job(guaranteed=False, time_limit_seconds=600), gpus_of(node)[1:2])
        made = reserve(tenant)
        told = Event.objects.get(kind="attempt.reserved")
        assert (told.job_id, told.told) == (attempt.job_id, False)
        of_tenant = Event.objects.get(kind="reservation.changed")
        topics = {notice.topic: notice for notice in notices_of([told, of_tenant])}
        assert topics.keys() == {"job.reserved", "reservation.changed"}
        assert "with time to save" in topics["job.reserved"].text
        assert topics["reservation.changed"].tenant == tenant
        assert topics["reservation.changed"].subject == "Reservation paper of speech made"
        assert made.made_by == "user olga"
        of_node = Event.objects.get(node_id=node.id)
        assert of_node.kind == "node.reservation_made"
        for seen_by_others in (of_node, told):
            # The name of a reservation and its user are its tenant's own.
            assert made.name not in f"{seen_by_others.message} {seen_by_others.data}"


class TestChanging:
    def test_before_it_begins_everything_may_be_moved(self) -> None:
        make_node("a1")
        make_node("a2")
        made = reserve(make_tenant())
        changed = reservation_change(made, actor="user olga", gpus=16, note="more")
        assert (changed.nodes, changed.note) == (["a1", "a2"], "more")
        assert reservation_change(changed, actor="user olga", gpus=8).nodes == ["a1"]

    def test_afterwards_its_end_and_its_note(self) -> None:
        make_node("a1")
        tenant = make_tenant()
        made = reserve(tenant)
        later = reserve(tenant, name="later", starts=5, ends=6)
        time_passes(made, 2)
        for change in ({"gpus": 4}, {"starts_at": timezone.now() + HOUR}):
            with pytest.raises(Conflict, match="the reservation has begun"):
                reservation_change(made, actor="user olga", **change)
        with pytest.raises(Conflict, match="reservation later of tenant"):
            reservation_change(made, actor="user olga", ends_at=later.starts_at + HOUR)
        until = timezone.now() + 2 * HOUR
        assert reservation_change(made, actor="user olga", ends_at=until).ends_at == until
        with pytest.raises(Invalid, match="is not in the future"):
            reservation_change(made, actor="user olga", ends_at=timezone.now() - HOUR / 2)

    def test_it_can_not_go_on_into_a_maintenance_window_of_its_nodes(self) -> None:
        make_node("a1")
        made = reserve(make_tenant())
        window = window_create(
            reason="fans",
            choice=Choice(nodes=["a1"]),
            starts_at=timezone.now() + 4 * HOUR,
            ends_at=timezone.now() + 5 * HOUR,
            actor="user olga",
        )
        time_passes(made, 1.5)
        with pytest.raises(Conflict, match=rf"maintenance window {window.id} \(fans\) from") as refused:
            reservation_change(made, actor="user olga", ends_at=window.starts_at + HOUR / 2)
        assert list(problems(refused)) == ["ends_at"]
        changed = reservation_change(made, actor="user olga", ends_at=window.starts_at)
        assert changed.ends_at == window.starts_at

    def test_what_is_over_stays_as_it_is(self) -> None:
        make_node("a1")
        made = reserve(make_tenant())
        reservation_cancel(made, actor="user olga")
        for again in (
            lambda: reservation_cancel(made, actor="user olga"),
            lambda: reservation_change(made, actor="user olga", note="x"),
        ):
            with pytest.raises(Conflict, match="is cancelled already"):
                again()

    def test_a_node_that_is_lost_before_it_begins_is_replaced(self) -> None:
        for name in ("a1", "a2"):
            make_node(name)
        made = reserve(make_tenant())
        assert made.nodes == ["a1"]
        reservations_repair()
        Node.objects.filter(name="a1").update(state="lost")
        reservations_repair()
        made.refresh_from_db()
        assert made.nodes == ["a2"]
        # Without another one it keeps what it has.
        Node.objects.filter(name="a2").update(cordoned=True)
        reservations_repair()
        made.refresh_from_db()
        assert made.nodes == ["a2"]


class TestRounds:
    """What the live loop makes of them."""

    def world(self) -> tuple[Tenant, Tenant, VirtualCluster]:
        make_node("a1")
        make_node("a2")
        speech, vision = make_tenant("speech"), make_tenant("vision")
        return speech, vision, make_vc("shared", members=[speech, vision], guaranteed={"V100": 16})

    def test_a_snapshot_has_those_that_last(self) -> None:
        speech, vision, vc = self.world()
        user = make_user("ada")
        speech.memberships.create(user=user, role=Role.MEMBER)
        first = reserve(speech, user=user, virtual_cluster=vc)
        second = reserve(vision, name="other")
        (one, other) = read_snapshot(1).reservations
        assert (one.name, one.tenant, one.user, one.virtual_cluster) == ("paper", "speech", "ada", "shared")
        assert (one.nodes, one.starts_at) == (("a1",), pytest.approx(first.starts_at.timestamp()))
        assert (other.name, other.user, other.virtual_cluster) == ("other", "", "")
        time_passes(first, 5)
        reservation_cancel(second, actor="user olga")
        assert read_snapshot(1).reservations == ()

    def test_before_and_when_it_begins(self) -> None:
        speech, vision, vc = self.world()
        made = reserve(speech)
        fields: dict[str, Any] = {"virtual_cluster": vc, "gpus": 8}
        long = make_job(tenant=vision, **fields)
        longer = make_job(tenant=vision, **fields)
        spare = make_job(tenant=vision, guaranteed=False, **fields)
        own = submitted(speech, reservation="paper")
        run_round()
        # Of those that may last for too long one has the other node, and the opportunistic one this node.
        assert [nodes_of(job) for job in (long, longer, spare, own)] == [{"a2"}, set(), {"a1"}, set()]
        assert (code_of(longer), code_of(own)) == ("reserved", "reserved")

        time_passes(made, 1.5)
        run_round()
        stopped = Attempt.objects.get(job=spare)
        assert stopped.stop_cause == "preempted"
        assert "(reservation paper)" in stopped.stop_message
        Attempt.objects.filter(id=stopped.id).update(state="ended", outcome="preempted")
        stopped.allocation.gpus.update(phase="released")
        Allocation.objects.filter(id=stopped.allocation_id).update(phase="released")
        run_round()
        assert (nodes_of(own), nodes_of(longer)) == ({"a1"}, set())

        time_passes(made, 2)
        Attempt.objects.filter(job=own).update(state="ended", outcome="succeeded")
        Job.objects.filter(id=own.id).update(state="succeeded", ended_at=timezone.now())
        Allocation.objects.filter(attempts__job=own).update(phase="released")
        run_round()
        assert nodes_of(longer) == {"a1"}

    def test_a_job_names_one_that_it_may_use(self) -> None:
        speech, vision, _ = self.world()
        user = make_user("ada")
        speech.memberships.create(user=user, role=Role.MEMBER)
        made = reserve(speech, user=user)
        assert submitted(speech, by=user, reservation="paper").specification.reservation == "paper"
        for tenant, by in ((speech, None), (vision, None)):
            with pytest.raises(Invalid, match="there is no current or coming reservation 'paper'") as refused:
                submitted(tenant, by=by, reservation="paper")
            assert list(problems(refused)) == ["reservation"]
        with pytest.raises(Invalid, match='did you mean "paper"'):
            submitted(speech, by=user, reservation="papre")
        time_passes(made, 5)
        with pytest.raises(Invalid, match="no current or coming reservation"):
            submitted(speech, by=user, reservation="paper")

    def test_a_waiting_job_gets_another_reservation_or_none(self) -> None:
        speech, _, _ = self.world()
        reserve(speech)
        reserve(speech, name="demo", starts=4, ends=5)
        job = submitted(speech)

        def change(to: str | None) -> None:
            job_change(viewer=viewer_of(job.submitted_by), job=job, changes={"reservation": to})

        for name in ("paper", "demo"):
            change(name)
            assert [each.reservation for each in read_snapshot(1).jobs] == [name]
        run_round()
        assert code_of(job) == "reserved"
        (told, _) = Event.objects.filter(job_id=job.id, kind="job.changed").order_by("-id")
        assert "reservation: paper -> demo" in told.message
        with pytest.raises(Invalid, match="there is no current or coming reservation 'dmeo'") as refused:
            change("dmeo")
        assert problems(refused).keys() == {"reservation"}
        change(None)
        job.refresh_from_db()
        assert "reservation" not in job.spec
        run_round()
        assert len(nodes_of(job)) == 1
        with pytest.raises(Conflict, match="cannot be changed while job"):
            change("paper")

    def test_another_one_must_be_for_the_user_who_submitted_the_job(self) -> None:
        """Whoever changes it: it would wait for nodes that it never gets."""
        speech, _, _ = self.world()
        ada, admin = make_user("ada"), make_user("olga", operator=True)
        speech.memberships.create(user=ada, role=Role.MEMBER)
        reserve(speech, user=ada)
        job, other = submitted(speech, by=ada), submitted(speech)
        job_change(viewer=viewer_of(admin), job=job, changes={"reservation": "paper"})
        assert read_snapshot(1).jobs[0].reservation == "paper"
        with pytest.raises(Invalid, match="there is no current or coming reservation 'paper'"):
            job_change(viewer=viewer_of(admin), job=other, changes={"reservation": "paper"})

    def test_a_trial_run_and_the_job_behind_it_get_it(self) -> None:
        speech, _, _ = self.world()
        reserve(speech)
        job = submitted(speech, trial={"gpus": 1, "seconds": 60})
        job_change(viewer=viewer_of(job.submitted_by), job=job, changes={"reservation": "paper"})
        (known,) = read_snapshot(1).jobs
        assert known.trial is not None
        assert (known.reservation, known.trial.gang.reservation) == ("paper", "paper")

    def test_a_job_whose_reservation_is_over_can_still_be_changed(self) -> None:
        speech, _, _ = self.world()
        made = reserve(speech)
        job = submitted(speech, reservation="paper")
        time_passes(made, 5)
        job_change(viewer=viewer_of(job.submitted_by), job=job, changes={"priority": 3})
        job.refresh_from_db()
        assert (job.priority, job.spec["reservation"]) == (3, "paper")


def submitted(tenant: Tenant, *, by: User | None = None, **fields: Any) -> Job:
    """Submit a job of 8 GPUs as its user would."""
    user = by or make_user()
    if by is None:
        tenant.memberships.create(user=user, role=Role.MEMBER)
    task = {"name": "main", "command": ["true"], "resources": {"gpu": 8}}
    spec = {"name": "job", "virtual_cluster": "shared", "tasks": [task], **fields}
    return job_submit(viewer=viewer_of(user), tenant=tenant.name, spec=spec)


def code_of(job: Job) -> str:
    """Return the first reason why a job waits."""
    code: str = Explanation.objects.get(job=job).reasons[0]["code"]
    return code
