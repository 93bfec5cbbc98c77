"""States and the one table of steps between them, used by services, simulator and tests.

job:      queued -> running -> succeeded | failed | cancelled    (running -> queued: preempted, lost)
attempt:  planned -> starting -> running -> stopping -> ended
node:     ready <-> lost; drained is "ready, cordoned and empty", derived and not stored
hold:     nominated -> held -> released
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from scheduler.core.model.errors import InvalidTransition


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class JobEvent(StrEnum):
    STARTED = "started"
    REQUEUED = "requeued"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class AttemptState(StrEnum):
    PLANNED = "planned"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class AttemptEvent(StrEnum):
    PROMOTED = "promoted"
    RUNNING = "running"
    STOP = "stop"
    ENDED = "ended"


class Outcome(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PREEMPTED = "preempted"
    CANCELLED = "cancelled"
    LOST = "lost"


class StopCause(StrEnum):
    """Why an attempt was stopped, or ended without its own doing."""

    NONE = ""
    PREEMPTED = "preempted"
    #: It goes on on other GPUs, as many as before; or on another number of them.
    MIGRATED = "migrated"
    RESIZED = "resized"
    DRAINED = "drained"
    CANCELLED = "cancelled"
    TIME_LIMIT = "time_limit"
    PART_FAILED = "part_failed"
    NODE_LOST = "node_lost"
    GANG_TIMEOUT = "gang_timeout"
    STUCK = "stuck"
    IDLE_GPUS = "idle_gpus"
    #: A trial run had shown what it was for.
    TRIAL_OVER = "trial_over"


class PartState(StrEnum):
    """An attempt's part on one node, as the node last reported it."""

    WAITING = "waiting"
    READY = "ready"
    RUNNING = "running"
    STOPPING = "stopping"
    EXITED = "exited"


class HoldPhase(StrEnum):
    #: As Kubernetes nominates nodes: due to it once the holder has gone. Rows and the API say "planned".
    NOMINATED = "planned"
    HELD = "held"
    RELEASED = "released"


#: The causes that take nothing from a job: another attempt of it takes over at once.
GOES_ON_AT_ONCE = frozenset({StopCause.MIGRATED, StopCause.RESIZED})

JOB_STEPS: Mapping[tuple[JobState, JobEvent], JobState] = {
    (JobState.QUEUED, JobEvent.STARTED): JobState.RUNNING,
    (JobState.QUEUED, JobEvent.FAILED): JobState.FAILED,
    (JobState.QUEUED, JobEvent.CANCELLED): JobState.CANCELLED,
    # A short job can end before a node reported that it ran, or fall back before it did.
    (JobState.QUEUED, JobEvent.SUCCEEDED): JobState.SUCCEEDED,
    (JobState.QUEUED, JobEvent.REQUEUED): JobState.QUEUED,
    (JobState.RUNNING, JobEvent.REQUEUED): JobState.QUEUED,
    (JobState.RUNNING, JobEvent.SUCCEEDED): JobState.SUCCEEDED,
    (JobState.RUNNING, JobEvent.FAILED): JobState.FAILED,
    (JobState.RUNNING, JobEvent.CANCELLED): JobState.CANCELLED,
}

ATTEMPT_STEPS: Mapping[tuple[AttemptState, AttemptEvent], AttemptState] = {
    (AttemptState.PLANNED, AttemptEvent.PROMOTED): AttemptState.STARTING,
    (AttemptState.PLANNED, AttemptEvent.ENDED): AttemptState.ENDED,
    (AttemptState.STARTING, AttemptEvent.RUNNING): AttemptState.RUNNING,
    (AttemptState.STARTING, AttemptEvent.STOP): AttemptState.STOPPING,
    (AttemptState.STARTING, AttemptEvent.ENDED): AttemptState.ENDED,
    (AttemptState.RUNNING, AttemptEvent.STOP): AttemptState.STOPPING,
    (AttemptState.RUNNING, AttemptEvent.ENDED): AttemptState.ENDED,
    (AttemptState.STOPPING, AttemptEvent.ENDED): AttemptState.ENDED,
}

JOB_FINAL = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
ATTEMPT_LIVE = frozenset({AttemptState.STARTING, AttemptState.RUNNING, AttemptState.STOPPING})


def job_step(job: object, state: JobState, event: JobEvent) -> JobState:
    """Return the state after `event`; raise InvalidTransition when the table has no such step."""
    try:
        return JOB_STEPS[state, event]
    except KeyError:
        raise InvalidTransition("job", job, state, event) from None


def attempt_step(attempt: object, state: AttemptState, event: AttemptEvent) -> AttemptState:
    """Return the state after `event`; raise InvalidTransition when the table has no such step."""
    try:
        return ATTEMPT_STEPS[state, event]
    except KeyError:
        raise InvalidTransition("attempt", attempt, state, event) from None
