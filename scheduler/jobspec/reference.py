"""The specification's reference page, docs/job-specification.md, made of its declarations."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from scheduler.jobspec.kind import Schema
from scheduler.jobspec.schema import definitions, shorthand_names

_HEAD = """\
<!-- Written by `make schema` from scheduler/jobspec; changes here are lost. -->
# The job specification

You can write a job as YAML or JSON, in the form of the page *Submit a job*, or as flags of
`allot submit`. [README](../README.md#submit-a-job) has an example. This page lists every field.
Fields are optional unless their default is *required*. An optional field may also be null.
Durations are seconds, or text such as `30m`, `2h`, `1d12h`. Sizes are bytes, or text such as
`512MiB`, `4GiB`. An error names the field that is wrong.

An editor that supports JSON Schema completes and checks the YAML if its first line is this one,
with the address of your server:

    # yaml-language-server: $schema=https://allotment.example/api/job-spec.schema.json

The `allot` command contains the same schema (`allot/job-spec.schema.json`).

You can write a job of one task without `tasks`. These fields then stand at the top:
"""


def reference_page() -> str:
    """Return the page in Markdown."""
    schemas = definitions()
    short = ", ".join(f"`{name}`" for name in shorthand_names())
    lines = [f"{_HEAD}{short}.", ""]
    for title, prefix in _sections(schemas):
        schema = schemas[title]
        heading = f"`{prefix[:-1]}`" if prefix else "A job"
        lines += [f"## {heading}", "", schema["description"], ""]
        lines += ["| field | type | default | meaning | flag |", "|---|---|---|---|---|"]
        required = schema.get("required", ())
        hidden = shorthand_names() if title == "JobSpec" else ()
        for name, field in schema["properties"].items():
            if name not in hidden:
                lines.append(_row(f"{prefix}{name}", field, is_required=name in required or name == "tasks"))
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _sections(schemas: Mapping[str, Schema]) -> Iterator[tuple[str, str]]:
    """Yield the objects in the order in which they are mentioned, each with the field that holds it."""
    waiting, seen = [("JobSpec", "")], {"JobSpec"}
    while waiting:
        title, prefix = waiting.pop(0)
        yield title, prefix
        hidden = shorthand_names() if title == "JobSpec" else ()
        inside = []
        for name, field in schemas[title]["properties"].items():
            for other in _objects_in(field) if name not in hidden else ():
                if other not in seen:
                    seen.add(other)
                    inside.append((other, f"{prefix}{name}."))
        waiting = inside + waiting


def _objects_in(schema: Schema) -> Iterator[str]:
    """Yield the names of the objects that a field may hold."""
    if "$ref" in schema:
        yield schema["$ref"].rpartition("/")[2]
    for one in schema.get("anyOf", ()):
        yield from _objects_in(one)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _objects_in(schema[key])


def _row(name: str, field: Schema, *, is_required: bool) -> str:
    default = "*required*" if is_required else _code(field["default"]) if "default" in field else ""
    says = field.get("description", "")
    if "examples" in field:
        says += f" Example: {_code(field['examples'][0])}."
    flag = " ".join(f"`{one}`" for one in field.get("x-flag", {}).get("names", ()))
    kind = ", or ".join(dict.fromkeys(_kinds(field)))
    if "x-unit" in field:
        kind += f" ({field['x-unit']})"
    return f"| `{name}` | {kind} | {default} | {says} | {flag} |".replace("  ", " ")


def _kinds(field: Schema) -> Iterator[str]:
    """Yield what a value may be, in words."""
    if "anyOf" in field:
        for one in field["anyOf"]:
            yield from _kinds(one)
        return
    if "$ref" in field:
        yield "an object, see below"
        return
    types = field["type"] if isinstance(field["type"], list) else [field["type"]]
    for kind in types:
        if kind != "null":
            yield _in_words(kind, field)


def _in_words(kind: str, field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return " or ".join(f"`{word}`" for word in field["enum"] if word is not None)
    if kind in ("integer", "number") and "minimum" in field:
        whole = "a whole number" if kind == "integer" else "a number"
        return f"{whole} from {_plain(field['minimum'])} to {_plain(field['maximum'])}"
    if kind == "array":
        items = " or ".join(dict.fromkeys(_kinds(field["items"])))
        most = f"at most {field['maxItems']}" if "maxItems" in field else "some"
        return f"a list of {most} of: {items}"
    if kind == "object":
        most = f"at most {field['maxProperties']} " if "maxProperties" in field else ""
        return f"{most}names with {' or '.join(_kinds(field['additionalProperties']))}"
    if kind == "string":
        return f"text of at most {field['maxLength']} characters" if "maxLength" in field else "text"
    return {"boolean": "true or false", "number": "a number", "integer": "a whole number"}[kind]


def _plain(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


def _code(value: Any) -> str:
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"
