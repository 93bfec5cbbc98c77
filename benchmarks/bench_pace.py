"""What it costs a snapshot that jobs tell of their steps: processor time, all of 10,000 jobs and none.

    python benchmarks/bench_pace.py [--jobs 10000] [--runs 7]

Starts its own PostgreSQL in a temporary folder. *New* is the first round after all jobs told something,
*kept* one of those that follow within the minute. The lower bound is the snapshot of jobs that tell nothing.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict

from bench_round import fill
from machine import describe_machine
from servers import servers


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--jobs", type=int, default=10_000)
    arguments.add_argument("--runs", type=int, default=7)
    options = arguments.parse_args()
    print(describe_machine())
    with servers():
        measure(options.jobs, options.runs)


def measure(jobs: int, runs: int) -> None:
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    from scheduler.core.building_blocks.pace import Pace
    from scheduler.models import Job
    from scheduler.rounds import job_facts, snapshot

    call_command("migrate", verbosity=0)
    fill(jobs, jobs)

    def read() -> None:
        snapshot.read_snapshot(1)

    def read_anew() -> None:
        job_facts._pace_of.cache_clear()
        read()

    had = {"V100": 4_000.0}
    told = Pace(attempt=1, step=500, total_steps=1_000, timed_steps=480, timed=had, service=had)
    print_times("nobody tells anything", read, runs)
    for number in Job.objects.values_list("id", flat=True):
        # Each says something else, as live.
        Job.objects.filter(id=number).update(pace=asdict(told) | {"at": float(number)})
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE scheduler_job")
    print_times("all tell, new", read_anew, runs)
    print_times("all tell, kept", read, runs)


def print_times(name: str, action: Callable[[], None], runs: int) -> None:
    """Print the processor time of this process, after one run that does not count."""
    action()
    found = []
    for _ in range(runs):
        began = time.process_time()
        action()
        found.append(time.process_time() - began)
    raw = [round(1e3 * each) for each in found]
    print(f"{name:<22} median {1e3 * statistics.median(found):.0f} ms, least {min(raw)}; raw {raw}")


if __name__ == "__main__":
    main()
