"""docs/reproduction.md says what its commands print: each is run again, and its tables are read.

`<!-- held: mean; p90 -->` before a table names the columns whose figures the command above it prints, and
`<!-- held 1; 3: Muri-S -->` only those of the rows 1 and 3. A figure is the first number of its cell,
or of each part between slashes, and is printed if a printed number is the same to the digits that both have.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "reproduction.md"
DATA = ROOT.parent / "shared" / "data"
#: The longest commands run all of Muri's traces, and 15,000 of Philly's jobs under seven policies.
LIMIT_SECONDS = 60 * PATIENCE_SECONDS

NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?")
HELD = re.compile(r"<!-- held(?P<rows>[^:]*): (?P<columns>.+) -->")


@dataclass(frozen=True)
class Table:
    """The figures of a table, and the command that prints them."""

    title: str
    command: str
    #: By row: its name, and the text of each cell that is held.
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def held_tables(page: str) -> list[Table]:
    """Return the marked tables of a page.

    Raises `ValueError` where a mark names a row or a column that its table lacks.
    """
    lines, tables = page.splitlines(), list[Table]()
    title = command = ""
    for number, line in enumerate(lines):
        if line.startswith("## "):
            title = line.removeprefix("## ")
        elif line.startswith("```sh"):
            command = "\n".join(lines[number + 1 : lines.index("```", number + 1)])
        elif mark := HELD.fullmatch(line):
            heads = cells(lines[number + 1])
            columns = [heads.index(name) for name in mark["columns"].split("; ")]
            wanted = mark["rows"].strip().split("; ") if mark["rows"] else []
            rows = list[tuple[str, tuple[str, ...]]]()
            for row in lines[number + 3 :]:
                if not row.startswith("|"):
                    break
                name, *_ = texts = cells(row)
                if not wanted or name in wanted:
                    rows.append((name, tuple(texts[column] for column in columns)))
            if missing := set(wanted) - {name for name, _ in rows}:
                raise ValueError(f"{title}: its table has no row {missing}")
            tables.append(Table(title, command, tuple(rows)))
    return tables


def agree(figure: str, printed: str) -> bool:
    """Whether two numbers are the same to the digits that both have."""
    decimals = min(len(text.partition(".")[2]) for text in (figure, printed))
    difference = abs(float(figure.replace(",", "")) - float(printed.replace(",", "")))
    return difference <= 0.5001 * 10**-decimals


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the published traces")
@pytest.mark.timeout(LIMIT_SECONDS + PATIENCE_SECONDS)
@pytest.mark.parametrize("table", held_tables(PAGE.read_text()), ids=lambda table: table.title.split(":")[0])
def test_the_figures_are_those_that_the_command_prints(table: Table) -> None:
    output = printed_by(table.command)
    printed = NUMBER.findall(output)
    for name, texts in table.rows:
        for text in texts:
            for figure in filter(None, map(NUMBER.search, text.split(" / "))):
                said = f"{name}: {figure[0]} is not among what it printed:\n{output}"
                assert any(agree(figure[0], each) for each in printed), said


@cache
def printed_by(command: str) -> str:
    """Run a command of the page, and return what it prints; several tables may be of one command."""
    programs = f'manage.py() {{ python {ROOT}/manage.py "$@"; }}\n'
    command = command.replace("benchmarks/", f"{ROOT}/benchmarks/")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    folders = f"{ROOT}{os.pathsep}{ROOT / 'platform'}"
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir()
        # By their own names too, as `manage.py data get` stores them.
        for source in (*DATA.iterdir(), *(DATA / "traces").iterdir()):
            if source.is_dir():
                (data / source.name).symlink_to(source)
        return subprocess.run(
            ["bash", "-c", programs + command],
            cwd=folder,
            env=os.environ | {"D": str(data), "PATH": path, "PYTHONPATH": folders, "COLUMNS": "250"},
            stdout=subprocess.PIPE,
            text=True,
            timeout=LIMIT_SECONDS,
            check=True,
        ).stdout


def test_a_mark_names_what_its_table_has() -> None:
    rows = "| x | y | z |\n|---|---|---|\n| a | 1 (2) | 3 |\n| b | 4 | 5 |\n| c | | 6 |\n"
    page = f"## T\n```sh\ntrue\n```\n<!-- held a; c: y -->\n{rows}"
    (table,) = held_tables(page)
    assert table == Table("T", "true", (("a", ("1 (2)",)), ("c", ("",))))
    with pytest.raises(ValueError, match="no row"):
        held_tables(page.replace("held a; c", "held a; d"))
    with pytest.raises(ValueError, match="not in list"):
        held_tables(page.replace(": y -->", ": w -->"))


@pytest.mark.parametrize(
    ("figure", "printed", "same"),
    [
        ("2.6", "2.61", True),
        ("23,512.0435", "23512.043", True),
        ("2.7", "2.61", False),
        ("83.0", "83.04", True),
    ],
)
def test_what_is_the_same_to_the_digits_of_both(figure: str, printed: str, same: bool) -> None:
    assert agree(figure, printed) == same
