"""What jobs bring along for their working folders: fetched once, checked, unpacked safely, and begun in."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.client import Client
from nodeagent.code import archives, repositories
from nodeagent.code.archives import ArchiveRefused, Bounds, Contents
from nodeagent.code.fetching import CodeStore, CodeUnavailable
from nodeagent.configuration import CodeLimits
from nodeagent.messages import Code, DesiredPart
from tests.agent.builders import make_configuration, make_part, shell
from tests.agent.fake_server import FakeServer
from tests.agent.test_agent import NODE, StartAgent, server, start_agent
from tests.agent.test_batch import BatchNodeOfTests
from tests.archives import digest_of, member, tar_of
from tests.patience import until_async

__all__ = ["server", "start_agent"]

BOUNDS = Bounds(files=100, unpacked_bytes=100_000)
TAR = tar_of(
    {"train.sh": "echo trained", "lib/words": "hello\n"}, more=[member("link", tarfile.SYMTYPE, "lib")]
)
#: Through it, "a/b/l/.." is not "a/b", but the folder above that into which the archive is unpacked.
UP = member("a/b/l", tarfile.SYMTYPE, "../..")
#: Numbers in the headers of sparse files that are none.
BROKEN_HEADERS = (
    {"GNU.sparse.map": "a,b"},
    {"GNU.sparse.size": "abc"},
    {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"},
)
SHOWS = "sh train.sh; cat link/words; touch made; ls; stat -c %u:%a train.sh lib; id -u"


def named(archive: bytes) -> Code:
    return Code(archive=digest_of(archive).removeprefix("sha256:"))


def headed(headers: dict[str, str]) -> tarfile.TarInfo:
    one = member("a")
    one.pax_headers = headers
    return one


class TestUnpacking:
    def test_files_folders_and_links_inside(self, tmp_path: Path) -> None:
        run = member("run", size=0)
        run.mode = 0o4755
        found = archives.unpack(io.BytesIO(tar_of({"./a//b": "x"}, more=[run])), str(tmp_path), BOUNDS)
        assert found == Contents(files=2, unpacked_bytes=1)
        assert (tmp_path / "a/b").read_text() == "x"
        # Nothing but whether it can be run is kept of its mode.
        assert (tmp_path / "run").stat().st_mode & 0o7777 == 0o755
        assert archives.contents(io.BytesIO(TAR), BOUNDS) == Contents(files=3, unpacked_bytes=18)

    def test_a_link_may_climb_out_of_folders(self, tmp_path: Path) -> None:
        links = [UP, member("a/m", tarfile.SYMTYPE, "../c/../a/b/f"), member("n", tarfile.SYMTYPE, "a/b/l/c")]
        archives.unpack(io.BytesIO(tar_of({"a/b/f": "x", "c/g": "y"}, more=links)), str(tmp_path), BOUNDS)
        assert ((tmp_path / "a/m").read_text(), (tmp_path / "n/g").read_text()) == ("x", "y")

    @pytest.mark.parametrize(
        ("archive", "said"),
        [
            (tar_of({"../out": "x"}), "leads out"),
            (tar_of({"a/../../out": "x"}), "leads out"),
            (tar_of({"/etc/out": "x"}), "absolute"),
            (tar_of({}, more=[member("l", tarfile.SYMTYPE, "/etc")]), "leads out"),
            (tar_of({}, more=[member("l", tarfile.SYMTYPE, "../x")]), "leads out"),
            (tar_of({}, more=[member("l", tarfile.LNKTYPE, "/etc/passwd")]), "a hard link"),
            (tar_of({"a/b/f": ""}, more=[UP, member("m", tarfile.SYMTYPE, "a/b/l/../secret")]), "another"),
            (tar_of({"a/b/f": ""}, more=[member("m", tarfile.SYMTYPE, "a/b/l/../secret"), UP]), "another"),
            (tar_of({"a/f": ""}, more=[UP, member("a/m", tarfile.SYMTYPE, "b/l/x/../../f")]), "another"),
            (tar_of({}, more=[UP, member("m", tarfile.SYMTYPE, "x/../a/b/./l//..")]), "another"),
            (tar_of({}, more=[member("l", tarfile.SYMTYPE, "x/" * 600 + "f")]), "too long or too deep"),
            (tar_of({}, more=[member("d", tarfile.CHRTYPE)]), "a device"),
            (tar_of({}, more=[member("d", tarfile.BLKTYPE)]), "a device"),
            (tar_of({}, more=[member("p", tarfile.FIFOTYPE)]), "a pipe"),
            (tar_of({"a": "x"}, more=[member("a")]), "twice"),
            (tar_of({"a": "x"}, more=[member("a/b")]), "through a link or a file"),
            (tar_of({"a/b": "x"}, more=[member("a", tarfile.SYMTYPE, "c")]), "twice"),
            (
                tar_of({}, more=[member("l", tarfile.SYMTYPE, "."), member("l/x")]),
                "through a link or a file",
            ),
            (tar_of({"/".join("a" * 70): "x"}), "too deep"),
            (tar_of({str(number): "" for number in range(101)}), "more than 100 files"),
            (tar_of({"zeros": bytes(200_000)}), "100,000 bytes"),
            (tar_of({"a": bytes(60_000), "b": bytes(60_000)}), "100,000 bytes"),
            (tar_of({"n" * 2_000_000: ""}), "header"),
            (TAR[:-30], "not a whole tar"),
            (b"\x1f\x8b nothing", "not a whole tar"),
            (b"nothing" * 200, "not a whole tar"),
            *((tar_of({}, more=[headed(headers)]), "not a whole tar") for headers in BROKEN_HEADERS),
            (tar_of({}, more=[member(str(number), b"x") for number in range(3000)]), "not a whole tar"),
        ],
    )
    def test_what_is_refused(self, tmp_path: Path, archive: bytes, said: str) -> None:
        place = tmp_path / "place"
        place.mkdir()
        for look in (
            lambda: archives.contents(io.BytesIO(archive), BOUNDS),
            lambda: archives.unpack(io.BytesIO(archive), str(place), BOUNDS),
        ):
            with pytest.raises(ArchiveRefused, match=said):
                look()
        assert [path.name for path in tmp_path.iterdir()] == ["place"]

    def test_a_bomb_is_not_read_to_its_end(self) -> None:
        """A header may claim any size: what it says is refused before it is unpacked."""
        claims = member("zeros", size=2**40)
        target = io.BytesIO()
        target.write(claims.tobuf())
        with pytest.raises(ArchiveRefused, match="100,000 bytes"):
            archives.contents(target, BOUNDS)


class TestStore:
    @pytest.fixture
    def limits(self) -> CodeLimits:
        return CodeLimits(git=("file",))

    @contextmanager
    def store(self, folder: Path, url: str, limits: CodeLimits) -> Iterator[CodeStore]:
        configuration = replace(make_configuration(folder, server_url=url), code=limits)
        Path(configuration.work_folder).mkdir(exist_ok=True)
        yield CodeStore(configuration, Client(url, configuration.token))

    async def test_it_is_fetched_once_and_kept(
        self, server: FakeServer, tmp_path: Path, limits: CodeLimits
    ) -> None:
        server.codes = {1: TAR, 2: TAR}
        with self.store(tmp_path, server.url, limits) as store:
            for attempt in (1, 2):
                with await store.fetch(attempt, named(TAR)) as file:
                    assert file.read() == TAR
        assert server.codes_asked == [1]

    async def test_what_was_used_longest_ago_goes_first(
        self, server: FakeServer, tmp_path: Path, limits: CodeLimits
    ) -> None:
        packed = [tar_of({"n": os.urandom(1_000)}) for _ in range(3)]
        server.codes = dict(enumerate(packed))
        limits = replace(limits, kept_bytes=len(packed[0]) * 2 + 100)
        with self.store(tmp_path, server.url, limits) as store:
            for number in (0, 1):
                (await store.fetch(number, named(packed[number]))).close()
                os.utime(store.folder / named(packed[number]).archive, (number, number))
            held = await store.fetch(0, named(packed[0]))
            (await store.fetch(2, named(packed[2]))).close()
            kept = {path.name for path in store.folder.iterdir()}
            assert kept == {named(packed[0]).archive, named(packed[2]).archive}
            # What is open stays readable, whatever goes.
            (store.folder / named(packed[0]).archive).unlink()
            assert held.read() == packed[0]
            held.close()

    @pytest.mark.parametrize(
        ("sent", "changed", "said"),
        [
            (None, {}, "did not hand it out: 404"),
            (b"something else", {}, "not sha256:"),
            (TAR, {"bytes": 10}, "code.bytes"),
        ],
    )
    async def test_why_it_is_not_to_be_had(
        self, server: FakeServer, tmp_path: Path, limits: CodeLimits, sent: bytes | None, changed, said: str
    ) -> None:
        server.codes = {} if sent is None else {1: sent}
        with self.store(tmp_path, server.url, replace(limits, **changed)) as store:
            with pytest.raises(CodeUnavailable, match=said):
                await store.fetch(1, named(TAR))
            assert list(store.folder.iterdir()) == []

    async def test_a_server_that_is_away_is_asked_until_time_is_up(
        self, server: FakeServer, tmp_path: Path, limits: CodeLimits
    ) -> None:
        server.is_down = True
        with (
            self.store(tmp_path, server.url, replace(limits, timeout_seconds=0.5)) as store,
            pytest.raises(CodeUnavailable, match=r"within 0.5 s \(code.timeout_seconds\)"),
        ):
            await store.fetch(1, named(TAR))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with one commit."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "train.sh").write_text("echo from git\n")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "first")
    return folder


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


class TestGit:
    async def fetched(self, repository: Path, target: Path, commit: str, **changed) -> str:
        limits = replace(CodeLimits(git=("file",)), **changed)
        return await repositories.fetch_commit(f"file://{repository}", commit, target, limits)

    async def test_the_files_of_the_commit_without_what_came_after(
        self, repository: Path, tmp_path: Path
    ) -> None:
        first = git(repository, "rev-parse", "HEAD")
        (repository / "train.sh").write_text("echo later\n")
        git(repository, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "second")
        target, place = tmp_path / "tar", tmp_path / "place"
        assert await self.fetched(repository, target, first) == ""
        with target.open("rb") as file:
            archives.unpack(file, str(place), BOUNDS)
        assert (place / "train.sh").read_text() == "echo from git\n"
        assert not list(tmp_path.glob("git-*"))

    async def test_why_it_is_not_to_be_had(
        self, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        commit, target = git(repository, "rev-parse", "HEAD"), tmp_path / "tar"
        assert "could not bring commit aaaaaaaaaaaa" in await self.fetched(repository, target, "a" * 40)
        assert "no-repository' does not appear" in await self.fetched(
            tmp_path / "no-repository", target, commit
        )
        assert "accepts no git addresses that begin with file://, only https://" in await self.fetched(
            repository, target, commit, git=("https",)
        )
        assert "larger than" in await self.fetched(repository, target, commit, unpacked_bytes=600)
        monkeypatch.setenv("PATH", str(tmp_path))
        assert "git is not installed on this node" in await self.fetched(repository, target, commit)


def desired(script: str, code: Code, attempt: int = 1, replicas: int = 1, **changes: object) -> DesiredPart:
    ranks = [shell(script, rank=rank) for rank in range(replicas)]
    return make_part(*ranks, attempt=attempt, code=code, **changes)


class TestJobs:
    async def test_the_command_starts_in_its_own_copy_which_belongs_to_its_user(
        self, server: FakeServer, start_agent: StartAgent
    ) -> None:
        server.codes = {1: TAR}
        await start_agent()
        await server.want(NODE, desired(SHOWS, named(TAR), replicas=2))
        part = await server.until_state(NODE, 1, "exited")
        assert (part.exit_code, part.category) == (0, "")
        for rank in (0, 1):
            await server.until(lambda rank=rank: server.text(NODE, 1, rank).count("\n") == 9)
            first, *names, modes, whose = server.text(NODE, 1, rank).splitlines()
            assert first == "trained"
            assert names == ["hello", "lib", "link", "made", "train.sh", f"{whose}:644"]
            assert modes == f"{whose}:755"
        # Both replicas were given it for one question.
        assert server.codes_asked == [1]

    async def test_a_bomb_is_a_failure_of_its_own(self, server: FakeServer, start_agent: StartAgent) -> None:
        bomb = tar_of({"zeros": bytes(3_000_000)})
        server.codes = {1: bomb}
        await start_agent(code=CodeLimits(unpacked_bytes=1_000_000))
        await server.want(NODE, desired("true", named(bomb)))
        part = await server.until_state(NODE, 1, "exited")
        assert (part.category, part.exit_code) == ("code_refused", None)
        assert part.message == "Its code was not unpacked. Its files have more than 1,000,000 bytes."

    async def test_a_node_that_may_not_follow_the_address_says_so_before_the_start(
        self, server: FakeServer, start_agent: StartAgent
    ) -> None:
        await start_agent()
        await server.want(NODE, desired("true", Code(git="ssh://git@host/x", commit="a" * 40)))
        part = await server.until_state(NODE, 1, "exited")
        assert part.category == "code_unavailable"
        assert "ssh://" in part.message

    async def test_a_commit_of_a_repository(
        self, server: FakeServer, start_agent: StartAgent, repository: Path
    ) -> None:
        await start_agent(code=CodeLimits(git=("file",)))
        code = Code(git=f"file://{repository}", commit=git(repository, "rev-parse", "HEAD"))
        await server.want(NODE, desired("sh train.sh", code))
        await server.until_state(NODE, 1, "exited")
        assert await server.until(lambda: server.text(NODE, 1)) == "from git\n"

    async def test_one_that_is_stopped_while_it_is_fetched_ends_at_once(
        self, server: FakeServer, start_agent: StartAgent, tmp_path: Path
    ) -> None:
        """A repository that never answers."""
        await start_agent(code=CodeLimits(git=("git",)))
        # Python 3.13 closes a connection whose writer is collected.
        writers: list[asyncio.StreamWriter] = []
        silent = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        code = Code(git=f"git://127.0.0.1:{port}/x", commit="a" * 40)
        await server.want(NODE, desired("true", code))
        await server.until_state(NODE, 1, "preparing")
        await server.want(NODE, desired("true", code, stop=True))
        part = await server.until_state(NODE, 1, "exited")
        assert part.category == "stopped"
        for writer in writers:
            writer.close()
        silent.close()

    async def test_on_a_node_of_a_batch_system(self, tmp_path: Path) -> None:
        node = BatchNodeOfTests(tmp_path)
        part = desired("sh train.sh; exec sleep 600", named(TAR), attempt=4)
        store = CodeStore(node.configuration, Client(node.configuration.server_url, ""))
        store.folder.mkdir()
        kept = store.folder / named(TAR).archive
        kept.write_bytes(TAR)
        try:
            await node.start(part, code=await store.fetch(4, named(TAR)))
            log = Path(node.runtime.folder(4).log(0))
            await until_async(lambda: log.read_text() == "trained\n")
            node.runtime.stop(4, 0.0)
            await node.end_of(4)
        finally:
            await node.close()
