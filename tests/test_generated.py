"""What is generated and committed is what would be generated now."""

import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from scheduler.jobspec.__main__ import files
from scripts import declared

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.django_db
def test_migrations_follow_the_models() -> None:
    output = StringIO()
    try:
        call_command("makemigrations", check=True, dry_run=True, stdout=output)
    except SystemExit:
        pytest.fail(f"run manage.py makemigrations:\n{output.getvalue()}")


def test_the_api_schema_is_current(tmp_path: Path) -> None:
    call_command("spectacular", file=str(tmp_path / "openapi.yaml"), validate=True, fail_on_warn=True)
    committed = ROOT / "docs" / "api" / "openapi.yaml"
    assert committed.read_text() == (tmp_path / "openapi.yaml").read_text(), "run make schema"


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_the_files_of_the_job_specification_are_current(path: Path) -> None:
    assert path.read_text() == files()[path], "run make schema"


@pytest.mark.parametrize("path", declared.files(), ids=lambda path: path.name)
def test_what_documents_say_of_declarations_is_current(path: Path) -> None:
    assert path.read_text() == declared.files()[path], "run make schema"


def test_an_edited_table_is_noticed() -> None:
    reasons = declared.REASONS_PAGE.read_text()
    assert declared.with_reasons(reasons.replace("| `held` | held |", "| `held` | quota |")) == reasons
    assert declared.with_reasons(reasons.replace("| `held` | held |", "| `put_by` | held |")) == reasons
    metrics = declared.METRICS_PAGE.read_text()
    assert declared.with_measures(metrics.replace(", `power_watts`,", ",")) == metrics
    assert declared.with_measures(metrics.replace("_POWER_USAGE` (W)", "_POWER` (kW)")) == metrics


def test_the_clients_types_are_those_of_the_schema(tmp_path: Path) -> None:
    generator = Path(sys.executable).parent / "datamodel-codegen"
    subprocess.run([generator, "--output", tmp_path / "schema.py"], cwd=ROOT, check=True)
    committed = ROOT / "platform" / "allot" / "schema.py"
    assert committed.read_text() == (tmp_path / "schema.py").read_text(), "run make schema"
