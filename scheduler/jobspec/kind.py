"""What a kind of field does, and what a field declares: `kinds` and `declaring` are made of these."""

from dataclasses import dataclass
from typing import Any

from scheduler.jobspec.fields import Fields

Schema = dict[str, Any]
#: In the place of a default: the field must be given.
REQUIRED: Any = object()


class Definitions:
    """Schemas of objects by name, and references to them."""

    def __init__(self, *, normal: bool) -> None:
        #: True: schemas of the normal form; else those of what may be written.
        self.normal = normal
        self.schemas: dict[str, Schema] = {}

    def define(self, title: str, schema: Schema) -> Schema:
        """Keep a schema under its name; return a reference to it."""
        self.schemas[title] = schema
        return self.reference(title)

    def reference(self, title: str) -> Schema:
        return {"$ref": f"#/$defs/{title}"}


class Kind:
    """What a field may hold. The methods here are those of a value that is kept as it is written."""

    #: What would be right, for the message about a field that is missing.
    expected = "a value"
    #: In the place of a required value that is missing or wrong, so that reading goes on.
    blank: Any = None
    #: How a flag of the command line accepts it; "": none does (`allot/spec_flags.py` knows these words).
    takes = ""

    def read(self, fields: Fields, declared: "FieldDeclaration") -> Any:
        """Take the field and return its checked value, its default when it is left out, null or wrong."""
        value = fields.take(declared.name)
        if value is None:
            if not declared.is_required:
                return declared.default
            fields.refuse(declared.name, "is missing", self.expected)
            return self.blank
        problems = len(fields.problems)
        checked = self.check(fields, declared.name, value)
        is_wrong = len(fields.problems) > problems
        return declared.default if is_wrong and not declared.is_required else checked

    def check(self, fields: Fields, name: str, value: object) -> Any:
        """Return the value as the specification keeps it; note in `fields` what is wrong with it."""
        raise NotImplementedError

    def write(self, value: Any) -> Any:
        """Return the kept value in the normal form, JSON-ready."""
        return None if value == "" else value

    def in_order(self, value: Any) -> Any:
        """Return a stored normal form with its fields in their order."""
        return value

    def schema(self, definitions: Definitions) -> Schema:
        """Return the JSON Schema of what may be written, or of the normal form (`definitions.normal`)."""
        raise NotImplementedError


@dataclass(frozen=True)
class Group:
    """An object of the written form whose fields are kept as attributes of the object around it."""

    name: str
    #: Its name in the schema.
    title: str
    help: str
    #: Null in the normal form while its first field is left out.
    is_optional: bool = False
    #: The normal form has only those of its fields that differ from their defaults, and null where none does.
    is_sparse: bool = False


@dataclass(frozen=True)
class Flag:
    """A flag of `allot submit`."""

    #: With their dashes. A choice of two words may have one flag each: "--opportunistic/--guaranteed".
    names: tuple[str, ...]
    metavar: str = ""
    #: For a choice with a flag for each word: the words, in the flags' order.
    words: tuple[str, ...] = ()
    #: Only a job of one task can have it.
    is_of_one_task: bool = False


@dataclass(frozen=True, kw_only=True)
class FieldDeclaration:
    """One field of a specification."""

    kind: Kind
    help: str
    #: The name of the attribute that keeps it, and that of the written form.
    attribute: str = ""
    name: str = ""
    #: The attribute's value where the field is left out.
    default: Any = REQUIRED
    unit: str = ""
    example: Any = None
    group: Group | None = None
    flag: Flag | None = None
    #: The field's name in the dashboard's form; empty: the form does not show it, or by a control of its own.
    label: str = ""
    #: The normal form has it only where it differs from its default.
    is_sparse: bool = False

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED
