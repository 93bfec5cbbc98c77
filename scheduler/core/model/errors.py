"""Errors of the core. An infeasible request is a result with reasons, never an exception."""


class SchedulingError(Exception):
    """Something the scheduling core cannot go on with."""


class InvalidTransition(SchedulingError):
    """A job or an attempt was asked to take a step that its state does not allow."""

    def __init__(self, kind: str, subject: object, state: str, event: str) -> None:
        super().__init__(f"{kind} {subject} is {state}: it cannot take the step {event!r}")
        self.kind, self.subject, self.state, self.event = kind, subject, state, event


class PlanError(SchedulingError):
    """A plan breaks an invariant: a bug in a policy, a placer or the round, never a user's mistake."""


class PolicyError(SchedulingError):
    """A policy or a placer failed inside its view; only that view is degraded."""


class UnknownPlugin(SchedulingError):
    """A policy or placer was named that is not registered, or with a parameter it does not have."""
