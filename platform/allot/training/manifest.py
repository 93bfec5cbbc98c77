"""What lies beside the files of one part of a checkpoint and states what they must be."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from allot.training.errors import DamagedCheckpoint, TrainingError
from allot.training.files import sha256_of

FORMAT = 1
#: What adaptive runs save, which an earlier version would go on from as from any other.
ADAPTIVE_FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One rank's part."""

    step: int
    rank: int
    #: How many ranks' parts make the checkpoint whole.
    parts: int
    world_size: int
    samples: float | None
    #: Where the samplers are, by name.
    samplers: dict[str, dict[str, int]] = field(default_factory=dict)
    #: For an adaptive run: its progress, and what was measured.
    adaptive: dict[str, Any] = field(default_factory=dict)
    #: Path within the part's files -> SHA-256 of the content.
    files: dict[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        content = {"format": ADAPTIVE_FORMAT if self.adaptive else FORMAT, **asdict(self)}
        if not self.adaptive:
            del content["adaptive"]
        return json.dumps({**content, "sha256": _digest(content)}, indent=1).encode()

    @classmethod
    def decode(cls, text: bytes) -> Manifest:
        """Raises DamagedCheckpoint."""
        try:
            content: dict[str, Any] = json.loads(text)
            digest = content.pop("sha256")
            if digest != _digest(content):
                raise DamagedCheckpoint("the checksum of its manifest does not match")
            if content.pop("format") not in (FORMAT, ADAPTIVE_FORMAT):
                raise TrainingError("the checkpoint was made by a newer version of allot.training: use that")
            manifest = cls(**content)
            if not all(map(_is_inside, manifest.files)):
                raise DamagedCheckpoint("its manifest names files outside of it")
            return manifest
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedCheckpoint(f"its manifest cannot be read: {error}") from error

    def check(self, folder: Path) -> None:
        """Raise DamagedCheckpoint unless the files in the folder are those that were saved."""
        for name, digest in self.files.items():
            try:
                found = sha256_of(folder / name)
            except OSError as error:
                raise DamagedCheckpoint(f"{name} cannot be read: {error.strerror}") from error
            if found != digest:
                raise DamagedCheckpoint(f"the checksum of {name} does not match its content")


def digests_of(folder: Path) -> dict[str, str]:
    """Return the checksums of all files in the folder. Raises TrainingError for what cannot be kept."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise TrainingError(
                f"save() made {name}, which is not a plain file; write files and folders only"
            )
        if path.is_file():
            found[name] = sha256_of(path)
    if not found:
        raise TrainingError("save() wrote no file into the folder it was given")
    return found


def _is_inside(name: str) -> bool:
    """Return whether the path stays inside the folder it is relative to."""
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
