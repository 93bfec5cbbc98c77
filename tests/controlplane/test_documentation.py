"""The documentation's site: its files are served, and the browser may run what stands in its pages."""

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

ROOT = Path(__file__).parents[2]


@pytest.fixture
def site(tmp_path: Path, settings: Any) -> Path:
    (tmp_path / "site" / "assets").mkdir(parents=True)
    (tmp_path / "site" / "index.html").write_text("<script>first()</script><p>Welcome</p>")
    (tmp_path / "site" / "assets" / "a.js").write_text("first = () => 1")
    (tmp_path / "secret").write_text("not for readers")
    settings.DOCUMENTATION_SITE = tmp_path / "site"
    return tmp_path / "site"


@pytest.mark.usefixtures("site")
def test_its_first_page_is_shown_without_a_name() -> None:
    answer = Client().get("/docs", follow=True)
    assert answer.redirect_chain == [("/docs/", 302)]
    assert b"Welcome" in answer.getvalue()


@pytest.mark.usefixtures("site")
def test_only_the_scripts_of_the_page_itself_may_run_in_it() -> None:
    digest = base64.b64encode(hashlib.sha256(b"first()").digest()).decode()
    policy = Client().get("/docs/index.html")["Content-Security-Policy"]
    assert f"script-src 'self' 'sha256-{digest}';" in policy
    assert "sha256" not in Client().get("/docs/assets/a.js").headers.get("Content-Security-Policy", "")


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize(
    "path", ["nothing.html", "../secret", "%2e%2e/secret", "assets/../../secret", "assets/"]
)
def test_nothing_else_is_served(path: str) -> None:
    assert Client().get(f"/docs/{path}").status_code in (400, 404)


def test_where_it_is_not_built_the_page_says_how(tmp_path: Path, settings: Any) -> None:
    settings.DOCUMENTATION_SITE = tmp_path
    answer = Client().get("/docs/")
    assert (answer.status_code, b"make docs" in answer.content) == (503, True)


def test_the_dashboard_links_to_pages_that_there_are() -> None:
    linked = re.findall(r'"(\S+)\.html"', (ROOT / "frontend" / "src" / "app" / "help.ts").read_text())
    assert len(linked) > 10
    sources = {ROOT / "docs" / f"{page.replace('api/index', 'api/README')}.md" for page in linked}
    assert [source for source in sources if not source.exists()] == []
