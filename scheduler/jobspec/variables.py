"""Variables that a job's processes get: `env`, and the names that any variable may have."""

import re

from scheduler.jobspec.fields import Fields, described, is_storable

MAX_VARIABLES = 200
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_VARIABLE_EXPECTED = "letters, digits and '_', not beginning with a digit"
#: What the node agent sets last, whatever the user says (DESIGN section 6).
_PLATFORM_VARIABLES = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "MASTER_ADDR",
        "MASTER_PORT",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "NODE_RANK",
        "NNODES",
        "LOCAL_WORLD_SIZE",
    }
)


def is_variable(fields: Fields, where: str, name: object) -> bool:
    """Whether a user may give a variable this name; noted where he may not."""
    if not isinstance(name, str) or not VARIABLE.fullmatch(name):
        fields.refuse(where, "is not a name of a variable", _VARIABLE_EXPECTED)
    elif name in _PLATFORM_VARIABLES or name.startswith("ALLOT_"):
        fields.refuse(where, "is set by the platform", "another name")
    else:
        return True
    return False


def env_entry(fields: Fields, where: str, name: object, text: object) -> str:
    """Return one variable of `env` as text; note at `where` what is wrong with it."""
    if not is_variable(fields, where, name):
        return ""
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        fields.refuse(where, f"{described(text)} is not text", "text; put it in quotes")
    elif not is_storable(str(text)):
        fields.refuse(where, "has a NUL or a broken character", "plain text")
    return str(text)
