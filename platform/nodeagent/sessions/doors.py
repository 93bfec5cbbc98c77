"""The addresses at which a port of this machine is one attempt's, and no other program's.

Programs may share a port's number: each listens at another address of the machine. A session therefore leads
to an address at which every socket that would take the connection is the attempt's own.

Source: proc(5) for the tables; Linux, inet_lookup_listener, for which of several sockets takes a connection.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nodeagent.folder import AttemptFolder, read_json
from nodeagent.process.container import main_process
from nodeagent.procfs import descendants, is_same_process, processes_of_namespace

#: The kernel's tables of sockets, and the state in them that marks one that listens.
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
LISTENING = "0A"
ANY, ANY6 = "0.0.0.0", "::"
#: Where a socket is reached that listens at every address. One of IPv6 may take connections of IPv4, too.
LOOPBACKS = {ANY: ("127.0.0.1",), ANY6: ("::1", "127.0.0.1")}
WORD_DIGITS = 8


@dataclass(frozen=True, slots=True)
class Door:
    """An address and a port, and the sockets that listen there: all are the attempt's."""

    host: str
    port: int
    sockets: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Socket:
    """A row of the tables. `inode` is "0" while no program has accepted the connection."""

    host: str
    peer: tuple[str, int]
    is_listening: bool
    inode: str


def doors(port: int, folder: AttemptFolder, rank: int) -> list[Door]:
    """Return where connections to the port reach a process of the attempt, and no other program."""
    listening = _listening(port)
    own = _held(frozenset().union(*listening.values()), folder, rank)
    hosts = [
        host
        for address, sockets in listening.items()
        if sockets & own
        for host in LOOPBACKS.get(address, (address,))
    ]
    found = [Door(host, port, _takers(listening, host)) for host in dict.fromkeys(hosts)]
    return [door for door in found if door.sockets and door.sockets <= own]


def has_led_into(door: Door, local: tuple[str, int], folder: AttemptFolder, rank: int) -> bool:
    """Whether a connection from `local` through the door has reached the attempt.

    The attempt's sockets may have closed just before, and another program may have taken their place. While
    they still listen, it cannot have. Where none listens any more, the connection has been accepted.
    """
    if remaining := _takers(_listening(door.port), door.host):
        return remaining <= door.sockets
    accepted = {row.inode for row in _sockets(door.port) if row.host == door.host and row.peer == local}
    return bool(accepted) and accepted == _held(frozenset(accepted), folder, rank)


def _takers(listening: dict[str, frozenset[str]], host: str) -> frozenset[str]:
    """Return the sockets of which one takes a connection to the address: those that name it come first."""
    order = (host, ANY6) if ":" in host else (host, ANY, ANY6)
    return next((listening[address] for address in order if address in listening), frozenset())


def _listening(port: int) -> dict[str, frozenset[str]]:
    """Return the inodes of the sockets that listen at the port, by their address."""
    found: dict[str, frozenset[str]] = {}
    for row in _sockets(port):
        if row.is_listening:
            found[row.host] = found.get(row.host, frozenset()) | {row.inode}
    return found


def _sockets(port: int) -> Iterator[_Socket]:
    """Yield the sockets of this machine's network that have the port."""
    ending = f":{port:04X}"
    for table in TABLES:
        try:
            with open(table, encoding="ascii") as file:
                rows = [row for line in file if (row := line.split())[1].endswith(ending)]
        except OSError:
            continue
        for row in rows:
            yield _Socket(_address(row[1])[0], _address(row[2]), row[3] == LISTENING, row[9])


def _address(text: str) -> tuple[str, int]:
    """Read an address as the tables have it: words of the machine's byte order, and the port."""
    digits, _, port = text.partition(":")
    words = (digits[start : start + WORD_DIGITS] for start in range(0, len(digits), WORD_DIGITS))
    packed = b"".join(int(word, 16).to_bytes(4, sys.byteorder) for word in words)
    host = socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
    # One of IPv6 that stands for an address of IPv4 is that address.
    return (host.removeprefix("::ffff:") if "." in host else host), int(port, 16)


def _held(sockets: frozenset[str], folder: AttemptFolder, rank: int) -> frozenset[str]:
    """Return those of the sockets that processes of the attempt hold."""
    if not sockets:
        return sockets
    status = read_json(folder.status) or {}
    below = []
    if is_same_process(status.get("pid", 0), status.get("identity", "")):
        below = descendants(status["pid"])
    # Processes in a container may be children of its engine, which takes a while to say so.
    return _held_by(below, sockets) or _held_by(_in_container(folder, rank), sockets)


def _in_container(folder: AttemptFolder, rank: int) -> set[int]:
    """Return the processes in the replica's container, by what its engine says of the first of them.

    What a process has in its environment proves nothing: every program can choose that.
    """
    for replica in (read_json(folder.spec) or {}).get("replicas", []):
        if replica["rank"] == rank and (container := replica.get("container")) is not None:
            pid = main_process(container)
            return {pid, *descendants(pid), *processes_of_namespace(pid)} if pid > 0 else set()
    return set()


def _held_by(pids: Iterable[int], sockets: frozenset[str]) -> frozenset[str]:
    links = {f"socket:[{inode}]": inode for inode in sockets}
    found = set()
    for pid in pids:
        folder = f"/proc/{pid}/fd"
        with contextlib.suppress(OSError):  # It has ended meanwhile.
            for name in os.listdir(folder):
                with contextlib.suppress(OSError, KeyError):  # It has closed this one, or it is another.
                    found.add(links[os.readlink(f"{folder}/{name}")])
    return frozenset(found)
