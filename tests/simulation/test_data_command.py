"""`manage.py data`: what it downloads is the published file, or nothing is left of it."""

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from scheduler.simulation.data_command import Bounds, main
from scheduler.simulation.public_data import DATA_SETS, DataSet, PublicFile
from scheduler.simulation.traces.registry import FORMATS
from tests.patience import PATIENCE_SECONDS

CONTENT = b"job_id,num_gpu\n1,8\n"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
#: A server that sends a byte now and then is cut off after this.
SHORT = Bounds(silent_seconds=PATIENCE_SECONDS, seconds=0.2, size_bytes=1000)
LONG = Bounds(silent_seconds=PATIENCE_SECONDS, seconds=PATIENCE_SECONDS, size_bytes=1000)

Send = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture
def publisher() -> Iterator[tuple[str, dict[str, Send], list[str]]]:
    """An HTTP server: its address, what it does by path, and the paths that it was asked for."""
    answers: dict[str, Send] = {}
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            answers[self.path](self)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", answers, asked
    server.shutdown()
    server.server_close()


def sends(content: bytes, *, status: int = 200, claimed: int | None = None) -> Send:
    def send(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(content) if claimed is None else claimed))
        handler.end_headers()
        handler.wfile.write(content)

    return send


def without_end(handler: BaseHTTPRequestHandler) -> None:
    """Send one byte after the other until the client goes."""
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):
        while True:
            handler.wfile.write(b"x")


def a_set(
    address: str, *, size: int | None = len(CONTENT), digest: str | None = DIGEST
) -> dict[str, DataSet]:
    file = PublicFile("kept/trace.csv", "there/trace.csv", size, digest)
    one = DataSet(
        name="trial",
        title="A trial",
        paper="X, 2020",
        licence="MIT",
        format="muri",
        address=address,
        files=(file,),
    )
    return {"trial": one}


def got(sets: dict[str, DataSet], folder: Path, bounds: Bounds = LONG) -> int:
    return main(["get", "trial", "--into", str(folder)], sets, bounds)


def left(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file()]


def test_a_file_is_downloaded_once_and_checked(publisher, tmp_path, capsys):
    address, answers, asked = publisher
    answers["/there/trace.csv"] = sends(CONTENT)
    sets = a_set(address)
    assert got(sets, tmp_path) == 0
    assert (tmp_path / "trial/kept/trace.csv").read_bytes() == CONTENT
    assert left(tmp_path) == ["trace.csv"]
    assert got(sets, tmp_path) == 0
    assert len(asked) == 1, "a file that is right is not downloaded again"
    assert main(["check", str(tmp_path)], sets) == 0

    (tmp_path / "trial/kept/trace.csv").write_bytes(CONTENT + b"2,8\n")
    assert main(["check", str(tmp_path)], sets) == 1
    assert "trace.csv: has the SHA-256" in capsys.readouterr().out
    assert got(sets, tmp_path) == 0, "one that is wrong is"
    assert (tmp_path / "trial/kept/trace.csv").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("send", "bounds", "message"),
    [
        (sends(CONTENT[:-4]), LONG, "the server sends 15 bytes; the file has 19"),
        (sends(CONTENT[:-4], claimed=len(CONTENT)), LONG, "peer closed connection"),
        (sends(CONTENT[:-2] + b"9\n"), LONG, "the published file has"),
        (sends(CONTENT * 10), LONG, "more than 19 bytes"),
        (without_end, LONG, "more than 19 bytes"),
        (sends(b"none", status=404), LONG, "the server answers 404"),
    ],
    ids=["short", "cut off", "another file", "too big", "without end", "missing"],
)
def test_what_is_not_the_published_file_is_refused_and_nothing_is_left(
    publisher, tmp_path, capsys, send, bounds, message
):
    address, answers, _ = publisher
    answers["/there/trace.csv"] = send
    assert got(a_set(address), tmp_path, bounds) == 1
    assert message in capsys.readouterr().err
    assert left(tmp_path) == []


def test_a_server_that_never_ends_is_cut_off_after_a_time(publisher, tmp_path, capsys):
    address, answers, _ = publisher
    answers["/there/trace.csv"] = without_end
    assert got(a_set(address, size=10**9), tmp_path, SHORT) == 1
    assert "not received within 0.2 seconds" in capsys.readouterr().err
    assert left(tmp_path) == []


def test_a_file_that_was_right_stays_where_its_server_is_gone(publisher, tmp_path, capsys):
    address, answers, _ = publisher
    answers["/there/trace.csv"] = sends(CONTENT)
    assert got(a_set(address), tmp_path) == 0
    # Nothing listens on the port of a server that never was.
    assert got(a_set("http://127.0.0.1:1"), tmp_path) == 0
    assert got(a_set("http://127.0.0.1:1"), tmp_path / "other") == 1
    assert "is the network reachable?" in capsys.readouterr().err


def test_a_checksum_that_is_not_published_is_recorded_at_first(publisher, tmp_path, capsys):
    address, answers, _ = publisher
    answers["/there/trace.csv"] = sends(CONTENT)
    sets = a_set(address, size=None, digest=None)
    assert got(sets, tmp_path) == 0
    assert (tmp_path / "trial/kept/trace.csv.sha256").read_text().strip() == DIGEST
    assert main(["check", str(tmp_path)], sets) == 0
    (tmp_path / "trial/kept/trace.csv").write_bytes(b"other")
    assert main(["check", str(tmp_path)], sets) == 1
    answers["/there/trace.csv"] = sends(b"x" * (LONG.size_bytes + 1))
    assert got(sets, tmp_path) == 1
    assert "more than 1000 bytes" in capsys.readouterr().err


def test_a_folder_without_data_sets_is_said_to_have_none(tmp_path, capsys):
    assert main(["check", str(tmp_path)]) == 1
    assert "holds none of the data sets" in capsys.readouterr().err


def test_each_entry_of_the_list_is_whole(capsys):
    assert main(["list"]) == 0
    text = capsys.readouterr().out
    for name, one in DATA_SETS.items():
        assert f"{name}: {one.title}" in text
        assert one.format in FORMATS
        assert one.address.startswith("https://")
        assert len({file.path for file in one.files}) == len(one.files) > 0
        for file in one.files:
            assert not file.path.startswith("/")
            assert ".." not in file.path.split("/")
            assert (file.size_bytes is None) == (file.sha256 is None)
            assert file.sha256 is None or len(bytes.fromhex(file.sha256)) == 32
