"""The documentation's site, as MkDocs built it (mkdocs.yml): files, for all."""

import base64
import hashlib
import re
from functools import lru_cache

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.http import require_safe
from django.views.static import serve

from controlplane.dashboard import CONTENT_SECURITY_POLICY

_NOT_BUILT = """<!doctype html><meta charset="utf-8"><title>Documentation</title>
<p>The documentation is not built here: run <code>make docs</code>, or read the folder <code>docs</code>.</p>
"""
_INLINE_SCRIPT = re.compile(rb"<script>(.*?)</script>", re.DOTALL)


@require_safe
def documentation(request: HttpRequest, path: str = "index.html") -> HttpResponseBase:
    """Answer with a file of the site. It is the same for all, and states nothing about this installation."""
    root = settings.DOCUMENTATION_SITE
    if not (root / "index.html").is_file():
        return HttpResponse(_NOT_BUILT, status=503)
    answer = serve(request, path, document_root=str(root))
    answer["Cache-Control"] = "no-cache"
    if path.endswith(".html"):
        file = root / path
        answer["Content-Security-Policy"] = _policy(str(file), file.stat().st_mtime)
    return answer


@lru_cache(maxsize=200)
def _policy(file: str, changed_at: float) -> str:
    """Return the dashboard's policy with the digests of the scripts that stand in this very page."""
    with open(file, "rb") as page:
        scripts = _INLINE_SCRIPT.findall(page.read())
    digests = [base64.b64encode(hashlib.sha256(script).digest()).decode() for script in scripts]
    allowed = " ".join(["script-src 'self'", *(f"'sha256-{digest}'" for digest in digests)])
    return CONTENT_SECURITY_POLICY.replace("script-src 'self'", allowed)
