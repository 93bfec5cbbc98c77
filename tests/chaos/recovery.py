"""How long it takes until what was hurt works again, seen from outside: by API and database."""

import threading
import time
from dataclasses import dataclass, field

import httpx
import psycopg

from tests.chaos.load import client
from tests.chaos.visitors import Crowd
from tests.chaos.world import LEASE_SECONDS, World

LOOK_SECONDS = 0.1
ANSWER_SECONDS = 2


@dataclass
class Pending:
    """A fault that is over, and what has to work again."""

    kind: str
    subject: str
    #: Unix seconds.
    since: float


@dataclass
class Recovery:
    """Looks all the time. `seconds` is what recoveries took, by kind of fault."""

    world: World
    crowd: Crowd
    seconds: dict[str, list[float]] = field(default_factory=dict)
    pending: list[Pending] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.is_over = threading.Event()
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self._look, name="recovery", daemon=True)
        self.api = client(self.world)

    def expect(self, kind: str, subject: str) -> None:
        with self.lock:
            self.pending.append(Pending(kind, subject, time.time()))

    def stop(self) -> None:
        self.is_over.set()
        self.thread.join()

    def _look(self) -> None:
        while not self.is_over.wait(LOOK_SECONDS):
            try:
                with self.world.platform.database() as database:
                    while not self.is_over.wait(LOOK_SECONDS):
                        self._settle(database)
            except (psycopg.Error, OSError, httpx.HTTPError):
                continue  # What it looks through is hurt as well.

    def _settle(self, database: psycopg.Connection) -> None:
        with self.lock:
            pending = list(self.pending)
        for each in pending:
            if self._works(database, each):
                with self.lock:
                    self.pending.remove(each)
                    self.seconds.setdefault(each.kind, []).append(time.time() - each.since)

    def _works(self, database: psycopg.Connection, pending: Pending) -> bool:
        visitor = next((each for each in self.crowd.visitors if each.name == pending.subject), None)
        if visitor is not None:
            return visitor.has_rights()
        if pending.subject == "server":
            query = "SELECT 1 FROM scheduler_round WHERE state = 'applied' AND started_at > to_timestamp(%s)"
            if database.execute(f"{query} LIMIT 1", [pending.since]).fetchone() is None:
                return False
            ready = self.api.get(f"{self.world.platform.url}/readyz", timeout=ANSWER_SECONDS)
            return ready.status_code == 200
        if pending.kind.endswith("token daemon"):
            path = pending.subject
            return path in self.world.token_daemons() or not self.world.needs_token_daemon(path)
        if pending.subject.startswith("job "):
            query = (
                "SELECT 1 FROM scheduler_job j WHERE j.id = %s AND (j.state NOT IN ('queued', 'running')"
                " OR EXISTS (SELECT 1 FROM scheduler_attempt a WHERE a.job_id = j.id"
                " AND a.state = 'running' AND (a.running_at > to_timestamp(%s) OR %s)))"
            )
            # One that was only paused goes on in the same attempt.
            values = [int(pending.subject.split()[1]), pending.since, pending.kind.startswith("pause")]
        else:
            query = (
                "SELECT 1 FROM scheduler_node WHERE name = %s AND state = 'ready'"
                " AND lease_expires_at > to_timestamp(%s)"
            )
            values = [pending.subject, pending.since + LEASE_SECONDS]
        return database.execute(query, values).fetchone() is not None
