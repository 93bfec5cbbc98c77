"""The specification's JSON Schema, by which editors complete and check YAML, made of its declarations.

Beside the standard keywords a field may have `x-flag`, its flag of `allot submit` (read by
`allot/spec_flags.py`), `x-unit`, and a `title`, its label in the dashboard's form.
"""

from scheduler.jobspec.declaring import FieldDeclaration, Group, Object
from scheduler.jobspec.kinds import Schema, Truth
from scheduler.jobspec.parts import NOTEBOOK
from scheduler.jobspec.spec import JOB
from scheduler.jobspec.tasks import RESOURCES, SHORTHAND, TASK

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_INSTEAD = "In a job with one task, instead of under tasks: "


class Definitions:
    """Schemas of objects by their names, and what refers to them."""

    def __init__(self, *, normal: bool) -> None:
        #: Of the normal form, or of what may be written.
        self.normal = normal
        self.schemas: dict[str, Schema] = {}

    def define(self, title: str, schema: Schema) -> Schema:
        """Keep a schema under its name; return a reference to it."""
        self.schemas[title] = schema
        return {"$ref": f"#/$defs/{title}"}

    def of_object(self, one: Object) -> Schema:
        if one.title in self.schemas:
            return {"$ref": f"#/$defs/{one.title}"}
        properties, required = {}, []
        for place, group, members in one.places():
            if group is None:
                properties[place] = self.of_field(members[0])
                must = members[0].is_required
            else:
                properties[place] = self.of_group(group, members)
                must = not group.is_optional and any(each.is_required for each in members)
            if must:
                required.append(place)
        return self.define(one.title, self._object(one.doc, properties, required))

    def of_group(self, group: Group, members: list[FieldDeclaration]) -> Schema:
        properties = {each.name: self.of_field(each) for each in members}
        if self.normal and group.is_sparse:
            for schema in properties.values():
                schema.pop("default", None)
        required = [each.name for each in members if each.is_required]
        told = {"description": group.help}
        reference = told | self.define(group.title, self._object(group.help, properties, required))
        # What must be given in the group can not be left out with it.
        is_never_null = bool(required) or (self.normal and not group.is_optional)
        return reference if is_never_null else or_null(reference)

    def of_field(self, one: FieldDeclaration) -> Schema:
        schema = one.kind.schema(self)
        default = None if one.is_required else one.kind.write(one.default)
        if not one.is_required and (not self.normal or default is None):
            schema = or_null(schema)
        schema = {"description": one.help, **schema}
        # Clients take what has a default to be always there, which is not true of every stored job.
        if default is not None and not (self.normal and (one.is_sparse or isinstance(default, list | dict))):
            schema["default"] = default
        if self.normal:
            return schema
        if one.label:
            schema = {"title": one.label, **schema}
        if one.example is not None:
            schema["examples"] = [one.example]
        if one.unit:
            schema["x-unit"] = one.unit
        return schema | ({"x-flag": _flag(one)} if one.flag is not None else {})

    def _object(self, description: str, properties: Schema, required: list[str]) -> Schema:
        schema = {"type": "object", "description": description, "properties": properties}
        if required:
            schema["required"] = required
        # The normal form may have more fields tomorrow.
        return schema if self.normal else schema | {"additionalProperties": False}


def _flag(one: FieldDeclaration) -> Schema:
    assert one.flag is not None
    flag: Schema = {"names": list(one.flag.names), "takes": one.kind.takes}
    if one.flag.metavar:
        flag["metavar"] = one.flag.metavar
    if one.flag.words:
        flag["words"] = list(one.flag.words)
    if one.flag.is_of_one_task:
        flag["of_one_task"] = True
    return flag


def or_null(schema: Schema) -> Schema:
    """Return the schema, with null allowed too."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if "type" not in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    either = {**schema, "type": [*types, "null"]}
    return either | {"enum": [*schema["enum"], None]} if "enum" in schema else either


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
            key: value for key, value in found.of_field(one).items() if key not in ("x-flag", "default")
        }
        short[name] = or_null(schema) if one.is_required else schema
        short[name]["description"] = f"{_INSTEAD}{one.help}"
    notebook = Truth().schema(found) | {"description": f"Short for a port of the name {NOTEBOOK}."}
    return short | {NOTEBOOK: or_null(notebook)}


def shorthand_names() -> tuple[str, ...]:
    """Return the fields that may stand at the top in the place of others."""
    return (*SHORTHAND, NOTEBOOK)


def json_schema(address: str = "") -> Schema:
    """Return the JSON Schema of what may be written; `address`: where it is served."""
    schemas = definitions()
    whole = schemas.pop("JobSpec")
    tenant = {
        "type": "string",
        "description": "For whom; needed by members of several tenants.",
        "x-flag": {"names": ["--tenant"], "takes": "text"},
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
