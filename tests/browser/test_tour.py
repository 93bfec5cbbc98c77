"""The tour at the first sign-in: what it points at is there, and afterwards it is gone for good."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import has_seen_tour
from tests.browser.test_accessibility import AXE, looked_at

pytestmark = pytest.mark.browser

#: The steps of each role.
TITLES = {
    "mara": [
        "Submit a job",
        "GPUs of your tenants",
        "Why a job waits",
        "Go anywhere",
        "Help and documentation",
    ],
    "vera": [
        "Submit a job",
        "GPUs of your tenants",
        "Why a job waits",
        "Your tenant",
        "Go anywhere",
        "Help and documentation",
    ],
    "operator": [
        "Add nodes",
        "Share the GPUs out",
        "Submit a job",
        "Why a job waits",
        "Go anywhere",
        "Help and documentation",
    ],
}
#: Whether the card is within the window, and covers nothing of a spot that fits into it.
SEEN = """() => {
    const spot = document.querySelector('[data-found="true"]').getBoundingClientRect();
    const card = document.querySelector("[role=dialog]").getBoundingClientRect();
    const inside = ({ left, top, right, bottom }) =>
        left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight;
    const apart = card.left >= spot.right || card.right <= spot.left
        || card.top >= spot.bottom || card.bottom <= spot.top;
    return { shows: inside(card), apart: apart || !inside(spot) };
}"""

#: Whether the spot is around the button of the menu.
POINTS_AT_THE_MENU = """() => {
    const spot = document.querySelector('[data-found="true"]').getBoundingClientRect();
    const menu = document.querySelector('header button[aria-label="Menu"]').getBoundingClientRect();
    return spot.left <= menu.left && spot.right >= menu.right
        && spot.top <= menu.top && spot.bottom >= menu.bottom;
}"""


@pytest.fixture
def as_new(garden):
    """Let a user count as one who has not seen the tour; afterwards all users have seen it."""
    made = []

    def make(username: str) -> None:
        made.append(username)
        has_seen_tour(garden, username, seen=False)

    yield make
    for username in made:
        has_seen_tour(garden, username)


# Every role, and every width; the slow ones are the other pairs.
@pytest.mark.parametrize(
    ("username", "width"),
    [
        ("operator", 1440),
        ("vera", 390),
        pytest.param("mara", 1440, marks=pytest.mark.slow),
        pytest.param("vera", 1440, marks=pytest.mark.slow),
        pytest.param("mara", 390, marks=pytest.mark.slow),
        pytest.param("operator", 390, marks=pytest.mark.slow),
    ],
)
def test_the_tour_points_at_what_is_there_and_axe_finds_no_violation(as_new, open_page, username, width):
    as_new(username)
    page = open_page(username, "/healthz", width=width, height=844, reduced_motion="reduce")
    page.add_init_script(path=AXE)
    page.goto("/")
    on_a_phone = width < 400
    titles = [title for title in TITLES[username] if not (on_a_phone and title == "Go anywhere")]
    found = []
    for title in titles:
        card = page.get_by_role("dialog", name=title)
        expect(card).to_be_visible()
        expect(page.locator('[data-found="true"]')).to_be_visible()
        if "This menu" in card.inner_text():
            page.wait_for_function(POINTS_AT_THE_MENU)
        page.wait_for_function(f"() => {{ const seen = ({SEEN})(); return seen.shows && seen.apart; }}")
        if title in (titles[0], titles[-1]):
            found += looked_at(page)
        card.get_by_role("button", name=re.compile("Next|Done")).click()
    assert not found, "\n".join(found)
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_it_is_skipped_at_once_comes_back_nowhere_and_goes_on_from_the_navigation(as_new, open_page):
    as_new("mara")
    page = open_page("mara", own_session=True)
    expect(page.get_by_role("dialog", name="Submit a job")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="GPUs of your tenants")).to_be_visible()
    with page.expect_response("**/api/v1/session/tour"):
        page.keyboard.press("Escape")
    is_gone(page)
    page.get_by_role("link", name="Nodes", exact=True).click()
    expect(page.get_by_role("heading", name="Nodes", exact=True)).to_be_visible()

    other = open_page("mara", own_session=True)
    is_gone(other)
    loaded = other.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
    assert not [name for name in loaded if "/tour-" in name], "those who saw it load nothing of it"
    assert [name for name in loaded if "/assets/" in name]

    page.get_by_role("button", name="Help").click()
    page.get_by_role("button", name="Tour").click()
    expect(page.get_by_role("dialog", name="GPUs of your tenants")).to_be_visible()
    expect(page.get_by_role("heading", name="Overview", include_hidden=True)).to_be_visible()
    page.get_by_role("button", name="Skip").click()
    is_gone(page)


def test_the_page_can_be_used_meanwhile(as_new, open_page):
    as_new("mara")
    page = open_page("mara", own_session=True)
    expect(page.get_by_role("dialog", name="Submit a job")).to_be_visible()
    # One click does what it says, and the tour is over.
    with page.expect_response("**/api/v1/session/tour"):
        page.get_by_role("link", name="Nodes", exact=True).click()
    expect(page.get_by_role("heading", name="Nodes", exact=True)).to_be_visible()
    is_gone(page)


def test_a_page_that_was_asked_for_stays_in_sight(as_new, open_page):
    as_new("mara")
    page = open_page("mara", "/nodes", own_session=True)
    expect(page.get_by_role("heading", name="Nodes", exact=True)).to_be_visible()
    is_gone(page)
    page.get_by_role("link", name="Overview", exact=True).click()
    expect(page.get_by_role("dialog", name="Submit a job")).to_be_visible()


def is_gone(page: Page) -> None:
    """Nothing of the tour is left over the page, which can be used."""
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("[data-found]")).to_have_count(0)
    page.wait_for_function("() => getComputedStyle(document.body).pointerEvents === 'auto'")
