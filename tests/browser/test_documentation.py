"""The documentation in a browser: it opens where it helps and searches without a network."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_help_opens_the_page_that_explains_this_one_and_searches_all(open_page) -> None:
    page = open_page("vera", "/cells")
    with page.context.expect_page() as opened:
        page.get_by_role("button", name="Help").click()
        page.get_by_role("link", name="Help for this page").click()
    expect(opened.value.get_by_role("heading", name=re.compile("^Cells"), level=1)).to_be_visible()
    docs = page.context.new_page()
    wrong: list[str] = []
    docs.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    docs.on("requestfailed", lambda request: wrong.append(request.url))
    docs.goto(opened.value.url)
    expect(docs.get_by_role("heading", name=re.compile("^Cells"), level=1)).to_be_visible()
    docs.get_by_role("textbox", name="Search").fill("guaranteed")
    expect(docs.locator(".md-search-result__item").first).to_be_visible()
    assert wrong == []
