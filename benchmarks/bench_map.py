"""How smoothly the map of all GPUs is drawn in Chromium while jobs start and end on them.

    python benchmarks/bench_map.py [--gpus 10000 100000] [--seconds 20] [--jobs-per-second 10]
                                   [--round-seconds 2]

Starts its own PostgreSQL and Redis and one web server process, and makes the changes by the platform's own
code, as bench_watchers.py does: rounds, and reports of agents that jobs start and end. One operator has the
overview open, as it is built for production (`make dashboard`), in a real Chromium (scripts/browser) without
a graphics card. All of it shares this machine.

- *shown*: from the request of the page until the map has its size and is painted, the page's code and all
  nodes and jobs fetched.
- *frames*: what `requestAnimationFrame` gets in a second, the median and longest time between two frames,
  and the part of the time that is in gaps above 50 ms, which a person sees as a stutter.
- *painted*: how often the map was painted again; and the tasks of the page's scripts above 50 ms. The rest of
  the gaps is Chromium's drawing of the canvas without a graphics card.

60 frames a second are the most; the same page is measured first while nothing changes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench_interaction import missing_for_pages
from bench_round import empty
from bench_watchers import Changes, fill, until_ready
from machine import describe_machine
from playwright.sync_api import Page, sync_playwright
from servers import servers

from tests.chromium import launch

STUTTER_MS = 50
LONGEST_LOAD_MS = 300_000
#: Counts frames, and how often the map, the largest canvas, is cleared to be painted.
WATCH = """
window.at = []; window.painted = 0; window.long = [];
new PerformanceObserver((list) => { for (const each of list.getEntries()) long.push(each.duration); })
  .observe({ type: "longtask" });
const clear = CanvasRenderingContext2D.prototype.setTransform;
CanvasRenderingContext2D.prototype.setTransform = function (...given) {
  if (this.canvas.ariaHidden === "true") window.painted++;
  return clear.apply(this, given);
};
const frame = (now) => { window.at.push(now); requestAnimationFrame(frame); };
requestAnimationFrame(frame);
"""
TAKE = """() => {
  const taken = { at, painted, long };
  window.at = []; window.painted = 0; window.long = [];
  return taken;
}"""
#: All nodes are there, and no GPU is left whose job is missing: to an operator no tenant is another one.
SHOWN = """gpus => {
  const legend = document.querySelector("ul[aria-label='Legend']")?.textContent ?? "";
  return document.querySelector(`canvas[aria-label^='Map of ${gpus} GPUs']`) !== null
    && legend.includes("tenant-") && !legend.includes("In use by another tenant");
}"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpus", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--jobs-per-second", type=float, default=10.0, help="that end, and so start")
    parser.add_argument("--round-seconds", type=float, default=2.0)
    options = parser.parse_args()
    print(describe_machine())
    if missing := missing_for_pages():
        print(f"nothing measured: {missing}")
        return
    # Playwright's loop sleeps while this script changes the database.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with servers():
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        for gpus in options.gpus:
            # Those of bench_watchers; here one browser watches instead.
            given = argparse.Namespace(**{**vars(options), "gpus": gpus, "watchers": 0, "operators": 0})
            measure(given)


def measure(options: argparse.Namespace) -> None:
    from controlplane.embedded import ports
    from tenants.models import User

    empty()
    fill(options)
    changes = Changes(options)
    password = "a map of many GPUs"
    User.objects.create_user("watcher", password=password, is_operator=True, saw_tour=True)
    print(f"\n{options.gpus:,} GPUs, {changes.running:,} jobs run")
    port = ports.pick()
    with subprocess.Popen([sys.executable, "-m", "controlplane.uvicorn_server", "--port", str(port)]) as web:
        try:
            until_ready(f"http://127.0.0.1:{port}/healthz")
            with sync_playwright() as playwright, launch(playwright) as chromium:
                context = chromium.new_context(
                    base_url=f"http://127.0.0.1:{port}", viewport={"width": 1280, "height": 900}
                )
                context.set_default_timeout(LONGEST_LOAD_MS)
                session = {"username": "watcher", "password": password}
                assert context.request.post("/api/v1/session", data=session).ok
                watch(context.new_page(), options.gpus, changes, options.seconds)
        finally:
            web.terminate()


def watch(page: Page, gpus: int, changes: Changes, seconds: float) -> None:
    page.add_init_script(WATCH)
    began = time.monotonic()
    page.goto("/")
    page.wait_for_function(SHOWN, arg=gpus)
    print(f"  shown after {time.monotonic() - began:.1f} s")
    page.wait_for_load_state("networkidle")
    page.evaluate(TAKE)
    page.wait_for_timeout(5_000)
    report("nothing changes", page)
    changes.make(seconds)
    report(f"{changes.rounds} rounds, {changes.ended} jobs ended", page)


def report(name: str, page: Page) -> None:
    """Print what the page counted since the last report."""
    taken = page.evaluate(TAKE)
    at: list[float] = taken["at"]
    gaps = [after - before for before, after in pairwise(at)]
    if not gaps:
        print(f"  {name}: no frame")
        return
    stutter = sum(gap for gap in gaps if gap > STUTTER_MS) / sum(gaps)
    print(
        f"  {name}: {1_000 * len(gaps) / sum(gaps):.1f} frames/s, median {statistics.median(gaps):.1f} ms,"
        f" longest {max(gaps):.0f} ms, {stutter:.1%} of the time in gaps above {STUTTER_MS} ms;"
        f" painted {taken['painted']} times; {len(taken['long'])} tasks of the page above {STUTTER_MS} ms,"
        f" {sum(taken['long']) / sum(gaps):.1%} of the time",
        flush=True,
    )


if __name__ == "__main__":
    main()
