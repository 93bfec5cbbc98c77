"""The specification's JSON Schema, by which editors complete and check YAML, made of its declarations.

Beside the standard keywords a field may have `x-flag`, its flag of `allot submit` (read by
`allot/spec_flags.py`), `x-unit`, and a `title`, its label in the dashboard's form.
"""

from scheduler.jobspec.declaring import field_schema, or_null
from scheduler.jobspec.kind import Definitions, Schema
from scheduler.jobspec.kinds import Truth
from scheduler.jobspec.parts import NOTEBOOK
from scheduler.jobspec.spec import JOB
from scheduler.jobspec.tasks import RESOURCES, SHORTHAND, TASK

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_INSTEAD = "In a job with one task, instead of under tasks: "


def definitions(*, normal: bool = False) -> dict[str, Schema]:
    """Return the schemas of all objects by name; that of the whole is `JobSpec`."""
    found = Definitions(normal=normal)
    JOB.schema(found)
    if not normal:
        found.schemas["JobSpec"]["properties"] |= _shorthand(found)
        found.schemas["JobSpec"]["required"].remove("tasks")
    return found.schemas


def _shorthand(found: Definitions) -> Schema:
    by_name = {one.name: one for one in TASK.declared}
    short: Schema = {}
    for name in SHORTHAND:
        if name == RESOURCES.name:
            resources = {
                key: value for key, value in found.schemas[RESOURCES.title].items() if key != "required"
            }
            short[name] = or_null(found.define("ShortResources", resources))
            continue
        one = by_name["gpu" if name == "gpus" else name]
        schema = {
            key: value for key, value in field_schema(one, found).items() if key not in ("x-flag", "default")
        }
        short[name] = or_null(schema) if one.is_required else schema
        short[name]["description"] = f"{_INSTEAD}{one.help}"
    notebook = Truth().schema(found) | {"description": f"Short form of a port with the name {NOTEBOOK}."}
    return short | {NOTEBOOK: or_null(notebook)}


def shorthand_names() -> tuple[str, ...]:
    """Return the fields that may stand at the top instead of others."""
    return (*SHORTHAND, NOTEBOOK)


def json_schema(address: str = "") -> Schema:
    """Return the JSON Schema of what may be written; `address`: where it is served."""
    schemas = definitions()
    whole = schemas.pop("JobSpec")
    tenant = {
        "type": "string",
        "description": "The tenant of the job. Required for members of several tenants.",
        "x-flag": {"names": ["--tenant", "--account", "-A"], "takes": "text"},
    }
    return {
        "$schema": DIALECT,
        **({"$id": address} if address else {}),
        "title": "Job specification of Allotment",
        **whole,
        "properties": {"tenant": tenant, **whole["properties"]},
        "anyOf": [{"required": ["tasks"]}, {"required": ["command"]}],
        "$defs": schemas,
    }
