"""Credits: granted by operators, paid for loans; they move from one account to another and no other way.

A due allowance is paid once for the period that runs, however long no process paid: those of periods that
passed meanwhile are not made up for. Periods lie at fixed distances from the first, and the database accepts
one payment for each, so that a clock that jumps to and fro pays none twice.
"""

from datetime import datetime, timedelta
from math import floor

from django.db import transaction
from django.db.models import F, Q

from scheduler.models.market import BANK, Allowance, CreditAccount, CreditTransfer, Loan, TransferKind
from scheduler.virtual_clusters.market.representations import in_credits, publish_accounts
from scheduler.wiring.clock import database_now
from tenants.errors import Conflict, FieldError, NotFound
from tenants.models import VirtualCluster
from tenants.selectors import Viewer

#: In one account: a thousand million credits.
MOST_MILLICREDITS = 10**12


def account_of(virtual_cluster: VirtualCluster) -> CreditAccount:
    """Return the account of a virtual cluster, which begins with nothing."""
    return CreditAccount.objects.get_or_create(virtual_cluster=virtual_cluster)[0]


def bank() -> CreditAccount:
    return CreditAccount.objects.get_or_create(id=BANK)[0]


def transfer(
    kind: TransferKind,
    *,
    debit: CreditAccount,
    credit: CreditAccount,
    amount: int,
    by: str,
    at: datetime,
    loan: Loan | None = None,
    reason: str = "",
    round_number: int | None = None,
    due_at: datetime | None = None,
) -> None:
    """Move millicredits; raise Conflict when one side does not have them, or the other would have too many.

    Both accounts stay locked until the transaction ends.
    """
    rows = CreditAccount.objects.select_for_update(no_key=True, of=("self",)).select_related(
        "virtual_cluster"
    )
    locked = {row.id: row for row in rows.filter(id__in=[debit.id, credit.id]).order_by("id")}
    giver, taker = locked[debit.id], locked[credit.id]
    if giver.id != BANK and giver.balance < amount:
        raise _too_little(giver, amount)
    if taker.id != BANK and taker.balance + amount > MOST_MILLICREDITS:
        raise _too_much(taker)
    CreditTransfer.objects.create(
        kind=kind,
        debit=giver,
        credit=taker,
        amount=amount,
        at=at,
        by=by,
        loan=loan,
        reason=reason,
        round_number=round_number,
        due_at=due_at,
    )
    publish_accounts([row.virtual_cluster_id for row in locked.values() if row.virtual_cluster_id])


def _too_little(account: CreditAccount, amount: int) -> Conflict:
    name = account.holder
    has, needs = in_credits(account.balance), in_credits(amount)
    problem = FieldError("credits", f"{needs:,.12g} are more than {name} has", f"at most {has:,.12g}")
    return Conflict(f"This takes {needs:,.12g} credits and {name} has {has:,.12g}.", [problem])


def _too_much(account: CreditAccount) -> Conflict:
    most = in_credits(MOST_MILLICREDITS)
    problem = FieldError("credits", "would be too many in one account", f"at most {most:,.0f} together")
    return Conflict(f"{account.holder} would have more than {most:,.0f} credits.", [problem])


# -- what operators do -------------------------------------------------------------------------------


@transaction.atomic
def credits_grant(*, by: Viewer, virtual_cluster: VirtualCluster, millicredits: int, reason: str) -> None:
    """Grant credits, or with a negative number take credits back, as far as there are any."""
    by.require_operator()
    if not millicredits:
        raise Conflict("Nothing would change.", [FieldError("credits", "is 0", "a number above or below 0")])
    account, at = account_of(virtual_cluster), database_now()
    if millicredits > 0:
        sides = TransferKind.GRANT, bank(), account
    else:
        sides = TransferKind.TAKEN_BACK, account, bank()
    kind, debit, credit = sides
    transfer(kind, debit=debit, credit=credit, amount=abs(millicredits), by=by.actor, at=at, reason=reason)


@transaction.atomic
def allowance_set(
    *, by: Viewer, virtual_cluster: VirtualCluster, millicredits: int, every_seconds: int
) -> None:
    """Grant this much in each period. The first is due at once, a changed one when it would have been."""
    by.require_operator()
    account, now = account_of(virtual_cluster), database_now()
    before = Allowance.objects.select_for_update().filter(account=account).first()
    Allowance.objects.update_or_create(
        account=account,
        defaults={
            "millicredits": millicredits,
            "every_seconds": every_seconds,
            "next_at": min(before.next_at, now + timedelta(seconds=every_seconds)) if before else now,
        },
    )
    CreditAccount.objects.filter(id=account.id).update(version=F("version") + 1)
    allowance_pay(account.id)
    publish_accounts([virtual_cluster.id])


@transaction.atomic
def allowance_remove(*, by: Viewer, virtual_cluster: VirtualCluster) -> None:
    """Grant no more; what was granted stays."""
    by.require_operator()
    rows = Allowance.objects.select_for_update().filter(account__virtual_cluster=virtual_cluster)
    before = rows.first()
    if before is None:
        raise NotFound(f"Virtual cluster {virtual_cluster.name} has no allowance.")
    before.delete()
    CreditAccount.objects.filter(id=before.account_id).update(version=F("version") + 1)
    publish_accounts([virtual_cluster.id])


# -- what happens by itself --------------------------------------------------------------------------


def allowances_pay() -> None:
    """Pay what is due, each allowance in a transaction of its own."""
    now = database_now()
    # One that is further off than its period was put there by a clock that ran ahead.
    ahead = Q(next_at__gt=now + F("every_seconds") * timedelta(seconds=1))
    due = Allowance.objects.filter(Q(next_at__lte=now) | ahead)
    for account in list(due.order_by("account_id").values_list("account_id", flat=True)):
        allowance_pay(account)


@transaction.atomic
def allowance_pay(account: int) -> None:
    """Pay the allowance of an account if it is due, unless its period was paid already."""
    rows = Allowance.objects.select_for_update(of=("self",)).select_related("account")
    row = rows.filter(account_id=account).first()
    if row is None:
        return  # It was removed meanwhile; the others are still due.
    now, every = database_now(), timedelta(seconds=row.every_seconds)
    begun = row.next_at + floor((now - row.next_at) / every) * every
    is_due = row.next_at <= now
    if not is_due and begun + every == row.next_at:
        return
    row.next_at = begun + every
    row.save(update_fields=["next_at"])
    room = MOST_MILLICREDITS - row.account.balance
    is_paid = CreditTransfer.objects.filter(credit=row.account, due_at=begun).exists()
    if is_due and room > 0 and not is_paid:
        transfer(
            TransferKind.ALLOWANCE,
            debit=bank(),
            credit=row.account,
            amount=min(row.millicredits, room),
            by="allowance",
            at=now,
            due_at=begun,
        )
