"""The only writer of attempts: carries out on rows the effects that `core.model.attempts` returns.

After a round has planned an attempt, all that happens to it is an event of that machine. Each function below
is one event, and the writer carries out its effects. All of it runs inside the caller's transaction, with
the job's row locked (see `steps`).
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F

from scheduler.core.model import attempts as machine
from scheduler.core.model.lifecycle import (
    ATTEMPT_LIVE,
    JOB_FINAL,
    AttemptEvent,
    AttemptState,
    JobEvent,
    Outcome,
    PartState,
    StopCause,
)
from scheduler.jobs.attempts.services import gpu_holds
from scheduler.jobs.attempts.services.failures import match_site_rules
from scheduler.jobs.attempts.services.job_steps import job_step_after
from scheduler.jobs.attempts.services.node_room import has_room, nominees_on
from scheduler.jobs.attempts.services.preemption_cost import lost_seconds_at_end, settle_preemption_cost
from scheduler.jobs.attempts.services.steps import lock_jobs, step_attempt, step_job, touch_job
from scheduler.jobs.representations import publish_jobs
from scheduler.models.attempts import Allocation, Attempt, AttemptPart
from scheduler.models.jobs import Explanation, Job
from scheduler.wiring import stream
from scheduler.wiring.clock import database_now
from scheduler.wiring.sweeps import for_each
from scheduler.wiring.wakeups import request_round_on_commit
from tenants.after_commit import after_commit

# What happens


def attempt_stop(
    attempt: Attempt,
    *,
    cause: StopCause,
    actor: str,
    message: str = "",
    preempted_by: Iterable[int] = (),
    at: datetime | None = None,
) -> None:
    """Stop an attempt. A planned one ends at once, a live one when its nodes report its end."""
    writer = _Writer(attempt, at=at or database_now(), actor=actor, why=message, preempted_by=preempted_by)
    writer.take(machine.Stopped(cause=StopCause(cause)))


def part_ready(part: AttemptPart, *, master_port: int | None) -> None:
    """Note that a node is ready; when it was the last of the gang, all nodes get the order to go."""
    writer = _Writer(
        part.attempt, at=database_now(), actor="", part=part, columns={"master_port": master_port}
    )
    writer.take(machine.PartReady(node=part.node_id))


def part_running(part: AttemptPart, *, at: datetime) -> None:
    """Note that a node runs its replicas; the attempt runs when all of its nodes do."""
    writer = _Writer(part.attempt, at=at, actor=f"node {part.node.name}", part=part)
    writer.take(machine.PartRunning(node=part.node_id))


def part_exited(
    part: AttemptPart,
    *,
    exit_code: int | None,
    category: str,
    message: str,
    at: datetime,
    actor: str,
    last_lines: str = "",
    signal: str = "",
    has_run: bool = False,
) -> None:
    """End a node's part; the attempt ends with its last part, or is stopped when it cannot go on.

    `exit_code`: None where it never started; `last_lines`: the end of the output of the replica that failed;
    `has_run`: whether it ran, which may not have been reported before.
    """
    columns = {
        "exit_code": exit_code,
        "category": category,
        "message": message[:500],
        "signal": signal[:20],
    }
    writer = _Writer(
        part.attempt, at=at, actor=actor, why=message, part=part, columns=columns, last_lines=last_lines
    )
    if has_run:
        writer.take(machine.PartRunning(node=part.node_id), writes_part=False)
    writer.take(machine.PartExited(node=part.node_id, exit_code=exit_code, category=category))


# What follows


class _Writer:
    """Carries out the effects of an event of one attempt."""

    def __init__(
        self,
        attempt: Attempt,
        *,
        at: datetime,
        actor: str,
        why: str = "",
        preempted_by: Iterable[int] = (),
        part: AttemptPart | None = None,
        columns: dict[str, Any] | None = None,
        last_lines: str = "",
    ) -> None:
        """`why`: the message of a stop. `part`: the reported part, with the `columns` of it that change."""
        self._attempt, self._at, self._actor, self._why = attempt, at, actor, why
        self._preempted_by = list(preempted_by)
        self._part, self._columns, self._last_lines = part, columns or {}, last_lines
        self.state = state_of(attempt)

    def take(self, event: machine.Event, *, writes_part: bool = True) -> None:
        """Apply the event. Raises InvalidTransition when it is impossible.

        Without `writes_part` the row of the part is left to the next event of this transaction.
        """
        self.state, effects = machine.step(self.state, event)
        for effect in effects:
            if writes_part or not isinstance(effect, machine.NotePart):
                self._carry_out(effect)

    def _carry_out(self, effect: machine.Effect) -> None:
        attempt = self._attempt
        match effect:
            case machine.Step(event=AttemptEvent.PROMOTED):
                self._step(AttemptEvent.PROMOTED, starting_at=self._at, go=self.state.go)
                touch_job(attempt.job, attempts_started=F("attempts_started") + 1)
            case machine.Step(event=AttemptEvent.RUNNING):
                self._step(AttemptEvent.RUNNING, running_at=self._at)
            case machine.Step(event=AttemptEvent.STOP):
                data = {"cause": str(self.state.stop_cause), "preempted_by": self._preempted_by}
                note = self._cause()
                self._step(AttemptEvent.STOP, why=self._why, data=data, stopping_at=self._at, **note)
                touch_job(attempt.job)
            case machine.Step():
                self._end()
            case machine.NoteCause():
                note = self._cause()
                for name, value in note.items():
                    setattr(attempt, name, value)
                Attempt.objects.filter(id=attempt.id).update(**note)
            case machine.NotePart(node=node):
                self._note_part(node)
            case machine.NoteFailure():
                self._note_failure()
            case machine.Go():
                self._go()
            case machine.StartJob():
                self._start_job()
            case machine.TellToStop(nodes=nodes):
                publish_jobs([attempt.job_id])
                stream.wake_nodes(nodes)
            case machine.ReleaseNode(node=node):
                release_gpus(attempt.allocation, node_id=node, at=self._at)
            case machine.ReleaseAll():
                if not _is_shared(attempt):
                    release_gpus(attempt.allocation, at=self._at)
            case machine.EndJob():
                self._end_job(effect)

    def _step(
        self, event: AttemptEvent, *, why: str = "", data: dict[str, Any] | None = None, **columns: Any
    ) -> None:
        step_attempt(self._attempt, event, at=self._at, actor=self._actor, why=why, data=data, **columns)

    def _cause(self) -> dict[str, Any]:
        return {
            "stop_cause": self.state.stop_cause,
            "stop_message": self._why[:500],
            "preempted_by": self._preempted_by,
        }

    def _note_part(self, node: int) -> None:
        part, columns = self._part, self._columns
        if part is None:
            # Without a report: the part ends with an attempt that never began.
            part, columns = self._attempt.parts.get(node_id=node), {}
        columns = {"state": self.state.parts[node].state, **columns}
        for name, value in columns.items():
            setattr(part, name, value)
        part.save(update_fields=list(columns))

    def _note_failure(self) -> None:
        attempt, part = self._attempt, self._part
        assert part is not None
        attempt.exit_code, attempt.category, attempt.message = part.exit_code, part.category, part.message
        attempt.signal = part.signal
        match_site_rules(attempt, part, self._last_lines)
        attempt.save(update_fields=["exit_code", "signal", "category", "message", "matched_rule"])

    def _go(self) -> None:
        attempt = self._attempt
        master = next(part for part in attempt.parts.select_related("node") if has_rank_zero(part))
        attempt.go, attempt.master_address, attempt.master_port = (
            True,
            master.node.address,
            master.master_port,
        )
        attempt.save(update_fields=["go", "master_address", "master_port"])
        stream.wake_nodes(list(self.state.parts))

    def _start_job(self) -> None:
        job = self._attempt.job
        first: dict[str, Any] = {} if job.started_at else {"started_at": self._at}
        data = {"is_trial": True} if self._attempt.is_trial else None
        step_job(job, JobEvent.STARTED, at=self._at, actor=self._actor, data=data, **first)
        if self._attempt.number > 1:
            settle_preemption_cost(job.id)
        publish_jobs([job.id])

    def _end(self) -> None:
        attempt, outcome = self._attempt, self.state.outcome
        assert outcome is not None
        exit_code = attempt.exit_code
        # Where the first part that failed never started, none is the code: others were only stopped for it.
        if exit_code is None and not attempt.category:
            is_done = outcome is Outcome.SUCCEEDED and not self.state.stop_cause
            exit_code = 0 if is_done else _first_exit_code(self.state)
            attempt.signal = "" if is_done else _first_signal(attempt)
        lost_seconds = lost_seconds_at_end(attempt, outcome, at=self._at)
        self._step(
            AttemptEvent.ENDED,
            why=attempt.message or attempt.stop_message,
            data={
                "outcome": str(outcome),
                "exit_code": exit_code,
                "cause": str(self.state.stop_cause),
                "lost_seconds": lost_seconds,
                "preempted_by": attempt.preempted_by,
            },
            outcome=outcome,
            ended_at=self._at,
            exit_code=exit_code,
            signal=attempt.signal,
            stop_cause=self.state.stop_cause,
            lost_seconds=lost_seconds,
        )

    def _end_job(self, end: machine.EndJob) -> None:
        job = self._attempt.job
        job_step_after(job, self._attempt, end, at=self._at, actor=self._actor)
        if end.was_live:
            self._follow_on(job)
        publish_jobs([job.id])
        request_round_on_commit()

    def _follow_on(self, job: Job) -> None:
        """A job that moved has left its old place: it starts in the new one, or no longer needs it."""
        for planned in Attempt.objects.filter(job=job, state=AttemptState.PLANNED).select_related(
            "allocation"
        ):
            if job.state in JOB_FINAL:
                planned.job = job
                _Writer(planned, at=self._at, actor=self._actor).take(machine.Withdrawn())
            else:
                promote(planned.allocation_id)


def state_of(attempt: Attempt) -> machine.State:
    """Return an attempt and its parts as the machine knows them."""
    rows = attempt.parts.order_by("id").values_list("node_id", "state", "exit_code", "category")
    return machine.State(
        id=attempt.id,
        state=AttemptState(attempt.state),
        parts={
            node: machine.Part(state=PartState(state), exit_code=exit_code, category=category)
            for node, state, exit_code, category in rows
        },
        go=attempt.go,
        stop_cause=StopCause(attempt.stop_cause),
        outcome=Outcome(attempt.outcome) if attempt.outcome else None,
    )


def _is_shared(attempt: Attempt) -> bool:
    """Whether another job still has, or is to have, the same GPUs."""
    others = Attempt.objects.filter(allocation=attempt.allocation).exclude(id=attempt.id)
    return others.exclude(state=AttemptState.ENDED).exists()


def _first_exit_code(state: machine.State) -> int | None:
    return next((part.exit_code for part in state.parts.values() if part.exit_code), None)


def _first_signal(attempt: Attempt) -> str:
    parts = attempt.parts.exclude(signal="").order_by("id")
    return parts.values_list("signal", flat=True).first() or ""


def has_rank_zero(part: AttemptPart) -> bool:
    return any(replica["rank"] == 0 for replica in part.replicas)


# GPUs that come free, and the allocations nominated for them


def release_gpus(allocation: Allocation, *, at: datetime, node_id: int | None = None) -> None:
    """Free an allocation's GPUs (of one node), unless another of its jobs still uses them there."""
    gpus = gpu_holds.release(allocation, at=at, node_id=node_id)
    for allocation_id in gpu_holds.nominees(gpus) if gpus else ():
        promote(allocation_id)
    nodes = [node_id] if node_id is not None else allocation.nodes or []
    for allocation_id in nominees_on(nodes) if nodes else ():
        after_commit(_promote_alone, allocation_id)
    if gpus or allocation.nodes is not None:
        request_round_on_commit()


def promote_overdue() -> None:
    """Start every nominated allocation that need not wait any longer, each in a transaction of its own.

    A release and the round that names a successor for the same GPUs may commit without having seen each
    other: the release finds no successor yet, and the round still finds a holder. The release asks for
    another round, which begins with this. One that cannot start must not keep rounds from being decided.
    """
    for_each("the promotion of allocation", gpu_holds.overdue(), _promote_alone)


def promote(allocation_id: int) -> None:
    """Turn a nominated allocation into a held one if all its GPUs are free and its jobs have stopped.

    The caller has locked another job, so waiting for these could deadlock (decision 0004). If another
    transaction has locked one of them, this runs after the commit, in a transaction that holds no lock yet.
    """
    if not _promote(allocation_id, waits=False):
        after_commit(_promote_alone, allocation_id)


@transaction.atomic
def _promote_alone(allocation_id: int) -> None:
    _promote(allocation_id, waits=True)


def _promote(allocation_id: int, *, waits: bool) -> bool:
    """Promote an allocation if it may be; return whether all its jobs could be locked to decide this.

    It is held from the present time, not from the time that its caller read: another predecessor may have
    gone since then, by a later time.
    """
    planned = Attempt.objects.filter(allocation_id=allocation_id, state=AttemptState.PLANNED)
    job_ids = list(planned.values_list("job_id", flat=True))
    if len(lock_jobs(job_ids, waits=waits)) < len(job_ids):
        return False
    # Read under the locks: the transaction that had them may have changed all of it.
    attempts = list(planned.select_related("job", "allocation").order_by("job_id"))
    needs_nodes = bool(attempts) and attempts[0].allocation.nodes is not None
    if needs_nodes and not waits:
        # It locks nodes, which a transaction that holds other jobs must not wait for.
        return False
    # A job that is being moved must have left its old place first.
    moving = Attempt.objects.filter(job_id__in=job_ids, state__in=ATTEMPT_LIVE)
    is_free = attempts and not moving.exists() and gpu_holds.may_promote(allocation_id)
    if is_free and (not needs_nodes or has_room(allocation_id)):
        _begin(allocation_id, attempts, at=database_now())
    return True


def _begin(allocation_id: int, attempts: Sequence[Attempt], *, at: datetime) -> None:
    gpu_holds.hold(allocation_id, at=at)
    nodes: set[int] = set()
    for attempt in attempts:
        writer = _Writer(attempt, at=at, actor="release")
        writer.take(machine.Promoted())
        nodes.update(writer.state.parts)
    _tell_of_start([attempt.job_id for attempt in attempts], nodes)


def _tell_of_start(job_ids: Sequence[int], nodes: Collection[int]) -> None:
    Explanation.objects.filter(job_id__in=job_ids).delete()
    publish_jobs(job_ids)
    gpu_holds.touch_nodes(nodes)
    stream.wake_nodes(nodes)
