"""Input workers of the platform, for real: on a node without GPUs, killed, replaced, and gone in the end."""

from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.installation import Installation
from tests.patience import until
from tests.processes import command_of, processes_with_command, signal_process

PROGRAM = Path(__file__).with_name("batches.py")


@pytest.fixture(scope="module")
def machine(platform: Installation) -> Installation:
    """A node with one GPU and one CPU, and one with CPUs alone."""
    gpus = [{"index": 0, "memory_bytes": 2**34}]
    few = {"kind": "simulated", "gpu_model": "A2", "gpus": gpus, "cpus": 1, "memory_bytes": 2**33}
    programs = str(PROGRAM.parent)
    platform.add_node("one-a2", gpus=1, inventory=few, rack="rack-7", examples_folder=programs)
    many = {"kind": "none", "cpus": 4, "memory_bytes": 2**33}
    platform.add_node("input-cpus", gpus=0, inventory=many, rack="rack-7", examples_folder=programs)
    platform.call("POST", "tenants", {"name": "reads", "title": "Reads"})
    members = [{"tenant": "reads", "weight": 1}]
    platform.call(
        "POST", "virtual-clusters", {"name": "readers", "guaranteed": {"A2": 1}, "members": members}
    )
    return platform


def submit(platform: Installation, name: str) -> int:
    command = ["python", "-m", "allot.training.input_workers", f"{PROGRAM.stem}:make"]
    return platform.submit(
        name=name,
        tenant="reads",
        virtual_cluster="readers",
        command=["python", str(PROGRAM)],
        env={"PYTHONPATH": str(PROGRAM.parent)},
        resources={"gpu": 1, "gpu_model": "A2", "cpu": 1},
        input_workers={"command": command, "min": 2, "max": 3, "cpu": 1, "memory": "512MiB"},
        checkpoint={"grace_seconds": 1},
    )


def submit_trial(platform: Installation, name: str) -> int:
    """Submit a job that shares one input worker with the others of its search."""
    command = ["python", "-m", "allot.training.input_workers", f"{PROGRAM.stem}:make"]
    return platform.submit(
        name=name,
        tenant="reads",
        virtual_cluster="readers",
        search="lr",
        command=["python", str(PROGRAM), "stream"],
        env={"PYTHONPATH": str(PROGRAM.parent)},
        resources={"gpu": 0, "cpu": 1, "memory": "512MiB"},
        input_workers={"command": command, "max": 1, "cpu": 1, "memory": "512MiB", "shared": True},
        checkpoint={"grace_seconds": 1},
    )


def inputs_of(platform: Installation, job: int) -> dict[str, Any]:
    return platform.call("GET", f"jobs/{job}/input-workers")


def connected(platform: Installation, job: int, least: int = 2) -> list[int]:
    """Return the workers once so many are connected to the trainer."""

    def are_there() -> list[int] | None:
        told = inputs_of(platform, job)
        running = [worker["job"] for worker in told["workers"] if worker["state"] == "running"]
        return running if len(running) >= least and (told["connected"] or 0) >= least else None

    return until(are_there, f"{least} input workers of job {job}")


def processes_of(job: int) -> list[psutil.Process]:
    """Return the processes that make batches for an input worker's job."""

    def serves(process: psutil.Process) -> bool:
        try:
            return process.environ().get("ALLOT_JOB") == str(job)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False

    found = processes_with_command(lambda words: f"{PROGRAM.stem}:make" in words)
    return [each for each in found if serves(each) and "python" in command_of(each)[0]]


def makers(platform: Installation, job: int) -> float:
    return most(platform, job, "makers")


def most(platform: Installation, job: int, name: str) -> float:
    points = platform.call("GET", f"jobs/{job}/progress")["points"]
    return max((point["values"].get(name, 0) for point in points), default=0)


def output(platform: Installation, job: int) -> str:
    chunks = platform.call("GET", f"jobs/{job}/logs?rank=0&limit=1000")["chunks"]
    return "".join(chunk["text"] for chunk in chunks)


def none_is_left(platform: Installation, job: int) -> bool:
    ended = platform.call("GET", f"jobs?serves={job}&state=queued,running")["results"] == []
    return ended and not inputs_of(platform, job)["workers"]


def test_one_that_is_killed_is_replaced_and_no_batch_is_lost(machine: Installation) -> None:
    job = submit(machine, "reads")
    first, second = connected(machine, job)[:2]
    for worker in (first, second):
        shown = machine.job(worker)
        assert (shown["serves"], shown["gpus"], shown["guarantee"]) == (job, 0, "opportunistic")
        assert [part["node"] for part in shown["attempt"]["placement"]] == ["input-cpus"]
    assert first not in [each["id"] for each in machine.call("GET", "jobs?tenant=reads")["results"]]

    until(lambda: makers(machine, job) == 2, "batches of both")
    (process,) = until(lambda: processes_of(first))
    assert signal_process(process)
    until(lambda: makers(machine, job) == 3, "batches of another in its place")
    killed, *_ = machine.call("GET", f"jobs/{first}/attempts")["results"][::-1]
    assert (killed["outcome"], killed["signal"]) == ("failed", "SIGKILL")
    assert machine.job(job)["attempts"] == 1

    (machine.home.parent / "checkpoints" / str(job) / "go").touch()
    machine.wait_for(job, "succeeded")
    until(lambda: "batches of attempts" in output(machine, job), "its last line")
    until(lambda: none_is_left(machine, job), "its input workers to end")
    assert processes_of(first) == processes_of(second) == []


def test_a_cancelled_job_takes_them_along(machine: Installation) -> None:
    job = submit(machine, "stops-reading")
    workers = connected(machine, job)
    machine.call("POST", f"jobs/{job}/cancel")
    until(lambda: machine.job(job)["state"] == "cancelled", "the job to be cancelled")
    until(lambda: none_is_left(machine, job), "its input workers to end")
    assert [each for worker in workers for each in processes_of(worker)] == []


def test_a_late_job_of_a_search_follows_the_same_stream_and_keeps_its_worker(machine: Installation) -> None:
    first = submit_trial(machine, "first-rate")
    (worker,) = connected(machine, first, least=1)
    until(lambda: most(machine, first, "number") > 500, "the stream to go on")
    late = submit_trial(machine, "late-rate")
    until(lambda: makers(machine, late) == 1, "batches of the worker that runs")
    assert connected(machine, late, least=1) == [worker]
    (process,) = processes_of(worker)

    machine.call("POST", f"jobs/{first}/cancel")
    until(lambda: machine.job(first)["state"] == "cancelled", "the first to be cancelled")
    until(lambda: machine.job(worker)["serves"] == late, "its worker to be the other's")
    before = most(machine, late, "number")
    until(lambda: most(machine, late, "number") > before, "the stream to go on")
    assert (processes_of(worker), machine.job(worker)["attempts"]) == ([process], 1)

    (machine.home.parent / "checkpoints" / str(late) / "go").touch()
    machine.wait_for(late, "succeeded")
    until(lambda: none_is_left(machine, late), "its input worker to end")
    assert processes_of(worker) == []
