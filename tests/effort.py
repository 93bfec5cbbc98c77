"""How hard a property is tried: on an eighth of its examples every day, on all of them in `make test-slow`.

`make test-slow` runs all properties, those that are not marked slow too, with --hypothesis-profile=thorough.
"""

from collections.abc import Iterable
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck

EVERY_DAY, THOROUGH = "everyday", "thorough"
#: Of a property that names no number of its own.
EXAMPLES = {EVERY_DAY: 13, THOROUGH: 100}
#: Of others; fewer say nothing.
FEWEST_EXAMPLES = 5
#: How long an example takes says more of the machine than of the code.
ANY_MACHINE: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

for name, number in EXAMPLES.items():
    hypothesis.settings.register_profile(name, max_examples=number, **ANY_MACHINE)


def first_every_day(values: Iterable[Any], many: int = 1) -> list[Any]:
    """Return parameters of a test, of which all but the first so many are left to `make test-slow`."""
    return [
        value if number < many else pytest.param(value, marks=pytest.mark.slow)
        for number, value in enumerate(values)
    ]


def examples(thorough: int) -> int:
    """Return on how many examples to try a property in this run, if so many are thorough."""
    part = hypothesis.settings.default.max_examples / EXAMPLES[THOROUGH]
    return min(thorough, max(FEWEST_EXAMPLES, round(thorough * part)))
