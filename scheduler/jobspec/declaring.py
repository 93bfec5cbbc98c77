"""How a specification declares its fields: once each, beside the attribute that keeps it.

`stated(...)` makes a dataclass's attribute a field of the specification. From that one declaration come the
parser (`Object.check`), the normal form (`Object.write`), the JSON Schema and the API's (`schema`), the flags
of `allot submit` and the fields of the dashboard's form (both read the JSON Schema), and the reference page.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from scheduler.jobspec.fields import Fields
from scheduler.jobspec.kinds import Kind, Schema

if TYPE_CHECKING:
    from scheduler.jobspec.schema import Definitions

_KEY = "declared"
#: In the place of a default: the field must be given.
REQUIRED: Any = object()


@dataclass(frozen=True)
class Group:
    """An object of the written form whose fields are kept as attributes of what it stands in."""

    name: str
    #: Its name in the schema.
    title: str
    help: str
    #: Null in the normal form while its first field says nothing.
    is_optional: bool = False
    #: The normal form has only those of its fields that differ from their defaults, and null where none does.
    is_sparse: bool = False


@dataclass(frozen=True)
class Flag:
    """A flag of `allot submit`."""

    #: With their dashes. A choice of two words may have one flag each: "--opportunistic/--guaranteed".
    names: tuple[str, ...]
    metavar: str = ""
    #: Of a choice with a flag for each word: the words, in the flags' order.
    words: tuple[str, ...] = ()
    #: Only a job of one task can have it.
    is_of_one_task: bool = False


@dataclass(frozen=True, kw_only=True)
class FieldDeclaration:
    """One field of a specification."""

    kind: Kind
    help: str
    #: Of the attribute that keeps it, and in the written form.
    attribute: str = ""
    name: str = ""
    #: The attribute's value where the field is left out.
    default: Any = REQUIRED
    unit: str = ""
    example: Any = None
    group: Group | None = None
    flag: Flag | None = None
    #: Of the field in the dashboard's form; empty: the form does not show it, or by a control of its own.
    label: str = ""
    #: The normal form has it only where it differs from its default.
    is_sparse: bool = False

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED


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
        for place, group, members in self.places():
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
        for place, group, members in self.places():
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

    def places(self) -> list[tuple[str, Group | None, list[FieldDeclaration]]]:
        """Return the names of the written form in their order, each with its field, or its group's fields."""
        found: dict[str, tuple[Group | None, list[FieldDeclaration]]] = {}
        for one in self.declared:
            place = one.name if one.group is None else one.group.name
            found.setdefault(place, (one.group, []))[1].append(one)
        return [(place, group, members) for place, (group, members) in found.items()]

    def schema(self, definitions: "Definitions") -> Schema:
        return definitions.of_object(self)


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

    def schema(self, definitions: "Definitions") -> Schema:
        schema: Schema = {"type": "array", "items": self.of.schema(definitions), "maxItems": self.most}
        return schema | {"minItems": self.least} if self.least else schema
