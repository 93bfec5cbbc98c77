"""Which lines of the ledger a viewer sees, and which parts of them: other tenants are not named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from scheduler.core.model.loan_terms import MARKET
from scheduler.models.jobs import Job
from scheduler.models.ledger import LedgerLine
from scheduler.models.selectors.jobs import SPARE_VIEW
from scheduler.wiring.exports import Kind
from tenants.errors import NotFound
from tenants.models import Tenant, VirtualClusterMember
from tenants.selectors import Viewer
from tenants.times import iso

ANOTHER_TENANT = "another tenant"
#: What may be a tenant's name in a text, and the name of its search behind it.
_NAME = re.compile(r"([a-z0-9]+(?:-+[a-z0-9]+)*)(/[^\s,;:]+)?")


def lines_visible(viewer: Viewer) -> QuerySet[LedgerLine]:
    """Return all lines for operators. Members see those of the market, those whose party or counterparty is
    one of their tenants, and those about all in their virtual clusters and in the spare view.
    """
    if viewer.is_operator:
        return LedgerLine.objects.all()
    mine = viewer.tenant_names
    members = VirtualClusterMember.objects.filter(tenant_id__in=list(viewer.roles))
    views = [SPARE_VIEW, *members.values_list("virtual_cluster__name", flat=True)]
    return LedgerLine.objects.filter(
        Q(view=MARKET) | Q(party__in=mine) | Q(counterparty__in=mine) | Q(party="", view__in=views)
    )


def line_get(viewer: Viewer, line_id: int) -> LedgerLine:
    """Return a line that the viewer may see, else raise NotFound."""
    line = lines_visible(viewer).filter(id=line_id).first()
    if line is None:
        raise NotFound(f"The ledger has no line {line_id}, or it is between other tenants.")
    return line


def lines_of_party(lines: QuerySet[LedgerLine], viewer: Viewer, name: str) -> QuerySet[LedgerLine]:
    """Return the lines with a name on one side or the other, as far as the viewer reads it there."""
    found = lines.filter(Q(party=name) | Q(counterparty=name))
    if viewer.is_operator or name in viewer.tenant_names:
        return found
    # What is shown without the name must not be found by it.
    return found.filter(view=MARKET)


@dataclass(frozen=True, slots=True)
class Sight:
    """What a viewer reads of lines. `hidden`: the tenants without the viewer as a member; None: all seen."""

    hidden: frozenset[str] | None

    @classmethod
    def of(cls, viewer: Viewer) -> Sight:
        if viewer.is_operator:
            return cls(None)
        others = Tenant.objects.exclude(id__in=list(viewer.roles))
        return cls(frozenset(others.values_list("name", flat=True)))

    def line(self, line: Mapping[str, Any], owners: Mapping[int, str]) -> dict[str, Any]:
        """Return a line as the viewer reads it; `owners` are the tenants of its jobs."""
        if self.hidden is None:
            return dict(line)
        jobs = [job for job in line["jobs"] if job in owners and owners[job] not in self.hidden]
        if line["view"] == MARKET:
            # Virtual clusters are public, and may be called as a tenant is.
            return {**line, "jobs": jobs}
        details = dict(line["details"])
        for side, user in (("party", "user"), ("counterparty", "counterparty_user")):
            if line[side] in self.hidden:
                # The user of another tenant is hidden like the tenant.
                details.pop(user, None)
        return {
            **line,
            "jobs": jobs,
            "party": self._name(line["party"]),
            "counterparty": self._name(line["counterparty"]),
            "message": self._text(line["message"]),
            "details": self._any(details),
        }

    def lines(self, rows: Iterable[LedgerLine]) -> list[dict[str, Any]]:
        """Return rows as the viewer reads them."""
        rows = list(rows)
        jobs = Job.objects.filter(id__in={job for row in rows for job in row.jobs})
        owners = dict(jobs.values_list("id", "tenant__name"))
        return [self.line(represented(row), owners) for row in rows]

    def _name(self, name: str) -> str:
        return ANOTHER_TENANT if self.hidden and name in self.hidden else name

    def _text(self, text: str) -> str:
        return _NAME.sub(self._word, text)

    def _word(self, found: re.Match[str]) -> str:
        word = found[1]
        # A number in a sentence counts something; whether it is a name is unknown.
        is_name = self.hidden is not None and word in self.hidden and not word.isdigit()
        return ANOTHER_TENANT if is_name else found[0]

    def _any(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(self._name(value))
        if isinstance(value, list):
            return [self._any(each) for each in value]
        if not isinstance(value, dict):
            return value
        seen: dict[str, Any] = {}
        for key, each in value.items():
            name = self._text(self._name(key))
            number = 2
            while name in seen:
                name, number = f"{ANOTHER_TENANT} {number}", number + 1
            seen[name] = self._any(each)
        return seen


#: Fields of a line as the API shows them, in this order, and what they hold; the columns of its files too.
COLUMNS = {
    "id": Kind.INTEGER,
    "at": Kind.INSTANT,
    "round_number": Kind.INTEGER,
    "view": Kind.TEXT,
    "position": Kind.INTEGER,
    "kind": Kind.TEXT,
    "party": Kind.TEXT,
    "counterparty": Kind.TEXT,
    "jobs": Kind.PARTS,
    "gpus": Kind.PARTS,
    "given": Kind.PARTS,
    "price": Kind.NUMBER,
    "seconds": Kind.NUMBER,
    "rho_before": Kind.NUMBER,
    "rho_after": Kind.NUMBER,
    "message": Kind.TEXT,
    "details": Kind.PARTS,
    "person": Kind.TEXT,
}


def represented(row: LedgerLine) -> dict[str, Any]:
    """Return a line as the API shows it; prices of the market in credits."""
    shown = {name: getattr(row, name) for name in COLUMNS}
    price = row.price / 1_000 if row.price is not None and row.view == MARKET else row.price
    return {**shown, "at": iso(row.at), "price": price}
