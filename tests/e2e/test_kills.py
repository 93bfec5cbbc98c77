"""kill -9 of each part while jobs wait, start and run: afterwards no job is lost, none ran twice at the
same time, and no GPU is held by nobody."""

from pathlib import Path

import pytest

from tests.e2e.installation import Agent, Installation
from tests.e2e.test_jobs import spec
from tests.patience import PATIENCE_SECONDS, until
from tests.processes import children_of, signal_process

# Whoever still holds the lock of this job, a forgotten grandchild included, makes a second run show.
WITNESS = """
exec 9>>"$ALLOT_CHECKPOINT_DIR/lock"
flock -n 9 || echo "$ALLOT_ATTEMPT" >>"$ALLOT_CHECKPOINT_DIR/twice"
echo "$ALLOT_ATTEMPT" >>"$ALLOT_CHECKPOINT_DIR/runs"
sleep {seconds}
echo "$ALLOT_ATTEMPT" >>"$ALLOT_CHECKPOINT_DIR/done"
"""
LONG, SHORT = WITNESS.format(seconds=2), WITNESS.format(seconds=0)
JOBS = 6


@pytest.fixture
def workload(platform: Installation) -> list[int]:
    """Six jobs of two GPUs, for eight GPUs: some run, some wait. Returns once the first ones run."""
    jobs = [platform.submit(**spec(LONG, gpus=2)) for _ in range(JOBS)]
    platform.wait_for(jobs[0], "running")
    return jobs


def folder(platform: Installation, job: int) -> Path:
    return platform.home.parent / "checkpoints" / str(job)


def everything_is_well(platform: Installation, jobs: list[int]) -> None:
    for job in jobs:
        platform.wait_for(job, "succeeded", seconds=3 * PATIENCE_SECONDS)
        assert not (folder(platform, job) / "twice").exists(), f"job {job} ran twice at once"
        assert (folder(platform, job) / "done").exists(), f"job {job} succeeded before it was done"
    with platform.database() as database:
        succeeded = database.execute(
            "SELECT job_id, count(*) FILTER (WHERE outcome = 'succeeded'),"
            " count(*) FILTER (WHERE outcome = '')"
            " FROM scheduler_attempt WHERE job_id = ANY(%s) GROUP BY job_id",
            [jobs],
        ).fetchall()
        assert sorted(succeeded) == [(job, 1, 0) for job in sorted(jobs)]
        orphans = database.execute(
            "SELECT g.gpu_id, g.phase, g.allocation_id FROM scheduler_allocatedgpu g"
            " WHERE g.phase <> 'released' AND NOT EXISTS (SELECT 1 FROM scheduler_attempt a"
            " WHERE a.allocation_id = g.allocation_id AND a.state <> 'ended')"
        ).fetchall()
        assert orphans == []
        broken = database.execute(
            "SELECT number, error FROM scheduler_round WHERE state = 'failed' OR degraded <> '{}'"
        ).fetchall()
        assert [each for each in broken if not of_a_killed_server(each[1])] == []
    assert platform.call("GET", "cluster")["gpus"]["held"] == 0
    until(lambda: not any(agent.shims() for agent in platform.agents), "every shim to be gone")


def of_a_killed_server(error: str) -> bool:
    """A round that lost its connection; its successor did its work."""
    return error.startswith(("OperationalError", "InterfaceError", "ConnectionError", "TimeoutError"))


def runs(platform: Installation, job: int) -> int:
    return len((folder(platform, job) / "runs").read_text().split())


def test_agent(platform: Installation, left: Agent, workload: list[int]):
    """Its shims keep the jobs going; a new agent adopts them and nothing is started again."""
    left.kill()
    left.start()
    everything_is_well(platform, workload)
    assert [runs(platform, job) for job in workload] == [1] * JOBS


@pytest.mark.slow
def test_agent_that_stays_away(platform: Installation, left: Agent, workload: list[int]):
    """Its jobs end with the lease and run again elsewhere, never in two places at once."""
    left.kill()
    platform.wait_for(workload[0], "running", "succeeded")
    until(lambda: platform.call("GET", f"nodes/{left.name}")["state"] == "lost", "the node to be lost")
    left.start()
    everything_is_well(platform, workload)


def test_shim(platform: Installation, workload: list[int]):
    """What it guarded dies with it and is tried again."""

    def is_one_killed() -> bool:
        return any(signal_process(shim) for agent in platform.agents for shim in agent.shims())

    until(is_one_killed, "a shim")
    everything_is_well(platform, workload)


@pytest.mark.slow
def test_worker_during_a_round(platform: Installation, workload: list[int]):
    """The round is stopped where it would write, by holding the row that it must lock; then killed."""
    with platform.database() as database, database.transaction():
        database.execute("SELECT number FROM scheduler_leadership FOR UPDATE")
        more = [platform.submit(**spec(SHORT)) for _ in range(2)]
        with platform.database() as other:
            blocked = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ILIKE %s"
            until(lambda: other.execute(blocked, ["%scheduler_leadership%"]).fetchone(), "a round to wait")
        worker = platform.pid_of("worker")
        for process in [worker, *children_of(worker, recursive=True)]:
            signal_process(process)
    everything_is_well(platform, workload + more)


SERVER_PROCESSES = ("beat", "web", "redis", "postgres")


def killed_and_started_again(platform: Installation, child: str) -> None:
    pid = platform.pid_of(child)
    assert signal_process(pid)
    until(lambda: (new := find(platform, child)) and new != pid, f"{child} to be started again")


def test_all_server_processes(platform: Installation, workload: list[int]):
    """One after the other, with no time to recover; make test-slow kills each by itself."""
    for child in SERVER_PROCESSES:
        killed_and_started_again(platform, child)
    everything_is_well(platform, workload)
    everything_is_well(platform, [platform_submit_again(platform)])


@pytest.mark.slow
@pytest.mark.parametrize("child", SERVER_PROCESSES)
def test_server_process(platform: Installation, workload: list[int], child: str):
    killed_and_started_again(platform, child)
    everything_is_well(platform, workload)
    everything_is_well(platform, [platform_submit_again(platform)])


def find(platform: Installation, child: str) -> int | None:
    try:
        return platform.pid_of(child)
    except AssertionError:
        return None


def platform_submit_again(platform: Installation) -> int:
    """The platform takes and runs new work as if nothing had been."""
    return platform.submit(**spec(SHORT))
