"""Training with PyTorch that ends with the same weights, to the last bit, on as many GPUs as there are.

    python fixed_world.py
    torchrun --nproc-per-node 2 fixed_world.py

Needs torch. For a job with `elastic: {mode: fixed_world}`: where it has fewer GPUs than ranks each process
plays several ranks. By itself it has as many ranks as processes, or ALLOT_LOGICAL_WORLD_SIZE.
"""

import argparse
import atexit
import hashlib
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

import allot.training
from allot.training.pytorch import FixedWorldOptimiser

SAMPLES, FEATURES, CLASSES, GLOBAL_BATCH = 4096, 32, 8, 128

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=500, help=f"of {GLOBAL_BATCH} samples (500)")
parser.add_argument("--seed", type=int, default=0, help="of weights and order (0)")
parser.add_argument(
    "--gradient-seconds",
    type=float,
    default=0.0,
    help="make each rank's gradient last as long, by waiting, as a heavier model would (0)",
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
    """Return the largest of the ranks' numbers, so that all save and stop at the same step."""
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
optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)


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
    fixed = FixedWorldOptimiser(optimiser, run.logical_world_size)
    for _ in run.steps(options.steps):
        for share in sampler.take_for_logical_ranks(GLOBAL_BATCH):
            started = time.monotonic()
            scores = network(inputs[share].to(device))
            # Means over ranks whose shares are equal: each sample counts alike.
            loss = torch.nn.functional.cross_entropy(scores, labels[share].to(device))
            loss.backward()
            fixed.take()
            time.sleep(max(started + options.gradient_seconds - time.monotonic(), 0.0))
        fixed.step()
        run.report(loss=loss.detach(), epoch=sampler.epochs_done, batch_size=GLOBAL_BATCH)

if run.rank == 0:
    weights = b"".join(value.cpu().numpy().tobytes() for value in network.state_dict().values())
    with torch.no_grad():
        accuracy = (
            (network(inputs[SAMPLES:].to(device)).argmax(dim=1).cpu() == labels[SAMPLES:]).float().mean()
        )
    result = {
        "accuracy": float(accuracy),
        "steps": run.step,
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    folder = Path(os.environ.get("ALLOT_CHECKPOINT_DIR", "checkpoints"))
    (folder / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    print(f"done: accuracy {accuracy:.4f}, weights {result['weights_sha256'][:16]}", flush=True)
