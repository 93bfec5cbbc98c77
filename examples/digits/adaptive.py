"""Train the same classifier with a batch and a learning rate that follow its workers and its gradients.

As one process or as a gang of up to eight, by `allot.training`; see README.md beside this file. --steps are
counted at the initial batch, so that it takes fewer where larger batches are worth it.
"""

import os

# Before NumPy is imported, which reads them once: as in train.py.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import io
import sys
import time
from dataclasses import replace

import model
import numpy as np
from dataset import load_digits
from errors import JobError
from gang import Gang, Rendezvous, join
from model import Settings
from options import parse_arguments, whole_number
from pacing import REFERENCE_GPU, label_of_pace, paced_step_seconds
from progress import REPORT_SECONDS, say
from stop import StopRequest

import allot.training

# What a rank contributes: [loss, squared norms, gradient...], each a sum over what it computed.
LOSS, SQUARES, GRADIENT = 0, 1, slice(2, None)
# Of a paced gradient of the initial batch, the part that does not depend on its size.
CONSTANT = 0.25


class Trainer:
    """One rank's part. All ranks hold equal weights after every step."""

    def __init__(
        self, options: argparse.Namespace, settings: Settings, place: Rendezvous, gang: Gang
    ) -> None:
        self.options, self.settings, self.place, self.gang = options, settings, place, gang
        self.digits = load_digits()
        self.state = model.initial_state(settings)
        gpu_model = os.environ.get("ALLOT_GPU_MODEL", REFERENCE_GPU)
        self.step_seconds = paced_step_seconds(options.step_seconds, gpu_model, like=options.like)
        self.before: np.ndarray | None = None
        self.reported = float("-inf")

    def run(self) -> None:
        with allot.training.session(
            save_bytes=self.save,
            load_bytes=self.load,
            every_steps=self.options.checkpoint_every,
            agree=self.gang.largest,
        ) as run:
            sampler = run.sampler(len(self.digits.training_labels), seed=self.settings.seed)
            batch = run.adaptive_batch(
                initial=self.settings.batch,
                most=max(self.options.most, self.settings.batch),
                local=(1, self.options.local_most),
            )
            for _ in run.steps(self.options.steps):
                loss = self.step(batch, sampler)
                self.report(run, batch, loss)
            self.conclude(run, batch)

    def step(self, batch: allot.training.AdaptiveBatch, sampler: allot.training.Sampler) -> float:
        """Do one step; return the mean loss of the batch."""
        row = np.zeros(2 + self.state.weights.size)
        for share in batch.gradients(sampler):
            started = time.monotonic()
            loss, gradient = model.loss_and_gradient(
                self.state.weights,
                self.settings.hidden,
                self.digits.training_images[share],
                self.digits.training_labels[share],
            )
            row[LOSS] += loss
            row[SQUARES] += gradient @ gradient / len(share) ** 2
            row[GRADIENT] += gradient
            self.pace(len(share), since=started)
        with batch.synchronising():
            total = self.gang.add_up(row[None])
        gradient = total[GRADIENT] / batch.batch_size
        with batch.measuring():
            self.observe(batch, total[SQUARES], gradient)
        self.state.apply(gradient, self.settings.learning_rate * batch.lr_factor)
        return float(total[LOSS]) / batch.batch_size

    def observe(self, batch: allot.training.AdaptiveBatch, squares: float, gradient: np.ndarray) -> None:
        """Say how noisy the gradients of this step were; one alone is compared with that before."""
        count, norm = batch.replicas * (batch.accumulation + 1), float(gradient @ gradient)
        if count > 1:
            batch.noise.observe([squares / count], [norm], count=count, scale=batch.scale)
        elif self.before is not None:
            product = float(self.before @ gradient)
            batch.noise.observe_pair([float(self.before @ self.before)], [norm], [product], scale=batch.scale)
        self.before = gradient if count == 1 else None

    def pace(self, images: int, *, since: float) -> None:
        """Make a gradient last as long as on a GPU that takes --step-seconds for the initial batch."""
        relative = CONSTANT + (1 - CONSTANT) * images / self.settings.batch
        time.sleep(max(since + self.step_seconds * relative - time.monotonic(), 0.0))

    def report(self, run: allot.training.Session, batch: allot.training.AdaptiveBatch, loss: float) -> None:
        now = time.monotonic()
        if self.place.rank != 0 or now - self.reported < REPORT_SECONDS:
            return
        self.reported = now
        accuracy = self.accuracy()
        run.report(loss=loss, accuracy=accuracy)
        say(
            f"step {run.step + 1}/{self.options.steps}  batch {batch.batch_size} ({batch.replicas} x "
            f"{batch.accumulation + 1} x {batch.local_batch})  learning rate x {batch.lr_factor:.2f}  "
            f"loss {loss:.4f}  test accuracy {accuracy:.4f}"
        )

    def conclude(self, run: allot.training.Session, batch: allot.training.AdaptiveBatch) -> None:
        if self.place.rank == 0:
            accuracy = self.accuracy()
            run.report(accuracy=accuracy)
            say(
                f"done after {run.step} steps: {batch.samples:.0f} images had, batch {batch.batch_size}, "
                f"test accuracy {accuracy:.4f}"
            )

    def accuracy(self) -> float:
        images, labels = self.digits.test_images, self.digits.test_labels
        return model.accuracy(self.state.weights, self.settings.hidden, images, labels)

    def save(self) -> bytes:
        archive = io.BytesIO()
        np.savez(archive, weights=self.state.weights, velocity=self.state.velocity)
        return archive.getvalue()

    def load(self, content: bytes) -> None:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            self.state.weights, self.state.velocity = archive["weights"], archive["velocity"]


def add_options(parser: argparse.ArgumentParser) -> None:
    # As many images as train.py has, in small batches: what larger ones are worth is for this to find out.
    parser.set_defaults(steps=2400, batch=16, learning_rate=0.05)
    parser.add_argument(
        "--most", type=whole_number(1, 1_000_000), default=512, help="images of the largest batch (512)"
    )
    parser.add_argument(
        "--local-most",
        type=whole_number(1, 1_000_000),
        default=128,
        help="images of the largest gradient of a worker (128)",
    )


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments, description=__doc__, program="adaptive.py", add=add_options)
    settings = Settings(
        batch=options.batch,
        learning_rate=options.learning_rate,
        hidden=options.hidden,
        seed=options.seed,
    )
    gpu_model = os.environ.get("ALLOT_GPU_MODEL", REFERENCE_GPU)
    try:
        place = Rendezvous.from_environment(os.environ)
        # Each rank contributes one sum: nothing here depends on how many there are to the last bit.
        place = replace(place, shard_count=place.world_size)
        say(f"rank {place.rank} of {place.world_size} on {gpu_model}, attempt {place.attempt or '-'}")
        if place.rank == 0 and options.step_seconds:
            say(label_of_pace(options.step_seconds, gpu_model, like=options.like))
        # Signals are the session's matter, and before it begins there is nothing to save.
        gang = join(
            place,
            settings={
                name: getattr(options, name) for name in ("batch", "seed", "most", "local_most", "steps")
            },
            stop=StopRequest(),
            rendezvous_seconds=options.rendezvous_seconds,
            peer_timeout_seconds=options.peer_timeout_seconds,
        )
        try:
            Trainer(options, settings, place, gang).run()
        finally:
            gang.close()
    except (JobError, allot.training.TrainingError, OSError) as error:
        print(f"error: rank {os.environ.get('RANK', '0')}: {error}", file=sys.stderr, flush=True)
        return error.exit_code if isinstance(error, JobError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
