"""A platform with two tenants, people of every role, and a real Chromium in front of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.chromium import launch
from tests.e2e.installation import Installation
from tests.patience import PATIENCE_SECONDS, until

PASSWORD = "correct horse battery"
ARTIFACTS = Path(__file__).parent / "artifacts"
#: Only a failing test waits so long; a busy machine may need some of it.
WAIT_MILLISECONDS = 1000 * PATIENCE_SECONDS
expect.set_options(timeout=WAIT_MILLISECONDS)

#: The cells of the two nodes, and what the virtual clusters own where GPUs are only counted.
HARDWARE = {
    "types": {
        "V100-SWITCH": {"of": "V100", "count": 2},
        "V100-NODE": {"of": "V100-SWITCH", "count": 2, "node": True},
        "V100-RACK": {"of": "V100-NODE", "count": 2},
    },
    "physical": [{"type": "V100-RACK", "name": "north", "nodes": ["bed-1", "bed-2"]}],
}
COUNTS = {"vision-vc": {"V100": 6}, "speech-vc": {"V100": 2}}


@dataclass(frozen=True)
class Garden:
    """The running platform and how to sign in to it."""

    platform: Installation

    def password_of(self, username: str) -> str:
        return self.platform.password if username == "operator" else PASSWORD

    def submit(self, command: str, *, name: str, tenant: str = "vision", gpus: float = 1, **fields) -> int:
        """Submit a job of one replica that runs a line for the shell."""
        task = {
            "name": "main",
            "resources": {"gpu": gpus, "gpu_model": "V100"},
            "command": ["sh", "-c", command],
        }
        return self.platform.submit(name=name, tenant=tenant, tasks=[task], **fields)


@pytest.fixture(scope="package")
def garden(shared_platform: Installation) -> Garden:
    for username, role in (("vera", "admin"), ("mara", "member"), ("victor", "viewer")):
        shared_platform.call("POST", "users", {"username": username, "password": PASSWORD})
        shared_platform.call("PUT", f"tenants/vision/members/{username}", {"role": role})
    garden = Garden(shared_platform)
    for username in ("operator", "vera", "mara", "victor"):
        has_seen_tour(garden, username)
    return garden


def has_seen_tour(garden: Garden, username: str, *, seen: bool = True) -> None:
    """The tour is in no test's way, but for those of the tour itself."""
    with httpx.Client(base_url=f"{garden.platform.url}/api/v1/", timeout=PATIENCE_SECONDS) as client:
        given = {"username": username, "password": garden.password_of(username)}
        client.headers["X-CSRFToken"] = client.post("session", json=given).json()["csrf_token"]
        client.put("session/tour", json={"seen": seen}).raise_for_status()


@pytest.fixture(autouse=True)
def idle_cluster(garden: Garden) -> Iterator[None]:
    """Leave no job of one test to the next."""
    yield

    def is_idle() -> bool:
        unfinished = garden.platform.call("GET", "jobs?state=queued,running&page_size=200")["results"]
        for job in unfinished:
            if not job["cancelling"]:
                garden.platform.api.post(f"jobs/{job['id']}/cancel")
        return not unfinished

    until(is_idle, "all jobs to end", seconds=2 * PATIENCE_SECONDS)


@pytest.fixture
def divide(garden):
    """Put cells in force; afterwards the GPUs are only counted, as other tests expect."""

    def apply(**virtual_clusters):
        version = garden.platform.call("GET", "cells")["version"]
        document = HARDWARE | {
            "virtual_clusters": {
                name.replace("_", "-"): {"cells": cells} for name, cells in virtual_clusters.items()
            }
        }
        return garden.platform.call("PUT", "cells", {"specification": document, "version": version})

    for name in COUNTS:
        garden.platform.call("PUT", f"virtual-clusters/{name}", {"guaranteed": {}})
    yield apply
    version = garden.platform.call("GET", "cells")["version"]
    garden.platform.call("PUT", "cells", {"specification": {}, "version": version})
    for name, guaranteed in COUNTS.items():
        garden.platform.call("PUT", f"virtual-clusters/{name}", {"guaranteed": guaranteed})


# Not for the session: while it is open, Playwright keeps an event loop running, and no other may.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = launch(playwright)
        yield chromium
        chromium.close()


@dataclass
class Pages:
    """What tests have open, kept from one to the next: to go elsewhere costs a third of a new page."""

    garden: Garden
    browser: Browser
    #: By who is signed in; none of them is in use.
    free: dict[str, list[Page]] = field(default_factory=dict)
    used: list[tuple[str, Page]] = field(default_factory=list)
    own: list[Page] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def open(
        self,
        username: str | None,
        path: str = "/",
        *,
        width: int = 1280,
        height: int = 900,
        own_session: bool = False,
        **options: Any,
    ) -> Page:
        """Open the dashboard signed in as somebody.

        Tests share a person's sessions, but nothing else that a browser keeps. A test that ends one asks for
        its own; with no person, or with `options` of a context, a page has a context to itself too.
        """
        if username is None or own_session or options:
            page = self._new(username, options)
            self.own.append(page)
        else:
            free = self.free.get(username)
            page = free.pop() if free else self._new(username, {})
            self.used.append((username, page))
        page.set_viewport_size({"width": width, "height": height})
        page.goto(path)
        return page

    def leave(self) -> None:
        """Take back what a test had open."""
        for page in self.own:
            page.context.close()
        for username, page in self.used:
            for other in page.context.pages:
                if other is not page:
                    # Behind another, the next test's page would be hidden, and does less.
                    other.close()
            page.evaluate("localStorage.clear(); sessionStorage.clear()")
            # Of the same site, so that the process stays; and nothing on it goes on.
            page.goto("/healthz")
            self.free.setdefault(username, []).append(page)
        self.own, self.used, self.faults = [], [], []

    def pictures(self, name: str) -> None:
        ARTIFACTS.mkdir(exist_ok=True)
        for number, page in enumerate([*self.own, *(page for _, page in self.used)]):
            page.screenshot(path=ARTIFACTS / f"{name}-{number}.png", full_page=True)

    def _new(self, username: str | None, options: dict[str, Any]) -> Page:
        context = self.browser.new_context(base_url=self.garden.platform.url, **options)
        context.set_default_timeout(WAIT_MILLISECONDS)
        if username is not None:
            body = {"username": username, "password": self.garden.password_of(username)}
            answer = context.request.post("/api/v1/session", data=body)
            assert answer.ok, answer.text()
        page = context.new_page()
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        return page


@pytest.fixture(scope="package")
def pages(garden: Garden, browser: Browser) -> Pages:
    return Pages(garden, browser)


Open = Callable[..., Page]


@pytest.fixture
def open_page(pages: Pages, request: pytest.FixtureRequest) -> Iterator[Open]:
    """Open the dashboard signed in as somebody; a fault in the page itself fails the test.

    Pictures of what was open when a test failed are left in `artifacts`.
    """
    failed_before = request.session.testsfailed
    yield pages.open
    if request.session.testsfailed > failed_before:
        pages.pictures(request.node.name)
    faults = pages.faults
    pages.leave()
    assert not faults, faults
