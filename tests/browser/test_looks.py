"""Widths, themes and the keyboard: no page runs off the screen or loses its way."""

import gzip
import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.installation import ROOT
from tests.patience import until

pytestmark = pytest.mark.browser

PAGES = ["/", "/jobs", "/submit", "/nodes", "/virtual-clusters", "/tenants", "/rounds", "/events", "/account"]
PAGES += ["/cells", "/cells/edit", "/cells/advice", "/virtual-clusters/vision-vc/anomalies"]
PAGES += ["/throughputs", "/failures", "/failures?tab=rules", "/virtual-clusters/vision-vc/targets"]
PAGES += ["/users", "/market", "/market?tab=credits", "/ledger"]
PAGES += ["/virtual-clusters/vision-vc/fairness"]
#: After two frames, in the first of which a page learns of its new width.
BEYOND = """() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => {
    const root = document.documentElement;
    resolve(root.scrollWidth - root.clientWidth);
})))"""


@pytest.mark.slow
def test_no_page_is_wider_than_the_screen(garden, open_page):
    job = garden.submit("sleep 600", name="a-job-with-quite-a-long-name-that-must-not-push-anything-away")
    page = open_page("operator")
    for path in [*PAGES, f"/jobs/{job}", f"/jobs/{job}?tab=log", "/nodes/bed-1", "/tenants/vision"]:
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_label("Loading")).to_have_count(0)
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 844})
            beyond = page.evaluate(BEYOND)
            assert beyond <= 0, f"{path} is {beyond} pixels too wide for {width}"


def test_a_phone_shows_why_a_job_failed_without_scrolling_sideways(garden, open_page):
    """A cell of sentences stands below the others of its row; beside them it was off the screen."""
    job = garden.submit("echo no such data set; exit 3", name="fails-on-a-phone")
    until(lambda: garden.platform.call("GET", f"jobs/{job}")["state"] == "failed", "the job to fail")
    page = open_page("vera", width=390, height=844)
    for path, header in (("/failures", "Cause"), (f"/events?job={job}", "Message")):
        page.goto(path)
        row = page.get_by_role("row", name=re.compile("fails-on-a-phone")).first
        cell = row.locator(f"[data-label={header}]")
        expect(cell).to_be_visible()
        assert cell.inner_text(), f"{path} says nothing of the job"
        box = cell.bounding_box()
        assert 0 <= box["x"] <= 390 - box["width"], f"{path}: {box}"
        others = row.evaluate("(row) => row.firstElementChild.getBoundingClientRect().bottom")
        assert box["y"] >= others, f"{path}: the sentences stand beside the other cells"


def test_a_phone_shows_a_job_of_many_metrics_without_scrolling_sideways(garden, open_page):
    values = {f"evaluation_metric_{number}": 1 for number in range(6)}
    lines = [f"echo '{json.dumps({'step': step, **values})}' >> $ALLOT_PROGRESS" for step in (1, 2)]
    job = garden.submit("; ".join([*lines, "sleep 600"]), name="many-metrics")
    page = open_page("vera", f"/jobs/{job}", width=390, height=844)
    expect(page.get_by_role("radio", name=re.compile("Evaluation metric"))).to_have_count(6)
    assert page.evaluate(BEYOND) <= 0


def test_the_theme_follows_the_system_until_one_is_chosen(open_page):
    page = open_page("vera", "/account", color_scheme="dark")
    root = page.locator("html")
    expect(root).to_have_attribute("data-theme", "dark")
    page.get_by_role("radio", name="Light").click()
    expect(root).to_have_attribute("data-theme", "light")
    page.reload()
    expect(root).to_have_attribute("data-theme", "light")


def test_the_phone_menu_leads_everywhere(open_page):
    page = open_page("vera", width=390, height=844)
    menu = page.get_by_role("button", name="Menu")
    menu.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(menu).to_be_focused()
    menu.click()
    page.get_by_role("dialog").get_by_role("link", name="Nodes").click()
    expect(page.get_by_role("heading", name="Nodes")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_an_address_that_leads_nowhere_says_so(open_page):
    page = open_page("vera", "/no/such/page")
    expect(page.get_by_text("There is no such page")).to_be_visible()
    page.get_by_role("link", name="Go to the overview").click()
    expect(page).to_have_url(re.compile("/$"))


def test_the_first_key_leads_past_the_navigation(open_page):
    page = open_page("vera")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()


def test_the_controls_above_the_jobs_do_not_wrap(open_page):
    """Names of virtual clusters widen a choice; on a laptop all controls still have one line."""
    page = open_page("operator", "/jobs", width=1440)
    tops = """(controls) => controls.map((control) => control.getBoundingClientRect().top)"""
    exports = page.get_by_role("link", name=re.compile("^(CSV|Parquet)$"))
    expect(exports).to_have_count(2)
    assert len(set(exports.evaluate_all(tops))) == 1
    choices = page.get_by_role("main").get_by_role("combobox")
    expect(choices).to_have_count(4)
    assert len(set(choices.evaluate_all(tops))) == 1
    assert page.get_by_role("button", name="Columns").evaluate(
        "(button) => button.offsetTop"
    ) == choices.last.evaluate("(choice) => choice.offsetTop")


def test_figures_end_where_their_header_ends(open_page):
    """Also under a header that sorts, whose arrow takes room."""
    page = open_page("operator", "/tenants")
    expect(page.get_by_role("columnheader", name="Members").get_by_role("button")).to_be_visible()
    ends = """(cell) => {
        const text = document.createRange();
        text.selectNode(document.createTreeWalker(cell, NodeFilter.SHOW_TEXT).nextNode());
        return text.getBoundingClientRect().right;
    }"""
    header = page.get_by_role("columnheader", name="Members").evaluate(ends)
    figure = page.get_by_role("row", name="vision").get_by_role("cell").nth(2).evaluate(ends)
    assert abs(header - figure) < 1


DIST = ROOT / "frontend" / "dist"
#: What the address of a page makes a browser fetch; fonts and pictures are no code.
PAGE_BUDGET_BYTES = 200_000
#: Pages that show an editor of YAML, with its parser (118 kB).
EDITOR_PAGES = {"src/features/submit/submit-page.tsx", "src/features/cell-editor/editor-page.tsx"}
EDITOR_PAGE_BUDGET_BYTES = 306_000
#: Pages whose curves are below what a screen shows at first; a test below scrolls to them.
PAGES_ABOVE_CURVES = {"src/features/job/job-page.tsx", "src/features/nodes/node-page.tsx"}
CURVES = "src/components/chart-drawing.ts"
#: What a browser fetches only when its user clicks for it; dialogs besides.
ON_DEMAND = {
    "src/components/gpu-map/gpu-table.tsx",
    "src/components/metrics/metrics-panel.tsx",
    "src/components/terminal/terminal.tsx",
    "src/features/job/artefacts-panel.tsx",
    "src/features/job/log-view.tsx",
    "src/features/job/specification.tsx",
    "src/features/jobs/saved-searches.tsx",
    "src/features/jobs/side-panel.tsx",
    "src/features/submit/folder/bring-folder.ts",
    "src/features/submit/save-template.tsx",
}
#: All pages together: what somebody fetches in time who visits every one. 70 kB of it is the terminal, which
#: only those load who open a shell, and 14 kB what packs a folder, for those who choose one.
TOTAL_BUDGET_BYTES = 635_000


def test_what_a_first_visit_loads_stays_within_its_budget():
    chunks = json.loads((DIST / "chunks.json").read_text())
    entry = files_of(chunks, "index.html", lazily=False)
    pages = chunks["index.html"]["dynamicImports"]
    assert len(pages) > 10
    assert set(pages) > EDITOR_PAGES | PAGES_ABOVE_CURVES
    curves = files_of(chunks, CURVES, lazily=False)
    for page in pages:
        files = entry | files_of(chunks, page, lazily=True)
        if page in PAGES_ABOVE_CURVES:
            assert files > curves
            files -= curves
        size_bytes = compressed(files)
        budget = EDITOR_PAGE_BUDGET_BYTES if page in EDITOR_PAGES else PAGE_BUDGET_BYTES
        assert 100_000 < size_bytes < budget, f"{page} makes a browser load {size_bytes} bytes"


def test_curves_are_fetched_when_they_come_into_view(open_page):
    page = open_page("operator", "/nodes")
    fetched: list[str] = []

    def note(request):
        fetched.append(request.url)

    page.on("request", note)
    page.goto("/nodes/bed-1")
    curve = page.get_by_role("img", name="CPU of the machine")
    expect(curve).to_be_attached()
    page.evaluate(BEYOND)
    assert any("node-page" in url for url in fetched)
    assert not any("chart-drawing" in url for url in fetched)
    curve.scroll_into_view_if_needed()
    expect(curve.locator("canvas")).to_be_visible()
    assert any("chart-drawing" in url for url in fetched)
    page.remove_listener("request", note)


def test_all_pages_together_stay_within_their_budget():
    every = {path.relative_to(DIST).as_posix() for path in (DIST / "assets").iterdir()}
    assert 100_000 < compressed(every) < TOTAL_BUDGET_BYTES


def test_the_licences_of_all_that_is_shipped_are_shipped_with_it():
    shipped = json.loads((ROOT / "frontend" / "package.json").read_text())["dependencies"]
    text = (DIST / "licenses.md").read_text()
    assert [name for name in shipped if f"## {name} - " not in text] == [
        "@fontsource-variable/ibm-plex-sans",  # In a file of its own.
        "radix-ui",  # Each of its packages by itself.
    ]
    assert "## @radix-ui/react-dialog - " in text
    assert "SIL OPEN FONT LICENSE" in (DIST / "ibm-plex-sans-license.txt").read_text()


def files_of(chunks: dict, name: str, *, lazily: bool) -> set[str]:
    """Return the files of a chunk and of what it imports; `lazily` with what it loads once it is shown."""
    found: set[str] = set()
    left, seen = [name], {"index.html"} - {name}
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        chunk = chunks[name]
        found |= {chunk["file"], *chunk.get("css", ())}
        left += chunk.get("imports", ())
        if lazily:
            left += [other for other in chunk.get("dynamicImports", ()) if not is_on_demand(other)]
    return found


def is_on_demand(chunk: str) -> bool:
    return chunk in ON_DEMAND or Path(chunk).stem.endswith(("-dialog", "-dialogs"))


def compressed(files: set[str]) -> int:
    code = [DIST / file for file in sorted(files) if file.endswith((".js", ".css"))]
    return sum(len(gzip.compress(path.read_bytes())) for path in code)
