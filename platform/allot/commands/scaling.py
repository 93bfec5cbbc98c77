"""scaling, sensitivity, elasticity: how a job scales by GPUs, by CPUs and memory; what elasticity saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from allot.commands.options import JobId, OutputOption, connect
from allot.errors import AllotError
from allot.output import (
    Format,
    duration,
    local_time,
    plural,
    print_line,
    print_objects,
    print_table,
    say,
    since,
    size,
)

if TYPE_CHECKING:
    from allot.client import Client
    from allot.schema import (
        ElasticityFigures,
        ElasticitySavings,
        JobScaling,
        ScalingEvidence,
        ScalingNow,
        SensitivityMeasured,
        SensitivityPoint,
        TaskSensitivity,
    )

#: How long an answer is waited for; a worker may simulate for as long as 100 seconds.
PATIENCE_SECONDS = 180.0
PAUSE_SECONDS = 0.5


def scaling(job_id: JobId, output: OutputOption = Format.table) -> None:
    """Show how a job scales: the GPUs it had, its batch size now, and its predicted speedup.

    SPEEDUP is relative to one replica, with the best batch size for that number of GPUs. * marks the number
    that the job has.
    """
    with connect() as client:
        found = client.throughputs.scaling_of_job(job_id)
    if output is not Format.table:
        print_objects(found, output)
        return
    print_line(f"Job {job_id}: {_range(found)}")
    if found["now"]:
        print_line(f"  Now     {_now(found['now'])}")
    if found["rests_on"]:
        print_line(f"  By      {_evidence(found['rests_on'])}")
    if found["allocations"]:
        print_line("")
        _print_allocations(found)
    if found["curve"]:
        print_line("")
        _print_curve(found)


def sensitivity(job_id: JobId, output: OutputOption = Format.table) -> None:
    """Show how a job's speed depends on its CPUs and memory, if it leaves these to the platform.

    SPEED is relative, as the job states it or as the platform measured it; the slower of CPUs and memory
    decides. The proportional share of a replica is the same fraction of the node's CPUs and memory as its
    GPUs are of the node's GPUs.
    """
    with connect() as client:
        found = client.throughputs.sensitivity_of_job(job_id)
    if output is not Format.table:
        print_objects(found, output)
        return
    if not found["tasks"]:
        say(f"Job {job_id} states no sensitivity of CPUs or memory that it leaves to the platform.")
    for task in found["tasks"]:
        print_line(f"Task {task['task']}{_gain(task)}")
        if task["measured"] is not None:
            print_line(f"  {_measured(task['measured'])}")
        rows = [
            *[_sensitivity_row("CPUs", f"{point['amount']:g}", point) for point in task["by_cpus"]],
            *[_sensitivity_row("memory", size(round(point["amount"])), point) for point in task["by_memory"]],
        ]
        print_table(["OF", "AMOUNT", "SPEED", "IS"], rows, right=("AMOUNT", "SPEED"))


def _gain(task: TaskSensitivity) -> str:
    now, fair = task["now"], task["proportional"]
    if now is None or fair is None:
        return ": it has not run yet"
    if not fair["speed"]:
        return ""
    return f": {now['speed'] / fair['speed']:.2f} times as fast as with its proportional share"


def _measured(measured: SensitivityMeasured) -> str:
    if not measured["gpu_model"]:
        return "Its CPUs are measured while it runs"
    trials = plural(measured["trials"], "trial")
    if measured["is_over"]:
        return f"Its CPUs were measured on {measured['gpu_model']}, in {trials}"
    return f"Its CPUs are being measured on {measured['gpu_model']}: {trials} so far"


def _sensitivity_row(what: str, amount: str, point: SensitivityPoint) -> list[str]:
    words = {"now": "now", "proportional": "proportional share", "best": "as fast as it can be"}
    return [what, amount, f"{point['speed']:.3g}", ", ".join([words[mark] for mark in point["marks"]])]


def _range(found: JobScaling) -> str:
    if not found["is_elastic"]:
        return f"{found['gpus']:g} GPU{'' if 0 < found['gpus'] <= 1 else 's'}, not elastic"
    mode = str(found["mode"]).replace("_", " ")
    return f"{found['min_gpus']} to {plural(found['max_gpus'], 'GPU')}, {mode}"


def _now(now: ScalingNow) -> str:
    parts = [f"batch {now['batch_size']}", f"learning rate x {now['lr_factor']:.3g}"]
    if now["efficiency"] is not None:
        parts.append(f"efficiency {100 * now['efficiency']:.0f} %")
    if now["goodput"] is not None:
        parts.append(f"goodput {now['goodput']:.4g} samples/s")
    if now["overhead"] is not None:
        parts.append(f"measuring takes {100 * now['overhead']:.1f} %")
    return ", ".join(parts)


def _evidence(evidence: ScalingEvidence) -> str:
    ways, iterations = plural(evidence["ways"], "way"), f"{evidence['iterations']:.0f}"
    fitted = f"fitted {since(evidence['fitted_at'])} ago" if evidence["fitted_at"] else "not fitted yet"
    return f"{ways} of running timed over {iterations} iterations, {fitted}"


def _print_allocations(found: JobScaling) -> None:
    rows = [
        [
            each["attempt"],
            f"{each['gpus']:g}",
            each["gpu_model"],
            local_time(each["since"]),
            since(each["since"], until=each["until"]),
            each["why"],
        ]
        for each in found["allocations"]
    ]
    columns = ["ATTEMPT", "GPUS", "MODEL", "SINCE", "TIME", "WHY"]
    print_table(columns, rows, right=("ATTEMPT", "GPUS", "TIME"))


def _print_curve(found: JobScaling) -> None:
    present = found["now"]["gpus"] if found["now"] else None
    rows = [
        [
            f"{point['gpus']}{'*' if point['gpus'] == present else ''}",
            f"{point['speedup']:.2f}",
            f"{point['goodput']:.4g}",
            point["batch_size"],
            f"{100 * point['efficiency']:.0f} %",
        ]
        for point in found["curve"]
    ]
    columns = ["GPUS", "SPEEDUP", "GOODPUT", "BATCH", "EFFICIENCY"]
    print_table(columns, rows, right=columns)


def elasticity(
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Simulate now instead of showing the last result.")
    ] = False,
    days: Annotated[
        float | None,
        typer.Option(help="Simulate now, with the jobs submitted in the last DAYS days. Default: 1."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as -o json.")] = False,
    output: OutputOption = Format.table,
) -> None:
    """Show what elasticity saved, by simulating past jobs as declared and with fixed GPU counts. For
    operators.
    """
    output = Format.json if as_json else output
    found: ElasticitySavings | None
    with connect() as client:
        if fresh or days is not None:
            found = _simulated(client, 1.0 if days is None else days)
        else:
            found = next(client.throughputs.elasticity_savings(), None)
    if output is not Format.table:
        print_objects(found, output)
    elif found is None:
        say("There is no result yet. Run a simulation with `--fresh`.")
    elif found["state"] == "done":
        _print_savings(found)
    if found is not None and found["state"] != "done":
        raise AllotError(found["problem"] or "There is no answer yet; look again with `allot elasticity`.")


def _simulated(client: Client, days: float) -> ElasticitySavings:
    """Ask, and look again until a worker has answered or the patience is over."""
    asked = found = client.throughputs.simulate_elasticity(days)
    waited = 0.0
    while found["state"] in ("waiting", "running") and waited < PATIENCE_SECONDS:
        client.sleep(PAUSE_SECONDS)
        waited += PAUSE_SECONDS
        # It is gone where many others have asked since.
        known = client.throughputs.elasticity_savings()
        found = next((each for each in known if each["id"] == asked["id"]), asked)
    return found


def _print_savings(found: ElasticitySavings) -> None:
    elastic, rigid = found["elastic"], found["rigid"]
    days = "day" if found["days"] == 1 else f"{found['days']:g} days"
    time = f"{days} before {local_time(found['asked_at'])}"
    if not elastic or not rigid:
        print_line(f"None of the {plural(found['jobs'], 'job')} of the {time} is elastic.")
        return
    print_line(
        f"{plural(found['jobs'], 'job')} of the {time}: {found['elastic_jobs']:,} of them elastic, "
        f"{found['measured_jobs']:,} with measured scaling."
    )
    if found["left_out"]:
        print_line(f"Left out, as they did not end: {plural(found['left_out'], 'job')}.")
    print_line(_verdict(elastic, rigid))
    rows = [
        [
            name,
            duration(figures["mean_completion_seconds"]),
            duration(figures["mean_wait_seconds"]),
            f"{figures['gpu_hours']:.1f}",
            f"{figures['resizes']:,}",
        ]
        for name, figures in (("elastic", elastic), ("rigid", rigid))
    ]
    columns = ["SIMULATED", "MEAN COMPLETION", "MEAN WAIT", "GPU-HOURS", "RESIZES"]
    print_table(columns, rows, right=columns[1:])
    print_line(found["assumption"])


def _verdict(elastic: ElasticityFigures, rigid: ElasticityFigures) -> str:
    whole = rigid["mean_completion_seconds"]
    saved = whole - elastic["mean_completion_seconds"]
    part = round(100 * abs(saved) / whole) if whole > 0 else 0
    if part == 0:
        return "Elastic, jobs complete as soon as rigid, on average."
    when = "sooner" if saved > 0 else "later"
    return f"Elastic, jobs complete {duration(abs(saved))} ({part} %) {when} on average."


def register(app: typer.Typer) -> None:
    app.command()(scaling)
    app.command()(sensitivity)
    app.command()(elasticity)
