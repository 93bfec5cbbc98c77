"""Attempts as jobs of a real Slurm: what Slurm and the agent do, and what the server is told."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace

import pytest

from nodeagent.folder import read_json
from nodeagent.messages import DesiredPart
from tests.agent.builders import make_part, python, shell
from tests.agent.fake_server import FakeServer
from tests.patience import until_async
from tests.slurm.agent import SlurmAgent

SAYS = """
echo "$RANK of $WORLD_SIZE meets at $MASTER_ADDR:$MASTER_PORT, has GPUs $CUDA_VISIBLE_DEVICES"
echo '{"step": 3, "samples": 96, "loss": 0.5}' >> "$ALLOT_PROGRESS"
"""
#: Counts on from its checkpoint, and writes one when it is told to stop.
COUNTS = """
import os, signal, sys, time
path = os.environ["ALLOT_CHECKPOINT_DIR"] + "/count"
count = int(open(path).read()) if os.path.exists(path) else 0
def save(*_):
    time.sleep(0.3)
    open(path, "w").write(str(count + 1))
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("counts from", count)
while not count: time.sleep(0.01)
"""


def gang(attempt: int) -> dict[str, DesiredPart]:
    """One replica with two GPUs on each node; Slurm numbers them otherwise than this plan."""
    return {
        node: make_part(
            shell(SAYS, rank=rank, gpu_indexes=(1, 3)),
            attempt=attempt,
            world_size=2,
            go=False,
            has_rank_zero=rank == 0,
        )
        for rank, node in enumerate(("n1", "n2"))
    }


async def test_a_gang_starts_when_slurm_has_let_both_of_its_jobs_run(
    server: FakeServer, agent: SlurmAgent
) -> None:
    parts = gang(attempt=1)
    # Somebody else has the second node.
    other = agent.cluster.occupy("n2", gpus=4)
    for node, part in parts.items():
        await server.want(node, part)
    first = await server.until_state("n1", 1, "ready")

    def waits_in_the_queue() -> bool:
        part = server.part("n2", 1)
        return part is not None and part.state == "preparing" and part.is_queued

    await server.until(waits_in_the_queue)
    agent.cluster.command("scancel", other)
    second = await server.until_state("n2", 1, "ready")
    assert (second.master_port, server.text("n1", 1)) == (None, "")
    assert (first.is_queued, second.is_queued) == (False, False)
    for node, part in parts.items():
        going = replace(part, go=True, master_address="127.0.0.1", master_port=first.master_port)
        await server.want(node, going)
    for rank, node in enumerate(parts):
        ended = await server.until_state(node, 1, "exited")
        assert (ended.exit_code, ended.category) == (0, "")
        said = server.text(node, 1, rank)
        assert said == f"{rank} of 2 meets at 127.0.0.1:{first.master_port}, has GPUs 0,1\n"
        await server.want(node)
        await server.until(lambda node=node: server.reports[node][-1].parts == ())
        await until_async(lambda node=node: not agent.batch_jobs(node))
    assert [line.step for line in server.progress("n1", 1)] == [3]


@pytest.mark.slow
async def test_work_goes_on_elsewhere_from_its_checkpoint(server: FakeServer, agent: SlurmAgent) -> None:
    first = make_part(python(COUNTS), attempt=2, job=7)
    await server.want("n1", first)
    await server.until(lambda: server.text("n1", 2) == "counts from 0\n")
    await server.want("n1", replace(first, stop=True))
    stopped = await server.until_state("n1", 2, "exited")
    assert (stopped.category, stopped.exit_code) == ("stopped", 0)
    await server.want("n2", make_part(python(COUNTS), attempt=3, job=7))
    await server.until_state("n2", 3, "exited")
    assert server.text("n2", 3) == "counts from 1\n"


async def test_jobs_outlive_the_agent_and_run_once(server: FakeServer, agent: SlurmAgent) -> None:
    sleeps = shell("echo begun; exec sleep 60")
    await server.want("n1", make_part(sleeps, attempt=4))
    await server.until_state("n1", 4, "running")
    # Killed while another is on its way to Slurm.
    await server.want("n2", make_part(sleeps, attempt=5))
    await until_async(lambda: agent.batch_jobs("n2"))
    await agent.end(signal.SIGKILL)
    said = len(server.reports["n1"])
    await agent.start()
    await server.until(lambda: len(server.reports["n1"]) > said)
    await server.until_state("n1", 4, "running")
    await server.until_state("n2", 5, "running")
    for node, attempt in (("n1", 4), ("n2", 5)):
        assert agent.states(node, attempt).count("RUNNING") == 1
        # Should Slurm, or an earlier agent, begin it again: nothing happens.
        again = await asyncio.create_subprocess_exec(*agent.remote_runner(node, attempt))
        assert await again.wait() == 0
    # A person ends one, Slurm's operator the other at once.
    agent.cluster.command("scancel", f"--name={agent.job('n1', 4)}")
    agent.cluster.command("scancel", "--full", "--signal=KILL", f"--name={agent.job('n2', 5)}")
    cancelled = await server.until_state("n1", 4, "exited")
    assert cancelled.category == "lost"
    assert "Slurm ended job" in cancelled.message
    assert "CANCELLED" in cancelled.message
    killed = await server.until_state("n2", 5, "exited")
    assert (killed.category, "Slurm ended job" in killed.message) == ("lost", True)
    await server.until(lambda: server.text("n1", 4) and server.text("n2", 5))
    # On a busy machine they may have stood still while the agent was away, which their output then says.
    assert [server.text(*each).count("begun\n") for each in (("n1", 4), ("n2", 5))] == [1, 1]


@pytest.fixture
def short_leases(server: FakeServer) -> None:
    """Let leases end by themselves, soon after their agent; before an agent has its first one."""
    server.lease_seconds = 20.0


@pytest.mark.slow
async def test_without_its_agent_a_job_stands_still_and_goes_on(
    server: FakeServer, short_leases: None, agent: SlurmAgent
) -> None:
    counts = "while :; do echo on; sleep 0.05; done"
    await server.want("n1", make_part(shell(counts), attempt=6))
    await server.until_state("n1", 6, "running")
    # It is renewed while there is an agent.
    deadline = read_json(agent.job_folder("n1", 6).lease)["deadline"]
    await until_async(lambda: read_json(agent.job_folder("n1", 6).lease)["deadline"] > deadline + 1.0)
    await agent.end(signal.SIGKILL)
    folder = agent.job_folder("n1", 6).attempt(6)
    await until_async(lambda: os.path.exists(folder.frozen))
    size = os.path.getsize(folder.log(0))
    await agent.start()
    await until_async(lambda: os.path.getsize(folder.log(0)) > size + 100)
    assert agent.states("n1", 6).count("RUNNING") == 1


async def test_what_slurm_keeps_for_others_takes_nothing(server: FakeServer, agent: SlurmAgent) -> None:
    def problems(node: str) -> list[str]:
        return [gpu.problem for gpu in server.inventories[node].gpus]

    cluster = agent.cluster
    assert (problems("n1"), server.inventories["n1"].gpu_model) == ([""] * 4, "V100")
    cluster.command("scontrol", "update", "nodename=n2", "state=drain", "reason=its fan is broken")
    other = cluster.occupy("n1", gpus=3)
    try:
        await server.until(lambda: problems("n2") == ["Slurm: DRAIN, its fan is broken"] * 4)
        await server.until(lambda: problems("n1") == ["", *["In use by other jobs of Slurm."] * 3])
        # One that waits in vain is withdrawn at once.
        waits = make_part(make_part().replicas[0], shell("true", rank=1), attempt=8)
        await server.want("n1", waits)
        await until_async(lambda: agent.states("n1", 8) == ["PENDING"])
        await server.want("n1", replace(waits, stop=True))
        ended = await server.until_state("n1", 8, "exited")
        assert (ended.category, ended.exit_code) == ("stopped", None)
        await until_async(lambda: agent.states("n1", 8) == ["CANCELLED"])
    finally:
        cluster.command("scancel", other)
        cluster.command("scontrol", "update", "nodename=n2", "state=resume")
    await server.until(lambda: problems("n1") == problems("n2") == [""] * 4)


async def test_what_slurm_refuses_is_told(server: FakeServer, agent: SlurmAgent) -> None:
    agent.cluster.command("scontrol", "update", "partitionname=gpu", "state=inactive")
    try:
        await server.want("n1", make_part(attempt=9))
        ended = await server.until_state("n1", 9, "exited")
    finally:
        agent.cluster.command("scontrol", "update", "partitionname=gpu", "state=up")
    assert ended.category == "lost"
    assert ended.message.startswith("Slurm did not take the job: ")
    assert "partition" in ended.message
