"""Refuse what Landlock leaves open between processes of one user: Unix sockets and System V's memory.

An agent that is not root has its user's jobs beside it, and everything else that this person runs. By a
socket a job could ask the person's session or container engine to run something outside of its confinement,
or the shim of another tenant's job to let it in. What a filter sees are numbers and not names, so all of
it is refused; pipes, pairs of connected sockets, threads and the network stay.

Source: seccomp(2), linux/seccomp.h, linux/filter.h, linux/audit.h.

Imported by the shim, so it imports nearly nothing.
"""

from __future__ import annotations

import errno
import os

from nodeagent.procfs import prctl

PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
#: Where in what the filter is given the system call's number, the processor and the arguments are.
NUMBER, PROCESSOR, FIRST_ARGUMENT, SECOND_ARGUMENT = 0, 4, 16, 24
LOAD, MASK, EQUAL, AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
AF_UNIX, SOCK_STREAM, SOCK_SEQPACKET, SOCK_TYPES = 1, 1, 5, 0xF
#: On x86-64 a second set of system calls begins here.
X32_CALLS = 0x40000000

#: By os.uname().machine: the kernel's number of it, socket, socketpair, prlimit, truncate, and what is
#: refused whatever its arguments: shmget, shmat, shmctl, semget, semop, semtimedop, semctl, msgget, msgsnd,
#: msgrcv, msgctl, mq_open, add_key, request_key, keyctl, io_uring_setup (which makes sockets past a filter).
PROCESSORS = {
    "x86_64": (
        *(0xC000003E, 41, 53, 302, 76),
        (29, 30, 31, 64, 65, 220, 66, 68, 69, 70, 71, 240, 248, 249, 250, 425),
    ),
    "aarch64": (
        *(0xC00000B7, 198, 199, 261, 45),
        (194, 196, 195, 190, 193, 192, 191, 186, 189, 188, 187, 180, 217, 218, 219, 425),
    ),
}


def is_known_processor() -> bool:
    """Whether this machine's system calls are known here."""
    return os.uname().machine in PROCESSORS


def refuse_shared(*, has_truncate: bool) -> None:
    """Refuse the calling process, and all it starts, what it could reach others of its user by.

    `has_truncate`: refuse truncate(2) as well, which Landlock did not know at first. Raises OSError.
    """
    processor, socket, socketpair, prlimit, truncate, others = PROCESSORS[os.uname().machine]
    refused = (*others, truncate) if has_truncate else others
    # A comparison has the number of lines to pass over when it holds, and when it does not.
    program = [
        (LOAD, 0, 0, PROCESSOR),
        (EQUAL, 1, 0, processor),  # Other sets of calls would have other numbers.
        (RETURN, 0, 0, REFUSE),
        (LOAD, 0, 0, NUMBER),
        (AT_LEAST, 0, 1, X32_CALLS),
        (RETURN, 0, 0, REFUSE),
        *[line for number in refused for line in ((EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE))],
        (EQUAL, 0, 2, socket),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (EQUAL, 9, 8, AF_UNIX),
        (EQUAL, 0, 2, prlimit),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (EQUAL, 5, 6, 0),  # For the process itself, and not for others.
        (EQUAL, 0, 4, socketpair),
        (LOAD, 0, 0, SECOND_ARGUMENT),
        (MASK, 0, 0, SOCK_TYPES),
        # These are connected for good; a socket for single messages can turn elsewhere.
        (EQUAL, 1, 0, SOCK_STREAM),
        (EQUAL, 0, 1, SOCK_SEQPACKET),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, REFUSE),
    ]
    _install(program)


def _install(program: list[tuple[int, int, int, int]]) -> None:
    import ctypes

    class Instruction(ctypes.Structure):
        _fields_ = (
            ("code", ctypes.c_uint16),
            ("if_true", ctypes.c_uint8),
            ("if_false", ctypes.c_uint8),
            ("value", ctypes.c_uint32),
        )

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(Instruction)))

    instructions = (Instruction * len(program))(*[Instruction(*line) for line in program])
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(Program(len(program), instructions)))
