"""`make bench`: every benchmark runs, whatever becomes of the others, and what they print is kept."""

import json
from pathlib import Path

import pytest

from scripts import bench

STEADY = """
print("10000 GPUs, steady: 10,000 jobs")
print("  decide           median 0.241 s   raw 0.240 0.241")
"""


@pytest.fixture
def benchmarks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "machine.py").write_text((bench.FOLDER / "machine.py").read_text())
    (folder / "bench_decide.py").write_text(STEADY)
    (folder / "bench_broken.py").write_text("print('so far')\nraise SystemExit(3)\n")
    monkeypatch.setattr(bench, "FOLDER", folder)
    monkeypatch.setattr(bench, "HISTORY", bench.ROOT / ".bench" / f"{tmp_path.name}.jsonl")
    return folder


def test_each_run_is_kept_with_its_figures_and_the_machine(benchmarks: Path) -> None:
    try:
        assert bench.main([]) == 1
        kept = [json.loads(line) for line in bench.HISTORY.read_text().splitlines()]
    finally:
        bench.HISTORY.unlink(missing_ok=True)
    assert {each["benchmark"]: each["result"] for each in kept} == {
        "bench_broken.py": "FAILED (3)",
        "bench_decide.py": "passed",
    }
    by_name = {each["benchmark"]: each for each in kept}
    assert by_name["bench_decide.py"]["figures"] == {"decide(), 10,000 GPUs, steady, s": 0.241}
    assert by_name["bench_broken.py"]["printed"] == ["so far"]
    for each in kept:
        assert len(each["commit"]) == 40
        assert set(each["machine"]) == {"cores", "processor", "memory_gib", "system", "python"}


def test_one_that_never_ends_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    endless = tmp_path / "bench_endless.py"
    # The child has the same output: it would be read for ever if the child lived on.
    endless.write_text("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'while True: pass'])\n")
    line = bench.measured(endless, {}, limit_minutes=0.05)
    assert line["result"] == "FAILED: not done in 0.05 min"


def test_a_name_that_no_benchmark_has_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["nothing"])
    assert "there is no benchmark 'nothing'; choose" in capsys.readouterr().err
