"""One self-contained, printable page: it makes no requests, and is light or dark like the reader's system."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from scheduler.simulation.report.comparison import comparable
from scheduler.simulation.report.definitions import DEFINITIONS
from scheduler.simulation.report.measures import Measures
from scheduler.simulation.report.palette import COLOURS
from scheduler.simulation.report.privately import AgainstPrivate, private_tables
from scheduler.simulation.report.quantities import labels, number
from scheduler.simulation.report.rendering import Drawing, page_svg
from scheduler.simulation.report.tables import (
    Table,
    comparison_table,
    ends_table,
    group_table,
    share_table,
    status_table,
)

#: The most input problems that are listed; more are only counted.
PROBLEMS_SHOWN = 200

_TEMPLATES = Environment(
    loader=PackageLoader("scheduler.simulation.report", "."),
    # Text from outside, such as names of tenants, is never interpreted as HTML.
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["number"] = number
_TEMPLATES.filters["thousands"] = "{:,}".format


def page(
    measures: Sequence[Measures],
    drawings: Sequence[Drawing],
    *,
    command: str = "",
    problems: Sequence[str] = (),
    private: Sequence[Sequence[AgainstPrivate]] = (),
) -> str:
    """Return the page for these runs; `problems` are sentences about input that was skipped.

    `private` has the results of each run against private clusters, if requested.
    """
    common, own = _notes(measures)
    return _TEMPLATES.get_template("page.html").render(
        title=f"{measures[0].workload} on {measures[0].cluster}",
        colours=COLOURS,
        facts=_facts(measures),
        command=command,
        runs=list(zip(labels(measures), measures, strict=True)),
        comparable=comparable(measures),
        comparison=comparison_table(measures),
        private=private_tables(list(zip(labels(measures), private, strict=bool(private)))),
        drawings=[(drawing, Markup(page_svg(drawing))) for drawing in drawings],
        tables=_tables(measures),
        common_notes=common,
        own_notes=own,
        problems=problems,
        problems_shown=PROBLEMS_SHOWN,
        definitions=DEFINITIONS,
    )


def _facts(measures: Sequence[Measures]) -> list[tuple[str, str]]:
    first = measures[0]
    models = ", ".join(f"{count:,} × {model}" for model, count in sorted(first.gpus_by_model.items()))
    seeds = sorted({one.seed for one in measures})
    facts = [
        ("Workload", first.workload),
        ("Jobs", f"{first.jobs.workload:,}"),
        ("Cluster", f"{first.cluster} ({models})" if models else first.cluster),
        ("Policies", ", ".join(f"{one.policy} (placer: {one.placer})" for one in measures)),
        (
            "Rounds every",
            ", ".join(f"{number(value)} s" for value in sorted({one.round_seconds for one in measures})),
        ),
        ("Seed" if len(seeds) == 1 else "Seeds", ", ".join(map(str, seeds))),
    ]
    if first.window is not None:
        facts.append(
            (
                "Measured",
                f"jobs {first.window[0]:,} to {first.window[1] - 1:,}, counted from 0"
                f" ({first.jobs.measured:,} jobs); figures of the cluster are of the whole run",
            )
        )
    return facts


def _tables(measures: Sequence[Measures]) -> list[Table]:
    by_vc = group_table(
        "by-vc", "By virtual cluster", "Virtual cluster", measures, lambda one: one.by_virtual_cluster
    )
    return [
        group_table("by-size", "By gang size", "Gang size", measures, lambda one: one.by_gang_size),
        by_vc,
        group_table("by-tenant", "By tenant", "Tenant", measures, lambda one: one.by_tenant),
        share_table(measures),
        status_table(measures),
        ends_table(measures),
    ]


def _notes(measures: Sequence[Measures]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Return the notes common to all runs, and those of each run."""
    common = [note for note in dict.fromkeys(measures[0].notes) if all(note in one.notes for one in measures)]
    own = [
        (name, [note for note in dict.fromkeys(one.notes) if note not in common])
        for name, one in zip(labels(measures), measures, strict=True)
    ]
    return common, [(name, notes) for name, notes in own if notes]
