"""The job specification: what a user may write, and its normal form (DESIGN section 7)."""

from scheduler.jobspec.fields import Fields, did_you_mean
from scheduler.jobspec.parsing import TOPOLOGY_LEVELS, parse
from scheduler.jobspec.spec import ANY_MODEL, NOTIFIED, WATCHED_THEN, JobSpec, SecretUse, TaskSpec, in_order

__all__ = [
    "ANY_MODEL",
    "NOTIFIED",
    "TOPOLOGY_LEVELS",
    "WATCHED_THEN",
    "Fields",
    "JobSpec",
    "SecretUse",
    "TaskSpec",
    "did_you_mean",
    "in_order",
    "parse",
]
