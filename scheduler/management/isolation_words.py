"""What keeps jobs apart on some nodes, in words for a console."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nodeagent.messages import IsolationLevel, isolation_level

_SUMMARIES: Mapping[IsolationLevel, str] = {
    "sandbox": "in a sandbox",
    "landlock": "kept to their files by Landlock",
    "none": "with NOTHING that keeps them apart",
    "unknown": "as their nodes have not said yet",
}
_READ_ON = "docs/isolation.md says what that leaves open."


@dataclass(frozen=True, slots=True)
class IsolationWords:
    """One line, and what somebody should know beside it."""

    summary: str
    warnings: tuple[str, ...] = ()


def isolation_words(isolations: Sequence[Mapping[str, bool]]) -> IsolationWords:
    """Return the words for the least isolated of the nodes; there is at least one."""
    order: list[IsolationLevel] = ["sandbox", "landlock", "unknown", "none"]
    worst = max(isolations, key=lambda one: (order.index(isolation_level(one)), not one.get("user")))
    level, has_users = isolation_level(worst), bool(worst.get("user"))
    if level == "none" and worst.get("required"):
        summary = "do not run: nothing keeps them apart here"
        warning = (
            "No job starts: neither bubblewrap nor Landlock works on this machine. The page of each node says"
            " why. To run jobs that you trust all the same, start with --unsafe-jobs."
        )
        return IsolationWords(summary, (warning,))
    if level == "unknown":
        return IsolationWords(_SUMMARIES[level])
    who = "as users of their tenants'" if has_users else "as the user who started this"
    summary = f"{_SUMMARIES[level]}, {who}"
    if level == "none":
        can = (
            "read each other's files" if has_users else "read and change whatever you can, passwords included"
        )
        return IsolationWords(summary, (f"Nothing isolates jobs: they can {can}. {_READ_ON}",))
    if level == "landlock" and not has_users:
        return IsolationWords(
            summary, (f"All tenants' jobs run as your user, without a sandbox around them. {_READ_ON}",)
        )
    return IsolationWords(summary)
