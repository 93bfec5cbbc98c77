"""What the next round would do with a job or a division by cells, and a line of the ledger decided again."""

from collections.abc import Mapping
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.core.cells.document import to_document
from scheduler.jobs.api import tenant_and_rest
from scheduler.jobs.schemas import JobSpec, JobSubmit
from scheduler.jobs.services.submission import Submission, warnings_for
from scheduler.rounds.preview import effects_of, preview
from scheduler.rounds.replay import replay
from scheduler.virtual_clusters.cells import schemas as cell_schemas
from scheduler.virtual_clusters.cells.api import (
    SpecificationBody,
    SpecificationInput,
    guaranteed,
    shown_problem,
)
from scheduler.virtual_clusters.cells.services import cells_check
from scheduler.virtual_clusters.ledger.api import Line
from scheduler.virtual_clusters.ledger.selectors import Sight, line_get
from scheduler.wiring.rest import FieldProblem
from tenants.errors import ApplicationError
from tenants.models import Role, Scope
from tenants.selectors import viewer


class CheckAnswer(serializers.Serializer[Mapping[str, object]]):
    ok = serializers.BooleanField()
    fields = FieldProblem(many=True)  # type: ignore[assignment]
    warnings = serializers.ListField(child=serializers.CharField())
    normalised = JobSpec(allow_null=True)
    gpus = serializers.IntegerField(
        help_text="Number of GPUs that it would occupy; a part of a GPU counts as one."
    )
    gpu_amount = serializers.FloatField(
        help_text="Amount of GPU that it would have; a part counts as a part, such as 0.3."
    )
    message = serializers.CharField()


class JobsCheck(APIView):
    scope = Scope.SUBMIT

    @extend_schema(request=JobSubmit, responses={200: CheckAnswer})
    def post(self, request: Request) -> Response:
        """Check a job specification: return its errors, or what would happen if it were submitted. Submits
        nothing.

        Viewers of the tenant may use it too.
        """
        tenant, spec = tenant_and_rest(request.data)
        submission = Submission(viewer(request), tenant, role=Role.VIEWER)
        try:
            checked = submission.check(spec)
        except ApplicationError as error:
            if not error.fields:
                raise
            return Response(_refused(error))
        reasons = preview(checked.core_job(), checked.spec)
        return Response(
            {
                "ok": True,
                "fields": [],
                "warnings": warnings_for(checked),
                "normalised": checked.spec.to_dict(),
                "gpus": checked.spec.gpus,
                "gpu_amount": checked.spec.gpu_amount,
                "message": f"Would wait: {reasons[0].message}" if reasons else "Would start at once.",
            }
        )


def _refused(error: ApplicationError) -> dict[str, Any]:
    return {
        "ok": False,
        "fields": [
            {"field": one.field, "problem": one.problem, "expected": one.expected} for one in error.fields
        ],
        "warnings": [],
        "normalised": None,
        "gpus": 0,
        "gpu_amount": 0,
        "message": error.message,
    }


class CellsCheck(APIView):
    scope = Scope.OPERATE
    is_heavy = True

    @extend_schema(request=SpecificationBody, responses={200: cell_schemas.CellsCheck})
    def post(self, request: Request) -> Response:
        """Check a cell specification: return its errors and what it would change. For operators."""
        viewer(request).require_operator()
        given = SpecificationInput(data=request.data)
        given.is_valid(raise_exception=True)
        checked = cells_check(given.validated_data["specification"])
        layout, valid = checked.layout, not checked.problems
        return Response(
            {
                "valid": valid,
                "specification": to_document(layout.specification) if layout is not None else None,
                "problems": [shown_problem(problem) for problem in checked.problems],
                "guaranteed": guaranteed(layout) if layout is not None else {},
                "effects": effects_of(layout) if layout is not None and valid else [],
            }
        )


class Replay(serializers.Serializer[Mapping[str, object]]):
    same = serializers.BooleanField()
    line = Line(
        allow_null=True,
        help_text="The line as recomputed; null: the recomputed round has no line at its position.",
    )
    round_number = serializers.IntegerField()
    seconds = serializers.FloatField(help_text="Seconds that the recomputation took.")


class LedgerReplay(APIView):
    is_heavy = True
    refusals: ClassVar = {409: "A person caused the line, or its round is no longer kept or takes too long."}

    @extend_schema(responses=Replay)
    def get(self, request: Request, line_id: int) -> Response:
        """Recompute the round of a line from its stored facts, and compare.

        409 for lines that a person caused, for rounds that are no longer kept, and for rounds that take
        longer than a request may; operators can recompute those with `manage.py replay_round`. 429 while
        another round is being recomputed.
        """
        by = viewer(request)
        line = line_get(by, line_id)
        again = replay(line)
        shown = Sight.of(by).lines([again.line])[0] if again.line else None
        return Response(
            {
                "same": again.same,
                "line": shown,
                "round_number": line.round_number,
                "seconds": round(again.seconds, 3),
            }
        )
