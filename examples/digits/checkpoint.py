"""Checkpoints that are either whole or absent, with one older copy to fall back on.

In the folder: `checkpoint.bin` (newest), `checkpoint.previous.bin` (the one before), and
`checkpoint.damaged.bin` if one was ever found damaged. Never more, so the folder does not grow.
"""

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
from errors import BadSettings, JobError
from model import Settings, TrainingState, weight_count

MAGIC = b"allotment-digits-1\n"
DIGEST_BYTES = hashlib.sha256().digest_size


class DamagedCheckpoint(JobError):
    """The bytes are not what was written."""


def encode(state: TrainingState, settings: Settings) -> bytes:
    """Magic, SHA-256 of the rest, then an .npz archive. Also what rank 0 sends to the other ranks."""
    archive = io.BytesIO()
    header = json.dumps({"step": state.step, "settings": asdict(settings)})
    np.savez(archive, header=np.array(header), weights=state.weights, velocity=state.velocity)
    body = archive.getvalue()
    return MAGIC + hashlib.sha256(body).digest() + body


def decode(content: bytes, settings: Settings) -> TrainingState:
    """Raises DamagedCheckpoint, or BadSettings if it was made with settings that give another result."""
    body_start = len(MAGIC) + DIGEST_BYTES
    digest, body = content[len(MAGIC) : body_start], content[body_start:]
    if not content.startswith(MAGIC):
        raise DamagedCheckpoint("it does not start like a checkpoint of this program")
    if hashlib.sha256(body).digest() != digest:
        raise DamagedCheckpoint("its checksum does not match its content")
    try:
        with np.load(io.BytesIO(body), allow_pickle=False) as archive:
            header = json.loads(str(archive["header"]))
            state = TrainingState(int(header["step"]), archive["weights"], archive["velocity"])
            made_with = Settings(**header["settings"])
    except (KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise DamagedCheckpoint(f"its content cannot be read: {error}") from error
    for name, value in asdict(made_with).items():
        if value != getattr(settings, name):
            option = "--" + name.replace("_", "-")
            raise BadSettings(
                f"the checkpoint was made with {option} {value}, this run has {getattr(settings, name)}; "
                "use the same value, or another checkpoint folder"
            )
    if state.weights.shape != (weight_count(settings.hidden),) or state.velocity.shape != state.weights.shape:
        raise DamagedCheckpoint(f"its weights have shape {state.weights.shape}")
    return state


def write_atomically(path: Path, content: bytes, *, keep_old_as: Path | None = None) -> None:
    """A reader, or a crash at any instant, finds the old content or the new, never a part."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    if keep_old_as is not None and path.exists():
        # A crash right here leaves only the old content, under its new name: `load` knows that case.
        path.replace(keep_old_as)
    temporary.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make a rename durable: it is an entry of the folder, not of the file."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class CheckpointFolder:
    def __init__(self, folder: Path, *, say: Callable[[str], None]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.newest = folder / "checkpoint.bin"
        self.previous = folder / "checkpoint.previous.bin"
        self.damaged = folder / "checkpoint.damaged.bin"
        self._say = say
        self._saved_step: int | None = None

    def save(self, state: TrainingState, settings: Settings) -> None:
        """Write the state, unless the newest checkpoint is of this very step already."""
        if state.step == self._saved_step:
            return
        write_atomically(self.newest, encode(state, settings), keep_old_as=self.previous)
        self._saved_step = state.step

    def write_result(self, result: dict[str, object]) -> None:
        write_atomically(self.folder / "result.json", (json.dumps(result, indent=2) + "\n").encode())

    def load(self, settings: Settings) -> TrainingState | None:
        """The newest usable state; None if there is no checkpoint at all.

        Damage is always said aloud. When nothing usable is left the run fails rather than start over,
        which would throw away hours of somebody's training without asking.
        """
        if not self.newest.exists() and not self.previous.exists():
            return None
        problems = []
        for path in (self.newest, self.previous):
            if not path.exists():
                problems.append(f"{path} is missing")
                continue
            try:
                state = decode(path.read_bytes(), settings)
            except DamagedCheckpoint as damage:
                problems.append(f"{path} is damaged: {damage}")
                continue
            for problem in problems:
                self._say(f"warning: {problem}")
            if path is self.previous:
                self._say(f"falling back to the previous checkpoint, from step {state.step}")
                self._set_damaged_aside()
            else:
                self._saved_step = state.step
            return state
        raise JobError("; ".join(problems) + f". Empty the folder {self.folder} to start over")

    def _set_damaged_aside(self) -> None:
        """Keep it for inspection; left in place, the next save would rotate it over the good one."""
        if self.newest.exists():
            self.newest.replace(self.damaged)
