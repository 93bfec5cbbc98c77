"""The agent's decisions, pure: (state, event) -> (state, instructions).

No clock, no files, no network: `agent.py` feeds events in and carries the instructions out. Every event may
come twice, late or never; a part only ever moves forward through its phases, so nothing is started twice and
nothing that has to stop goes on. One part is one attempt on this node.

    preparing -> ready -> starting -> running -> stopping -> exited -> (forgotten)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from nodeagent.grace import shorter_grace
from nodeagent.messages import Category, DesiredPart, DesiredState, PartState, Turn


class Phase(StrEnum):
    """How far one attempt has come on this node."""

    PREPARING = "preparing"
    READY = "ready"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    EXITED = "exited"


#: What the server gets; it need not know that a start is under way.
REPORTED: Mapping[Phase, PartState] = {
    Phase.PREPARING: "preparing",
    Phase.READY: "ready",
    Phase.STARTING: "ready",
    Phase.RUNNING: "running",
    Phase.STOPPING: "stopping",
    Phase.EXITED: "exited",
}
#: Phases in which there are, or may be, processes.
ALIVE = frozenset({Phase.STARTING, Phase.RUNNING, Phase.STOPPING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a part ended. `exit_code` is None when it never ran."""

    exit_code: int | None
    category: Category
    message: str
    started_at: float | None = None
    ended_at: float | None = None
    #: The end of the output of the replica that failed first.
    last_lines: str = ""
    #: Name of the signal that ended that replica, such as SIGSEGV; "" when none did.
    signal: str = ""


NEVER_STARTED = Outcome(exit_code=None, category="stopped", message="It was stopped before it started.")
LEFT = Outcome(exit_code=None, category="lost", message="The node agent was stopped before it started.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What the agent knows of one attempt."""

    #: What the newest answer of the server that named this attempt says of it.
    desired: DesiredPart
    phase: Phase = Phase.PREPARING
    #: False once a newer DesiredState no longer names it.
    is_desired: bool = True
    #: Not prepared yet: its GPUs are held by what the server has given up and is not dead yet.
    is_waiting: bool = False
    master_port: int | None = None
    started_at: float | None = None
    #: The shortest grace it was asked to stop with, when it was.
    stop_grace_seconds: float | None = None
    outcome: Outcome | None = None
    #: Whether what preparing it takes was given back.
    is_released: bool = False
    is_acknowledged: bool = False
    is_shipped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The agent's whole memory that decides anything. Times are seconds of the machine's boot clock."""

    generation: int = 0
    lease_deadline: float = 0.0
    is_leaving: bool = False
    parts: Mapping[int, Part] = field(default_factory=dict)


# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptAdopted:
    """Found in the work folder when the agent started. Nothing is done before the server has spoken."""

    part: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredReceived:
    """The answer to a report sent at `sent_at` that said these attempts had exited."""

    desired: DesiredState
    sent_at: float
    exited: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPrepared:
    attempt: int
    master_port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted:
    attempt: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptExited:
    """Nothing of the attempt is alive on this node any more."""

    attempt: int
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsShipped:
    """All output of an exited attempt is stored at the server, or never will be."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseChecked:
    now: float
    #: Attempts that stand still since the lease ended.
    frozen: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLeaving:
    """The agent is going and takes its attempts with it."""

    grace_seconds: float


Event = (
    AttemptAdopted
    | DesiredReceived
    | AttemptPrepared
    | AttemptStarted
    | AttemptExited
    | LogsShipped
    | LeaseChecked
    | AgentLeaving
)

# Instructions


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendLease:
    deadline: float
    lease_seconds: float
    #: Those that the server still names: if the lease had ended, they may go on.
    attempts: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    desired: DesiredPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """It will not be started: give back what preparing took."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    desired: DesiredPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """SIGTERM, `grace_seconds`, SIGKILL. `is_leaving`: because the agent goes, not because it was asked."""

    attempt: int
    grace_seconds: float
    is_leaving: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeTurns:
    """From now on it runs in these turns, frozen in those of others; None: it runs all the time."""

    attempt: int
    turn: Turn | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeLimits:
    """From now on its replicas have the CPUs and memory that are stated here."""

    desired: DesiredPart


@dataclass(frozen=True, slots=True, kw_only=True)
class NameTrainers:
    """From now on it serves, as an input worker, the trainers that are stated here."""

    attempt: int
    trainers: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """The lease is over and it still runs: its shim failed. SIGKILL at once."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Something the server should know changed."""


Instruction = (
    ExtendLease
    | Prepare
    | Release
    | Start
    | Stop
    | TakeTurns
    | ChangeLimits
    | NameTrainers
    | Kill
    | Forget
    | Report
)
Step = tuple[State, tuple[Instruction, ...]]


def step(state: State, event: Event) -> Step:
    """Take in one event; return the new state and what is to be done, in order."""
    match event:
        case AttemptAdopted(part=part):
            if part.desired.attempt in state.parts:
                return state, ()
            return replace(state, parts={**state.parts, part.desired.attempt: part}), (Report(),)
        case DesiredReceived():
            return _desired_received(state, event)
        case LeaseChecked(now=now):
            late = now >= state.lease_deadline
            kills = [
                Kill(attempt=number)
                for number, part in state.parts.items()
                if part.phase in ALIVE and number not in event.frozen
            ]
            return state, tuple(kills) if late else ()
        case AgentLeaving(grace_seconds=grace_seconds):
            stopped = [_stop(part, grace_seconds, is_leaving=True) for part in state.parts.values()]
            return _settle(replace(state, is_leaving=True), stopped)
        case AttemptPrepared() | AttemptStarted() | AttemptExited() | LogsShipped():
            if (known := state.parts.get(event.attempt)) is None:
                return state, ()
            parts = {**state.parts, event.attempt: _learn(known, event)}
            # An end may be what others wait for.
            return _settle(state, [_advance(part, parts, state.is_leaving) for part in parts.values()])


def _desired_received(state: State, event: DesiredReceived) -> Step:
    instructions: list[Instruction] = []
    deadline = event.sent_at + event.desired.lease_seconds
    if deadline > state.lease_deadline:
        # First of all: what is started below is then already covered.
        named = {desired.attempt for desired in event.desired.parts}
        is_newest = event.desired.generation >= state.generation
        attempts = frozenset(
            number
            for number, part in state.parts.items()
            if is_newest and number in named and part.phase in ALIVE
        )
        lease_seconds = event.desired.lease_seconds
        instructions.append(ExtendLease(deadline=deadline, lease_seconds=lease_seconds, attempts=attempts))
        state = replace(state, lease_deadline=deadline)
    parts = {
        number: replace(part, is_acknowledged=True) if number in event.exited else part
        for number, part in state.parts.items()
    }
    if event.desired.generation >= state.generation:
        state = replace(state, generation=event.desired.generation)
        newest = {desired.attempt: desired for desired in event.desired.parts}
        for number, part in parts.items():
            desired = newest.pop(number, None)
            if desired is not None and part.phase in ALIVE and desired.turn != part.desired.turn:
                instructions.append(TakeTurns(attempt=number, turn=desired.turn))
            if desired is not None and part.phase in ALIVE and _limits(desired) != _limits(part.desired):
                instructions.append(ChangeLimits(desired=desired))
            if desired is not None and part.phase in ALIVE and desired.trainers != part.desired.trainers:
                instructions.append(NameTrainers(attempt=number, trainers=desired.trainers))
            parts[number] = replace(part, desired=desired or part.desired, is_desired=desired is not None)
        for new in newest.values() if not state.is_leaving else ():
            if new.stop:
                # Stopped before this node ever heard of it. Report it, or the server waits for its end for
                # ever.
                ended = Part(desired=new, phase=Phase.EXITED, outcome=NEVER_STARTED, is_shipped=True)
                parts[new.attempt] = ended
                instructions.append(Report())
            else:
                parts[new.attempt] = Part(desired=new, is_waiting=True)
    advanced = [_advance(part, parts, state.is_leaving) for part in parts.values()]
    state, more = _settle(replace(state, parts=parts), advanced)
    return state, (*instructions, *more)


def _limits(desired: DesiredPart) -> list[tuple[float, int]]:
    return [(replica.cpus, replica.memory_bytes) for replica in desired.replicas]


def _learn(part: Part, event: AttemptPrepared | AttemptStarted | AttemptExited | LogsShipped) -> Part:
    """Take in what was seen of the part itself; what is already known or over changes nothing."""
    match event:
        case AttemptPrepared(master_port=master_port) if part.phase is Phase.PREPARING:
            return replace(part, phase=Phase.READY, master_port=master_port)
        case AttemptStarted(at=at) if part.phase is Phase.STARTING:
            return replace(part, phase=Phase.RUNNING, started_at=at)
        case AttemptStarted(at=at) if part.phase is Phase.STOPPING:
            return replace(part, started_at=at)
        case AttemptExited(outcome=outcome) if part.phase is not Phase.EXITED:
            return replace(part, phase=Phase.EXITED, outcome=outcome)
        case LogsShipped() if part.phase is Phase.EXITED:
            return replace(part, is_shipped=True)
        case _:
            return part


def _advance(
    part: Part, parts: Mapping[int, Part], is_leaving: bool
) -> tuple[Part | None, tuple[Instruction, ...]]:
    """Bring a part one step nearer to what is desired; None when it can be forgotten."""
    attempt, desired = part.desired.attempt, part.desired
    must_stop = desired.stop or not part.is_desired
    match part.phase:
        case Phase.PREPARING | Phase.READY | Phase.STARTING | Phase.RUNNING | Phase.STOPPING if must_stop:
            return _stop(part, desired.grace_seconds)
        case Phase.PREPARING if part.is_waiting and not is_leaving and not _are_gpus_taken(part, parts):
            return replace(part, is_waiting=False), (Prepare(desired=desired),)
        case Phase.READY if is_leaving:
            return _stop(part, 0.0, is_leaving=True)
        case Phase.READY if desired.go:
            return replace(part, phase=Phase.STARTING), (Start(desired=desired),)
        case Phase.EXITED if part.is_acknowledged and part.is_shipped and not part.is_desired:
            return None, (Forget(attempt=attempt),)
        case _:
            return part, ()


def _are_gpus_taken(part: Part, parts: Mapping[int, Part]) -> bool:
    """Whether a process that the server knows nothing of any more may hold one of the part's GPUs.

    That is so when the server gave a silent node up: what was frozen there lives until the node is connected
    again.
    """
    indexes = _gpu_indexes(part)
    return any(
        other.phase in ALIVE
        and not other.is_desired
        and not (other.desired.shares_gpus and part.desired.shares_gpus)
        and indexes & _gpu_indexes(other)
        for other in parts.values()
    )


def _gpu_indexes(part: Part) -> set[int]:
    return {index for replica in part.desired.replicas for index in replica.gpu_indexes}


def _stop(
    part: Part, grace_seconds: float, *, is_leaving: bool = False
) -> tuple[Part, tuple[Instruction, ...]]:
    if part.phase is Phase.PREPARING and part.is_waiting:
        outcome = LEFT if is_leaving else NEVER_STARTED
        return replace(part, phase=Phase.EXITED, outcome=outcome, is_shipped=True), ()
    if part.phase in (Phase.PREPARING, Phase.READY):
        release = () if part.is_released else (Release(attempt=part.desired.attempt),)
        part = replace(part, is_released=True)
        # One being prepared is stopped as soon as that is done: `_advance` looks again.
        if part.phase is Phase.READY:
            part = replace(part, phase=Phase.EXITED, outcome=LEFT if is_leaving else NEVER_STARTED)
        return part, release
    grace_seconds = shorter_grace(part.stop_grace_seconds, grace_seconds)
    if part.phase is Phase.EXITED or grace_seconds == part.stop_grace_seconds:
        return part, ()
    part = replace(part, phase=Phase.STOPPING, stop_grace_seconds=grace_seconds)
    stop = Stop(attempt=part.desired.attempt, grace_seconds=grace_seconds, is_leaving=is_leaving)
    return part, (stop,)


def _settle(state: State, changes: Iterable[tuple[Part | None, tuple[Instruction, ...]]]) -> Step:
    """Put changed parts back, collect their instructions, and report when any looks different now."""
    parts = dict(state.parts)
    instructions: list[Instruction] = []
    for changed, more in changes:
        instructions += more
        for forgotten in (item for item in more if isinstance(item, Forget)):
            del parts[forgotten.attempt]
        if changed is not None:
            parts[changed.desired.attempt] = changed
    before = {number: REPORTED[part.phase] for number, part in state.parts.items()}
    if any(REPORTED[part.phase] != before.get(number) for number, part in parts.items()):
        instructions.append(Report())
    return replace(state, parts=parts), tuple(instructions)
