"""Time an account of fairness: one stored round, and the same with a violation to explain for every tenant.

    python benchmarks/bench_fairness.py [--runs 5] [--gpus 10000] [--jobs 10000] [--seed 0]

Two divisions of the same cluster: one virtual cluster that 200 tenants share, and 200 of one tenant each. The
account is taken of the facts after a cold round of fifo, with every place taken and the other jobs waiting.
Times are of one core's processor time; *read* is decoding the stored snapshot, *account* everything that
`account_of` does, *causes* the sentence for each tenant that waits.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace

from bench_decide import NOW, make_cold, make_steady, seconds
from machine import describe_machine

from scheduler.core.fairness.causes import cause_of
from scheduler.core.fairness.division import account_of
from scheduler.core.model import codec
from scheduler.core.model.snapshot import Member, Snapshot
from scheduler.core.round.decide import decide

TENANTS = 200


def shared_by_all(snapshot: Snapshot) -> Snapshot:
    """Return the same cluster as one virtual cluster with all tenants as members."""
    guaranteed: dict[str, int] = {}
    for node in snapshot.nodes:
        guaranteed[node.gpu_model] = guaranteed.get(node.gpu_model, 0) + len(node.gpus)
    tenants = sorted({job.tenant for job in snapshot.jobs})
    vc = replace(
        snapshot.virtual_clusters[0],
        name="shared",
        guaranteed=guaranteed,
        members=tuple(Member(tenant=tenant) for tenant in tenants),
    )
    jobs = tuple(replace(job, virtual_cluster="shared") for job in snapshot.jobs)
    return replace(snapshot, virtual_clusters=(vc,), jobs=jobs)


def report(name: str, cold: Snapshot, runs: int) -> None:
    snapshot = make_steady(cold, decide(cold))
    stored = codec.dumps_snapshot(snapshot)
    account = account_of(snapshot, {})
    waiting = [
        (vc, tenant)
        for vc, division in account.divisions.items()
        for tenant, standing in division.standings.items()
        if standing.waiting
    ]

    def explain() -> None:
        again = replace(account, idle=type(account.idle)(account.facts))
        for vc, tenant in waiting:
            cause_of(again, vc, tenant, NOW - 3_600)

    for part, work in (
        ("read", lambda: codec.loads_snapshot(stored)),
        ("account", lambda: account_of(snapshot, {})),
        (f"causes of {len(waiting)}", explain),
    ):
        times = seconds(work, runs)
        raw = " ".join(f"{1_000 * each:.1f}" for each in times)
        print(f"{name:<24} {part:<16} median {1_000 * statistics.median(times):8.1f} ms   raw {raw}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(describe_machine())
    cold = make_cold(options.gpus, options.jobs, TENANTS, options.seed)
    report("one virtual cluster", shared_by_all(cold), options.runs)
    report(f"{TENANTS} virtual clusters", cold, options.runs)


if __name__ == "__main__":
    main()
