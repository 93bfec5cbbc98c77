"""Time auctions and the rounds of `themis` that hold one, and compare auctions with all there are.

    python benchmarks/bench_auction.py [--rounds] [--growth [--plot FILE]] [--exact] [--runs 7]
                                       [--gpus 10000] [--jobs 10000] [--tenants 200] [--seed 0]

Without an option, all three parts:

--rounds  decide() with one virtual cluster of all GPUs of three models under `themis`. *cold*: the cluster is
          empty and every job waits. *within leases*: five minutes later a fiftieth of those that run has
          ended, and what came free is auctioned. *all leases over*: everything is auctioned anew.
--growth  one auction of 100 to 100,000 bidders of up to four rows over two models and places on one machine:
          its time, without garbage collection as in a round, and by how much another assignment could be
          better at most, of what was reached.
--exact   2,000 auctions of up to five bidders against all assignments there are; and payments by price beside
          exact ones, where both can be had.

Times are of one core's processor time, the medians of the runs, with the raw runs beside them.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from bench_decide import MODELS, NOW, add_up, make_cold, make_steady, seconds, served_by
from machine import describe_machine

from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Member, Snapshot, VirtualCluster
from scheduler.core.policies.themis.auction.holding import EXACT_BIDDERS, hold
from scheduler.core.policies.themis.auction.table import Bid, Good, Row
from scheduler.core.round.decide import decide
from scheduler.core.round.gc_paused import gc_paused

SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
VIEW = "everything"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for part in ("rounds", "growth", "exact"):
        parser.add_argument(f"--{part}", action="store_true")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="of --growth, as SVG, PDF or PNG")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--tenants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    everything = not (options.rounds or options.growth or options.exact)
    print(describe_machine())
    print(f"ten million additions: {min(seconds(add_up, 3)):.2f} s")
    if options.rounds or everything:
        print_rounds(options.gpus, options.jobs, options.tenants, options.seed, options.runs)
    if options.growth or everything:
        curve = print_growth(options.seed, options.runs)
        if options.plot is not None:
            draw(curve, options.plot)
    if options.exact or everything:
        print_exactness(options.seed)


def print_rounds(gpus: int, jobs: int, tenants: int, seed: int, runs: int) -> None:
    """Print what rounds cost."""
    print(f"\n{jobs} jobs of {tenants} tenants on {gpus} GPUs in one virtual cluster, seed {seed}")
    cold = shared(served_by("themis", make_cold(gpus, jobs, tenants, seed), seed))
    plan = report("cold", cold, runs)
    steady = make_steady(cold, plan)
    report("within leases", steady, runs)
    report("all leases over", replace(steady, now=NOW + 1_201), runs)


def shared(facts: Snapshot) -> Snapshot:
    """Let all tenants share one virtual cluster with all GPUs, every job guaranteed."""
    total = {model: 0 for model in MODELS}
    for node in facts.nodes:
        total[node.gpu_model] += len(node.gpus)
    everything = VirtualCluster(
        name=VIEW,
        guaranteed=total,
        members=tuple([Member(tenant=tenant.name) for tenant in facts.tenants]),
        policy="themis",
    )
    jobs = tuple([replace(job, virtual_cluster=VIEW, guaranteed=True) for job in facts.jobs])
    tenants = tuple([replace(tenant, quota={}) for tenant in facts.tenants])
    return replace(facts, virtual_clusters=(everything,), jobs=jobs, tenants=tenants, spare_policy="fifo")


def report(name: str, facts: Snapshot, runs: int) -> Plan:
    plan = decide(facts)
    kinds = [action.kind for action in plan.actions]
    lines = plan.ledger.get(VIEW, ())
    bids = sum([line.kind == "bid" for line in lines])
    gap = next((line.details["gap"] for line in lines if line.kind == "auction"), None)
    taken = seconds(lambda: decide(facts), runs)
    print(
        f"  {name:<16} median {statistics.median(taken):.3f} s   raw "
        + " ".join(f"{one:.3f}" for one in taken)
        + f"   {len(facts.running)} run; {bids} bid, gap {gap}; {kinds.count(ActionKind.START)} starts,"
        f" {kinds.count(ActionKind.STOP)} stops, {kinds.count(ActionKind.MOVE)} moves"
    )
    return plan


def crowd(bidders: int, dice: random.Random) -> tuple[list[Bid], dict[Good, int]]:
    """Gangs of 1 to 8, faster on one model and near together, with GPUs for about a third of them."""
    bids = []
    sizes = (2, 4, 8)
    for _ in range(bidders):
        gang, age, left = (
            dice.choice((1, 1, 1, 2, 4, 8)),
            dice.uniform(0, 86_400),
            dice.lognormvariate(9, 1.5),
        )
        rows = []
        for model in ("fast", "slow"):
            speed = dice.uniform(1, 3) if model == "fast" else 1.0
            for near in (True, False) if gang > 1 else (False,):
                takes: dict[Good, int] = {model: gang}
                if near:
                    takes |= {(model, size): gang // size for size in sizes if size <= gang}
                rate = speed * (1.0 if near or gang == 1 else 0.8)
                rows.append(Row(1 / (age + max(1_200.0, left - (rate - 0.3) * 1_200)), takes))
        bids.append(Bid(nothing=1 / (age + 1_200 + max(0.0, left - 0.3 * 1_200)), rows=rows))
    gpus = bidders // 2
    supply: dict[Good, int] = {model: gpus for model in ("fast", "slow")}
    supply |= {(model, size): int(gpus / size * 0.8) for model in ("fast", "slow") for size in sizes}
    return bids, supply


def print_growth(seed: int, runs: int) -> list[tuple[int, float]]:
    """Print how the time of one auction grows, and return it."""
    curve = []
    print("\nbidders   seconds  gap of what was reached  winners   raw seconds")
    for bidders in SIZES:
        bids, supply = crowd(bidders, random.Random(seed))
        result = hold(bids, supply)
        with gc_paused():
            taken = seconds(
                lambda bids=bids, supply=supply: hold(bids, supply), max(1, min(runs, 300_000 // bidders))
            )
        curve.append((bidders, statistics.median(taken)))
        print(
            f"{bidders:>7} {statistics.median(taken):>9.3f} {result.gap / result.value:>20.6%}"
            f" {len(result.wins):>12}   " + " ".join(f"{one:.3f}" for one in taken)
        )
    return curve


def draw(curve: list[tuple[int, float]], path: Path) -> None:
    """Plot the time of an auction on logarithmic axes, with a line of slope 1 to compare."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    axes.loglog(*zip(*curve, strict=True), "o-", label="one auction")
    axes.loglog([SIZES[0], SIZES[-1]], [0.01, 0.01 * SIZES[-1] / SIZES[0]], ":", color="grey", label="linear")
    axes.set_xlabel("bidders")
    axes.set_ylabel("processor time (s)")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(path)
    print(f"plot: {path}")


def print_exactness(seed: int) -> None:
    """Print how far auctions are from the best of all assignments, and payments by price from exact ones."""
    dice = random.Random(seed)
    worst_value = worst_kept = 0.0
    auctions = 2_000
    for _ in range(auctions):
        bids, supply = small(dice)
        result = hold(bids, supply)
        value = best_of_all(bids, supply)
        worst_value = max(worst_value, abs(result.value - value))
        won = {win.bidder: gain(bids[win.bidder], win.row) for win in result.wins}
        for win in result.wins:
            others = [bid for bidder, bid in enumerate(bids) if bidder != win.bidder]
            kept = math.exp(sum(won.values()) - won[win.bidder] - best_of_all(others, supply))
            worst_kept = max(worst_kept, abs(kept - win.kept))
    print(f"\n{auctions} auctions against all assignments: the logarithm of the product is off by at most")
    print(f"  {worst_value:.1e}, the part that a winner keeps by at most {worst_kept:.1e}")
    print("payments by price beside exact ones (the part kept, mean and largest difference):")
    for bidders in (8, EXACT_BIDDERS, 24, 32):
        differences = []
        for number in range(20):
            bids, supply = crowd(bidders, random.Random(seed + number))
            exact, by_price = hold(bids, supply, bidders), hold(bids, supply, 0)
            if exact.exact_payments and [win.row for win in exact.wins] == [win.row for win in by_price.wins]:
                pairs = zip(exact.wins, by_price.wins, strict=True)
                differences += [abs(one.kept - other.kept) for one, other in pairs]
        print(
            f"  {bidders:>3} bidders: {statistics.mean(differences):.4f}, {max(differences):.4f}"
            f" of {len(differences)} wins"
        )


def small(dice: random.Random) -> tuple[list[Bid], dict[Good, int]]:
    bids = [
        Bid(
            nothing=1.0,
            rows=[
                Row(dice.uniform(0.5, 9), {"a": dice.randrange(4), "b": dice.randrange(4)})
                for _ in range(dice.randrange(5))
            ],
        )
        for _ in range(dice.randint(1, 5))
    ]
    return bids, {"a": dice.randrange(7), "b": dice.randrange(7)}


def best_of_all(bids: Sequence[Bid], supply: Mapping[Good, int]) -> float:
    best = 0.0
    for rows in product(*[(*range(len(bid.rows)), None) for bid in bids]):
        used: dict[Good, int] = {}
        for bid, row in zip(bids, rows, strict=True):
            for good, pieces in bid.rows[row].takes.items() if row is not None else ():
                used[good] = used.get(good, 0) + pieces
        if all(pieces <= supply[good] for good, pieces in used.items()):
            gains = [gain(bid, row) for bid, row in zip(bids, rows, strict=True) if row is not None]
            best = max(best, sum(gains))
    return best


def gain(bid: Bid, row: int) -> float:
    return math.log(bid.rows[row].worth / bid.nothing)


if __name__ == "__main__":
    main()
