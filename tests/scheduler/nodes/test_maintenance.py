"""Maintenance windows: what closes with them, who hears of them, and what opens again by itself."""

from collections.abc import Collection
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from scheduler.agents.maintenance.services import (
    Choice,
    window_cancel,
    window_change,
    window_create,
    windows_advance,
)
from scheduler.agents.reservations.services import reservation_cancel, reservation_create
from scheduler.agents.services.draining import node_drain
from scheduler.models import Attempt, Event, Job, MaintenanceWindow, Node
from scheduler.models.selectors.nodes import gpu_models
from scheduler.nodes.services.managing import node_change
from scheduler.rounds.snapshot import read_snapshot
from tenants.errors import Conflict, Invalid
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node, make_tenant, make_vc

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def from_now(hours: float) -> datetime:
    return timezone.now() + hours * HOUR


def announce(
    *nodes: str, starts: float = 1, ends: float = 3, racks: Collection[str] = ()
) -> MaintenanceWindow:
    return window_create(
        reason="new fans",
        choice=Choice(nodes=nodes, racks=racks),
        starts_at=from_now(starts),
        ends_at=from_now(ends),
        actor="user olga",
    )


def time_passes(window: MaintenanceWindow, hours: float) -> MaintenanceWindow:
    """Move a window towards the past, and do what is due then."""
    window.refresh_from_db()
    starts_at, ends_at = (at - hours * HOUR for at in (window.starts_at, window.ends_at))
    MaintenanceWindow.objects.filter(id=window.id).update(starts_at=starts_at, ends_at=ends_at)
    windows_advance()
    window.refresh_from_db()
    return window


def takes_work(node: Node) -> bool:
    return next(each.schedulable for each in read_snapshot(1).nodes if each.id == node.id)


def closes_at(node: Node) -> float | None:
    return next(each.closes_at for each in read_snapshot(1).nodes if each.id == node.id)


def events_of(node: Node) -> list[str]:
    return [*Event.objects.filter(node_id=node.id).order_by("id").values_list("kind", flat=True)]


def running(node: Node, **fields) -> Attempt:
    return make_attempt(make_job(**fields), gpus_of(node)[:1])


class TestBefore:
    def test_no_job_starts_that_would_outlast_its_start_and_those_that_run_go_on(self) -> None:
        node, other = make_node(), make_node()
        vc = make_vc(default_time_limit_seconds=86_400)
        attempt = running(node, virtual_cluster=vc)
        short = make_job(virtual_cluster=vc, time_limit_seconds=1_800)
        window = announce(node.name)
        assert time_passes(window, 0).state == "announced"
        attempt.refresh_from_db()
        assert attempt.state == "running"

        facts = read_snapshot(1)
        assert [each.schedulable for each in facts.nodes] == [True, True]
        assert [each.closes_at for each in facts.nodes] == [pytest.approx(window.starts_at.timestamp()), None]
        assert {job.id: job.outlasts for job in facts.jobs} == {attempt.job_id: (node.id,), short.id: ()}
        assert other.id not in {node for job in facts.jobs for node in job.outlasts}

    def test_the_earlier_of_a_deadline_and_a_window_closes_a_node(self) -> None:
        node, deadline = make_node(), from_now(2)
        node_drain(node=node, actor="user olga", deadline=deadline)
        later = announce(node.name, starts=5, ends=6)
        assert closes_at(node) == pytest.approx(deadline.timestamp())
        announce(node.name, starts=1, ends=1.5)
        assert closes_at(node) == pytest.approx(from_now(1).timestamp(), abs=60)
        assert closes_at(node) < later.starts_at.timestamp()

    def test_racks_are_the_nodes_that_stand_in_them_now(self) -> None:
        make_node("a1", rack="a")
        make_node("a2", rack="a")
        make_node("b1", rack="b")
        make_node("c1", rack="c")
        assert announce("c1", racks=["a"]).nodes == ["a1", "a2", "c1"]

    def test_those_whose_jobs_would_outlast_the_start_hear_of_it(self) -> None:
        node = make_node()
        vc = make_vc(default_time_limit_seconds=86_400)
        long = running(node, virtual_cluster=vc)
        short = make_attempt(make_job(virtual_cluster=vc, time_limit_seconds=600), gpus_of(node)[1:2])
        window = announce(node.name)
        told = Event.objects.get(kind="attempt.maintenance")
        assert (told.job_id, told.subject_id, told.told) == (long.job_id, long.id, False)
        assert "for maintenance: new fans" in told.message
        assert told.data["maintenance"]["id"] == window.id
        assert short.job_id != told.job_id
        assert events_of(node) == ["node.maintenance_announced"]

    def test_its_event_states_the_instants_to_the_second(self) -> None:
        node = make_node()
        starts_at = from_now(24).replace(minute=16, second=26, microsecond=0)
        window_create(
            reason="new fans",
            choice=Choice(nodes=[node.name], racks=()),
            starts_at=starts_at,
            ends_at=starts_at + timedelta(seconds=214),
            actor="user olga",
        )
        message = Event.objects.get(kind="node.maintenance_announced").message
        day = f"{starts_at:%Y-%m-%d %H}"
        assert f"new fans ({day}:16:26 UTC to {day}:20 UTC)" in message

    @pytest.mark.parametrize(
        ("nodes", "starts", "ends", "field", "problem"),
        [
            ((), 1, 2, "nodes", "no node is named"),
            (("a1", "nowhere"), 1, 2, "nodes", "there is no nowhere"),
            (("a1",), -1, 2, "starts_at", "is not in the future"),
            (("a1",), 2, 1, "ends_at", "is not after the start"),
            (("a1",), 9_999, 10_000, "starts_at", "too far"),
        ],
    )
    def test_what_can_not_be_is_refused(self, nodes, starts, ends, field, problem) -> None:
        make_node("a1")
        with pytest.raises(Invalid, match=problem) as refused:
            announce(*nodes, starts=starts, ends=ends)
        assert refused.value.fields[0].field == field
        with pytest.raises(Invalid, match="racks: there is no z"):
            announce("a1", racks=["z"])
        assert not MaintenanceWindow.objects.exists()

    def test_a_node_is_not_in_maintenance_while_it_is_reserved(self) -> None:
        make_node("a1")
        make_node("a2")
        reserved = reservation_create(
            name="paper",
            tenant=make_tenant("speech"),
            gpu_model="V100",
            gpus=8,
            starts_at=from_now(2),
            ends_at=from_now(4),
            actor="user olga",
        )
        (node,) = reserved.nodes
        with pytest.raises(Conflict, match=f"{node}: reservation paper of tenant speech from") as refused:
            announce("a1", "a2", starts=3, ends=5)
        (problem,) = refused.value.fields
        assert (problem.field, "change the reservation first" in problem.expected) == ("nodes", True)
        assert not MaintenanceWindow.objects.exists()
        window = announce(node, starts=0.5, ends=1.5)
        with pytest.raises(Conflict, match=f"{node}: reservation paper"):
            window_change(window, actor="user olga", ends_at=from_now(2.5))
        reservation_cancel(reserved, actor="user olga")
        assert announce("a1", "a2", starts=3, ends=5).nodes == ["a1", "a2"]

    def test_two_windows_of_a_node_do_not_overlap(self) -> None:
        for name in ("a1", "a2"):
            make_node(name)
        first = announce("a1", "a2", starts=1, ends=3)
        with pytest.raises(Conflict, match=rf"a2: maintenance window {first.id} \(new fans\) from"):
            announce("a2", starts=2, ends=4)
        beside = announce("a2", starts=3.1, ends=4)
        with pytest.raises(Conflict, match="a2: maintenance window"):
            window_change(beside, actor="user olga", starts_at=from_now(2))
        window_cancel(first, actor="user olga")
        window_change(beside, actor="user olga", starts_at=from_now(2))
        assert beside.starts_at != MaintenanceWindow.objects.get(id=beside.id).starts_at


class TestStartAndEnd:
    def test_at_the_start_its_jobs_leave_and_at_the_end_the_node_takes_work_again(self) -> None:
        node, window = (node := make_node()), announce(node.name)
        attempt = running(node)
        assert time_passes(window, 1.5).state == "draining"
        attempt.refresh_from_db()
        assert (attempt.state, attempt.stop_cause) == ("stopping", "drained")
        assert "in maintenance: new fans" in attempt.stop_message
        assert not takes_work(node)
        assert sum(model["gpus_free"] for model in gpu_models()) == 0

        Attempt.objects.update(state="ended", outcome="preempted")
        windows_advance()
        windows_advance()
        window.refresh_from_db()
        assert (window.state, takes_work(node)) == ("open", False)

        assert time_passes(window, 2).state == "over"
        windows_advance()
        assert takes_work(node)
        assert closes_at(node) is None
        names = ["announced", "begun", "over"]
        assert events_of(node) == [f"node.maintenance_{name}" for name in names]

    def test_a_start_that_was_missed_is_made_up_for(self) -> None:
        node, window = (node := make_node()), announce(node.name)
        attempt = running(node)
        assert time_passes(window, 2.9).state == "draining"
        attempt.refresh_from_db()
        assert attempt.state == "stopping"

    def test_a_window_that_was_missed_whole_is_over_and_stops_no_job(self) -> None:
        node, window = (node := make_node()), announce(node.name)
        attempt = running(node)
        assert time_passes(window, 4).state == "over"
        attempt.refresh_from_db()
        assert (attempt.state, takes_work(node)) == ("running", True)
        assert events_of(node) == ["node.maintenance_announced", "node.maintenance_over"]

    def test_what_is_found_there_later_is_stopped_too(self) -> None:
        node, window = (node := make_node()), announce(node.name)
        assert time_passes(window, 1.5).state == "open"
        late = running(node)
        windows_advance()
        late.refresh_from_db()
        assert late.state == "stopping"

    def test_an_operators_cordon_and_drain_stay(self) -> None:
        cordoned, drained, plain = (make_node() for _ in range(3))
        node_change(node=cordoned, cordoned=True, rack=None, actor="user olga", why="odd noise")
        node_drain(node=drained, actor="user olga", why="to be sold", deadline=from_now(100))
        window = announce(cordoned.name, drained.name, plain.name)
        time_passes(window, 1.5)
        assert [takes_work(node) for node in (cordoned, drained, plain)] == [False, False, False]
        node_change(node=plain, cordoned=True, rack=None, actor="user olga", why="odd noise")
        time_passes(window, 2)
        for node in (cordoned, drained, plain):
            node.refresh_from_db()
        assert (cordoned.cordoned, cordoned.cordon_why, takes_work(cordoned)) == (True, "odd noise", False)
        assert (drained.draining, drained.cordon_why, takes_work(drained)) == (True, "to be sold", True)
        assert (plain.cordoned, takes_work(plain)) == (True, False), "cordoned meanwhile"


class TestChanges:
    def test_cancelled_it_closes_nothing(self) -> None:
        node, window = (node := make_node()), announce(node.name)
        window_cancel(window, actor="user olga")
        assert (closes_at(node), takes_work(node)) == (None, True)
        assert time_passes(window, 1.5).state == "cancelled"
        assert takes_work(node)
        with pytest.raises(Conflict, match=f"window {window.id} is cancelled already"):
            window_cancel(window, actor="user olga")

    def test_cancelled_while_it_is_under_way_its_nodes_take_work_again(self) -> None:
        node, window = (node := make_node()), announce(node.name)
        time_passes(window, 1.5)
        assert not takes_work(node)
        window_cancel(window, actor="user olga")
        assert takes_work(node)
        assert events_of(node)[-1] == "node.maintenance_cancelled"

    def test_moved_it_closes_then_and_the_affected_hear_of_it_again(self) -> None:
        node, other = make_node(), make_node()
        job = running(node).job
        window = announce(node.name)
        window_change(window, actor="user olga", starts_at=from_now(2))
        assert closes_at(node) == pytest.approx(from_now(2).timestamp(), abs=60)
        assert Event.objects.filter(kind="attempt.maintenance", job_id=job.id).count() == 2
        window_change(window, actor="user olga", choice=Choice(nodes=[other.name]))
        assert closes_at(node) is None
        assert closes_at(other) is not None
        assert events_of(node)[-1] == events_of(other)[-1] == "node.maintenance_changed"
        window_change(window, actor="user olga", reason="new belts")
        assert Event.objects.filter(kind="attempt.maintenance").count() == 2, "it says nothing new to jobs"

    def test_once_begun_its_end_moves_and_nothing_else_does(self) -> None:
        node, other = make_node(), make_node()
        window = announce(node.name)
        time_passes(window, 1.5)
        with pytest.raises(Conflict, match="starts_at: cannot be changed: the window has begun"):
            window_change(window, actor="user olga", starts_at=from_now(1))
        with pytest.raises(Conflict, match="nodes: cannot be changed: the window has begun"):
            window_change(window, actor="user olga", choice=Choice(nodes=[other.name]))
        with pytest.raises(Invalid, match="ends_at: is not in the future"):
            window_change(window, actor="user olga", ends_at=from_now(-0.1))
        window_change(window, actor="user olga", ends_at=from_now(9))
        time_passes(window, 2)
        assert not takes_work(node)
        assert Job.objects.count() == 0
