"""Time Shockwave's plans beside the program that its authors write down, on the same solver.

    python benchmarks/bench_shockwave.py [--jobs 30,60,120] [--plain 120] [--limit 60] [--seeds 5]

A plan is for 20 rounds of 120 s. Jobs have gangs of 1, 2, 4 and 8 (60, 30, 9 and 1 %), 4 to 4,000 minutes
left, log-uniform, and some part done; half of them are late by up to a factor of 2. There are 32 GPUs for
120.

- *plain*: a binary for every job and round, and interpolated logarithms with a binary for each corner, as in
  the paper; up to `--plain` jobs, and for `--limit` seconds at most. It gets the same weights as ours, and
  like ours nothing for order.
- *ours*: numbers of rounds for each job, and their places by a rule. *lost*: the part of the GPU time that
  was bought and found no place, because gangs are in each other's way. (A round gives it to others.)

The objective is that of the paper for the timetable that came of it, above that of nobody running, relative
to plain's. Times are of the wall clock, ours for the whole plan. Medians over the seeds; the worst after
them.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from machine import describe_machine
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from scheduler.core.policies.shockwave.bidding import Bidder, PlanningWindow
from scheduler.core.policies.shockwave.planning import Timetable, plan
from scheduler.core.policies.shockwave.program import CORNERS, GAP, ORIGIN, Program

ROUNDS, ROUND_SECONDS = 20, 120.0
HEIGHTS = [math.log(corner or ORIGIN) for corner in CORNERS]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", default="30,60,120,240,480,1000", help="numbers of jobs")
    parser.add_argument("--plain", type=int, default=120, help="most jobs for the plain program")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for the plain program")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    print(describe_machine())
    print("  jobs   GPUs          ours (worst)    lost (worst)     plain   ratio  objective (worst)")
    for jobs in map(int, options.jobs.split(",")):
        rows = [measure(jobs, seed, jobs <= options.plain, options.limit) for seed in range(options.seeds)]
        ours, lost, plain, relative = map(np.array, zip(*rows, strict=True))
        line = f"{jobs:6} {max(8, jobs * 32 // 120):6} {np.median(ours):8.2f} s ({ours.max():6.2f} s)"
        line += f" {np.median(lost):7.2%} ({lost.max():6.2%})"
        if jobs <= options.plain:
            line += f" {np.median(plain):7.2f} s {np.median(plain / ours):7.0f}"
            line += f"  {np.median(relative):.4f} ({relative.min():.4f})"
        print(line, flush=True)


def measure(jobs: int, seed: int, plainly: bool, limit_seconds: float) -> tuple[float, float, float, float]:
    """Return seconds of ours, what was lost, seconds of plain, and our objective relative to plain's."""
    window = make_window(jobs, seed)
    began = time.perf_counter()
    table = plan(window)
    ours = time.perf_counter() - began
    if not plainly:
        return ours, lost_part(window, table), math.nan, math.nan
    began = time.perf_counter()
    other = solve_plainly(window, limit_seconds)
    plain = time.perf_counter() - began
    return ours, lost_part(window, table), plain, gain(window, table) / gain(window, other)


def make_window(jobs: int, seed: int) -> PlanningWindow:
    dice = np.random.default_rng(seed)
    gpus = max(8, jobs * 32 // 120)
    bidders = tuple(
        Bidder(
            number=number,
            gpus=int(dice.choice((1, 2, 4, 8), p=(0.6, 0.3, 0.09, 0.01))),
            speeds=(1.0,),
            done=float(dice.uniform(0, 0.9)),
            left_seconds=float(60 * 10 ** dice.uniform(0.6, 3.6)),
            due_seconds=0.0,
            lateness=float(dice.uniform(0.5, 1.5) if dice.random() < 0.5 else dice.uniform(1, 2)),
        )
        for number in range(jobs)
    )
    return PlanningWindow(
        gpus=(gpus,),
        rounds=ROUNDS,
        round_seconds=ROUND_SECONDS,
        uniform_share=min(1.0, gpus / jobs),
        makespan_weight=1e-3,
        fairness_bound=1.0,
        fairness_power=12.0,
        solve_seconds=60.0,
        levels=(bidders,),
    )


def weights_of(window: PlanningWindow) -> np.ndarray:
    return bought(window)[1]


def bought(window: PlanningWindow) -> tuple[np.ndarray, np.ndarray]:
    room = np.full((window.rounds, 1), window.gpus[0], dtype=np.int64)
    return Program(window, window.levels[0], room).solve()


def lost_part(window: PlanningWindow, table: Timetable) -> float:
    """Return the part of the GPU time bought that is not in the timetable."""
    gpus = np.array([bidder.gpus for bidder in window.levels[0]])
    all_bought = float((bought(window)[0][:, 0] * gpus).sum())
    return 1 - sum(gpus[number] for runs in table for number in runs) / all_bought


def gain(window: PlanningWindow, table: Timetable) -> float:
    """Return the paper's objective for a timetable, above that of an empty one."""
    rounds = np.zeros(len(window.levels[0]))
    for runs in table:
        for number in runs:
            rounds[number] += 1
    weights = weights_of(window)

    def objective(rounds: np.ndarray) -> float:
        utility, longest = 0.0, 0.0
        for bidder, weight, each in zip(window.levels[0], weights, rounds, strict=True):
            run = min(each * ROUND_SECONDS, bidder.left_seconds)
            done = bidder.done + (1 - bidder.done) * run / bidder.left_seconds
            utility += weight * float(np.interp(done, CORNERS, HEIGHTS))
            longest = max(longest, bidder.left_seconds - run)
        return utility / (len(rounds) * window.rounds) - window.makespan_weight * longest

    return objective(rounds) - objective(np.zeros(len(rounds)))


def solve_plainly(window: PlanningWindow, limit_seconds: float) -> Timetable:
    """Return the timetable of the program as the paper has it."""
    bidders, weights = window.levels[0], weights_of(window)
    jobs, corners = len(bidders), len(CORNERS)
    runs = np.arange(jobs * ROUNDS).reshape(jobs, ROUNDS)
    done = runs.size + np.arange(jobs)
    part = runs.size + jobs + np.arange(jobs * corners).reshape(jobs, corners)
    beside = part + part.size
    longest = runs.size + jobs + 2 * part.size
    cost = np.zeros(longest + 1)
    cost[part] = -weights[:, None] * np.array(HEIGHTS) / (jobs * ROUNDS)
    cost[longest] = window.makespan_weight
    rows: list[tuple[list[tuple[int, float]], float, float]] = []
    for number in range(ROUNDS):
        rows.append(
            ([(runs[job, number], bidders[job].gpus) for job in range(jobs)], -np.inf, window.gpus[0])
        )
    for job, bidder in enumerate(bidders):
        a_round = ROUND_SECONDS * (1 - bidder.done) / bidder.left_seconds
        rows.append(([(done[job], 1.0), *((run, -a_round) for run in runs[job])], -np.inf, 0.0))
        at = list(zip(part[job], CORNERS, strict=True))
        rows.append(([*at, (done[job], -1.0)], bidder.done, bidder.done))
        rows.append(([(each, 1.0) for each in part[job]], 1.0, 1.0))
        rows.append(([(each, 1.0) for each in beside[job]], -np.inf, 2.0))
        for each, mark in zip(part[job], beside[job], strict=True):
            rows.append(([(each, 1.0), (mark, -1.0)], -np.inf, 0.0))
        for first in range(corners):
            for second in range(first + 2, corners):
                rows.append(([(beside[job, first], 1.0), (beside[job, second], 1.0)], -np.inf, 1.0))
        left = bidder.left_seconds / (1 - bidder.done)
        rows.append(([(longest, 1.0), (done[job], left)], bidder.left_seconds, np.inf))
    entries = [(row, variable, value) for row, (terms, _, _) in enumerate(rows) for variable, value in terms]
    row, variable, value = zip(*entries, strict=True)
    matrix = coo_array((value, (row, variable)), (len(rows), len(cost))).tocsr()
    integral = np.zeros(len(cost))
    integral[runs] = integral[beside] = 1
    most = np.where(integral > 0, 1.0, np.inf)
    found = milp(
        cost,
        integrality=integral,
        bounds=Bounds(0.0, most),
        constraints=LinearConstraint(matrix, [low for _, low, _ in rows], [high for _, _, high in rows]),
        options={"mip_rel_gap": GAP, "time_limit": limit_seconds},
    )
    chosen = found.x[runs] > 0.5
    return [{job: 0 for job in range(jobs) if chosen[job, number]} for number in range(ROUNDS)]


if __name__ == "__main__":
    main()
