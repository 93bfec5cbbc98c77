"""Write what documents and pages say of declarations in code: `python -m scripts.declared`, in `make schema`.

The table of reasons in docs/reasons.md, the GPU measures in docs/metrics.md and on the charts of pages.
"""

import json
import re
from pathlib import Path

from nodeagent.measures import GPU_MEASURES, GpuMeasure
from scheduler.core.model.reason_kinds import ReasonCode
from scheduler.core.model.reasons import REASONS

ROOT = Path(__file__).resolve().parents[1]
REASONS_PAGE = ROOT / "docs/reasons.md"
METRICS_PAGE = ROOT / "docs/metrics.md"
CHARTS = ROOT / "frontend/src/components/metrics/gpu-measures.json"


def files() -> dict[Path, str]:
    """Return what belongs into each file. On pages only lines of tables change."""
    charts = [{"measure": measure.name, "title": measure.title} for measure in GPU_MEASURES]
    return {
        REASONS_PAGE: with_reasons(REASONS_PAGE.read_text()),
        METRICS_PAGE: with_measures(METRICS_PAGE.read_text()),
        CHARTS: json.dumps(charts, indent=2) + "\n",
    }


def with_reasons(page: str) -> str:
    rows = "".join(map(_row, REASONS.values()))
    return re.sub(r"(\| code \|.*\n\|---.*\n)(?:\|.*\n)*", lambda found: f"{found[1]}{rows}", page, count=1)


def _row(reason: ReasonCode) -> str:
    blocking = f" {reason.blocking} " if reason.blocking else " "
    return f"| `{reason.code}` | {', '.join(reason.tiers)} | {reason.meaning} |{blocking}|\n"


def with_measures(page: str) -> str:
    measures = ", ".join(map(_measure, GPU_MEASURES))
    dcgm = ", ".join(f"`{one.dcgm.name}` ({one.dcgm.unit})" for one in GPU_MEASURES if one.dcgm is not None)
    page = re.sub(r"^\| GPU \| [^|]* \|", f"| GPU | {measures} |", page, count=1, flags=re.MULTILINE)
    return re.sub(r"^\| `DCGM_[^|]* \|", f"| {dcgm} |", page, count=1, flags=re.MULTILINE)


def _measure(measure: GpuMeasure) -> str:
    return f"`{measure.name}` ({measure.meaning})" if measure.meaning else f"`{measure.name}`"


if __name__ == "__main__":
    for path, content in files().items():
        path.write_text(content)
