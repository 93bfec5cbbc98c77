"""The same calls give the same answers in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

STORY = """
import hashlib
from tests.core.cells.test_sequences import Story, text

told = hashlib.sha256()
for seed in range(5_000, 5_004):
    story = Story(seed, suggest=0.5)
    for _ in range(30):
        story.go_on()
        told.update(text(story.state).encode())
print(told.hexdigest())
"""


def test_strings_may_hash_as_they_like() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", STORY],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": f"{ROOT}:{ROOT / 'platform'}"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1
