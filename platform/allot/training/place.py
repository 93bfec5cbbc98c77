"""Which process of which attempt this is, by the environment that the platform, or torchrun, gives."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from allot.training.errors import TrainingError

#: Where a script that was started by hand keeps its checkpoints, in the folder it was started in.
LOCAL_FOLDER = "checkpoints"
#: More input workers do not send batches to one trainer any faster.
INPUT_WORKERS_MOST = 64
ATTEMPT_MOST = 10**10 - 1
RANKS_MOST = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One process among those of its job."""

    rank: int = 0
    world_size: int = 1
    #: Ranks of the specification that each process plays: several where the world's size is fixed.
    ranks_each: int = 1
    #: None when attempts have no numbers: then the session numbers them.
    attempt: int | None = None
    #: How often the launcher (torchrun) has started the ranks again within this attempt.
    restarts: int = 0
    folder: Path = Path(LOCAL_FOLDER)
    #: What the platform calls the model of its GPUs.
    gpu_model: str = ""
    #: Where progress lines go; None: beside the checkpoints.
    progress: Path | None = None
    #: Where the input workers come that the platform starts, and how many it starts; 0: it starts none.
    input_port: int = 0
    input_least: int = 1
    input_most: int = INPUT_WORKERS_MOST
    #: Other jobs of its search follow the same stream.
    input_shared: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], folder: Path | None = None) -> Place:
        """Read the variables; `folder` is for where the platform names none."""
        world_size = _number(environment, "WORLD_SIZE", 1, least=1, most=RANKS_MOST)
        if world_size > 1 and not environment.get("RANK"):
            raise TrainingError(f"WORLD_SIZE is {world_size}, so RANK must be set too, from 0 on")
        logical = _number(environment, "ALLOT_LOGICAL_WORLD_SIZE", world_size, least=1, most=RANKS_MOST)
        if logical % world_size:
            raise TrainingError(
                f"ALLOT_LOGICAL_WORLD_SIZE is {logical}, which {world_size} processes cannot share equally: "
                "WORLD_SIZE must divide it"
            )
        given = environment.get("ALLOT_CHECKPOINT_DIR")
        progress = environment.get("ALLOT_PROGRESS")
        return cls(
            rank=_number(environment, "RANK", 0, least=0, most=world_size - 1),
            world_size=world_size,
            ranks_each=logical // world_size,
            attempt=(
                _number(environment, "ALLOT_ATTEMPT", 0, least=0, most=ATTEMPT_MOST)
                if environment.get("ALLOT_ATTEMPT")
                else None
            ),
            restarts=_number(environment, "TORCHELASTIC_RESTART_COUNT", 0, least=0, most=9999),
            folder=Path(os.path.abspath(given or folder or LOCAL_FOLDER)),
            gpu_model=environment.get("ALLOT_GPU_MODEL", ""),
            progress=Path(progress) if progress else None,
            input_port=_number(environment, "ALLOT_PORT_INPUT_WORKERS", 0, least=0, most=65_535),
            input_least=_number(environment, "ALLOT_INPUT_MIN", 1, least=0, most=INPUT_WORKERS_MOST),
            input_most=_number(
                environment, "ALLOT_INPUT_MAX", INPUT_WORKERS_MOST, least=1, most=INPUT_WORKERS_MOST
            ),
            input_shared=_number(environment, "ALLOT_INPUT_SHARED", 0, least=0, most=1) == 1,
        )

    @property
    def logical_ranks(self) -> range:
        """The ranks that this process plays: neighbours, and before those of the next process."""
        return range(self.rank * self.ranks_each, (self.rank + 1) * self.ranks_each)

    def share(self, count: int) -> int:
        """Return how many of `count` things are this rank's; the shares of two ranks differ by at most 1."""
        return count // self.world_size + (self.rank < count % self.world_size)


def _number(environment: Mapping[str, str], name: str, default: int, *, least: int, most: int) -> int:
    text = environment.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise TrainingError(f"{name} must be a whole number from {least} to {most}, not {text!r}")
    return int(text)
