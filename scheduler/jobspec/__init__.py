"""The job specification: what a user may write, and its normal form."""

from scheduler.jobspec.awaiting import CANCEL
from scheduler.jobspec.fields import Fields, did_you_mean
from scheduler.jobspec.kinds import AUTO
from scheduler.jobspec.parsing import parse, renamed
from scheduler.jobspec.parts import ELASTIC_MODES, TOPOLOGY_LEVELS, WATCHED_THEN, SecretUse
from scheduler.jobspec.spec import NOTIFIED, JobSpec
from scheduler.jobspec.stored import in_order
from scheduler.jobspec.tasks import ANY_MODEL, TaskSpec

__all__ = [
    "ANY_MODEL",
    "AUTO",
    "CANCEL",
    "ELASTIC_MODES",
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
    "renamed",
]
