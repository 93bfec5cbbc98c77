"""What the documentation's site makes of its pages: a hook of MkDocs (mkdocs.yml)."""

import re
from typing import Any

#: A link to a file of the repository that is no page of the site.
_OUTSIDE = re.compile(
    r"\[([^\]]+)\]\(((?:\.\./)+(?!tutorials/|api/)[^)#\s]+|(?:\.\./)*decisions/[^)\s]+)(#[^)]*)?\)"
)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Name the file where a page links to one that the site does not have: sources, examples, decisions."""
    depth = page.file.src_uri.count("/")

    def named(link: re.Match[str]) -> str:
        words, target = link.group(1), link.group(2)
        ups = target.count("../")
        if ups <= depth and not target.removeprefix("../" * ups).startswith("decisions/"):
            return link.group(0)
        path = target.removeprefix("../" * ups).rstrip("/")
        return f"{words} (`{'docs/' if path.startswith('decisions/') else ''}{path}`)"

    return _OUTSIDE.sub(named, markdown)
