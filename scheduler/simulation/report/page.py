"""One self-contained page: no request to anywhere, light or dark as the reader's system is, printable."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from scheduler.simulation.report.comparison import comparable
from scheduler.simulation.report.definitions import DEFINITIONS
from scheduler.simulation.report.measures import Measures
from scheduler.simulation.report.palette import COLOURS
from scheduler.simulation.report.privately import AgainstPrivate, private_tables
from scheduler.simulation.report.quantities import labels, number
from scheduler.simulation.report.rendering import Drawing, page_svg
from scheduler.simulation.report.tables import (
    comparison_table,
    ends_table,
    group_table,
    share_table,
    status_table,
)

#: More input problems are counted, not listed.
PROBLEMS_SHOWN = 200


def page(
    measures: Sequence[Measures],
    drawings: Sequence[Drawing],
    *,
    command: str = "",
    problems: Sequence[str] = (),
    private: Sequence[Sequence[AgainstPrivate]] = (),
) -> str:
    """Write the page for these runs; `problems` are sentences about input that was skipped.

    `private` has what each run says of private clusters, if that was asked for.
    """
    first = measures[0]
    title = f"{first.workload} on {first.cluster}"
    sections = (
        ("comparison-section", "Comparison", comparison_table(measures)),
        (
            "private-section",
            "Against private clusters",
            private_tables(list(zip(labels(measures), private, strict=bool(private)))),
        ),
        ("figures", "Figures", _figures(drawings)),
        ("tables", "Tables", _tables(measures)),
        ("assumptions", "Assumptions", _notes(measures)),
        ("problems", "Input left out", _problems(problems)),
        ("definitions", "How this is measured", _definitions()),
    )
    shown = [(identity, name, body) for identity, name, body in sections if body]
    links = "".join(f'<a href="#{identity}">{escape(name)}</a>' for identity, name, _ in shown)
    bodies = "".join(
        f'<section aria-labelledby="{identity}"><h2 id="{identity}">{escape(name)}</h2>{body}</section>\n'
        for identity, name, body in shown
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_style()}</style>\n</head>\n<body>\n<main>\n"
        f'<header><p class="kicker">Simulation report</p><h1>{escape(title)}</h1>'
        f"{_facts(measures, command)}{_banners(measures, problems)}"
        f'<nav aria-label="Sections">{links}</nav></header>\n'
        f"{bodies}<footer>{_cost(measures)}</footer>\n</main>\n</body>\n</html>\n"
    )


def _style() -> str:
    def block(variant: int) -> str:
        return "".join(f"--{name}: {pair[variant]}; " for name, pair in COLOURS.items())

    return (
        f":root {{ color-scheme: light dark; {block(0)}}}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {block(1)}}} }}\n"
        + Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    )


def _facts(measures: Sequence[Measures], command: str) -> str:
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
    body = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts)
    if command:
        body += f"<dt>Command</dt><dd><code>{escape(command)}</code></dd>"
    return f'<dl class="facts">{body}</dl>'


def _banners(measures: Sequence[Measures], problems: Sequence[str]) -> str:
    banners = []
    for name, one in zip(labels(measures), measures, strict=True):
        if one.cut_short:
            unfinished = one.jobs.running + one.jobs.waiting
            banners.append(
                f"<p><strong>Partial result.</strong> {escape(name)} was cut short: {escape(one.cut_short)}."
                f" {unfinished:,} of the {one.jobs.measured:,} jobs measured had not ended; long"
                " jobs are among them more often, so its completion times look better than they are.</p>"
            )
        if one.degraded:
            items = "".join(
                f"<li>{escape(view)}: {escape(words)}</li>" for view, words in one.degraded.items()
            )
            banners.append(
                f"<p><strong>Degraded rounds.</strong> Under {escape(name)} a policy failed in some rounds,"
                f" and its jobs kept what they had:</p><ul>{items}</ul>"
            )
        if one.jobs.never:
            banners.append(
                f"<p>{one.jobs.never:,} of the jobs measured can never run on this cluster under"
                f" {escape(name)}; no figure counts them.</p>"
            )
    if len(measures) > 1 and not comparable(measures):
        banners.append(
            "<p>The runs did not all end the same number of jobs, so no value is called best and no change"
            " is shown.</p>"
        )
    if problems:
        banners.append(
            f"<p>{len(problems):,} {'problem' if len(problems) == 1 else 'problems'} in the input: see"
            ' <a href="#problems">what was left out</a>.</p>'
        )
    return "".join(f'<div class="banner" role="note">{banner}</div>' for banner in banners)


def _figures(drawings: Sequence[Drawing]) -> str:
    figures = [
        f"<figure{' class=wide' if drawing.wide else ''}><h3>{escape(drawing.title)}</h3>{page_svg(drawing)}"
        f"<figcaption>{escape(drawing.caption)}</figcaption></figure>"
        for drawing in drawings
    ]
    return f'<div class="figures">{"".join(figures)}</div>' if figures else ""


def _tables(measures: Sequence[Measures]) -> str:
    return (
        group_table("by-size", "By gang size", "Gang size", measures, lambda one: one.by_gang_size)
        + group_table(
            "by-vc", "By virtual cluster", "Virtual cluster", measures, lambda one: one.by_virtual_cluster
        )
        + group_table("by-tenant", "By tenant", "Tenant", measures, lambda one: one.by_tenant)
        + share_table(measures)
        + status_table(measures)
        + ends_table(measures)
    )


def _notes(measures: Sequence[Measures]) -> str:
    """List notes common to all runs once, then each run's own."""
    common = [note for note in dict.fromkeys(measures[0].notes) if all(note in one.notes for one in measures)]
    body = _list(common)
    for name, one in zip(labels(measures), measures, strict=True):
        own = [note for note in dict.fromkeys(one.notes) if note not in common]
        if own:
            body += f"<h3>{escape(name)}</h3>{_list(own)}"
    return body


def _list(sentences: Sequence[str]) -> str:
    return (
        f"<ul>{''.join(f'<li>{escape(sentence)}</li>' for sentence in sentences)}</ul>" if sentences else ""
    )


def _problems(problems: Sequence[str]) -> str:
    if not problems:
        return ""
    items = "".join(f"<li>{escape(problem)}</li>" for problem in problems[:PROBLEMS_SHOWN])
    more = len(problems) - PROBLEMS_SHOWN
    rest = f"<p>And {more:,} more: see report.json.</p>" if more > 0 else ""
    summary = f"<summary>{len(problems):,} found</summary>"
    return f'<details open>{summary}<ul class="problems">{items}</ul>{rest}</details>'


def _definitions() -> str:
    items = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in DEFINITIONS)
    return f'<dl class="definitions">{items}</dl>'


def _cost(measures: Sequence[Measures]) -> str:
    runs = "; ".join(
        f"{name}: {one.rounds:,} rounds in {number(one.elapsed_seconds)} s of processor time,"
        f" {number(one.decide_seconds)} s of it deciding"
        for name, one in zip(labels(measures), measures, strict=True)
    )
    return f"<p>Simulated by Allotment. {escape(runs)}.</p>"
