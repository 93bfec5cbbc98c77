"""A platform with two tenants, people of every role, and a real Chromium in front of it."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.e2e.installation import Installation, installation, until

PASSWORD = "correct horse battery"
ARTIFACTS = Path(__file__).parent / "artifacts"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# The tests run as root in containers, without a graphics card, and may reach nothing but the platform.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

#: Only a failing test waits so long; a busy machine may need some of it.
WAIT_MILLISECONDS = 60_000
expect.set_options(timeout=WAIT_MILLISECONDS)


@dataclass(frozen=True)
class Garden:
    """The running platform and how to sign in to it."""

    platform: Installation

    def password_of(self, username: str) -> str:
        return self.platform.password if username == "operator" else PASSWORD

    def submit(self, command: str, *, name: str, tenant: str = "vision", gpus: int = 1, **fields) -> int:
        """Submit a job of one replica that runs a line for the shell."""
        task = {
            "name": "main",
            "resources": {"gpu": gpus, "gpu_model": "V100"},
            "command": ["sh", "-c", command],
        }
        return self.platform.submit(name=name, tenant=tenant, tasks=[task], **fields)


@pytest.fixture(scope="package")
def garden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Garden]:
    """Two nodes of four V100; "vision" is guaranteed six of them, "speech" two."""
    with installation(tmp_path_factory.mktemp("browser")) as platform:
        for name in ("bed-1", "bed-2"):
            platform.add_node(name, gpus=4, rack="north")
        for tenant, guaranteed in (("vision", 6), ("speech", 2)):
            platform.call("POST", "tenants", {"name": tenant, "title": f"{tenant.title()} group"})
            platform.call(
                "POST",
                "virtual-clusters",
                {
                    "name": f"{tenant}-vc",
                    "guaranteed": {"V100": guaranteed},
                    "members": [{"tenant": tenant, "weight": 1}],
                },
            )
        for username, tenant, role in (("vera", "vision", "admin"), ("victor", "vision", "viewer")):
            platform.call("POST", "users", {"username": username, "password": PASSWORD})
            platform.call("PUT", f"tenants/{tenant}/members/{username}", {"role": role})
        yield Garden(platform)


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

    until(is_idle, 120, "all jobs to end")


# Not for the session: while it is open, Playwright keeps an event loop running, and no other may.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    assert found, "the browser tests need Chromium: run scripts/browser"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield chromium
        chromium.close()


Open = Callable[..., Page]


@pytest.fixture
def open_page(garden: Garden, browser: Browser, request: pytest.FixtureRequest) -> Iterator[Open]:
    """Open the dashboard signed in as somebody; a fault in the page itself fails the test.

    Pictures of what was open when a test failed are left in `artifacts`.
    """
    contexts: list[BrowserContext] = []
    faults: list[str] = []

    def open_as(
        username: str | None, path: str = "/", *, width: int = 1280, height: int = 900, **options
    ) -> Page:
        context = browser.new_context(
            base_url=garden.platform.url, viewport={"width": width, "height": height}, **options
        )
        context.set_default_timeout(WAIT_MILLISECONDS)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        if username is not None:
            body = {"username": username, "password": garden.password_of(username)}
            answer = context.request.post("/api/v1/session", data=body)
            assert answer.ok, answer.text()
        page.goto(path)
        return page

    failed_before = request.session.testsfailed
    yield open_as
    if request.session.testsfailed > failed_before:
        ARTIFACTS.mkdir(exist_ok=True)
        for number, context in enumerate(contexts):
            for page in context.pages:
                page.screenshot(path=ARTIFACTS / f"{request.node.name}-{number}.png", full_page=True)
    for context in contexts:
        context.close()
    assert not faults, faults
