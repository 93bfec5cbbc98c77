"""The Chromium that browser tests and `make screenshots` steer."""

import shutil

from playwright.sync_api import Browser, Playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: It may run as root in a container, without a graphics card, and may reach nothing but the platform.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def launch(playwright: Playwright) -> Browser:
    """Start it. Raises AssertionError where it is not installed."""
    found = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    assert found, "Chromium is missing: run scripts/browser"
    return playwright.chromium.launch(executable_path=found, args=list(FLAGS))
