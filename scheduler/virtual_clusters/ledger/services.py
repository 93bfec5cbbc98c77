"""The ledger: lines of rounds and of people, appended for good, sent to the dashboards, pruned by age."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from math import isfinite
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from scheduler.core.model.loan_terms import MARKET
from scheduler.core.model.plan import LedgerLine as Line
from scheduler.models.ledger import LedgerLine
from scheduler.models.selectors.jobs import SPARE_VIEW
from scheduler.virtual_clusters.ledger.selectors import represented
from scheduler.wiring import stream
from scheduler.wiring.clock import database_now
from scheduler.wiring.stream import batches, on_commit, send
from tenants.housekeeping import repeat
from tenants.models import VirtualClusterMember

#: The most of a round's newest lines that are streamed; a page reads the others when it next reads.
MOST_STREAMED = 500
_PRUNED_AT_ONCE = 20_000


def ledger_write(line: Line, *, person: str, at: datetime, view: str = MARKET) -> LedgerLine:
    """Append what a person did, such as "user vera", in the transaction of the action itself."""
    row = row_of(line, view=view, at=at, person=person)
    row.save(force_insert=True)
    publish_lines([row])
    return row


def row_of(line: Line, *, view: str, at: datetime, **columns: Any) -> LedgerLine:
    """Return a line as a row that is not yet written."""
    return LedgerLine(
        at=at,
        view=view,
        kind=line.kind,
        party=line.party,
        counterparty=line.counterparty,
        jobs=list(line.jobs),
        gpus=_finite(line.gpus),
        given=_finite(line.given),
        price=_finite(line.price),
        seconds=_finite(line.seconds),
        rho_before=_finite(line.rho_before),
        rho_after=_finite(line.rho_after),
        message=line.message,
        details=_finite(line.details),
        **columns,
    )


def _finite(value: Any) -> Any:
    """Return it with null for what is infinite or not a number: JSON has neither, and no round may fail."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(each) for key, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


def publish_lines(rows: Collection[LedgerLine], owners: Mapping[int, str] | None = None) -> None:
    """Send them to the dashboards once this is committed. `owners` are the tenants of jobs that
    lines name.
    """
    newest = list(rows)[-MOST_STREAMED:]
    views = {row.view for row in newest}
    members: dict[str, list[str]] = {}
    pairs = VirtualClusterMember.objects.filter(virtual_cluster__name__in=views)
    for view, tenant in pairs.values_list("virtual_cluster__name", "tenant__name"):
        members.setdefault(view, []).append(tenant)
    publish_ledger(
        [(represented(row), _groups(row, members)) for row in newest],
        {job: (owners or {}).get(job, "") for row in newest for job in row.jobs},
    )


def _groups(row: LedgerLine, members: Mapping[str, Iterable[str]]) -> set[str]:
    """Return who gets a line: as in `ledger_reading.lines_visible`."""
    if row.view == MARKET:
        return {stream.EVERYONE}
    if row.party:
        concerned = {row.party, row.counterparty} - {""}
    elif row.view == SPARE_VIEW:
        return {stream.EVERYONE}
    else:
        concerned = set(members.get(row.view, ()))
    return {stream.OPERATORS, *map(stream.tenant_group, concerned)}


def prune_ledger() -> int:
    """Delete the oldest lines that are older than ALLOT_LEDGER_DAYS_KEPT; return how many."""
    kept_since = database_now() - timedelta(days=settings.CONFIG.ledger_days_kept)
    return repeat(lambda: _prune_some(kept_since))


def _prune_some(kept_since: datetime) -> int:
    old = LedgerLine.objects.filter(at__lt=kept_since).order_by("id").values("id")[:_PRUNED_AT_ONCE]
    with transaction.atomic(), connection.cursor() as cursor:
        # What the table's trigger asks for; forgotten at the end of the transaction.
        cursor.execute("SELECT set_config('allot.ledger_kept_since', %s, true)", [kept_since.isoformat()])
        return LedgerLine.objects.filter(id__in=old).delete()[0]


def publish_ledger(
    lines: Sequence[tuple[dict[str, Any], Collection[str]]], owners: Mapping[int, str]
) -> None:
    """Publish `lines`, each with the groups that receive it; the process that forwards them hides what their
    reader may not see.

    `owners` are the tenants of the jobs that lines name.
    """
    by_group: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line, groups in lines:
        for group in groups:
            by_group[group].append(line)
    messages = []
    for group, group_lines in by_group.items():
        for batch in batches(group_lines):
            jobs = {job for line in batch for job in line["jobs"]}
            known = {str(job): owners[job] for job in sorted(jobs) if owners.get(job)}
            messages.append(((group,), {"type": "live.ledger", "lines": batch, "owners": known}))
    on_commit(send, messages)
