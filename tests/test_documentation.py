"""The documentation's site builds without a warning, and needs nothing from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


class _Page:
    class file:
        src_uri = "tutorials/first.md"


def test_a_link_that_leaves_the_site_names_its_file() -> None:
    text = "[the map](../../scheduler/README.md), [policies](../policies.md), [0003](../decisions/0003-x.md)"
    assert on_page_markdown(text, page=_Page) == (
        "the map (`scheduler/README.md`), [policies](../policies.md), 0003 (`docs/decisions/0003-x.md`)"
    )
