"""What is generated and committed is what would be generated now."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.django_db
def test_migrations_follow_the_models() -> None:
    output = StringIO()
    try:
        call_command("makemigrations", check=True, dry_run=True, stdout=output)
    except SystemExit:
        pytest.fail(f"run manage.py makemigrations:\n{output.getvalue()}")


def test_the_api_schema_is_current(tmp_path: Path) -> None:
    call_command("spectacular", file=str(tmp_path / "openapi.yaml"), fail_on_warn=True)
    committed = ROOT / "docs" / "api" / "openapi.yaml"
    assert committed.read_text() == (tmp_path / "openapi.yaml").read_text(), "run make schema"
