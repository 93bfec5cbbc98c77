"""The objects and groups that a job's specification is made of, beside its tasks."""

import re
from dataclasses import dataclass

from scheduler.core.failures.retrying import RetryRules
from scheduler.core.failures.taxonomy import KNOWN_FAILURES
from scheduler.core.model.snapshot import ADAPTIVE, FIXED_WORLD, RESIZABLE, Candidates, Topology
from scheduler.jobspec.declaring import Flag, Group, Object, stated
from scheduler.jobspec.fields import Fields
from scheduler.jobspec.kinds import Choice, Duration, Names, Number, Table, Truth, Whole
from scheduler.jobspec.tables import MAX_ATTEMPTS, MAX_RETRY_LINES, attempts_by_class, attempts_by_text
from scheduler.jobspec.tasks import MAX_GPUS_PER_REPLICA

#: What can be done about a job that is stuck.
WATCHED_THEN = ("warn", "stop")
#: What stays the same when an elastic job is given more GPUs or fewer (`JobSpec.elastic_mode`).
ELASTIC_MODES = (RESIZABLE, ADAPTIVE, FIXED_WORLD)
TOPOLOGY_LEVELS = ("rack", "node", "socket", "switch")
#: A GPU that is less busy than this does nothing: what is left is the driver's own.
IDLE_BELOW_PERCENT = 5.0
MAX_TRIAL_SECONDS = 3_600
#: Readings of GPUs are seconds apart.
MIN_IDLE_SECONDS = 60
#: In each of the two lists.
MAX_NODES = 256
_NODE = re.compile(r"\S{1,63}")

ELASTIC = Group(
    "elastic",
    "Elastic",
    "A job that can run on fewer GPUs, or on more.",
    is_optional=True,
    is_sparse=True,
)
IDLE = Group(
    "idle_gpus", "IdleGpus", "Or when its GPUs did nothing; null: as is usual here.", is_optional=True
)
NOTIFY = Group("notify", "Notify", "What its owner is told of the job.", is_optional=True)
CHECKPOINT = Group("checkpoint", "Checkpoint", "What a job may do before it is stopped.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """When a job counts as stuck, by either of two signs, and what is done then."""

    #: Without a progress line; None: it need not tell of progress.
    silent_seconds: float | None = stated(
        Duration(),
        name="silent",
        default=None,
        unit="seconds",
        help="After so long without a progress line; null: it need not tell any.",
        example="30m",
    )
    then: str = stated(
        Choice(WATCHED_THEN), default="warn", help="warn its owner, or stop it and try it again."
    )
    #: With all its GPUs less busy than this; None: as is usual at the site.
    idle_seconds: float | None = stated(
        Duration(least=MIN_IDLE_SECONDS),
        name="seconds",
        default=None,
        unit="seconds",
        group=IDLE,
        help="After so long in which all its GPUs did nothing.",
        example="1h",
    )
    idle_below_percent: float = stated(
        Number(0.1, 100),
        name="below_percent",
        default=IDLE_BELOW_PERCENT,
        unit="percent",
        group=IDLE,
        help="A GPU that is less busy does nothing.",
    )


def _has_a_sign(fields: Fields, watch: Watch) -> None:
    if watch.silent_seconds is None and watch.idle_seconds is None:
        fields.refuse("silent", "is missing", 'a duration such as "30m"; or idle_gpus with its seconds')


WATCH = Object(Watch, "Watch", check_together=_has_a_sign)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Rank 0 alone runs first, and must do well, before the whole gang is started."""

    seconds: float = stated(
        Duration(most=MAX_TRIAL_SECONDS, expected='a duration such as "2m"'),
        unit="seconds",
        help="It passes that runs for so long, or tells of a step before.",
        example="2m",
    )
    gpus: int = stated(Whole(1, MAX_GPUS_PER_REPLICA), default=1, help="GPUs of the trial.")


TRIAL = Object(Trial, "Trial")
TOPOLOGY = Object(
    Topology,
    "Topology",
    stated={
        "level": stated(
            Choice(TOPOLOGY_LEVELS),
            help="Keep the gang inside one of these.",
            flag=Flag(("--topology",)),
            label="Keep together",
        ),
        "required": stated(
            Truth(),
            default=False,
            help="Rather wait than be spread wider.",
            flag=Flag(("--topology-required",)),
        ),
    },
)
RETRY = Object(
    RetryRules,
    "Retry",
    stated={
        "max_attempts": stated(
            Whole(1, MAX_ATTEMPTS),
            default=3,
            help="How often it is started in all when hardware fails.",
            flag=Flag(("--max-attempts",)),
        ),
        "attempts": stated(
            Table(
                attempts_by_class, MAX_RETRY_LINES, {"type": "integer", "minimum": 1, "maximum": MAX_ATTEMPTS}
            ),
            default={},
            help="Attempts that failures of a class or layer leave the job (docs/failures.md).",
            example={KNOWN_FAILURES[0]: 3},
        ),
        "matching": stated(
            Table(
                attempts_by_text, MAX_RETRY_LINES, {"type": "integer", "minimum": 1, "maximum": MAX_ATTEMPTS}
            ),
            default={},
            help="The same by a text that occurs in the failure's message.",
            example={"worker died": 2},
        ),
    },
)


def _leaves_a_node(fields: Fields, nodes: Candidates | None) -> None:
    if nodes is not None and nodes.only and set(nodes.only) <= set(nodes.avoid):
        problem = "leaves no node, since avoid names them all"
        fields.refuse("only", problem, "a node that avoid does not name")


def _candidates(only: tuple[str, ...], avoid: tuple[str, ...]) -> Candidates | None:
    return Candidates(only=only, avoid=avoid) if only or avoid else None


NODES = Object(
    Candidates,
    "Nodes",
    stated={
        "only": stated(
            Names(_NODE, MAX_NODES, one="a node", many="nodes"),
            default=(),
            help="It is started on these nodes alone; none: on all.",
            flag=Flag(("--nodes",), metavar="NODE,..."),
            label="Only on nodes",
        ),
        "avoid": stated(
            Names(_NODE, MAX_NODES, one="a node", many="nodes"),
            default=(),
            help="It is started on none of these nodes.",
            flag=Flag(("--avoid-nodes",), metavar="NODE,..."),
            label="Never on nodes",
        ),
    },
    make=_candidates,
    check_together=_leaves_a_node,
)
