"""Headers that tell browsers to distrust what this server did not mean, and static files in one piece."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

#: For answers that are data: a browser that renders one anyway may load and run nothing.
DATA_POLICY = "default-src 'none'; frame-ancestors 'none'"


class HeadersMiddleware:
    """Adds what holds for every answer; a view that set its own policy keeps it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", DATA_POLICY)
        response.headers.setdefault("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
        if request.path_info.startswith("/api/"):
            # Answers differ by who asks, and the browser's back button must not show another's.
            response.headers.setdefault("Cache-Control", "no-store")
        return response


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]  # it has no types
    """Whitenoise answers with a stream of blocking reads, which under ASGI Django would collect while
    complaining. A dashboard's files are small: read them here, in the thread that is for blocking."""

    @staticmethod
    def serve(static_file: StaticFile, request: HttpRequest) -> HttpResponse:
        answer = static_file.get_response(request.method, request.META)
        content = b""
        if answer.file is not None:
            with answer.file as file:
                content = file.read()
        response = HttpResponse(content, status=int(answer.status))
        del response["Content-Type"]
        for name, value in answer.headers:
            response[name] = value
        return response
