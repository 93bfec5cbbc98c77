"""The routes of the tenants API, below /api/v1/."""

from django.urls import path

from tenants.api.audit import AuditExport, AuditStatus, AuditView
from tenants.api.secrets import OwnSecretsView, OwnSecretView, TenantSecretsView, TenantSecretView
from tenants.api.session import PasswordView, SessionView, TourView
from tenants.api.tenants import MembersView, MemberView, TenantsView, TenantView
from tenants.api.tokens import TokenRotation, TokensView, TokenTermsView, TokenView
from tenants.api.users import UsersView, UserView

urlpatterns = [
    path("session", SessionView.as_view()),
    path("session/password", PasswordView.as_view()),
    path("session/tour", TourView.as_view()),
    path("tokens", TokensView.as_view()),
    path("tokens/terms", TokenTermsView.as_view()),
    path("tokens/<str:key>", TokenView.as_view()),
    path("tokens/<str:key>/rotate", TokenRotation.as_view()),
    path("secrets", OwnSecretsView.as_view()),
    path("secrets/<str:name>", OwnSecretView.as_view()),
    path("users", UsersView.as_view()),
    path("users/<str:username>", UserView.as_view()),
    path("audit", AuditView.as_view()),
    path("audit/export", AuditExport.as_view()),
    path("audit/status", AuditStatus.as_view()),
    path("tenants", TenantsView.as_view()),
    path("tenants/<str:name>", TenantView.as_view()),
    path("tenants/<str:name>/members", MembersView.as_view()),
    path("tenants/<str:name>/members/<str:username>", MemberView.as_view()),
    path("tenants/<str:name>/secrets", TenantSecretsView.as_view()),
    path("tenants/<str:name>/secrets/<str:secret>", TenantSecretView.as_view()),
]
