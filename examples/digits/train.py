"""Train a classifier of handwritten digits, as one process or as a gang of up to eight.

See README.md beside this file. Exit codes: 0 training is complete; 2 the arguments or the environment
cannot work; 75 another rank was lost; 128 + signal stopped by a signal, after a checkpoint; 1 anything else.
"""

import os

# Before NumPy is imported, which reads them once. One replica is one core's worth of work: four that each
# start a thread per core would only get in each other's way.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import math
import sys
import time
from dataclasses import asdict
from pathlib import Path

import model
import numpy as np
from checkpoint import CheckpointFolder, decode, encode
from dataset import Digits, batch_indices, load_digits
from errors import BadSettings, JobError, PeerLost, Stopped
from gang import Gang, Rendezvous, join
from model import Settings, TrainingState
from options import parse_arguments
from pacing import REFERENCE_GPU, label_of_pace, paced_step_seconds
from progress import Progress, say
from stop import StopRequest

# What a rank contributes for each of its shards: [stop wanted, loss, gradient...].
STOP, LOSS, GRADIENT = 0, 1, slice(2, None)


class Trainer:
    """One rank's part in the training. All ranks hold equal states after every step."""

    def __init__(
        self,
        *,
        place: Rendezvous,
        settings: Settings,
        total_steps: int,
        checkpoint_every: int,
        step_seconds: float,
        stop: StopRequest,
        folder: CheckpointFolder | None,
        progress: Progress | None,
    ) -> None:
        self.place = place
        self.settings = settings
        self.total_steps = total_steps
        self.checkpoint_every = checkpoint_every
        self.step_seconds = step_seconds
        self.stop = stop
        self.folder = folder
        self.progress = progress
        self.digits: Digits = load_digits()

    def run(self, gang: Gang) -> int:
        """Train to the end or to an agreed stop; returns the exit code."""
        state = self._agree_on_start(gang)
        stopping = False
        try:
            while state.step < self.total_steps and not stopping:
                stopping = self._step(gang, state)
        except PeerLost:
            # Whatever was lost, the state is that after a whole step: keep it.
            self._save(state)
            raise
        complete = state.step >= self.total_steps
        self._save(state)
        if complete:
            self._conclude(state)
        # No rank leaves before the checkpoint is safe, so that any rank's exit code tells the truth.
        gang.share(b"saved" if self.place.rank == 0 else None)
        if complete:
            return 0
        self._say(
            f"stopped at step {state.step}/{self.total_steps}, "
            + ("checkpoint written" if self.folder else "no ALLOT_CHECKPOINT_DIR, so nothing is kept")
        )
        return self.stop.exit_code

    def _agree_on_start(self, gang: Gang) -> TrainingState:
        """Rank 0 loads, all get its state: the other ranks need not see the checkpoint folder."""
        if self.place.rank != 0:
            return decode(gang.share(), self.settings)
        state = self.folder.load(self.settings) if self.folder else None
        if state is None:
            state = model.initial_state(self.settings)
        elif state.step > self.total_steps:
            raise BadSettings(f"the checkpoint is at step {state.step}, beyond --steps {self.total_steps}")
        else:
            say(f"resumed from the checkpoint at step {state.step}")
        gang.share(encode(state, self.settings))
        return state

    def _step(self, gang: Gang, state: TrainingState) -> bool:
        """One step of SGD. True when some rank was asked to stop: all ranks learn so at the same step."""
        started = time.monotonic()
        rows = self._rows(state)
        self.stop.wait(self.step_seconds - (time.monotonic() - started))
        rows[:, STOP] = self.stop.requested
        total = gang.add_up(rows)

        loss = total[LOSS] / self.settings.batch
        if not math.isfinite(loss):
            raise JobError(f"the loss is {loss} at step {state.step + 1}; try a lower --learning-rate")
        state.apply(total[GRADIENT] / self.settings.batch, self.settings.learning_rate)
        stopping = bool(total[STOP])
        if state.step % self.checkpoint_every == 0 and state.step < self.total_steps and not stopping:
            self._save(state)
        if self.progress and (stopping or self.progress.due or state.step == self.total_steps):
            self.progress.report(step=state.step, loss=loss, accuracy=self._accuracy(state))
        return stopping

    def _rows(self, state: TrainingState) -> np.ndarray:
        """Stop flag (still 0), loss and gradient of each shard that belongs to this rank."""
        batch = batch_indices(seed=self.settings.seed, step=state.step, batch=self.settings.batch)
        shards = np.array_split(batch, self.place.shard_count)
        mine = self.place.shards(self.place.rank)
        rows = np.zeros((len(mine), 2 + state.weights.size))
        for row, shard in zip(rows, mine, strict=True):
            row[LOSS], row[GRADIENT] = model.loss_and_gradient(
                state.weights,
                self.settings.hidden,
                self.digits.training_images[shards[shard]],
                self.digits.training_labels[shards[shard]],
            )
        return rows

    def _accuracy(self, state: TrainingState) -> float:
        return model.accuracy(
            state.weights, self.settings.hidden, self.digits.test_images, self.digits.test_labels
        )

    def _save(self, state: TrainingState) -> None:
        if self.folder:
            self.folder.save(state, self.settings)

    def _conclude(self, state: TrainingState) -> None:
        accuracy = self._accuracy(state)
        if self.folder:
            self.folder.write_result(
                {
                    "accuracy": accuracy,
                    "steps": state.step,
                    "samples": state.step * self.settings.batch,
                    "weights_sha256": state.digest(),
                    "world_size": self.place.world_size,
                    **asdict(self.settings),
                }
            )
        self._say(f"done after {state.step} steps, test accuracy {accuracy:.4f}")

    def _say(self, text: str) -> None:
        if self.place.rank == 0:
            say(text)


def run(options: argparse.Namespace, place: Rendezvous, stop: StopRequest) -> int:
    settings = Settings(
        batch=options.batch,
        learning_rate=options.learning_rate,
        hidden=options.hidden,
        seed=options.seed,
    )
    hub = place.rank == 0
    folder_path = os.environ.get("ALLOT_CHECKPOINT_DIR")
    progress_path = os.environ.get("ALLOT_PROGRESS")
    gpu_model = os.environ.get("ALLOT_GPU_MODEL", REFERENCE_GPU)
    say(
        f"rank {place.rank} of {place.world_size} on {gpu_model}, "
        f"job {place.job or '(started by hand)'}, attempt {place.attempt or '-'}"
    )
    if hub and options.step_seconds:
        say(label_of_pace(options.step_seconds, gpu_model, like=options.like))
    trainer = Trainer(
        place=place,
        settings=settings,
        total_steps=options.steps,
        checkpoint_every=options.checkpoint_every,
        # In a fixed world each rank that this process plays takes as long.
        step_seconds=place.ranks_each
        * paced_step_seconds(options.step_seconds, gpu_model, like=options.like),
        stop=stop,
        # Only rank 0 writes: one writer needs no agreement on who is right.
        folder=CheckpointFolder(Path(folder_path), say=say) if hub and folder_path else None,
        progress=(
            Progress(
                Path(progress_path) if progress_path else None,
                batch=settings.batch,
                total_steps=options.steps,
            )
            if hub
            else None
        ),
    )
    gang = join(
        place,
        settings={**asdict(settings), "steps": options.steps},
        stop=stop,
        rendezvous_seconds=options.rendezvous_seconds,
        peer_timeout_seconds=options.peer_timeout_seconds,
    )
    try:
        return trainer.run(gang)
    finally:
        gang.close()


def main(arguments: list[str] | None = None) -> int:
    stop = StopRequest()
    stop.listen()
    options = parse_arguments(arguments, description=__doc__)
    try:
        place = Rendezvous.from_environment(os.environ)
        return run(options, place, stop)
    except Stopped:
        say("stopped before the first step")
        return stop.exit_code
    except (JobError, OSError) as error:
        print(f"error: rank {os.environ.get('RANK', '0')}: {error}", file=sys.stderr, flush=True)
        return error.exit_code if isinstance(error, JobError) else 1


if __name__ == "__main__":
    sys.exit(main())
