"""The secrets of one attempt as its shim holds them: handed to its replicas, masked in what they write.

They come from the agent in memory (standard input) and stay in memory: variables go to the replicas as they
start, files into a folder of a tmpfs that is removed with the attempt. Should no shim be left to do that,
`remove_abandoned` does: the folder is locked for as long as a shim lives.

Imported by the shim, so it imports nearly nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os

TYPE_CHECKING = False  # What typing.TYPE_CHECKING is, without loading typing.
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

MASK = b"***"
#: What is shorter is not masked: it may be in any text by chance.
SHORTEST_MASKED_BYTES = 8
#: Longer lines are masked in pieces, so that little of what was written last has to be held back.
LONGEST_WORD_BYTES = 256
#: The most lines of one secret that are masked; each is searched for in all that is written.
LINES_MASKED = 100
FOLDER_PREFIX = "allotment-secrets-"


class Mask:
    """Replaces secrets in output that comes in pieces, wherever one piece ends and the next one begins."""

    def __init__(self, values: Iterable[str]) -> None:
        words = {word for value in values for word in _words(value)}
        #: The longest first: one may be part of another.
        self.words = sorted(words, key=lambda word: (-len(word), word))
        self.held = b""

    def through(self, data: bytes) -> bytes:
        """Return what can be shown by now; what may yet become a secret is held back."""
        if not self.words:
            return data
        data = self.held + data
        end = self._sure_until(data)
        self.held = data[end:]
        return self._masked(data[:end])

    def rest(self) -> bytes:
        """Return what was held back: nothing follows it."""
        held, self.held = self.held, b""
        return self._masked(held)

    def _masked(self, data: bytes) -> bytes:
        for word in self.words:
            data = data.replace(word, MASK)
        return data

    def _sure_until(self, data: bytes) -> int:
        """Return where the end begins that may be the beginning of a secret."""
        end = len(data)
        for word in self.words:
            at = data.find(word[:1], max(0, len(data) - len(word) + 1), end)
            while at != -1 and not word.startswith(data[at:]):
                at = data.find(word[:1], at + 1, end)
            if at != -1:
                end = at
        # A secret must not be cut in two by that.
        was = len(data) + 1
        while end < was:
            was = end
            for word in self.words:
                at = data.find(word, max(0, end - len(word) + 1), end + len(word) - 1)
                if -1 < at < end:
                    end = at
        return end


def _words(value: str) -> set[bytes]:
    """Return what is looked for: each line, also of a text whose line ends are written as JSON has them."""
    words = set()
    for line in value.replace("\\n", "\n").splitlines()[:LINES_MASKED]:
        text = line.strip().encode()
        pieces = [text[at : at + LONGEST_WORD_BYTES] for at in range(0, len(text), LONGEST_WORD_BYTES)]
        words |= {piece for piece in pieces if len(piece) >= SHORTEST_MASKED_BYTES}
    return words


class Secrets:
    """What an attempt was given. `place`: the folder for it and the user who may read it; None: no folder."""

    def __init__(self, handed: list[dict[str, str]], place: dict[str, Any] | None) -> None:
        self.handed = handed
        self.place = place
        self.lock: int | None = None

    @classmethod
    def receive(cls, place: dict[str, Any] | None) -> Secrets:
        """Read them from standard input, where they cannot be found afterwards."""
        with open(0, "rb", closefd=False) as file:
            text = file.read()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        return cls(json.loads(text) if text else [], place)

    @property
    def values(self) -> list[str]:
        return [secret["value"] for secret in self.handed]

    def hand_to(self, replicas: list[dict[str, Any]]) -> None:
        """Write the files, and complete what the replicas are to be started with; raise OSError."""
        if self.place is None:
            return
        folder = self._make_folder()
        files = os.path.join(folder, "files")
        user = self.place["user"]
        os.mkdir(files, 0o700)
        for secret in self.handed:
            if name := secret.get("file"):
                _write(os.path.join(files, name), secret["value"], 0o400, user)
        if user is not None:
            os.chown(files, user, user)
        os.chmod(files, 0o500)
        variables = {secret["env"]: secret["value"] for secret in self.handed if secret.get("env")}
        for replica in replicas:
            if replica["container"] is None:
                replica["env"].update(variables)
        # The engine's client has the agent's rights, so it must not get them as its own environment.
        several = next((name for name, value in variables.items() if "\n" in value or "\r" in value), None)
        if any(replica["container"] is not None for replica in replicas):
            if several is not None:
                raise OSError(
                    f"the secret in {several} has several lines, which a container's environment cannot hold:"
                    " have it as a file"
                )
            lines = "".join(f"{name}={value}\n" for name, value in variables.items())
            _write(os.path.join(folder, "environment"), lines, 0o600, None)

    def remove(self) -> None:
        """Remove the files: all that had them are dead."""
        if self.place is not None:
            remove_folder(self.place["folder"])
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    def _make_folder(self) -> str:
        assert self.place is not None
        folder: str = self.place["folder"]
        while True:
            os.mkdir(folder, 0o711)
            os.chmod(folder, 0o711)
            self.lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self.lock, fcntl.LOCK_EX)
            if os.path.exists(folder):
                return folder
            # Somebody took it for an abandoned one, just before it was locked.
            os.close(self.lock)


def _write(path: str, text: str, mode: int, user: int | None) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8", newline="") as file:
        file.write(text)
        os.fchmod(descriptor, mode)
        if user is not None:
            os.fchown(descriptor, user, user)


def remove_folder(folder: str) -> None:
    """Remove a folder of secrets, as far as it is there."""
    files = os.path.join(folder, "files")
    with contextlib.suppress(OSError):
        os.chmod(files, 0o700)
    for place in (files, folder):
        with contextlib.suppress(OSError):
            for name in os.listdir(place):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(place, name))
        with contextlib.suppress(OSError):
            os.rmdir(place)


def remove_abandoned(parent: str) -> None:
    """Remove the folders of secrets whose shims are dead, which no other process removes."""
    for name in os.listdir(parent):
        folder = os.path.join(parent, name)
        if not name.startswith(FOLDER_PREFIX):
            continue
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove_folder(folder)
            finally:
                os.close(descriptor)
