"""Take the pictures of README and docs, in light and dark.

    python -m scripts.screenshots [--url http://127.0.0.1:8000] [--into FOLDER] [--pages]

A platform with its demonstration is started in a folder of its own and stopped afterwards. The dashboard
must be built (`make dashboard`). With `--url` the pictures are of a platform that runs; ALLOT_PASSWORD
has the password of its operator. `--pages` takes the ten pages most used, to look at before and after a
change.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from controlplane.embedded import ports
from tests.chromium import launch
from tests.e2e.installation import Installation
from tests.patience import PATIENCE_SECONDS, until

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT = 1440, 900
#: Of a picture: pages have few, and the repository keeps every version of a file.
COLOURS = 128
#: The jobs of the demonstration come by and by.
WAIT_SECONDS = 5 * PATIENCE_SECONDS


@dataclass(frozen=True)
class Picture:
    """A page of the dashboard, and a text that is on it once it shows what it is about.

    `{job}` in the path stands for a running job of the demonstration, `{waiting}` for one that waits.
    """

    name: str
    path: str
    shows: str
    themes: tuple[str, ...] = ("light",)

    def file(self, theme: str) -> str:
        """Return the name of its file: the theme is left out where it is light."""
        return f"{self.name}.png" if theme == "light" else f"{self.name}-{theme}.png"


#: README and docs show each of them, and no other (`tests/test_screenshots.py`).
PICTURES = (
    Picture("overview", "/", "Queue", ("light", "dark")),
    Picture("why-a-job-waits", "/jobs/{waiting}", "Expected to start"),
)
#: Those that people look at most.
PAGES = (
    Picture("overview", "/", "Queue"),
    Picture("jobs", "/jobs", "Running"),
    Picture("job", "/jobs/{job}", "Timeline"),
    Picture("job-log", "/jobs/{job}?tab=log", "Log"),
    Picture("submit", "/submit", "Command"),
    Picture("nodes", "/nodes", "Ready"),
    Picture("virtual-clusters", "/virtual-clusters", "Policy"),
    Picture("tenants", "/tenants", "vision"),
    Picture("events", "/events", "Job"),
    Picture("account", "/account", "Theme"),
)


@dataclass(frozen=True)
class Platform:
    url: str
    password: str


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--url", help="a platform that runs; without it one is started")
    parser.add_argument("--into", type=Path, default=IMAGES, help="the folder of the pictures (docs/images)")
    parser.add_argument("--pages", action="store_true", help="the ten pages most used instead")
    options = parser.parse_args(arguments)
    options.into.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        if options.url:
            platform = Platform(options.url, os.environ["ALLOT_PASSWORD"])
        else:
            platform = stack.enter_context(started())
        jobs = jobs_to_show(platform)
        for picture, theme, data in taken(platform, PAGES if options.pages else PICTURES, jobs):
            path = options.into / picture.file(theme)
            path.write_bytes(small(data))
            print(f"{path}: {path.stat().st_size // 1000} kB", flush=True)
    return 0


@contextmanager
def started() -> Iterator[Platform]:
    """Yield a platform with its demonstration, in a folder of its own; stop it afterwards."""
    with tempfile.TemporaryDirectory(prefix="allot-pictures-") as folder:
        platform = Installation(home=Path(folder) / "home", port=ports.pick(), settings={})
        try:
            platform.start()
            yield Platform(platform.url, platform.password)
        finally:
            platform.stop()


def jobs_to_show(platform: Platform) -> dict[str, int]:
    """Return a running job and one that waits with a predicted start, once the demonstration has both."""
    with httpx.Client(base_url=f"{platform.url}/api/v1/", timeout=60) as client:
        given = {"username": "operator", "password": platform.password}
        answer = client.post("session", json=given)
        answer.raise_for_status()
        client.put("session/tour", json={"seen": True}, headers={"X-CSRFToken": answer.json()["csrf_token"]})

        def found() -> dict[str, int] | None:
            running = client.get("jobs", params={"state": "running"}).json()["results"]
            waiting = [
                job
                for job in client.get("jobs", params={"state": "queued"}).json()["results"]
                if job["reasons"] and client.get(f"jobs/{job['id']}/why").json()["prediction"]
            ]
            if len(running) < 5 or not waiting:
                return None
            # The largest is what one would look at.
            return {"job": max(running, key=size)["id"], "waiting": max(waiting, key=size)["id"]}

        shown: dict[str, int] = until(
            found, "jobs of the demonstration that run and wait", seconds=WAIT_SECONDS
        )
        return shown


def size(job: dict[str, Any]) -> int:
    return int(job["gpus"])


def taken(
    platform: Platform, pictures: Sequence[Picture], jobs: dict[str, int]
) -> Iterator[tuple[Picture, str, bytes]]:
    """Yield each picture in each of its themes, as PNG."""
    with sync_playwright() as playwright:
        browser = launch(playwright)
        for theme in ("light", "dark"):
            page = signed_in(browser, platform, theme)
            for picture in pictures:
                if theme in picture.themes:
                    page.goto(picture.path.format(**jobs))
                    page.get_by_role("heading", level=1).wait_for()
                    page.locator("main").get_by_text(picture.shows).first.wait_for()
                    page.locator("main [aria-label=Loading]").first.wait_for(state="detached")
                    page.get_by_text("Live", exact=True).first.wait_for()
                    page.evaluate("document.fonts.ready")
                    yield picture, theme, page.screenshot(animations="disabled")
        browser.close()


def signed_in(browser: Browser, platform: Platform, theme: str) -> Page:
    context = browser.new_context(
        base_url=platform.url,
        viewport={"width": WIDTH, "height": HEIGHT},
        color_scheme="dark" if theme == "dark" else "light",
        reduced_motion="reduce",
    )
    context.set_default_timeout(WAIT_SECONDS * 1000)
    given = {"username": "operator", "password": platform.password}
    answer = context.request.post("/api/v1/session", data=given)
    if not answer.ok:
        raise SystemExit(f"Signing in was refused: {answer.text()}")
    return context.new_page()


def small(data: bytes) -> bytes:
    """Return a picture in fewer colours, without dithering: areas stay of one colour."""
    with Image.open(io.BytesIO(data)) as image:
        few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    written = io.BytesIO()
    few.save(written, "PNG", optimize=True)
    return written.getvalue()


if __name__ == "__main__":
    sys.exit(main())
