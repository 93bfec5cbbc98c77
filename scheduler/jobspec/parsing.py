"""From what a person wrote to a JobSpec: strict, and with every mistake reported at once."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from scheduler.core.failures.retrying import RetryRules
from scheduler.core.failures.taxonomy import KNOWN_FAILURES
from scheduler.core.perf.speed import HIGHEST, LARGEST_RATIO, too_far_apart
from scheduler.core.snapshot import DOWNGRADE, GUARANTEED, OPPORTUNISTIC, PREEMPT, Topology
from scheduler.jobspec.candidates import read_candidates
from scheduler.jobspec.fields import Fields, described, is_mapping, is_storable
from scheduler.jobspec.ports import read_ports
from scheduler.jobspec.quantities import bytes_of
from scheduler.jobspec.secrets import read_secrets
from scheduler.jobspec.spec import (
    ANY_MODEL,
    IDLE_BELOW_PERCENT,
    NOTIFIED,
    WATCHED_THEN,
    JobSpec,
    TaskSpec,
    Trial,
    Watch,
)
from scheduler.jobspec.variables import read_env
from tenants.errors import FieldError, Invalid

#: Most characters of all commands, variables and labels of a job: all else is small by itself.
TEXT_CHARACTERS = 64 * 1024
PROBLEMS_REPORTED = 100
TOPOLOGY_LEVELS = ("rack", "node", "socket", "switch")
MAX_TASKS = 8
MAX_REPLICAS = 256
MAX_GPUS_PER_REPLICA = 16
MAX_CPUS = 4_096
MAX_MEMORY_BYTES = 64 * 1024**4
MAX_TIME_LIMIT_SECONDS = 365 * 86_400
MAX_GRACE_SECONDS = 600
MAX_TRIAL_SECONDS = 3_600
#: Readings of GPUs are seconds apart.
MIN_IDLE_SECONDS = 60
MAX_ATTEMPTS = 20
MAX_RETRY_LINES = 20
MAX_LABELS = 20
MAX_WORDS = 1_000
MAX_MODELS = 16

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_NAME_EXPECTED = "1 to 63 letters, digits, '.', '_' and '-', beginning and ending with a letter or digit"
_CELL = re.compile(r"\S(.{0,253}\S)?")
#: An image's name in a registry: nothing that an engine could take for an option or a file.
_IMAGE = re.compile(
    r"(?=.{1,255}$)[a-z0-9][A-Za-z0-9._-]*(:[0-9]{1,5})?(/[A-Za-z0-9._-]+)*"
    r"(:[A-Za-z0-9._-]+)?(@sha256:[0-9a-f]{64})?"
)
_IMAGE_EXPECTED = "the name of a container image, such as registry.example/team/pytorch:2.5"
#: Fields of a one-task job that may stand at the top instead of in `tasks`.
_SHORTHAND = ("command", "gpus", "gpu_model", "resources", "replicas", "env")


def parse(spec: object, *, where: str = "") -> JobSpec:
    """Return the checked specification; raise Invalid naming every wrong field, paths under `where`."""
    problems: list[FieldError] = []
    if not isinstance(spec, Mapping):
        raise Invalid(
            "A job is an object.", [FieldError(where, f"{described(spec)} is not an object", "an object")]
        )
    parsed = _job(Fields(spec, where, problems))
    if _text_characters(parsed) > TEXT_CHARACTERS:
        problem = "its commands, variables and labels are too long"
        problems.append(FieldError(where or "tasks", problem, f"at most {TEXT_CHARACTERS} characters in all"))
    if problems:
        raise Invalid(_summary(problems), problems[:PROBLEMS_REPORTED])
    return parsed


def _text_characters(spec: JobSpec) -> int:
    words = sum(len(word) for task in spec.tasks for word in task.command)
    pairs = [pair for task in spec.tasks for pair in task.env.items()] + list(spec.labels.items())
    return words + sum(len(name) + len(text) for name, text in pairs)


def _summary(problems: list[FieldError]) -> str:
    first = problems[0]
    rest = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{first.field or 'The job'}: {first.problem}{rest}."


def _job(fields: Fields) -> JobSpec:
    name = fields.word("name", _NAME, _NAME_EXPECTED, default=None)
    virtual_cluster = fields.word("virtual_cluster", _NAME, "the name of a virtual cluster", default="")
    priority = fields.integer("priority", default=0, least=-100, most=100)
    guarantee = fields.choice("guarantee", (GUARANTEED, OPPORTUNISTIC), default=GUARANTEED)
    tasks, gpu_models = _tasks(fields)
    time_limit_seconds = fields.duration("time_limit", most_seconds=MAX_TIME_LIMIT_SECONDS)
    spec = JobSpec(
        name=name,
        virtual_cluster=virtual_cluster,
        priority=priority,
        guaranteed=guarantee == GUARANTEED,
        gpu_models=gpu_models,
        tasks=tasks,
        image=fields.word("image", _IMAGE, _IMAGE_EXPECTED, default=""),
        min_gpus=_min_gpus(fields, tasks),
        topology=_topology(fields),
        nodes=read_candidates(fields),
        pinned_cell=_pinned_cell(fields, guarantee),
        on_reclaim=_on_reclaim(fields, guarantee),
        time_limit_seconds=time_limit_seconds,
        estimate_seconds=_estimate(fields, time_limit_seconds),
        deadline_seconds=fields.duration("deadline", most_seconds=MAX_TIME_LIMIT_SECONDS),
        application=fields.word("application", _NAME, _NAME_EXPECTED, default=""),
        search=fields.word("search", _NAME, _NAME_EXPECTED, default=""),
        skew=_skew(fields),
        retry=_retry(fields.object("retry")),
        watch=_watch(fields),
        trial=_trial(fields, tasks),
        notify_email=_notify(fields),
        ports=read_ports(fields),
        secrets=read_secrets(fields, tasks),
        grace_seconds=_only(
            fields.object("checkpoint"), "grace_seconds", default=30, least=0, most=MAX_GRACE_SECONDS
        ),
        throughput=_throughput(fields),
        labels=_labels(fields),
    )
    fields.finish()
    return spec


def _only(fields: Fields, name: str, *, default: int, least: int, most: int) -> int:
    value = fields.integer(name, default=default, least=least, most=most)
    fields.finish()
    return value


def _tasks(fields: Fields) -> tuple[tuple[TaskSpec, ...], tuple[str, ...]]:
    short = {name: value for name in _SHORTHAND if (value := fields.take(name)) is not None}
    if short:
        return _only_task(fields, short)
    tasks: list[TaskSpec] = []
    models: dict[str, tuple[str, ...]] = {}
    raw = fields.list("tasks", least=1, most=MAX_TASKS, of="tasks")
    for number, value in enumerate(raw):
        path = fields.path_of(f"tasks.{number}")
        task, stated = _task(Fields(value, path, fields.problems), is_only=len(raw) == 1)
        if any(task.name == other.name for other in tasks):
            fields.refuse(
                f"tasks.{number}.name", f"{described(task.name)} is used twice", "a name of its own"
            )
        tasks.append(task)
        if stated is not None:
            models[path] = stated
    _check_one_model(models, fields.problems)
    return tuple(tasks), next(iter(models.values()), ())


def _only_task(fields: Fields, short: dict[str, Any]) -> tuple[tuple[TaskSpec, ...], tuple[str, ...]]:
    """Read a job of one task that was written without `tasks`."""
    if fields.take("tasks") is not None:
        fields.refuse(next(iter(short)), "stands beside tasks", "either tasks or the shorthand, not both")
        return (), ()
    resources = short.get("resources", {})
    written_as = {}
    for name, inner in (("gpus", "gpu"), ("gpu_model", "gpu_model")):
        if name not in short or not isinstance(resources, Mapping):
            continue
        if inner in resources:
            fields.refuse(name, f"is given twice, also as resources.{inner}", "one of the two")
            continue
        resources = {**resources, inner: short[name]}
        written_as[fields.path_of(f"resources.{inner}")] = fields.path_of(name)
    task = {name: short[name] for name in ("command", "replicas", "env") if name in short}
    problems: list[FieldError] = []
    parsed, models = _task(Fields({**task, "resources": resources}, fields.path, problems), is_only=True)
    fields.problems.extend(
        replace(problem, field=written_as.get(problem.field, problem.field)) for problem in problems
    )
    return (parsed,), models or ()


def _check_one_model(models: Mapping[str, tuple[str, ...]], problems: list[FieldError]) -> None:
    paths = iter(models)
    first = next(paths, None)
    for path in paths:
        if models[path] != models[first]:
            problems.append(
                FieldError(
                    f"{path}.resources.gpu_model",
                    f"differs from {first}",
                    "the same in all tasks, because a gang runs on one GPU model",
                )
            )


def _task(fields: Fields, *, is_only: bool) -> tuple[TaskSpec, tuple[str, ...] | None]:
    """Return the task and the GPU models it states, None when it leaves them to the other tasks."""
    name = fields.word("name", _NAME, _NAME_EXPECTED, default="main" if is_only else None)
    replicas = fields.integer("replicas", default=1, least=1, most=MAX_REPLICAS)
    resources = fields.object("resources")
    gpus = resources.integer("gpu", default=None, least=1, most=MAX_GPUS_PER_REPLICA)
    models = _gpu_models(resources)
    cpus = resources.number("cpu", default=0.0, least=0, most=MAX_CPUS)
    memory_bytes = _memory(resources)
    resources.finish()
    command, env = _command(fields), read_env(fields)
    fields.finish()
    task = TaskSpec(
        name=name,
        replicas=replicas,
        gpus=gpus,
        cpus=cpus,
        memory_bytes=memory_bytes,
        command=command,
        env=env,
    )
    return task, models


def _gpu_models(resources: Fields) -> tuple[str, ...] | None:
    value = resources.take("gpu_model")
    if value is None:
        return None
    if value == ANY_MODEL:
        return ()
    names = [value] if isinstance(value, str) else value
    expected = f'"{ANY_MODEL}", a model such as "V100", or a list of models with the preferred first'
    if not isinstance(names, list | tuple) or not 1 <= len(names) <= MAX_MODELS:
        resources.refuse("gpu_model", f"{described(value)} names no GPU models", expected)
    elif bad := [name for name in names if not isinstance(name, str) or not _NAME.fullmatch(name)]:
        resources.refuse("gpu_model", f"{described(bad[0])} is not a model's name", expected)
    elif ANY_MODEL in names:
        resources.refuse("gpu_model", f'"{ANY_MODEL}" stands in a list of models', expected)
    elif len(set(names)) < len(names):
        resources.refuse("gpu_model", "names a model twice", expected)
    else:
        return tuple(names)
    return None


def _memory(resources: Fields) -> int:
    value = resources.take("memory")
    if value is None:
        return 0
    amount = bytes_of(value) if isinstance(value, str) else value
    if not isinstance(amount, int) or isinstance(amount, bool):
        resources.refuse("memory", f"{described(value)} is not a size", 'a size such as "4GiB", or bytes')
    elif not 0 <= amount <= MAX_MEMORY_BYTES:
        problem = "is negative" if amount < 0 else "is more than any machine has"
        resources.refuse("memory", f"{described(value)} {problem}", 'a size from 0 to "64TiB"')
    else:
        return amount
    return 0


def _command(fields: Fields) -> tuple[str, ...]:
    value = fields.take("command")
    expected = 'a list of words such as ["python", "train.py"], or one line for the shell'
    if isinstance(value, str) and value.strip():
        words = ["sh", "-c", value]
    elif isinstance(value, list | tuple) and 1 <= len(value) <= MAX_WORDS:
        words = list(value)
    else:
        problem = "is missing" if value is None else f"{described(value)} is not a command"
        fields.refuse("command", problem, expected)
        return ()
    for number, word in enumerate(words):
        if not isinstance(word, str):
            fields.refuse(
                f"command.{number}", f"{described(word)} is not text", "text; put numbers in quotes"
            )
        elif not is_storable(word):
            fields.refuse(f"command.{number}", "has a NUL or a broken character", "plain text")
    if words[0] == "":
        fields.refuse("command.0", "is empty", "the program to run")
    return tuple(word for word in words if isinstance(word, str))


def _topology(fields: Fields) -> Topology | None:
    value = fields.take("topology")
    if value is None:
        return None
    inner = Fields(value, fields.path_of("topology"), fields.problems)
    level = inner.choice("level", TOPOLOGY_LEVELS, default=None)
    topology = Topology(level=level, required=inner.boolean("required", default=False))
    inner.finish()
    return topology


def _estimate(fields: Fields, time_limit_seconds: float | None) -> float | None:
    estimate = fields.duration("estimate", most_seconds=MAX_TIME_LIMIT_SECONDS)
    if estimate is not None and time_limit_seconds is not None and estimate > time_limit_seconds:
        fields.refuse(
            "estimate",
            f"{estimate:g} seconds are longer than the time limit",
            f"at most the time limit, {time_limit_seconds:g} seconds",
        )
        return None
    return estimate


def _min_gpus(fields: Fields, tasks: Sequence[TaskSpec]) -> int | None:
    """Return the fewest GPUs of an elastic job: of one task, in whole replicas."""
    value = fields.take("elastic")
    if value is None:
        return None
    elastic = Fields(value, fields.path_of("elastic"), fields.problems)
    most = sum(task.replicas * task.gpus for task in tasks)
    least = elastic.integer("min_gpus", default=most, least=1, most=max(most, 1))
    elastic.finish()
    if len(tasks) > 1:
        fields.refuse("elastic", f"the job has {len(tasks)} tasks", "one task, to run fewer replicas of")
    elif tasks and least % max(tasks[0].gpus, 1):
        each = tasks[0].gpus
        fields.refuse("elastic.min_gpus", f"{least} are no whole replicas of {each}", f"a multiple of {each}")
    return least


def _pinned_cell(fields: Fields, guarantee: str) -> str:
    name = fields.word("pinned_cell", _CELL, "the name of a pinned cell of the virtual cluster", default="")
    if name and guarantee == OPPORTUNISTIC:
        problem = "an opportunistic job can not ask for a pinned cell"
        fields.refuse("pinned_cell", problem, "no pinned cell, or guarantee: guaranteed")
    return name


def _on_reclaim(fields: Fields, guarantee: str) -> str:
    what = fields.choice("on_reclaim", (PREEMPT, DOWNGRADE), default="")
    if what and guarantee == OPPORTUNISTIC:
        problem = "an opportunistic job has no guarantee that could be taken"
        fields.refuse("on_reclaim", problem, "nothing, or guarantee: guaranteed")
    return what


def _skew(fields: Fields) -> float | None:
    value = fields.take("skew")
    return None if value is None else fields.checked_number("skew", value, least=0, most=1)


def _retry(fields: Fields) -> RetryRules:
    rules = RetryRules(
        max_attempts=fields.integer("max_attempts", default=3, least=1, most=MAX_ATTEMPTS),
        attempts=_attempts_by(fields, "attempts", KNOWN_FAILURES),
        matching=_attempts_by(fields, "matching"),
    )
    fields.finish()
    return rules


def _watch(fields: Fields) -> Watch | None:
    value = fields.take("watch")
    if value is None:
        return None
    inner = Fields(value, fields.path_of("watch"), fields.problems)
    silent = inner.duration("silent", most_seconds=MAX_TIME_LIMIT_SECONDS)
    then = inner.choice("then", WATCHED_THEN, default="warn")
    idle = inner.object("idle_gpus")
    idle_seconds = idle.duration("seconds", most_seconds=MAX_TIME_LIMIT_SECONDS)
    below_percent = idle.number("below_percent", default=IDLE_BELOW_PERCENT, least=0.1, most=100)
    idle.finish()
    inner.finish()
    if idle_seconds is not None and idle_seconds < MIN_IDLE_SECONDS:
        idle.refuse("seconds", f"{idle_seconds:g} seconds are too few", f"at least {MIN_IDLE_SECONDS}")
    if silent is None and idle_seconds is None:
        expected = 'a duration such as "30m"; or idle_gpus with its seconds'
        fields.refuse("watch.silent", "is missing", expected)
        return None
    return Watch(
        silent_seconds=silent, then=then, idle_seconds=idle_seconds, idle_below_percent=below_percent
    )


def _trial(fields: Fields, tasks: Sequence[TaskSpec]) -> Trial | None:
    value = fields.take("trial")
    if value is None:
        return None
    inner = Fields(value, fields.path_of("trial"), fields.problems)
    problems = len(fields.problems)
    seconds = inner.duration("seconds", most_seconds=MAX_TRIAL_SECONDS)
    if seconds is None and len(fields.problems) == problems:
        inner.refuse("seconds", "is missing", 'a duration such as "2m"')
    gpus = inner.integer("gpus", default=1, least=1, most=tasks[0].gpus if tasks else MAX_GPUS_PER_REPLICA)
    inner.finish()
    if seconds is None:
        return None
    if tasks and gpus >= sum(task.replicas * task.gpus for task in tasks):
        problem = "the whole job needs no more GPUs than its trial"
        fields.refuse("trial", problem, "a job of more GPUs, or no trial")
    return Trial(seconds=seconds, gpus=gpus)


def _notify(fields: Fields) -> tuple[str, ...] | None:
    inner = fields.object("notify")
    value = inner.take("email")
    inner.finish()
    if value is None:
        return None
    expected = f"a list of some of: {', '.join(NOTIFIED)}"
    if not isinstance(value, list | tuple):
        inner.refuse("email", f"{described(value)} is not a list", expected)
    elif unknown := [word for word in value if word not in NOTIFIED]:
        inner.refuse("email", f"{described(unknown[0])} is not known", expected)
    elif len(set(value)) < len(value):
        inner.refuse("email", "names something twice", expected)
    else:
        return tuple(value)
    return None


def _attempts_by(fields: Fields, name: str, known: Collection[str] = ()) -> dict[str, int]:
    """Return numbers of attempts by one of the known words, or by any text where there are none."""
    value = fields.take(name)
    if not is_mapping(fields, name, value, most=MAX_RETRY_LINES):
        return {}
    attempts: dict[str, int] = {}
    for key, count in value.items():
        where = f"{name}.{str(key)[:80]}"
        if known and key not in known:
            fields.refuse(where, "is no class or layer of failures", f"one of: {', '.join(known)}")
        elif not isinstance(key, str) or not 1 <= len(key) <= 200 or not is_storable(key):
            fields.refuse(where, "can not be looked for", "a text of 1 to 200 characters")
        elif not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_ATTEMPTS:
            expected = f"a whole number from 1 to {MAX_ATTEMPTS}"
            fields.refuse(where, f"{described(count)} is not a number of attempts", expected)
        else:
            attempts[key] = count
    return attempts


def _throughput(fields: Fields) -> dict[str, float]:
    value = fields.take("throughput")
    if not is_mapping(fields, "throughput", value, most=MAX_MODELS):
        return {}
    speeds: dict[str, float] = {}
    for model, speed in value.items():
        where = f"throughput.{str(model)[:80]}"
        if not isinstance(model, str) or not _NAME.fullmatch(model):
            fields.refuse(where, "is not a model's name", 'a GPU model such as "V100"')
        else:
            # 0: it does not run there.
            speeds[model] = fields.checked_number(
                where, speed, least=0, most=HIGHEST, unit=" samples per second"
            )
    if too_far_apart(list(speeds.values())):
        slowest, fastest = (
            best(filter(speeds.get, speeds), key=lambda model: speeds[model]) for best in (min, max)
        )
        fields.refuse(
            f"throughput.{slowest}",
            f"{speeds[slowest]:g} is beyond belief beside {speeds[fastest]:g} on {fastest}",
            f"within a factor of {LARGEST_RATIO:,.0f}; 0 where it does not run",
        )
    return speeds


def _labels(fields: Fields) -> dict[str, str]:
    value = fields.take("labels")
    if not is_mapping(fields, "labels", value, most=MAX_LABELS):
        return {}
    labels = {}
    for name, text in value.items():
        where = f"labels.{str(name)[:80]}"
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            fields.refuse(where, "is not a valid name", _NAME_EXPECTED)
        elif not isinstance(text, str) or len(text) > 200 or not is_storable(text):
            fields.refuse(
                where, f"{described(text)} is not a label's value", "text of at most 200 characters"
            )
        else:
            labels[name] = text
    return labels
