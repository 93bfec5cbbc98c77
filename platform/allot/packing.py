"""A folder as an archive that is the same wherever and whenever the same files are packed.

What `.gitignore` and `.allotignore` name is left out, as git does it: files of the folders above count as far
up as the repository goes, inner ones come after outer ones, and in each folder `.allotignore` comes last. So
does `.git`, and every link that leads out of the folder.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from allot.errors import WrongUse

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILES = (".gitignore", ".allotignore")
#: Names the limit on what is packed, in bytes.
LIMIT = "ALLOT_UPLOAD_BYTES"
USUAL_LIMIT_BYTES = 256 * 1024**2
MOST_FILES = 100_000
LARGEST_SHOWN = 10
_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Packed:
    """An archive in a file without a name, which ends with it."""

    file: IO[bytes]
    #: sha256:..., of its bytes.
    digest: str
    bytes: int
    files: int
    #: Links that were left out, since they lead out of the folder.
    links_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    """One file or link, by its path inside the folder."""

    name: str
    path: str
    size: int
    is_link: bool


@dataclass(frozen=True, slots=True)
class _Rules:
    """The ignore files of one folder: patterns by what is relative to it, at `base`."""

    base: str
    spec: GitIgnoreSpec


def pack(folder: str) -> Packed:
    """Pack a folder; raise WrongUse for one that cannot be read, is empty, or is larger than the limit."""
    top = Path(folder).resolve()
    if not top.is_dir():
        raise WrongUse(f"--upload {folder}: there is no such folder.")
    found: list[_Found] = []
    links_out: list[str] = []
    for one in _walk(str(top), "", _rules_above(top)):
        if one.is_link and not _stays_inside(one):
            links_out.append(one.name)
        else:
            found.append(one)
    _require_right_size(folder, found)
    # By their bytes: no locale has a say.
    found.sort(key=lambda one: os.fsencode(one.name))
    file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        _write(file, found)
    except OSError as error:
        file.close()
        raise WrongUse(f"--upload {folder} could not be packed: {error.strerror or error}.") from error
    size = file.tell()
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # it is a file
    file.seek(0)
    return Packed(file, f"sha256:{digest}", size, len(found), tuple(links_out))


def _walk(folder: str, base: str, rules: Sequence[_Rules]) -> Iterator[_Found]:
    """Yield the files and links below a folder that no rule leaves out."""
    rules = [*rules, *_rules_of(folder, base)]
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise WrongUse(f"Cannot read {folder}: {error.strerror}.") from None
    for entry in entries:
        name = f"{base}{entry.name}"
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name == ".git" or _is_left_out(f"{name}/" if is_folder else name, rules):
            continue
        if is_folder:
            yield from _walk(entry.path, f"{name}/", rules)
        elif entry.is_symlink():
            yield _Found(name, entry.path, 0, True)
        elif entry.is_file(follow_symlinks=False):
            yield _Found(name, entry.path, entry.stat(follow_symlinks=False).st_size, False)


def _rules_of(folder: str, base: str) -> list[_Rules]:
    from pathspec import GitIgnoreSpec

    found = []
    for name in IGNORE_FILES:
        path = Path(folder, name)
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except (FileNotFoundError, IsADirectoryError):
            continue
        except OSError as error:
            raise WrongUse(f"Cannot read {path}: {error.strerror}.") from None
        found.append(_Rules(base, GitIgnoreSpec.from_lines(filter(_is_pattern, lines))))
    return found


def _is_pattern(line: str) -> bool:
    """Whether it can match at all; git skips a line such as `!` or `[z-a]` without a word."""
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return False
    return True


def _rules_above(top: Path) -> list[_Rules]:
    """Return the rules of the folders above, from that of the repository down; none outside of one."""
    repository = next((one for one in (top, *top.parents) if (one / ".git").exists()), top)
    if repository == top:
        return []
    above = [one for one in reversed(top.parents) if one == repository or repository in one.parents]
    # Their names are relative to the folder that is packed: a path below it begins with its own.
    return [
        _Rules(f"\0{top.relative_to(one).as_posix()}/", rules.spec)
        for one in above
        for rules in _rules_of(str(one), "")
    ]


def _is_left_out(name: str, rules: Sequence[_Rules]) -> bool:
    """Whether the last pattern that matches says so."""
    for one in reversed(rules):
        relative = one.base[1:] + name if one.base.startswith("\0") else name.removeprefix(one.base)
        said = one.spec.check_file(relative).include
        if said is not None:
            return said
    return False


def _stays_inside(link: _Found) -> bool:
    target = os.path.normpath(os.path.join(os.path.dirname(link.name), os.readlink(link.path)))
    return not os.path.isabs(target) and target.split(os.sep)[0] != os.pardir


def _require_right_size(folder: str, found: Sequence[_Found]) -> None:
    if not found:
        raise WrongUse(f"--upload {folder}: there is nothing to upload; ignore files leave out all of it.")
    if len(found) > MOST_FILES:
        raise WrongUse(
            f"--upload {folder}: {len(found):,} files are more than {MOST_FILES:,}. Name in .allotignore what"
            " the job does not need."
        )
    limit = _limit()
    total = sum(one.size for one in found)
    if total <= limit:
        return
    largest = sorted(found, key=lambda one: (-one.size, one.name))[:LARGEST_SHOWN]
    lines = "".join(f"\n  {_mebibytes(one.size):>12}  {one.name}" for one in largest)
    raise WrongUse(
        f"--upload {folder}: its files have {_mebibytes(total)}, more than the {_mebibytes(limit)} that"
        f" {LIMIT} allows. Name in .allotignore what the job does not need. The largest are:{lines}"
    )


def _limit() -> int:
    text = os.environ.get(LIMIT, str(USUAL_LIMIT_BYTES))
    if not (text.isascii() and text.isdigit()):
        raise WrongUse(f"{LIMIT} {text!r} is not a number of bytes, such as {USUAL_LIMIT_BYTES}.")
    return int(text)


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def _write(file: IO[bytes], found: Sequence[_Found]) -> None:
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for one in found:
            member = tarfile.TarInfo(one.name)
            # Owner, times and all else that differs between machines stay as they are in a new one.
            if one.is_link:
                member.type, member.linkname = tarfile.SYMTYPE, os.readlink(one.path)
                tar.addfile(member)
                continue
            with open(one.path, "rb") as content:
                facts = os.fstat(content.fileno())
                member.size = facts.st_size
                member.mode = 0o755 if facts.st_mode & 0o100 else 0o644
                tar.addfile(member, content)
