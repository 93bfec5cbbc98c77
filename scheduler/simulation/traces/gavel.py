"""Gavel (OSDI'20): its tab-separated traces, and our CSVs of them.

Two layouts of the published `.trace` files, distinguished by the number of fields of the first line:

    10  job_type command working_dir num_steps_arg needs_data_dir total_steps scale_factor weight SLO arrival
     7  job_type command num_steps_arg needs_data_dir total_steps arrival scale_factor (traces/msr)

Work is in steps: seconds = total_steps / the job type's steps a second on the reference model (v100),
consolidated, for its gang size. A gang size that was never measured runs at the rate of the largest smaller
measured one. The traces/msr files were made with one rate per job type, whatever the gang, so their multi-GPU
jobs are shorter here than in the log they were drawn from. A job of weight w gets priority w - 1, which
policy gavel weighs as w. SLOs are not used.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.simulation.errors import ThroughputError
from scheduler.simulation.rates import ThroughputTable
from scheduler.simulation.throughputs import read_throughputs
from scheduler.simulation.traces.fields import BadField, count, named, number, positive, seconds, shown
from scheduler.simulation.traces.source import ANY_TENANT, ANY_VIRTUAL_CLUSTER, Source, TracedJob

TABLE = "simulation_throughputs.json"
_LAYOUTS: Mapping[int, Mapping[str, int]] = {
    10: {"total_steps": 5, "scale_factor": 6, "priority_weight": 7, "SLO": 8, "arrival_time": 9},
    7: {"total_steps": 4, "arrival_time": 5, "scale_factor": 6},
}


def read(source: Source) -> None:
    """Read a trace of any layout; the table comes from the options or lies beside the trace."""
    table = source.options.throughputs or _table_beside(source)
    source.notes.append(f"Work is steps divided by the rate on {table.reference} in {table.name}.")
    rates: dict[tuple[str, int], Mapping[str, float]] = {}

    def job(arrival: float, kind: str, gpus: int, steps: float, weight: float, vc: str) -> TracedJob:
        key = (kind, gpus)
        if key not in rates:
            rates[key] = table.throughput(kind, gpus)
        rate = table.reference_rate(kind, gpus)
        if not rate:
            raise BadField("job_type", f"{shown(kind)} has no rate on {table.reference} in {table.name}")
        if table.measured_size(kind, gpus) != gpus:
            source.assumed[
                "jobs have a gang size that was not measured; they run at the rate of a smaller one."
            ] += 1
        return TracedJob(
            arrival,
            gpus,
            steps / rate,
            vc or ANY_TENANT,
            vc or ANY_VIRTUAL_CLUSTER,
            application=kind,
            priority=max(0, round(weight) - 1),
            throughput=rates[key],
        )

    def from_table(row: tuple[str, ...]) -> TracedJob:
        arrival, kind, gpus, steps, weight, vc = row
        return job(
            seconds("arrival_s", arrival),
            named("job_type", kind),
            count("scale_factor", gpus),
            positive("total_steps", steps, "steps"),
            number("priority_weight", weight or "1"),
            vc and named("virtual_cluster", vc),
        )

    def from_line(line: str) -> TracedJob:
        fields = line.split("\t")
        if len(fields) != width:
            raise BadField("", f"has {len(fields)} fields separated by tabs, the first line {width}")
        text = {name: fields[place] for name, place in places.items()}
        return job(
            seconds("arrival_time", text["arrival_time"]),
            named("job_type", fields[0]),
            count("scale_factor", text["scale_factor"]),
            positive("total_steps", text["total_steps"], "steps"),
            number("priority_weight", text.get("priority_weight", "1")),
            "",
        )

    first = source.text().partition("\n")[0]
    if "\t" in first:
        width = first.count("\t") + 1
        if width not in _LAYOUTS:
            raise source.unusable(
                f"has {width} fields separated by tabs; a trace has 10, or 7 (traces/msr)", 1
            )
        places = _LAYOUTS[width]
        source.read(source.lines(), from_line)
    else:
        columns = ("arrival_s", "job_type", "scale_factor", "total_steps")
        source.read(source.rows(columns, ("priority_weight", "virtual_cluster")), from_table)


def _table_beside(source: Source) -> ThroughputTable:
    folder = source.path.resolve().parent
    for place in (folder, *list(folder.parents)[:3]):
        if (place / TABLE).is_file():
            try:
                return read_throughputs(place / TABLE)
            except ThroughputError as error:
                raise source.unusable(f"needs a throughput table: {error}") from None
    raise source.unusable(f"gives work in steps and needs a throughput table; there is no {TABLE} beside it")
