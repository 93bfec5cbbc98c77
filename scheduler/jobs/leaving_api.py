"""The endpoint that deactivates a user, and says what becomes of the jobs (decision 0080)."""

from dataclasses import asdict

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.jobs import schemas
from scheduler.jobs.services.leaving import leaving_foreseen, user_deactivate
from tenants.models import Scope
from tenants.selectors import viewer


class UserDeactivate(APIView):
    scope = Scope.OPERATE
    repeats_safely = True

    @extend_schema(
        request=schemas.Deactivation,
        responses={200: schemas.Leaving},
        examples=[
            OpenApiExample(
                "Only say what would become of the jobs", value={"dry_run": True}, request_only=True
            )
        ],
    )
    def post(self, request: Request, username: str) -> Response:
        """Deactivate a user: sessions and tokens end at once. For operators.

        Running jobs go on and waiting jobs are held until a person releases them, unless all are cancelled.
        """
        by = viewer(request)
        by.require_operator()
        given = schemas.Deactivation(data=request.data)
        given.is_valid(raise_exception=True)
        body = given.validated_data
        do = leaving_foreseen if body["dry_run"] else user_deactivate
        return Response(asdict(do(by=by, username=username, cancel=body["jobs"] == schemas.CANCEL)))
