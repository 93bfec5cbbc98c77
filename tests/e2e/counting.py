"""Jobs that count until they are let go: what they wrote shows whether they were ever started anew."""

from pathlib import Path
from typing import Any

from tests.e2e.installation import Installation
from tests.e2e.test_jobs import log_of
from tests.patience import until

PROGRAM = """
cd "$ALLOT_CHECKPOINT_DIR"
trap 'echo "$n" >saved; exit 143' TERM
n=$(cat saved 2>/dev/null || echo 0)
echo "$n" >>starts
until [ -e finish ]; do echo "line $n"; n=$((n + 1)); sleep 0.1; done
echo "$n" >total
"""


def submit_counting(platform: Installation, *, gpu_model: str = "V100", gpu: float = 1, **fields: Any) -> int:
    """Submit one on a GPU, or a part of one, for the tenant `vision`; return its number once it counts."""
    resources = {"gpu": gpu, "gpu_model": gpu_model}
    task = {"name": "main", "resources": resources, "command": ["sh", "-c", PROGRAM]}
    grace = {"grace_seconds": 5}
    job = platform.submit(name="counts", tenant="vision", tasks=[task], checkpoint=grace, **fields)
    platform.wait_for(job, "running")
    until(lambda: starts(platform, job), "the job's first line")
    return job


def folder(platform: Installation, job: int) -> Path:
    return platform.home.parent / "checkpoints" / str(job)


def starts(platform: Installation, job: int) -> list[int]:
    """Return from where each of its processes began to count."""
    path = folder(platform, job) / "starts"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def finish(platform: Installation, job: int) -> dict[str, Any]:
    """Let it go; return it when it has succeeded."""
    (folder(platform, job) / "finish").touch()
    return platform.wait_for(job, "succeeded")


def ran_undisturbed(platform: Installation, job: int) -> None:
    """Let it go; it must have run once, and its output be whole."""
    assert finish(platform, job)["attempts"] == 1
    assert starts(platform, job) == [0]
    total = int((folder(platform, job) / "total").read_text())
    expected = [f"line {number}" for number in range(total)]
    until(lambda: len(own_lines(platform, job)) >= total, f"{total} lines of output")
    assert own_lines(platform, job) == expected


def own_lines(platform: Installation, job: int) -> list[str]:
    """Return what the job wrote, without what its node has to say of it."""
    lines = log_of(platform, job).splitlines()
    return [line for line in lines if line and not line.startswith("[allotment]")]
