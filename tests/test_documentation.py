"""The documentation's site builds without a warning, and needs nothing from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from markdown.extensions.toc import slugify

from scripts.documentation import on_page_markdown

ROOT = Path(__file__).parents[1]
#: What a browser fetches by itself; links that a reader follows are none of it.
_FETCHED = re.compile(r'<(?:script|link|img|iframe)[^>]*?(?:src|href)="(?:https?:)?//[^"]*"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_and_link_of_it_is_there(site: Path) -> None:
    assert {path.name for path in site.iterdir()} >= {"index.html", "policies.html", "tutorials", "search"}


def test_it_fetches_nothing_from_elsewhere(site: Path) -> None:
    fetched = {found for page in site.rglob("*.html") for found in _FETCHED.findall(page.read_text())}
    assert fetched == set()


_LINK_TO_A_PAGE = re.compile(r"\]\((docs/[^)#\s]+\.md)(?:#([^)\s]+))?\)")


def test_the_changelog_links_to_headings_that_there_are() -> None:
    """The site has no page of it, so that its build does not check them."""
    missing = []
    for page, anchor in _LINK_TO_A_PAGE.findall((ROOT / "CHANGELOG.md").read_text()):
        text = (ROOT / page).read_text() if (ROOT / page).is_file() else ""
        headings = {slugify(each, "-") for each in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)}
        if not text or (anchor and anchor not in headings | set(re.findall(r'<a id="([^"]+)"', text))):
            missing.append(f"{page}#{anchor}")
    assert missing == []


#: Columns of a line of text. Tables, headings, code, and a single word that is longer may have more.
_WIDTH = 100
_UNBROKEN = re.compile(r"\s*\||    |\t|#|<!--")


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/**/*.md")), ids=lambda page: page.stem)
def test_lines_are_short_enough_to_read_side_by_side(page: Path) -> None:
    text = page.read_text()
    if text.startswith("<!-- Written by"):
        return
    blocks = re.split(r"^\s*(?:```|~~~).*$", text, flags=re.MULTILINE)
    lines = [line for block in blocks[::2] for line in block.splitlines()]
    long = [line for line in lines if len(line) > _WIDTH and not _UNBROKEN.match(line)]
    assert [line for line in long if " " in line.strip()[: _WIDTH // 2]] == []


class _Page:
    class file:
        src_uri = "tutorials/first.md"


def test_a_link_that_leaves_the_site_names_its_file() -> None:
    text = "[the map](../../scheduler/README.md), [policies](../policies.md), [0003](../decisions/0003-x.md)"
    assert on_page_markdown(text, page=_Page) == (
        "the map (`scheduler/README.md`), [policies](../policies.md), 0003 (`docs/decisions/0003-x.md`)"
    )
