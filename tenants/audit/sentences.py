"""An entry of the audit log as one sentence for people."""

from __future__ import annotations

import json
from typing import Any

from tenants.models import AuditEntry, Outcome
from tenants.times import restated

#: The fields of a change that are in the sentence itself; the rest is in `before` and `after`.
_FIELDS_TOLD = 3
_VALUE_CHARACTERS = 60

#: The author of a request without credentials, such as a person who accepts an invitation.
_ANONYMOUS = "someone who was not signed in"

#: Past tense of the last word of an action, where that is not what `_past` makes of it.
_PAST = {
    "create": "made",
    # Actions of the audit log before this one.
    "make": "made",
    "set": "set",
    "settings": "changed the settings of",
    "address": "changed the address of",
    "take": "took",
    "hold": "held",
    "withdraw": "withdrew",
    "drain": "began to drain",
    "lend": "lent",
    "ask_back": "asked back",
    "give_back": "gave back",
    "register": "registered",
    "upgrade": "upgraded the agent of",
    "expire": "let expire",
    "token": "gave a new token to",
    "secret": "gave a new secret to",
    "password": "set the password of",
    "read": "read",
    "prune": "removed old entries of",
}
#: Of actions that are more than a verb and an object.
_WHOLE = {
    "user.sign-in": "signed in",
    "user.sign-out": "signed out",
    "token.first-use": "used token {subject} from this address for the first time",
    "job.create": "submitted {object}",
    "job.requeue": "requeued {object}",
    "session.create": "opened a session in {subject}",
    "port-pass.create": "opened {subject}",
    "secret.read": "was given {object} for a job",
}


def sentence(entry: AuditEntry) -> str:
    """Return who did what to what; for a change the first fields, from what to what."""
    who = _ANONYMOUS if entry.actor == "nobody" else entry.actor.removeprefix("user ")
    if entry.token:
        who += f" (by token {entry.token})"
    if entry.outcome == Outcome.REFUSED:
        return f"{who} {_refusal(entry)}."
    if entry.action == "log.read":
        return f"{who}, not a member of tenant {entry.tenant}, read the output of {entry.subject}."
    return f"{who} {_deed(entry)}{_in_tenant(entry)}{_details(entry)}."


def _refusal(entry: AuditEntry) -> str:
    after = entry.after if isinstance(entry.after, dict) else {}
    if more := after.get("more_like_this"):
        return f"was refused {more:,} more times"
    if entry.action == "user.sign-in":
        name = entry.subject or "a user that does not exist"
        return f"could not sign in as {name}: {_without_stop(after.get('message', ''))}"
    return f"was refused {entry.request}: {_without_stop(after.get('message', ''))}"


def _deed(entry: AuditEntry) -> str:
    thing = f"{entry.object_kind} {entry.subject}".strip()
    if entry.object_id == "" and isinstance(count := _of_many(entry), int):
        thing = f"{count:,} {entry.object_kind}s"
    if whole := _WHOLE.get(entry.action):
        return whole.format(subject=entry.subject, object=thing)
    verb = entry.action.rpartition(".")[2]
    return f"{_PAST.get(verb) or _past(verb)} {thing}"


def _of_many(entry: AuditEntry) -> Any:
    row = entry.after or entry.before
    return row.get("count") if isinstance(row, dict) else None


def _past(verb: str) -> str:
    """Return "cancelled" for "cancel", "applied" for "apply"."""
    if verb.endswith("e"):
        return f"{verb}d"
    if verb.endswith("y"):
        return f"{verb[:-1]}ied"
    return f"{verb}led" if verb.endswith("cel") else f"{verb}ed"


def _in_tenant(entry: AuditEntry) -> str:
    is_itself = entry.object_kind in ("tenant", "budget")
    return f" of tenant {entry.tenant}" if entry.tenant and not is_itself else ""


def _details(entry: AuditEntry) -> str:
    if not isinstance(entry.before, dict) or not isinstance(entry.after, dict):
        return ""
    names = sorted({*entry.before, *entry.after})
    # The author and the time stand in front already.
    names = [name for name in names if not name.endswith(("_at", "_by"))] or names
    shown = [_field(name, entry.before, entry.after) for name in names[:_FIELDS_TOLD]]
    more = [f"and {len(names) - _FIELDS_TOLD} more"] if len(names) > _FIELDS_TOLD else []
    return f": {', '.join(shown + more)}" if shown else ""


def _field(name: str, before: dict[str, Any], after: dict[str, Any]) -> str:
    label = name.replace("_", " ")
    if name not in before:
        return f"{label} {_short(after[name])}"
    return f"{label} {_short(before[name])} → {_short(after.get(name))}"


def _short(value: object) -> str:
    value = restated(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if text in ("", "null"):
        return "nothing"
    return text if len(text) <= _VALUE_CHARACTERS else f"{text[:_VALUE_CHARACTERS]}..."


def _without_stop(text: str) -> str:
    return text.rstrip(".")
