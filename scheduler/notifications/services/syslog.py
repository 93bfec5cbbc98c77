"""Entries of the audit log as messages of syslog (RFC 5424), by UDP, TCP (RFC 6587) or TLS (RFC 5425)."""

from __future__ import annotations

import fcntl
import json
import re
import socket
import ssl
import struct
import termios
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from tenants.audit.receivers import Receiver

#: For each step: connection, sending, and until the other side has read all.
TIMEOUT_SECONDS = 5.0
#: "Log audit".
_FACILITY = 13
_INFORMATIONAL, _WARNING = 6, 4
#: Private enterprise number that is reserved for those without one of their own.
_ENTERPRISE = 32473
#: A datagram of more is not sent at all.
_DATAGRAM_BYTES = 8_000
_NOT_IN_NAMES = re.compile(r"[^\x21-\x7e]")


def message(entry: dict[str, Any]) -> bytes:
    """Return an entry, as `reading.represented` makes it, as one message: the facts as JSON."""
    severity = _WARNING if entry["outcome"] == "refused" else _INFORMATIONAL
    host = _NOT_IN_NAMES.sub("-", urlsplit(settings.CONFIG.public_url).hostname or "-")[:255]
    identifier = _NOT_IN_NAMES.sub("-", entry["action"])[:32]
    shown = ("id", "actor", "address", "tenant", "subject")
    data = " ".join(f'{name}="{_escaped(entry[name])}"' for name in shown if entry[name] is not None)
    head = f"<{_FACILITY * 8 + severity}>1 {entry['at']} {host} allotment - {identifier}"
    text = json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
    return f"{head} [audit@{_ENTERPRISE} {data}] \ufeff{text}".encode()


def send(receiver: Receiver, entries: Sequence[dict[str, Any]]) -> None:
    """Send entries in their order; raise OSError unless the other side has them all.

    UDP cannot confirm that. TCP and TLS confirm that the other side's system has taken them: it closes after
    all of it was read, or has at least acknowledged every byte.
    """
    if receiver.scheme == "syslog+udp":
        _send_datagrams(receiver, entries)
        return
    # Each message with its length in front.
    stream = b"".join(b"%d %s" % (len(text), text) for text in map(message, entries))
    with socket.create_connection((receiver.host, receiver.port), TIMEOUT_SECONDS) as plain:
        if receiver.scheme == "syslog+tcp":
            plain.sendall(stream)
            plain.shutdown(socket.SHUT_WR)
            _wait_for_end(plain, plain)
            return
        context = ssl.create_default_context(cafile=receiver.authorities or None)
        with context.wrap_socket(plain, server_hostname=receiver.host) as encrypted:
            encrypted.sendall(stream)
            _end_encryption(encrypted)


def _send_datagrams(receiver: Receiver, entries: Sequence[dict[str, Any]]) -> None:
    family, kind, protocol, _, address = socket.getaddrinfo(
        receiver.host, receiver.port, type=socket.SOCK_DGRAM
    )[0]
    with socket.socket(family, kind, protocol) as channel:
        channel.settimeout(TIMEOUT_SECONDS)
        channel.connect(address)
        for entry in entries:
            text = message(entry)
            if len(text) > _DATAGRAM_BYTES:
                text = message({**entry, "before": "(too long)", "after": "(too long)"})
            channel.send(text)


def _wait_for_end(channel: socket.socket, plain: socket.socket) -> None:
    try:
        while channel.recv(1_024):
            pass
    except TimeoutError:
        # Some receivers keep the connection.
        if _unacknowledged_bytes(plain):
            raise


def _end_encryption(encrypted: ssl.SSLSocket) -> None:
    try:
        encrypted.unwrap()
    except TimeoutError:
        if _unacknowledged_bytes(encrypted):
            raise
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError):
        # It closed without the words that belong to it, as many do.
        return


def _unacknowledged_bytes(channel: socket.socket) -> int:
    (count,) = struct.unpack("i", fcntl.ioctl(channel.fileno(), termios.TIOCOUTQ, b"\0" * 4))
    return int(count)


def _escaped(value: object) -> str:
    return re.sub(r'(["\\\]])', r"\\\1", str(value)).replace("\n", " ")
