"""What may stand in the tables of a specification: objects with names of the user's own, such as `env`."""

import re
from collections.abc import Mapping
from typing import Any

from scheduler.core.failures.taxonomy import KNOWN_FAILURES
from scheduler.core.perf.throughput import HIGHEST, LARGEST_RATIO, LOWEST, too_far_apart
from scheduler.jobspec.fields import Fields, described, is_storable
from scheduler.jobspec.kinds import NAME, NAME_EXPECTED

MAX_LABELS = 20
MAX_RETRY_LINES = 20
MAX_ATTEMPTS = 20
MAX_VARIABLES = 200
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_VARIABLE_EXPECTED = "letters, digits and '_', not beginning with a digit"
#: What the node agent sets last, whatever the user says.
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


def attempts_by_class(fields: Fields, where: str, key: object, count: object) -> int:
    """Return the most attempts after failures of a class or layer."""
    if key not in KNOWN_FAILURES:
        fields.refuse(where, "is not a failure class or layer", f"one of: {', '.join(KNOWN_FAILURES)}")
        return 1
    return _attempts(fields, where, count)


def attempts_by_text(fields: Fields, where: str, key: object, count: object) -> int:
    """Return the most attempts after failures whose message contains a text."""
    if not isinstance(key, str) or not 1 <= len(key) <= 200 or not is_storable(key):
        fields.refuse(where, "is not a text to search for", "a text of 1 to 200 characters")
        return 1
    return _attempts(fields, where, count)


def _attempts(fields: Fields, where: str, count: object) -> int:
    if isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= MAX_ATTEMPTS:
        return count
    expected = f"a whole number from 1 to {MAX_ATTEMPTS}"
    fields.refuse(where, f"{described(count)} is not a number of attempts", expected)
    return 1


def model_throughput(fields: Fields, where: str, model: object, value: object) -> float:
    """Return samples per second on a GPU model; 0: it does not run there."""
    if not isinstance(model, str) or not NAME.fullmatch(model):
        fields.refuse(where, "is not a model's name", 'a GPU model such as "V100"')
        return 0.0
    rate = fields.checked_number(where, value, least=0, most=HIGHEST, unit=" samples per second")
    if 0 < rate < LOWEST:
        expected = f"at least {LOWEST:g} samples per second; 0 where it does not run"
        fields.refuse(where, f"{rate:g} is too small", expected)
    return rate


def comparable_throughputs(fields: Fields, name: str, throughputs: Mapping[str, Any]) -> None:
    """Note throughputs that cannot all be true."""
    if not too_far_apart(list(throughputs.values())):
        return
    slowest, fastest = (
        best(filter(throughputs.get, throughputs), key=throughputs.__getitem__) for best in (min, max)
    )
    fields.refuse(
        f"{name}.{slowest}",
        f"{throughputs[slowest]:g} is too far from {throughputs[fastest]:g} on {fastest}",
        f"within a factor of {LARGEST_RATIO:,.0f}; 0 where it does not run",
    )


def label(fields: Fields, where: str, name: object, text: object) -> str:
    """Return a label's value."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        fields.refuse(where, "is not a valid name", NAME_EXPECTED)
    elif not isinstance(text, str) or len(text) > 200 or not is_storable(text):
        fields.refuse(where, f"{described(text)} is not a label's value", "text of at most 200 characters")
    return str(text)


def is_variable(fields: Fields, where: str, name: object) -> bool:
    """Whether a user may give a variable this name; note it where not."""
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
