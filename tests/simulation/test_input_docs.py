"""What docs/traces.md and docs/clusters.md show can be read as it stands."""

from __future__ import annotations

import textwrap
from pathlib import Path

from scheduler.simulation.clusters import parse_cluster, read_cluster
from scheduler.simulation.generate import generate
from scheduler.simulation.generator_spec import parse_generator
from scheduler.simulation.traces.native import FIELDS
from scheduler.simulation.traces.options import TraceOptions
from scheduler.simulation.traces.registry import FORMATS, read_trace

DOCS = Path(__file__).resolve().parents[2] / "docs"


def example(page: str, first_words: str, under: str = "# ") -> str:
    """Return the indented block below a heading that begins with these words."""
    lines = (DOCS / page).read_text().splitlines()
    heading = next(n for n, line in enumerate(lines) if line.startswith(under))
    start = next(n for n in range(heading, len(lines)) if lines[n].startswith(f"    {first_words}"))
    end = next(n for n in range(start, len(lines)) if lines[n] and not lines[n].startswith("    "))
    return textwrap.dedent("\n".join(lines[start:end])).strip() + "\n"


def test_the_cluster_file_is_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(example("clusters.md", "name: example"))
    cluster = read_cluster(tmp_path / "cluster.yaml")
    assert cluster.gpus_by_model == {"K80": 4, "V100": 128}
    assert [vc.name for vc in cluster.virtual_clusters] == ["research", "anyone"]


def test_the_specs_are_clusters() -> None:
    rows = (DOCS / "clusters.md").read_text().splitlines()
    specs = [row.split("`")[1] for row in rows if row.startswith("| `") and "=" in row.split("`")[1]]
    assert len(specs) == 4
    assert all(parse_cluster(spec).nodes for spec in specs)


def test_the_native_examples_are_traces(tmp_path: Path) -> None:
    table, line = example("traces.md", "id,submitted_at").split("\n\n")
    for name, text, count in (("a.csv", table, 2), ("b.jsonl", line, 1)):
        (tmp_path / name).write_text(text)
        assert len(read_trace(tmp_path / name, "allot", strict=True).workload.arrivals) == count


def test_the_generator_is_one() -> None:
    spec = parse_generator(example("traces.md", "{", under="## Generated workloads"))
    assert len(generate(spec).arrivals) == 1000


def test_every_format_field_and_option_is_described() -> None:
    page = (DOCS / "traces.md").read_text()
    names = [
        *FORMATS,
        *FIELDS,
        *(name for name in TraceOptions.__dataclass_fields__ if name != "throughputs"),
    ]
    assert not [name for name in names if f"`{name}" not in page]
