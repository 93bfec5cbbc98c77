"""One Slurm for all tests here; for each an agent that speaks for its nodes, against a small real server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.agent.fake_server import FakeServer
from tests.slurm.agent import SlurmAgent
from tests.slurm.cluster import SlurmCluster, missing, slurm


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    if why := missing():
        pytest.skip(why)
    with slurm(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with FakeServer() as server:
        yield server


@pytest.fixture
async def agent(server: FakeServer, cluster: SlurmCluster, tmp_path: Path) -> AsyncIterator[SlurmAgent]:
    agent = SlurmAgent(tmp_path, server, cluster)
    await agent.start()
    yield agent
    await agent.end()
    cluster.end_all_jobs()
