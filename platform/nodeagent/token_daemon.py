"""The token daemon of one shared GPU: a process that decides which of the GPU's clients may run now.

    python -I -S -c "...; main()" SOCKET

`tokens.py` decides; here are the clock and the connections. A client is a replica with a part of the GPU, and
its shim speaks for it. The daemon holds nothing that others need: when it is killed, shims let their replicas
go on, and join again as soon as the agent has started another one, which begins with an empty history. It
ends when no client is connected, and outlives the agent.

Messages are JSON, one a packet. A client says

    {"join": NAME, "request": thousandths, "limit": thousandths}
    {"ask": true}      it stands still and wants to run; the token that it had comes back with this
    {"more": true}     its quota is over and it still runs: would it be next?
    {"return": true}   it does not want to run; the token that it had comes back with this

with "burst": microseconds of the longest stretch of work seen lately, where it is known; and is answered

    {"quota": microseconds}   it has the token
    {"pause": true}           after `more`: others are next, so it has to stand still and ask
    {"overdue": true}         it kept the token for too long while others waited, and has it no more
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import sys
from dataclasses import replace
from socket import AF_UNIX, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_SEQPACKET, socket
from typing import Any

from nodeagent.clock import steady_microseconds, wait_seconds
from nodeagent.shim.guest import reached_by
from nodeagent.tokens import WINDOW, Grant, History, Share, Wait, next_holder

MESSAGE_BYTES = 1024
MOST_WAITING = 64
#: Connections, well below what a process may open: one that cannot be taken is announced again for ever.
MOST_CLIENTS = 256
#: A holder may keep the token for this long beyond its quota while others wait.
OVERDUE = WINDOW
#: How long it stays without a connection, in microseconds: the first client comes a moment after the start.
ALONE = 5_000_000
LONGEST_SLEEP = 60_000_000


class Client:
    """One connection: that of a client once it has joined, else a check whether the daemon lives."""

    def __init__(self, line: socket) -> None:
        self.line = line
        self.name = ""
        self.share = Share(request=0, limit=1000)
        self.burst: int | None = None

    def tell(self, **message: Any) -> None:
        # A client that does not read it will never obey it; its end shows when its connection ends.
        with contextlib.suppress(OSError):
            self.line.send(json.dumps(message).encode())


class TokenDaemon:
    """Hands out the token of one GPU. Times are microseconds of the machine's steady clock."""

    def __init__(self, door: socket, now: int) -> None:
        self.door = door
        self.history = History(began=now)
        self.clients: dict[int, Client] = {}
        #: Clients that stand still for the token, in the order in which they came.
        self.waiting: list[Client] = []
        self.holder: Client | None = None
        self.grant = Grant("", 0)
        self.granted_at = now
        #: When the answer may change without a message; None: not before a client sends one.
        self.look_at: int | None = None
        self.alone_since = now

    def run(self) -> None:
        """Serve until no client has been connected for a while."""
        poll = select.poll()
        poll.register(self.door, select.POLLIN)
        while self.clients or steady_microseconds() < self.alone_since + ALONE:
            for descriptor, _ in poll.poll(wait_seconds(self.sleep() / 1e6) * 1000):
                if descriptor == self.door.fileno():
                    if (line := self.let_in()) is not None:
                        poll.register(line, select.POLLIN)
                elif not self.hear(self.clients[descriptor], steady_microseconds()):
                    poll.unregister(descriptor)
                    self.leave(self.clients.pop(descriptor), steady_microseconds())
            self.decide(steady_microseconds())

    def sleep(self) -> int:
        """Return how many microseconds may pass before the daemon has to look again."""
        now = steady_microseconds()
        times = [now + LONGEST_SLEEP]
        if not self.clients:
            times.append(self.alone_since + ALONE)
        if self.look_at is not None:
            times.append(self.look_at)
        return max(0, min(times) - now)

    def let_in(self) -> socket | None:
        """Take a connection; None where it went away, or there are too many."""
        try:
            line, _ = self.door.accept()
        except OSError:
            return None
        if len(self.clients) >= MOST_CLIENTS:
            line.close()
            return None
        line.setblocking(False)
        self.clients[line.fileno()] = Client(line)
        return line

    def hear(self, client: Client, now: int) -> bool:
        """Take in one message; return whether the connection goes on."""
        try:
            text = client.line.recv(MESSAGE_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not text:
            return False
        try:
            message = json.loads(text)
            if not isinstance(message, dict):
                raise ValueError(f"{message!r:.80}: expected an object")
            return self.obey(client, message, now)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            sys.stderr.write(f"A client was disconnected, as its message cannot be read: {error}\n")
            return False

    def obey(self, client: Client, message: dict[str, Any], now: int) -> bool:
        """Do what a message says; return whether the connection goes on."""
        if (burst := message.get("burst")) is not None:
            client.burst = max(0, int(burst))
        if "join" in message:
            if client.name:
                raise ValueError(f"it joined as {client.name} and joins again")
            client.share = Share(request=int(message["request"]), limit=int(message["limit"]))
            client.name = str(message["join"])
            # A shim that comes back before its old connection was seen to end.
            return sum(other.name == client.name for other in self.clients.values()) == 1
        if not client.name:
            return False
        if "more" in message:
            if client is self.holder:
                self.go_on_or_pause(client, now)
        elif "ask" in message:
            self.take_back(client, now)
            if client not in self.waiting:
                self.waiting.append(client)
        elif "return" in message:
            self.take_back(client, now)
            self.waiting = [other for other in self.waiting if other is not client]
        return True

    def leave(self, client: Client, now: int) -> None:
        self.take_back(client, now)
        self.waiting = [other for other in self.waiting if other is not client]
        quotas = {name: quota for name, quota in (self.history.quotas or {}).items() if name != client.name}
        self.history = replace(self.history, quotas=quotas)
        client.line.close()
        self.alone_since = now

    def take_back(self, client: Client, now: int) -> None:
        if client is self.holder:
            self.holder = None
            self.history = self.history.returned(self.grant, self.granted_at, now)

    def go_on_or_pause(self, client: Client, now: int) -> None:
        """Give the holder another quota if it would be next: what runs alone is never stopped for it."""
        history = self.history.returned(self.grant, self.granted_at, now)
        match self.next([*self.waiting, client], history, now):
            case Grant(client.name) as grant:
                self.history = history
                self.give(client, grant, now)
            case _:
                client.tell(pause=True)

    def decide(self, now: int) -> None:
        """Hand the token to the next client, if it is free; take it from a holder that keeps it too long."""
        if self.holder is not None:
            overdue_at = self.granted_at + self.grant.quota + OVERDUE
            if self.waiting and now >= overdue_at:
                self.holder.tell(overdue=True)
                self.take_back(self.holder, now)
            else:
                self.look_at = overdue_at if self.waiting else None
                return
        self.look_at = None
        match self.next(self.waiting, self.history, now):
            case Grant(name) as grant:
                client = next(client for client in self.waiting if client.name == name)
                self.waiting.remove(client)
                self.give(client, grant, now)
                self.look_at = now + grant.quota + OVERDUE if self.waiting else None
            case Wait(until):
                self.look_at = until

    def next(self, waiting: list[Client], history: History, now: int) -> Grant | Wait | None:
        shares = {client.name: client.share for client in waiting}
        bursts = {client.name: client.burst for client in waiting if client.burst is not None}
        return next_holder(shares, list(shares), history, now, bursts)

    def give(self, client: Client, grant: Grant, now: int) -> None:
        self.holder, self.grant, self.granted_at = client, grant, now
        client.tell(quota=grant.quota)


def main() -> None:
    """Serve at the socket that is the only argument; do nothing where another daemon does."""
    path = sys.argv[1]
    # As a client may be gone by then, and a terminal's signals are meant for the agent.
    for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    reached_by(path, door.bind)
    os.chmod(path, 0o600)
    door.listen(MOST_WAITING)
    TokenDaemon(door, steady_microseconds()).run()


if __name__ == "__main__":
    main()
