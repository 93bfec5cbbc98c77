"""Keep a process to the files that are its own, where no namespaces can be made (Landlock, kernel 5.13 on).

The kernel lets any process give up rights for good: from then on it, and all it starts, opens no file
outside the folders named, signals and traces no process outside of itself, and mounts nothing. It sees that
other files and processes exist. Needs no rights, only that no program it becomes may gain any.

Source: linux/landlock.h; Documentation/userspace-api/landlock.rst.

Imported by the shim, so it imports nearly nothing.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys

from nodeagent.procfs import PR_SET_NO_NEW_PRIVS, prctl
from nodeagent.shim.seccomp import refuse_shared

TYPE_CHECKING = False  # What typing.TYPE_CHECKING is, without loading typing.
if TYPE_CHECKING:
    from typing import Any

#: System calls, which have these numbers on every processor.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
CREATE_RULESET_VERSION = 1
RULE_PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, DEVICE_CALLS = 1 << 13, 1 << 14, 1 << 15
#: What there is to restrict by the version of the interface; a later one restricts all of an earlier one.
RIGHTS_FIRST = (1 << 13) - 1
RIGHTS_SINCE = {2: REFER, 3: TRUNCATE, 5: DEVICE_CALLS}
#: A rule about a file that is not a folder may not concern what is in folders.
RIGHTS_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | DEVICE_CALLS
TO_READ = EXECUTE | READ_FILE | READ_DIR
#: Since this version also signals, and connections to abstract sockets, stay within the process and its own.
SCOPES_SINCE = 6
ABSTRACT_SOCKETS, SIGNALS = 1 << 0, 1 << 1


class ConfinementError(Exception):
    """What a job may open could not be settled; says what the kernel said."""


class Confinement:
    """Which files an attempt's processes may open, made once by their shim and entered by each of them.

    `rules`: {"readable", "writable", "devices": paths; "shares_user": whether others' jobs and the agent are
    the same user; "is_alone": whether no other replica of the attempt is on the node}. Paths that do not
    exist are passed over.
    """

    def __init__(self, rules: dict[str, Any]) -> None:
        self.rules = rules
        self.ruleset = -1

    @property
    def is_open(self) -> bool:
        return self.ruleset >= 0

    def open(self) -> None:
        """Look the paths up, with the rights of the caller. Raises ConfinementError."""
        try:
            self._make_ruleset()
        except OSError as error:
            raise ConfinementError(str(error.strerror)) from error

    def _make_ruleset(self) -> None:
        version = interface_version()
        handled = _rights(version)
        scopes = 0
        if version >= SCOPES_SINCE:
            # Ranks on one machine hand each other memory over abstract sockets.
            scopes = SIGNALS | (ABSTRACT_SOCKETS if self.rules["is_alone"] else 0)
        self.ruleset = _create(handled, scopes)
        for path in self.rules["readable"]:
            self._allow(path, TO_READ & handled)
        for path in self.rules["writable"]:
            self._allow(path, handled)
        for path in self.rules["devices"]:
            self._allow(path, (READ_FILE | WRITE_FILE | DEVICE_CALLS) & handled)

    def enter(self) -> None:
        """Confine the calling process for good, just before it becomes a command. Raises OSError."""
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        _call(RESTRICT_SELF, self.ruleset, 0)
        if self.rules["shares_user"]:
            refuse_shared(has_truncate=interface_version() < 3)

    def _allow(self, path: str, rights: int) -> None:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return
        try:
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                rights &= RIGHTS_OF_FILES
            _add_rule(self.ruleset, rights, descriptor)
        finally:
            os.close(descriptor)


def interface_version() -> int:
    """Return the version of the kernel's Landlock; 0 where there is none."""
    try:
        return _call(CREATE_RULESET, None, 0, CREATE_RULESET_VERSION)
    except OSError as error:
        # Not compiled in, switched off at boot, or kept from us by a container's filter.
        if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM):
            return 0
        raise


def main() -> None:
    """Try the rules in the first argument: end with 0 if the file in the second cannot be opened any more."""
    try:
        confinement = Confinement(json.loads(sys.argv[1]))
        confinement.open()
        confinement.enter()
    except (ConfinementError, OSError) as error:
        sys.exit(str(error))
    try:
        os.close(os.open(sys.argv[2], os.O_RDONLY))
    except PermissionError:
        return
    sys.exit("what is forbidden can be read all the same")


def _rights(version: int) -> int:
    rights = RIGHTS_FIRST
    for since, more in RIGHTS_SINCE.items():
        if version >= since:
            rights |= more
    return rights


def _create(handled: int, scopes: int) -> int:
    import ctypes

    class Attributes(ctypes.Structure):
        _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))

    attributes = Attributes(handled, 0, scopes)
    # An older kernel takes a longer structure, if what it does not know is 0.
    return _call(CREATE_RULESET, ctypes.byref(attributes), ctypes.sizeof(attributes), 0)


def _add_rule(ruleset: int, rights: int, folder: int) -> None:
    import ctypes

    class PathBeneath(ctypes.Structure):
        _pack_ = 1
        _fields_ = (("rights", ctypes.c_uint64), ("folder", ctypes.c_int32))

    _call(ADD_RULE, ruleset, RULE_PATH_BENEATH, ctypes.byref(PathBeneath(rights, folder)), 0)


def _call(number: int, *arguments: Any) -> int:
    import ctypes  # Costs milliseconds, which only those pay who are confined.

    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    answer: int = ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *words)
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock refused: {os.strerror(code)}")
    return answer
