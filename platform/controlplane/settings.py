"""Django's settings. What varies between installations is in `controlplane.config`."""

import os
from typing import Any
from urllib.parse import unquote, urlsplit

from controlplane import server_urls
from controlplane.config import DASHBOARD, DOCUMENTATION, EXAMPLES, MAIL_PORTS, config, home

CONFIG = config()

SECRET_KEY = CONFIG.secret_key.get_secret_value()
DEBUG = CONFIG.debug
ALLOWED_HOSTS = [host.strip() for host in CONFIG.hosts.split(",") if host.strip()]

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "channels",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "tenants",
    "scheduler",
    "controlplane",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "controlplane.middleware.HeadersMiddleware",
    # Around all that knows who asks, refuses, or writes.
    "controlplane.audited.AuditMiddleware",
    "controlplane.middleware.StaticFilesMiddleware",
    "controlplane.limits.NoNulMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    # Last: it needs to know who asks, and wraps the view in the transaction of its answer.
    "controlplane.idempotency.IdempotencyMiddleware",
]

#: Where what the platform writes is kept.
ALLOT_HOME = home()

ROOT_URLCONF = "controlplane.urls"
ASGI_APPLICATION = "controlplane.asgi.application"
TEMPLATES: list[dict[str, object]] = [
    {"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}
]


# By this the audit log distinguishes what the platform does from what a person does by hand in the database.
os.environ.setdefault("PGAPPNAME", "allotment")
#: Requests that are answered at the same time, beside those that are heavy (`controlplane.lanes`).
REQUEST_THREADS = 12
#: The same for agents, which no other caller can make wait.
AGENT_THREADS = 4
#: One for each of them, so that no thread waits for one, and some for the sockets.
DATABASE_CONNECTIONS = REQUEST_THREADS + AGENT_THREADS + CONFIG.heavy_requests + 4


def _database(url: str) -> dict[str, Any]:
    database = server_urls.database(url)
    pool = {"min_size": 0, "max_size": DATABASE_CONNECTIONS, "timeout": 10, "max_idle": 60}
    # While one attempt to connect waits for longer and longer, the pool makes no other: a database that was
    # away for long would be found again late.
    pool["reconnect_timeout"] = 5
    return database | {"ENGINE": "controlplane.postgresql", "OPTIONS": database["OPTIONS"] | {"pool": pool}}


DATABASES = {"default": _database(CONFIG.database_url)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "tenants.User"
AUTHENTICATION_BACKENDS = ["controlplane.auth.UserBackend"]
# Hard on memory as well as on time, and for an honest sign-in a third of the default's processor time.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.ScryptPasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
]
SESSION_COOKIE_NAME = "allot_session"
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CONFIG.secure
# Kept with the session, and sent to the page by GET /session: cookies know no ports, so that pages of jobs at
# another port of this host could read one.
CSRF_USE_SESSIONS = True
CSRF_FAILURE_VIEW = "controlplane.errors.csrf_failure"
# Behind a proxy that ends TLS, requests arrive here as http while pages name https as their origin.
CSRF_TRUSTED_ORIGINS = [f"https://{host}" for host in ALLOWED_HOSTS] if CONFIG.secure else []
SECURE_HSTS_SECONDS = 30 * 86_400 if CONFIG.secure else 0
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
# An address without its slash is answered, not redirected: no route of the API ends in one.
APPEND_SLASH = False
DATA_UPLOAD_MAX_MEMORY_SIZE = CONFIG.request_bytes

LANGUAGE_CODE = "en-us"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
FRONTEND_DIST = DASHBOARD
DOCUMENTATION_SITE = DOCUMENTATION
EXAMPLES_FOLDER = EXAMPLES
# It may be built while the server runs.
STATICFILES_DIRS = [FRONTEND_DIST]
SILENCED_SYSTEM_CHECKS = ["staticfiles.W004"]
# Straight from the folder of the built page and from packages: nothing to collect.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False
# The bundler's names carry a digest of the content: main-Dq3x_8aZ.js
WHITENOISE_IMMUTABLE_FILE_TEST = r"^/static/assets/.+-[A-Za-z0-9_-]{8}\.[a-z0-9]+$"


def _mail(url: str) -> dict[str, Any]:
    """What Django knows of the mail server; no host: there is none."""
    parts = urlsplit(url)
    return {
        "EMAIL_HOST": parts.hostname or "",
        "EMAIL_PORT": parts.port or MAIL_PORTS.get(parts.scheme, 25),
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_TLS": parts.scheme == "smtp+starttls",
        "EMAIL_USE_SSL": parts.scheme == "smtps",
    }


globals().update(_mail(CONFIG.email_url.get_secret_value()))
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = CONFIG.email_from

REDIS_URL = CONFIG.redis_url

CHANNEL_LAYERS = {
    "default": {
        # A lost message is harmless: the page keeps the newest version of each object and refetches.
        "BACKEND": "controlplane.channel_layer.ChannelLayer",
        "CONFIG": {"url": REDIS_URL, "prefix": "allot"},
    }
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "controlplane.auth.TokenAuthentication",
        "controlplane.auth.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": [
        "rest_framework.permissions.IsAuthenticated",
        "controlplane.auth.HasScope",
    ],
    "DEFAULT_PARSER_CLASSES": ["controlplane.limits.JSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PAGINATION_CLASS": "controlplane.pagination.NewestFirst",
    "DEFAULT_FILTER_BACKENDS": ["tenants.api.queries.FilterBackend"],
    "DEFAULT_SCHEMA_CLASS": "controlplane.schema.Schema",
    "EXCEPTION_HANDLER": "controlplane.errors.exception_handler",
    "UNAUTHENTICATED_USER": None,
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Allotment API",
    "VERSION": "1",
    "DESCRIPTION": (
        "A multi-tenant scheduler for GPU clusters. Errors are problem details (RFC 9457) with `code` and "
        "`fields`. Lists are paginated by cursors. A request that is too long is refused before it is read: "
        "a body with 413, an address with 414, headers with 431."
    ),
    "SERVE_INCLUDE_SCHEMA": False,
    "COMPONENT_SPLIT_REQUEST": True,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    # Several things have a "state", each with words of its own.
    "ENUM_NAME_OVERRIDES": {
        "Role": "tenants.models.Role.choices",
        "Scope": "tenants.models.Scope.choices",
        "JobState": "scheduler.jobs.schemas.JOB_STATES",
        "BudgetAction": "scheduler.models.budgets.BudgetAction.choices",
        "JobsActionKind": "scheduler.jobs.schemas.ACTIONS",
        "AttemptState": "scheduler.jobs.attempts.schemas.ATTEMPT_STATES",
        "NodeState": "scheduler.nodes.schemas.NODE_STATES",
        "NodeLoanStateEnum": "scheduler.nodes.schemas.LOAN_STATES",
        "GpuState": "scheduler.nodes.schemas.GPU_STATES",
        "WhatIfState": "scheduler.forecasts.schemas.WHAT_IF_STATES",
        "RoundState": "scheduler.rounds.schemas.ROUND_STATES",
        "WindowState": "scheduler.nodes.schemas.WINDOW_STATES",
        "OfferState": "scheduler.models.market.OfferState.choices",
        "LoanState": "scheduler.virtual_clusters.market.schemas.STATES",
        "RuleKind": "scheduler.models.market.RuleKind.choices",
        "TransferKind": "scheduler.models.market.TransferKind.choices",
        "JobNotices": "scheduler.models.notifications.JobNotices.choices",
        "PeriodEnum": "scheduler.models.budgets.BudgetPeriod.choices",
        "ReportPeriod": "scheduler.models.notifications.ReportPeriod.choices",
        "SecretScope": "tenants.SECRET_SCOPES",
        "WatchedThen": "scheduler.jobspec.WATCHED_THEN",
        "ElasticMode": "scheduler.jobspec.ELASTIC_MODES",
        "DeliveryState": "scheduler.models.notifications.DeliveryState.choices",
    },
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        "httpx": {"level": "WARNING"},
        "uvicorn.access": {"level": "WARNING"},
        # A refused request is the caller's affair; a failed one is ours.
        "django.request": {"level": "ERROR"},
        # So is a Host that is not ours, which any client may send as often as it likes.
        "django.security.DisallowedHost": {"level": "CRITICAL"},
    },
}
