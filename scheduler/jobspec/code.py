"""What a job brings along for its working folders, as its specification states it."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from scheduler.jobspec.declaring import Object, stated
from scheduler.jobspec.fields import Fields
from scheduler.jobspec.kind import Flag
from scheduler.jobspec.kinds import Word

#: Before the digest of an archive, in specifications and addresses.
SHA256 = "sha256:"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
DIGEST_EXPECTED = "sha256: and 64 hexadecimal digits, as `allot submit --upload` writes them"
_ADDRESS = re.compile(r"(https|ssh|git|file)://[!-~]{1,500}")
_ADDRESS_EXPECTED = "the address of a repository, such as https://git.example.org/team/model.git"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_COMMIT_EXPECTED = "a whole commit id of 40 hexadecimal digits, as `git rev-parse HEAD` prints it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The initial content of each replica's working folder: an archive, or a commit of a git repository."""

    archive: str = stated(
        Word(DIGEST, DIGEST_EXPECTED, 71),
        default="",
        help="An archive that `allot submit --upload` stored for the tenant, by its digest.",
        is_sparse=True,
    )
    git: str = stated(
        Word(_ADDRESS, _ADDRESS_EXPECTED, 508),
        default="",
        help="A git repository that the nodes can read without a password.",
        example="https://git.example.org/team/model.git",
        flag=Flag(("--git",), metavar="URL"),
        is_sparse=True,
    )
    commit: str = stated(
        Word(_COMMIT, _COMMIT_EXPECTED, 40),
        default="",
        help="The commit whose files are used. A branch could move before the job starts again.",
        flag=Flag(("--commit",), metavar="ID"),
        is_sparse=True,
    )


def _one_of_two(fields: Fields, code: Code) -> None:
    if bool(code.archive) == bool(code.git):
        problem = "cannot be used with git" if code.git else "is missing"
        fields.refuse("archive", problem, "an archive; or git with a commit")
    elif code.git and not code.commit:
        fields.refuse("commit", "is missing", _COMMIT_EXPECTED)
    elif code.archive and code.commit:
        fields.refuse("commit", "is given without git", "the address of its repository in git")
    elif _names_someone(code.git):
        problem = "contains a user or password, which anyone who sees the job could read"
        fields.refuse("git", problem, _ADDRESS_EXPECTED)


def _names_someone(address: str) -> bool:
    parts = urlsplit(address)
    return parts.password is not None or (parts.username is not None and parts.scheme != "ssh")


CODE = Object(Code, "Code", check_together=_one_of_two)
