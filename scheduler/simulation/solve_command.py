"""`manage.py solve`: the allocation of a policy of Gavel's family for one instance, without a server."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scheduler.core.model.errors import SchedulingError
from scheduler.core.model.plugin_text import parse_plugin
from scheduler.core.solvers.document import instance_from, solution_to
from scheduler.core.solvers.errors import InstanceError
from scheduler.core.solvers.instance import Instance
from scheduler.core.solvers.solution import Solution
from scheduler.core.solvers.solving import OBJECTIVES, solve
from scheduler.simulation.errors import InputError
from scheduler.simulation.quiet import silence_solvers

#: The parameters of `gavel`: their types and defaults.
PARAMETERS: Mapping[str, Any] = {
    "objective": "max_min",
    "aware": True,
    "sharing": False,
    "parts": 1,
    "seed": 0,
}
#: The most jobs that a table on a terminal shows.
SHOWN = 50


def main(arguments: Sequence[str]) -> int:
    """Carry out the command line; return the exit code.

    The code is 1 for an instance with mistakes or an impossible objective, and 2 for a file that cannot be
    read or an unknown policy.
    """
    order = _parser().parse_args(arguments)
    silence_solvers()
    try:
        parameters = parameters_of(order.policy)
        instance = instance_from(read_json(order.instance))
        began = time.perf_counter()
        solution = solve(instance, **parameters)
        seconds = time.perf_counter() - began
    except InstanceError as error:
        for problem in error.problems:
            sys.stderr.write(f"{order.instance}: {problem}\n")
        return 1
    except (InputError, OSError) as error:
        sys.stderr.write(f"solve: {error}\n")
        return 2
    except SchedulingError as error:
        sys.stderr.write(f"solve: {error}\n")
        return 1
    if order.json:
        report = {"policy": order.policy, "seconds": seconds, **solution_to(solution)}
        sys.stdout.write(json.dumps(report, indent=2, allow_nan=False) + "\n")
    else:
        sys.stdout.write(described(solution, parameters["objective"], seconds))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="manage.py solve",
        description=__doc__,
        epilog="docs/solve.md describes the file and the objectives.",
    )
    parser.add_argument(
        "--policy",
        required=True,
        metavar="gavel:objective=NAME",
        help=f"objectives: {', '.join(sorted(OBJECTIVES))}; also aware, sharing, parts, seed",
    )
    parser.add_argument("--instance", required=True, metavar="FILE", help="jobs and GPUs in JSON")
    parser.add_argument("--json", action="store_true", help="print all of it as one JSON object")
    return parser


def parameters_of(policy: str) -> dict[str, Any]:
    """Return the parameters of `gavel` from a policy's text; raise InputError that names a wrong one."""
    try:
        name, given = parse_plugin(policy)
    except SchedulingError as error:
        raise InputError(str(error)) from None
    if name != "gavel":
        raise InputError(f"policy: {name!r} cannot be solved by itself; write gavel:objective=...")
    for parameter, value in given.items():
        if parameter not in PARAMETERS:
            known = ", ".join(PARAMETERS)
            raise InputError(f"policy: gavel has no parameter {parameter!r}; it has {known}")
        expected = type(PARAMETERS[parameter])
        if type(value) is not expected:
            words = {bool: "true or false", int: "a whole number", str: "a name"}
            raise InputError(f"policy: {parameter}: is {value!r}; write {words[expected]}")
    if (objective := given.get("objective", "max_min")) not in OBJECTIVES:
        known = ", ".join(sorted(OBJECTIVES))
        raise InputError(f"policy: objective: there is no {objective!r}; there are {known}")
    return {**PARAMETERS, **given}


def read_json(file: str) -> Any:
    """Return the content of a JSON file; raise InputError with the line when it is not JSON, or OSError."""
    try:
        return json.loads(Path(file).read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise InputError(f"{file}:{error.lineno}: is not JSON: {error.msg}") from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{file}: is not JSON: {error}") from None


def described(solution: Solution, objective: str, seconds: float) -> str:
    """Return a solution for people: the objective, the models, the jobs, and those that are left out."""
    instance = solution.instance
    meaning = OBJECTIVES[objective]().meaning
    lines = [
        f"{objective}: {solution.objective:.6g} ({meaning})",
        *([f"really: {solution.achieved:.6g}"] if solution.achieved != solution.objective else []),
        f"solved in {seconds:.3f} s: {instance.jobs} jobs in {solution.groups} groups, "
        f"{solution.columns} columns",
        "",
        *_models(solution),
        "",
        *_jobs(solution),
    ]
    for what, jobs in (
        ("runs on none of the models", solution.stuck),
        ("misses its SLO", solution.missed),
    ):
        lines += [f"job {instance.names[job]} {what}" for job in jobs]
    return "\n".join(lines) + "\n"


def _models(solution: Solution) -> list[str]:
    instance: Instance = solution.instance
    return [
        f"{model}: {used:.2f} of {gpus:g} GPUs busy"
        for model, used, gpus in zip(instance.models, solution.used, instance.gpus, strict=True)
    ]


def _jobs(solution: Solution) -> list[str]:
    instance = solution.instance
    shared = solution.shares - solution.alone
    width = max([len("job"), *[len(name) for name in instance.names[:SHOWN]]])
    columns = "  ".join(f"{model:>12}" for model in instance.models)
    lines = [f"{'job':<{width}}  GPUs  {columns}  steps/s"]
    for job in range(min(instance.jobs, SHOWN)):
        cells = [
            f"{alone + both:7.2%}" + (f" ({both:.0%})" if both > 0.005 else "     ")
            for alone, both in zip(solution.alone[job], shared[job], strict=True)
        ]
        row = "  ".join(f"{cell:>12}" for cell in cells)
        name, gang = instance.names[job], instance.gang[job]
        lines.append(f"{name:<{width}}  {gang:4.0f}  {row}  {solution.throughput[job]:.6g}")
    if instance.jobs > SHOWN:
        lines.append(f"... and {instance.jobs - SHOWN} more; --json prints all")
    if solution.shared:
        lines.append("in brackets: the part of that while it shares its GPUs with another job")
    return lines
