"""Figures of two trees, measured by turns."""

from pathlib import Path

import pytest

from scripts import pairs
from scripts.pairs import Benchmark, Pair, compare

BENCHMARK = Benchmark("b", "bench.py", {"one, s": r"one: ([\d.]+)", "two, s": r"two: ([\d.]+)"})


def tree(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "bench.py").write_text(text)
    return folder


def test_both_take_turns_and_only_what_both_print_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = f"open({str(tmp_path / 'turns')!r}, 'a').write('{{}} ')\n"
    base = tree(tmp_path / "base", turns.format("base") + "print('one: 2.0')")
    monkeypatch.setattr(
        pairs, "ROOT", tree(tmp_path / "now", turns.format("now") + "print('one: 1.5 two: 9')")
    )
    (pair,) = compare(base, BENCHMARK, 2)
    assert (tmp_path / "turns").read_text().split() == ["base", "now", "base", "now"]
    assert pair == Pair("one, s", [2.0, 2.0], [1.5, 1.5])
    assert not pair.is_worse


def test_the_best_run_counts_and_five_percent_is_worse() -> None:
    assert not Pair("p", [1.0, 3.0], [2.0, 1.04]).is_worse
    worse = Pair("p", [1.0, 3.0], [2.0, 1.06])
    assert worse.is_worse
    assert "1.06  WORSE  (1 3 | 2 1.06)" in str(worse)
