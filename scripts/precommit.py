"""Check what was changed since the last commit, within a minute: `make precommit`, or as a hook of git.

Ruff on the changed files, the types that they touch, the import contracts, and the tests beside them. The
last line names the tiers whose tests it did not run to the end.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.tiers import EVERY_DAY

ROOT = Path(__file__).resolve().parents[1]
#: What is left of the minute when all else is done.
TESTS_SECONDS = 35.0
#: Where the tests of a folder are, the longest prefix first; and the tier that runs them all.
TESTS = (
    ("platform/nodeagent/", "tests/agent", "node"),
    ("platform/allot/", "tests/allot", "node"),
    ("examples/", "tests/examples", "node"),
    ("platform/controlplane/", "tests/controlplane", "server"),
    ("tenants/", "tests/tenants", "server"),
    ("scheduler/core/", "tests/core", "core"),
    ("scheduler/simulation/", "tests/simulation", "core"),
    ("scheduler/", "tests/scheduler", "server"),
)


def changed() -> list[str]:
    """Return the files that differ from the last commit, new ones included."""
    listings = (
        ["diff", "--name-only", "--diff-filter=d", "HEAD"],
        ["ls-files", "--others", "--exclude-standard"],
    )
    outputs = [subprocess.check_output(["git", *each], cwd=ROOT, text=True) for each in listings]
    return sorted({line for output in outputs for line in output.splitlines()})


def tests_of(paths: list[str]) -> tuple[list[str], set[str]]:
    """Return the tests beside these files, and the tiers that have more of them."""
    tests, tiers = set[str](), set[str]()
    for path in paths:
        if path.startswith("tests/") and Path(path).name.startswith("test_"):
            tests.add(path)
        for prefix, folder, tier in TESTS:
            if path.startswith(prefix) and path.endswith(".py"):
                tiers.add(tier)
                tests.add(_narrowest(Path(folder), Path(path.removeprefix(prefix))))
                break
    return sorted(tests), tiers


def _narrowest(folder: Path, inside: Path) -> str:
    """Return the test file with the module's name, or else the folder nearest to its package."""
    for part in inside.parent.parts:
        if not (ROOT / folder / part).is_dir():
            break
        folder /= part
    named = folder / f"test_{inside.name}"
    return str(named if (ROOT / named).is_file() else folder)


def main() -> int:
    began = time.monotonic()
    paths = changed()
    if not paths:
        print("Nothing was changed since the last commit.")
        return 0
    python = [path for path in paths if path.endswith(".py") and "/migrations/" not in path]
    program = str(Path(sys.executable).parent) + os.sep
    commands = []
    if python:
        commands = [
            [f"{program}ruff", "check", *python],
            [f"{program}ruff", "format", "--check", *python],
            [f"{program}lint-imports"],
            [f"{program}mypy"],
        ]
    scripts = [path.removeprefix("frontend/") for path in paths if path.startswith("frontend/src/")]
    if scripts:
        commands += [["scripts/npm", "exec", "--", "prettier", "--check", *scripts]]
        commands += [["scripts/npm", "exec", "--", "tsc", "--noEmit"]]
        commands += [["scripts/npm", "exec", "--", "vitest", "related", "--run", *scripts]]
    for command in commands:
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            print(f"Failed: {' '.join(command[:3])}")
            return 1
    tests, tiers = tests_of(paths)
    if tests:
        left = max(5.0, TESTS_SECONDS - (time.monotonic() - began))
        options = ["-q", "-x", "--durations=0", "--no-header", "-m", EVERY_DAY]
        # The first one to fail last time comes first.
        command = [sys.executable, "-m", "pytest", "--failed-first", *options, *tests]
        try:
            if subprocess.run(command, cwd=ROOT, timeout=left, check=False).returncode not in (0, 5):
                return 1
        except subprocess.TimeoutExpired:
            print(f"The minute was over before {' '.join(tests)} had ended; none had failed.")
    for tier in sorted(tiers):
        print(f"All its tests: make test-{tier}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
