"""Headers of every answer, the name of a request among them, and static files in one piece."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

from controlplane.errors import request_name

REQUEST_ID = "X-Request-ID"
#: A longer or stranger name could forge lines of a log.
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
#: For answers that are data: a browser that renders one anyway may load and run nothing.
DATA_POLICY = "default-src 'none'; frame-ancestors 'none'"


class HeadersMiddleware:
    """Adds what holds for every answer; a view that set its own policy keeps it.

    Browsers load only what this server means them to. The answer names its request, as the caller
    did or by a random name, and an unforeseen error is logged under that name.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        given = request.headers.get(REQUEST_ID, "")
        name = given if _NAME.fullmatch(given) else secrets.token_hex(8)
        known = request_name.set(name)
        try:
            response = self.get_response(request)
        finally:
            request_name.reset(known)
        response.headers[REQUEST_ID] = name
        response.headers.setdefault("Content-Security-Policy", DATA_POLICY)
        response.headers.setdefault("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
        if request.path_info.startswith("/api/"):
            # Answers differ by caller, and the browser's back button must not show another's.
            response.headers.setdefault("Cache-Control", "no-store")
        return response


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]  # it has no types
    """The dashboard's files, in one piece and of its present build.

    Whitenoise answers with a stream of blocking reads, which under ASGI Django would collect while
    complaining. A dashboard's files are small: read them here, in the thread that is for blocking.
    It also lists them once at the start, while the page itself names those of the newest build. So
    they are forgotten when that changes, and each is looked for when it is first asked for.
    """

    get_response: Callable[[HttpRequest], HttpResponseBase]
    #: By address. After a later build, only those that were asked for.
    files: dict[str, StaticFile]

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.build = _build()
        super().__init__(get_response)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        path = request.path_info
        if not path.startswith(self.static_prefix):
            return self.get_response(request)
        if (build := _build()) != self.build:
            self.build, self.files = build, {}
        static_file = self.files.get(path) or self.find_file(path)
        if static_file is None:
            return self.get_response(request)
        self.files[path] = static_file
        return self.serve(static_file, request)

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


def _build() -> int | None:
    """Return when the dashboard was built, in nanoseconds; None: it is not, or is just being built."""
    try:
        return (settings.FRONTEND_DIST / "index.html").stat().st_mtime_ns
    except OSError:
        return None
