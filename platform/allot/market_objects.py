"""What the REST API answers about the market, as types (see `allot.objects`)."""

from __future__ import annotations

from typing import Literal, TypedDict

OfferState = Literal["open", "taken", "withdrawn", "expired"]
LoanState = Literal["coming", "active", "ended"]
TransferKind = Literal["grant", "allowance", "taken_back", "payment", "refund"]


class Lot(TypedDict):
    """GPUs by model, and cells by type."""

    gpus: dict[str, int]
    cells: dict[str, int]


#: `from` is a word of the language.
class Lent(TypedDict):
    loan: int
    to: str
    lot: Lot
    ends_at: str


Borrowed = TypedDict("Borrowed", {"loan": int, "from": str, "lot": Lot, "ends_at": str})


class Offer(TypedDict):
    """Credits are numbers with up to three decimals."""

    id: int
    version: int
    lender: str
    lot: Lot
    gpus: int
    gpu_models: list[str]
    #: None: from the moment it is taken.
    starts_at: str | None
    ends_at: str
    price_per_gpu_hour: float
    in_return: Lot | None
    state: OfferState
    rule: int | None
    made_by: str
    made_at: str
    loan: int | None
    #: For the whole time if it is taken now.
    cost_now: float
    may_withdraw: bool


class Loan(TypedDict):
    id: int
    version: int
    offer: int
    lender: str
    borrower: str
    lot: Lot
    in_return: Lot | None
    gpus: int
    gpu_models: list[str]
    starts_at: str
    ends_at: str
    state: LoanState
    ended_by: str
    price_per_gpu_hour: float
    paid: float
    refunded: float
    taken_by: str
    taken_at: str
    round_number: int | None
    may_end: bool


class Rule(TypedDict):
    id: int
    virtual_cluster: str
    kind: Literal["lend", "borrow"]
    lot: Lot | None
    idle_seconds: float | None
    lend_seconds: float | None
    gpu_models: list[str]
    most_gpus: int | None
    waiting_seconds: float | None
    price_per_gpu_hour: float
    made_by: str
    made_at: str
    may_delete: bool


class Allowance(TypedDict):
    credits: float
    every_seconds: int
    next_at: str


class Account(TypedDict):
    id: int
    virtual_cluster: str
    version: int
    balance: float
    earned: float
    spent: float
    granted: float
    allowance: Allowance | None
    may_act: bool


Transfer = TypedDict(
    "Transfer",
    {
        "id": int,
        "at": str,
        "kind": TransferKind,
        "from": str,
        "to": str,
        "credits": float,
        "loan": int | None,
        "reason": str,
        "by": str,
        "round_number": int | None,
    },
)
