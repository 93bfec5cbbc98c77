"""allot.training.pytorch, where PyTorch is: what it measures is what can be computed by hand.

Gangs are real processes that meet by gloo.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
from typing import Any

import pytest

from tests.patience import PATIENCE_SECONDS

# Importing PyTorch alone takes seconds.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install torch"
    ),
]


#: What every script begins with: a task, and gradients of it by hand.
TASK = """
import json, os, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from allot.training import TrainingError
from allot.training.adaptive import AdaptiveBatch
from allot.training.batch_choice import Limits
from allot.training.pytorch import AdaptiveOptimiser, FixedWorldOptimiser
from allot.training.sampler import Sampler

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if world_size > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)
torch.set_num_threads(1)
inputs, labels = torch.randn(400, 6), torch.randint(0, 3, (400,))
network = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))

def loss_of(model, samples):
    return torch.nn.functional.cross_entropy(model(inputs[samples]), labels[samples])

def gradient(samples):
    "Of the network as it is, by parameter."
    return torch.autograd.grad(loss_of(network, samples), list(network.parameters()))

def squares(gradients, groups):
    return [sum(float((gradients[i].double() ** 2).sum()) for i in group) for group in groups]

def mean(several):
    return [torch.stack(each).mean(dim=0) for each in zip(*several)]

def batch_of(initial, most, local, **options):
    limits = Limits(initial_batch=initial, max_batch=most, min_local_batch=local[0], max_local_batch=local[1])
    return AdaptiveBatch(limits, replicas=world_size, **options)

def weights():
    return [value for parameter in network.parameters() for value in parameter.detach().reshape(-1).tolist()]

def say(**facts):
    if rank == 0:
        print(json.dumps(facts))
"""

ACCUMULATING = """
# One replica, three gradients of 4: the noise of the first iteration, and what the step did.
batch = batch_of(12, 12, (1, 4))
groups = [[0, 1], [2, 3]]
parameters = list(network.parameters())
optimiser = torch.optim.SGD([{"params": parameters[:2], "lr": 0.1}, {"params": parameters[2:], "lr": 0.01}])
tuned = AdaptiveOptimiser(batch, optimiser, network)
parts = [Sampler(400, seed=1, rank=0, world_size=1).take_whole(12)[at:at + 4] for at in (0, 4, 8)]
by_hand = [gradient(part) for part in parts]
local = [sum(each) / 3 for each in zip(*(squares(g, groups) for g in by_hand))]
total = squares(mean(by_hand), groups)
before, rates = [p.detach().clone() for p in parameters], (0.1, 0.1, 0.01, 0.01)
for share in tuned.gradients(Sampler(400, seed=1, rank=0, world_size=1)):
    tuned.backward(loss_of(network, share))
tuned.step()
stepped = [p - rate * g for p, rate, g in zip(before, rates, mean(by_hand))]
try:
    loss_of(network, [0, 1]).backward()
    tuned.step()
    refused = ""
except TrainingError as error:
    refused = str(error)
say(
    shape=[batch.local_batch, batch.accumulation],
    found=[batch.noise.estimate(group) for group in (0, 1)],
    expected=[[max((3 * t - l) / 2, 0.0), (l - t) / 2] for l, t in zip(local, total)],
    off=max(float((a - b).abs().max()) for a, b in zip(parameters, stepped)),
    rates=[group["lr"] for group in optimiser.param_groups],
    refused=refused,
)
"""

PAIRS = """
# One replica, one gradient of 16: the second iteration makes a pair with the first.
batch = batch_of(16, 16, (1, 16))
tuned = AdaptiveOptimiser(batch, torch.optim.SGD(network.parameters(), lr=0.05), network)
sampler, again = (Sampler(400, seed=1, rank=0, world_size=1) for _ in range(2))
groups, by_hand = [[0, 1, 2, 3]], []
for _ in range(2):
    by_hand.append(gradient(again.take_whole(16)))
    for share in tuned.gradients(sampler):
        tuned.backward(loss_of(network, share))
    tuned.step()
    batch.finish_iteration()
(local,) = [sum(each) / 2 for each in zip(*(squares(g, groups) for g in by_hand))]
(total,) = squares(mean(by_hand), groups)
say(found=batch.noise.estimate(), expected=[max(2 * total - local, 0.0), (local - total) * 2])
"""

REPLICAS = """
# Each replica accumulates two gradients of 4; the initial batch is 8.
batch = batch_of(8, 8 * world_size, (4, 4), rule="linear")
batch._way = batch.limits.ways(world_size)[-1]
assert (batch.local_batch, batch.accumulation) == (4, 1), batch._way
model = DistributedDataParallel(network)
optimiser = torch.optim.SGD(network.parameters(), lr=0.05)
tuned = AdaptiveOptimiser(batch, optimiser, model)
samplers = [Sampler(400, seed=1, rank=each, world_size=world_size) for each in range(world_size)]
groups = [[0, 1, 2, 3]]
shares = [sampler.take_whole(8 * world_size) for sampler in samplers]
by_hand = [mean([gradient(share[:4]), gradient(share[4:])]) for share in shares]
local = sum(squares(g, groups)[0] for g in by_hand) / world_size
(total,) = squares(mean(by_hand), groups)
before = [p.detach().clone() for p in network.parameters()]
for share in tuned.gradients(Sampler(400, seed=1, rank=rank, world_size=world_size)):
    tuned.backward(loss_of(model, share))
tuned.step()
stepped = [p - 0.05 * batch.scale * g for p, g in zip(before, mean(by_hand))]
off = max(float((a - b).abs().max()) for a, b in zip(network.parameters(), stepped))
found, count = batch.noise.estimate(), world_size
# Over all that follows ranks have the same weights, and the measures cost no step its meaning.
for _ in range(40):
    batch.finish_iteration()
    for share in tuned.gradients(samplers[rank]):
        tuned.backward(loss_of(model, share))
    tuned.step()
everyone = [None] * world_size
dist.all_gather_object(everyone, (weights(), batch.noise.state(), batch.progress))
say(
    found=found,
    expected=[max((count * total - local) / (count - 1), 0.0), (local - total) * batch.scale / (count - 1)],
    off=off,
    scale=batch.scale,
    alike=[each == everyone[0] for each in everyone],
)
dist.destroy_process_group()
"""

ADAM = """
# Relative to the root of the second moment, once it says something.
batch = batch_of(12, 12, (1, 4))
optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
tuned = AdaptiveOptimiser(batch, optimiser, network)
sampler, ahead = (Sampler(400, seed=1, rank=0, world_size=1) for _ in range(2))
seen = []
for step in range(6):
    share = ahead.take_whole(12)
    by_hand = [gradient(share[at:at + 4]) for at in (0, 4, 8)]
    if step == 5:
        divisors = [
            (optimiser.state[p]["exp_avg_sq"] / (1 - 0.999 ** 5)).sqrt() + 1e-8 for p in network.parameters()
        ]
        by_hand = [[g / d for g, d in zip(each, divisors)] for each in by_hand]
    local = sum(squares(g, [[0, 1, 2, 3]])[0] for g in by_hand) / 3
    (total,) = squares(mean(by_hand), [[0, 1, 2, 3]])
    for share in tuned.gradients(sampler):
        tuned.backward(loss_of(network, share))
    tuned.step()
    if step in (0, 5):
        seen.append([batch.noise.estimate(), [max((3 * total - local) / 2, 0.0), (local - total) / 2]])
    batch.finish_iteration()
say(seen=seen, factor=[batch._rule(4.0, 9.0, 0.0)])
"""

FIXED_WORLD = """
optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
fixed = FixedWorldOptimiser(optimiser, 4)
sampler = Sampler(150, seed=1, rank=rank, world_size=world_size, ranks_each=4 // world_size)
for _ in range(30):
    for share in sampler.take_for_logical_ranks(16):
        if share:
            loss_of(network, share).backward()
        fixed.take()
    fixed.step()
say(weights=[value.hex() for value in weights()])
if world_size > 1:
    dist.destroy_process_group()
"""

SCALED = """
# A scaled loss, as with float16: the same noise and steps as without, but for a step that overflows.
def trained(scaler, lost, local):
    torch.manual_seed(1)
    for layer in (network[0], network[2]):
        layer.reset_parameters()
    batch = batch_of(12, 12, local)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.05)
    tuned = AdaptiveOptimiser(batch, optimiser, network, scaler=scaler)
    sampler, counted, before = Sampler(400, seed=1, rank=0, world_size=1), [], None
    for step in range(9):
        if step == lost:
            before = weights()
        for share in tuned.gradients(sampler):
            loss = loss_of(network, share)
            tuned.backward(loss * float("inf") if step == lost else loss)
        tuned.step()
        if step == lost:
            assert weights() == before
        counted.append(batch.finish_iteration())
    return batch, counted, weights()

cases = []
for local in ((1, 4), (1, 12)):
    plain, _, expected = trained(None, None, local)
    scaled, _, found = trained(torch.amp.GradScaler("cpu", init_scale=2.0 ** 10), None, local)
    lost, counted, _ = trained(torch.amp.GradScaler("cpu", init_scale=2.0 ** 10), 6, local)
    cases.append({
        "noise": [plain.noise.estimate(), scaled.noise.estimate(), lost.noise.estimate()],
        "off": max(abs(a - b) for a, b in zip(expected, found)),
        "counted": counted,
        "progress": [plain.progress, lost.progress],
    })
say(cases=cases)
"""

HOPELESS = """
from allot.training import TrainingError
tuned = AdaptiveOptimiser(
    batch_of(12, 12, (1, 12)),
    torch.optim.SGD(network.parameters(), lr=0.05),
    network,
    scaler=torch.amp.GradScaler("cpu"),
)
sampler, steps = Sampler(400, seed=1, rank=0, world_size=1), 0
try:
    while True:
        for share in tuned.gradients(sampler):
            tuned.backward(loss_of(network, share) * float("nan"))
        steps += 1
        tuned.step()
        tuned.batch.finish_iteration()
except TrainingError as error:
    say(steps=steps, said=str(error))
"""

WRONG = """
from allot.training import TrainingError
optimiser = torch.optim.SGD(network.parameters(), lr=0.05)
said = []
two = AdaptiveBatch(Limits(initial_batch=8, max_batch=8, max_local_batch=8), replicas=2)
for attempt in (
    lambda: AdaptiveOptimiser(two, optimiser, network),
    lambda: FixedWorldOptimiser(optimiser, 4).step(),
):
    try:
        attempt()
    except TrainingError as error:
        said.append(str(error))
say(said=said)
"""


def run(script: str, *, world_size: int = 1) -> dict[str, Any]:
    """Run the script as so many ranks, and return what rank 0 said."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(world_size),
        "OMP_NUM_THREADS": "1",
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", TASK + script],
            env={**environment, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world_size)
    ]
    outputs = [rank.communicate(timeout=5 * PATIENCE_SECONDS) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * world_size, outputs
    found: dict[str, Any] = json.loads(outputs[0][0].splitlines()[-1])
    return found


def close(expected: Any) -> Any:
    return pytest.approx(expected, rel=1e-4, abs=1e-9)


def test_each_accumulated_gradient_is_measured_and_the_step_is_that_of_their_mean() -> None:
    said = run(ACCUMULATING)
    assert said["shape"] == [4, 2]
    assert [close(each) for each in said["expected"]] == said["found"]
    assert said["off"] < 1e-6
    assert said["rates"] == [0.1, 0.01], "the optimiser keeps its own rates"
    assert "call backward(loss) of this optimiser" in said["refused"], "nobody divided that gradient"


def test_one_gradient_a_step_is_measured_in_pairs() -> None:
    said = run(PAIRS)
    assert said["found"] == close(said["expected"])


@pytest.mark.parametrize("world_size", [2, 3])
def test_replicas_measure_what_each_has_of_its_own_and_stay_alike(world_size: int) -> None:
    said = run(REPLICAS, world_size=world_size)
    assert said["scale"] == world_size
    assert said["found"] == close(said["expected"])
    assert said["off"] < 1e-6, "a step of the mean gradient at the raised rate"
    assert said["alike"] == [True] * world_size


def test_adams_gradients_are_measured_as_it_steps() -> None:
    said = run(ADAM)
    (first, by_hand), (later, preconditioned) = said["seen"]
    assert first == close(by_hand)
    assert later == close(preconditioned), "begun anew in the other unit"
    assert said["factor"] == [3.0]


def test_a_fixed_world_of_four_has_the_same_weights_on_four_two_and_one() -> None:
    four, two, one = (run(FIXED_WORLD, world_size=processes)["weights"] for processes in (4, 2, 1))
    assert four == two == one


def test_a_scaled_loss_measures_the_same_and_a_step_that_overflows_counts_as_none() -> None:
    for case in run(SCALED)["cases"]:
        plain, scaled, lost = case["noise"]
        assert scaled == close(plain)
        assert case["off"] < 1e-6
        assert lost == pytest.approx(plain, rel=0.5), "finite, and about the same by one observation fewer"
        assert case["counted"] == [step != 6 for step in range(9)]
        assert case["progress"] == [9.0, 8.0]


def test_a_training_whose_every_step_overflows_fails() -> None:
    said = run(HOPELESS)
    assert said["steps"] == 100
    assert said["said"].startswith("gradients were not finite in 100 steps in a row")


def test_what_cannot_work_is_refused() -> None:
    module, gradients = run(WRONG)["said"]
    assert module == "with 2 ranks the module must be DistributedDataParallel over all of them"
    assert gradients == "0 gradients were taken; there must be one for each of 4 ranks"
