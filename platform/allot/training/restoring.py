"""How a session begins: take the lead, agree on a checkpoint, and have it here."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from allot.training.errors import Stopped, TrainingError, say
from allot.training.fence import Fence, claim
from allot.training.keeper import Keeper
from allot.training.manifest import Manifest
from allot.training.naming import Checkpoint, Start
from allot.training.place import Place
from allot.training.stop import StopRequest
from allot.training.store import FolderStore, Store

LOOK_AGAIN_SECONDS = 0.1
#: The name of the one file of a checkpoint that is saved and restored as bytes.
BYTES_FILE = "state.bin"

Agree = Callable[[int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredCheckpoint:
    """The checkpoint from which this start goes on."""

    #: Steps done, and samples if the run had reported them.
    step: int
    samples: float | None
    #: The world size of the run that saved it.
    world_size: int
    #: One folder for each part. One is all there is unless every rank saved its own (`shard`); then those of
    #: other ranks are sure to be here only where the number of ranks has changed.
    folders: tuple[Path, ...]
    #: What this rank needs when the number of ranks has not changed.
    folder: Path
    samplers: Mapping[str, Mapping[str, int]]
    #: For an adaptive run: its progress, and what was measured.
    adaptive: Mapping[str, Any]

    def read_bytes(self) -> bytes:
        """Return what `save_bytes` returned, or `run.save(data)` was given."""
        return (self.folder / BYTES_FILE).read_bytes()


def open_store(place: Place, name: str, environment: Mapping[str, str] = os.environ) -> Store:
    """Return the store that the environment names, else the checkpoint folder itself.

    `name` is that of the session, empty for a job's only one; the folder has it already.
    """
    url = environment.get("ALLOT_CHECKPOINT_STORE")
    if not url:
        return FolderStore(place.folder)
    # HTTP, TLS and XML: only users of such a store wait for them to load.
    from allot.training.s3 import S3Store

    return S3Store.from_environment(f"{url}/{name}" if name else url, environment)


def begin(
    place: Place,
    store: Store,
    stop: StopRequest,
    *,
    agree: Agree | None,
    keep: int,
    wait_seconds: float,
) -> tuple[Keeper, RestoredCheckpoint | None]:
    """Return the keeper of this start's checkpoints, and what it goes on from.

    Rank 0 claims and chooses, and writes down what; the others read that.
    """
    if place.rank == 0:
        exact = place.restarts if place.world_size > 1 and agree is None else None
        keeper = Keeper(claim(store, place.attempt, exact), place.folder, keep=keep)
        with keeper.fence.blamed():
            checkpoint = keeper.choose()
        keeper.write_origin(checkpoint)
        _agreed(keeper.start, agree)
    else:
        keeper = Keeper(Fence(store, _agreed(_expected(place, agree), agree)), place.folder, keep=keep)
        checkpoint = _wait_for_origin(keeper, stop, wait_seconds)
    keeper.tidy_local()
    with keeper.fence.blamed():
        return keeper, _fetch(keeper, checkpoint, place) if checkpoint else None


def _expected(place: Place, agree: Agree | None) -> Start:
    if agree is not None:
        return Start(0, 0)
    if place.attempt is None:
        raise TrainingError(
            f"rank {place.rank} cannot know which start this is: give session(agree=...), "
            "or set ALLOT_ATTEMPT to the same new number for all ranks"
        )
    return Start(place.attempt, place.restarts)


def _agreed(start: Start, agree: Agree | None) -> Start:
    """Let all ranks have rank 0's start: the others pass one that is not higher."""
    return start if agree is None else Start(agree(start.attempt), agree(start.time))


def _wait_for_origin(keeper: Keeper, stop: StopRequest, wait_seconds: float) -> Checkpoint | None:
    deadline = time.monotonic() + wait_seconds
    while True:
        keeper.fence.check()
        if origin := keeper.origin_of(keeper.start):
            return origin[0]
        if stop.is_made:
            raise Stopped(stop.signal_number)
        if time.monotonic() > deadline:
            raise TrainingError(f"rank 0 has not stated within {wait_seconds:g} s from where to go on")
        time.sleep(LOOK_AGAIN_SECONDS)


def _fetch(keeper: Keeper, checkpoint: Checkpoint, place: Place) -> RestoredCheckpoint:
    first = keeper.read(checkpoint, 0)
    own = place.rank if first.parts == place.world_size else 0
    everything = first.parts > 1 and first.parts != place.world_size
    # Rank 0 has had them all when it chose.
    have = keeper.read if place.rank == 0 else keeper.fetch
    manifests: dict[int, Manifest] = {
        rank: have(checkpoint, rank) for rank in (range(first.parts) if everything else (own,))
    }
    manifest = manifests[own]
    if place.rank == 0:
        say(f"going on from step {checkpoint.step}")
    return RestoredCheckpoint(
        step=checkpoint.step,
        samples=manifest.samples,
        world_size=manifest.world_size,
        folders=tuple(keeper.folder(checkpoint, rank) for rank in range(first.parts)),
        folder=keeper.folder(checkpoint, own),
        samplers=manifest.samplers,
        adaptive=manifest.adaptive,
    )
