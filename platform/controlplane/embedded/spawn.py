"""How a child process is started: it ends when its parent does, and it may have to give up root."""

import contextlib
import ctypes
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_KEEPCAPS = 8
PR_SET_SECUREBITS = 28
SECBIT_NO_SETUID_FIXUP = 1 << 2
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
CAP_DAC_OVERRIDE = 1
CAP_DAC_READ_SEARCH = 2
CAPABILITY_VERSION_3 = 0x20080522

# Loaded here and not between fork and exec, where allocating memory is unsafe.
_libc = ctypes.CDLL(None, use_errno=True)


class _CapabilityHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _CapabilitySet(ctypes.Structure):
    _fields_ = [
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    ]


@dataclass(frozen=True)
class Spawn:
    """What to start: `death_signal` is what the kernel sends when the parent dies, however it dies."""

    argv: Sequence[str]
    cwd: Path
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    death_signal: signal.Signals = signal.SIGTERM
    account: pwd.struct_passwd | None = None

    def popen(self, *, output: int) -> subprocess.Popen[bytes]:
        """Start it, standard output and error both going to the file descriptor `output`."""
        return subprocess.Popen(
            list(self.argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            **self.options(),
        )

    def options(self) -> dict[str, Any]:
        """Keyword arguments for `subprocess.Popen` and `asyncio.create_subprocess_exec`.

        Start it from the main thread: the kernel's "parent" is the thread that forked.
        """
        return {
            "cwd": self.cwd,
            "env": dict(self.environment),
            # Ctrl-C in a terminal reaches a whole process group; only the supervisor shall hear it.
            "start_new_session": True,
            "preexec_fn": self._in_child(os.getpid()),
        }

    def _in_child(self, parent: int) -> Callable[[], None]:
        def prepare() -> None:
            if self.account is not None:
                _become(self.account)
            # After the change of account, which would clear it.
            if sys.platform == "linux":
                _prctl(PR_SET_PDEATHSIG, self.death_signal)
            if os.getppid() != parent:
                os._exit(1)

        return prepare


def unprivileged_account() -> pwd.struct_passwd | None:
    """The account for programs that refuse to run as root; None when we are not root anyway."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _become(account: pwd.struct_passwd) -> None:
    """Give up root, keeping only the right to read through folders that are closed to `account`.

    The wheels and the data may well lie below `/root` (mode 0700), which must not be opened to
    everybody for our sake.
    """
    capability = _reading_capability()
    _prctl(PR_SET_KEEPCAPS, 1)
    # Without this bit access(2), by which initdb looks for its own programs, forgets the capability.
    # Refused where root itself is limited; then only what asks by access(2) is kept from such folders.
    with contextlib.suppress(OSError):
        _prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP)
    os.setgroups([])
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)
    bit = 0 if capability is None else 1 << capability
    sets = (_CapabilitySet * 2)(_CapabilitySet(bit, bit, bit), _CapabilitySet(0, 0, 0))
    header = _CapabilityHeader(CAPABILITY_VERSION_3, 0)
    if _libc.capset(ctypes.byref(header), ctypes.byref(sets)) != 0:
        raise OSError(ctypes.get_errno(), "capset")
    if capability is not None:
        _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability)


def _reading_capability() -> int | None:
    """The least capability that lets us read everywhere; containers often keep only the wider one."""
    if sys.platform != "linux":
        return None
    status = Path("/proc/self/status").read_text()
    permitted = int(status.split("CapPrm:")[1].split()[0], 16)
    for capability in (CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE):
        if permitted & (1 << capability):
            return capability
    return None


def _prctl(option: int, value: int, argument: int = 0) -> None:
    if _libc.prctl(option, value, argument, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")
