"""The caller of a request and the caller's roles, by one statement that is written down once.

Every request begins with it. The ORM would take many times as long to build it each time as the database
takes to answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Model

from tenants.models import Role, Token, User


@dataclass(frozen=True, slots=True)
class RoleInTenant:
    """A role of a user in one tenant."""

    tenant_id: int
    tenant: str
    role: Role


def _columns(model: type[Model], alias: str) -> str:
    return ", ".join(f"{alias}.{field.column}" for field in model._meta.concrete_fields)


#: A row for each role, or one without a role; in each of them the whole user.
_WITH_ROLES = """
LEFT JOIN tenants_membership m ON m.user_id = u.id LEFT JOIN tenants_tenant t ON t.id = m.tenant_id
"""
_USER = f"SELECT m.tenant_id, t.name, m.role, {_columns(User, 'u')}"
_USER_BY_ID = f"{_USER} FROM tenants_user u {_WITH_ROLES} WHERE u.id = %s ORDER BY m.tenant_id"
_TOKEN_BY_KEY = f"""
{_USER}, {_columns(Token, "k")} FROM tenants_token k JOIN tenants_user u ON u.id = k.user_id {_WITH_ROLES}
WHERE k.key = %s ORDER BY m.tenant_id
"""
_USER_BEGINS = 3
_TOKEN_BEGINS = _USER_BEGINS + len(User._meta.concrete_fields)


def user_with_roles(user_id: int) -> User | None:
    """Return a user with the user's roles loaded (`held`)."""
    rows = _rows(_USER_BY_ID, user_id)
    return _user(rows) if rows else None


def token_with_user(key: str) -> Token | None:
    """Return a token, valid or not, with its user's roles loaded."""
    rows = _rows(_TOKEN_BY_KEY, key)
    if not rows:
        return None
    token: Token = _instance(Token, rows[0][_TOKEN_BEGINS:])
    token.user = _user(rows)
    return token


def _rows(statement: str, value: int | str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, [value])
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def _user(rows: Sequence[tuple[Any, ...]]) -> User:
    user: User = _instance(User, rows[0][_USER_BEGINS:_TOKEN_BEGINS])
    held = tuple(RoleInTenant(tenant_id, tenant, Role(role)) for tenant_id, tenant, role, *_ in rows if role)
    # No column: `tenants.selectors.viewer_of` takes it from there, and asks nothing more.
    user.held = held  # type: ignore[attr-defined]
    return user


def _instance(model: Any, values: Sequence[Any]) -> Any:
    return model.from_db(connection.alias, [field.attname for field in model._meta.concrete_fields], values)
