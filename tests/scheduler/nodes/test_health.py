"""What health checks and deadlines do to a node: who takes it out of service, and who gives it back."""

from datetime import timedelta

import pytest
from django.utils import timezone

from nodeagent.messages import PROTOCOL, Finding, Report
from scheduler.agents.services import draining
from scheduler.agents.services.draining import drain_overdue, node_drain
from scheduler.agents.services.reports import report_apply
from scheduler.models import Attempt, Event, Node, NodeCheck
from scheduler.nodes.services.health import return_sound_nodes
from scheduler.nodes.services.managing import node_change
from scheduler.rounds.snapshot import read_snapshot
from tenants.errors import Conflict
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node, make_vc

pytestmark = pytest.mark.django_db

OK = Finding(name="work_folder", verdict="ok", message="80% of 100.0 GiB are free.")
FULL = Finding(name="work_folder", verdict="failed", message="/work is full.")


def tell(node: Node, *findings: Finding | None) -> Node:
    """Let the node report; return it as it is then. Without findings: as the server knows them."""
    report_apply(
        node, Report(protocol=PROTOCOL, boot=node.boot, generation=0, findings=findings if findings else None)
    )
    node.refresh_from_db()
    return node


def time_passes(node: Node, seconds: float = 1_000.0) -> None:
    NodeCheck.objects.filter(node=node).update(since=timezone.now() - timedelta(seconds=seconds))


def events_of(node: Node) -> list[str]:
    return [*Event.objects.filter(node_id=node.id).order_by("id").values_list("kind", flat=True)]


def returned(node: Node) -> bool:
    return_sound_nodes()
    node.refresh_from_db()
    return not node.cordoned


class TestReturning:
    def test_a_failed_check_cordons_and_the_node_returns_when_all_have_been_ok_for_a_while(self) -> None:
        node = make_node()
        assert not tell(node, OK).cordoned
        tell(node, FULL)
        assert (node.cordoned, node.cordoned_by, node.returns_itself) == (True, "health", True)
        assert node.cordon_why == "work_folder: /work is full."
        time_passes(node)
        assert not returned(node), "still full"
        tell(node, OK)
        assert not returned(node), "not for long enough"
        time_passes(node)
        assert returned(node)
        assert (node.cordoned_by, node.cordon_why, node.cordoned_at) == ("", "", None)
        assert events_of(node) == [
            "node.check",
            "node.cordoned",
            "node.check",
            "node.returned",
        ]
        turned = Event.objects.filter(node_id=node.id, kind="node.check").order_by("id").first()
        assert turned is not None
        assert (turned.from_state, turned.to_state, turned.message) == (
            "ok",
            "failed",
            "work_folder: /work is full.",
        )

    def test_warnings_and_failures_of_one_gpu_do_not_cordon_and_a_warning_puts_off_the_return(self) -> None:
        node = make_node()
        slow = Finding(name="clock", verdict="warning", message="The clock is 9 s behind the server's.")
        broken = Finding(name="gpu-1", verdict="failed", message="Xid 79", gpu=1)
        assert not tell(node, slow, broken).cordoned
        tell(node, slow, broken, FULL)
        tell(node, slow, broken, OK)
        time_passes(node)
        assert not returned(node)
        tell(node, Finding(name="clock", verdict="ok"), broken, OK)
        time_passes(node)
        assert returned(node)

    def test_who_returns_too_often_stays(self, settings) -> None:
        node = make_node()
        for _ in range(settings.CONFIG.node_returns_per_day):
            tell(node, FULL)
            tell(node, OK)
            time_passes(node)
            assert returned(node)
        tell(node, FULL)
        tell(node, OK)
        time_passes(node)
        assert not returned(node)
        assert node.cordon_why.endswith(
            "is full. It returned 3 times today already, and waits for an operator."
        )
        Event.objects.filter(kind="node.returned").update(at=timezone.now() - timedelta(days=2))
        node_change(node=node, cordoned=False, rack=None, actor="olga")
        assert tell(node, FULL).returns_itself

    def test_a_persons_word_stands(self) -> None:
        node = make_node()
        tell(node, FULL)
        # Taken over by a person, it is not given back by the platform.
        node_change(node=node, cordoned=True, rack=None, actor="olga", why="new disk")
        tell(node, OK)
        time_passes(node)
        assert not returned(node)
        assert (node.cordoned_by, node.cordon_why) == ("olga", "new disk")
        # Resumed by a person, it stays so though the same check still fails.
        tell(node, FULL)
        node_change(node=node, cordoned=False, rack=None, actor="olga")
        assert not tell(node, FULL, Finding(name="clock", verdict="ok")).cordoned
        assert not tell(node).cordoned

    def test_checks_that_are_gone_are_forgotten_and_nothing_new_changes_nothing(self) -> None:
        node = tell(make_node(), OK, Finding(name="script", verdict="warning"))
        version = node.version
        assert tell(node, OK, Finding(name="script", verdict="warning")).version == version
        assert tell(node, OK).version > version
        assert [*node.checks.values_list("name", flat=True)] == ["work_folder"]


class TestDeadlines:
    def test_until_the_deadline_jobs_go_on_and_only_short_ones_start(self) -> None:
        node, deadline = make_node(), timezone.now() + timedelta(hours=1)
        vc = make_vc(default_time_limit_seconds=86_400)
        attempt = make_attempt(make_job(virtual_cluster=vc), gpus_of(node)[:1])
        short = make_job(virtual_cluster=vc, time_limit_seconds=1_800)
        node_drain(node=node, actor="olga", why="new fans", deadline=deadline)
        node.refresh_from_db()
        attempt.refresh_from_db()
        assert (node.cordoned, node.draining, attempt.state) == (False, True, "running")
        told = Event.objects.get(job_id=attempt.job_id, kind="attempt.drain_announced")
        assert (told.data["node"], told.data["why"]) == (node.name, "new fans")
        drain_overdue()
        attempt.refresh_from_db()
        assert attempt.state == "running"

        facts = read_snapshot(1)
        assert facts.nodes[0].schedulable
        assert facts.nodes[0].closes_at == pytest.approx(deadline.timestamp())
        assert {job.id: job.outlasts for job in facts.jobs} == {attempt.job_id: (node.id,), short.id: ()}

    def test_at_the_deadline_what_is_left_is_stopped_and_queued(self) -> None:
        node = make_node()
        attempt = make_attempt(make_job(), gpus_of(node)[:1])
        node_drain(node=node, actor="olga", why="new fans", deadline=timezone.now() + timedelta(hours=1))
        Node.objects.update(drain_deadline=timezone.now())
        drain_overdue()
        drain_overdue()
        node.refresh_from_db()
        attempt.refresh_from_db()
        assert (attempt.state, attempt.stop_cause) == ("stopping", "drained")
        assert (node.cordoned, node.draining, node.drain_deadline) == (True, True, None)
        assert (node.cordoned_by, node.cordon_why) == ("olga", "new fans")
        assert events_of(node) == ["node.drain_announced", "node.draining"]
        with pytest.raises(Conflict, match="being drained already"):
            node_drain(node=node, actor="olga", deadline=timezone.now() + timedelta(hours=1))

    def test_what_cannot_be_stopped_keeps_no_other_on_the_node_or_on_the_next(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        nodes = [make_node(gpus=2), make_node(gpus=1)]
        attempts = [make_attempt(make_job(), [gpu]) for node in nodes for gpu in gpus_of(node)]
        for node in nodes:
            node_drain(node=node, actor="olga", deadline=timezone.now() + timedelta(hours=1))
        Node.objects.update(drain_deadline=timezone.now())
        stop = draining.attempt_stop

        def attempt_stop(attempt: Attempt, **how: object) -> None:
            if attempt.id == attempts[0].id:
                raise ZeroDivisionError
            stop(attempt, **how)  # type: ignore[arg-type]

        def states() -> list[str]:
            return [Attempt.objects.get(id=attempt.id).state for attempt in attempts]

        monkeypatch.setattr(draining, "attempt_stop", attempt_stop)
        for _ in range(2):
            drain_overdue()
            assert states() == ["running", "stopping", "stopping"]
        assert events_of(nodes[0]) == ["node.drain_announced", "node.draining"]
        monkeypatch.setattr(draining, "attempt_stop", stop)
        drain_overdue()
        assert states() == ["stopping"] * 3
        assert not Node.objects.filter(drain_deadline__isnull=False).exists()

    def test_a_deadline_can_be_moved_and_called_off(self) -> None:
        node = make_node(cordoned=True)
        attempt = make_attempt(make_job(), gpus_of(node)[:1])
        for hours in (1, 2):
            node_drain(node=node, actor="olga", deadline=timezone.now() + timedelta(hours=hours))
        node.refresh_from_db()
        assert node.cordoned, "it accepted nothing before, and does not now"
        node_change(node=node, cordoned=False, rack=None, actor="olga")
        Node.objects.filter(drain_deadline__isnull=False).update(drain_deadline=timezone.now())
        drain_overdue()
        node.refresh_from_db()
        attempt.refresh_from_db()
        assert (node.cordoned, node.draining, attempt.state) == (False, False, "running")

    def test_a_check_that_fails_meanwhile_closes_the_node_and_does_not_give_it_back(self) -> None:
        node = tell(make_node(), OK)
        node_drain(node=node, actor="olga", why="new fans", deadline=timezone.now() + timedelta(hours=1))
        tell(node, FULL)
        assert (node.cordoned, node.returns_itself, node.cordon_why) == (True, False, "new fans")
        tell(node, OK)
        time_passes(node)
        assert not returned(node)
