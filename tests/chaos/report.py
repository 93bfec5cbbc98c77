"""What a run says: for people, and as JSON."""

import statistics
from collections import Counter
from dataclasses import asdict
from typing import Any

from tests.chaos.accounting import Full
from tests.chaos.run import Result


def as_json(result: Result, machine: str) -> dict[str, Any]:
    """Return everything a later run may be compared with."""
    kinds = sorted(result.inflicted | result.missed)
    return {
        "machine": machine,
        "seed": result.seed,
        "seconds": round(result.seconds, 1),
        "faults": sum(result.inflicted.values()),
        "by_kind": {kind: _kind(result, kind) for kind in kinds},
        "jobs": dict(Counter(job.shape for job in result.facts.jobs.values())),
        "attempts": dict(Counter(attempt.outcome for attempt in result.facts.attempts)),
        "resizes": _resizes(result),
        "lost_work": _lost_work(result),
        "rights": _rights(result),
        "overload": [asdict(flood) for flood in result.facts.floods],
        "database_full": [_full(full) for full in result.facts.full],
        "violations": result.violations,
    }


def as_text(report: dict[str, Any]) -> str:
    lines = [
        report["machine"],
        f"seed {report['seed']}: {report['faults']} faults in {report['seconds']:.0f} s",
        "",
        f"{'fault':24}{'times':>6}{'nobody':>8}{'works again after, s: median':>31}{'longest':>9}",
    ]
    for kind, figures in report["by_kind"].items():
        recovery = figures["recovery_seconds"]
        median, longest = (f"{recovery[name]:.1f}" if recovery else "-" for name in ("median", "longest"))
        lines.append(f"{kind:24}{figures['times']:>6}{figures['missed']:>8}{median:>31}{longest:>9}")
    lost = report["lost_work"]
    lines += [
        "",
        f"jobs: {_counts(report['jobs'])}; attempts: {_counts(report['attempts'])}",
        f"lost work: {lost['seconds']:.0f} s in {lost['attempts']} attempts, "
        f"at most {lost['longest_seconds']:.1f} s in one",
        f"resized: {report['resizes']['up']} times to more GPUs, {report['resizes']['down']} to fewer",
        *_rights_in_words(report["rights"]),
    ]
    for flood in report["overload"]:
        answers = ", ".join(f"{status}: {count}" for status, count in sorted(flood["answers"].items()))
        lines.append(
            f"overload, {answers}: others waited {flood['median_seconds']:.3f} s at the median, at most "
            f"{flood['longest_seconds']:.2f} s; {flood['before_seconds']:.3f} s before"
        )
    for full in report["database_full"]:
        said = "never" if full["said_after_seconds"] is None else f"after {full['said_after_seconds']:.1f} s"
        lines.append(f"database's disk full for {full['seconds']:.1f} s: /readyz said so {said}")
    lines.append("")
    if report["violations"]:
        return "\n".join([*lines, f"{len(report['violations'])} violations:", *report["violations"]])
    return "\n".join([*lines, "No violation: every job done once, no GPU held by two, nothing left behind."])


def _kind(result: Result, kind: str) -> dict[str, Any]:
    seconds = result.recoveries.get(kind, [])
    recovery = None
    if seconds:
        recovery = {"median": round(statistics.median(seconds), 2), "longest": round(max(seconds), 2)}
    return {
        "times": result.inflicted[kind],
        "missed": result.missed[kind],
        "recovery_seconds": recovery,
    }


def _resizes(result: Result) -> dict[str, int]:
    grown = [after > before for before, after in result.facts.resizes]
    return {"up": sum(grown), "down": len(grown) - sum(grown)}


def _lost_work(result: Result) -> dict[str, float]:
    lost = [attempt.lost_seconds for attempt in result.facts.attempts if attempt.lost_seconds]
    return {
        "attempts": len(lost),
        "seconds": round(sum(lost), 1),
        "longest_seconds": round(max(lost, default=0.0), 1),
    }


def _rights(result: Result) -> dict[str, dict[str, list[float | None]]]:
    """Return by kind of fault, and by what was open, how long it went on."""
    found: dict[str, dict[str, list[float | None]]] = {}
    for taken in result.facts.taken:
        for name, seconds in taken.seconds.items():
            rounded = None if seconds is None else round(seconds, 2)
            found.setdefault(taken.kind, {}).setdefault(name, []).append(rounded)
    return found


def _rights_in_words(rights: dict[str, dict[str, list[float | None]]]) -> list[str]:
    lines = []
    for kind, by_name in sorted(rights.items()):
        ends = [f"{name} {', '.join(map(str, seconds))}" for name, seconds in by_name.items()]
        lines.append(f"{kind}, what was open ended after seconds: {'; '.join(ends)}")
    return lines


def _full(full: Full) -> dict[str, float | None]:
    said = [after for after, status in full.answers if status != 200]
    return {
        "seconds": round(full.lasted_seconds, 1),
        "said_after_seconds": round(min(said), 2) if said else None,
    }


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {name or 'unended'}" for name, number in sorted(counts.items()))
