"""The fork server: a process that has loaded the shim already, and forks one for each attempt it is sent.

    python -I -S -c "...; main()" PLACE        (a socket of its agent is its standard input)

To start an interpreter and load the shim costs 25 ms of a processor, which is most of what a short job costs
its node; a fork costs 2 ms. Nothing else is different for a shim: it has a session, standard files and a name
of its own, and no descriptor of the agent, of this process or of another shim.

A message is the path of an attempt's folder with three descriptors, of the shim's standard input, output and
error. The answer is the shim's process number and a descriptor of it (`pidfd_open`), made before anything
could reap it. The fork server ends when its agent does, and shims go on.

PLACE is blank and as long as any such path: a shim writes its own there, for people who list processes.

Imported by nothing but its own process, whose memory each shim shares: it imports nearly nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import socket
import sys

from nodeagent.procfs import argument_area
from nodeagent.shim import main as shim

PATH_BYTES = 4096
STANDARD_FILES = (0, 1, 2)


def main() -> None:
    """Fork shims until the agent is gone."""
    # Not as number 0, which is to be a shim's standard input.
    agent = socket.socket(fileno=os.dup(0))
    ctypes.CDLL(None)  # What each shim loads otherwise, to call the kernel.
    signal.signal(signal.SIGCHLD, _reap)
    gc.freeze()  # Or the first collection of each shim would copy the memory that it shares.
    while True:
        path, sent, _, _ = socket.recv_fds(agent, PATH_BYTES, len(STANDARD_FILES))
        if not path:
            return
        # Until its descriptor is made, its number must stay its own.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        pid = os.fork()
        if pid == 0:
            agent.close()
            _become_shim(path, sent)
        for descriptor in sent:
            os.close(descriptor)
        pidfd = os.pidfd_open(pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            # The agent may be gone, and finds the shim by its folder when it is back.
            socket.send_fds(agent, [str(pid).encode()], [pidfd])
        os.close(pidfd)


def _become_shim(path: bytes, sent: list[int]) -> None:
    """Runs in the child; does not return."""
    status = 1
    try:
        os.setsid()
        for source, target in zip(sent, STANDARD_FILES, strict=True):
            os.dup2(source, target)
            os.close(source)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        _show(path)
        sys.argv[1] = os.fsdecode(path)
        shim.main()
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)


def _show(path: bytes) -> None:
    """Write the path where the kernel finds the last argument of this process."""
    place = len(os.fsencode(sys.argv[1]))
    end = argument_area()[1]
    if end and len(path) <= place:
        ctypes.memmove(end - place - 1, path.ljust(place, b"\0"), place)


def _reap(*_: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
