"""What a job asks for, checked and in one normal form.

`parse` accepts what people write (shorthand, "30m", "4GiB"); `JobSpec.to_dict` gives the normal form
that is stored and shown, and that `parse` accepts again unchanged.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.core.failures.retrying import RetryRules
from scheduler.core.snapshot import GUARANTEED, OPPORTUNISTIC, Candidates, Job, JobId, Task, Topology

#: In `gpu_model`: any model will do.
ANY_MODEL = "any"
#: Of what a job's owner may ask to get e-mail.
NOTIFIED = ("start", "end", "failure", "preemption")
#: What can be done about a job that is stuck.
WATCHED_THEN = ("warn", "stop")
#: A GPU that is less busy than this does nothing: what is left is the driver's own.
IDLE_BELOW_PERCENT = 5.0
#: What a trial run may take beyond its time, to fetch an image and to start.
TRIAL_START_SECONDS = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """One role in the gang: `replicas` processes that run `command`, each on `gpus` GPUs of one node."""

    name: str
    replicas: int
    gpus: int
    cpus: float
    memory_bytes: int
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """When a job counts as stuck, by either of two signs, and what is done then: one of `WATCHED_THEN`."""

    #: Without a progress line; None: it need not tell of progress.
    silent_seconds: float | None
    then: str
    #: With all its GPUs less busy than this; None: as is usual at the site.
    idle_seconds: float | None = None
    idle_below_percent: float = IDLE_BELOW_PERCENT

    def to_dict(self) -> dict[str, Any]:
        """Return the normal form, JSON-ready."""
        idle = None
        if self.idle_seconds is not None:
            idle = {"seconds": _plain(self.idle_seconds), "below_percent": _plain(self.idle_below_percent)}
        silent = None if self.silent_seconds is None else _plain(self.silent_seconds)
        return {"silent": silent, "then": self.then, "idle_gpus": idle}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Rank 0 alone, on so many GPUs and for so long, before the whole gang starts."""

    seconds: float
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretUse:
    """A secret that all processes of a job get: as a variable, or as a file in $ALLOT_SECRETS_DIR."""

    name: str
    #: The variable's name; empty: it is a file.
    env: str = ""
    #: The file's name; empty: it is a variable.
    file: str = ""
    #: Whose it is, "user" or "tenant"; empty while that is not filled in.
    scope: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the normal form, JSON-ready."""
        return {
            "name": self.name,
            "env": self.env or None,
            "file": self.file or None,
            "scope": self.scope or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A checked specification. `virtual_cluster` is empty while its only possible value is not filled in."""

    name: str
    virtual_cluster: str
    priority: int
    guaranteed: bool
    #: Acceptable models, the preferred first; empty means any. One for all tasks: a gang is of one model.
    gpu_models: tuple[str, ...]
    tasks: tuple[TaskSpec, ...]
    #: The container image in which all commands run; empty: they run on the nodes themselves.
    image: str = ""
    topology: Topology | None
    #: The nodes on which alone it is started; None: on any.
    nodes: Candidates | None
    #: The pinned cell of its virtual cluster in which it runs; empty: none.
    pinned_cell: str
    #: What becomes of it when its guarantee is taken; empty: it gives way to jobs of its virtual cluster, and
    #: runs on as opportunistic when the guarantee lapses.
    on_reclaim: str
    time_limit_seconds: float | None
    #: How long it is expected to run in all; None when its user does not say.
    estimate_seconds: float | None
    #: Within what time of its submission it should have ended; None when that does not matter.
    deadline_seconds: float | None
    #: Kind of training job, such as "resnet50": jobs of one kind are taken to run alike. Empty: not said.
    application: str
    #: Jobs of a tenant that name the same search belong together, as in a search for hyper-parameters.
    search: str
    #: Largest tensor's part of the model, 0 to 1; None: not said.
    skew: float | None
    #: The fewest GPUs on which it can run, with as many fewer replicas; None: only on all.
    min_gpus: int | None
    retry: RetryRules
    #: What is done when it tells of no progress; None: nothing.
    watch: Watch | None
    #: Before the first attempt of the whole gang; None: it starts at once.
    trial: Trial | None = None
    #: Of what its owner gets e-mail (some of `NOTIFIED`); None: as he chose for all his jobs.
    notify_email: tuple[str, ...] | None = None
    #: By name, the ports at which people visit its programs; None: the node chooses the number.
    ports: Mapping[str, int | None] = field(default_factory=dict)
    secrets: tuple[SecretUse, ...] = ()
    grace_seconds: float
    throughput: Mapping[str, float]
    labels: Mapping[str, str]

    @property
    def gpus(self) -> int:
        """Size of the gang in GPUs."""
        return sum(task.replicas * task.gpus for task in self.tasks)

    def to_dict(self) -> dict[str, Any]:
        """Return the normal form, JSON-ready."""
        return {
            "name": self.name,
            "virtual_cluster": self.virtual_cluster or None,
            "priority": self.priority,
            "guarantee": GUARANTEED if self.guaranteed else OPPORTUNISTIC,
            "tasks": [
                {
                    "name": task.name,
                    "replicas": task.replicas,
                    "resources": {
                        "gpu": task.gpus,
                        "gpu_model": list(self.gpu_models) or ANY_MODEL,
                        "cpu": _plain(task.cpus),
                        "memory": task.memory_bytes,
                    },
                    "command": list(task.command),
                    "env": dict(task.env),
                }
                for task in self.tasks
            ],
            "elastic": None if self.min_gpus is None else {"min_gpus": self.min_gpus},
            "image": self.image or None,
            "topology": (
                {"level": self.topology.level, "required": self.topology.required} if self.topology else None
            ),
            "time_limit": None if self.time_limit_seconds is None else _plain(self.time_limit_seconds),
            "estimate": None if self.estimate_seconds is None else _plain(self.estimate_seconds),
            "deadline": None if self.deadline_seconds is None else _plain(self.deadline_seconds),
            "application": self.application or None,
            "search": self.search or None,
            "skew": self.skew,
            "nodes": self._nodes(),
            "pinned_cell": self.pinned_cell or None,
            "on_reclaim": self.on_reclaim or None,
            "retry": {
                "attempts": dict(self.retry.attempts),
                "matching": dict(self.retry.matching),
                "max_attempts": self.retry.max_attempts,
            },
            "watch": self.watch.to_dict() if self.watch else None,
            "trial": (
                {"seconds": _plain(self.trial.seconds), "gpus": self.trial.gpus} if self.trial else None
            ),
            "notify": None if self.notify_email is None else {"email": list(self.notify_email)},
            "ports": [{"name": name, "port": port} for name, port in self.ports.items()],
            "secrets": [secret.to_dict() for secret in self.secrets],
            "checkpoint": {"grace_seconds": self.grace_seconds},
            "throughput": dict(self.throughput),
            "labels": dict(self.labels),
        }

    def shape(self) -> dict[str, Any]:
        """Return what a round needs of it (the form of `Job.shape`): at first of its trial, if it has one."""
        own = self._own_shape()
        if self.trial is None:
            return own
        first = self.tasks[0]
        return own | {
            "tasks": [[1, self.trial.gpus, first.cpus, first.memory_bytes]],
            "topology": None,
            "min_gpus": None,
            "estimate_seconds": self.trial.seconds,
            "limit_seconds": self.trial.seconds + TRIAL_START_SECONDS,
            "after_trial": own,
        }

    def _own_shape(self) -> dict[str, Any]:
        return {
            "tasks": [[task.replicas, task.gpus, task.cpus, task.memory_bytes] for task in self.tasks],
            "topology": [self.topology.level, self.topology.required] if self.topology else None,
            "min_gpus": self.min_gpus,
            "throughput": dict(self.throughput),
            "needs_containers": bool(self.image),
            "estimate_seconds": self.estimate_seconds,
            "application": self.application,
            "search": self.search,
            "skew": self.skew,
            "nodes": self._nodes(),
            "pinned_cell": self.pinned_cell,
            "on_reclaim": self.on_reclaim,
            "deadline_seconds": self.deadline_seconds,
        }

    def _nodes(self) -> dict[str, list[str]] | None:
        if self.nodes is None:
            return None
        return {"only": list(self.nodes.only), "avoid": list(self.nodes.avoid)}

    def core_job(self, *, tenant: str, submitted_at: float = 0.0) -> Job:
        """Return the job as the core would see it if it were submitted now."""
        return Job(
            id=JobId(0),
            tenant=tenant,
            virtual_cluster=self.virtual_cluster,
            submitted_at=submitted_at,
            tasks=tuple(
                Task(replicas=task.replicas, gpus=task.gpus, cpus=task.cpus, memory_bytes=task.memory_bytes)
                for task in self.tasks
            ),
            gpu_models=self.gpu_models,
            elastic=None if self.min_gpus is None else (self.min_gpus, self.gpus),
            priority=self.priority,
            guaranteed=self.guaranteed,
            time_limit_seconds=self.time_limit_seconds,
            topology=self.topology,
            nodes=self.nodes,
            throughput=self.throughput,
            deadline_at=None if self.deadline_seconds is None else submitted_at + self.deadline_seconds,
            estimate_seconds=self.estimate_seconds,
            application=self.application,
            search=self.search,
            skew=self.skew,
            pinned_cell=self.pinned_cell,
            on_reclaim=self.on_reclaim,
        )


def in_order(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored normal form with its fields in the order of `to_dict`, which jsonb does not keep."""
    ordered = {name: spec[name] for name in _FIELDS if name in spec}
    ordered["tasks"] = [
        {name: task[name] for name in _TASK_FIELDS if name in task}
        | {"resources": {name: task["resources"][name] for name in _RESOURCES if name in task["resources"]}}
        for task in spec["tasks"]
    ]
    return ordered


def _plain(number: float) -> float:
    """Return 600 rather than 600.0: people read it."""
    return int(number) if number.is_integer() else number


_FIELDS = (
    "name",
    "virtual_cluster",
    "priority",
    "guarantee",
    "tasks",
    "elastic",
    "image",
    "topology",
    "time_limit",
    "estimate",
    "deadline",
    "application",
    "search",
    "skew",
    "nodes",
    "pinned_cell",
    "on_reclaim",
    "retry",
    "watch",
    "trial",
    "notify",
    "ports",
    "secrets",
    "checkpoint",
    "throughput",
    "labels",
)
_TASK_FIELDS = ("name", "replicas", "resources", "command", "env")
_RESOURCES = ("gpu", "gpu_model", "cpu", "memory")
