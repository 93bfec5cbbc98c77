"""Fit a line to points by stochastic gradient descent: plain Python, so that only the session is of interest.

    python train.py --steps 2000 --step-seconds 0.01

Stop it at any moment, in any way, and run it again: it ends with the same line, to the last bit.
"""

import argparse
import json
import random
import time
from pathlib import Path

import allot.training

POINTS, BATCH, LEARNING_RATE = 1000, 16, 0.05

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=2000, help="steps in all (2000)")
parser.add_argument("--step-seconds", type=float, default=0.0, help="pause per step, to watch it (0)")
parser.add_argument("--every-seconds", type=float, default=5.0, help="how often to save (5)")
options = parser.parse_args()

noise = random.Random(1)
points = [(x / POINTS, 3 * x / POINTS - 1 + noise.gauss(0, 0.1)) for x in range(POINTS)]
line = {"slope": 0.0, "offset": 0.0}


def save(folder: Path) -> None:
    (folder / "line.json").write_text(json.dumps(line))


def load(folder: Path) -> None:
    line.update(json.loads((folder / "line.json").read_text()))


with allot.training.session(save=save, load=load, every_seconds=options.every_seconds) as run:
    sampler = run.sampler(len(points), seed=7)
    for _ in run.steps(options.steps):
        batch = [points[index] for index in sampler.take(BATCH)]
        errors = [(line["slope"] * x + line["offset"] - y, x) for x, y in batch]
        line["slope"] -= LEARNING_RATE * sum(error * x for error, x in errors) / len(batch)
        line["offset"] -= LEARNING_RATE * sum(error for error, _ in errors) / len(batch)
        time.sleep(options.step_seconds)
        loss = sum(error * error for error, _ in errors) / len(batch)
        run.report(loss=loss, epoch=sampler.epochs_done, batch_size=BATCH)

print(f"done after {run.step} steps: slope {line['slope']!r}, offset {line['offset']!r}")
