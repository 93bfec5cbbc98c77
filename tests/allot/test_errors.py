"""What a person is told when things go wrong, and the exit codes that scripts rely on."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable

import pytest
from typer.testing import Result

from allot.describe import problem_lines
from allot.errors import FieldProblem
from tests.allot.conftest import Command
from tests.allot.fake_api import Answer, FakeApi
from tests.patience import PATIENCE_SECONDS

Allot = Callable[..., Result]


def test_a_refused_connection_names_the_address_and_where_it_is_from(command: Command) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        result = command("ls", ALLOT_URL=url)
    assert result.returncode == 4
    assert f"Cannot reach {url}: connection refused." in result.stderr
    assert "It comes from the environment variable ALLOT_URL." in result.stderr
    assert result.stdout == ""


def test_an_unknown_command_gets_a_suggestion(command: Command) -> None:
    result = command("lgos")
    assert result.returncode == 2
    assert "Did you mean 'logs'" in result.stderr


@pytest.mark.parametrize(
    "arguments", [("show", "9"), ("why", "9"), ("logs", "9"), ("wait", "9"), ("nodes", "no")]
)
def test_what_does_not_exist_is_3(allot: Allot, arguments: tuple[str, ...]) -> None:
    result = allot(*arguments)
    assert result.exit_code == 3
    assert result.stderr.startswith("allot: There is no")


def test_an_id_has_to_be_a_number(allot: Allot, api: FakeApi) -> None:
    assert allot("show", "train").exit_code == 2
    assert allot("show", "0").exit_code == 2
    assert not api.requests


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(200, "<html>Welcome</html>"), "answered with status 200 and text/html"),
        (Answer(404, "<html>nothing here</html>"), "answered with status 404 and text/html"),
        (Answer(301, "", {"Location": "https://gpu.example.org/"}), "redirects to https://gpu.example.org/"),
        (Answer(502, "<html>bad gateway</html>"), "cannot answer now (status 502)"),
    ],
)
def test_a_server_that_is_not_allotment_is_recognised(
    allot: Allot, api: FakeApi, monkeypatch: pytest.MonkeyPatch, answer: Answer, said: str
) -> None:
    def give(*_: object) -> None:
        raise answer

    monkeypatch.setattr(api, "handle", give)
    result = allot("ls")
    assert result.exit_code == 4
    assert said in result.stderr


def test_a_closed_pipe_is_no_error(command: Command, api: FakeApi) -> None:
    # More than a pipe takes before somebody reads.
    for number in range(1, 1000):
        api.add(number)
    process = command.start("ls", "--all", "-o", "json")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=PATIENCE_SECONDS) != 0
    assert process.stderr.read() == ""
    process.stderr.close()


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("ls -q > /dev/full", 1, "allot: No space left on device.\n"),
        ("slurm squeue -h > /dev/full", 1, "allot: No space left on device.\n"),
        ("ls -q >&-", 0, ""),
        ("submit - <&-", 2, "standard input"),
        ("slurm sbatch <&-", 2, "not a batch script"),
    ],
)
def test_streams_that_are_full_or_closed(
    command: Command, api: FakeApi, line: str, code: int, said: str
) -> None:
    api.add(1)
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m allot {line}"],
        env=command.environment,
        cwd=command.home,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert said in done.stderr


@pytest.mark.parametrize("port", ["70000", "0", "99999999999999999999"])
def test_a_port_that_is_none_is_refused(allot: Allot, api: FakeApi, port: str) -> None:
    result = allot("port-forward", "17", port)
    assert (result.exit_code, "is not a port" in result.stderr) == (2, True)
    assert allot("port-forward", "17", "²").exit_code == 3


def test_nothing_heavy_is_loaded_before_it_is_needed(command: Command) -> None:
    """Start-up time, measured by what is imported: a clock would depend on the machine."""
    result = command("--help", PYTHONPROFILEIMPORTTIME="1")
    assert result.returncode == 0
    loaded = {line.rsplit("|", 1)[-1].strip() for line in result.stderr.splitlines()}
    assert "typer" in loaded
    assert not loaded & {"httpx", "rich", "yaml", "django", "pydantic", "msgspec", "importlib.metadata"}


def test_what_is_wrong_and_what_would_be_right_are_not_the_same_twice() -> None:
    slug = "Use 1 to 63 lower-case letters."
    taken = FieldProblem("title", "is empty", "text")
    assert problem_lines(
        "", "name: is wrong, title: is empty", [FieldProblem("name", slug, slug), taken]
    ) == [
        "2 mistakes:",
        "  name: Use 1 to 63 lower-case letters.",
        "  title: is empty. Expected: text.",
    ]
