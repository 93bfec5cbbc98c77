"""The market on the page: offered by one, taken by another, seen by both as it happens, and in the ledger."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.fixture
def credits(garden):
    """Let speech-vc have ten credits; afterwards everybody has what is its own."""
    garden.platform.call("POST", "market/accounts/speech-vc/grant", {"credits": 10, "reason": "to try it"})
    yield
    for state in ("coming", "active"):
        for loan in garden.platform.call("GET", f"market/loans?state={state}")["results"]:
            garden.platform.call("POST", f"market/loans/{loan['id']}/end", {})


def test_what_one_offers_another_takes_and_both_see_it_at_once(garden, credits, open_page):
    lender = open_page("vera", "/market")
    lender.get_by_role("button", name="Offer", exact=True).click()
    dialog = lender.get_by_role("dialog")
    expect(dialog.get_by_label("Virtual cluster")).to_have_value("vision-vc")
    dialog.get_by_label("V100 6 owned, 6 idle now").fill("2")
    dialog.get_by_label("Credits per GPU and hour").fill("1.5")
    until = dialog.get_by_label("Until")
    in_two_hours = until.input_value()
    until.fill("2020-01-01T00:00")
    dialog.get_by_role("button", name="Offer", exact=True).click()
    expect(dialog.get_by_text(re.compile("is past; expected"))).to_be_visible()
    expect(until).to_have_attribute("aria-invalid", "true")
    until.fill(in_two_hours)

    # Whoever looks at the market meanwhile sees the offer come.
    taker = open_page("operator", "/market")
    expect(taker.get_by_text("Nothing is offered")).to_be_visible()
    dialog.get_by_role("button", name="Offer", exact=True).click()
    expect(dialog).to_have_count(0)
    expect(lender.get_by_role("button", name="Withdraw 2 V100 of vision-vc")).to_be_visible()
    expect(lender.get_by_role("button", name=re.compile("^Take"))).to_have_count(0)
    taker.get_by_role("button", name="Take 2 V100 of vision-vc").click()
    dialog = taker.get_by_role("dialog")
    expect(dialog.get_by_label("For virtual cluster")).to_have_value("speech-vc")
    expect(dialog.get_by_text("It has 10 credits.")).to_be_visible()
    ledger = open_page("vera", "/ledger?view=market")
    expect(ledger.get_by_role("list", name="Ledger")).to_contain_text("Offer")
    dialog.get_by_role("button", name="Take", exact=True).click()
    expect(dialog).to_have_count(0)

    loans = lender.get_by_role("region", name="Loans")
    expect(loans.get_by_role("row", name=re.compile("^vision-vc speech-vc 2 V100"))).to_contain_text("left")
    expect(lender.get_by_text("Nothing is offered")).to_be_visible()
    taken = ledger.get_by_role("list", name="Ledger").get_by_role("listitem").first
    expect(taken).to_contain_text("Take")
    expect(taken).to_contain_text("1.5 credits a GPU-hour")
    lender.get_by_role("tab", name="Credits").click()
    row = lender.get_by_role("region", name="Accounts").get_by_role("row", name=re.compile("^vision-vc"))
    paid = garden.platform.call("GET", "market/loans?state=active")["results"][0]["paid"]
    assert 5.9 < paid <= 6
    expect(row).to_contain_text(f"{paid:g}")
    lender.goto("/virtual-clusters")
    expect(lender.get_by_role("list", name="Loans of vision-vc")).to_contain_text(
        "Lent 2 V100 to speech-vc until"
    )
    expect(lender.get_by_role("list", name="Loans of speech-vc")).to_contain_text(
        "2 V100 from vision-vc until"
    )
