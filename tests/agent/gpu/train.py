"""A small network with dropout and Adam, on a GPU where there is one; writes each step's loss, bit for bit.

    python train.py LOSSES STEPS STEP_SECONDS

What it needs to go on exactly where it stopped is all in its checkpoints: weights, moments, random numbers.
"""

import os
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch

import allot.training

losses, steps, step_seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
torch.use_deterministic_algorithms(True)
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
images = torch.randn(512, 1, 16, 16)
labels = (images.mean(dim=(1, 2, 3)) > 0).long()
network = torch.nn.Sequential(
    torch.nn.Conv2d(1, 16, 3),
    torch.nn.ReLU(),
    torch.nn.Flatten(),
    torch.nn.Dropout(0.3),
    torch.nn.Linear(16 * 14 * 14, 2),
).to(device)
optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)


def save(folder):
    randomness = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        randomness["cuda"] = torch.cuda.get_rng_state()
    state = {"network": network.state_dict(), "optimiser": optimiser.state_dict(), "randomness": randomness}
    torch.save(state, folder / "state.pt")


def load(folder):
    state = torch.load(folder / "state.pt", map_location="cpu", weights_only=True)
    network.load_state_dict(state["network"])
    optimiser.load_state_dict(state["optimiser"])
    torch.set_rng_state(state["randomness"]["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state["randomness"]["cuda"])


print(f"training on {device}", flush=True)
with allot.training.session(save=save, load=load, every_seconds=3600) as run, open(losses, "a") as file:
    sampler = run.sampler(len(images), seed=7)
    for step in run.steps(steps):
        batch = sampler.take(32)
        loss = torch.nn.functional.cross_entropy(network(images[batch].to(device)), labels[batch].to(device))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        print(step, float(loss).hex(), file=file, flush=True)
        time.sleep(step_seconds)
        run.report(loss=loss.detach())
