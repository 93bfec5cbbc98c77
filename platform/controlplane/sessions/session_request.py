"""What a user says first in a session, checked."""

from typing import Any

from scheduler.jobspec import Fields
from scheduler.jobspec.fields import described, is_storable
from scheduler.sessions.services.opening import SessionRequest
from tenants.errors import FieldError, Invalid

MOST_WORDS = 1_000
MOST_CHARACTERS = 32 * 1024
LARGEST_TERMINAL = 1_000
LARGEST_RANK = 100_000
_NAME_CHARACTERS = 40


def session_request_of(value: Any) -> SessionRequest:
    """Read {rank, command, terminal: {type, rows, columns}} or {rank, port}; raise Invalid."""
    problems: list[FieldError] = []
    fields = Fields(value, "", problems)
    request = SessionRequest(
        rank=fields.integer("rank", default=0, least=0, most=LARGEST_RANK),
        command=_command(fields),
        port=_port(fields),
        **_terminal(fields),
    )
    fields.finish()
    if problems:
        first = problems[0]
        where = first.field or "The request"
        raise Invalid(f"{where}: {first.problem}; right is {first.expected}.", problems)
    return request


def _command(fields: Fields) -> tuple[str, ...]:
    words = fields.take("command")
    expected = f"a list of at most {MOST_WORDS} words, empty for a shell"
    if words is None:
        return ()
    if not isinstance(words, list) or len(words) > MOST_WORDS:
        fields.refuse("command", f"{described(words)} is not a command", expected)
    elif not all(isinstance(word, str) and is_storable(word) for word in words):
        fields.refuse("command", "has a word that is not text, or has a NUL", expected)
    elif sum(map(len, words)) > MOST_CHARACTERS or words[:1] == [""]:
        fields.refuse("command", "is too long, or its program has no name", expected)
    else:
        return tuple(words)
    return ()


def _port(fields: Fields) -> str:
    port = fields.take("port")
    if port is None:
        return ""
    is_number = isinstance(port, int) and not isinstance(port, bool) and 1 <= port <= 65_535
    if is_number or (isinstance(port, str) and 1 <= len(port) <= 63 and not port.isdigit()):
        return str(port)
    fields.refuse("port", f"{described(port)} is no port", "a name from the job's ports, or a number")
    return ""


def _terminal(fields: Fields) -> dict[str, Any]:
    if (value := fields.take("terminal")) is None:
        return {}
    inner = Fields(value, "terminal", fields.problems)
    kind = inner.take("type")
    if not isinstance(kind, str) or not 1 <= len(kind) <= _NAME_CHARACTERS or not is_storable(kind):
        inner.refuse("type", f"{described(kind)} is no kind of terminal", '"xterm-256color", for example')
        kind = "dumb"
    terminal = {
        "terminal": kind,
        "rows": inner.integer("rows", default=24, least=1, most=LARGEST_TERMINAL),
        "columns": inner.integer("columns", default=80, least=1, most=LARGEST_TERMINAL),
    }
    inner.finish()
    return terminal
