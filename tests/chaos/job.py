"""A job of the chaos run: it trains, and keeps an account of its own of all that it did.

    python job.py train STEPS STEP_SECONDS SEED      learns the digits, alone or as a gang, with checkpoints
    python job.py plain STEPS STEP_SECONDS           does nothing, step by step, from the beginning each time
    python job.py busy STEPS STEP_SECONDS            the same, and computes for so long each step
    python job.py stay LINES                         writes a long log, and ends when there is a file `over`

The account is `ledger` in the job's checkpoint folder: JSON lines of all its processes. By the machine's boot
clock, so that what processes of one machine wrote can be put in order. Each GPU is also a file that its
user locks, for itself or, with GPU_PART, beside others that have a part of it: whoever finds it locked
otherwise, by a process forgotten long ago too, writes that down.
"""

import errno
import fcntl
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

SAVE_EVERY_STEPS = 20
REPORT_EVERY_STEPS = 10
MEET_SECONDS = 20.0
PEER_SECONDS = 10.0
LOOK_SECONDS = 0.2
#: No line of it is one that is counted.
FILLING = "abcdefgh " * 10
BATCH, LEARNING_RATE, HIDDEN = 64, 0.2, 16


class Ledger:
    """Appends lines, each in one write, so that those of several processes do not mix."""

    def __init__(self) -> None:
        path = Path(os.environ.get("ALLOT_CHECKPOINT_DIR", ".")) / "ledger"
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.who = {
            "attempt": int(os.environ.get("ALLOT_ATTEMPT", "0")),
            "rank": int(os.environ.get("RANK", "0")),
        }
        self.printed = 0

    def write(self, what: str, **values: object) -> None:
        at = time.clock_gettime(time.CLOCK_BOOTTIME)
        line = {"what": what, "at": round(at, 4), **self.who, "printed": self.printed, **values}
        # Begins a line of its own: what a full disk took of the line before is still there.
        text = b"\n" + json.dumps(line).encode()
        if os.write(self.file, text) < len(text):
            raise OSError(errno.ENOSPC, "there was room for a part of the line only")

    def step(self, step: int) -> None:
        """Account for one step, in the job's output too: numbered, so that a gap in it shows."""
        print(f"line {self.printed}", flush=True)
        self.printed += 1
        self.write("step", step=step)


def hold_gpus(ledger: Ledger) -> list[str]:
    """Lock the files of this process's GPUs until it and its children are gone; return the GPUs' names."""
    folder, node = os.environ.get("GPU_LOCKS"), os.environ.get("ALLOT_NODE", "")
    names = [f"{node}-{device}" for device in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if device]
    kind = fcntl.LOCK_SH if os.environ.get("GPU_PART") else fcntl.LOCK_EX
    for name in names if folder else []:
        descriptor = os.open(Path(folder) / name, os.O_RDONLY)
        os.set_inheritable(descriptor, True)
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            ledger.write("gpu_is_taken", gpu=name)
    return names


def compute(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def plain(
    ledger: Ledger, gpus: list[str], steps: int, step_seconds: float, work: Callable[[float], None]
) -> None:
    ledger.write("start", gpus=gpus, restored=0, world=int(os.environ.get("WORLD_SIZE", "1")))
    for step in range(steps):
        work(step_seconds)
        ledger.step(step + 1)
    ledger.write("done")


def stay(ledger: Ledger, gpus: list[str], lines: int) -> None:
    ledger.write("start", gpus=gpus, restored=0, world=1)
    for number in range(lines):
        print(number, FILLING)
    sys.stdout.flush()
    while not Path(os.environ["ALLOT_CHECKPOINT_DIR"], "over").exists():
        time.sleep(LOOK_SECONDS)
    ledger.write("done")


def train(ledger: Ledger, gpus: list[str], steps: int, step_seconds: float, seed: int) -> None:
    sys.path.insert(0, str(Path(os.environ["ALLOT_EXAMPLES"]) / "digits"))
    import dataset
    import model
    import numpy as np
    from gang import SHARDS, Rendezvous, join
    from stop import StopRequest

    import allot.training

    settings = model.Settings(batch=BATCH, learning_rate=LEARNING_RATE, hidden=HIDDEN, seed=seed)
    place = Rendezvous.from_environment(os.environ)
    mine = place.shards(place.rank)
    digits = dataset.load_digits()
    state = model.initial_state(settings)
    gang = join(
        place,
        settings={"seed": seed, "steps": steps},
        stop=StopRequest(),
        rendezvous_seconds=MEET_SECONDS,
        peer_timeout_seconds=PEER_SECONDS,
    )

    def agree(number: int) -> int:
        said = np.zeros((len(mine), place.world_size))
        said[0, place.rank] = number
        return int(gang.add_up(said).max())

    def save(folder: Path) -> None:
        np.savez(folder / "state.npz", weights=state.weights, velocity=state.velocity)

    def load(folder: Path) -> None:
        with np.load(folder / "state.npz") as saved:
            state.weights, state.velocity = saved["weights"], saved["velocity"]

    def gradient(step: int) -> np.ndarray:
        """Return the sum over the batch, all ranks' parts of it added in the order of the shards."""
        batch = dataset.batch_indices(seed=seed, step=step, batch=BATCH)
        shards = np.array_split(batch, SHARDS)
        rows = np.zeros((len(mine), state.weights.size))
        for row, shard in zip(rows, mine, strict=True):
            chosen = shards[shard]
            _, row[:] = model.loss_and_gradient(
                state.weights, HIDDEN, digits.training_images[chosen], digits.training_labels[chosen]
            )
        return gang.add_up(rows)

    def accuracy() -> float:
        return model.accuracy(state.weights, HIDDEN, digits.test_images, digits.test_labels)

    with allot.training.session(
        name="training", save=save, load=load, every_steps=SAVE_EVERY_STEPS, agree=agree
    ) as run:
        ledger.write("start", gpus=gpus, restored=run.step, world=place.world_size)
        for step in run.steps(steps):
            time.sleep(step_seconds)
            state.apply(gradient(step) / BATCH, LEARNING_RATE)
            ledger.step(step + 1)
            if (step + 1) % REPORT_EVERY_STEPS == 0:
                run.report(samples=(step + 1) * BATCH, accuracy=accuracy())
    ledger.write("done", accuracy=accuracy(), digest=state.digest())


def main() -> None:
    kind, *numbers = sys.argv[1:]
    ledger = Ledger()
    gpus = hold_gpus(ledger)
    if kind in ("plain", "busy"):
        work = compute if kind == "busy" else time.sleep
        plain(ledger, gpus, int(numbers[0]), float(numbers[1]), work)
    elif kind == "stay":
        stay(ledger, gpus, int(numbers[0]))
    else:
        train(ledger, gpus, int(numbers[0]), float(numbers[1]), int(numbers[2]))


if __name__ == "__main__":
    main()
