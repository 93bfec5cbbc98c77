"""Run Gavel's and POP's published curves again, in Gavel's own rounds and on its own jobs.

    python benchmarks/bench_gavel_curves.py --data ../shared/data/gavel [--only single,orders] [--out FILE]

Prints a row a run, as each is done: what was run, its figure, and what was published for it. Sections:

- *sample*: the sample run of the authors' README, three seeds, to the second;
- *single*, *multiple*: average completion time against load, jobs 4,000 to 4,999;
- *orders*: who knows speeds, the program or the order of models, apart from each other;
- *static*: makespan, all jobs at once;
- *priorities*: a fifth of the jobs weighs 5;
- *parts*: POP on a trace;
- *leftovers*: few jobs whose figures depend on what agnostic makespan and finish-time fairness leave over.

Hours are of simulated time. Seconds are of one core's processor time, of the decisions and of the whole run.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from machine import describe_machine

from scheduler.core.sim.result import JobRecord, Result
from scheduler.simulation.sweep import Case, run_case

#: Our names of the policies whose curves were published. The first column is theirs.
SINGLE = {
    "max_min_fairness": "gavel:objective=max_min,aware=false",
    "max_min_fairness_perf": "gavel:objective=max_min,centre=true",
    "max_min_fairness_packed": "gavel:objective=max_min,sharing=true",
    "gandiva": "gandiva",
    "allox": "allox",
    "fifo": "fifo:aware=false,published=true",
    "fifo_perf": "fifo",
    "fifo_packed": "fifo:sharing=true",
    "finish_time_fairness": "gavel:objective=finish_time_fairness,aware=false",
    "finish_time_fairness_perf": "gavel:objective=finish_time_fairness",
}
#: The same with what is left over handed out where it does most, which nobody published.
BETTER = "gavel:objective=max_min"
STATIC = {
    "fifo": "fifo:aware=false,published=true",
    "gandiva": "gandiva",
    "min_total_duration": "gavel:objective=makespan,aware=false",
    "min_total_duration_perf": "gavel:objective=makespan",
    "min_total_duration_packed": "gavel:objective=makespan,sharing=true",
}
PRIORITIES = {
    "max_min_fairness_water_filling": "gavel:objective=water_filling,aware=false",
    "max_min_fairness_water_filling_perf": "gavel:objective=water_filling",
}
#: Jobs that are measured and that come after them, jobs per hour (0: all at once), GPUs of each model and
#: seed, by objective.
LEFTOVERS = {
    "makespan": [(40, 0, 0.0, 12, 0), (60, 0, 0.0, 16, 2), (100, 0, 0.0, 16, 1), (100, 0, 0.0, 36, 0)],
    "finish_time_fairness": [(40, 160, 0.9, 4, 7), (200, 300, 1.6, 12, 3), (200, 400, 1.9, 12, 3)],
}
#: Of the README of the published code: AlloX, seed by seed, jobs 4,000 to 4,999 at 0.8 jobs/h.
SAMPLE_SECONDS = {42: 59770.441018, 1234: 64695.450528, 15: 55072.401336}
#: Jobs beyond the last one that is measured, so that load does not fall before that one ends: where jobs
#: wait for long, as many come meanwhile.
MORE = 8000
COLUMNS = (
    "section", "jobs_per_hour", "jobs", "seed", "rounds", "policy", "measure", "value", "published", "ratio",
    "rounds_run", "decide_s", "cpu_s",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One simulation, and what was published for each of its measures."""

    section: str
    policy: str
    published: dict[str, float]
    jobs_per_hour: float = 0.0
    #: First and end of the jobs that are measured.
    window: tuple[int, int] = (4000, 5000)
    multi_gpu: bool = False
    priorities: bool = False
    rounds: str = "gavel"
    gpus: int = 36
    seed: int = 0
    #: Jobs that come after those that are measured, where jobs come one by one.
    more: int = MORE


def runs(data: Path, sections: list[str]) -> Iterator[Run]:
    """Yield all runs of the sections, in the order in which they are asked for."""
    averages = _averages(data)
    for section in sections:
        if section == "sample":
            for seed, seconds in SAMPLE_SECONDS.items():
                published = {"average_jct_hours": seconds / 3600}
                yield Run(section=section, policy="allox", published=published, jobs_per_hour=0.8, seed=seed)
        elif section in ("single", "multiple"):
            yield from _curves(section, averages)
        elif section == "orders":
            yield from _orders()
        elif section == "static":
            yield from _static(data)
        elif section == "priorities":
            yield from _priorities(data)
        elif section == "parts":
            yield from _parts(data)
        elif section == "leftovers":
            yield from _leftovers()
        else:
            raise SystemExit(f"there is no section {section}")


def _curves(section: str, averages: dict[tuple[str, float, str], float]) -> Iterator[Run]:
    multi = section == "multiple"
    for rate in (2.6, 2.0, 1.0) if multi else (5.6, 4.0, 2.0, 5.2, 4.8):
        for name, policy in [*SINGLE.items(), ("", BETTER)]:
            known = averages.get((f"continuous-{section}", rate, name))
            # Overloaded runs that were not finished either, and what the published policies can not do.
            if (known is None and name) or (multi and name == "max_min_fairness_packed"):
                continue
            published = {} if known is None else {"average_jct_hours": known}
            yield Run(
                section=section, policy=policy, published=published, jobs_per_hour=rate, multi_gpu=multi
            )


def _orders() -> Iterator[Run]:
    for rate in (5.6, 4.0, 2.0):
        for name in ("max_min_fairness", "max_min_fairness_perf"):
            for order in ("fixed", "shuffled"):
                yield Run(
                    section="orders",
                    policy=SINGLE[name],
                    published={},
                    jobs_per_hour=rate,
                    rounds=f"gavel:order={order}",
                )


def _static(data: Path) -> Iterator[Run]:
    published = {
        (row["policy"], int(row["num_jobs"])): float(row["makespan_hours"])
        for row in _rows(data / "expected" / "static_multiple_makespan.csv")
    }
    for jobs in (100, 300, 500, 700):
        for name, policy in STATIC.items():
            known = published.get((name, jobs))
            yield Run(
                section="static",
                policy=policy,
                published={} if known is None else {"makespan_hours": known},
                window=(0, jobs),
                multi_gpu=True,
            )


def _priorities(data: Path) -> Iterator[Run]:
    published: dict[tuple[str, float], dict[str, float]] = {}
    for row in _rows(data / "expected" / "las_with_priorities_multiple.csv"):
        measure = f"average_jct_hours, {row['priority_class']}"
        of_run = published.setdefault((row["policy"], float(row["jobs_per_hour"])), {})
        of_run[measure] = float(row["average_jct_hours"])
    for rate in (2.4, 1.0):
        for name, policy in PRIORITIES.items():
            yield Run(
                section="priorities",
                policy=policy,
                published=published.get((name, rate), {}),
                jobs_per_hour=rate,
                multi_gpu=True,
                priorities=True,
            )


def _parts(data: Path) -> Iterator[Run]:
    policies = {
        "max_min_fairness_packed": "gavel:objective=max_min,sharing=true",
        "min_total_duration_perf": "gavel:objective=makespan",
    }
    for row in _rows(data / "expected" / "pop_trace.csv"):
        packed = row["policy"] == "max_min_fairness_packed"
        yield Run(
            section="parts",
            policy=f"{policies[row['policy']]},parts={row['k']}",
            published={row["metric"]: float(row["value"])},
            jobs_per_hour=6.4 if packed else 0.0,
            window=(1000, 1500) if packed else (0, 700),
            multi_gpu=not packed,
            gpus=32,
            seed=int(row["seed"]),
        )


def _leftovers() -> Iterator[Run]:
    for objective, workloads in LEFTOVERS.items():
        for jobs, more, rate, gpus, seed in workloads:
            yield Run(
                section="leftovers",
                policy=f"gavel:objective={objective},aware=false",
                published={},
                jobs_per_hour=rate,
                window=(0, jobs),
                multi_gpu=objective == "makespan",
                gpus=gpus,
                seed=seed,
                more=more,
            )


def _averages(data: Path) -> dict[tuple[str, float, str], float]:
    return {
        (row["workload"], float(row["jobs_per_hour"]), row["policy"]): float(row["value"])
        for row in _rows(data / "expected" / "continuous_average.csv")
        if row["metric"] == "average_jct_hours" and row["value"]
    }


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def case_of(run: Run, data: Path) -> Case:
    """Return the run as `manage.py simulate` would have it."""
    end = run.window[1]
    jobs = end + run.more if run.jobs_per_hour else end
    flags = f"multi_gpu={run.multi_gpu},priorities={run.priorities}".lower()
    return Case(
        cluster=f"v100={run.gpus},p100={run.gpus},k80={run.gpus}:4",
        generator=f"gavel:jobs={jobs},jobs_per_hour={run.jobs_per_hour:g},{flags}",
        throughputs=str(data / "simulation_throughputs.json"),
        policy=run.policy,
        rounds=run.rounds,
        window=run.window,
        seed=run.seed,
    )


def measures_of(result: Result, run: Run) -> dict[str, float]:
    """Return the hours that were published for such a run."""
    first, end = run.window
    measured = [job for job in result.jobs if first < job.id <= end and job.outcome == "succeeded"]
    if run.section == "leftovers":
        return {"average_jct_hours": _mean_hours(measured), "makespan_hours": result.ended_at / 3600}
    if not run.jobs_per_hour:
        return {"makespan_hours": result.ended_at / 3600}
    if run.priorities:
        return {
            "average_jct_hours, high": _mean_hours([job for job in measured if job.id in _heavy(run)]),
            "average_jct_hours, low": _mean_hours([job for job in measured if job.id not in _heavy(run)]),
        }
    return {"average_jct_hours": _mean_hours(measured)}


def _mean_hours(jobs: list[JobRecord]) -> float:
    return sum(job.completion_seconds or 0.0 for job in jobs) / len(jobs) / 3600


def _heavy(run: Run) -> frozenset[int]:
    """Return the ids of the jobs that weigh more: the generator says, records do not."""
    from scheduler.simulation.gavel.workload import GavelSpec, draw

    spec = GavelSpec(
        jobs=run.window[1], jobs_per_hour=run.jobs_per_hour, multi_gpu=run.multi_gpu, priorities=True
    )
    return frozenset(number for number, job in enumerate(draw(spec, run.seed), 1) if job.weight > 1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder of Gavel's data")
    parser.add_argument("--only", default="sample,single,orders,multiple,static,priorities,parts,leftovers")
    parser.add_argument("--rates", help="only these jobs per hour, such as 2,5.6")
    parser.add_argument("--policy", action="append", help="only this one of our policies; may be repeated")
    parser.add_argument("--out", type=Path, help="append the rows to this file as well")
    given = parser.parse_args()
    print(describe_machine(), file=sys.stderr)
    rates = {float(rate) for rate in given.rates.split(",")} if given.rates else None
    table = csv.writer(sys.stdout)
    table.writerow(COLUMNS)
    for run in runs(given.data, given.only.split(",")):
        if rates is not None and run.jobs_per_hour not in rates:
            continue
        if given.policy and run.policy not in given.policy:
            continue
        result = run_case(case_of(run, given.data))
        if result.cut_short:
            raise SystemExit(f"{run}: {result.cut_short}")
        if run.jobs_per_hour and len(result.jobs) == run.window[1] + run.more:
            print(f"{run}: load fell, as all jobs had arrived before the end", file=sys.stderr)
        for row in _done(run, result):
            table.writerow(row)
            sys.stdout.flush()
            if given.out is not None:
                with given.out.open("a", newline="") as lines:
                    csv.writer(lines).writerow(row)


def _done(run: Run, result: Result) -> Iterator[list[object]]:
    for measure, value in measures_of(result, run).items():
        known = run.published.get(measure)
        yield [
            run.section,
            f"{run.jobs_per_hour:g}",
            run.window[1] - run.window[0],
            run.seed,
            run.rounds,
            run.policy,
            measure,
            f"{value:.3f}",
            "" if known is None else f"{known:.3f}",
            "" if known is None else f"{value / known:.4f}",
            result.rounds,
            f"{result.decide_seconds:.1f}",
            f"{result.elapsed_seconds:.1f}",
        ]


if __name__ == "__main__":
    main()
