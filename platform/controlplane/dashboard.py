"""The pages: one index.html for every address that is not the API's, and the API's description."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer
from drf_spectacular.views import SpectacularJSONAPIView, SpectacularSwaggerSplitView
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

NOT_BUILT = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Allotment: the dashboard is not built</title></head>
<body>
<h1>The dashboard is not built</h1>
<p>The server runs, and its API answers at <a href="/api/docs">/api/docs</a>.
To build the page, run <code>make dashboard</code>, then reload.</p>
</body>
</html>
"""

# Everything from this server only. Styles may be inline: component and chart libraries position
# with style attributes. `connect-src 'self'` includes the WebSocket of the same host.
CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "worker-src 'self' blob:",
        "manifest-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)


@require_safe
def dashboard(request: HttpRequest) -> HttpResponse:
    """The page's entry, never cached, since it names the hashed files of one build."""
    index = settings.FRONTEND_DIST / "index.html"
    try:
        response = HttpResponse(index.read_bytes())
    except FileNotFoundError:
        response = HttpResponse(NOT_BUILT, status=503)
    response["Cache-Control"] = "no-store"
    response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    return response


@cache
def _api_schema() -> bytes:
    """The API's description as indented JSON. It is the same for all, and takes half a second to make."""
    return OpenApiJsonRenderer().render(SchemaGenerator().get_schema(public=True), renderer_context={})


class ApiSchema(SpectacularJSONAPIView):
    """The API's description, made once in each process."""

    def _get_schema_response(self, request: Request) -> HttpResponse:
        renderer = request.accepted_renderer
        return HttpResponse(
            _api_schema(),
            content_type=renderer.media_type,
            headers={"Content-Disposition": 'inline; filename="allotment-openapi.json"'},
        )


class ApiDocs(SpectacularSwaggerSplitView):
    """Swagger UI, from this server. The page is for all; the schema that it loads is for signed-in users."""

    permission_classes = [AllowAny]

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
        return super().finalize_response(request, response, *args, **kwargs)
