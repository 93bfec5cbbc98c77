"""The contents of the tables of the page; `page.html` lays them out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduler.simulation.report.comparison import compare
from scheduler.simulation.report.distribution import Distribution
from scheduler.simulation.report.measures import Group, Measures
from scheduler.simulation.report.quantities import Unit, labels, number, percent, time_unit
from scheduler.simulation.report.tenancy import TenantShare

#: The most groups in a table; a longer table is cut, and states that.
GROUPS_SHOWN = 15


@dataclass(frozen=True, slots=True)
class Cell:
    """A value, whether it is the best, and its change against the first policy (None for that policy)."""

    text: str
    change: str | None = None
    best: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One row; `group` is the head of it and of the next `span` - 1 rows, or None if a row above has it."""

    name: str
    cells: Sequence[Cell]
    group: str | None = None
    span: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the page: `identity` is the id of its element, `header` has a text for each column."""

    identity: str
    caption: str
    header: Sequence[str]
    rows: Sequence[Row]


def cells(texts: Sequence[str]) -> list[Cell]:
    """Return cells with only these texts."""
    return list(map(Cell, texts))


def comparison_table(measures: Sequence[Measures]) -> Table:
    """Return the table of main figures, one column per policy: value, change against the first, best mark."""
    rows = [
        Row(
            row.name,
            [
                Cell(cell.text, cell.relative if index else None, cell.best)
                for index, cell in enumerate(row.cells)
            ],
        )
        for row in compare(measures)
    ]
    caption = "Main figures"
    if len(measures) > 1:
        caption += f". ★ marks the best value; changes are relative to {labels(measures)[0]}"
    return Table("comparison", caption, ["", *labels(measures)], rows)


def _by_policy(
    names: Sequence[str], measures: Sequence[Measures], texts: Callable[[str, int], Sequence[str]]
) -> list[Row]:
    """Return a row for each name and policy; `texts` returns those of a name under the policy at an index."""
    policies = labels(measures)
    return [
        Row(policy, cells(texts(name, index)), None if index else name, len(policies))
        for name in names
        for index, policy in enumerate(policies)
    ]


def group_table(
    identity: str,
    caption: str,
    kind: str,
    measures: Sequence[Measures],
    of: Callable[[Measures], Sequence[Group]],
) -> Table:
    """Return the table of groups of jobs, one row per group and policy, in the order of the first policy."""
    names = list(dict.fromkeys(group.name for one in measures for group in of(one)))
    if len(names) > GROUPS_SHOWN:
        caption += f". The {GROUPS_SHOWN} with the most GPU-hours of {len(names):,}; all are in report.json"
        names = names[:GROUPS_SHOWN]
    by_name = [{group.name: group for group in of(one)} for one in measures]
    shown = [group for groups in by_name for name, group in groups.items() if name in names]
    completion = time_unit(group.completion_seconds.mean for group in shown if group.completion_seconds)
    queueing = time_unit(group.queueing_seconds.mean for group in shown if group.queueing_seconds)

    def texts(name: str, index: int) -> list[str]:
        group = by_name[index].get(name)
        return ["–"] * 10 if group is None else _group_texts(group, completion, queueing)

    header = [
        kind, "Policy", "Jobs", "Ended",
        *(f"JCT {part} ({completion.symbol})" for part in ("mean", "median", "p99")),
        *(f"Queueing {part} ({queueing.symbol})" for part in ("mean", "median", "p90")),
        "Mean ρ", "GPU-hours",
    ]  # fmt: skip
    return Table(identity, caption, header, _by_policy(names, measures, texts))


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


def share_table(measures: Sequence[Measures]) -> Table:
    """Return the table of what tenants were entitled to, had, and would have had alone, by policy."""
    received: dict[str, float] = {}
    for one in measures:
        for share in one.fairness.tenants:
            received[share.tenant] = max(received.get(share.tenant, 0.0), share.received_gpu_hours)
    names = sorted(received, key=lambda name: (-received[name], name))
    caption = "What tenants were entitled to and had"
    if len(names) > GROUPS_SHOWN:
        caption += f". The {GROUPS_SHOWN} with the most GPU-hours of {len(names):,}; all are in report.json"
    found = [{share.tenant: share for share in one.fairness.tenants} for one in measures]

    def texts(name: str, index: int) -> list[str]:
        share = found[index].get(name)
        return ["–"] * 9 if share is None else _share_texts(share)

    header = [
        "Tenant", "Policy", "Entitled (GPU-hours)", "Had", "Worth", "Alone", "Better off alone",
        "Apps", "Worst ρ", "Mean ρ", "ρ > 1",
    ]  # fmt: skip
    return Table("shares", caption, header, _by_policy(names[:GROUPS_SHOWN], measures, texts))


def _share_texts(share: TenantShare) -> list[str]:
    hours = (
        share.entitled_gpu_hours, share.received_gpu_hours, share.worth_gpu_hours, share.alone_gpu_hours,
    )  # fmt: skip
    return [
        *map(number, hours),
        "–" if share.better_off_alone is None else "yes" if share.better_off_alone else "no",
        f"{share.apps:,}",
        number(share.worst_rho),
        number(share.mean_rho),
        percent(share.rho_above_one),
    ]


def status_table(measures: Sequence[Measures]) -> Table:
    """Return the table of jobs and GPU-hours by final status, as in the analysis of Philly."""

    def texts(status: str, index: int) -> list[str]:
        one = measures[index]
        found = next((row for row in one.by_status if row.status == status), None)
        if found is None:
            return ["–"] * 7
        possible = sum(row.jobs for row in one.by_status)
        return [
            f"{found.jobs:,}",
            percent(found.jobs / possible),
            number(found.gpu_hours),
            percent(found.gpu_hours / one.gpu_hours if one.gpu_hours else None),
            number(found.useful_gpu_hours),
            number(found.overhead_gpu_hours),
            number(found.lost_gpu_hours),
        ]

    statuses = list(dict.fromkeys(row.status for one in measures for row in one.by_status))
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
    caption = "Jobs and GPU-hours by final status, over the whole run"
    return Table("by-status", caption, header, _by_policy(statuses, measures, texts))


def ends_table(measures: Sequence[Measures]) -> Table:
    """Return the table of how stays on GPUs ended: the cost of preemptions, moves and failures."""

    def texts(end: str, index: int) -> list[str]:
        ends = measures[index].interruptions.ends
        found = next((row for row in ends if row.end.replace("_", " ") == end), None)
        if found is None:
            return ["0"] * 4
        hours = (found.gpu_hours, found.overhead_gpu_hours, found.lost_work_gpu_hours)
        return [f"{found.stays:,}", *map(number, hours)]

    kinds = sorted({row.end for one in measures for row in one.interruptions.ends})
    header = [
        "Stay ended as",
        "Policy",
        "Stays",
        "GPU-hours",
        "Overhead (GPU-hours)",
        "Work lost (GPU-hours)",
    ]
    return Table(
        "by-end",
        "How stays on GPUs ended, and what each kind cost",
        header,
        _by_policy([kind.replace("_", " ") for kind in kinds], measures, texts),
    )
