"""Learn the direction of stripes, from pictures that other processes read, decode and transform.

    python train.py --workers 2

With --workers 0 it waits for workers that the platform starts (workers.yaml), or somebody at other machines
(docs/input-workers.md).
However many there are and whatever becomes of them, it ends with the same weights, to the last bit.
"""

import argparse
import contextlib
import hashlib
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from dataset import CLASSES, FREQUENCIES, written

import allot.training

BATCH, LEARNING_RATE = 16, 2.0

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--folder", type=Path, default=Path("pictures"), help="of the pictures (./pictures)")
parser.add_argument("--pictures", type=int, default=400, help="drawn where they are not there yet (400)")
parser.add_argument("--steps", type=int, default=250, help="(250)")
parser.add_argument("--step-seconds", type=float, default=0.0, help="a step takes that much longer (0)")
parser.add_argument("--workers", type=int, default=2, help="processes to start on this machine (2)")
parser.add_argument("--listen", help="where workers connect (where the platform says, or 127.0.0.1:0)")
options = parser.parse_args()

for row in range(options.pictures if options.workers else 0):
    written(options.folder, row)
weights = np.zeros((2 * FREQUENCIES * FREQUENCIES, CLASSES))


def load(folder):
    weights[:] = np.load(folder / "weights.npy")


@contextlib.contextmanager
def own_workers(port, secret):
    command = [sys.executable, "-m", "allot.training.input_workers", "dataset:make"]
    command += ["--trainer", f"127.0.0.1:{port}", "--give-up-seconds", "30"]
    environment = {
        **os.environ,
        "ALLOT_INPUT_SECRET": secret,
        "IMAGES_FOLDER": str(options.folder.resolve()),
    }
    folder = Path(__file__).parent
    started = [subprocess.Popen(command, cwd=folder, env=environment) for _ in range(options.workers)]
    print("workers:", *(worker.pid for worker in started), flush=True)
    try:
        yield
    finally:
        for worker in started:
            worker.terminate()
            worker.wait()


def learn(features, labels):
    """Take a step of softmax regression; return the loss and the part that was right before it."""
    scores = features @ weights
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss, right = -np.log(chances[rows, labels]).mean(), (scores.argmax(axis=1) == labels).mean()
    chances[rows, labels] -= 1
    weights[:] -= LEARNING_RATE * features.T @ chances / len(labels)
    return loss, right


with allot.training.session(
    save=lambda folder: np.save(folder / "weights.npy", weights), load=load, every_seconds=10
) as run:
    sampler = run.sampler(options.pictures, seed=5)
    # Of a job that starts its own workers nobody else needs to know it.
    secret = os.environ.get("ALLOT_INPUT_SECRET") or secrets.token_hex()
    with (
        run.input_workers(listen=options.listen, secret=secret, buffer=8) as inputs,
        own_workers(inputs.port, secret),
    ):

        def batches():
            while True:
                items = ({"epoch": sampler.epoch, "rows": rows} for rows in sampler.batches(BATCH))
                yield from inputs.batches(items)

        had = batches()
        for _ in run.steps(options.steps):
            _, batch = next(had)
            loss, right = learn(batch["features"].astype(float), batch["labels"])
            time.sleep(options.step_seconds)
            sampler.advance(BATCH)
            run.report(loss=loss, accuracy=right, epoch=sampler.epochs_done, batch_size=BATCH)
        waited = inputs.seconds_waited

digest = hashlib.sha256(weights.tobytes()).hexdigest()
print(f"waited {waited:.1f} s for data", file=sys.stderr)
print(f"done after {run.step} steps: weights {digest[:16]}")
