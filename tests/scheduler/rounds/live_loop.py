"""The live loop in virtual time: rows, services, rounds, and agents that do at once what they are told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from django.test import TestCase

from scheduler.core.model import codec
from scheduler.core.model.lifecycle import AttemptState
from scheduler.core.model.plan import Action, Placement
from scheduler.core.model.snapshot import Snapshot
from scheduler.jobs.attempts.services.lifecycle import part_exited, part_ready, part_running
from scheduler.jobs.services.control import job_cancel, job_submit
from scheduler.models import Attempt, AttemptPart, Job, Node, Round
from scheduler.models.attempts import PartState, StopCause
from scheduler.rounds.run import run_round
from scheduler.wiring.clock import database_now
from tenants.models import Tenant, User
from tenants.selectors import viewer_of
from tests.scheduler.builders import make_member
from tests.scheduler.rounds.virtual_clock import VirtualClock

#: Causes after which a job goes on elsewhere: it writes a checkpoint before it leaves.
_GOES_ON = (StopCause.PREEMPTED, StopCause.MIGRATED, StopCause.RESIZED, StopCause.DRAINED)


@dataclass(frozen=True, slots=True, order=True)
class Act:
    """An action in words that mean the same in the live loop and in the simulator."""

    kind: str
    jobs: tuple[int, ...]
    virtual_cluster: str
    guaranteed: bool
    cause: str = ""
    preempted_by: tuple[int, ...] = ()
    gpu_model: str = ""
    #: By replica: node and index of each GPU; of one without GPUs its node, and no index.
    where: tuple[tuple[tuple[str, int], ...], ...] = ()


class Places:
    """Nodes and indexes of GPUs, by id."""

    def __init__(self, facts: Snapshot) -> None:
        self._places = {gpu.id: (node.name, gpu.index) for node in facts.nodes for gpu in node.gpus}
        self._names = {node.id: node.name for node in facts.nodes}

    def act(self, action: Action, number_of: Callable[[int], int]) -> Act:
        """Return the action with the jobs' numbers in the story."""
        placement = action.placement
        return Act(
            kind=str(action.kind),
            jobs=tuple(sorted(map(number_of, action.jobs))),
            virtual_cluster=action.virtual_cluster,
            guaranteed=action.guaranteed,
            cause=action.cause,
            preempted_by=tuple(sorted(map(number_of, action.preempted_by))),
            gpu_model=placement.gpu_model if placement else "",
            where=self.where(placement) if placement else (),
        )

    def where(self, placement: Placement) -> tuple[tuple[tuple[str, int], ...], ...]:
        found = [tuple(self._places[gpu] for gpu in replica) for replica in placement.replicas]
        for number, node in enumerate(placement.nodes):
            found[number] = found[number] or ((self._names[node], -1),)
        return tuple(found)


class ScenarioEvent(Protocol):
    """Something that happens to the live loop at an instant."""

    @property
    def at(self) -> int: ...

    def happen_live(self, loop: LiveLoop) -> None: ...


class LiveLoop:
    """Plays events on rows. A job that is to go on elsewhere leaves its GPUs after `pause_seconds`."""

    def __init__(self, clock: VirtualClock, places: Places, *, pause_seconds: int = 0) -> None:
        self._clock, self._places, self._pause = clock, places, pause_seconds
        #: The row's id by the job's number in the story, and the other way round.
        self.ids: dict[int, int] = {}
        self.numbers: dict[int, int] = {}
        #: When each stopping attempt will have left.
        self._leaves_at: dict[int, float] = {}

    def play(
        self, events: Sequence[ScenarioEvent], *, until: int, round_seconds: int
    ) -> dict[int, list[Act]]:
        """Run a round at every tick; return the actions of those rounds that had any, by instant."""
        acts: dict[int, list[Act]] = {}
        coming = list(events)
        for tick in range(0, until + 1, round_seconds):
            self._pass_to(tick, coming)
            found = self._round()
            self._settle()
            if found:
                acts[tick] = sorted(found)
        return acts

    def _pass_to(self, instant: int, coming: list[ScenarioEvent]) -> None:
        """Let everything happen up to that instant, in its order."""
        while True:
            leaving = min(self._leaves_at.values(), default=instant + 1)
            event = coming[0].at if coming else instant + 1
            if min(leaving, event) > instant:
                break
            self._clock.move_to(min(leaving, event))
            if event <= leaving:
                coming.pop(0).happen_live(self)
            self._settle()
        self._clock.move_to(instant)

    def _round(self) -> list[Act]:
        record = Round.objects.get(number=run_round())
        assert (record.state, record.error, record.degraded, record.dropped) == ("applied", "", {}, [])
        assert record.plan is not None
        plan = codec.loads_plan(bytes(record.plan))
        return [self._places.act(action, self.numbers.__getitem__) for action in plan.actions]

    # What agents do

    def _settle(self) -> None:
        """Let the agents act until nothing is left to do: who starts runs, whose time is up leaves."""
        while self._start_all() or self._leave_all():
            pass

    def _start_all(self) -> bool:
        starting = list(Attempt.objects.filter(state=AttemptState.STARTING).order_by("id"))
        for attempt in starting:
            for part in _parts(attempt):
                part_ready(part, master_port=29_500)
            for part in _parts(attempt):
                part_running(part, at=database_now())
        return bool(starting)

    def _leave_all(self) -> bool:
        stopping = {each.id: each for each in Attempt.objects.filter(state=AttemptState.STOPPING)}
        for number, attempt in stopping.items():
            pause = self._pause if attempt.stop_cause in _GOES_ON else 0
            self._leaves_at.setdefault(number, self._clock.seconds + pause)
        gone = sorted(number for number, instant in self._leaves_at.items() if instant <= self._clock.seconds)
        for number in gone:
            del self._leaves_at[number]
            if number in stopping:
                self._exit(stopping[number], exit_code=143, category="stopped")
        return bool(gone)

    def _exit(self, attempt: Attempt, *, exit_code: int, category: str = "") -> None:
        for part in _parts(attempt):
            # A commit is followed by the start of who waited for CPUs or memory.
            with TestCase.captureOnCommitCallbacks(execute=True):
                part_exited(
                    part,
                    exit_code=exit_code,
                    category=category,
                    message="",
                    at=database_now(),
                    actor=f"node {part.node.name}",
                )

    # What people do, and what jobs do by themselves

    def submit(self, number: int, tenant: str, user: str, spec: Mapping[str, Any]) -> None:
        member = User.objects.filter(username=user).first()
        if member is None:
            member = make_member(Tenant.objects.get(name=tenant), user)
        job = job_submit(viewer=viewer_of(member), tenant=tenant, spec=dict(spec))
        self.ids[number], self.numbers[job.id] = job.id, number

    def finish(self, number: int) -> None:
        """A job that runs is done."""
        for attempt in Attempt.objects.filter(job_id=self.ids[number], state=AttemptState.RUNNING):
            self._exit(attempt, exit_code=0)

    def cancel(self, number: int) -> None:
        job = Job.objects.get(id=self.ids[number])
        if job.ended_at is None:
            job_cancel(job_id=job.id, actor="a test")


def _parts(attempt: Attempt) -> list[AttemptPart]:
    """Return the parts that have not exited, each with rows of its own as a request would have them."""
    left = AttemptPart.objects.filter(attempt=attempt).exclude(state=PartState.EXITED).order_by("id")
    numbers = list(left.values_list("id", flat=True))
    rows = AttemptPart.objects.select_related("attempt__job", "attempt__allocation", "node")
    return [rows.get(id=number) for number in numbers]


def node_named(name: str) -> Node:
    return Node.objects.get(name=name)
