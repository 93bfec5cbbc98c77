"""Mounts the two apps' APIs, metrics, the health checks and, for every other address, the dashboard."""

from django.urls import include, path, re_path
from django.views.generic import RedirectView

from controlplane.dashboard import ApiDocs, ApiSchema, dashboard
from controlplane.documentation import documentation
from controlplane.errors import api_not_found
from controlplane.health import healthz, readyz
from scheduler.jobs.schemas import job_spec_schema
from scheduler.telemetry.prometheus import Metrics

urlpatterns = [
    path("api/v1/", include("tenants.api.urls")),
    path("api/v1/", include("scheduler.urls")),
    path("api/agent/v1/", include("scheduler.agents.api")),
    path("api/schema", ApiSchema.as_view(), name="schema"),
    path("api/docs", ApiDocs.as_view(url_name="schema"), name="docs"),
    path("api/job-spec.schema.json", job_spec_schema),
    path("metrics", Metrics.as_view()),
    path("healthz", healthz),
    path("readyz", readyz),
    path("docs", RedirectView.as_view(url="/docs/")),
    path("docs/", documentation),
    path("docs/<path:path>", documentation),
    re_path(r"^(api|ws)(/|$)", api_not_found),
    re_path(r"^static/", api_not_found),
    re_path(r"", dashboard),
]

handler400 = "controlplane.errors.handler400"
handler403 = "controlplane.errors.handler403"
handler404 = "controlplane.errors.handler404"
handler500 = "controlplane.errors.handler500"
