"""Whether the credentials of a caller are still valid, and for what: for callers that keep something open for
long.

Code that takes a right away announces it (`tell_changed`), and every process that serves the caller checks
again at once (`controlplane.rights`). That is for speed alone: they check every few seconds in any case.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from channels.layers import get_channel_layer
from django.db import connection

from tenants.after_commit import after_commit
from tenants.selectors import Viewer, viewer_again

#: The group of processes that check again when a user's rights have changed.
GROUP = "rights"


class SignIn(NamedTuple):
    """What stands for a user who cannot be asked again: a token, or else the session of a browser."""

    user_id: int
    token_id: int | None
    session_key: str

    @classmethod
    def of(cls, viewer: Viewer, session_key: str | None) -> SignIn:
        """What this viewer signed in with; a session's key says nothing about who showed a token."""
        return cls(viewer.user.pk, viewer.token_id, "" if viewer.token_id else session_key or "")


class Facts(NamedTuple):
    """What rights rest on: compared with earlier ones, they say whether something changed in between."""

    #: A digest of everything in the database that determines who a user is and what the user may do.
    everything: bytes
    #: The user's roles, and which transaction wrote each: a role that was changed and changed back is another
    #: one.
    roles: str


#: A column that is added to users or tokens is in the digest automatically; those that every use writes are
#: not.
_FACTS = """
SELECT CASE WHEN u.is_active AND (k.id IS NOT NULL OR s.session_key IS NOT NULL) THEN sha256(convert_to(
    concat_ws(' ', to_jsonb(u) - 'last_login', m.roles, to_jsonb(k) - %s::text[], s.session_data), 'UTF8'
)) END, coalesce(m.roles, '')
FROM unnest(%s::bigint[], %s::bigint[], %s::text[])
    WITH ORDINALITY AS asked(user_id, token_id, session_key, place)
LEFT JOIN tenants_user u ON u.id = asked.user_id
LEFT JOIN tenants_token k ON k.id = asked.token_id AND k.user_id = u.id
    AND (k.expires_at IS NULL OR k.expires_at > now())
LEFT JOIN django_session s ON asked.token_id IS NULL AND s.session_key = asked.session_key
    AND s.expire_date > now()
LEFT JOIN LATERAL (
    SELECT string_agg(concat(tenant_id, ':', role, ':', xmin), ' ' ORDER BY tenant_id) AS roles
    FROM tenants_membership WHERE user_id = u.id
) m ON true
ORDER BY asked.place
"""
_WRITTEN_BY_USE = ["first_used_at", "first_used_from", "last_used_at", "last_used_from"]


def facts_of(sign_ins: Sequence[SignIn]) -> list[Facts | None]:
    """Return for each what its rights rest on, by one statement; None: it is no longer valid."""
    columns = [list(column) for column in zip(*sign_ins, strict=True)]
    if not columns:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_FACTS, [_WRITTEN_BY_USE, *columns])
        return [digest and Facts(bytes(digest), roles) for digest, roles in cursor.fetchall()]


def viewer_now(sign_in: SignIn) -> Viewer | None:
    """Return the user who signed in with it, with the user's present rights."""
    viewer = viewer_again(session_key=sign_in.session_key, token_id=sign_in.token_id)
    return viewer if viewer is not None and viewer.user.pk == sign_in.user_id else None


def tell_changed() -> None:
    """Let processes that serve a user for long check again, once this transaction is committed."""
    after_commit(_tell, {"type": "rights.changed"})


def _tell(message: dict[str, str]) -> None:
    get_channel_layer().send_all([((GROUP,), message)])
