"""The secrets that a job's processes are given: `secrets`, by name, each as a variable or as a file."""

import re
from collections.abc import Mapping, Sequence

from scheduler.jobspec.fields import Fields, described
from scheduler.jobspec.spec import SecretUse, TaskSpec
from scheduler.jobspec.variables import is_variable
from tenants import SECRET_SCOPES

MAX_SECRETS = 20
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_NAME_EXPECTED = "1 to 63 letters, digits, '.', '_' and '-', beginning and ending with a letter or digit"
_EXPECTED = (
    'such as [HF_TOKEN] or [{"name": "hf-token", "env": "HF_TOKEN"}, {"name": "s3-key", "file": "s3"}]'
)


def read_secrets(fields: Fields, tasks: Sequence[TaskSpec]) -> tuple[SecretUse, ...]:
    """Return what is wanted; a name alone stands for the variable of that name."""
    raw = fields.take("secrets")
    if raw is None:
        return ()
    if not isinstance(raw, list | tuple) or len(raw) > MAX_SECRETS:
        fields.refuse(
            "secrets", f"{described(raw)} is no list of secrets", f"at most {MAX_SECRETS}, {_EXPECTED}"
        )
        return ()
    uses: list[SecretUse] = []
    for number, value in enumerate(raw):
        if not isinstance(value, str | Mapping):
            fields.refuse(f"secrets.{number}", f"{described(value)} is no secret", _EXPECTED)
            continue
        short = {"name": value, "env": value} if isinstance(value, str) else value
        inner = Fields(short, fields.path_of(f"secrets.{number}"), fields.problems)
        use = _secret(inner)
        for task in tasks:
            if use.env and use.env in task.env:
                inner.refuse("env", f"{use.env} is also in env of task {task.name}", "one of the two")
        for kind in ("env", "file"):
            target = getattr(use, kind)
            if target and any(getattr(other, kind) == target for other in uses):
                inner.refuse(kind, f"{described(target)} is used twice", "one of its own")
        uses.append(use)
    return tuple(uses)


def _secret(fields: Fields) -> SecretUse:
    name = fields.word("name", _NAME, _NAME_EXPECTED, default=None)
    env = fields.take("env")
    if env is not None and not is_variable(fields, "env", env):
        env = ""
    problems = len(fields.problems)
    file = fields.word("file", _NAME, _NAME_EXPECTED, default="")
    is_file_wrong = len(fields.problems) > problems
    scope = fields.choice("scope", SECRET_SCOPES, default="")
    if env is None and not file and not is_file_wrong:
        fields.refuse("env", "is missing", "the name of a variable; or file, with the name of a file")
    elif env is not None and file:
        fields.refuse("file", "is given beside env", "one of the two; a secret may be listed twice")
    fields.finish()
    return SecretUse(name=name, env=env or "", file=file, scope=scope)
