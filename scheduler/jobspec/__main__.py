"""Write the files that are made of the declarations here: `python -m scheduler.jobspec`, in `make schema`."""

import json
from pathlib import Path

from scheduler.jobspec.reference import reference_page
from scheduler.jobspec.schema import json_schema

_REPOSITORY = Path(__file__).resolve().parents[2]


def files() -> dict[Path, str]:
    """Return the content of each file."""
    schema = json.dumps(json_schema(), indent=2) + "\n"
    return {
        _REPOSITORY / "platform/allot/job-spec.schema.json": schema,
        _REPOSITORY / "frontend/src/features/submit/job-spec.schema.json": schema,
        _REPOSITORY / "docs/job-specification.md": reference_page(),
    }


if __name__ == "__main__":
    for path, content in files().items():
        path.write_text(content)
