"""The user as which a tenant's jobs run: one number per tenant, never shared, the same on all nodes.

The numbers are recorded beside the checkpoints, in the one folder that all nodes see: a job that resumes
elsewhere must find its files to be its own.
"""

from __future__ import annotations

import fcntl
import os
import stat
import zlib

from nodeagent.configuration import UserRange
from nodeagent.folder import read_json, write_json


class NoUserLeft(OSError):
    """Every number of the configured range belongs to another tenant."""


class RecordDamaged(OSError):
    """The record holds something else, so that which numbers are taken is unknown."""


class Users:
    """The record, read and added to under a lock."""

    def __init__(self, folder: str, numbers: UserRange) -> None:
        self.record = os.path.join(folder, ".users.json")
        self.lock = os.path.join(folder, ".users.lock")
        self.numbers = numbers
        self.known: dict[str, int] = {}

    def number_of(self, tenant: str) -> int:
        """Return the tenant's user and group number, chosen by its name when it is new."""
        if tenant not in self.known:
            descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                self._read_and_add(tenant)
            finally:
                os.close(descriptor)
        return self.known[tenant]

    def _read_and_add(self, tenant: str) -> None:
        numbers = self._read()
        if tenant not in numbers:
            taken = set(numbers.values())
            preferred = zlib.crc32(tenant.encode())
            for step in range(self.numbers.count):
                number = self.numbers.first + (preferred + step) % self.numbers.count
                if number not in taken:
                    break
            else:
                raise NoUserLeft(f"all {self.numbers.count} user numbers belong to other tenants")
            numbers[tenant] = number
            # Files are about to belong to the number, so that it must not be free again after a crash.
            write_json(self.record, numbers, is_durable=True)
        self.known = numbers

    def _read(self) -> dict[str, int]:
        numbers = read_json(self.record)
        if numbers is None and not os.path.lexists(self.record):
            return {}
        if not isinstance(numbers, dict) or not all(type(number) is int for number in numbers.values()):
            raise RecordDamaged(
                f"{self.record} is damaged. It holds the tenants' user numbers, so restore it from a backup"
            )
        return numbers


def make_folder(path: str, owner: int) -> None:
    """Make the folder if need be, and let it and all that is in it belong to the owner.

    What an earlier attempt wrote as another user is taken over once: then the folder is the owner's already.
    A file with several names is left alone, for one of them may be another user's.
    """
    os.makedirs(path, mode=0o700, exist_ok=True)
    facts = os.stat(path)
    if stat.S_IMODE(facts.st_mode) != 0o700 and os.geteuid() in (0, facts.st_uid):
        os.chmod(path, 0o700)
    if facts.st_uid == owner or os.geteuid() != 0:
        return
    for _, folders, files, descriptor in os.fwalk(path, topdown=False):
        for name in folders + files:
            facts = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISDIR(facts.st_mode) or facts.st_nlink == 1:
                os.chown(name, owner, owner, dir_fd=descriptor, follow_symlinks=False)
    os.chown(path, owner, owner)


def make_file(path: str, owner: int) -> None:
    """Make an empty file of the owner's, which no other user can read, if there is none."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if owner != os.fstat(descriptor).st_uid:
            os.fchown(descriptor, owner, owner)
    finally:
        os.close(descriptor)


def closed_folder(path: str) -> str:
    """Return the folder above this one that lets no users without rights pass; "" if all do."""
    path = os.path.realpath(path)
    while path != "/":
        path = os.path.dirname(path)
        if not os.stat(path).st_mode & stat.S_IXOTH:
            return path
    return ""
