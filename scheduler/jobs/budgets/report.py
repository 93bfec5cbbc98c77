"""What a usage report by mail says: the figures of `allot usage`, as text and as a CSV file."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from scheduler.jobs.budgets.figures import columns, shown, shown_row
from scheduler.jobs.budgets.selectors import UsageQuestion, usage
from scheduler.models.selectors.money import currency
from scheduler.wiring.exports import csv_text
from tenants.models import Tenant
from tenants.selectors import Viewer
from tenants.times import in_words

#: Rows in the text of a mail; the file has all.
_ROWS_IN_TEXT = 30


def report(by: Viewer, tenant: Tenant | None, since: datetime, until: datetime) -> tuple[str, str]:
    """Return the text of a report and its CSV file, with the figures of `allot usage` for the same time."""
    grouping = "user" if tenant else "tenant"
    of_tenant = tenant.name if tenant else ""
    found = usage(by, UsageQuestion(since=since, until=until, by=[grouping], tenant=of_tenant))
    code = currency()
    of_money = f"in {code} " if code else ""
    rows = [shown_row(row, code) for row in found.rows]
    total = shown(found.total, code)
    lines = [
        f"From {in_words(since)} until {in_words(until)}, costs {of_money}at present prices.",
        "",
        _line("", {name: name for name in _IN_TEXT}),
        *(_line(str(row[grouping]), row) for row in rows[:_ROWS_IN_TEXT]),
        _line("total", total),
    ]
    if len(rows) > _ROWS_IN_TEXT:
        lines.append(f"The file has {len(rows) - _ROWS_IN_TEXT} more lines.")
    flags = f"--by {grouping}" + (f" --tenant {of_tenant}" if of_tenant else "")
    lines += [
        "",
        "The same on the command line:",
        f"allot usage {flags} --since {since:%Y-%m-%dT%H:%MZ} --until {until:%Y-%m-%dT%H:%MZ}",
    ]
    return "\n".join(lines) + "\n", csv_text(columns([grouping]), rows)


_IN_TEXT = ("jobs", "gpu_hours", "guaranteed_gpu_hours", "cost")


def _line(name: str, row: Mapping[str, Any]) -> str:
    cells = [row[each] for each in _IN_TEXT]
    texts = [f"{cell:,.2f}" if isinstance(cell, float) else str(cell) for cell in cells]
    return f"{name:<24}" + "".join(f"{text:>22}" for text in texts)
