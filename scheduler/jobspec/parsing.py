"""From what a person wrote to a JobSpec: strict, and with every mistake reported at once."""

from collections.abc import Mapping
from dataclasses import replace

from nodeagent.messages import INPUT_PORT
from scheduler.core.model.snapshot import FIXED_WORLD
from scheduler.jobspec.fields import Fields, described, numeral
from scheduler.jobspec.launchers import check_launcher
from scheduler.jobspec.spec import JOB, JobSpec
from scheduler.jobspec.tasks import MAX_REPLICAS
from tenants.errors import FieldError, Invalid

#: The most characters of a job's commands, variables and labels together; everything else is small.
TEXT_CHARACTERS = 64 * 1024
PROBLEMS_REPORTED = 100


def parse(spec: object, *, where: str = "") -> JobSpec:
    """Return the checked specification; raise Invalid naming every wrong field, paths under `where`."""
    problems: list[FieldError] = []
    if not isinstance(spec, Mapping):
        raise Invalid(
            "A job is an object.", [FieldError(where, f"{described(spec)} is not an object", "an object")]
        )
    fields = Fields(spec, where, problems)
    parsed: JobSpec = JOB.read_fields(fields)
    _check_together(fields, parsed)
    if _text_characters(parsed) > TEXT_CHARACTERS:
        problem = "its commands, variables and labels are too long"
        problems.append(FieldError(where or "tasks", problem, f"at most {TEXT_CHARACTERS} characters in all"))
    if problems:
        raise Invalid(_summary(problems), problems[:PROBLEMS_REPORTED])
    return parsed


def renamed(spec: JobSpec, written: Mapping[str, object], *, where: str = "") -> JobSpec:
    """Return what `parse` returns of this writing; `spec` is that of one that differs only in its name."""
    problems: list[FieldError] = []
    name = _NAME.kind.read(Fields(written, where, problems), _NAME)
    if problems:
        raise Invalid(_summary(problems), problems)
    return replace(spec, name=name)


_NAME = next(one for one in JOB.declared if one.attribute == "name")


def _check_together(fields: Fields, spec: JobSpec) -> None:
    """Note fields that are each valid but contradict one another."""
    _check_elastic(fields, spec)
    limit, estimate = spec.time_limit_seconds, spec.estimate_seconds
    if estimate is not None and limit is not None and estimate > limit:
        fields.refuse(
            "estimate",
            f"{numeral(estimate)} seconds are longer than the time limit",
            f"at most the time limit, {numeral(limit)} seconds",
        )
    if spec.pinned_cell and not spec.guaranteed:
        problem = "an opportunistic job cannot ask for a pinned cell"
        fields.refuse("pinned_cell", problem, "no pinned cell, or guarantee: guaranteed")
    if spec.on_reclaim and not spec.guaranteed:
        problem = "an opportunistic job has no guarantee that could be taken"
        fields.refuse("on_reclaim", problem, "nothing, or guarantee: guaranteed")
    _check_measuring(fields, spec)
    _check_parts(fields, spec)
    _check_without_gpus(fields, spec)
    _check_tags(fields, spec)
    _check_trial(fields, spec)
    check_launcher(fields, spec)
    if spec.input_workers is not None and INPUT_PORT in spec.ports:
        problem = f"{INPUT_PORT} is the port of the job's input workers"
        fields.refuse("ports", problem, "another name")
    _check_shared_stream(fields, spec)
    for number, use in enumerate(spec.secrets):
        for task in spec.tasks:
            if use.env and use.env in task.env:
                problem = f"{use.env} is also in env of task {task.name}"
                fields.refuse(f"secrets.{number}.env", problem, "one of the two")


def _check_shared_stream(fields: Fields, spec: JobSpec) -> None:
    if spec.input_workers is None or not spec.input_workers.shared:
        return
    if not spec.search:
        problem = "the jobs of one search share input workers, and this job names no search"
        fields.refuse("input_workers.shared", problem, "a search, or false")
    if sum(task.replicas for task in spec.tasks) > 1 or spec.elastic is not None:
        problem = "each replica would have the same batches"
        fields.refuse(
            "input_workers.shared", problem, "one task with one replica that is not elastic, or false"
        )


def _check_measuring(fields: Fields, spec: JobSpec) -> None:
    """Note a request to measure CPUs in a job that does not have one replica all the time."""
    if not any([task.measures_cpus for task in spec.tasks]):
        return
    if len(spec.tasks) > 1 or spec.elastic is not None:
        has = f"{len(spec.tasks)} tasks" if len(spec.tasks) > 1 else "a number of replicas that changes"
        fields.refuse("resources.measure_cpu", f"the job has {has}", "a job with one replica")


def _check_parts(fields: Fields, spec: JobSpec) -> None:
    """Note fields that exclude parts of GPUs, and labels for sharing in a job without parts."""
    parts = [number for number, task in enumerate(spec.tasks) if task.part is not None]
    if spec.sharing is not None and spec.tasks and not parts:
        problem = "the job has its GPUs to itself"
        fields.refuse("sharing", problem, "nothing, or a part of a GPU in resources.gpu")
    if spec.elastic is not None and parts:
        problem = "a job with parts of GPUs has a fixed number of replicas"
        fields.refuse("elastic", problem, "nothing, or whole GPUs in resources.gpu")


def _check_without_gpus(fields: Fields, spec: JobSpec) -> None:
    """Note fields about GPUs in a job without any: it is placed by CPUs and memory only."""
    if all([task.gpu for task in spec.tasks]):
        return
    if any(spec.ports.values()) and sum([task.replicas for task in spec.tasks]) > 1:
        problem = "replicas without GPUs can be on one node, where only one of them can have the port"
        fields.refuse("ports", problem, "ports without numbers, or one replica")
    if spec.gpus:
        return
    told = {
        "elastic": spec.elastic is not None,
        "pinned_cell": bool(spec.pinned_cell),
        "trial": spec.trial is not None,
        "constraints": bool(spec.constraints),
        "tags": bool(spec.tags),
        "throughput": bool(spec.throughput),
    }
    for name in [name for name, is_told in told.items() if is_told]:
        fields.refuse(name, "needs GPUs, and this job has none", "nothing, or resources.gpu above 0")


def _check_tags(fields: Fields, spec: JobSpec) -> None:
    """Note fields that exclude tags, whose replicas are placed one by one and are all alike."""
    name = "constraints" if spec.constraints else "tags"
    if not (spec.tags or spec.constraints) or not spec.gpus:
        return
    if len(spec.tasks) > 1:
        fields.refuse(name, f"the job has {len(spec.tasks)} tasks", "one task, whose replicas are alike")
    if any([task.part is not None for task in spec.tasks]):
        fields.refuse(name, "the job has parts of GPUs", "whole GPUs in resources.gpu")
    if spec.elastic is not None:
        fields.refuse(
            "elastic", f"a job with {name} has a fixed number of replicas", f"nothing, or no {name}"
        )
    if spec.topology is not None:
        problem = f"a job with {name} states in constraints how close its replicas are"
        expected = "nothing, or a constraint with a tag of its own, such as scope: rack, min: 1"
        fields.refuse("topology", problem, expected)


def _check_elastic(fields: Fields, spec: JobSpec) -> None:
    if spec.elastic is None or not spec.gpus:
        return
    if len(spec.tasks) > 1:
        problem = f"the job has {len(spec.tasks)} tasks"
        fields.refuse("elastic", problem, "one task")
        return
    each = max(spec.tasks[0].gpus, 1)
    ranges = (("min_gpus", spec.min_gpus, 1, spec.gpus), ("max_gpus", spec.max_gpus, spec.gpus, None))
    for name, gpus, least, most in ranges:
        largest = most or MAX_REPLICAS * each
        if gpus is None:
            continue
        if not least <= gpus <= largest:
            than = f"less than {least}" if gpus < least else f"more than {largest}"
            expected = f"a whole number from {least} to {largest}"
            fields.refuse(f"elastic.{name}", f"{gpus} is {than}", expected)
        elif gpus % each:
            problem = f"{gpus} GPUs are not whole replicas of {each} GPUs"
            fields.refuse(f"elastic.{name}", problem, f"a multiple of {each}")
        elif spec.elastic_mode == FIXED_WORLD:
            _check_fixed_world(fields, spec, name, gpus // each)


def _check_fixed_world(fields: Fields, spec: JobSpec, name: str, replicas: int) -> None:
    """Note a number of GPUs that the replicas of a fixed-world job cannot share evenly."""
    task = spec.tasks[0]
    if replicas > task.replicas:
        problem = f"a job in mode {FIXED_WORLD} has no more than its {task.replicas} replicas"
        fields.refuse(f"elastic.{name}", problem, f"{spec.gpus}, or another mode")
    elif task.replicas % replicas:
        counts = [n * max(task.gpus, 1) for n in range(1, task.replicas + 1) if task.replicas % n == 0]
        problem = f"{task.replicas} replicas cannot share the GPUs of {replicas} evenly"
        fields.refuse(f"elastic.{name}", problem, f"one of: {', '.join(map(str, counts))}")


def _check_trial(fields: Fields, spec: JobSpec) -> None:
    if spec.trial is None or not spec.gpus:
        return
    most = spec.tasks[0].gpus
    if not most:
        problem = "runs the first task, which has no GPUs"
        fields.refuse("trial", problem, "a first task with GPUs, or no trial")
    elif spec.trial.gpus > most:
        problem = f"{spec.trial.gpus} is more than {most}"
        fields.refuse("trial.gpus", problem, f"a whole number from 1 to {most}")
    elif spec.trial.gpus >= spec.gpus:
        problem = "the whole job needs no more GPUs than its trial"
        fields.refuse("trial", problem, "a job of more GPUs, or no trial")


def _text_characters(spec: JobSpec) -> int:
    commands = [task.command for task in spec.tasks]
    if spec.input_workers is not None:
        commands.append(spec.input_workers.command)
    words = sum(len(word) for command in commands for word in command)
    pairs = [pair for task in spec.tasks for pair in task.env.items()] + list(spec.labels.items())
    return words + sum(len(name) + len(text) for name, text in pairs)


def _summary(problems: list[FieldError]) -> str:
    first = problems[0]
    rest = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{first.field or 'The job'}: {first.problem}{rest}."
