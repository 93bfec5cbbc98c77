"""The folder of one batch job: all messages between an agent and its remote runner on the node.

    errand.json   the job's name, the desired part, and the remote runner's configuration
    claim         made by the remote runner that does it; one that comes later does nothing
    orders.json   written by the agent: go, stop; secrets only as the remote runner alone can read them
    lease.json    written by the agent: until when, by the *node's* clock, and whether the server still names
                  the attempt, so that it goes on if the end of a lease froze it
    state.json    written by the remote runner about each second: how it stands, what its clock says, and
                  the key by which secrets are sealed for it
    job.log       what the batch system says
    code          the archive of what the working folders begin with, where the job brings any
    attempts/N    the attempt itself, as on any node (`nodeagent.folder`)

It is on a file system that both see, such as NFS. All files but the claim are there from the beginning and
are only ever replaced: a client of NFS remembers for half a minute that a file was *not* there. Their names
are those of the first version, since agents and jobs of several versions meet here.

Such a file system is a disk, so secrets are sealed for the one runner that opens them. Its key is made when
it begins and is in its memory only: no other process can open what lies in the folder, and none at all once
the runner has ended. HPKE (RFC 9180), by the `cryptography` package; loaded only by those who need it.
"""

from __future__ import annotations

import base64
import json
import os
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from nodeagent.folder import AttemptFolder, read_json, write_json
from nodeagent.messages import SecretsAnswer, decode, encode

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hpke import Suite


class BatchJobFolder:
    """Paths and files of one batch job."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.job = os.path.join(path, "errand.json")
        self.orders = os.path.join(path, "orders.json")
        self.lease = os.path.join(path, "lease.json")
        self.state = os.path.join(path, "state.json")
        self.log = os.path.join(path, "job.log")
        self.claim = os.path.join(path, "claim")
        self.code = os.path.join(path, "code")

    def attempt(self, number: int) -> AttemptFolder:
        return AttemptFolder(os.path.join(self.path, "attempts", str(number)))

    def make(self, job: dict[str, Any], code: IO[bytes] | None = None) -> None:
        """Make the folder with all its files; the job itself last, without which there is none."""
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        if code is not None:
            # In one step, and of one that is kept on this file system: to copy it could take long.
            with suppress(FileNotFoundError):
                os.unlink(self.code)
            os.link(code.name, self.code)
        for path in (self.orders, self.lease, self.state):
            write_json(path, {})
        write_json(self.job, job)

    def take(self, name: str) -> bool:
        """Claim the job for this process; False if it was claimed before, or is another one by now."""
        if (read_json(self.job) or {}).get("name") != name:
            return False
        try:
            os.close(os.open(self.claim, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return False
        return True

    def is_claimed(self) -> bool:
        return os.path.exists(self.claim)


def read(path: str) -> dict[str, Any]:
    """Return the object in one of the files; an empty one while there is none, or the file system hangs."""
    with suppress(OSError):
        value = read_json(path)
        if isinstance(value, dict):
            return value
    return {}


class RunnerKey:
    """The key of one remote runner; `public` is what may lie in the folder."""

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        self._private = X25519PrivateKey.generate()
        self.public = base64.b64encode(self._private.public_key().public_bytes_raw()).decode()

    def open(self, sealed: str, job: str) -> SecretsAnswer:
        """Return what was sealed for this remote runner and its job."""
        content = _suite().decrypt(base64.b64decode(sealed), self._private, info=job.encode())
        return decode(SecretsAnswer, json.loads(content))


def seal(answer: SecretsAnswer, public: str, job: str) -> str:
    """Return an answer as only the remote runner with that key can read it."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    key = X25519PublicKey.from_public_bytes(base64.b64decode(public))
    content = json.dumps(encode(answer)).encode()
    return base64.b64encode(_suite().encrypt(content, key, info=job.encode())).decode()


def _suite() -> Suite:
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
