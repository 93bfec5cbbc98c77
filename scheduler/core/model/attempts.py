"""An attempt as a pure machine: (state, event) -> (state, effects).

Agents, people, rounds and clocks cause events; `step` returns the attempt's new state and the effects to
carry out, in order. Nothing is written, sent or looked up here. The live loop carries the effects out on
rows, the simulator on its variables: so an attempt's steps, its outcome and what becomes of its job are the
same in both.

Repeated events, and events after the end, change nothing. Impossible events raise InvalidTransition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from scheduler.core.model.errors import InvalidTransition
from scheduler.core.model.lifecycle import (
    ATTEMPT_LIVE,
    AttemptEvent,
    AttemptState,
    Outcome,
    PartState,
    StopCause,
    attempt_step,
)

#: The category of a part whose node was lost.
LOST = "lost"

#: The outcome of a stopped attempt, by the cause.
OUTCOME_BY_CAUSE: Mapping[StopCause, Outcome] = {
    StopCause.PREEMPTED: Outcome.PREEMPTED,
    StopCause.MIGRATED: Outcome.PREEMPTED,
    StopCause.RESIZED: Outcome.PREEMPTED,
    StopCause.DRAINED: Outcome.PREEMPTED,
    StopCause.CANCELLED: Outcome.CANCELLED,
    StopCause.TIME_LIMIT: Outcome.FAILED,
    StopCause.PART_FAILED: Outcome.FAILED,
    StopCause.NODE_LOST: Outcome.LOST,
    StopCause.GANG_TIMEOUT: Outcome.LOST,
    StopCause.STUCK: Outcome.FAILED,
    StopCause.IDLE_GPUS: Outcome.FAILED,
    StopCause.TRIAL_OVER: Outcome.SUCCEEDED,
}
_BEFORE_RUNNING = frozenset({PartState.WAITING, PartState.READY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one node does for an attempt."""

    state: PartState = PartState.WAITING
    exit_code: int | None = None
    #: Why it ended, in the agent's word; empty: by itself.
    category: str = ""

    @property
    def succeeded(self) -> bool:
        """Exited with 0 by itself, not because something stopped it."""
        return self.exit_code == 0 and not self.category


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The facts about an attempt that decide its steps."""

    #: For error messages.
    id: int
    state: AttemptState = AttemptState.PLANNED
    #: By node. The simulator has one part for all nodes of a gang, since there they act at the same time.
    parts: Mapping[int, Part]
    #: Whether its nodes were sent the order to start.
    go: bool = False
    #: Why it stops or has stopped; set for a failed gang also where no other part was left to stop.
    stop_cause: StopCause = StopCause.NONE
    #: Set exactly when it has ended.
    outcome: Outcome | None = None

    @property
    def is_live(self) -> bool:
        """Whether it holds GPUs."""
        return self.state in ATTEMPT_LIVE

    @property
    def unended_nodes(self) -> tuple[int, ...]:
        """The nodes on which a part of it may be alive, or is to start."""
        return tuple([node for node, part in self.parts.items() if part.state is not PartState.EXITED])


# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class Promoted:
    """Its GPUs are free for it: no other attempt holds them any more, and its job has left its old GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """Its job ended before its turn came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """It has to stop."""

    cause: StopCause


@dataclass(frozen=True, slots=True, kw_only=True)
class PartReady:
    """A node has prepared its part."""

    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRunning:
    """A node runs its replicas."""

    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartExited:
    """Nothing of the attempt is alive on a node any more."""

    node: int
    #: None where it never started.
    exit_code: int | None
    category: str = ""


PartEvent = PartReady | PartRunning | PartExited
Event = Promoted | Withdrawn | Stopped | PartEvent

# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Write that it took this step; the rest of the new state follows."""

    event: AttemptEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteCause:
    """Write why it stops; nothing else changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotePart:
    """Write the state of the part on a node."""

    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteFailure:
    """Write why the part on a node failed, as the first of the attempt."""

    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Go:
    """Order all nodes to start, and send them the address of rank 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartJob:
    """Its job runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TellToStop:
    """Order these nodes to stop their parts; pages that show the job are refreshed."""

    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseNode:
    """Give back its GPUs on a node, unless another job still uses them there."""

    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseAll:
    """Give back all GPUs that it holds or is nominated for, unless another job of the allocation has or will
    have them.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class EndJob:
    """Take the job's next step (`job_after`), then that of an attempt planned for it."""

    outcome: Outcome
    #: Whether it ever held GPUs.
    was_live: bool


Effect = (
    Step | NoteCause | NotePart | NoteFailure | Go | StartJob | TellToStop | ReleaseNode | ReleaseAll | EndJob
)
Effects = tuple[Effect, ...]


def planned(attempt: int, nodes: Iterable[int]) -> State:
    """Return an attempt as a round makes it, on these nodes; it is promoted once its GPUs are free."""
    return State(id=attempt, parts=dict.fromkeys(nodes, Part()))


def step(state: State, event: Event) -> tuple[State, Effects]:
    """Process one event; return the new state and the effects to carry out, in order.

    Raises InvalidTransition for an event that is impossible in this state.
    """
    match event:
        case Promoted():
            # One node has no other to wait for.
            return _stepped(state, AttemptEvent.PROMOTED, go=len(state.parts) == 1)
        case Withdrawn() if state.state is AttemptState.PLANNED:
            return _ended(state, Outcome.CANCELLED)
        case Withdrawn():
            raise InvalidTransition("attempt", state.id, state.state, "withdrawn")
        case Stopped():
            return _stopped(state, event.cause)
        case PartReady() | PartRunning() | PartExited():
            return _part(state, event)


def _stepped(state: State, event: AttemptEvent, **changes: object) -> tuple[State, Effects]:
    after = attempt_step(state.id, state.state, event)
    return replace(state, state=after, **changes), (Step(event=event),)  # type: ignore[arg-type]


def _stopped(state: State, cause: StopCause) -> tuple[State, Effects]:
    match state.state:
        case AttemptState.PLANNED:
            state, effects = _ended(replace(state, stop_cause=cause), OUTCOME_BY_CAUSE[cause])
            return state, (NoteCause(), *effects)
        case AttemptState.STOPPING if cause is StopCause.CANCELLED and state.stop_cause is not cause:
            # A user's cancel outranks any other cause: its job must not be queued again.
            return replace(state, stop_cause=cause), (NoteCause(),)
        case AttemptState.STOPPING:
            return state, ()
        case _:
            state, effects = _stepped(state, AttemptEvent.STOP, stop_cause=cause)
            return state, (*effects, *_left(state), TellToStop(nodes=state.unended_nodes))


def _left(state: State) -> Effects:
    """Release nodes that a stopping gang has left; a gang that goes on holds all its GPUs, as granted."""
    if state.state is not AttemptState.STOPPING:
        return ()
    exited = [node for node, part in state.parts.items() if part.state is PartState.EXITED]
    return tuple([ReleaseNode(node=node) for node in exited])


def _part(state: State, event: PartEvent) -> tuple[State, Effects]:
    if state.state is AttemptState.PLANNED or event.node not in state.parts:
        # No node knows of it yet, or this node never will.
        raise InvalidTransition("attempt", state.id, state.state, f"{_words(event)} on node {event.node}")
    part = state.parts[event.node]
    if state.state is AttemptState.ENDED or part.state is PartState.EXITED:
        return state, ()
    match event:
        case PartReady() if part.state is PartState.WAITING:
            return _ready(_with(state, event.node, replace(part, state=PartState.READY)), event.node)
        case PartRunning() if part.state in _BEFORE_RUNNING:
            return _running(_with(state, event.node, replace(part, state=PartState.RUNNING)), event.node)
        case PartExited():
            ended = Part(state=PartState.EXITED, exit_code=event.exit_code, category=event.category)
            return _exited(_with(state, event.node, ended), event.node)
        case _:
            return state, ()


def _words(event: PartEvent) -> str:
    return {PartReady: "ready", PartRunning: "running", PartExited: "exited"}[type(event)]


def _with(state: State, node: int, part: Part) -> State:
    return replace(state, parts={**state.parts, node: part})


def _ready(state: State, node: int) -> tuple[State, Effects]:
    """When the last part of a gang is ready, order all to start."""
    noted = NotePart(node=node)
    is_ready = all(part.state is PartState.READY for part in state.parts.values())
    if not is_ready or state.go or state.state is not AttemptState.STARTING:
        return state, (noted,)
    return replace(state, go=True), (noted, Go())


def _running(state: State, node: int) -> tuple[State, Effects]:
    """Let the attempt run when all of its nodes run or have run."""
    noted = NotePart(node=node)
    waits = any(part.state in _BEFORE_RUNNING for part in state.parts.values())
    if waits or state.state is not AttemptState.STARTING:
        return state, (noted,)
    state, effects = _stepped(state, AttemptEvent.RUNNING)
    return state, (noted, *effects, StartJob())


def _exited(state: State, node: int) -> tuple[State, Effects]:
    """End the attempt with its last part, or stop it if it cannot go on without this one."""
    effects: Effects = (NotePart(node=node),)
    part = state.parts[node]
    if not part.succeeded and state.state is not AttemptState.STOPPING:
        cause = StopCause.NODE_LOST if part.category == LOST else StopCause.PART_FAILED
        effects = (*effects, NoteFailure(node=node))
        if state.unended_nodes:
            state, stopped = _stopped(state, cause)
            return state, (*effects, *stopped)
        state = replace(state, stop_cause=cause)
    if state.unended_nodes:
        return state, (*effects, *_left(state))
    state, ended = _ended(state, _outcome(state))
    return state, (*effects, *ended)


def _outcome(state: State) -> Outcome:
    # A part that exits 0 because it was stopped has saved its work, not finished it. A part that exits 0 by
    # itself is finished, even if an order to stop was already on its way.
    if all(part.succeeded for part in state.parts.values()):
        return Outcome.SUCCEEDED
    return OUTCOME_BY_CAUSE.get(state.stop_cause, Outcome.FAILED)


def _ended(state: State, outcome: Outcome) -> tuple[State, Effects]:
    """End the attempt, and with it the parts that no node knows of."""
    was_live, unheard = state.is_live, state.unended_nodes
    for node in unheard:
        state = _with(state, node, replace(state.parts[node], state=PartState.EXITED))
    noted = tuple([NotePart(node=node) for node in unheard])
    state, effects = _stepped(state, AttemptEvent.ENDED, outcome=outcome)
    return state, (*noted, ReleaseAll(), *effects, EndJob(outcome=outcome, was_live=was_live))


# What else the live loop and the simulator have in common


class JobAfter(StrEnum):
    """What becomes of a job when an attempt of it has ended."""

    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"
    #: Its trial run went well: it waits for all of its GPUs.
    TRIAL_PASSED = "trial_passed"
    #: It is retried where its failure allows it, else it has failed.
    FAILED = "failed"
    #: It waits for another attempt, since its GPUs were taken or lost.
    PREEMPTED = "preempted"
    LOST = "lost"
    #: The attempt never began, and the job stays as it is.
    UNCHANGED = "unchanged"


def job_after(end: EndJob, *, is_trial: bool, cancelling: bool) -> JobAfter:
    """Return what becomes of the job; `cancelling`: its user has cancelled it."""
    has_succeeded = end.outcome is Outcome.SUCCEEDED
    if has_succeeded and not is_trial:
        return JobAfter.SUCCEEDED
    if cancelling:
        return JobAfter.CANCELLED
    if has_succeeded:
        return JobAfter.TRIAL_PASSED
    if end.outcome is Outcome.FAILED:
        return JobAfter.FAILED
    if not end.was_live:
        return JobAfter.UNCHANGED
    return JobAfter.PREEMPTED if end.outcome is Outcome.PREEMPTED else JobAfter.LOST


def stop_cause(cause: StopCause, *, is_over: bool, cancelling: bool) -> StopCause:
    """Return why one job stops when its whole allocation is stopped for `cause`.

    A time limit (`is_over`: reached by this job) and a cancellation concern one job: jobs that share its GPUs
    stop for the moment, and go on later.
    """
    if (cause is StopCause.TIME_LIMIT and not is_over) or (cause is StopCause.CANCELLED and not cancelling):
        return StopCause.PREEMPTED
    return cause
