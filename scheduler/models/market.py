"""The market between virtual clusters: offers, loans and rules, and the credits that are paid.

Money is whole millicredits. It moves only by rows of `CreditTransfer`, each of which names both sides, and
triggers of the database (migration 0011) keep the balances: no account can write a balance, or change or
delete a transfer. So all accounts together hold exactly 0 always, the bank owing what it has granted.
"""

from datetime import datetime

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Coalesce

from tenants.models import VirtualCluster

#: The primary key of the bank's account, the only one that may be below 0.
BANK = 0
#: How transfers name it.
BANK_NAME = "bank"


class CreditAccount(models.Model):
    """What a virtual cluster has, in millicredits: granted by operators, and earned less spent by loans."""

    #: None: the bank.
    virtual_cluster = models.OneToOneField(
        VirtualCluster, on_delete=models.CASCADE, null=True, related_name="credit_account"
    )
    balance = models.BigIntegerField(default=0, editable=False)
    granted = models.BigIntegerField(default=0, editable=False)
    earned = models.BigIntegerField(default=0, editable=False)
    spent = models.BigIntegerField(default=0, editable=False)
    #: Grows with every transfer.
    version = models.PositiveBigIntegerField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(id=BANK, virtual_cluster=None) | (~Q(id=BANK) & Q(virtual_cluster__isnull=False)),
                name="one_bank",
            ),
            models.CheckConstraint(condition=Q(balance__gte=0) | Q(id=BANK), name="balance_is_not_negative"),
            models.CheckConstraint(
                condition=Q(balance=F("granted") + F("earned") - F("spent")), name="balance_adds_up"
            ),
        ]

    @property
    def holder(self) -> str:
        """Whose it is: a virtual cluster's name, or the bank's."""
        return BANK_NAME if self.virtual_cluster is None else self.virtual_cluster.name


class Allowance(models.Model):
    """Credits that a virtual cluster is granted in each period."""

    account = models.OneToOneField(
        CreditAccount, on_delete=models.CASCADE, primary_key=True, related_name="allowance"
    )
    millicredits = models.BigIntegerField()
    every_seconds = models.PositiveIntegerField()
    next_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(millicredits__gt=0, every_seconds__gt=0), name="allowance_is_positive"
            ),
        ]


class RuleKind(models.TextChoices):
    LEND = "lend"
    BORROW = "borrow"


class MarketRule(models.Model):
    """What a virtual cluster does automatically. Its terms never change; a removed rule has an end."""

    virtual_cluster = models.ForeignKey(VirtualCluster, on_delete=models.CASCADE, related_name="market_rules")
    kind = models.CharField(max_length=6, choices=RuleKind.choices)
    #: To lend at most: {"gpus": {model: n}, "cells": {type: n}}.
    lot = models.JSONField(null=True)
    idle_seconds = models.FloatField(null=True)
    lend_seconds = models.FloatField(null=True)
    #: To borrow GPUs of these models; empty: of any that the waiting jobs accept.
    gpu_models = models.JSONField(default=list)
    most_gpus = models.PositiveIntegerField(null=True)
    waiting_seconds = models.FloatField(null=True)
    #: Millicredits for a GPU and an hour: the least to lend at, the most to borrow at.
    price = models.BigIntegerField(default=0)
    #: As in events: "user vera".
    made_by = models.CharField(max_length=80)
    made_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind=RuleKind.LEND, lot__isnull=False, idle_seconds__gte=0, lend_seconds__gt=0)
                | Q(kind=RuleKind.BORROW, lot=None, most_gpus__gt=0, waiting_seconds__gte=0),
                name="rule_is_complete",
            ),
            models.CheckConstraint(condition=Q(price__gte=0), name="rule_price_is_not_negative"),
        ]
        indexes = [
            models.Index(fields=["virtual_cluster"], condition=Q(removed_at=None), name="rule_in_force"),
        ]


class OfferState(models.TextChoices):
    """An offer has one state after "open", and keeps it."""

    OPEN = "open"
    TAKEN = "taken"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"


class Offer(models.Model):
    """A lot that any other virtual cluster may take. Its terms never change, only its state."""

    lender = models.ForeignKey(VirtualCluster, on_delete=models.CASCADE, related_name="offers")
    #: {"gpus": {model: n}, "cells": {type: n}}.
    lot = models.JSONField()
    #: The lot as GPUs by model, for which the price is paid.
    gpus = models.JSONField()
    #: None: from the moment it is taken.
    starts_at = models.DateTimeField(null=True)
    ends_at = models.DateTimeField()
    #: Millicredits for a GPU and an hour.
    price = models.BigIntegerField(default=0)
    #: What the taker lends for the same time, in the form of `lot`.
    in_return = models.JSONField(null=True)
    rule = models.ForeignKey(MarketRule, on_delete=models.CASCADE, null=True, related_name="offers")
    state = models.CharField(max_length=9, choices=OfferState.choices, default=OfferState.OPEN)
    #: As in events: "user vera", "rule 3".
    made_by = models.CharField(max_length=80)
    made_at = models.DateTimeField()
    #: When it was taken, withdrawn or expired, and by whom, if by a person or rule.
    closed_at = models.DateTimeField(null=True)
    closed_by = models.CharField(max_length=80, blank=True)
    version = models.PositiveBigIntegerField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=OfferState.values), name="offer_state_is_known"),
            models.CheckConstraint(
                condition=Q(starts_at=None) | Q(starts_at__lt=F("ends_at")), name="offer_ends_after_its_start"
            ),
            models.CheckConstraint(condition=Q(price__gte=0), name="offer_price_is_not_negative"),
            models.CheckConstraint(
                condition=Q(state=OfferState.OPEN, closed_at=None)
                | (~Q(state=OfferState.OPEN) & Q(closed_at__isnull=False)),
                name="offer_is_open_or_closed",
            ),
        ]
        indexes = [
            models.Index(fields=["id"], condition=Q(state="open"), name="offer_open"),
            models.Index(fields=["lender", "-id"], name="offer_by_lender"),
        ]


#: When a loan is over, or will be.
OVER_AT = Coalesce("ended_at", "ends_at")


class Loan(models.Model):
    """An offer that was taken: its lot is the borrower's from `starts_at` until `ends_at`, or `ended_at`.

    Whether it is in force follows from the clock alone. The process that checks what has begun and ended
    (`market.services.loans`) writes `begun` and `ended_at` afterwards, so that each is reported once.
    """

    #: Each offer is taken once.
    offer = models.OneToOneField(Offer, on_delete=models.PROTECT, related_name="loan")
    borrower = models.ForeignKey(VirtualCluster, on_delete=models.PROTECT, related_name="loans_taken")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    taken_by = models.CharField(max_length=80)
    taken_at = models.DateTimeField()
    #: The round in which a rule took it.
    round_number = models.PositiveBigIntegerField(null=True)
    begun = models.BooleanField(default=False)
    ended_at = models.DateTimeField(null=True)
    #: Who ended it before its time; empty: it was not ended.
    ended_by = models.CharField(max_length=80, blank=True)
    version = models.PositiveBigIntegerField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(starts_at__lt=F("ends_at")), name="loan_ends_after_its_start"),
            models.CheckConstraint(
                condition=Q(ended_at=None) | Q(ended_at__lte=F("ends_at")), name="loan_is_not_prolonged"
            ),
        ]
        indexes = [
            models.Index(fields=["id"], condition=Q(ended_at=None), name="loan_not_ended"),
            models.Index(OVER_AT, name="loan_by_end"),
            models.Index(fields=["borrower", "-id"], name="loan_by_borrower"),
        ]

    @property
    def over_at(self) -> datetime:
        """When it is over, or will be."""
        return self.ends_at if self.ended_at is None else self.ended_at


class TransferKind(models.TextChoices):
    GRANT = "grant"
    ALLOWANCE = "allowance"
    TAKEN_BACK = "taken_back"
    PAYMENT = "payment"
    REFUND = "refund"


class CreditTransfer(models.Model):
    """Money from one account to another; appended, never changed or deleted (by a trigger)."""

    at = models.DateTimeField()
    kind = models.CharField(max_length=10, choices=TransferKind.choices)
    debit = models.ForeignKey(CreditAccount, on_delete=models.PROTECT, related_name="debits")
    credit = models.ForeignKey(CreditAccount, on_delete=models.PROTECT, related_name="credits")
    #: Millicredits.
    amount = models.BigIntegerField()
    loan = models.ForeignKey(Loan, on_delete=models.PROTECT, null=True, related_name="transfers")
    reason = models.CharField(max_length=200, blank=True)
    #: As in events: "user olga", "rule 3", "allowance".
    by = models.CharField(max_length=80)
    round_number = models.PositiveBigIntegerField(null=True)
    #: For an allowance: the instant at which its period begins.
    due_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount__gt=0), name="transfer_is_positive"),
            models.CheckConstraint(condition=~Q(debit=F("credit")), name="transfer_has_two_sides"),
            models.CheckConstraint(
                condition=Q(kind__in=[TransferKind.GRANT, TransferKind.ALLOWANCE], debit=BANK, loan=None)
                | Q(kind=TransferKind.TAKEN_BACK, credit=BANK, loan=None)
                | (
                    Q(kind__in=[TransferKind.PAYMENT, TransferKind.REFUND], loan__isnull=False)
                    & ~Q(debit=BANK)
                    & ~Q(credit=BANK)
                ),
                name="transfer_is_of_its_kind",
            ),
            models.CheckConstraint(
                condition=Q(kind=TransferKind.ALLOWANCE, due_at__isnull=False)
                | (~Q(kind=TransferKind.ALLOWANCE) & Q(due_at=None)),
                name="allowance_has_a_period",
            ),
            models.UniqueConstraint(fields=["credit", "due_at"], name="one_allowance_per_period"),
        ]
        indexes = [
            models.Index(fields=["debit", "-id"], name="transfer_by_debit"),
            models.Index(fields=["credit", "-id"], name="transfer_by_credit"),
        ]
