"""Values that the database keeps and cannot read: AES-256-GCM under keys that are in the settings only.

The first key of `ALLOT_SECRETS_KEYS` seals, all of them open: a key is replaced by putting a new one before
it and running `manage.py reseal_secrets`. A sealed value is bound to its owner, so that a row whose
ciphertext was exchanged for another's does not open.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_NONCE_BYTES = 12
_KEY_ID_CHARACTERS = 12


class SealError(Exception):
    """A value cannot be sealed or opened; states why in words for people, without the value."""


@dataclass(frozen=True, slots=True)
class SealedValue:
    """What is stored: the ciphertext with its nonce before it, and which key opens it."""

    key_id: str
    content: bytes


def read_keys(text: str) -> dict[str, bytes]:
    """Return the keys of a setting by id, in their order; raise ValueError for an invalid key.

    The setting is base64 of 32 bytes each, separated by commas. An id reveals nothing of its key.
    """
    keys = {}
    for word in filter(None, (word.strip() for word in text.split(","))):
        try:
            key = base64.b64decode(word.replace("-", "+").replace("_", "/"), validate=True)
        except binascii.Error:
            key = b""
        if len(key) != KEY_BYTES:
            raise ValueError("must be base64 of 32 random bytes, several separated by commas")
        keys[hashlib.sha256(b"key of secrets" + key).hexdigest()[:_KEY_ID_CHARACTERS]] = key
    return keys


def new_key() -> str:
    """Return a fresh key as the setting has it."""
    return base64.urlsafe_b64encode(os.urandom(KEY_BYTES)).decode()


class Keyring:
    """The keys of this installation; the first one seals."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self.keys = keys

    @property
    def current(self) -> str:
        """The id of the key that seals."""
        if not self.keys:
            raise SealError("This installation keeps no secrets yet: its operator sets ALLOT_SECRETS_KEYS.")
        return next(iter(self.keys))

    def seal(self, value: bytes, owner: str) -> SealedValue:
        """Seal a value for its owner; raise SealError when there is no key."""
        nonce = os.urandom(_NONCE_BYTES)
        content = nonce + AESGCM(self.keys[self.current]).encrypt(nonce, value, owner.encode())
        return SealedValue(self.current, content)

    def open(self, sealed: SealedValue, owner: str) -> bytes:
        """Return the value; raise SealError when its key is gone or it was sealed for another owner."""
        key = self.keys.get(sealed.key_id)
        if key is None:
            raise SealError(f"it is sealed by the key {sealed.key_id}, which is not in ALLOT_SECRETS_KEYS")
        nonce, content = sealed.content[:_NONCE_BYTES], sealed.content[_NONCE_BYTES:]
        try:
            return AESGCM(key).decrypt(nonce, content, owner.encode())
        except InvalidTag:
            raise SealError("the stored value was changed") from None
