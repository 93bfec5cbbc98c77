"""Data-parallel training with PyTorch: one process, or as many as there are, even another number each time.

    python train.py
    torchrun --nproc-per-node 2 train.py

Needs torch. Every rank learns from its share of each batch; the batch over all ranks stays the same, so a run
that goes on with more or fewer GPUs still learns from every sample once per epoch.
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

SAMPLES, FEATURES, CLASSES, GLOBAL_BATCH = 4096, 32, 8, 128

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--epochs", type=int, default=5, help="(5)")
parser.add_argument("--step-seconds", type=float, default=0.0, help="pause per step, to watch it (0)")
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
inputs = torch.randn(SAMPLES, FEATURES)
labels = (inputs @ torch.randn(FEATURES, CLASSES)).argmax(dim=1)
network = torch.nn.Sequential(
    torch.nn.Linear(FEATURES, 64), torch.nn.ReLU(), torch.nn.Linear(64, CLASSES)
).to(device)
optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
model = DistributedDataParallel(network) if is_parallel else network


def save(folder):
    torch.save({"network": network.state_dict(), "optimiser": optimiser.state_dict()}, folder / "state.pt")


def load(folder):
    state = torch.load(folder / "state.pt", map_location=device, weights_only=True)
    network.load_state_dict(state["network"])
    optimiser.load_state_dict(state["optimiser"])


with allot.training.session(
    save=save, load=load, every_seconds=options.every_seconds, agree=agree if is_parallel else None
) as run:
    sampler = run.sampler(SAMPLES, seed=0)
    for _ in run.steps(options.epochs * SAMPLES // GLOBAL_BATCH):
        batch = sampler.take(GLOBAL_BATCH)
        scores = model(inputs[batch].to(device))
        # Gradients are averaged over ranks: so weighted, each sample counts alike on whichever rank it is.
        loss = torch.nn.functional.cross_entropy(scores, labels[batch].to(device), reduction="sum")
        loss = loss * run.world_size / GLOBAL_BATCH
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        time.sleep(options.step_seconds)
        run.report(
            loss=loss.detach(),
            samples=(run.step + 1) * GLOBAL_BATCH,
            epoch=sampler.epochs_done,
            epochs=options.epochs,
            batch_size=GLOBAL_BATCH,
        )

if run.rank == 0:
    weights = b"".join(value.cpu().numpy().tobytes() for value in network.state_dict().values())
    with torch.no_grad():
        accuracy = (network(inputs.to(device)).argmax(dim=1).cpu() == labels).float().mean()
    print(f"done: accuracy {accuracy:.4f}, weights {hashlib.sha256(weights).hexdigest()[:16]}", flush=True)
