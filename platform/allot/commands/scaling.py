"""scaling: which GPUs a job had, its batch now, and how fast it would be on more or fewer GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from allot.commands.options import JobId, OutputOption, connect
from allot.output import Format, local_time, plural, print_line, print_objects, print_table, since

if TYPE_CHECKING:
    from allot.schema import JobScaling, ScalingEvidence, ScalingNow


def scaling(job_id: JobId, output: OutputOption = Format.table) -> None:
    """Show how a job scales: the GPUs that it had, its batch now, and the speedup that is predicted.

    SPEEDUP is relative to one replica, with the best batch for so many GPUs; * marks what the job has.
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


def _range(found: JobScaling) -> str:
    if not found["is_elastic"]:
        return f"{plural(found['gpus'], 'GPU')}, not elastic"
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
            each["gpus"],
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


def register(app: typer.Typer) -> None:
    app.command()(scaling)
