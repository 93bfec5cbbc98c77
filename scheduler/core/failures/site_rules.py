"""Rules by which a site distinguishes its own failures; they are tried before the built-in ones.

A rule checks the end of the output for a pattern, or how the process ended, or both. Patterns are not matched
here: people write them, and Python's engine can take forever over one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from scheduler.core.failures.taxonomy import FailureClass, Layer

#: The exit code of a process that a signal ended is this plus the signal.
_SIGNALLED = 128


class Retry(StrEnum):
    """What happens after failures of a class that the site defined."""

    #: The next attempt would fail in the same way.
    NEVER = "never"
    #: After the usual back-off, as often as the job allows.
    AGAIN = "again"
    #: Likewise, but not on the node where it failed.
    ELSEWHERE = "elsewhere"


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRule:
    """A rule: an attempt belongs to the class if the pattern is found and it ended in one of these ways."""

    name: str
    failure: FailureClass
    #: A regular expression for the end of the output; empty for any output.
    pattern: str = ""
    #: If both are empty, the rule holds however the attempt ended.
    exit_codes: tuple[int, ...] = ()
    signals: tuple[int, ...] = ()
    severity: Severity = Severity.ERROR
    #: What the job's owner can do about it, in a sentence or two.
    advice: str = ""

    def fits(self, exit_code: int) -> bool:
        """Return whether the rule fits an attempt that ended with this code: 128 + N after signal N."""
        return not (self.exit_codes or self.signals) or (
            exit_code in self.exit_codes or exit_code - _SIGNALLED in self.signals
        )


def own_class(name: str, retry: Retry, words: str) -> FailureClass:
    """Return a class that the site defined."""
    layer = Layer.USER if retry is Retry.NEVER else Layer.PLATFORM
    return FailureClass(name, layer, words, is_hardware=retry is Retry.ELSEWHERE)


def retry_of(failure: FailureClass) -> Retry:
    """Return what happens after a failure of a class that the site defined."""
    if failure.layer is Layer.USER:
        return Retry.NEVER
    return Retry.ELSEWHERE if failure.is_hardware else Retry.AGAIN


def to_match(rule: SiteRule) -> Mapping[str, object]:
    """Return what is stored of a rule with an attempt that it matched, JSON-ready, since rules may change."""
    return {
        "name": rule.name,
        "severity": str(rule.severity),
        "advice": rule.advice,
        "class": rule.failure.name,
        "layer": str(rule.failure.layer),
        "words": rule.failure.words,
        "elsewhere": rule.failure.is_hardware,
    }


def class_in(match: Mapping[str, object]) -> FailureClass:
    """Return the class that `to_match` stored."""
    return FailureClass(
        str(match["class"]), Layer(str(match["layer"])), str(match["words"]), bool(match["elsewhere"])
    )
