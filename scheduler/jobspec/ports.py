"""The ports of a job at which people visit its programs: `ports`, and `notebook: true` for the usual one."""

import re

from scheduler.jobspec.fields import Fields, described

NOTEBOOK = "notebook"
MAX_PORTS = 8
LEAST_NUMBER, MOST_NUMBER = 1_024, 65_535
#: It becomes part of a host's name, a path and a variable.
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?")
_NAME_EXPECTED = "1 to 32 lower-case letters, digits and '-', beginning with a letter"


def read_ports(fields: Fields) -> dict[str, int | None]:
    """Return numbers by name; None: one that the node chooses, since jobs share its ports."""
    ports: dict[str, int | None] = {}
    if fields.boolean("notebook", default=False):
        ports[NOTEBOOK] = None
    raw = fields.take("ports")
    if raw is None:
        return ports
    if not isinstance(raw, list | tuple) or len(raw) > MAX_PORTS:
        expected = f'a list of at most {MAX_PORTS} names, such as ["notebook"], or objects with name and port'
        fields.refuse("ports", f"{described(raw)} is no list of ports", expected)
        return ports
    for number, value in enumerate(raw):
        path = fields.path_of(f"ports.{number}")
        inner = Fields({"name": value} if isinstance(value, str) else value, path, fields.problems)
        name = inner.word("name", _NAME, _NAME_EXPECTED, default=None)
        port = inner.integer("port", default=0, least=LEAST_NUMBER, most=MOST_NUMBER)
        inner.finish()
        if name in ports:
            inner.refuse("name", f"{described(name)} is used twice", "a name of its own")
        ports[name] = port or None
    numbers = [port for port in ports.values() if port is not None]
    if len(set(numbers)) < len(numbers):
        fields.refuse("ports", "names a number twice", "a number for each")
    return ports
