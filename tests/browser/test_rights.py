"""Secrets, invitations and the audit log, from page to page."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PASSWORD

pytestmark = pytest.mark.browser


def test_a_secret_and_an_invitation_are_made_and_the_audit_log_tells_of_both(open_page):
    admin = open_page("vera", "/tenants/vision")
    admin.get_by_role("button", name="Set a secret").click()
    dialog = admin.get_by_role("dialog", name="Set a secret")
    dialog.get_by_label("Name").fill("HF_TOKEN")
    dialog.get_by_label("Value").fill("hf_nobody_reads_this")
    dialog.get_by_role("button", name="Set", exact=True).click()
    secrets = admin.get_by_role("table", name="Secrets")
    expect(secrets.get_by_role("row", name="HF_TOKEN")).to_contain_text("by vera")

    admin.get_by_role("button", name="Invite", exact=True).click()
    dialog = admin.get_by_role("dialog", name="Invite to vision")
    dialog.get_by_role("button", name="Invite").click()
    link = admin.get_by_role("dialog").locator("code").text_content()
    admin.get_by_role("button", name="Done").click()
    invited = admin.get_by_role("table", name="Invitations").get_by_role("row", name="Anyone with the link")
    expect(invited).to_contain_text("Member")

    guest = open_page(None, link)
    expect(guest.get_by_role("heading", name="Join Vision group")).to_be_visible()
    guest.get_by_label("User name").fill("gwen")
    guest.get_by_label("Password").fill(PASSWORD)
    guest.get_by_role("button", name="Make an account and join").click()
    expect(guest.get_by_role("heading", name="Vision group", exact=True)).to_be_visible()

    admin.reload()
    members = admin.get_by_role("table", name="Members")
    expect(members.get_by_role("row", name="gwen")).to_be_visible()
    expect(admin.get_by_text("No open invitations")).to_be_visible()

    admin.goto("/audit?action=secret.")
    log = admin.get_by_role("list", name="Audit log")
    entry = log.get_by_role("listitem").filter(has_text="HF_TOKEN").filter(has_text="vera").first
    entry.get_by_role("button", name="Details").click()
    expect(entry.get_by_role("table").get_by_role("row", name="name HF_TOKEN")).to_be_visible()
    expect(admin.locator("main")).not_to_contain_text("hf_nobody_reads_this")


def test_who_may_only_look_is_offered_neither(open_page):
    page = open_page("victor", "/tenants/vision")
    expect(page.get_by_role("table", name="Members")).to_be_visible()
    expect(page.get_by_role("button", name="Set a secret")).to_have_count(0)
    expect(page.get_by_role("button", name="Invite", exact=True)).to_have_count(0)
