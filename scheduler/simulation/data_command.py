"""`manage.py data`: download public traces from their publishers and check them against their checksums."""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from scheduler.simulation.errors import InputError
from scheduler.simulation.public_data import DATA_SETS, DataSet, PublicFile

#: The suffix of a file with the checksum at the first download, for a file whose publisher states none.
_RECORDED = ".sha256"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits on the download of one file."""

    #: The time without any byte from the server.
    silent_seconds: float = 30
    #: The time in all.
    seconds: float = 3600
    #: The size, for a file whose publisher does not state it.
    size_bytes: int = 200 * 2**20


class DataError(InputError):
    """A public file that cannot be downloaded, or is not the published one."""


def main(
    arguments: Sequence[str], data_sets: Mapping[str, DataSet] = DATA_SETS, bounds: Bounds | None = None
) -> int:
    """Carry out the command line; return the exit code, which is 1 where a file is missing or wrong."""
    parser = argparse.ArgumentParser(prog="manage.py data", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    commands.add_parser("list", help="list the data sets, with licence, size and format")
    get = commands.add_parser("get", help="download a data set into a folder of its name")
    get.add_argument("name", metavar="NAME", choices=sorted(data_sets), help="a name that `list` prints")
    get.add_argument("--into", metavar="DIR", type=Path, default=Path("data"), help="by default ./data")
    check = commands.add_parser("check", help="check the data sets in a folder against their checksums")
    check.add_argument("folder", metavar="DIR", type=Path, help="the folder that `get --into` named")
    order = parser.parse_args(arguments)
    try:
        if order.command == "list":
            sys.stdout.write("\n".join(map(_described, data_sets.values())) + "\n")
        elif order.command == "get":
            one = data_sets[order.name]
            for file in one.files:
                download(one, file, order.into / one.name, bounds or Bounds())
            sys.stdout.write(
                f"{order.into / one.name}: {len(one.files)} file{'s'[: len(one.files) > 1]}, as published\n"
            )
        else:
            return _check(data_sets, order.folder)
    except (InputError, OSError) as error:
        sys.stderr.write(f"data: {error}\n")
        return 1
    return 0


def download(of: DataSet, file: PublicFile, folder: Path, bounds: Bounds) -> None:
    """Download a file unless it is there as published; it gets its name once it is complete and correct.

    Raises DataError where the server cannot be reached, sends more or less than the file has, takes longer
    than the bounds allow, or sends another file. A failed download leaves nothing behind.
    """
    target = folder / file.path
    if target.is_file() and problem_of(file, folder) is None:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    address = f"{of.address}/{file.source}"
    try:
        digest = _received(address, part, file, bounds)
        if file.sha256 is None:
            target.with_name(target.name + _RECORDED).write_text(f"{digest}\n")
        elif digest != file.sha256:
            raise DataError(f"{address}: its SHA-256 is {digest}; the published file has {file.sha256}")
        part.replace(target)
    except httpx.HTTPError as error:
        raise DataError(f"{address}: {error or type(error).__name__}; is the network reachable?") from None
    finally:
        part.unlink(missing_ok=True)


def _received(address: str, part: Path, file: PublicFile, bounds: Bounds) -> str:
    """Write what the address sends into a file, and return its SHA-256."""
    most = bounds.size_bytes if file.size_bytes is None else file.size_bytes
    ends = time.monotonic() + bounds.seconds
    digest, received = hashlib.sha256(), 0
    # A body that is unpacked on the way could be many times larger than what is counted.
    headers = {"Accept-Encoding": "identity"}
    with (
        httpx.stream(
            "GET", address, headers=headers, timeout=bounds.silent_seconds, follow_redirects=True
        ) as answer,
        part.open("wb") as output,
    ):
        if not answer.is_success:
            raise DataError(f"{address}: the server answers {answer.status_code}")
        # Read bytes as they arrive, so that a slow server is noticed before a block is full.
        for chunk in answer.iter_raw():
            received += len(chunk)
            if received > most:
                raise DataError(f"{address}: the server sends more than {most} bytes")
            if time.monotonic() > ends:
                raise DataError(f"{address}: not received within {bounds.seconds:g} seconds")
            digest.update(chunk)
            output.write(chunk)
    if file.size_bytes is not None and received < file.size_bytes:
        raise DataError(f"{address}: the server sends {received} bytes; the file has {file.size_bytes}")
    return digest.hexdigest()


def problem_of(file: PublicFile, folder: Path) -> str | None:
    """Return what is wrong with a file in a folder; None where it is the published one."""
    target = folder / file.path
    recorded = target.with_name(target.name + _RECORDED)
    if not target.is_file():
        return "is missing"
    expected = file.sha256 or (recorded.read_text().strip() if recorded.is_file() else None)
    if expected is None:
        return "has no checksum: its publisher states none, and none was recorded when it was downloaded"
    with target.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    return None if found == expected else f"has the SHA-256 {found}; expected {expected}"


def _check(data_sets: Mapping[str, DataSet], folder: Path) -> int:
    present = [one for one in data_sets.values() if (folder / one.name).is_dir()]
    if not present:
        raise DataError(f"{folder}: holds none of the data sets {', '.join(data_sets)}")
    wrong = 0
    for one in present:
        for file in one.files:
            if (problem := problem_of(file, folder / one.name)) is not None:
                sys.stdout.write(f"{folder / one.name / file.path}: {problem}\n")
                wrong += 1
    total = sum(len(one.files) for one in present)
    sys.stdout.write(f"{total - wrong} of {total} files are as published\n")
    return int(wrong > 0)


def _described(one: DataSet) -> str:
    sizes = [file.size_bytes for file in one.files]
    known = sum(size for size in sizes if size is not None)
    size = f"{known / 1e6:,.1f} MB" if None not in sizes else "size not stated"
    unknown = "" if all(file.sha256 for file in one.files) else "; no checksum is published"
    return (
        f"{one.name}: {one.title}\n"
        f"    {one.paper}; {one.licence}; {len(one.files)} file{'s'[: len(one.files) > 1]}, {size}{unknown}\n"
        f"    --format {one.format}; {one.address}"
    )
