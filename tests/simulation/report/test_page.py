"""The page and the files: complete, escaped, self-contained, the same bytes for the same input."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from scheduler.simulation.report.comparison import compare, summary_table
from scheduler.simulation.report.figures import comparison_drawings
from scheduler.simulation.report.gantt import gantt_drawing, main_tenants
from scheduler.simulation.report.measure import measure
from scheduler.simulation.report.page import page
from scheduler.simulation.report.quantities import labels, number, relative
from scheduler.simulation.report.rendering import page_svg, png_file, svg_file
from scheduler.simulation.report.write import write_json, write_report
from tests.simulation.report.synthetic import month, record, result

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Structure(HTMLParser):
    """Collects ids, references, text and what was left open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.references: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            if name in {"href", "xlink:href", "src", "action", "data"}:
                self.references.append(value)
            self.references += re.findall(r"url\(([^)]+)\)", value or "")

    def handle_startendtag(self, tag, attributes) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, text) -> None:
        self.texts.append(text)


@pytest.fixture(scope="module")
def results():
    return [month(400, nodes=4, seed=7, policy=policy) for policy in ("fifo", "srtf:preempt=yes")]


@pytest.fixture(scope="module")
def folder(results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    assert write_report(results, folder, command="simulate --policy fifo") == folder / "report.html"
    return folder


def test_a_report_has_a_page_numbers_and_figures_for_a_paper(folder: Path) -> None:
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    drawn = [
        "jct-cdf", "queueing-cdf", "queueing-by-size", "fairness-cdf", "utilisation", "waiting-jobs",
        "gpu-hours", "gantt-1-fifo", "gantt-2-srtf-preempt-yes",
    ]  # fmt: skip
    assert names == {"report.html", "report.json"} | {
        f"figures/{name}.{kind}" for name in drawn for kind in ("svg", "png")
    }


def test_the_page_is_whole_and_asks_nobody_for_anything(folder: Path) -> None:
    text = (folder / "report.html").read_text()
    structure = Structure(text)
    assert structure.open == []
    assert len(set(structure.ids)) == len(structure.ids) > 100
    assert structure.tags.count("svg") == 9
    assert "script" not in structure.tags
    assert all(reference.startswith("#") for reference in structure.references)
    assert {reference[1:] for reference in structure.references} <= set(structure.ids)
    assert not re.search(r"https?:|//[a-z]|@import", text)


def test_the_same_input_gives_the_same_bytes(results, folder: Path, tmp_path: Path) -> None:
    measures = [measure(one) for one in results]
    chart = gantt_drawing("gantt-2-srtf-preempt-yes", labels(measures)[1], results[1], main_tenants(results))
    curve, *_, hours, _ = comparison_drawings(measures)
    for drawing in (curve, hours, chart):
        assert (folder / "figures" / f"{drawing.name}.svg").read_bytes() == svg_file(drawing)
        assert (folder / "figures" / f"{drawing.name}.png").read_bytes() == png_file(drawing)
        assert page_svg(drawing) in (folder / "report.html").read_text()
    write_json(results, tmp_path / "again.json", command="simulate --policy fifo")
    assert (tmp_path / "again.json").read_bytes() == (folder / "report.json").read_bytes()


def test_figures_for_papers_carry_no_fonts_dates_or_versions(folder: Path) -> None:
    for path in (folder / "figures").glob("*.svg"):
        text = path.read_text()
        assert "<text" not in text
        assert "dc:date" not in text
        assert "matplotlib.org" not in text.lower()
    for path in (folder / "figures").glob("*.png"):
        assert b"Software" not in path.read_bytes()


def test_everything_from_outside_is_escaped() -> None:
    evil = "<script>alert('&')</script>"
    measures = measure(
        result(
            [record(1, started=0, ended=10, tenant=evil, virtual_cluster=evil)],
            policy=evil,
            placer=evil,
            workload=evil,
            cluster=evil,
            notes=(evil,),
            cut_short=evil,
            degraded={evil: evil},
            gpus_by_model={evil: 4},
        )
    )
    text = page([measures], [], command=evil, problems=[evil])
    structure = Structure(text)
    assert "script" not in structure.tags
    assert text.count("&lt;script&gt;") > 12
    assert evil in structure.texts


def test_a_partial_result_says_so_first_and_calls_nothing_best() -> None:
    whole = measure(result([record(1, started=0, ended=10), record(2, started=0, ended=90)]))
    partial = measure(
        result(
            [record(1, started=0, ended=5), record(2, started=0, ended=None)],
            policy="las",
            ended_at=5.0,
            cut_short="stopped by Ctrl-C",
        )
    )
    text = page([whole, partial], [])
    banner = text.index("las was cut short: stopped by Ctrl-C. 1 of the 2 jobs measured had not ended")
    assert banner < text.index('id="comparison"')
    assert "no value is called best" in text
    assert not any(cell.best or cell.relative for row in compare([whole, partial]) for cell in row.cells)
    assert "las: cut short, stopped by Ctrl-C" in summary_table([whole, partial])


def test_degraded_rounds_and_input_problems_are_told() -> None:
    measures = measure(result([record(1, started=0, ended=10)], degraded={"vision-vc": "division by zero"}))
    text = page([measures], [], problems=[f"jobs.csv, line {line}: no duration" for line in range(250)])
    assert "vision-vc: division by zero" in text
    assert "250 problems in the input" in text
    assert text.count("no duration") == 200
    assert "And 50 more" in text


def test_the_best_is_marked_and_changes_are_relative_to_the_first() -> None:
    slow = measure(result([record(1, started=0, ended=100)]))
    fast = measure(result([record(1, started=0, ended=50, work_seconds=100)], policy="las"))
    row = compare([slow, fast])[0]
    assert row.name == "JCT, mean (s)"
    assert [(cell.text, cell.relative, cell.best) for cell in row.cells] == [
        ("100", "", False),
        ("50", "−50 %", True),
    ]


def test_the_summary_lines_up() -> None:
    table = summary_table([measure(result([record(1, started=0, ended=7200)])), measure(
        result([record(1, started=0, ended=7200)], policy="las")
    )])  # fmt: skip
    lines = table.splitlines()
    assert re.fullmatch(r" +fifo +las", lines[0])
    assert re.fullmatch(r"JCT, mean \(min\) +120 +120", lines[2])


def test_json_has_every_measure_and_records_only_when_asked(results, folder: Path, tmp_path: Path) -> None:
    report = json.loads((folder / "report.json").read_bytes())
    assert report["schema"] == 1
    assert [policy["label"] for policy in report["policies"]] == ["fifo", "srtf:preempt=yes"]
    assert "job_records" not in report["policies"][0]
    write_json(results, tmp_path / "all.json", jobs=True)
    policy = json.loads((tmp_path / "all.json").read_bytes())["policies"][1]
    assert len(policy["job_records"]["ended_at"]) == 400
    assert policy["job_records"]["id"][:3] == [1, 2, 3]
    stays = policy["stays"]
    assert stays["job"] == [stay.job for stay in results[1].stays]
    assert stays["nodes"][0] == [str(node) for node in results[1].stays[0].nodes], "it has no names of them"
    assert policy["completion_seconds"]["mean"] == pytest.approx(
        sum(job.completion_seconds for job in results[1].jobs) / 400
    )


def test_runs_of_different_workloads_make_no_report(tmp_path: Path) -> None:
    one = result([record(1, started=0, ended=10)])
    with pytest.raises(ValueError, match="must have one workload, not 'by hand' and 'another'"):
        write_json([one, replace(one, workload="another")], tmp_path / "report.json")


def test_equal_policies_are_told_apart() -> None:
    one = measure(result([record(1, started=0, ended=10)]))
    assert labels([one, replace(one, policy="las")]) == ("fifo", "las")
    assert labels([one, replace(one, placer="fgd")]) == ("fifo · consolidate", "fifo · fgd")
    assert labels([one, replace(one, seed=1)]) == (
        "fifo · consolidate · seed 0",
        "fifo · consolidate · seed 1",
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0, "0"), (1234.5, "1,234"), (123.4, "123"), (12.34, "12.3"), (1.234, "1.23"),
     (0.01234, "0.0123"), (5.0, "5"), (0.00001, "1.0e-05")],
)  # fmt: skip
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "first", "text"),
    [(50, 100, "−50 %"), (100, 100, "±0 %"), (3000, 100, "×30"), (1, 0, ""), (None, 1, "")],
)
def test_relative(value: float | None, first: float, text: str) -> None:
    assert relative(value, first) == text
