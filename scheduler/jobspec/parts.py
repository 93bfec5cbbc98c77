"""What a job's specification is made of beside its tasks: groups, objects, secrets and ports."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.core.failures.retrying import RetryRules
from scheduler.core.failures.taxonomy import KNOWN_FAILURES
from scheduler.core.model import data_sets
from scheduler.core.model.gpu_parts import SharingLabels
from scheduler.core.model.snapshot import (
    ADAPTIVE,
    FIXED_WORLD,
    RESIZABLE,
    Candidates,
    Topology,
)
from scheduler.core.model.tag_constraints import SCOPES, TagConstraint
from scheduler.jobspec.declaring import ListOf, Object, stated
from scheduler.jobspec.fields import Fields, described
from scheduler.jobspec.kind import Definitions, FieldDeclaration, Flag, Group, Kind, Schema
from scheduler.jobspec.kinds import Choice, Duration, Names, Number, Size, Table, Truth, Whole, Word
from scheduler.jobspec.tables import (
    MAX_ATTEMPTS,
    MAX_RETRY_LINES,
    VARIABLE,
    attempts_by_class,
    attempts_by_text,
    is_variable,
)
from scheduler.jobspec.tasks import MAX_CPUS, MAX_GPUS_PER_REPLICA, MAX_MEMORY_BYTES, Command
from tenants import SECRET_SCOPES

#: What can be done about a job that is stuck.
WATCHED_THEN = ("warn", "stop")
#: What stays the same when an elastic job is given more GPUs or fewer (`JobSpec.elastic_mode`).
ELASTIC_MODES = (RESIZABLE, ADAPTIVE, FIXED_WORLD)
TOPOLOGY_LEVELS = ("rack", "node", "socket", "switch")
#: A GPU that is less busy than this does nothing: the rest is the driver's own work.
IDLE_BELOW_PERCENT = 5.0
MAX_TRIAL_SECONDS = 3_600
#: Readings of GPUs are seconds apart.
MIN_IDLE_SECONDS = 60
#: The most names in each of the two lists.
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
    "idle_gpus", "IdleGpus", "When idle GPUs mean that it is stuck; null: the site's rule.", is_optional=True
)
NOTIFY = Group("notify", "Notify", "The events of the job that are sent to its owner.", is_optional=True)
CHECKPOINT = Group("checkpoint", "Checkpoint", "The time in which a job can save its state before it stops.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """When a job counts as stuck, by either of two signs, and what is done then."""

    #: Without a progress line; None: it need not report progress.
    silent_seconds: float | None = stated(
        Duration(),
        name="silent",
        default=None,
        unit="seconds",
        help="The job counts as stuck after this time without a progress line; null: none is required.",
        example="30m",
    )
    then: str = stated(
        Choice(WATCHED_THEN), default="warn", help="warn: notify its owner. stop: stop it and try it again."
    )
    #: With all its GPUs less busy than this; None: the site's rule.
    idle_seconds: float | None = stated(
        Duration(least=MIN_IDLE_SECONDS),
        name="seconds",
        default=None,
        unit="seconds",
        group=IDLE,
        help="The job counts as stuck after this time with all its GPUs idle.",
        example="1h",
    )
    idle_below_percent: float = stated(
        Number(0.1, 100),
        name="below_percent",
        default=IDLE_BELOW_PERCENT,
        unit="percent",
        group=IDLE,
        help="A GPU below this utilisation is idle.",
    )


def _has_a_sign(fields: Fields, watch: Watch) -> None:
    if watch.silent_seconds is None and watch.idle_seconds is None:
        fields.refuse("silent", "is missing", 'a duration such as "30m"; or idle_gpus with its seconds')


WATCH = Object(Watch, "Watch", check_together=_has_a_sign)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A short run of rank 0 alone, which must succeed before the whole gang starts."""

    seconds: float = stated(
        Duration(most=MAX_TRIAL_SECONDS, expected='a duration such as "2m"'),
        unit="seconds",
        help="The trial succeeds after this time, or at the first reported step.",
        example="2m",
    )
    gpus: int = stated(Whole(1, MAX_GPUS_PER_REPLICA), default=1, help="GPUs of the trial.")


TRIAL = Object(Trial, "Trial")

#: More processes do not send batches to one trainer any faster.
MAX_INPUT_WORKERS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class InputWorkers:
    """Processes that prepare batches for the job while it runs, on CPUs and memory of any node."""

    command: tuple[str, ...] = stated(
        Command(),
        help="Command of each worker. It gets image, secrets, and variables of the job's first task.",
        example=["python", "-m", "allot.training.input_workers", "dataset:make"],
    )
    least: int = stated(
        Whole(1, MAX_INPUT_WORKERS), name="min", default=1, help="Minimum number, with which the job begins."
    )
    most: int = stated(Whole(1, MAX_INPUT_WORKERS), name="max", default=8, help="Maximum number of workers.")
    cpus: float = stated(Number(0.1, MAX_CPUS), name="cpu", default=1.0, help="CPUs of each worker.")
    memory_bytes: int = stated(
        Size(MAX_MEMORY_BYTES, "64TiB"),
        name="memory",
        default=2**30,
        unit="bytes",
        help="Memory of each worker.",
        example="1GiB",
    )
    shared: bool = stated(Truth(), default=False, is_sparse=True, help="All jobs of its search share them.")


def _most_is_no_less(fields: Fields, workers: InputWorkers) -> None:
    if workers.most < workers.least:
        problem = f"{workers.most} is less than min, {workers.least}"
        fields.refuse("max", problem, f"a whole number from {workers.least} to {MAX_INPUT_WORKERS}")


INPUT_WORKERS = Object(InputWorkers, "InputWorkers", check_together=_most_is_no_less)
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
            help="The job waits rather than being spread wider.",
            flag=Flag(("--topology-required",)),
        ),
    },
)
DATA = Object(
    data_sets.DataSet,
    "DataSet",
    stated={
        "name": stated(
            Word(data_sets.NAME, "1 to 63 letters, digits, '.', '_' and '-', such as imagenet"),
            help="Name of the data set. Jobs of the tenant with the same name share what a node has cached.",
            example="imagenet",
        ),
        "size_bytes": stated(
            Size(data_sets.MOST_BYTES, "1PiB"),
            name="size",
            unit="bytes",
            help="Size of the data set: the space that it needs in a node's cache.",
            example="140GiB",
        ),
        "bandwidth": stated(
            Size(data_sets.MOST_BANDWIDTH, "1TiB"),
            default=0,
            unit="bytes per second",
            help="Storage bandwidth that each replica needs, and for which it waits; 0: none.",
            example="200MiB",
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
            help="Maximum number of attempts when hardware fails.",
            flag=Flag(("--max-attempts",)),
        ),
        "attempts": stated(
            Table(
                attempts_by_class, MAX_RETRY_LINES, {"type": "integer", "minimum": 1, "maximum": MAX_ATTEMPTS}
            ),
            default={},
            help="Maximum number of attempts by class or layer of the failure (docs/failures.md).",
            example={KNOWN_FAILURES[0]: 3},
        ),
        "matching": stated(
            Table(
                attempts_by_text, MAX_RETRY_LINES, {"type": "integer", "minimum": 1, "maximum": MAX_ATTEMPTS}
            ),
            default={},
            help="Maximum number of attempts by a text in the message of the failure.",
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
            help="It starts only on these nodes. Empty: on all nodes.",
            flag=Flag(("--nodes",), metavar="NODE,..."),
            label="Only on nodes",
        ),
        "avoid": stated(
            Names(_NODE, MAX_NODES, one="a node", many="nodes"),
            default=(),
            help="It never starts on these nodes.",
            flag=Flag(("--avoid-nodes",), metavar="NODE,..."),
            label="Never on nodes",
        ),
    },
    make=_candidates,
    check_together=_leaves_a_node,
)


def _labels(affinity: str, anti_affinity: str, exclusion: str) -> SharingLabels | None:
    said = SharingLabels(affinity=affinity, anti_affinity=anti_affinity, exclusion=exclusion)
    return None if said == SharingLabels() else said


SHARING = Object(
    SharingLabels,
    "Sharing",
    stated={
        "affinity": stated(
            Word(),
            default="",
            help="It shares GPUs only with jobs of the same affinity. The first one gets a GPU of its own.",
            flag=Flag(("--share-with",), metavar="LABEL"),
            label="Share a GPU only with",
        ),
        "anti_affinity": stated(
            Word(),
            default="",
            help="It shares no GPU with a job of the same anti-affinity.",
            flag=Flag(("--share-not-with",), metavar="LABEL"),
            label="Never share a GPU with",
        ),
        "exclusion": stated(
            Word(),
            default="",
            help="All jobs on a GPU have the same exclusion. Jobs without one share among themselves.",
            flag=Flag(("--share-within",), metavar="LABEL"),
            label="Share a GPU within",
        ),
    },
    make=_labels,
)


MAX_TAGS = 10
MAX_CONSTRAINTS = 10
#: The highest number of other jobs that a constraint may state.
MOST_OTHERS = 10_000


def _asks_for_something(fields: Fields, constraint: TagConstraint) -> None:
    if not constraint.least and constraint.most is None:
        fields.refuse("max", "is missing", "how many there may be, such as 0; or min, how many there must be")
    elif constraint.most is not None and constraint.most < constraint.least:
        problem = f"{constraint.most} is less than min"
        fields.refuse("max", problem, f"a whole number from {constraint.least} to {MOST_OTHERS}")


CONSTRAINTS = ListOf(
    Object(
        TagConstraint,
        "TagConstraint",
        stated={
            "tag": stated(Word(), name="with", help="Tag of the other jobs.", example="cache"),
            "scope": stated(
                Choice(SCOPES), default=SCOPES[0], help="Others on its node, in its rack, or anywhere count."
            ),
            "least": stated(
                Whole(0, MOST_OTHERS), name="min", default=0, help="Minimum number there (affinity)."
            ),
            "most": stated(
                Whole(0, MOST_OTHERS),
                name="max",
                default=None,
                help="Maximum number of other jobs there; 0: none (anti-affinity). Default: any number.",
            ),
            "weight": stated(
                Number(0.01, 10),
                default=None,
                help="Weight of a preference. Default: a requirement, for which the job waits.",
            ),
        },
        check_together=_asks_for_something,
    ),
    least=0,
    most=MAX_CONSTRAINTS,
    called="constraints",
)


MAX_SECRETS = 20
_SECRETS_EXPECTED = (
    'such as [HF_TOKEN] or [{"name": "hf-token", "env": "HF_TOKEN"}, {"name": "s3-key", "file": "s3"}]'
)


class VariableName(Kind):
    """The name of a variable that the platform does not set itself."""

    def check(self, fields: Fields, name: str, value: object) -> str:
        return str(value) if is_variable(fields, name, value) else ""

    def schema(self, definitions: Definitions) -> Schema:
        return {"type": "string", "pattern": f"^{VARIABLE.pattern}$", "maxLength": 128}


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretUse:
    """A stored secret that all processes of the job get. A name alone puts it into the variable of that name:
    hf-token comes in HF_TOKEN."""

    name: str = stated(Word(), help="The name of the secret, as `allot secret list` shows it.")
    #: The variable's name; empty: it is a file.
    env: str = stated(VariableName(), default="", help="Variable that holds it. State either this or file.")
    #: The file's name; empty: it is a variable.
    file: str = stated(Word(), default="", help="File in $ALLOT_SECRETS_DIR that holds it; or state env.")
    #: Whose it is, "user" or "tenant"; empty while that is not filled in.
    scope: str = stated(
        Choice(SECRET_SCOPES),
        default="",
        help="Owner of the secret; null: the submitter's own secret of that name, else the tenant's.",
    )


def _env_or_file(fields: Fields, use: SecretUse) -> None:
    if not use.env and not use.file:
        fields.refuse("env", "is missing", "the name of a variable; or file, with the name of a file")
    elif use.env and use.file:
        fields.refuse("file", "cannot be used with env", "one of the two; a secret may be listed twice")


def _variable_of(name: str) -> str:
    """Return the variable for a secret of which only the name is stated."""
    return name if VARIABLE.fullmatch(name) else re.sub(r"[-.]", "_", name).upper()


class Secrets(Kind):
    """The secrets of a job, each written as a name or an object."""

    takes = "entries"
    _use = Object(SecretUse, "SecretUse", check_together=_env_or_file)

    def check(self, fields: Fields, name: str, value: object) -> tuple[SecretUse, ...]:
        if not isinstance(value, list | tuple) or len(value) > MAX_SECRETS:
            fields.refuse(
                name,
                f"{described(value)} is not a list of secrets",
                f"at most {MAX_SECRETS}, {_SECRETS_EXPECTED}",
            )
            return ()
        uses: list[SecretUse] = []
        for number, each in enumerate(value):
            if not isinstance(each, str | Mapping):
                fields.refuse(f"{name}.{number}", f"{described(each)} is not a secret", _SECRETS_EXPECTED)
                continue
            short = {"name": each, "env": _variable_of(each)} if isinstance(each, str) else each
            use = self._use.check(fields, f"{name}.{number}", short)
            for kind in ("env", "file"):
                target = getattr(use, kind)
                if target and any(getattr(other, kind) == target for other in uses):
                    fields.refuse(
                        f"{name}.{number}.{kind}", f"{described(target)} is used twice", "one of its own"
                    )
            uses.append(use)
        return tuple(uses)

    def write(self, value: Sequence[SecretUse]) -> list[Any]:
        return [self._use.write(use) for use in value]

    def in_order(self, value: Any) -> Any:
        return [self._use.in_order(use) for use in value] if isinstance(value, list) else value

    def schema(self, definitions: Definitions) -> Schema:
        use = self._use.schema(definitions)
        items = use if definitions.normal else {"anyOf": [Word().schema(definitions), use]}
        return {"type": "array", "items": items, "maxItems": MAX_SECRETS}


NOTEBOOK = "notebook"
MAX_PORTS = 8
LEAST_NUMBER, MOST_NUMBER = 1_024, 65_535
#: It becomes part of a host's name, a path and a variable.
_PORT_NAME = re.compile(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?")
_PORT_EXPECTED = "1 to 32 lower-case letters, digits and '-', beginning with a letter"


class Ports(Kind):
    """Ports, each written as a name or an object; kept as numbers by name, None: the node chooses one."""

    takes = "entries"

    def read(self, fields: Fields, declared: FieldDeclaration) -> dict[str, int | None]:
        ports: dict[str, int | None] = {}
        if fields.boolean(NOTEBOOK, default=False):
            ports[NOTEBOOK] = None
        raw = fields.take(declared.name)
        if raw is None:
            return ports
        if not isinstance(raw, list | tuple) or len(raw) > MAX_PORTS:
            expected = (
                f'a list of at most {MAX_PORTS} names, such as ["notebook"], or objects with name and port'
            )
            fields.refuse(declared.name, f"{described(raw)} is not a list of ports", expected)
            return ports
        for number, value in enumerate(raw):
            path = fields.path_of(f"{declared.name}.{number}")
            inner = Fields({"name": value} if isinstance(value, str) else value, path, fields.problems)
            name = inner.word("name", _PORT_NAME, _PORT_EXPECTED, default=None)
            port = inner.integer("port", default=0, least=LEAST_NUMBER, most=MOST_NUMBER)
            inner.finish()
            if name in ports:
                inner.refuse("name", f"{described(name)} is used twice", "a name of its own")
            ports[name] = port or None
        numbers = [port for port in ports.values() if port is not None]
        if len(set(numbers)) < len(numbers):
            fields.refuse(declared.name, "names a number twice", "a number for each")
        return ports

    def write(self, value: Mapping[str, int | None]) -> list[dict[str, Any]]:
        return [{"name": name, "port": port} for name, port in value.items()]

    def in_order(self, value: Any) -> Any:
        return [{"name": each["name"], "port": each["port"]} for each in value] if value else value

    def schema(self, definitions: Definitions) -> Schema:
        name = {"type": "string", "pattern": f"^{_PORT_NAME.pattern}$", "maxLength": 32}
        number = {
            "type": ["integer", "null"],
            "minimum": LEAST_NUMBER,
            "maximum": MOST_NUMBER,
            "description": "A fixed number, for a program that cannot choose one at run time. No other job on"
            " its node may have the same. null: the node chooses one.",
        }
        port = definitions.define(
            "Port",
            {
                "type": "object",
                "description": "Port of a web page of the job, which reads the number in $ALLOT_PORT_<NAME>.",
                "properties": {"name": name, "port": number},
                "required": ["name"],
                "additionalProperties": False,
            },
        )
        items = port if definitions.normal else {"anyOf": [name, port]}
        return {"type": "array", "items": items, "maxItems": MAX_PORTS}
