"""Data-parallel training with PyTorch whose batch and learning rate follow its GPUs and its gradients.

    python adaptive.py
    torchrun --nproc-per-node 2 adaptive.py

Needs torch. The same task as train.py, for a job with `elastic: {mode: adaptive}`: --steps are counted at the
initial batch, so that it takes fewer where larger batches are worth it.
"""

import argparse
import atexit
import hashlib
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import allot.training
from allot.training.pytorch import AdaptiveOptimiser

SAMPLES, FEATURES, CLASSES = 4096, 32, 8
INITIAL_BATCH, MOST, LOCAL = 64, 1024, (8, 256)
# Of a paced gradient of the initial batch, the part that does not depend on its size.
CONSTANT = 0.25

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=1000, help=f"of {INITIAL_BATCH} samples (1000)")
parser.add_argument("--optimiser", choices=("sgd", "adam"), default="sgd", help="(sgd)")
parser.add_argument("--fixed", action="store_true", help="keep the initial batch, to compare with")
parser.add_argument("--seed", type=int, default=0, help="of weights and order (0)")
parser.add_argument("--step-seconds", type=float, default=0.0, help="pause per step, to watch it (0)")
parser.add_argument(
    "--gradient-seconds",
    type=float,
    default=0.0,
    help="make a gradient of the initial batch last as long, by waiting, as a heavier model would (0)",
)
parser.add_argument("--every-seconds", type=float, default=60.0, help="how often to save (60)")
options = parser.parse_args()

is_parallel = int(os.environ.get("WORLD_SIZE", "1")) > 1
has_gpu = torch.cuda.is_available()
device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if has_gpu else torch.device("cpu")
if is_parallel:
    dist.init_process_group("nccl" if has_gpu else "gloo")
    # However it ends, told to stop too: threads that are left at the very end make Python abort.
    atexit.register(dist.destroy_process_group)


def agree(number: int) -> int:
    """Return the largest of the ranks' numbers, so that all save, stop and change the batch together."""
    numbers = torch.tensor(number, dtype=torch.int64, device=device)
    dist.all_reduce(numbers, dist.ReduceOp.MAX)
    return int(numbers.item())


torch.manual_seed(0)
inputs = torch.randn(2 * SAMPLES, FEATURES)
labels = (inputs @ torch.randn(FEATURES, CLASSES)).argmax(dim=1)
torch.manual_seed(options.seed)
network = torch.nn.Sequential(
    torch.nn.Linear(FEATURES, 64), torch.nn.ReLU(), torch.nn.Linear(64, CLASSES)
).to(device)
if options.optimiser == "sgd":
    optimiser = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
else:
    optimiser = torch.optim.Adam(network.parameters(), lr=0.002)
model = DistributedDataParallel(network) if is_parallel else network


def pace(samples: int, *, since: float) -> None:
    """Wait until a gradient of so many samples would be computed, a larger one longer."""
    relative = CONSTANT + (1 - CONSTANT) * samples / INITIAL_BATCH
    time.sleep(max(since + options.gradient_seconds * relative - time.monotonic(), 0.0))


def accuracy() -> float:
    """Return that on samples that it has not learned from."""
    with torch.no_grad():
        scores = network(inputs[SAMPLES:].to(device)).cpu()
    return float((scores.argmax(dim=1) == labels[SAMPLES:]).float().mean())


def save(folder):
    torch.save({"network": network.state_dict(), "optimiser": optimiser.state_dict()}, folder / "state.pt")


def load(folder):
    state = torch.load(folder / "state.pt", map_location=device, weights_only=True)
    network.load_state_dict(state["network"])
    optimiser.load_state_dict(state["optimiser"])


with allot.training.session(
    save=save, load=load, every_seconds=options.every_seconds, agree=agree if is_parallel else None
) as run:
    sampler = run.sampler(SAMPLES, seed=options.seed)
    batch = run.adaptive_batch(
        initial=INITIAL_BATCH, most=INITIAL_BATCH if options.fixed else MOST, local=LOCAL
    )
    tuned = AdaptiveOptimiser(batch, optimiser, model)
    for _ in run.steps(options.steps):
        for share in tuned.gradients(sampler):
            started = time.monotonic()
            loss = torch.nn.functional.cross_entropy(
                model(inputs[share].to(device)), labels[share].to(device)
            )
            # Before `backward`, which waits for the other ranks.
            pace(len(share), since=started)
            tuned.backward(loss)
        tuned.step()
        time.sleep(options.step_seconds)
        run.report(loss=loss.detach(), epoch=sampler.epochs_done)
    run.report(accuracy=accuracy())

if run.rank == 0:
    weights = b"".join(value.cpu().numpy().tobytes() for value in network.state_dict().values())
    print(f"{batch.iterations} steps in batches of up to {batch.batch_size}, {batch.samples:.0f} samples")
    print(f"done: accuracy {accuracy():.4f}, weights {hashlib.sha256(weights).hexdigest()[:16]}", flush=True)
