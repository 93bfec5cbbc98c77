"""What a job asks for: every field of its specification, declared once, and its one normal form.

`parse` accepts what people write (shorthand, "30m", "4GiB"); `JobSpec.to_dict` gives the normal form that is
stored and shown, and that `parse` accepts again unchanged. `declaring` lists what else is made from a
declaration.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nodeagent.messages import Launcher
from scheduler.core.failures.retrying import RetryRules
from scheduler.core.model.awaited import Awaited
from scheduler.core.model.data_sets import DataSet
from scheduler.core.model.gpu_parts import SharingLabels
from scheduler.core.model.snapshot import (
    DOWNGRADE,
    GUARANTEED,
    OPPORTUNISTIC,
    PREEMPT,
    RESIZABLE,
    Candidates,
    Job,
    JobId,
    Topology,
)
from scheduler.core.model.tag_constraints import TagConstraint
from scheduler.core.perf.throughput import HIGHEST
from scheduler.jobspec.arrays import ARRAY, JobArray
from scheduler.jobspec.awaiting import CANCEL, ON_UNMET, AwaitedJobs
from scheduler.jobspec.beginning import Begin, Beginning
from scheduler.jobspec.code import CODE, Code
from scheduler.jobspec.declaring import Object, stated
from scheduler.jobspec.kind import Flag
from scheduler.jobspec.kinds import (
    NAME,
    Choice,
    Duration,
    Names,
    Number,
    Table,
    Text,
    Truth,
    Whole,
    Word,
    Words,
)
from scheduler.jobspec.launchers import LAUNCHERS
from scheduler.jobspec.parts import (
    CHECKPOINT,
    CONSTRAINTS,
    DATA,
    ELASTIC,
    ELASTIC_MODES,
    INPUT_WORKERS,
    MAX_TAGS,
    NODES,
    NOTIFY,
    RETRY,
    SHARING,
    TOPOLOGY,
    TRIAL,
    WATCH,
    InputWorkers,
    Ports,
    Secrets,
    SecretUse,
    Trial,
    Watch,
)
from scheduler.jobspec.shape import Shape, task_row
from scheduler.jobspec.tables import (
    MAX_LABELS,
    comparable_throughputs,
    label,
    model_throughput,
)
from scheduler.jobspec.tasks import MAX_GPUS_PER_REPLICA, MAX_MODELS, MAX_REPLICAS, MAX_TASKS, TASKS, TaskSpec

#: The events of which a job's owner may ask for e-mail.
NOTIFIED = ("start", "end", "failure", "preemption")
#: What a trial run may take beyond its time, to fetch an image and to start.
TRIAL_START_SECONDS = 900.0
MAX_GRACE_SECONDS = 600

_CELL = re.compile(r"\S(.{0,253}\S)?")
#: An image's name in a registry: nothing that an engine could take for an option or a file.
_IMAGE = re.compile(
    r"(?=.{1,255}$)[a-z0-9][A-Za-z0-9._-]*(:[0-9]{1,5})?(/[A-Za-z0-9._-]+)*"
    r"(:[A-Za-z0-9._-]+)?(@sha256:[0-9a-f]{64})?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What a job asks for. If a job has one task, `command`, `gpus`, `gpu_model`, `resources`, `replicas` and
    `env` may stand here instead of in `tasks`.

    `virtual_cluster` is empty while its only possible value is not filled in.
    """

    name: str = stated(Word(), help="Name of the job.", flag=Flag(("--name",)), label="Name")
    description: str = stated(
        Text(500),
        default="",
        help="What the job is for, in your own words.",
        example="Does warm-up over 2,000 steps help?",
        flag=Flag(("--description",)),
        label="Description",
    )
    virtual_cluster: str = stated(
        Word(expected="the name of a virtual cluster"),
        default="",
        help="Default: the tenant's own virtual cluster, or the only one that it can use.",
        flag=Flag(("--vc",)),
    )
    priority: int = stated(
        Whole(-100, 100),
        default=0,
        help="Jobs with a higher priority go first.",
        flag=Flag(("--priority", "-p")),
        label="Priority",
    )
    guaranteed: bool = stated(
        Choice((GUARANTEED, OPPORTUNISTIC), {GUARANTEED: True, OPPORTUNISTIC: False}),
        name="guarantee",
        default=True,
        help="guaranteed: on guaranteed GPUs of its virtual cluster. opportunistic: on idle GPUs of "
        "others, which it gives back when they are reclaimed.",
        flag=Flag(("--opportunistic/--guaranteed",), words=(OPPORTUNISTIC, GUARANTEED)),
    )
    tasks: tuple[TaskSpec, ...] = stated(TASKS, help="Its tasks, which start together or not at all.")
    #: The fewest GPUs on which it can run, with fewer replicas; None: only on all.
    min_gpus: int | None = stated(
        Whole(1, MAX_TASKS * MAX_REPLICAS * MAX_GPUS_PER_REPLICA),
        default=None,
        group=ELASTIC,
        help="Minimum GPUs, with fewer replicas of its only task. The job grows when GPUs are idle.",
        flag=Flag(("--min-gpus",)),
        label="Fewest GPUs",
    )
    #: The most GPUs on which it can run, with more replicas; None: its own number.
    max_gpus: int | None = stated(
        Whole(1, MAX_REPLICAS * MAX_GPUS_PER_REPLICA),
        default=None,
        group=ELASTIC,
        help="Maximum GPUs, with more replicas of its only task. Those beyond its own number are"
        " idle GPUs. Default: its own number.",
        flag=Flag(("--max-gpus",)),
        label="Most GPUs",
    )
    elastic_mode: str = stated(
        Choice(ELASTIC_MODES),
        name="mode",
        default=RESIZABLE,
        group=ELASTIC,
        help="resizable: the job is stopped and starts again with another number of replicas. adaptive: the"
        " same, and it adapts its batch size and learning rate (allot.training). fixed_world: the job"
        " always has all its replicas, which share GPUs while it has fewer.",
        flag=Flag(("--elastic-mode",)),
        label="When it is resized",
    )
    #: Empty: all commands run on the nodes themselves.
    image: str = stated(
        Word(_IMAGE, "the name of a container image, such as registry.example/team/pytorch:2.5", 255),
        default="",
        help="Container image in which all tasks run, on nodes that allow it; null: on the node itself.",
        example="registry.example/team/pytorch:2.5",
        flag=Flag(("--image",)),
        label="Container image",
    )
    #: Empty: each replica is one process, its command.
    launcher: Launcher = stated(
        Choice(LAUNCHERS),
        default="",
        help="Starts the command once for each GPU of each replica, as one distributed program.",
        flag=Flag(("--launcher",)),
        label="Launcher",
        is_sparse=True,
    )
    topology: Topology | None = stated(TOPOLOGY, default=None, help="How close together its GPUs must be.")
    time_limit_seconds: float | None = stated(
        Duration(),
        name="time_limit",
        default=None,
        unit="seconds",
        help="The job is stopped after this time. A limit allows backfilling.",
        example="2h",
        flag=Flag(("--time-limit", "-t")),
        label="Time limit",
    )
    #: Expected total run time; None: its user does not state it.
    estimate_seconds: float | None = stated(
        Duration(),
        name="estimate",
        default=None,
        unit="seconds",
        help="Expected run time, within its time limit; improves predictions.",
        example="90m",
        flag=Flag(("--estimate",)),
        label="Estimate",
    )
    #: Counted from its submission; None: no deadline.
    deadline_seconds: float | None = stated(
        Duration(),
        name="deadline",
        default=None,
        unit="seconds",
        help="Time from submission by which the job should end.",
        example="12h",
        flag=Flag(("--deadline",)),
        label="Deadline",
    )
    application: str = stated(
        Word(),
        default="",
        help="What the job trains, such as resnet50. Jobs of one application should run alike.",
        example="resnet50",
        flag=Flag(("--application",)),
        label="Application",
    )
    search: str = stated(
        Word(),
        default="",
        help="Name of a hyper-parameter search. Policies that are fair to apps count its jobs as one app.",
        flag=Flag(("--search",)),
        label="Search for hyper-parameters",
    )
    skew: float | None = stated(
        Number(0, 1),
        default=None,
        help="Part of the model in its largest tensor. A gang with a high skew is slow when it is spread.",
        flag=Flag(("--skew",)),
    )
    nodes: Candidates | None = stated(NODES, default=None, help="The nodes on which it may start, by name.")
    #: Empty: none.
    pinned_cell: str = stated(
        Word(_CELL, "the name of a pinned cell of the virtual cluster", 255),
        default="",
        help="A pinned cell of the virtual cluster. The job must be guaranteed, and runs only in this cell.",
        flag=Flag(("--pinned-cell",)),
        label="Pinned cell",
    )
    #: Empty: it uses none.
    reservation: str = stated(
        Word(),
        default="",
        help="A reservation of its tenant: the job starts only after the reservation begins, and runs "
        "only on its nodes.",
        example="paper",
        flag=Flag(("--reservation",), metavar="NAME"),
        is_sparse=True,
    )
    #: Empty: jobs of its virtual cluster may preempt it, and it goes on as opportunistic when it lapses.
    on_reclaim: str = stated(
        Choice((PREEMPT, DOWNGRADE)),
        default="",
        help="What happens when another job of its virtual cluster preempts it, or its guarantee lapses."
        " Default: preempt for the former, downgrade for the latter.",
        flag=Flag(("--on-reclaim",)),
        label="When its guarantee is taken",
    )
    #: None: with any job.
    sharing: SharingLabels | None = stated(
        SHARING,
        default=None,
        help="The jobs with which it may share a GPU, if it uses parts of GPUs.",
        is_sparse=True,
    )
    tags: tuple[str, ...] = stated(
        Names(NAME, MAX_TAGS, one="a tag", many="tags"),
        default=(),
        help="Tags of this job, to which the constraints of other jobs of the tenant refer.",
        example=["web"],
        flag=Flag(("--tags",), metavar="TAG,..."),
        is_sparse=True,
    )
    constraints: tuple[TagConstraint, ...] = stated(
        CONSTRAINTS,
        default=(),
        help="How many jobs of the tenant with a tag may, must or should be near each replica.",
        is_sparse=True,
    )
    array: JobArray | None = stated(
        ARRAY,
        default=None,
        help="The same job for many indices; each index is a separate job.",
        is_sparse=True,
    )
    after: tuple[Awaited, ...] = stated(
        AwaitedJobs(),
        default=(),
        help="Other jobs that must have succeeded, ended, failed or started before it may start.",
        example=[17, "failed:18"],
        flag=Flag(("--after",), metavar="[WHEN:]JOB"),
        is_sparse=True,
    )
    on_unmet: str = stated(
        Choice(ON_UNMET),
        default=CANCEL,
        help="If a job that it waits for ends in another state: cancel this job, or let it wait.",
        flag=Flag(("--on-unmet",)),
        is_sparse=True,
    )
    singleton: bool = stated(
        Truth(),
        default=False,
        help="It starts after all earlier jobs with the same name and user have ended.",
        flag=Flag(("--singleton",)),
        is_sparse=True,
    )
    #: None: at once.
    begin: Begin | None = stated(
        Beginning(),
        default=None,
        help="Earliest start: an instant with its time zone, or a duration after the submission.",
        example="2026-12-01T18:00+01:00",
        flag=Flag(("--begin",), metavar="TIME"),
        is_sparse=True,
    )
    #: About the submission and not the job: a stored specification, which may be submitted again, lacks it.
    hold: bool = stated(
        Truth(),
        default=False,
        help="Submit the job on hold: it waits until it is released.",
        flag=Flag(("--hold", "-H")),
        is_sparse=True,
    )
    #: None: its working folders are empty.
    code: Code | None = stated(
        CODE,
        default=None,
        help="The initial content of its working folders. Default: empty folders.",
        is_sparse=True,
    )
    retry: RetryRules = stated(
        RETRY, default=RetryRules(), help="How often it is tried again after failures."
    )
    #: None: nothing is done when it reports no progress.
    watch: Watch | None = stated(WATCH, default=None, help="When it counts as stuck, and what is done then.")
    #: None: the whole gang starts at once.
    trial: Trial | None = stated(
        TRIAL, default=None, help="A short run on few GPUs before the whole gang starts."
    )
    #: None: it makes its batches itself, or its user starts the workers.
    input_workers: InputWorkers | None = stated(
        INPUT_WORKERS,
        default=None,
        help="Processes that prepare its batches. The platform starts them when the trainer waits for data.",
        is_sparse=True,
    )
    data: DataSet | None = stated(
        DATA, default=None, help="The data that it reads from the storage of its nodes.", is_sparse=True
    )
    #: None: what the user chose for all jobs.
    notify_email: tuple[str, ...] | None = stated(
        Words(NOTIFIED),
        name="email",
        default=None,
        group=NOTIFY,
        help="Events that are mailed to the job's owner, whatever the owner's settings; none: no mail.",
        example=["end", "failure"],
        flag=Flag(("--notify",), metavar="WORD,..."),
    )
    #: Numbers by name; None: the node chooses the number.
    ports: Mapping[str, int | None] = stated(
        Ports(),
        default={},
        help="Ports of web pages that the job serves to people.",
        example=["notebook"],
        flag=Flag(("--port",), metavar="NAME"),
    )
    secrets: tuple[SecretUse, ...] = stated(
        Secrets(),
        default=(),
        help="Stored secrets by name; its processes get each as a variable or a file.",
        example=["HF_TOKEN"],
        flag=Flag(("--secret",), metavar="NAME"),
    )
    grace_seconds: int = stated(
        Whole(0, MAX_GRACE_SECONDS),
        default=30,
        unit="seconds",
        group=CHECKPOINT,
        help="Time to write a checkpoint, between SIGTERM and SIGKILL.",
        flag=Flag(("--grace",), metavar="SECONDS"),
        label="Seconds to write a checkpoint",
    )
    throughput: Mapping[str, float] = stated(
        Table(
            model_throughput,
            MAX_MODELS,
            {"type": "number", "minimum": 0, "maximum": HIGHEST},
            together=comparable_throughputs,
        ),
        default={},
        unit="samples per second",
        help="Its throughput by GPU model, if known; 0: it does not run on this model.",
        example={"V100": 120, "K80": 25},
    )
    labels: Mapping[str, str] = stated(
        Table(label, MAX_LABELS, {"type": "string", "maxLength": 200}),
        default={},
        help="Your own names and values, for finding jobs.",
        example={"team": "vision"},
        flag=Flag(("--label", "-l"), metavar="KEY=VALUE"),
    )

    @property
    def gpus(self) -> int:
        """Size of the gang in GPUs."""
        return sum(task.replicas * task.gpus for task in self.tasks)

    @property
    def gpu_models(self) -> tuple[str, ...]:
        """Acceptable models, the preferred first; empty means any. The same for all tasks."""
        return (self.tasks[0].gpu_models or ()) if self.tasks else ()

    @property
    def elastic(self) -> tuple[int, int] | None:
        """The fewest and the most GPUs that it can run on; None when it has no choice."""
        if self.min_gpus is None and self.max_gpus is None and self.elastic_mode == RESIZABLE:
            return None
        return self.min_gpus or self.gpus, self.max_gpus or self.gpus

    def to_dict(self) -> dict[str, Any]:
        """Return the normal form, JSON-ready."""
        return JOB.write(self) or {}

    def shape(self) -> dict[str, Any]:
        """Return what a round needs of it (the form of `Job.shape`): at first of its trial, if it has one."""
        own = self._own_shape().to_json()
        if self.trial is None:
            return own
        first = self.tasks[0]
        of_the_gang = ("max_gpus", "elastic_mode", "tags", "constraints")
        return {name: value for name, value in own.items() if name not in of_the_gang} | {
            "tasks": [task_row(replace(first.core_task(), replicas=1, gpus=self.trial.gpus))],
            "topology": None,
            "min_gpus": None,
            "estimate_seconds": self.trial.seconds,
            "limit_seconds": self.trial.seconds + TRIAL_START_SECONDS,
            "after_trial": own,
        }

    @property
    def gpu_amount(self) -> float:
        """The GPUs that its gang has, where a part of a GPU counts as a part."""
        return self._own_shape().amount(self.gpus)

    def _own_shape(self) -> Shape:
        return Shape(
            tasks=tuple(task.core_task() for task in self.tasks),
            topology=self.topology,
            gpus=self.gpus,
            elastic=self.elastic,
            elastic_mode=self.elastic_mode,
            throughput=self.throughput,
            estimate_seconds=self.estimate_seconds,
            application=self.application,
            search=self.search,
            skew=self.skew,
            nodes=self.nodes,
            pinned_cell=self.pinned_cell,
            reservation=self.reservation,
            on_reclaim=self.on_reclaim,
            sharing=self.sharing,
            deadline_seconds=self.deadline_seconds,
            needs_containers=bool(self.image),
            tags=self.tags,
            constraints=self.constraints,
            data=self.data,
            singleton=self.singleton,
            ports=tuple(sorted([port for port in self.ports.values() if port is not None])),
        )

    def core_job(self, *, tenant: str, submitted_at: float = 0.0) -> Job:
        """Return the job as the core would see it if it were submitted now."""
        shape = self._own_shape()
        return Job(
            id=JobId(0),
            tenant=tenant,
            virtual_cluster=self.virtual_cluster,
            submitted_at=submitted_at,
            gpu_models=self.gpu_models,
            priority=self.priority,
            guaranteed=self.guaranteed,
            time_limit_seconds=self.time_limit_seconds,
            throughput=shape.throughput,
            deadline_at=shape.deadline_at(submitted_at),
            estimate_seconds=shape.estimate_seconds,
            awaits=self.after,
            **shape.facts(),
        )


#: The whole specification.
JOB = Object(JobSpec, "JobSpec")
