"""Predicted starts and what-if answers in words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from allot.output import duration, parse_time, plural

if TYPE_CHECKING:
    from allot.schema import Prediction, StartForecast, WhatIf, WhatIfEffect

#: Nearer than this, a start is said to be at once.
AT_ONCE_SECONDS = 10.0


def clock(text: str, now: datetime | None = None) -> str:
    """`14:32` today, else `2026-11-23 14:32`, in the local time zone."""
    at = parse_time(text).astimezone()
    today = (now or datetime.now(UTC)).astimezone()
    return at.strftime("%H:%M" if at.date() == today.date() else "%Y-%m-%d %H:%M")


def prediction_line(prediction: Prediction, now: datetime | None = None) -> str:
    """`Expected to start at 14:32, in 20m (between 14:10 and 16:05), if jobs run as long as ...`."""
    now = now or datetime.now(UTC)
    ahead = (parse_time(prediction["starts_at"]) - now).total_seconds()
    starts = f"at {clock(prediction['starts_at'], now)}, in {duration(ahead)}" if ahead > 0 else "any moment"
    between = _between(prediction["earliest"], prediction["latest"], now)
    return f"Expected to start {starts}{between}, {prediction['assumption']}."


def _between(earliest: str, latest: str | None, now: datetime) -> str:
    first = clock(earliest, now)
    if latest is None:
        return f" (not before {first}, perhaps more than 30 days from now)"
    last = clock(latest, now)
    return f" (between {first} and {last})" if first != last else ""


def answer_lines(answer: WhatIf) -> list[str]:
    """The answer of a what-if question: the jobs it is about, then who starts later and sooner."""
    lines = [_effect(effect, answer) for effect in answer["subjects"]]
    for word in ("later", "sooner"):
        mine = answer["later"] if word == "later" else answer["sooner"]
        count = answer["later_count"] if word == "later" else answer["sooner_count"]
        others = answer["others_later"] if word == "later" else answer["others_sooner"]
        if count:
            lines.append(f"{plural(count, 'job')} would start {word}:")
            lines += [f"  {_effect(effect, answer)}" for effect in mine]
            if count > len(mine):
                lines.append(f"  and {count - len(mine):,} more")
        if others:
            lines.append(f"{plural(others, 'job')} of others would start {word}.")
    if not (answer["later_count"] or answer["others_later"]):
        lines.append("No other job would start later.")
    lines.append(f"As foreseen {answer['assumption']}.")
    return lines


def _effect(effect: WhatIfEffect, answer: WhatIf) -> str:
    name = (
        f"Job {effect['job']} {effect['name']}" if effect["job"] is not None else f"New job {effect['name']}"
    )
    after = _start(effect["after"], answer)
    if effect["runs_now"]:
        return f"{name}: runs now; would go back into the queue and start {after}"
    if effect["before"] is None:
        return f"{name}: {after}"
    return f"{name}: {_start(effect['before'], answer)} -> {after}"


def _start(foreseen: StartForecast | None, answer: WhatIf) -> str:
    if foreseen is None:
        return "running"
    at, made_at = foreseen["starts_at"], answer["made_at"]
    if at is None or made_at is None:
        return f"no start predicted ({foreseen['why_not'].rstrip('.')})"
    now = parse_time(made_at)
    if (parse_time(at) - now).total_seconds() < AT_ONCE_SECONDS:
        return "at once"
    return clock(at, now) + _between(foreseen["earliest"] or at, foreseen["latest"], now)
