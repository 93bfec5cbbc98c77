"""The ports of a job at which people visit its programs: `ports`, and `notebook: true` for the usual one."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler.jobspec.declaring import FieldDeclaration
from scheduler.jobspec.fields import Fields, described
from scheduler.jobspec.kinds import Kind, Schema

if TYPE_CHECKING:
    from scheduler.jobspec.schema import Definitions

NOTEBOOK = "notebook"
MAX_PORTS = 8
LEAST_NUMBER, MOST_NUMBER = 1_024, 65_535
#: It becomes part of a host's name, a path and a variable.
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?")
_NAME_EXPECTED = "1 to 32 lower-case letters, digits and '-', beginning with a letter"


class Ports(Kind):
    """Ports, each written as a name or an object; kept as numbers by name, None: the node chooses one."""

    takes = "entries"

    def read(self, fields: Fields, declared: FieldDeclaration) -> dict[str, int | None]:
        ports: dict[str, int | None] = {}
        if fields.boolean(NOTEBOOK, default=False):
            ports[NOTEBOOK] = None
        raw = fields.take(declared.name)
        if raw is None:
            return ports
        if not isinstance(raw, list | tuple) or len(raw) > MAX_PORTS:
            expected = (
                f'a list of at most {MAX_PORTS} names, such as ["notebook"], or objects with name and port'
            )
            fields.refuse(declared.name, f"{described(raw)} is no list of ports", expected)
            return ports
        for number, value in enumerate(raw):
            path = fields.path_of(f"{declared.name}.{number}")
            inner = Fields({"name": value} if isinstance(value, str) else value, path, fields.problems)
            name = inner.word("name", _NAME, _NAME_EXPECTED, default=None)
            port = inner.integer("port", default=0, least=LEAST_NUMBER, most=MOST_NUMBER)
            inner.finish()
            if name in ports:
                inner.refuse("name", f"{described(name)} is used twice", "a name of its own")
            ports[name] = port or None
        numbers = [port for port in ports.values() if port is not None]
        if len(set(numbers)) < len(numbers):
            fields.refuse(declared.name, "names a number twice", "a number for each")
        return ports

    def write(self, value: Mapping[str, int | None]) -> list[dict[str, Any]]:
        return [{"name": name, "port": port} for name, port in value.items()]

    def in_order(self, value: Any) -> Any:
        return [{"name": each["name"], "port": each["port"]} for each in value] if value else value

    def schema(self, definitions: "Definitions") -> Schema:
        name = {"type": "string", "pattern": f"^{_NAME.pattern}$", "maxLength": 32}
        number = {
            "type": ["integer", "null"],
            "minimum": LEAST_NUMBER,
            "maximum": MOST_NUMBER,
            "description": "The number, for a program that can not be told one; null: the node chooses.",
        }
        port = definitions.define(
            "Port",
            {
                "type": "object",
                "description": "Where people visit a program of the job, which has it as $ALLOT_PORT_<NAME>.",
                "properties": {"name": name, "port": number},
                "required": ["name"],
                "additionalProperties": False,
            },
        )
        items = port if definitions.normal else {"anyOf": [name, port]}
        return {"type": "array", "items": items, "maxItems": MAX_PORTS}
