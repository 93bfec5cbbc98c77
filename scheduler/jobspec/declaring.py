"""How a specification declares its fields: once each, beside the attribute that keeps it.

`stated(...)` makes a dataclass's attribute a field of the specification. From that one declaration come the
parser (`Object.check`), the normal form (`Object.write`), the JSON Schema and the API's (`schema`), the flags
of `allot submit` and the fields of the dashboard's form (both read the JSON Schema), and the reference page.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields, replace
from functools import cached_property
from typing import Any

from scheduler.jobspec.fields import Fields
from scheduler.jobspec.kind import REQUIRED, Definitions, FieldDeclaration, Flag, Group, Kind, Schema

_KEY = "declared"


def stated(
    kind: Kind,
    *,
    help: str,
    default: Any = REQUIRED,
    name: str = "",
    unit: str = "",
    example: Any = None,
    group: Group | None = None,
    flag: Flag | None = None,
    label: str = "",
    is_sparse: bool = False,
) -> Any:
    """Return a dataclass's field that is a field of the specification too. Without default it is required."""
    declared = FieldDeclaration(
        kind=kind,
        help=help,
        name=name,
        unit=unit,
        example=example,
        group=group,
        flag=flag,
        label=label,
        is_sparse=is_sparse,
    )
    metadata = {_KEY: declared}
    if default is REQUIRED:
        return field(metadata=metadata)
    if isinstance(default, dict):
        return field(metadata=metadata, default_factory=default.copy)
    return field(metadata=metadata, default=default)


def _declared(name: str, of: Field[Any]) -> FieldDeclaration:
    default = REQUIRED if of.default is MISSING else of.default
    if of.default_factory is not MISSING:
        default = of.default_factory()
    declaration: FieldDeclaration = of.metadata[_KEY]
    return replace(declaration, attribute=name, name=declaration.name or name, default=default)


class Object(Kind):
    """An object of the specification, kept as an instance of a class.

    The class's own attributes declare the fields, or, for a class of the core, the mapping by attribute.
    """

    def __init__(
        self,
        kept_as: type,
        title: str,
        *,
        stated: Mapping[str, Any] | None = None,
        make: Callable[..., Any] | None = None,
        check_together: Callable[[Fields, Any], None] | None = None,
    ) -> None:
        own = {one.name: one for one in fields(kept_as) if _KEY in one.metadata}
        self.declared = [_declared(name, one) for name, one in (stated or own).items()]
        self.title = title
        self.doc = " ".join((kept_as.__doc__ or "").split("\n\n")[0].split())
        self.expected = "an object with fields"
        self._make = make or kept_as
        self._check_together = check_together

    def read_fields(self, given: Fields) -> Any:
        """Return the instance; note unknown fields and what is wrong with known ones."""
        problems = len(given.problems)
        groups: dict[str, Fields] = {}
        values: dict[str, Any] = {}
        for one in self.declared:
            place = given
            if one.group is not None:
                if one.group.name not in groups:
                    groups[one.group.name] = given.inner(one.group.name)
                place = groups[one.group.name]
            values[one.attribute] = one.kind.read(place, one)
        for inner in groups.values():
            inner.finish()
        given.finish()
        made = self._make(**values)
        if self._check_together is not None and len(given.problems) == problems:
            self._check_together(given, made)
        return made

    def check(self, fields: Fields, name: str, value: object) -> Any:
        return self.read_fields(Fields(value, fields.path_of(name), fields.problems))

    def write(self, value: Any) -> dict[str, Any] | None:
        if value is None:
            return None
        written: dict[str, Any] = {}
        for place, group, members in self.places:
            if group is None:
                if not members[0].is_sparse or getattr(value, members[0].attribute) != members[0].default:
                    written[place] = members[0].kind.write(getattr(value, members[0].attribute))
                continue
            stated = [
                one
                for one in members
                if not (group.is_sparse or one.is_sparse) or getattr(value, one.attribute) != one.default
            ]
            inner = {one.name: one.kind.write(getattr(value, one.attribute)) for one in stated}
            says_nothing = not inner if group.is_sparse else inner[members[0].name] is None
            written[place] = None if group.is_optional and says_nothing else inner
        return written

    def in_order(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        ordered = {}
        for place, group, members in self.places:
            if place not in value:
                continue
            inner = value[place]
            if group is None:
                ordered[place] = members[0].kind.in_order(inner)
            elif isinstance(inner, Mapping):
                ordered[place] = {one.name: inner[one.name] for one in members if one.name in inner}
            else:
                ordered[place] = inner
        return ordered

    @cached_property
    def places(self) -> list[tuple[str, Group | None, list[FieldDeclaration]]]:
        """Return the names of the written form in their order, each with its field, or its group's fields."""
        found: dict[str, tuple[Group | None, list[FieldDeclaration]]] = {}
        for one in self.declared:
            place = one.name if one.group is None else one.group.name
            found.setdefault(place, (one.group, []))[1].append(one)
        return [(place, group, members) for place, (group, members) in found.items()]

    def schema(self, definitions: Definitions) -> Schema:
        if self.title in definitions.schemas:
            return definitions.reference(self.title)
        properties, required = {}, []
        for place, group, members in self.places:
            if group is None:
                properties[place] = field_schema(members[0], definitions)
                must = members[0].is_required
            else:
                properties[place] = _group_schema(group, members, definitions)
                must = not group.is_optional and any(each.is_required for each in members)
            if must:
                required.append(place)
        return definitions.define(self.title, _object_schema(self.doc, properties, required, definitions))


class ListOf(Kind):
    """A list of objects of one kind."""

    blank: tuple[Any, ...] = ()

    def __init__(self, of: Object, *, least: int, most: int, called: str) -> None:
        self.of = of
        self.least, self.most, self.called = least, most, called
        self.expected = f"a list of {least} to {most} {called}"

    def check(self, fields: Fields, name: str, value: object) -> tuple[Any, ...]:
        raw = fields.checked_list(name, value, least=self.least, most=self.most, of=self.called)
        return tuple(self.of.check(fields, f"{name}.{number}", each) for number, each in enumerate(raw))

    def write(self, value: Sequence[Any]) -> list[Any]:
        return [self.of.write(each) for each in value]

    def in_order(self, value: Any) -> Any:
        return [self.of.in_order(each) for each in value] if isinstance(value, list) else value

    def schema(self, definitions: Definitions) -> Schema:
        schema: Schema = {"type": "array", "items": self.of.schema(definitions), "maxItems": self.most}
        return schema | {"minItems": self.least} if self.least else schema


def field_schema(one: FieldDeclaration, definitions: Definitions) -> Schema:
    """Return the JSON Schema of a field, with what clients read of its flag and its label."""
    schema = one.kind.schema(definitions)
    default = None if one.is_required else one.kind.write(one.default)
    if not one.is_required and (not definitions.normal or default is None):
        schema = or_null(schema)
    schema = {"description": one.help, **schema}
    # Clients assume that a field with a default is always present, which is not true of every stored job.
    if default is not None and not (
        definitions.normal and (one.is_sparse or isinstance(default, list | dict))
    ):
        schema["default"] = default
    if definitions.normal:
        return schema
    if one.label:
        schema = {"title": one.label, **schema}
    if one.example is not None:
        schema["examples"] = [one.example]
    if one.unit:
        schema["x-unit"] = one.unit
    return schema | ({"x-flag": _flag(one)} if one.flag is not None else {})


def _group_schema(group: Group, members: list[FieldDeclaration], definitions: Definitions) -> Schema:
    properties = {each.name: field_schema(each, definitions) for each in members}
    if definitions.normal and group.is_sparse:
        for schema in properties.values():
            schema.pop("default", None)
    required = [each.name for each in members if each.is_required]
    told = {"description": group.help}
    described = _object_schema(group.help, properties, required, definitions)
    reference = told | definitions.define(group.title, described)
    # A group with a required field is itself required.
    is_never_null = bool(required) or (definitions.normal and not group.is_optional)
    return reference if is_never_null else or_null(reference)


def _object_schema(
    description: str, properties: Schema, required: list[str], definitions: Definitions
) -> Schema:
    schema = {"type": "object", "description": description, "properties": properties}
    if required:
        schema["required"] = required
    # The normal form may have more fields tomorrow.
    return schema if definitions.normal else schema | {"additionalProperties": False}


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
