"""Texts avoid the turns that docs/style.md lists.

Neither what users read (strings of the product, the dashboard) nor docstrings, comments and docs have any.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TURNS = re.compile(
    r"\b(?:nobody|whoever|whomever|so many|anew|foretold|foretells?|(?:is|are|be) told|told of|least run"
    r"|here and alone|what is not said)\b"
    # A sentence that begins with "Of".
    r"|(?:^|(?<=[.:;] ))Of (?:what|whom|those|all|its|the|each|an?|two|one|several|it)\b",
    re.IGNORECASE,
)
TS_COMMENT = re.compile(r"/\*.*?\*/|(?<!:)//[^\n]*", re.DOTALL)
PRODUCT = ("platform", "scheduler", "tenants")
#: Strings that are no text: names, values that are stored, words within a longer sentence.
NO_TEXT = {
    "nobody",  # A user of the system, and a kind of the audit log's.
    "postgresql://nobody@127.0.0.1:1/none",
}
#: The address of a link, which may name a file of before.
ADDRESS = re.compile(r"\]\([^)]*\)")


def sources() -> Iterator[Path]:
    for folder in PRODUCT:
        yield from (path for path in sorted((ROOT / folder).rglob("*.py")) if "migrations" not in path.parts)


def docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first.value


def strings(source: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each string that is no docstring."""
    tree = ast.parse(source.read_text())
    passed = {id(each) for each in docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in passed:
            yield node.lineno, node.value


def comments(source: Path) -> Iterator[str]:
    """Yield each docstring and each block of comment lines, as one line: a turn may be broken over two."""
    text = source.read_text()
    yield from (" ".join(str(each.value).split()) for each in docstrings(ast.parse(text)))
    block, expected = list[str](), (0, 0)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if token.start != expected:
                yield " ".join(block)
                block.clear()
            block.append(token.string.lstrip("#: "))
            expected = token.start[0] + 1, token.start[1]
    yield " ".join(block)


def is_text(value: str) -> bool:
    """Whether a string is a whole sentence or more, and not a word inside one."""
    return value not in NO_TEXT and " " in value.strip() and value[:1].isupper() and not value.isupper()


def test_what_the_server_the_agent_and_the_command_say() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {turn[0]!r} in {value[:80]!r}"
        for path in sources()
        for line, value in strings(path)
        if is_text(value) and (turn := TURNS.search(value))
    ]
    assert found == []


def test_what_the_dashboard_says() -> None:
    found = []
    for path in sorted((ROOT / "frontend" / "src").rglob("*.ts*")):
        if ".test." in path.name or path.name == "schema.d.ts":
            continue
        text = re.sub(
            r"/\*.*?\*/|(?<!:)//[^\n]*",
            lambda each: "\n" * each[0].count("\n"),
            path.read_text(),
            flags=re.DOTALL,
        )
        for number, line in enumerate(text.splitlines(), 1):
            if (turn := TURNS.search(line)) and not re.search(r'"nobody"', line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {turn[0]!r} in {line.strip()[:80]!r}")
    assert found == []


def test_comments_and_docstrings() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {turn[0]!r} in {text[:80]!r}"
        for path in sources()
        for text in comments(path)
        if (turn := TURNS.search(text))
    ]
    assert found == [], "docs/style.md has better words"


def test_docs() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    found = [
        f"{page.relative_to(ROOT)}: {turn[0]!r}"
        for page in pages
        if page.name != "style.md"
        for turn in TURNS.finditer(" ".join(ADDRESS.sub("]", page.read_text()).split()))
    ]
    assert found == [], "docs/style.md has better words"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Nobody waits.", True),
        ("It waits. Of the jobs one runs.", True),
        ("Of course.", False),
        ("The price of the GPU", False),
        ("It is sent anew.", True),
    ],
)
def test_the_turns_are_found(text: str, found: bool) -> None:
    assert bool(TURNS.search(text)) == found


def test_turns_that_are_broken_over_two_lines_are_found(tmp_path: Path) -> None:
    source = tmp_path / "source.py"
    source.write_text('"""A job is\n    told."""\n# So\n# many.\n\n# So\n\n# many.\n')
    assert [bool(TURNS.search(text)) for text in comments(source) if text] == [True, True, False, False]
