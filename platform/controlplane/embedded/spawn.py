"""How a child process is started: it ends when its parent does, and it may have to give up root."""

import contextlib
import ctypes
import os
import pwd
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_KEEPCAPS = 8
PR_SET_SECUREBITS = 28
PR_SET_NO_NEW_PRIVS = 38
SECBIT_NO_SETUID_FIXUP = 1 << 2
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
CAP_DAC_OVERRIDE = 1
CAP_DAC_READ_SEARCH = 2
CAPABILITY_VERSION_3 = 0x20080522
CLONE_NEWNS = 0x20000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 1 << 1, 1 << 2, 1 << 12, 1 << 14, 1 << 18
EMPTY_FOLDER = (MS_NOSUID | MS_NODEV, "mode=755,size=1m")

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
    # Folders that the program must reach as `account`, though they may lie below ones closed to it.
    needs: Sequence[Path] = ()

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
            # Ctrl-C in a terminal reaches a whole process group; only the supervisor should get it.
            "start_new_session": True,
            "preexec_fn": self._in_child(os.getpid()),
        }

    def _in_child(self, parent: int) -> Callable[[], None]:
        def prepare() -> None:
            if self.account is not None:
                reachable = _make_reachable(self.needs, self.cwd)
                _become(self.account, reads_everything=not reachable)
            # After the change of account, which would clear it.
            end_with_parent(parent, self.death_signal)

        return prepare


def end_with_parent(parent: int, number: signal.Signals) -> None:
    """Have the kernel send this process the signal when its parent dies; end at once if it already has."""
    if sys.platform == "linux":
        _prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(1)


def unprivileged_account() -> pwd.struct_passwd | None:
    """The account for programs that refuse to run as root; None when we are not root anyway."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _make_reachable(needs: Sequence[Path], cwd: Path) -> bool:
    """See that folders below closed ones can be reached, for this process and its children alone.

    The wheels and the data may well lie below `/root` (mode 0700), which must not be opened to all users for
    our sake. In a mount namespace of its own the process finds, in place of each closed folder, one that
    holds nothing but the way to what it needs. Return False where we may not make one.
    """
    closed = sorted({folder for need in needs for folder in _closed_above(need)})
    outermost = [folder for folder in closed if not any(other in folder.parents for other in closed)]
    if not outermost:
        return True
    try:
        _libc_call("unshare", CLONE_NEWNS)
        _mount("none", "/", None, MS_REC | MS_PRIVATE)
        # In this namespace, and before they are hidden.
        opened = [(need, os.open(need, os.O_PATH)) for need in needs]
        _mount("tmpfs", outermost[0], "tmpfs", *EMPTY_FOLDER)
    except OSError:
        # Containers often forbid one of them. Nothing is hidden yet.
        return False
    for folder in outermost[1:]:
        _mount("tmpfs", folder, "tmpfs", *EMPTY_FOLDER)
    umask = os.umask(0o022)
    for need, descriptor in opened:
        if any(folder in need.parents for folder in outermost):
            need.mkdir(parents=True, exist_ok=True)
            _mount(f"/proc/self/fd/{descriptor}", need, None, MS_BIND)
    os.umask(umask)
    # The old one is in what was hidden.
    os.chdir(cwd)
    return True


def _closed_above(folder: Path) -> Iterator[Path]:
    """The folders above one that only their owner or group can go through."""
    for above in folder.parents:
        if not above.stat().st_mode & stat.S_IXOTH:
            yield above


def _mount(source: str, target: str | Path, kind: str | None, flags: int, data: str | None = None) -> None:
    _libc_call("mount", *map(_bytes, (source, str(target), kind)), ctypes.c_ulong(flags), _bytes(data))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


def _become(account: pwd.struct_passwd, *, reads_everything: bool) -> None:
    """Give up root and all it may do, but for reading through closed folders where nothing else helps."""
    capability = _reading_capability() if reads_everything else None
    if capability is not None:
        _prctl(PR_SET_KEEPCAPS, 1)
        # Without this bit access(2), by which initdb looks for its own programs, forgets the capability.
        # Refused where root itself is limited; then only what asks by access(2) is kept from such folders.
        with contextlib.suppress(OSError):
            _prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP)
    os.setgroups([])
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    bit = 0 if capability is None else 1 << capability
    sets = (_CapabilitySet * 2)(_CapabilitySet(bit, bit, bit), _CapabilitySet(0, 0, 0))
    header = _CapabilityHeader(CAPABILITY_VERSION_3, 0)
    _libc_call("capset", ctypes.byref(header), ctypes.byref(sets))
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
    _libc_call("prctl", option, value, argument, 0, 0)


def _libc_call(name: str, *arguments: Any) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), f"{name} {arguments[0]!r}")
