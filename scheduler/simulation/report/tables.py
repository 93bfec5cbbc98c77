"""The tables of the page, as HTML. Everything that came from outside is escaped here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from scheduler.simulation.report.comparison import compare
from scheduler.simulation.report.distribution import Distribution
from scheduler.simulation.report.measures import Group, Measures
from scheduler.simulation.report.quantities import Unit, labels, number, percent, time_unit
from scheduler.simulation.report.tenancy import TenantShare

#: Longer tables are cut, and say so.
GROUPS_SHOWN = 15


_BEST = '<span class="best" title="best">★<span class="unseen"> best</span></span>'


def table(identity: str, caption: str, header: Sequence[str], rows: Sequence[str]) -> str:
    """Wrap rows into a table that scrolls by itself; `header` is text, `rows` are <tr> elements."""
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{identity}-caption">'
        f'<table id="{identity}"><caption id="{identity}-caption">{escape(caption)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cells(texts: Sequence[str]) -> str:
    return "".join(f"<td>{escape(text)}</td>" for text in texts)


def comparison_table(measures: Sequence[Measures]) -> str:
    """Lay out the main figures, one column a policy: value, change against the first, mark of the best."""
    rows = []
    for row in compare(measures):
        cells = ""
        for index, cell in enumerate(row.cells):
            # Empty or not, so that the values of a column stand below one another.
            change = f' <span class="change">{escape(cell.relative)}</span>' if index else ""
            text = escape(cell.text)
            if cell.best:
                text = f"<strong>{text}</strong>{_BEST}"
            cells += f"<td>{text}{change}</td>"
        rows.append(f'<tr><th scope="row">{escape(row.name)}</th>{cells}</tr>')
    caption = "Main figures"
    if len(measures) > 1:
        caption += f". ★ marks the best value; changes are relative to {labels(measures)[0]}"
    return table("comparison", caption, ["", *labels(measures)], rows)


def group_table(
    identity: str,
    caption: str,
    kind: str,
    measures: Sequence[Measures],
    of: Callable[[Measures], Sequence[Group]],
) -> str:
    """Lay out groups of jobs, one row a group and policy; the order is the first policy's."""
    names = list(dict.fromkeys(group.name for one in measures for group in of(one)))
    if len(names) > GROUPS_SHOWN:
        caption += f". The {GROUPS_SHOWN} with the most GPU-hours of {len(names):,}; all are in report.json"
        names = names[:GROUPS_SHOWN]
    by_name = [{group.name: group for group in of(one)} for one in measures]
    shown = [group for groups in by_name for name, group in groups.items() if name in names]
    completion = time_unit(group.completion_seconds.mean for group in shown if group.completion_seconds)
    queueing = time_unit(group.queueing_seconds.mean for group in shown if group.queueing_seconds)
    rows = []
    for name in names:
        head = f'<th scope="rowgroup" rowspan="{len(measures)}">{escape(name)}</th>'
        for label, groups in zip(labels(measures), by_name, strict=True):
            group = groups.get(name)
            texts = ["–"] * 10 if group is None else _group_texts(group, completion, queueing)
            rows.append(f'<tr>{head}<th scope="row">{escape(label)}</th>{_cells(texts)}</tr>')
            head = ""
    header = [
        kind, "Policy", "Jobs", "Ended",
        *(f"JCT {part} ({completion.symbol})" for part in ("mean", "median", "p99")),
        *(f"Queueing {part} ({queueing.symbol})" for part in ("mean", "median", "p90")),
        "Mean ρ", "GPU-hours",
    ]  # fmt: skip
    return table(identity, caption, header, rows)


def _group_texts(group: Group, completion: Unit, queueing: Unit) -> list[str]:
    def parts(found: Distribution | None, unit: Unit, *names: str) -> list[str]:
        return [number(None if found is None else getattr(found, name) / unit.seconds) for name in names]

    return [
        f"{group.jobs:,}",
        f"{group.ended:,}",
        *parts(group.completion_seconds, completion, "mean", "median", "p99"),
        *parts(group.queueing_seconds, queueing, "mean", "median", "p90"),
        number(group.mean_rho),
        number(group.gpu_hours),
    ]


def share_table(measures: Sequence[Measures]) -> str:
    """Lay out what tenants were entitled to, had and would have had alone, one row a tenant and policy."""
    received: dict[str, float] = {}
    for one in measures:
        for share in one.fairness.tenants:
            received[share.tenant] = max(received.get(share.tenant, 0.0), share.received_gpu_hours)
    names = sorted(received, key=lambda name: (-received[name], name))
    caption = "What tenants were entitled to and had"
    if len(names) > GROUPS_SHOWN:
        caption += f". The {GROUPS_SHOWN} with the most GPU-hours of {len(names):,}; all are in report.json"
    found = [{share.tenant: share for share in one.fairness.tenants} for one in measures]
    rows = []
    for name in names[:GROUPS_SHOWN]:
        head = f'<th scope="rowgroup" rowspan="{len(measures)}">{escape(name)}</th>'
        for label, shares in zip(labels(measures), found, strict=True):
            texts = ["–"] * 9 if name not in shares else _share_texts(shares[name])
            rows.append(f'<tr>{head}<th scope="row">{escape(label)}</th>{_cells(texts)}</tr>')
            head = ""
    header = [
        "Tenant", "Policy", "Entitled (GPU-hours)", "Had", "Worth", "Alone", "Better off alone",
        "Apps", "Worst ρ", "Mean ρ", "ρ > 1",
    ]  # fmt: skip
    return table("shares", caption, header, rows)


def _share_texts(share: TenantShare) -> list[str]:
    hours = (
        share.entitled_gpu_hours, share.received_gpu_hours, share.worth_gpu_hours, share.alone_gpu_hours,
    )  # fmt: skip
    return [
        *map(number, hours),
        "yes" if share.better_off_alone else "no",
        f"{share.apps:,}",
        number(share.worst_rho),
        number(share.mean_rho),
        percent(share.rho_above_one),
    ]


def status_table(measures: Sequence[Measures]) -> str:
    """Lay out jobs and GPU-hours by final status, as in the analysis of Philly."""
    rows = []
    for status in dict.fromkeys(row.status for one in measures for row in one.by_status):
        head = f'<th scope="rowgroup" rowspan="{len(measures)}">{escape(status)}</th>'
        for label, one in zip(labels(measures), measures, strict=True):
            found = next((row for row in one.by_status if row.status == status), None)
            texts = ["–"] * 7
            if found is not None:
                possible = sum(row.jobs for row in one.by_status)
                texts = [
                    f"{found.jobs:,}",
                    percent(found.jobs / possible),
                    number(found.gpu_hours),
                    percent(found.gpu_hours / one.gpu_hours if one.gpu_hours else None),
                    number(found.useful_gpu_hours),
                    number(found.overhead_gpu_hours),
                    number(found.lost_gpu_hours),
                ]
            rows.append(f'<tr>{head}<th scope="row">{escape(label)}</th>{_cells(texts)}</tr>')
            head = ""
    header = [
        "Status",
        "Policy",
        "Jobs",
        "Of jobs",
        "GPU-hours",
        "Of GPU-hours",
        "Useful",
        "Overhead",
        "Lost",
    ]
    return table("by-status", "Jobs and GPU-hours by final status, over the whole run", header, rows)


def ends_table(measures: Sequence[Measures]) -> str:
    """Lay out how stays on GPUs ended: what preemptions, moves and failures cost."""
    rows = []
    for end in sorted({row.end for one in measures for row in one.interruptions.ends}):
        head = f'<th scope="rowgroup" rowspan="{len(measures)}">{escape(end.replace("_", " "))}</th>'
        for label, one in zip(labels(measures), measures, strict=True):
            found = next((row for row in one.interruptions.ends if row.end == end), None)
            texts = ["0", "0", "0", "0"]
            if found is not None:
                hours = (found.gpu_hours, found.overhead_gpu_hours, found.lost_work_gpu_hours)
                texts = [f"{found.stays:,}", *map(number, hours)]
            rows.append(f'<tr>{head}<th scope="row">{escape(label)}</th>{_cells(texts)}</tr>')
            head = ""
    header = [
        "Stay ended as",
        "Policy",
        "Stays",
        "GPU-hours",
        "Overhead (GPU-hours)",
        "Work lost (GPU-hours)",
    ]
    return table("by-end", "How stays on GPUs ended, and what each kind cost", header, rows)
