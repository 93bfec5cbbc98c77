"""What one task of a job needs and runs; and jobs of one task, which may be written without `tasks`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from scheduler.core.model.auxiliary import Auto, Sensitivity
from scheduler.core.model.gpu_parts import WHOLE_GPU, GpuPart
from scheduler.core.model.snapshot import Task as CoreTask
from scheduler.jobspec.declaring import ListOf, Object, stated
from scheduler.jobspec.fields import Fields, described, is_storable
from scheduler.jobspec.kind import Definitions, FieldDeclaration, Flag, Group, Kind, Schema
from scheduler.jobspec.kinds import (
    AUTO,
    NAME,
    NAME_EXPECTED,
    Curve,
    Number,
    OrAuto,
    Size,
    Table,
    Truth,
    Whole,
    Word,
    plain,
)
from scheduler.jobspec.tables import MAX_VARIABLES, env_entry
from tenants.errors import FieldError

#: In `gpu_model`: any model will do.
ANY_MODEL = "any"
MAX_TASKS = 8
MAX_REPLICAS = 256
MAX_GPUS_PER_REPLICA = 16
MAX_CPUS = 4_096
MAX_MEMORY_BYTES = 64 * 1024**4
MAX_GPU_MEMORY_BYTES = 1024**4
MAX_WORDS = 1_000
MAX_MODELS = 16
#: Fields of a one-task job that may stand at the top instead of in `tasks`.
SHORTHAND = ("command", "gpus", "gpu_model", "resources", "sensitivity", "replicas", "env")
#: Fields of the short form that stand in the resources of a task, and their names there.
_AT_TOP = {"gpus": "gpu", "gpu_model": "gpu_model"}
_ONLY_TASK = "tasks.0."

RESOURCES = Group("resources", "Resources", "What each replica gets, all of it on one node.")


class Models(Kind):
    """GPU models in order of preference; kept as a tuple, empty for any and None where it is left out."""

    expected = f'"{ANY_MODEL}", a model such as "V100", or a list of models with the preferred first'
    takes = "model_words"

    def check(self, fields: Fields, name: str, value: object) -> tuple[str, ...] | None:
        if value == ANY_MODEL:
            return ()
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list | tuple) or not 1 <= len(names) <= MAX_MODELS:
            fields.refuse(name, f"{described(value)} names no GPU models", self.expected)
        elif bad := [each for each in names if not isinstance(each, str) or not NAME.fullmatch(each)]:
            fields.refuse(name, f"{described(bad[0])} is not a model's name", self.expected)
        elif ANY_MODEL in names:
            fields.refuse(name, f'"{ANY_MODEL}" cannot be in a list of models', self.expected)
        elif len(set(names)) < len(names):
            fields.refuse(name, "names a model twice", self.expected)
        else:
            return tuple(names)
        return None

    def write(self, value: tuple[str, ...] | None) -> list[str] | str:
        return list(value or ()) or ANY_MODEL

    def schema(self, definitions: Definitions) -> Schema:
        model = Word().schema(definitions)
        several = {"type": "array", "items": model, "minItems": 1, "maxItems": MAX_MODELS}
        return {"anyOf": [model, several]}


class GpuCount(Kind):
    """Whole GPUs, a part of one, or none; kept as a number, a part in whole thousandths."""

    expected = f"a whole number from 0 to {MAX_GPUS_PER_REPLICA}, or a part of one GPU such as 0.3"
    blank = 1
    takes = "number"

    def check(self, fields: Fields, name: str, value: object) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            fields.refuse(name, f"{described(value)} is not a number of GPUs", self.expected)
        elif value > MAX_GPUS_PER_REPLICA:
            fields.refuse(name, f"{described(value)} is more than {MAX_GPUS_PER_REPLICA}", self.expected)
        elif 0 < value < 1:
            # As in KubeShare, a fraction of a thousandth is rounded up. 0.3 must not become 0.301.
            return math.ceil(round(value * WHOLE_GPU, 6)) / WHOLE_GPU
        elif value < 0:
            fields.refuse(name, f"{described(value)} is less than 0", self.expected)
        elif value != int(value):
            problem = f"{described(value)} is neither a part of one GPU nor whole GPUs"
            fields.refuse(name, problem, f"{math.floor(value)} or {math.ceil(value)}, or less than 1")
        else:
            return int(value)
        return 1

    def write(self, value: float) -> float:
        return plain(value)

    def schema(self, definitions: Definitions) -> Schema:
        whole = {"type": "integer", "minimum": 0, "maximum": MAX_GPUS_PER_REPLICA}
        part = {"type": "number", "minimum": 0.001, "maximum": 0.999}
        return {"anyOf": [whole, part]}


class Command(Kind):
    """A list of words, or one line for the shell; kept as words."""

    expected = 'a list of words such as ["python", "train.py"], or one line for the shell'
    blank: tuple[str, ...] = ()

    def check(self, fields: Fields, name: str, value: object) -> tuple[str, ...]:
        if isinstance(value, str) and value.strip():
            words = ["sh", "-c", value]
        elif isinstance(value, list | tuple) and 1 <= len(value) <= MAX_WORDS:
            words = list(value)
        else:
            fields.refuse(name, f"{described(value)} is not a command", self.expected)
            return ()
        for number, word in enumerate(words):
            if not isinstance(word, str):
                fields.refuse(
                    f"{name}.{number}", f"{described(word)} is not text", "text; put numbers in quotes"
                )
            elif not is_storable(word):
                fields.refuse(f"{name}.{number}", "has a NUL or a broken character", "plain text")
        if words[0] == "":
            fields.refuse(f"{name}.0", "is empty", "the program to run")
        return tuple(word for word in words if isinstance(word, str))

    def write(self, value: tuple[str, ...]) -> list[str]:
        return list(value)

    def schema(self, definitions: Definitions) -> Schema:
        words = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MAX_WORDS}
        return words if definitions.normal else {"anyOf": [{"type": "string", "minLength": 1}, words]}


SENSITIVITY = Object(
    Sensitivity,
    "Sensitivity",
    stated={
        "by_cpus": stated(
            Curve(Number(0, MAX_CPUS), "CPUs", '"3": 1, "9": 2.5'),
            name="cpu",
            default=(),
            help="Relative speed of a replica by its number of CPUs, ascending. It is interpolated between"
            " two points and stays the same beyond the last.",
            example={"3": 1, "9": 2.5},
        ),
        "by_memory": stated(
            Curve(Size(MAX_MEMORY_BYTES, "64TiB"), "memory", '"60GiB": 1, "120GiB": 2.5'),
            name="memory",
            default=(),
            help="Relative speed of a replica by its memory. The lower of the two speeds counts.",
            example={"60GiB": 1, "120GiB": 2.5},
        ),
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """One role in the gang: `replicas` processes that run `command`, each on `gpu` GPUs of one node, on a
    part of one, or on CPUs and memory alone."""

    name: str = stated(
        Word(), default="", help="Name of the task in logs. Required with several tasks. Default: main."
    )
    replicas: int = stated(
        Whole(1, MAX_REPLICAS),
        default=1,
        help="Processes that run the command.",
        flag=Flag(("--replicas", "-r"), is_of_one_task=True),
    )
    gpu: float = stated(
        GpuCount(),
        group=RESOURCES,
        help="GPUs of each replica, on one node; or a part of one GPU, such as 0.3. With 0 a replica "
        "runs on CPUs and memory of any node: set cpu or memory.",
        flag=Flag(("--gpus", "-g"), is_of_one_task=True),
    )
    #: None: the request.
    gpu_limit: float | None = stated(
        Number(1 / WHOLE_GPU, 1),
        default=None,
        group=RESOURCES,
        help="With a part of a GPU: its maximum while other parts are idle. Default: its part.",
        example=0.6,
        flag=Flag(("--gpu-limit",), is_of_one_task=True),
        is_sparse=True,
    )
    gpu_memory_bytes: int = stated(
        Size(MAX_GPU_MEMORY_BYTES, "1TiB"),
        name="gpu_memory",
        default=0,
        unit="bytes",
        group=RESOURCES,
        help="With a part of a GPU: maximum memory on the device. Default: in proportion to its part.",
        example="6GiB",
        flag=Flag(("--gpu-memory",), is_of_one_task=True),
        is_sparse=True,
    )
    #: The same for all tasks, since a gang runs on one model. None only while reading: left out.
    gpu_models: tuple[str, ...] | None = stated(
        Models(),
        name="gpu_model",
        default=None,
        group=RESOURCES,
        help="A GPU model, several in order of preference, or any. The same for all tasks of a job.",
        example=["V100", "P100"],
        flag=Flag(("--model", "-m"), metavar="MODEL,..."),
    )
    cpus: float | Literal["auto"] = stated(
        OrAuto(Number(0, MAX_CPUS)),
        name="cpu",
        default=0.0,
        group=RESOURCES,
        help='CPUs of each replica; "auto": in proportion to its GPUs, and more if that makes it faster.',
        flag=Flag(("--cpu",), is_of_one_task=True),
    )
    memory_bytes: int | Literal["auto"] = stated(
        OrAuto(Size(MAX_MEMORY_BYTES, "64TiB")),
        name="memory",
        default=0,
        unit="bytes",
        group=RESOURCES,
        help='Memory of each replica: bytes, or a size such as "4GiB"; "auto": as for cpu.',
        example="4GiB",
        flag=Flag(("--memory",), is_of_one_task=True),
    )
    measures_cpus: bool = stated(
        Truth(),
        name="measure_cpu",
        default=False,
        group=RESOURCES,
        help="With cpu: auto and one replica: the platform measures the job's speed by CPUs. It tries about "
        "eight amounts, each for some seconds.",
        flag=Flag(("--measure-cpu",), is_of_one_task=True),
        is_sparse=True,
    )
    #: None: not stated.
    sensitivity: Sensitivity | None = stated(
        SENSITIVITY,
        default=None,
        help="Speed of a replica by CPUs and memory. The platform uses it where these are auto.",
        is_sparse=True,
    )
    command: tuple[str, ...] = stated(
        Command(), help="A list of words, or one line for the shell.", example=["python", "train.py"]
    )
    env: Mapping[str, str] = stated(
        Table(env_entry, MAX_VARIABLES, {"type": ["string", "number"]}, {"type": "string"}),
        default={},
        help="Environment variables of each replica. Use secrets for passwords and keys.",
        example={"EPOCHS": "10"},
        flag=Flag(("--env", "-e"), metavar="KEY=VALUE"),
    )

    @property
    def gpus(self) -> int:
        """The number of GPUs on which each replica runs; a part of one counts as one."""
        return math.ceil(self.gpu)

    @property
    def part(self) -> GpuPart | None:
        """The part of its GPU that each replica has; None: whole GPUs, or none."""
        if not 0 < self.gpu < 1:
            return None
        limit = self.gpu if self.gpu_limit is None else self.gpu_limit
        return GpuPart(
            request=round(self.gpu * WHOLE_GPU),
            limit=round(limit * WHOLE_GPU),
            memory_bytes=self.gpu_memory_bytes,
        )

    def core_task(self) -> CoreTask:
        """Return the task as a round sees it."""
        return CoreTask(
            replicas=self.replicas,
            gpus=self.gpus,
            cpus=0.0 if isinstance(self.cpus, str) else self.cpus,
            memory_bytes=0 if isinstance(self.memory_bytes, str) else self.memory_bytes,
            part=self.part,
            auto=self.auto,
        )

    @property
    def auto(self) -> Auto | None:
        """What it leaves to the platform; None: nothing."""
        cpus, memory = self.cpus == AUTO, self.memory_bytes == AUTO
        if not cpus and not memory:
            return None
        return Auto(cpus=cpus, memory=memory, sensitivity=self.sensitivity or Sensitivity())


def _part_is_possible(fields: Fields, task: TaskSpec) -> None:
    """Note fields about a part in a task without one, and a limit below the request."""
    for name, value in (("gpu_limit", task.gpu_limit), ("gpu_memory", task.gpu_memory_bytes)):
        if value and not 0 < task.gpu < 1:
            has = "whole ones" if task.gpu else "none"
            problem = f"needs a part of a GPU, and the task has {has}"
            fields.refuse(f"resources.{name}", problem, f"nothing, or gpu below 1 instead of {task.gpus}")
    if 0 < task.gpu < 1 and task.gpu_limit is not None and task.gpu_limit < task.gpu:
        problem = f"{task.gpu_limit:g} is less than the part itself, {task.gpu:g}"
        fields.refuse("resources.gpu_limit", problem, f"a number from {task.gpu:g} to 1")


def _states_what_it_takes(fields: Fields, task: TaskSpec) -> None:
    """Note a task without GPUs that lacks CPUs and memory in numbers, by which it is placed."""
    if task.gpu:
        return
    for name, amount in (("cpu", task.cpus), ("memory", task.memory_bytes)):
        if amount == AUTO:
            problem = f'"{AUTO}" is in proportion to the GPUs, and the task has none'
            fields.refuse(f"resources.{name}", problem, "a number, or gpu of 1 or more")
    if not task.cpus and not task.memory_bytes:
        problem = "is 0, and neither cpu nor memory states what each replica needs instead"
        fields.refuse("resources.gpu", problem, "cpu or memory in numbers beside it, or gpu of 1 or more")


def _is_possible(fields: Fields, task: TaskSpec) -> None:
    """Note fields of a task that contradict one another."""
    _part_is_possible(fields, task)
    _states_what_it_takes(fields, task)
    said = task.sensitivity or Sensitivity()
    for name, points, amount in (
        ("cpu", said.by_cpus, task.cpus),
        ("memory", said.by_memory, task.memory_bytes),
    ):
        if points and amount != AUTO:
            problem = f'needs resources.{name}: "{AUTO}", and the task states an amount'
            fields.refuse(f"sensitivity.{name}", problem, f'nothing, or resources.{name}: "{AUTO}"')
    if task.measures_cpus:
        _can_be_measured(fields, task, said)


def _can_be_measured(fields: Fields, task: TaskSpec, said: Sensitivity) -> None:
    """Note why the platform cannot find out how fast a replica is by its CPUs."""
    name = "resources.measure_cpu"
    if task.cpus != AUTO:
        problem = f'needs resources.cpu: "{AUTO}", and the task states an amount'
        fields.refuse(name, problem, f'nothing, or resources.cpu: "{AUTO}"')
    if said.by_cpus:
        fields.refuse(name, "sensitivity.cpu already states its speeds", "one of the two")
    if task.replicas > 1:
        fields.refuse(
            name, f"the task has {task.replicas} replicas", "one replica, or a curve in sensitivity.cpu"
        )


class Tasks(ListOf):
    """The tasks of a job, or the short form of its only one."""

    def read(self, fields: Fields, declared: FieldDeclaration) -> tuple[TaskSpec, ...]:
        short = {name: value for name in SHORTHAND if (value := fields.take(name)) is not None}
        if short:
            return self._only_task(fields, short)
        tasks: tuple[TaskSpec, ...] = super().read(fields, declared)
        named: list[TaskSpec] = []
        for number, task in enumerate(tasks):
            where = f"tasks.{number}.name"
            if not task.name and len(tasks) > 1 and not _is_noted(fields, where):
                fields.refuse(where, "is missing", NAME_EXPECTED)
            elif any(task.name == other.name for other in named) and task.name:
                fields.refuse(where, f"{described(task.name)} is used twice", "a name of its own")
            named.append(task if task.name or len(tasks) > 1 else replace(task, name="main"))
        return self._of_one_model(fields, named)

    def _only_task(self, fields: Fields, short: dict[str, Any]) -> tuple[TaskSpec, ...]:
        """Read a job of one task that was written without `tasks`."""
        if fields.take("tasks") is not None:
            fields.refuse(next(iter(short)), "stands beside tasks", "either tasks or the shorthand, not both")
            return ()
        resources = short.get("resources", {})
        written_as = {}
        for name, inner in _AT_TOP.items():
            if name not in short or not isinstance(resources, Mapping):
                continue
            if inner in resources:
                fields.refuse(name, f"is given twice, also as resources.{inner}", "one of the two")
                continue
            resources = {**resources, inner: short[name]}
            written_as[fields.path_of(f"resources.{inner}")] = fields.path_of(name)
        given: dict[str, Any] = {}
        given.update(
            (name, short[name]) for name in ("command", "replicas", "env", "sensitivity") if name in short
        )
        problems: list[FieldError] = []
        task = self.of.read_fields(Fields({**given, "resources": resources}, fields.path, problems))
        fields.problems.extend(
            replace(problem, field=written_as.get(problem.field, problem.field)) for problem in problems
        )
        return (replace(task, name="main", gpu_models=task.gpu_models or ()),)

    def _of_one_model(self, fields: Fields, tasks: list[TaskSpec]) -> tuple[TaskSpec, ...]:
        """Return the tasks with the models that one of them states; note those that state others."""
        says = [(number, task.gpu_models) for number, task in enumerate(tasks) if task.gpu_models is not None]
        if not says:
            return tuple(replace(task, gpu_models=()) for task in tasks)
        first, models = says[0]
        for number, others in says[1:]:
            if others != models:
                fields.refuse(
                    f"tasks.{number}.resources.gpu_model",
                    f"differs from {fields.path_of(f'tasks.{first}')}",
                    "the same in all tasks, because a gang runs on one GPU model",
                )
        return tuple(replace(task, gpu_models=models) for task in tasks)


def as_written(field: str, spec: object) -> str:
    """Return the path as the specification has it: `gpus` for `tasks.0.resources.gpu` without `tasks`."""
    if not isinstance(spec, Mapping) or "tasks" in spec or not field.startswith(_ONLY_TASK):
        return field
    inner = field.removeprefix(_ONLY_TASK)
    at_top = next((name for name, other in _AT_TOP.items() if inner == f"resources.{other}"), inner)
    return at_top if at_top in spec else inner


def _is_noted(fields: Fields, where: str) -> bool:
    path = fields.path_of(where)
    return any(problem.field == path for problem in fields.problems)


TASK = Object(TaskSpec, "Task", check_together=_is_possible)
TASKS = Tasks(TASK, least=1, most=MAX_TASKS, called="tasks")
