"""Secrets on their way over the shared folder, which is a disk: sealed for the one runner that opens them.

The remote runner's key is made when it begins and is in its memory only, so that what lies in the folder
can be opened by nobody else, and by nobody once it has ended. HPKE (RFC 9180), by the `cryptography`
package; loaded only by those who need it.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from nodeagent.messages import SecretsAnswer, decode, encode

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hpke import Suite


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
