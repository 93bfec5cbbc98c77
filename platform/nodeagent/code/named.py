"""How the control plane names to a node the code that a job brings along (a part of `messages`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """What a job's working folders begin with: an archive, or a commit of a git repository."""

    #: SHA-256 of the archive, in hex; "" when it is a commit. GET /api/agent/v1/code/ATTEMPT has its bytes.
    archive: str = ""
    git: str = ""
    commit: str = ""
