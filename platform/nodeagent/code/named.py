"""How the control plane names to a node the code that a job brings along (a part of `messages`)."""

from __future__ import annotations

from dataclasses import dataclass

#: The most seconds that an agent may give the fetching of an attempt's code (`code.timeout_seconds`), and
#: that making its folders and unpacking the code into them may take. The server gives the sum of both.
FETCH_MOST_SECONDS = 300.0
UNPACK_SECONDS = 300.0
CODE_SECONDS = FETCH_MOST_SECONDS + UNPACK_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """What a job's working folders begin with: an archive, or a commit of a git repository."""

    #: SHA-256 of the archive, in hex; "" when it is a commit. GET /api/agent/v1/code/ATTEMPT has its bytes.
    archive: str = ""
    git: str = ""
    commit: str = ""
