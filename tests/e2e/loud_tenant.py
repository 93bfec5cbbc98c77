"""One loud tenant and a quiet one: many clients that search a long log, beside somebody who only looks."""

import statistics
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

import httpx

from tests.e2e.installation import Installation
from tests.patience import PATIENCE_SECONDS, until

PASSWORD = "kettle-lantern-orchard-41"
#: What the loud tenant's job writes: some 12 MB.
LINES = 120_000
WRITER = f"for i in range({LINES}): print('line', i, 'abcdefgh ' * 10)"
QUIET_READS = ("jobs", "jobs/counts", "cluster", "nodes", "session")


@dataclass
class Felt:
    """What the quiet user felt, in seconds a request, and what the loud one was answered."""

    seconds: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    loud: Counter[int] = field(default_factory=Counter)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def prepare(platform: Installation) -> tuple[int, int]:
    """Make both tenants; return the loud one's job, which has ended, and the quiet one's, which runs."""
    for tenant in ("loud", "quiet"):
        platform.call("POST", "tenants", {"name": tenant})
        vc = {"name": f"vc-{tenant}", "guaranteed": {"V100": 1}, "members": [{"tenant": tenant, "weight": 1}]}
        platform.call("POST", "virtual-clusters", vc)
        platform.call("POST", "users", {"username": f"{tenant}-user", "password": PASSWORD})
        platform.call("PUT", f"tenants/{tenant}/members/{tenant}-user", {"role": "member"})
    written = platform.submit(
        name="long-log", tenant="loud", virtual_cluster="vc-loud", gpus=1, command=["python3", "-c", WRITER]
    )
    kept = platform.submit(
        name="kept", tenant="quiet", virtual_cluster="vc-quiet", gpus=1, command=["sleep", "3600"]
    )
    platform.wait_for(written, "succeeded")
    platform.wait_for(kept, "running")
    return written, kept


def signed_in(platform: Installation, username: str) -> httpx.Client:
    client = httpx.Client(base_url=f"{platform.url}/api/v1/", timeout=PATIENCE_SECONDS)
    answer = client.post("session", json={"username": username, "password": PASSWORD})
    answer.raise_for_status()
    return client


def shout(platform: Installation, job: int, *, clients: int, seconds: float) -> Felt:
    """Let that many clients of the loud user search its log again and again, and the quiet one look."""
    felt, over = Felt(), threading.Event()
    loud, quiet = signed_in(platform, "loud-user"), signed_in(platform, "quiet-user")
    query = {"q": "no such text ([a-z]+ )+x", "regex": "true"}

    def search() -> None:
        with httpx.Client(base_url=loud.base_url, cookies=loud.cookies, timeout=PATIENCE_SECONDS) as client:
            while not over.is_set():
                try:
                    status = client.get(f"jobs/{job}/logs/search", params=query).status_code
                except httpx.TransportError:
                    status = 0
                felt.loud[status] += 1
                if status == 429:
                    # As impatient as can be, but not a flood of the client's own processor.
                    over.wait(0.05)

    threads = [threading.Thread(target=search) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: not clients or felt.loud.total(), "the loud tenant to be heard")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for path in QUIET_READS:
                began = time.monotonic()
                answer = quiet.get(path)
                felt.seconds.append(time.monotonic() - began)
                if not answer.is_success:
                    felt.refused.append(f"{path}: {answer.status_code} {answer.text}")
    finally:
        over.set()
        for thread in threads:
            thread.join()
    return felt


def nodes_lost(platform: Installation) -> int:
    with platform.database() as connection:
        row = connection.execute("SELECT count(*) FROM scheduler_event WHERE kind = 'node.lost'").fetchone()
    return int(row[0]) if row else 0
