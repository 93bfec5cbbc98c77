"""Write the table of docs/reasons.md from the declarations of the core: `python -m scripts.reasons_page`.

It is part of `make schema`.
"""

from pathlib import Path

from scheduler.core.model.reasons import REASONS, ReasonCode

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reasons.md"
HEAD = "| code | tier | when | `blocking` |\n|---|---|---|---|\n"


def page(current: str) -> str:
    """Return the page with today's table in place of the one that it has."""
    before, _, rest = current.partition(HEAD)
    _, _, after = rest.partition("\n\n")
    return f"{before}{HEAD}{''.join(map(_row, REASONS.values()))}\n{after}"


def _row(reason: ReasonCode) -> str:
    blocking = f" {reason.blocking} " if reason.blocking else " "
    return f"| `{reason.code}` | {', '.join(reason.tiers)} | {reason.meaning} |{blocking}|\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
