"""Headers that tell browsers to distrust everything that this server did not mean."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

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
