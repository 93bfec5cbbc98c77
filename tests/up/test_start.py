"""What `manage.py up` refuses before it starts anything."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.up.console import StartError
from controlplane.up.home import Home
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = ("ALLOT_", "DATABASE_URL", "REDIS_URL")


def up(*arguments: str) -> subprocess.CompletedProcess[str]:
    return manage("up", *arguments)


def manage(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `manage.py` as somebody would who has set nothing but `environment`."""
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if not key.startswith(SETTINGS)} | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


def test_a_taken_port_is_named_with_its_holder_and_a_way_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = up("--home", str(tmp_path / "home"), "--port", str(port))
    assert result.returncode == 1
    assert f"Port {port} on 127.0.0.1 is taken by " in result.stdout
    assert f"(process {os.getpid()})" in result.stdout
    assert 'make up ARGS="--port ' in result.stdout
    assert not (tmp_path / "home" / "postgres").exists()


def test_a_second_start_on_the_same_home_names_the_first(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    with home.lock("http://127.0.0.1:8123"):
        result = up("--home", str(home.path))
    assert result.returncode == 1
    assert f"process {os.getpid()}, http://127.0.0.1:8123" in result.stdout
    assert "--home" in result.stdout


def test_a_port_that_is_none_is_refused(tmp_path: Path) -> None:
    result = up("--home", str(tmp_path), "--port", "99999")
    assert result.returncode == 2
    assert "'99999' is not a port: give a number from 1 to 65535" in result.stderr


def test_a_home_that_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = up("--home", str(tmp_path / "file" / "home"))
    assert result.returncode == 1
    assert "Not a directory. Choose another by --home." in result.stdout


def test_the_home_is_private_and_keeps_its_secrets(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    first = home.environment()
    home.write_environment(first | {"REDIS_URL": "redis://one=two"})
    again = home.environment()
    assert again["ALLOT_SECRET_KEY"] == first["ALLOT_SECRET_KEY"]
    assert again["REDIS_URL"] == "redis://one=two"
    assert home.path.stat().st_mode & 0o777 == 0o700
    assert (home.path / "env").stat().st_mode & 0o777 == 0o600


def test_a_lock_ends_with_its_block(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    with home.lock("one"):
        pass
    with home.lock("two"), pytest.raises(StartError, match="two"), home.lock("three"):
        raise AssertionError("held twice")


def test_without_settings_help_works_and_a_command_says_what_is_missing(tmp_path: Path) -> None:
    assert manage("help", ALLOT_HOME=str(tmp_path)).returncode == 0
    refused = manage("check", ALLOT_HOME=str(tmp_path), ALLOT_SECRET_KEY="short", REDIS_URL="redis://here")
    assert refused.returncode != 0
    assert "DATABASE_URL: not set; ALLOT_SECRET_KEY: needs at least 32 random characters" in refused.stderr
    assert "manage.py up" in refused.stderr
