"""The market between virtual clusters: all signed-in users see offers and loans, owners offer and take."""

from typing import Any

from django.db.models import Q, QuerySet
from django.http import StreamingHttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.generics import GenericAPIView, ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.models.market import OVER_AT, CreditTransfer, Loan, MarketRule, Offer, OfferState, RuleKind
from scheduler.models.selectors.virtual_clusters import virtual_cluster_get
from scheduler.virtual_clusters.market import representations, schemas
from scheduler.virtual_clusters.market.representations import ACTIVE, COMING, ENDED
from scheduler.virtual_clusters.market.selectors import loan_get, offer_get, virtual_clusters_of
from scheduler.virtual_clusters.market.services.credits import allowance_remove, allowance_set, credits_grant
from scheduler.virtual_clusters.market.services.loans import loan_end, offer_take
from scheduler.virtual_clusters.market.services.offers import RequireUnused, offer_make, offer_withdraw
from scheduler.virtual_clusters.market.services.rules import Borrowing, Lending, rule_make, rule_remove
from scheduler.virtual_clusters.market.services.terms import Terms
from scheduler.wiring.clock import database_now
from scheduler.wiring.exports import FILE_ANSWERS, AnyFile, exported
from scheduler.wiring.rest import checked
from tenants.api.answers import created
from tenants.errors import NotFound
from tenants.models import Scope, VirtualCluster
from tenants.selectors import Viewer, viewer


class Offers(ListAPIView[Offer]):
    #: Raises Conflict where running jobs need the lot; `urls` gives it, for it decides a round.
    require_unused: RequireUnused | None = None
    scope = Scope.MANAGE
    queryset = Offer.objects.none()
    serializer_class = schemas.Offer

    @extend_schema(parameters=[schemas.OfferQuery])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List offers of all virtual clusters, newest first."""
        query = checked(schemas.OfferQuery, request)
        rows = Offer.objects.all()
        if "virtual_cluster" in query:
            rows = rows.filter(lender__name=query["virtual_cluster"])
        if "state" in query:
            rows = rows.filter(_offers_that_are(query["state"]))
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(
            representations.offers([row.pk for row in page or ()], viewer(request))
        )

    @extend_schema(request=schemas.OfferInput, responses={201: schemas.Offer})
    def post(self, request: Request) -> Response:
        """Offer GPUs or cells of a virtual cluster for loan. For admins of its only member, and operators."""
        by, given = viewer(request), schemas.OfferInput(data=request.data)
        given.is_valid(raise_exception=True)
        body = given.validated_data
        virtual_cluster = virtual_cluster_get(body["virtual_cluster"])
        lot = schemas.lot_of(body["lot"])
        assert lot is not None
        terms = Terms(
            lot=lot,
            starts_at=body.get("starts_at"),
            ends_at=body["ends_at"],
            price=body["price_per_gpu_hour"],
            in_return=schemas.lot_of(body.get("in_return")),
        )
        offer = offer_make(
            by=by, virtual_cluster=virtual_cluster, terms=terms, require_unused=self.require_unused
        )
        return created(request, representations.offers([offer.id], by)[0], offer.id)


def _offers_that_are(state: str) -> Q:
    """Select by the state that is shown: an offer that is over is closed a moment later."""
    over = Q(state=OfferState.OPEN, ends_at__lte=database_now())
    if state == OfferState.OPEN:
        return Q(state=state) & ~over
    return Q(state=state) | over if state == OfferState.EXPIRED else Q(state=state)


class OfferDetail(APIView):
    @extend_schema(responses=schemas.Offer)
    def get(self, request: Request, offer_id: int) -> Response:
        """Get one offer."""
        return Response(representations.offers([offer_get(offer_id).id], viewer(request))[0])


class OfferWithdraw(APIView):
    scope = Scope.MANAGE

    @extend_schema(request=None, responses={200: schemas.Offer})
    def post(self, request: Request, offer_id: int) -> Response:
        """Withdraw an open offer. For its owners, and operators."""
        by = viewer(request)
        offer = offer_withdraw(by=by, offer=offer_get(offer_id))
        return Response(representations.offers([offer.id], by)[0])


class OfferTake(APIView):
    scope = Scope.MANAGE

    @extend_schema(request=schemas.TakeInput, responses={201: schemas.Loan})
    def post(self, request: Request, offer_id: int) -> Response:
        """Take an offer: borrow what it offers, and pay for its whole time. For owners of the virtual cluster
        that borrows, and operators.
        """
        by, given = viewer(request), schemas.TakeInput(data=request.data)
        given.is_valid(raise_exception=True)
        borrower = virtual_cluster_get(given.validated_data["virtual_cluster"])
        loan = offer_take(by=by, offer_id=offer_get(offer_id).id, virtual_cluster=borrower)
        return Response(representations.loans([loan.id], by)[0], status=201)


class Loans(ListAPIView[Loan]):
    """List loans between all virtual clusters, newest first."""

    queryset = Loan.objects.none()
    serializer_class = schemas.Loan

    @extend_schema(parameters=[schemas.LoanQuery])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        query = checked(schemas.LoanQuery, request)
        rows = Loan.objects.alias(end=OVER_AT)
        if name := query.get("virtual_cluster"):
            rows = rows.filter(Q(offer__lender__name=name) | Q(borrower__name=name))
        if "state" in query:
            rows = rows.filter(_loans_that_are(query["state"]))
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(
            representations.loans([row.pk for row in page or ()], viewer(request))
        )


def _loans_that_are(state: str) -> Q:
    now = database_now()
    going_on = Q(end__gt=now)
    return {
        COMING: going_on & Q(starts_at__gt=now),
        ACTIVE: going_on & Q(starts_at__lte=now),
        ENDED: ~going_on,
    }[state]


class LoanDetail(APIView):
    @extend_schema(responses=schemas.Loan)
    def get(self, request: Request, loan_id: int) -> Response:
        """Get one loan."""
        return Response(representations.loans([loan_get(loan_id).id], viewer(request))[0])


class LoanEnd(APIView):
    scope = Scope.MANAGE

    @extend_schema(request=None, responses={200: schemas.Loan})
    def post(self, request: Request, loan_id: int) -> Response:
        """End a loan now. The borrower's owners give it back without a refund. If an operator ends it, the
        remaining time is refunded as far as the lender still has the credits.
        """
        by = viewer(request)
        loan = loan_end(by=by, loan_id=loan_get(loan_id).id)
        return Response(representations.loans([loan.id], by)[0])


class MarketRules(ListAPIView[MarketRule]):
    scope = Scope.MANAGE
    queryset = MarketRule.objects.none()
    serializer_class = schemas.MarketRule

    @extend_schema(parameters=[schemas.MarketQuery])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List market rules in force. Members see those of their virtual clusters, operators all."""
        by = viewer(request)
        rows = MarketRule.objects.filter(removed_at=None, virtual_cluster__in=virtual_clusters_of(by))
        if name := checked(schemas.MarketQuery, request).get("virtual_cluster"):
            rows = rows.filter(virtual_cluster__name=name)
        page = self.paginate_queryset(rows.select_related("virtual_cluster"))
        return self.get_paginated_response(representations.rules(page or (), by))

    @extend_schema(request=schemas.RuleInput, responses={201: schemas.MarketRule})
    def post(self, request: Request) -> Response:
        """Add a market rule: lend idle GPUs, or borrow when jobs wait. For owners of the virtual cluster, and
        operators.
        """
        by, given = viewer(request), schemas.RuleInput(data=request.data)
        given.is_valid(raise_exception=True)
        said = given.validated_data
        virtual_cluster = virtual_cluster_get(said["virtual_cluster"])
        rule = rule_make(by=by, virtual_cluster=virtual_cluster, terms=_rule_terms(said))
        return created(request, representations.rules([rule], by)[0], rule.id)


def _rule_terms(said: dict[str, Any]) -> Lending | Borrowing:
    price = said["price_per_gpu_hour"]
    if said["kind"] == RuleKind.BORROW:
        return Borrowing(
            gpu_models=tuple(said.get("gpu_models") or ()),
            most_gpus=said["most_gpus"],
            waiting_seconds=said["waiting_seconds"],
            price=price,
        )
    lot = schemas.lot_of(said["lot"])
    assert lot is not None
    return Lending(lot=lot, idle_seconds=said["idle_seconds"], lend_seconds=said["lend_seconds"], price=price)


class MarketRuleDetail(APIView):
    scope = Scope.MANAGE

    @extend_schema(responses={204: None})
    def delete(self, request: Request, rule_id: int) -> Response:
        """Remove a market rule; its open offers are withdrawn. For owners, and operators."""
        by = viewer(request)
        visible = MarketRule.objects.filter(id=rule_id, virtual_cluster__in=virtual_clusters_of(by))
        if not visible.exists():
            raise NotFound(f"There is no rule {rule_id}, or it is of a virtual cluster of others.")
        rule_remove(by=by, rule_id=rule_id)
        return Response(status=204)


class CreditAccounts(ListAPIView[VirtualCluster]):
    """List credit accounts of virtual clusters by name. Members see those of their tenants, operators all."""

    queryset = VirtualCluster.objects.none()
    serializer_class = schemas.CreditAccount
    ordering = "name"

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        by = viewer(request)
        page = self.paginate_queryset(self.filter_queryset(virtual_clusters_of(by)))
        return self.get_paginated_response(representations.accounts([row.pk for row in page or ()], by))


class CreditGrant(APIView):
    scope = Scope.OPERATE

    @extend_schema(request=schemas.GrantInput, responses={200: schemas.CreditAccount})
    def post(self, request: Request, virtual_cluster: str) -> Response:
        """Grant credits, or take credits back as far as the account has them. For operators."""
        by = _operator(request)
        row, given = virtual_cluster_get(virtual_cluster), schemas.GrantInput(data=request.data)
        given.is_valid(raise_exception=True)
        said = given.validated_data
        credits_grant(by=by, virtual_cluster=row, millicredits=said["credits"], reason=said["reason"])
        return Response(representations.accounts([row.id], by)[0])


class CreditAllowanceView(APIView):
    scope = Scope.OPERATE

    @extend_schema(request=schemas.AllowanceInput, responses=schemas.CreditAccount)
    def put(self, request: Request, virtual_cluster: str) -> Response:
        """Set an allowance: grant credits now and in each period. For operators."""
        by = _operator(request)
        row, given = virtual_cluster_get(virtual_cluster), schemas.AllowanceInput(data=request.data)
        given.is_valid(raise_exception=True)
        said = given.validated_data
        allowance_set(
            by=by,
            virtual_cluster=row,
            millicredits=said["credits"],
            every_seconds=said["every_seconds"],
        )
        return Response(representations.accounts([row.id], by)[0])

    @extend_schema(responses={204: None})
    def delete(self, request: Request, virtual_cluster: str) -> Response:
        """Remove the allowance; granted credits stay. For operators."""
        allowance_remove(by=_operator(request), virtual_cluster=virtual_cluster_get(virtual_cluster))
        return Response(status=204)


class CreditTransfers(ListAPIView[CreditTransfer]):
    """List transfers between accounts, newest first. Members see those of their virtual clusters, operators
    all.
    """

    queryset = CreditTransfer.objects.none()
    serializer_class = schemas.CreditTransfer

    @extend_schema(parameters=[schemas.MarketQuery])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page = self.paginate_queryset(_transfers(request))
        return self.get_paginated_response(representations.transfers(page or ()))


class CreditTransferExport(GenericAPIView[CreditTransfer]):
    is_heavy = True
    queryset = CreditTransfer.objects.none()
    content_negotiation_class = AnyFile
    pagination_class = None

    @extend_schema(parameters=[schemas.TransfersFileQuery], responses=FILE_ANSWERS)
    def get(self, request: Request) -> StreamingHttpResponse:
        """Export the transfers as CSV or Parquet, oldest first. At most the newest 100,000 are exported; the
        file states if there are more.
        """
        transfers = _transfers(request, schemas.TransfersFileQuery)
        return exported(request, "transfers", transfers, schemas.TRANSFER_COLUMNS, representations.transfers)


def _transfers(
    request: Request, known: type[schemas.MarketQuery] = schemas.MarketQuery
) -> QuerySet[CreditTransfer]:
    query, by = checked(known, request), viewer(request)
    rows = CreditTransfer.objects.select_related("debit__virtual_cluster", "credit__virtual_cluster")
    if not by.is_operator:
        seen = virtual_clusters_of(by).values("id")
        rows = rows.filter(Q(debit__virtual_cluster__in=seen) | Q(credit__virtual_cluster__in=seen))
    if name := query.get("virtual_cluster"):
        rows = rows.filter(Q(debit__virtual_cluster__name=name) | Q(credit__virtual_cluster__name=name))
    return rows


def _operator(request: Request) -> Viewer:
    by = viewer(request)
    by.require_operator()
    return by
