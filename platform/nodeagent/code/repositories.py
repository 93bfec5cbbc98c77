"""A commit of a git repository as a tar: by `git`, which asks no person and follows no setting of a user.

Nothing of the repository is run: hooks do not travel, and there is no checkout that could filter files.
Submodules and files of Git LFS are not fetched.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from nodeagent.configuration import CodeLimits
from nodeagent.output.logs import decode_text

#: What git gets of the agent's environment: programs, proxies and certificates.
_PASSED_ON = ("PATH", "http_proxy", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "SSL_CERT_FILE")
#: In units of the shell's `ulimit -f`, no file that git writes grows beyond the first argument.
_BOUNDED = 'ulimit -f "$0" && exec "$@"'
_BLOCK_BYTES = 512
_LAST_BYTES = 1_000
#: The suffix of files and folders that are not archives (yet).
UNFINISHED = ".unfinished"


class GitFailed(Exception):
    """A git command failed; says in git's own words why."""


async def fetch_commit(address: str, commit: str, target: Path, limits: CodeLimits) -> str:
    """Write the files of the commit to a tar; return "" or, for people, why that is not possible here."""
    scheme = urlsplit(address).scheme
    if scheme not in limits.git:
        allowed = ", ".join(f"{one}://" for one in limits.git) or "none at all"
        return f"This node accepts no git addresses that begin with {scheme}://, only {allowed} (code.git)."
    if shutil.which("git") is None:
        return "git is not installed on this node, and a job with code.git needs it."
    with tempfile.TemporaryDirectory(dir=target.parent, suffix=UNFINISHED, prefix="git-") as folder:
        try:
            with target.open("wb") as tar:
                git = _Git(folder, limits)
                await git.run("init", "--quiet", "--bare", ".")
                # Only this commit, without branches and without what was before it.
                await git.run("fetch", "--quiet", "--depth=1", "--no-tags", address, commit)
                await git.run("archive", "--format=tar", f"{commit}^{{commit}}", output=tar.fileno())
        except GitFailed as error:
            return f"git could not bring commit {commit[:12]} of {address}: {error}"
    return ""


class _Git:
    """git in one bare repository."""

    def __init__(self, folder: str, limits: CodeLimits) -> None:
        self.folder = folder
        self.blocks = str(limits.unpacked_bytes // _BLOCK_BYTES + 1)
        self.environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | {
            "HOME": folder,
            "LC_ALL": "C",
            "GIT_DIR": folder,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "false",
            "SSH_ASKPASS": "false",
            "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
            "GIT_ALLOW_PROTOCOL": ":".join(limits.git),
        }

    async def run(self, *arguments: str, output: int = asyncio.subprocess.DEVNULL) -> None:
        """Raise GitFailed, with its last words, unless it ends well. Nothing of it outlives this."""
        # What the other side says goes into a file, too, so that it is bounded.
        with tempfile.TemporaryFile(dir=self.folder) as said:
            process = await asyncio.create_subprocess_exec(
                *("sh", "-c", _BOUNDED, self.blocks, "git", "-c", "fetch.unpackLimit=1", *arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=said,
                cwd=self.folder,
                env=self.environment,
                start_new_session=True,
            )
            try:
                await process.wait()
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
            said.seek(max(0, said.seek(0, os.SEEK_END) - _LAST_BYTES))
            lines = decode_text(said.read()).strip().splitlines()
        if process.returncode in (-signal.SIGXFSZ, 128 + signal.SIGXFSZ):
            raise GitFailed(f"it is larger than {int(self.blocks) * _BLOCK_BYTES:,} bytes.")
        if process.returncode:
            # What follows its first fatal line is advice.
            fatal = next((line for line in lines if line.startswith("fatal: ")), lines[-1] if lines else "")
            raise GitFailed(fatal.removeprefix("fatal: ") or f"exit code {process.returncode}.")
