"""The core is pure: no framework, no clock, no global random numbers, no input or output."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "scheduler" / "core").rglob("*.py"))

#: Names that a pure module must not call or read.
IMPURE_CALLS = {
    "open", "print", "input", "eval", "exec", "time.time", "time.monotonic", "time.perf_counter",
    "time.process_time", "time.sleep", "now", "utcnow", "datetime.now", "datetime.utcnow", "datetime.today",
    "date.today",
    "os.urandom", "uuid.uuid4", "uuid.uuid1", "id", "hash",
}  # fmt: skip
IMPURE_MODULES = {
    "time",
    "os",
    "socket",
    "threading",
    "asyncio",
    "subprocess",
    "logging",
    "pathlib",
    "uuid",
    "io",
    "secrets",
}
FRAMEWORKS = ("django", "rest_framework", "celery", "channels", "psycopg", "redis", "httpx", "tenants")
#: What every process of the server would load with the policies: their programs import it when they compute.
SLOW_TO_LOAD = ("scipy",)


def test_imports_no_framework_and_nothing_slow() -> None:
    names = [
        ".".join(source.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for source in SOURCES
    ]
    script = (
        f"import importlib, sys\nfor name in {names}: importlib.import_module(name)\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert "scheduler" in loaded
    assert not {*FRAMEWORKS, *SLOW_TO_LOAD} & set(loaded)


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    return {str(source.relative_to(ROOT)): ast.parse(source.read_text()) for source in SOURCES}


def test_uses_no_clock_no_global_random_no_io(trees: dict[str, ast.Module]) -> None:
    """Time is `snapshot.now`, randomness is `view.dice()`: that is why any round can be replayed."""
    assert {name: found for name, tree in trees.items() if (found := list(impurities(tree)))} == {}


@pytest.mark.parametrize(
    ("source", "many"),
    [
        ("import time\nfrom random import choice\nimport random\nrandom.random()\nprint(open('x'))", 5),
        ("from time import time", 1),
        ("from datetime import datetime\ndatetime.now()", 1),
        ("import datetime\ndatetime.date.today()", 1),
        ("import random\nrng = random.Random(3)\nrng.random()", 0),
        ("from random import Random\ndef f(rng: Random) -> float:\n    return rng.random()", 0),
    ],
)
def test_the_reader_of_sources_finds_what_it_looks_for(source: str, many: int) -> None:
    assert len(list(impurities(ast.parse(source)))) == many


def impurities(tree: ast.AST) -> Iterator[str]:
    """Yield what a module does that a pure one may not; random.Random(seed) is allowed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in IMPURE_MODULES)
        elif isinstance(node, ast.ImportFrom):
            if node.module in IMPURE_MODULES:
                yield node.module or ""
            elif node.module == "random":
                yield from (alias.name for alias in node.names if alias.name != "Random")
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func).removeprefix("datetime.")
            if called in IMPURE_CALLS or (called.startswith("random.") and called != "random.Random"):
                yield called


def test_functions_stay_small(trees: dict[str, ast.Module]) -> None:
    assert not [
        f"{name}: {node.name}"
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno > 60
    ]
