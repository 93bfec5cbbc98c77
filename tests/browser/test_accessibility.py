"""axe finds no violation on any page, for a member, an admin of a tenant and an operator, light and dark."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.installation import ROOT

pytestmark = pytest.mark.browser

AXE = ROOT / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
ALL = {"runOnly": {"type": "tag", "values": TAGS}}
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
ALL_BUT_COLOURS = {**ALL, "rules": {"color-contrast": {"enabled": False}}}

#: Pages that every role sees. Names in braces are those of `furnished`.
PAGES = ["/", "/jobs", "/submit", "/calendar", "/events", "/throughputs", "/sharing", "/account", "/ledger"]
PAGES += ["/jobs/{waiting}", "/jobs/{running}", "/jobs/{failed}"]
PAGES += ["/jobs?job={failed}", "/compare?jobs={running},{failed}"]
PAGES += ["/nodes", "/nodes/bed-1", "/cells", "/cells/edit", "/cells/advice", "/market", "/market?tab=rules"]
PAGES += ["/failures", "/failures?tab=rules", "/tenants", "/tenants/vision", "/usage", "/virtual-clusters"]
PAGES += [f"/virtual-clusters/vision-vc/{part}" for part in ("anomalies", "targets", "fairness")]
#: Tabs of a job other than the first. They are the same for every role, so one walks them.
TABS = ["log", "terminal", "metrics", "files", "events", "spec"]
PAGES_OF_ADMINS = ["/audit", "/webhooks/{webhook}", "/market?tab=credits"]
PAGES_OF_OPERATORS = ["/users", "/rounds", "/rounds/{round}", "/tokens"]
PAGES_OF_OPERATORS += [f"/jobs/{{running}}?tab={tab}" for tab in TABS]

ROLES = {
    "mara": PAGES,
    "vera": [*PAGES, *PAGES_OF_ADMINS],
    "operator": [*PAGES, *PAGES_OF_ADMINS, *PAGES_OF_OPERATORS],
}

#: A page has settled when it shows what it loaded, and nothing is about to be drawn.
SETTLED = """() => new Promise((resolve) => {
    const busy = () => document.querySelector('[aria-label="Loading"]') || !document.querySelector("h1");
    const look = () => requestAnimationFrame(() => requestAnimationFrame(() => busy() ? look() : resolve()));
    look();
})"""
#: The violations, each as one text: the rule, and for each element its beginning and what is wrong.
#: One rule has an exception: a tree item shows all that is below it, so no name of its own contains its
#: text; its name is its row as a sentence. Style sheets are not fetched again: only rules of films use them.
RUN = """async (options) => {
    axe.configure({ rules: [{ id: "label-content-name-mismatch", selector: ":not([role=treeitem])" }] });
    const found = await axe.run(document, { ...options, resultTypes: ["violations"], preload: false });
    const line = ({ html, any, all, none }) =>
        [html.slice(0, 160), ...[...any, ...all, ...none].map(({ message }) => message)].join(" ");
    const all = ({ id, help, nodes }) => [`${id}: ${help}`, ...nodes.map(line)].join("\\n    ");
    return found.violations.map(all);
}"""


@pytest.fixture
def furnished(garden, divide) -> Iterator[dict[str, Any]]:
    """Something of every kind to show; afterwards it is gone."""
    call = garden.platform.call
    divide(vision_vc={"V100-NODE": 1}, speech_vc={"V100-SWITCH": 1})
    running = garden.submit(
        'echo "::progress 0.5"; echo ready; sleep 600',
        name="runs",
        gpus=2,
        application="translate",
        throughput={"V100": 320},
    )
    failed = garden.submit("echo Traceback; exit 3", name="fails")
    garden.platform.wait_for(running, "running")
    garden.platform.wait_for(failed, "failed")
    waiting = garden.submit("sleep 600", name="waits", gpus=4)
    starts_at = datetime.now(UTC) + timedelta(days=2)
    times = {"starts_at": starts_at.isoformat(), "ends_at": (starts_at + timedelta(hours=8)).isoformat()}
    webhook = call(
        "POST",
        "webhooks",
        {"tenant": "vision", "url": "https://chat.example.org/hook", "topics": ["job.failed"]},
    )
    window = call("POST", "maintenance", {"reason": "new switches", "nodes": ["bed-2"], **times})
    invitation = call("POST", "tenants/vision/invitations", {"role": "viewer"})
    call("PUT", "tenants/vision/secrets/AXE_TOKEN", {"value": "a value"})
    search = call("POST", "jobs/searches", {"name": "runs", "search": "state=running", "tenant": "vision"})
    yield {
        "running": running,
        "failed": failed,
        "waiting": waiting,
        "webhook": webhook["id"],
        "round": call("GET", "rounds")["results"][0]["number"],
    }
    call("DELETE", f"jobs/searches/{search['id']}")
    call("DELETE", "tenants/vision/secrets/AXE_TOKEN")
    call("DELETE", f"tenants/vision/invitations/{invitation['key']}")
    call("DELETE", f"maintenance/{window['id']}")
    call("DELETE", f"webhooks/{webhook['id']}")


def test_axe_finds_no_violation_on_any_page(furnished, open_page):
    """Every day: an operator's pages hold nearly all that others see, and colours are half of the time."""
    page = open_page("operator", "/healthz", reduced_motion="reduce")
    page.add_init_script(path=AXE)
    found = []
    for path in ROLES["operator"]:
        page.goto(path.format(**furnished))
        page.evaluate(SETTLED)
        found += [f"{path} {text}" for text in page.evaluate(RUN, ALL_BUT_COLOURS)]
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("username", ROLES)
def test_axe_finds_no_violation_for_any_role_light_and_dark(username, furnished, open_page):
    page = open_page(username, "/healthz", reduced_motion="reduce")
    page.add_init_script(path=AXE)
    found = []
    for path in ROLES[username]:
        found += [f"{path} {text}" for text in violations(page, path.format(**furnished))]
    assert not found, "\n".join(found)


def test_axe_finds_no_violation_before_sign_in_in_dialogs_and_in_the_phone_menu(open_page):
    guest = open_page(None, "/healthz", reduced_motion="reduce")
    guest.add_init_script(path=AXE)
    found = violations(guest, "/")

    page = open_page("operator", "/healthz", reduced_motion="reduce")
    page.add_init_script(path=AXE)
    for path, opens in (("/", "Go to"), ("/tenants", "New tenant"), ("/nodes", "Add a node")):
        page.goto(path)
        page.get_by_role("button", name=opens).click()
        expect(page.get_by_role("dialog")).to_be_visible()
        found += looked_at(page)
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/")
    page.get_by_role("button", name="Menu").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    found += looked_at(page)
    assert not found, "\n".join(found)


def violations(page: Page, path: str) -> list[str]:
    """Return what axe finds on a page: by all of its rules in light, by that of colours in dark."""
    page.goto(path)
    return looked_at(page)


def looked_at(page: Page) -> list[str]:
    page.emulate_media(color_scheme="light")
    page.evaluate(SETTLED)
    light = page.evaluate(RUN, ALL)
    page.emulate_media(color_scheme="dark")
    page.evaluate(SETTLED)
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    dark = page.evaluate(RUN, COLOURS)
    return [f"light {text}" for text in light] + [f"dark {text}" for text in dark]


def test_the_walk_covers_every_route():
    routes = re.findall(r'path: "(.+?)"', (ROOT / "frontend/src/app/router.tsx").read_text())
    walked = {path.partition("?")[0] for paths in ROLES.values() for path in paths}
    assert len(routes) > 20

    def is_walked(route: str) -> bool:
        pattern = re.compile(re.sub(r"\$\w+", "[^/]+", route))
        return any(pattern.fullmatch(path) for path in walked)

    assert [route for route in routes if not is_walked(route)] == []
