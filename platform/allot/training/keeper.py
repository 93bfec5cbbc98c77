"""Save and find checkpoints: whole or absent, checked, a few of them, and only those that count.

These count: what this start saved; then the checkpoint it went on from and those before that one; and so on
back. A checkpoint that a zombie saved after another start had gone on is in no such line, and never restored.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from allot.training.errors import DamagedCheckpoint, TrainingError, say
from allot.training.fence import Fence
from allot.training.files import move_into_place, sha256_of
from allot.training.manifest import Manifest, digests_of
from allot.training.naming import (
    CHECKPOINTS,
    CLAIMS,
    FILES,
    MANIFEST,
    ORIGINS,
    Checkpoint,
    Start,
    part_name,
    parts_in,
    starts_in,
)
from allot.training.store import FolderStore, Store, remove_folder

#: In the local copy: where parts are written before they get their names.
WRITING = "writing"


class Keeper:
    """The checkpoints of one job, as one start of it sees them."""

    def __init__(self, fence: Fence, local: Path, *, keep: int) -> None:
        self.fence = fence
        self.store: Store = fence.store
        self.start = fence.start
        self.local = local
        self.keep = keep

    def save(self, manifest: Manifest, write: Callable[[Path], object]) -> None:
        """Have `write` fill a folder, and make it this rank's part of the checkpoint.

        Raises Fenced before and after; what was written in between lies under this start's own number.
        """
        self.fence.check()
        with self.fence.blamed():
            self._save(manifest, write)
        self.fence.check()

    def _save(self, manifest: Manifest, write: Callable[[Path], object]) -> None:
        within = Checkpoint(self.start, manifest.step).part(manifest.rank)
        writing = self.local / WRITING / str(self.start) / f"{manifest.rank}-{secrets.token_hex(4)}"
        try:
            (writing / FILES).mkdir(parents=True)
            write(writing / FILES)
            files = digests_of(writing / FILES)
            (writing / MANIFEST).write_bytes(replace(manifest, files=files).encode())
            self.fence.check()
            # Left by an earlier try to save this step, which is unknown to the store or another rank.
            remove_folder(self.local / within)
            move_into_place(writing, self.local / within)
        finally:
            remove_folder(writing)
        for name, digest in files.items():
            self.store.upload(self.local / within / FILES / name, f"{within}{FILES}/{name}", digest)
        # Last: from here on the part counts.
        content = self.local / within / MANIFEST
        self.store.upload(content, f"{within}{MANIFEST}", sha256_of(content))

    def choose(self) -> Checkpoint | None:
        """Return the newest checkpoint that counts and is undamaged, all parts of it; None to start afresh.

        Raises TrainingError when there are checkpoints, and none can be used: starting over would discard the
        user's training without asking.
        """
        problems = []
        for checkpoint in self._line():
            try:
                for rank in range(self.read(checkpoint, 0).parts):
                    self.fetch(checkpoint, rank)
            except DamagedCheckpoint as damage:
                problems.append(
                    f"the checkpoint of step {checkpoint.step} (start {checkpoint.start}): {damage}"
                )
                say(f"warning: {problems[-1]}")
                continue
            if problems:
                say(f"falling back to the checkpoint of step {checkpoint.step}")
            return checkpoint
        if problems:
            raise TrainingError(
                "no checkpoint can be used: " + "; ".join(problems) + f". To start over, empty {self.local}"
            )
        return None

    def write_origin(self, checkpoint: Checkpoint | None) -> None:
        """Record for good from where this start goes on."""
        content = json.dumps({"checkpoint": str(checkpoint) if checkpoint else None})
        self.store.create(f"{ORIGINS}{self.start}", content.encode())

    def origin_of(self, start: Start) -> tuple[Checkpoint | None] | None:
        """Return from where a start went on, if it recorded that: (None,) is from nothing."""
        try:
            text = json.loads(self.store.read(f"{ORIGINS}{start}") or b"")["checkpoint"]
        except (ValueError, KeyError, TypeError):
            return None
        return (Checkpoint.parse(text) if isinstance(text, str) else None,)

    def read(self, checkpoint: Checkpoint, rank: int) -> Manifest:
        """Return the manifest of one part. Raises DamagedCheckpoint."""
        content = self.store.read(f"{checkpoint.part(rank)}{MANIFEST}")
        if content is None:
            raise DamagedCheckpoint(f"its part of rank {rank} is missing")
        return Manifest.decode(content)

    def fetch(self, checkpoint: Checkpoint, rank: int) -> Manifest:
        """Have one part in the local folder, undamaged. Raises DamagedCheckpoint."""
        manifest = self.read(checkpoint, rank)
        folder = self.folder(checkpoint, rank)
        try:
            manifest.check(folder)
        except DamagedCheckpoint:
            # The local copy may be old, or another node's; where it is the store itself nothing changes.
            for name in manifest.files:
                if not self.store.download(f"{checkpoint.part(rank)}{FILES}/{name}", folder / name):
                    raise DamagedCheckpoint(f"{name} is missing") from None
            manifest.check(folder)
        return manifest

    def folder(self, checkpoint: Checkpoint, rank: int) -> Path:
        """Return where the files of one part are, once fetched."""
        return self.local / checkpoint.part(rank) / FILES

    def prune(self) -> None:
        """Remove what is older than the newest whole one that counts, but for `keep` of those that count.

        For rank 0 only: after a save, and at the beginning, since a start that was killed after its last save
        left one too many, and the next has nothing to save where that was the last step.
        """
        parts = parts_in(self.store.names(CHECKPOINTS))
        kept = list(islice(self._line(parts, including_own=True), self.keep))
        if not kept:
            return
        for checkpoint in parts:
            # Newer ones stay: other ranks may still be busy with them, or they are damaged and no other was
            # saved since.
            if checkpoint < kept[0] and checkpoint not in kept:
                self.store.remove(checkpoint.folder)
        oldest = min(each.start for each in kept)
        for prefix in (ORIGINS, CLAIMS):
            for start in starts_in(self.store.names(prefix), prefix):
                if start < oldest:
                    self.store.remove(f"{prefix}{start}")

    def tidy_local(self) -> None:
        """Remove from the local folder what dead starts left half written, and all copies but the newest.

        Every rank does this on its own node.
        """
        for folder in (self.local / WRITING).glob("*"):
            start = Start.parse(folder.name)
            if start and start < self.start:
                remove_folder(folder)
        if not isinstance(self.store, FolderStore):
            copies = parts_in(FolderStore(self.local).names(CHECKPOINTS))
            for checkpoint in sorted(copies, reverse=True)[self.keep :]:
                remove_folder(self.local / checkpoint.folder)

    def _line(
        self, parts: dict[Checkpoint, set[str]] | None = None, *, including_own: bool = False
    ) -> Iterator[Checkpoint]:
        """Yield whole checkpoints that count, newest first."""
        parts = parts_in(self.store.names(CHECKPOINTS)) if parts is None else parts
        starts = starts_in(self.store.names(ORIGINS), ORIGINS) | {each.start for each in parts}
        line = sorted((start for start in starts if start <= self.start), reverse=True)
        if not including_own:
            line = [start for start in line if start != self.start]
        until: Checkpoint | None = None
        for start in line:
            if until is not None and start > until.start:
                continue
            for checkpoint in sorted((each for each in parts if each.start == start), reverse=True):
                is_after = until is not None and checkpoint > until
                if not is_after and self._is_whole(checkpoint, parts[checkpoint]):
                    yield checkpoint
            origin = self.origin_of(start)
            if origin is None:
                continue  # It died before it had chosen, or long enough ago that this was cleared away.
            (until,) = origin
            if until is None:
                return

    def _is_whole(self, checkpoint: Checkpoint, finished: set[str]) -> bool:
        if part_name(0) not in finished:
            return False
        try:
            count = self.read(checkpoint, 0).parts
        except DamagedCheckpoint:
            # It was whole, or its manifests would not be there; the reader reports what is wrong.
            return True
        return all(part_name(rank) in finished for rank in range(count))
