"""One loud tenant: many clients that search a long log and submit, beside somebody who only looks."""

import contextlib
import statistics
import threading
import time
from collections import Counter

import httpx

from tests.chaos.accounting import Flooded
from tests.chaos.load import LOUD_NAME, TENANT, client
from tests.chaos.visitors import TENANT as LOUD_TENANT
from tests.chaos.visitors import VIRTUAL_CLUSTER, add_user, sign_in
from tests.chaos.world import World

CLIENTS = 30
#: Of so many requests one submits; the others search.
SUBMITS = 5
MOST_UNFINISHED = 20
BEFORE_SECONDS = 2.0
#: As impatient as can be, but no flood of the client's own processor.
REFUSED_SECONDS = 0.05
PAUSE_SECONDS = 0.05
CANCEL_SECONDS = 60.0
READS = ("jobs", "jobs/counts", "cluster", "nodes", "session")
SLOW_SEARCH = {"q": "no such text ([a-z]+ )+x", "regex": "true"}
LOUD, QUIET = "loud", "quiet"


class Flood:
    """Is loud from `begin` to `end`; what it came to is in `records`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.records: list[Flooded] = []

    def prepare(self, job: int) -> None:
        """Make the two users; the loud one searches the log of that job."""
        self.path = f"jobs/{job}/logs/search"
        add_user(self.world, LOUD, LOUD_TENANT, "member")
        add_user(self.world, QUIET, TENANT, "member")
        self.world.platform.call("PATCH", f"tenants/{LOUD_TENANT}", {"most_unfinished_jobs": MOST_UNFINISHED})
        self.loud, self.quiet = (client(self.world, sign_in(self.world, name)[1]) for name in (LOUD, QUIET))
        self.job = {
            "name": LOUD_NAME,
            "tenant": LOUD_TENANT,
            "virtual_cluster": VIRTUAL_CLUSTER,
            "gpus": 1,
            "command": ["sleep", "1"],
        }

    def begin(self) -> None:
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._run, name="flood", daemon=True)
        self.thread.start()

    def end(self) -> None:
        self.is_over.set()
        self.thread.join()

    def _run(self) -> None:
        lost = self._nodes_lost()
        before, refused, answers = self._look(BEFORE_SECONDS), list[str](), Counter[int]()
        clients = [
            threading.Thread(target=self._be_loud, args=(number, answers), name=f"loud {number}", daemon=True)
            for number in range(CLIENTS)
        ]
        for thread in clients:
            thread.start()
        seconds = self._look(None, refused)
        for thread in clients:
            thread.join()
        self.records.append(
            Flooded(
                before_seconds=statistics.median(before),
                median_seconds=statistics.median(seconds),
                longest_seconds=max(seconds),
                refused=refused,
                answers=dict(answers),
                nodes_lost=self._nodes_lost() - lost,
                is_cancelled=self._cancel(),
            )
        )

    def _look(self, lasts_seconds: float | None, refused: list[str] | None = None) -> list[float]:
        """Return how long the quiet user's requests took, at least one of each."""
        end = None if lasts_seconds is None else time.monotonic() + lasts_seconds
        seconds: list[float] = []
        while not seconds or (time.monotonic() < end if end is not None else not self.is_over.is_set()):
            for path in READS:
                began = time.monotonic()
                said = ""
                try:
                    answer = self.quiet.get(path)
                    said = "" if answer.is_success else f"{answer.status_code} {answer.text[:200]}"
                except httpx.HTTPError as error:
                    said = repr(error)
                seconds.append(time.monotonic() - began)
                if said and refused is not None:
                    refused.append(f"{path}: {said}")
                time.sleep(PAUSE_SECONDS)
        return seconds

    def _be_loud(self, number: int, answers: Counter[int]) -> None:
        while not self.is_over.is_set():
            number += 1
            try:
                if number % SUBMITS:
                    answer = self.loud.get(self.path, params=SLOW_SEARCH, timeout=60)
                else:
                    answer = self.loud.post("jobs", json=self.job, timeout=60)
                status = answer.status_code
            except httpx.HTTPError:
                status = 0
            answers[status] += 1
            if status not in (200, 201):
                self.is_over.wait(REFUSED_SECONDS)

    def _cancel(self) -> bool:
        """Cancel what was submitted, with one request; return whether it was done in time."""
        wanted = {"action": "cancel", "filter": {"tenant": LOUD_TENANT, "name": LOUD_NAME}}
        end = time.monotonic() + CANCEL_SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(httpx.HTTPError):
                answer = self.loud.post("jobs/actions", json=wanted)
                if answer.is_success and not answer.json()["remaining"]:
                    return True
            time.sleep(PAUSE_SECONDS)
        return False

    def _nodes_lost(self) -> int:
        with self.world.platform.database() as database:
            row = database.execute("SELECT count(*) FROM scheduler_event WHERE kind = 'node.lost'").fetchone()
        return int(row[0]) if row else 0
