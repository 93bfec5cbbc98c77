"""The secrets that a job's processes are given: `secrets`, by name, each as a variable or as a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduler.jobspec.declaring import Object, stated
from scheduler.jobspec.fields import Fields, described
from scheduler.jobspec.kinds import Choice, Kind, Schema, Word
from scheduler.jobspec.tables import VARIABLE, is_variable
from tenants import SECRET_SCOPES

if TYPE_CHECKING:
    from scheduler.jobspec.schema import Definitions

MAX_SECRETS = 20
_EXPECTED = (
    'such as [HF_TOKEN] or [{"name": "hf-token", "env": "HF_TOKEN"}, {"name": "s3-key", "file": "s3"}]'
)


class VariableName(Kind):
    """The name of a variable that the platform does not set itself."""

    def check(self, fields: Fields, name: str, value: object) -> str:
        return str(value) if is_variable(fields, name, value) else ""

    def schema(self, definitions: "Definitions") -> Schema:
        return {"type": "string", "pattern": f"^{VARIABLE.pattern}$", "maxLength": 128}


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretUse:
    """A secret that all processes of the job get, by its name. As text alone: the variable of that name."""

    name: str = stated(Word(), help="Of the secret, as `allot secret list` shows it.")
    #: The variable's name; empty: it is a file.
    env: str = stated(VariableName(), default="", help="The variable in which it comes; or file.")
    #: The file's name; empty: it is a variable.
    file: str = stated(Word(), default="", help="The file in $ALLOT_SECRETS_DIR; or env.")
    #: Whose it is, "user" or "tenant"; empty while that is not filled in.
    scope: str = stated(
        Choice(SECRET_SCOPES),
        default="",
        help="Whose it is; null: the submitter's own if he has one of that name, else the tenant's.",
    )


def _env_or_file(fields: Fields, use: SecretUse) -> None:
    if not use.env and not use.file:
        fields.refuse("env", "is missing", "the name of a variable; or file, with the name of a file")
    elif use.env and use.file:
        fields.refuse("file", "is given beside env", "one of the two; a secret may be listed twice")


class Secrets(Kind):
    """The secrets of a job, each written as a name or an object."""

    takes = "entries"
    _use = Object(SecretUse, "SecretUse", check_together=_env_or_file)

    def check(self, fields: Fields, name: str, value: object) -> tuple[SecretUse, ...]:
        if not isinstance(value, list | tuple) or len(value) > MAX_SECRETS:
            fields.refuse(
                name, f"{described(value)} is no list of secrets", f"at most {MAX_SECRETS}, {_EXPECTED}"
            )
            return ()
        uses: list[SecretUse] = []
        for number, each in enumerate(value):
            if not isinstance(each, str | Mapping):
                fields.refuse(f"{name}.{number}", f"{described(each)} is no secret", _EXPECTED)
                continue
            short = {"name": each, "env": each} if isinstance(each, str) else each
            use = self._use.check(fields, f"{name}.{number}", short)
            for kind in ("env", "file"):
                target = getattr(use, kind)
                if target and any(getattr(other, kind) == target for other in uses):
                    fields.refuse(
                        f"{name}.{number}.{kind}", f"{described(target)} is used twice", "one of its own"
                    )
            uses.append(use)
        return tuple(uses)

    def write(self, value: Sequence[SecretUse]) -> list[Any]:
        return [self._use.write(use) for use in value]

    def in_order(self, value: Any) -> Any:
        return [self._use.in_order(use) for use in value] if isinstance(value, list) else value

    def schema(self, definitions: "Definitions") -> Schema:
        use = self._use.schema(definitions)
        items = use if definitions.normal else {"anyOf": [VariableName().schema(definitions), use]}
        return {"type": "array", "items": items, "maxItems": MAX_SECRETS}
