"""Signing in and out, and what each role may do."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PASSWORD

pytestmark = pytest.mark.browser


def test_signing_in_leads_to_the_page_that_was_asked_for(open_page):
    page = open_page(None, "/nodes")
    page.get_by_label("User name").fill("vera")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()

    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_label("Password").press("Enter")
    expect(page.get_by_role("heading", name="Nodes", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile("/nodes$"))

    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("User name")).to_be_visible()
    page.reload()
    expect(page.get_by_label("User name")).to_be_visible()


def test_a_session_that_ends_elsewhere_leads_back_to_signing_in(open_page):
    page = open_page("vera", own_session=True)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.context.clear_cookies()
    # If it is still there: whatever the page asks for meanwhile leads to signing in as well.
    page.evaluate("""document.querySelector('a[href="/tenants"]')?.click()""")
    expect(page.get_by_label("User name")).to_be_visible()


def test_a_viewer_looks_but_is_offered_no_action(garden, open_page):
    job = garden.submit("sleep 600", name="looked-at")
    page = open_page("victor", f"/jobs/{job}")
    expect(page.get_by_role("heading", name="looked-at")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel job")).to_have_count(0)
    expect(page.get_by_role("link", name="Rounds")).to_have_count(0)
    expect(page.get_by_role("link", name="Submit a job")).to_have_count(0)
    page.goto("/submit")
    expect(page.get_by_text("You cannot submit jobs")).to_be_visible()


def test_a_page_learns_what_its_viewer_may_do_now(garden, open_page):
    page = open_page("victor", "/submit")
    expect(page.get_by_text("You cannot submit jobs")).to_be_visible()
    membership = "tenants/vision/members/victor"
    garden.platform.call("PUT", membership, {"role": "member"})
    try:
        expect(page.get_by_text("You cannot submit jobs")).to_have_count(0)
    finally:
        garden.platform.call("PUT", membership, {"role": "viewer"})
    expect(page.get_by_text("You cannot submit jobs")).to_be_visible()


def test_jobs_of_other_tenants_do_not_exist_for_a_stranger(garden, open_page):
    job = garden.submit("sleep 600", name="not-yours", tenant="speech")
    garden.platform.wait_for(job, "running")
    page = open_page("vera", f"/jobs/{job}")
    expect(page.get_by_role("alert")).to_be_visible()
    page.goto("/")
    expect(page.get_by_text("In use by another tenant")).to_be_visible()
    expect(page.get_by_text("not-yours")).to_have_count(0)


def test_a_token_is_shown_once_works_and_can_be_revoked(garden, open_page):
    page = open_page("vera", "/account")
    page.get_by_role("button", name="New token").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("laptop")
    dialog.get_by_role("button", name="Create").click()
    token = dialog.locator("code").inner_text()
    bearer = {"Authorization": f"Bearer {token}"}
    answer = garden.platform.api.get("session", headers=bearer)
    assert answer.json()["user"]["username"] == "vera"

    dialog.get_by_role("button", name="Done").click()
    expect(page.get_by_text(token)).to_have_count(0)
    page.get_by_role("button", name="Revoke laptop").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("No tokens")).to_be_visible()
    assert garden.platform.api.get("session", headers=bearer).status_code == 401


def test_a_page_that_cannot_be_fetched_says_why_and_comes_when_the_server_is_there_again(open_page):
    page = open_page("vera", "/jobs", own_session=True)
    link = page.get_by_role("complementary").get_by_role("link", name="Calendar")
    expect(link).to_be_visible()
    page.context.set_offline(True)
    link.click()
    notice = page.get_by_role("alert").filter(has_text="The server cannot be reached.")
    again = notice.get_by_role("button", name="Try again")
    again.click()
    expect(notice).to_be_visible()
    page.context.set_offline(False)
    again.click()
    expect(page.get_by_role("heading", name="Calendar", level=1)).to_be_visible()
