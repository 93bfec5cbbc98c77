"""What children say is kept in files, as long as there is room for it."""

import errno
import io
import logging
from pathlib import Path

import pytest

from controlplane.up.console import log_file


class FullDisk(io.StringIO):
    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_costs_lines_and_says_nothing_on_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    handler = log_file(tmp_path, "web")
    there, handler.stream = handler.stream, FullDisk()
    handler.emit(logging.makeLogRecord({"msg": "lost"}))
    handler.stream = there
    handler.emit(logging.makeLogRecord({"msg": "kept"}))
    handler.close()
    assert capfd.readouterr() == ("", "")
    (line,) = (tmp_path / "web.log").read_text().splitlines()
    assert line.endswith(" kept")


def test_a_fault_of_the_program_is_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    handler = log_file(tmp_path, "web")
    handler.emit(logging.makeLogRecord({"msg": "%d", "args": ("no number",)}))
    handler.close()
    assert "TypeError" in capfd.readouterr().err
