"""The objects of the market and its requests, as the API's schema describes them."""

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from rest_framework import serializers

from scheduler.core.model import loan_terms as core
from scheduler.models import market as models
from scheduler.models.market import OfferState, RuleKind, TransferKind
from scheduler.virtual_clusters.market.representations import LOAN_STATES
from scheduler.virtual_clusters.market.services.credits import MOST_MILLICREDITS
from scheduler.virtual_clusters.market.services.terms import LONGEST, MOST_PRICE
from scheduler.virtual_clusters.schemas import Lot
from scheduler.wiring.exports import FileQuery, Kind
from tenants.api.strict import StrictSerializer
from tenants.models import VirtualCluster

STATES = [(state, state) for state in LOAN_STATES]
MODELS_MOST = 64
GPUS_MOST = 1_000_000
NAME_MOST = 127
LONGEST_SECONDS = LONGEST.total_seconds()
#: Periods of allowances: a minute to a year.
EVERY_LEAST, EVERY_MOST = 60, 366 * 86_400
MOST_CREDITS = MOST_MILLICREDITS // 1_000


class CreditsField(serializers.FloatField):
    """Credits with up to three decimals; inside a whole number of thousandths."""

    default_error_messages = {
        "range": "{value} does not fit",
        "decimals": "{value} has more than three decimals",
    }

    def __init__(self, *, least: float = 0, most: float, **said: Any) -> None:
        super().__init__(**said)
        # Not as the framework's own bounds, which would judge the thousandths.
        self.min_value, self.max_value = least, most
        self._least, self._most = least, most

    def to_internal_value(self, data: Any) -> int:
        value = super().to_internal_value(data)
        if not (math.isfinite(value) and self._least <= value <= self._most):
            self.fail("range", value=value)
        thousandths = Decimal(repr(value)) * 1_000
        if thousandths != thousandths.to_integral_value():
            self.fail("decimals", value=value)
        return int(thousandths)


def price_field(**said: Any) -> CreditsField:
    return CreditsField(
        most=MOST_PRICE / 1_000, help_text="Credits for one GPU-hour, up to three decimals.", **said
    )


# -- what is taken -----------------------------------------------------------------------------------


def _counts(what: str) -> serializers.DictField:
    return serializers.DictField(
        child=serializers.IntegerField(min_value=1, max_value=GPUS_MOST),
        required=False,
        help_text=what,
    )


class LotInput(StrictSerializer):
    """What is lent: GPUs of models that are divided by counts, and cells of all other models."""

    gpus = _counts("Number of GPUs by model.")
    cells = _counts(
        'Number of cells by type; as "topmost type/type" if the type exists in several kinds of hardware.'
    )

    def validate(self, lot: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
        for name, counts in lot.items():
            if len(counts) > MODELS_MOST:
                raise serializers.ValidationError({name: f"has more than {MODELS_MOST} entries"})
            if any(len(key) > NAME_MOST for key in counts):
                raise serializers.ValidationError({name: f"has a name of more than {NAME_MOST} characters"})
        return lot


def lot_of(given: dict[str, Any] | None) -> core.Lot | None:
    return None if given is None else core.Lot(gpus=given.get("gpus", {}), cells=given.get("cells", {}))


class OfferInput(StrictSerializer):
    virtual_cluster = serializers.CharField(max_length=63)
    lot = LotInput()
    starts_at = serializers.DateTimeField(
        required=False, allow_null=True, help_text="Start of the loan. Default: when the offer is taken."
    )
    ends_at = serializers.DateTimeField()
    price_per_gpu_hour = price_field(default=0)
    in_return = LotInput(
        required=False,
        allow_null=True,
        help_text="What the borrower lends in return for that time. Default: nothing.",
    )


class TakeInput(StrictSerializer):
    virtual_cluster = serializers.CharField(max_length=63)


class RuleInput(StrictSerializer):
    """A market rule. To lend, give lot, idle_seconds and lend_seconds. To borrow, give most_gpus,
    waiting_seconds and gpu_models.
    """

    virtual_cluster = serializers.CharField(max_length=63)
    kind = serializers.ChoiceField(choices=RuleKind.choices)
    lot = LotInput(required=False, allow_null=True, help_text="Maximum that is lent.")
    idle_seconds = serializers.FloatField(
        required=False, allow_null=True, min_value=0, max_value=LONGEST_SECONDS
    )
    lend_seconds = serializers.FloatField(
        required=False, allow_null=True, min_value=60, max_value=LONGEST_SECONDS
    )
    gpu_models = serializers.ListField(
        child=serializers.CharField(max_length=63),
        required=False,
        allow_null=True,
        max_length=MODELS_MOST,
        help_text="GPU models to borrow; empty: those that the waiting jobs accept.",
    )
    most_gpus = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=GPUS_MOST,
        help_text="Maximum number of GPUs borrowed at once.",
    )
    waiting_seconds = serializers.FloatField(
        required=False, allow_null=True, min_value=0, max_value=LONGEST_SECONDS
    )
    price_per_gpu_hour = price_field(default=0)

    #: What each kind needs, and what else it takes.
    needs = {
        RuleKind.LEND: {"lot", "idle_seconds", "lend_seconds"},
        RuleKind.BORROW: {"most_gpus", "waiting_seconds"},
    }
    takes = {RuleKind.LEND: set(), RuleKind.BORROW: {"gpu_models"}}

    def validate(self, given: dict[str, Any]) -> dict[str, Any]:
        kind = RuleKind(given["kind"])
        said = {name for name, value in given.items() if value is not None}
        every = set().union(*self.needs.values(), *self.takes.values())
        wrong = {name: ["is missing"] for name in self.needs[kind] - said}
        wrong |= {
            name: [f"is not a field of a rule to {kind}"]
            for name in said & (every - self.needs[kind] - self.takes[kind])
        }
        if wrong:
            raise serializers.ValidationError(wrong)
        return given


class GrantInput(StrictSerializer):
    credits = CreditsField(
        least=-MOST_CREDITS,
        most=MOST_CREDITS,
        help_text="Number of credits; a negative number takes credits back, as far as the account has them.",
    )
    reason = serializers.CharField(default="", max_length=200, allow_blank=True)


class AllowanceInput(StrictSerializer):
    credits = CreditsField(least=0.001, most=MOST_CREDITS)
    every_seconds = serializers.IntegerField(min_value=EVERY_LEAST, max_value=EVERY_MOST)


class OfferQuery(serializers.Serializer[Mapping[str, object]]):
    state = serializers.ChoiceField(required=False, choices=OfferState.choices)
    virtual_cluster = serializers.CharField(
        required=False, max_length=63, help_text="Only offers of this virtual cluster."
    )


class LoanQuery(serializers.Serializer[Mapping[str, object]]):
    state = serializers.ChoiceField(required=False, choices=STATES)
    virtual_cluster = serializers.CharField(
        required=False,
        max_length=63,
        help_text="Only loans in which this virtual cluster lends or borrows.",
    )


class MarketQuery(serializers.Serializer[Mapping[str, object]]):
    virtual_cluster = serializers.CharField(required=False, max_length=63)


class TransfersFileQuery(MarketQuery, FileQuery):
    """Which transfers, and as what file."""


# -- what is answered --------------------------------------------------------------------------------


class Offer(serializers.Serializer[models.Offer]):
    id = serializers.IntegerField()
    version = serializers.IntegerField()
    lender = serializers.CharField()
    lot = Lot()
    gpus = serializers.IntegerField(help_text="All GPUs of the offer, including those in its cells.")
    gpu_models = serializers.ListField(child=serializers.CharField())
    starts_at = serializers.DateTimeField(
        allow_null=True, help_text="Start of the loan; null: when the offer is taken."
    )
    ends_at = serializers.DateTimeField()
    price_per_gpu_hour = serializers.FloatField(help_text="Credits.")
    in_return = Lot(allow_null=True, help_text="What the borrower lends in return for the same time.")
    state = serializers.ChoiceField(choices=OfferState.choices)
    rule = serializers.IntegerField(allow_null=True, help_text="Id of the rule that made the offer.")
    made_by = serializers.CharField()
    made_at = serializers.DateTimeField()
    loan = serializers.IntegerField(allow_null=True)
    cost_now = serializers.FloatField(help_text="Credits for the whole time if you take it now.")
    may_withdraw = serializers.BooleanField(help_text="Whether you may do so. Not in the live stream.")


class Loan(serializers.Serializer[models.Loan]):
    id = serializers.IntegerField()
    version = serializers.IntegerField()
    offer = serializers.IntegerField()
    lender = serializers.CharField()
    borrower = serializers.CharField()
    lot = Lot()
    in_return = Lot(allow_null=True)
    gpus = serializers.IntegerField()
    gpu_models = serializers.ListField(child=serializers.CharField())
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField(help_text="When it ends or ended, also if it ended early.")
    state = serializers.ChoiceField(choices=STATES)
    ended_by = serializers.CharField(allow_blank=True, help_text="Person who ended it early, if any.")
    price_per_gpu_hour = serializers.FloatField()
    paid = serializers.FloatField(help_text="Credits.")
    refunded = serializers.FloatField()
    taken_by = serializers.CharField()
    taken_at = serializers.DateTimeField()
    round_number = serializers.IntegerField(
        allow_null=True, help_text="Number of the scheduling round in which a rule took it."
    )
    may_end = serializers.BooleanField(help_text="Whether you may do so. Not in the live stream.")


class MarketRule(serializers.Serializer[models.MarketRule]):
    id = serializers.IntegerField()
    virtual_cluster = serializers.CharField()
    kind = serializers.ChoiceField(choices=RuleKind.choices)
    lot = Lot(allow_null=True)
    idle_seconds = serializers.FloatField(allow_null=True)
    lend_seconds = serializers.FloatField(allow_null=True)
    gpu_models = serializers.ListField(child=serializers.CharField())
    most_gpus = serializers.IntegerField(allow_null=True)
    waiting_seconds = serializers.FloatField(allow_null=True)
    price_per_gpu_hour = serializers.FloatField()
    made_by = serializers.CharField()
    made_at = serializers.DateTimeField()
    may_delete = serializers.BooleanField()


class CreditAllowance(serializers.Serializer[Mapping[str, object]]):
    credits = serializers.FloatField()
    every_seconds = serializers.IntegerField()
    next_at = serializers.DateTimeField()


class CreditAccount(serializers.Serializer[VirtualCluster]):
    id = serializers.IntegerField(help_text="Id of the virtual cluster.")
    virtual_cluster = serializers.CharField()
    version = serializers.IntegerField()
    balance = serializers.FloatField(help_text="Credits granted and earned, minus credits spent.")
    earned = serializers.FloatField()
    spent = serializers.FloatField()
    granted = serializers.FloatField()
    allowance = CreditAllowance(allow_null=True)
    may_act = serializers.BooleanField(
        help_text="Whether you may make offers, take offers and set rules for it. Not in the live stream."
    )


class CreditTransfer(serializers.Serializer[models.CreditTransfer]):
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    kind = serializers.ChoiceField(choices=TransferKind.choices)
    to = serializers.CharField(help_text='The receiver: a virtual cluster, or "bank".')
    credits = serializers.FloatField()
    loan = serializers.IntegerField(allow_null=True)
    reason = serializers.CharField(allow_blank=True)
    by = serializers.CharField()
    round_number = serializers.IntegerField(allow_null=True)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        # A word of the language, so it cannot be written as the others are.
        return {
            **super().get_fields(),
            "from": serializers.CharField(help_text='The sender: a virtual cluster, or "bank".'),
        }


TRANSFER_COLUMNS = {
    "id": Kind.INTEGER,
    "at": Kind.INSTANT,
    "kind": Kind.TEXT,
    "from": Kind.TEXT,
    "to": Kind.TEXT,
    "credits": Kind.DECIMAL,
    "loan": Kind.INTEGER,
    "reason": Kind.TEXT,
    "by": Kind.TEXT,
    "round_number": Kind.INTEGER,
}
