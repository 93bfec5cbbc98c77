"""Files of a job's checkpoint folder: who sees them, what a hostile job puts there, and what comes of it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from scheduler.jobs.artefacts import folders
from scheduler.jobs.artefacts.naming import named, parts_of, shown
from scheduler.models import Job
from tenants.errors import Invalid
from tenants.models import AuditEntry
from tests.api.caller import is_error
from tests.scheduler.builders import make_job
from tests.scheduler.conftest import World

SECRET = b"another's"


@pytest.fixture
def root(settings, tmp_path: Path) -> Path:
    """The folder that all nodes share, beside something that no job may have."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(SECRET)
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    settings.CONFIG = settings.CONFIG.model_copy(update={"checkpoint_folder": str(folder)})
    return folder


@pytest.fixture
def job(world: World) -> Job:
    return make_job(tenant=world.tenant)


@pytest.fixture
def own(root: Path, job: Job) -> Path:
    folder = root / str(job.id)
    folder.mkdir(mode=0o700)
    return folder


def listing(job: Job, path: str = "", **more: object) -> str:
    return f"/jobs/{job.id}/artefacts?{urlencode({'path': path, **more})}"


def content(job: Job, path: str) -> str:
    return f"/jobs/{job.id}/artefacts/content?{urlencode({'path': path})}"


def names(answer) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [each["name"] for each in answer.json()["results"]]


class TestWhoSeesThem:
    def test_who_may_read_the_output_sees_and_downloads_them(self, world: World, job: Job, own: Path):
        (own / "step-100").mkdir()
        (own / "step-100" / "model.pt").write_bytes(b"weights")
        os.utime(own / "step-100" / "model.pt", (1_700_000_000, 1_700_000_000))
        (folder,) = world.viewer.get(listing(job)).json()["results"]
        assert folder | {"modified_at": ""} == {
            "name": "step-100",
            "path": "step-100",
            "kind": "folder",
            "bytes": None,
            "modified_at": "",
        }
        assert world.member.get(listing(job, "step-100")).json() == {
            "results": [
                {
                    "name": "model.pt",
                    "path": "step-100/model.pt",
                    "kind": "file",
                    "bytes": 7,
                    "modified_at": "2023-11-14T22:13:20Z",
                }
            ],
            "next": None,
            "previous": None,
        }
        answer = world.viewer.get(content(job, "step-100/model.pt"))
        assert (answer.status_code, answer.content) == (200, b"weights")
        assert answer.headers["Content-Type"] == "application/octet-stream"
        assert answer.headers["Content-Disposition"] == 'attachment; filename="model.pt"'
        assert answer.headers["Content-Length"] == "7"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert world.operator.get(content(job, "step-100/model.pt")).content == b"weights"

    def test_who_is_no_member_and_reads_them_is_written_down(self, world: World, job: Job, own: Path):
        (own / "model.pt").write_bytes(b"weights")
        world.member.get(content(job, "model.pt"))
        assert not AuditEntry.objects.filter(action="artefact.read").exists()
        world.operator.get(content(job, "model.pt"))
        (entry,) = AuditEntry.objects.filter(action="artefact.read")
        assert (entry.actor, entry.object_id, entry.tenant) == ("user olga", str(job.id), "vision")

    def test_to_others_they_do_not_exist(self, world: World, job: Job, own: Path):
        (own / "model.pt").write_bytes(b"weights")
        for path in (listing(job), listing(job, ".."), content(job, "model.pt"), content(job, "none")):
            is_error(world.stranger.get(path), 404, "not_found")

    def test_a_job_that_left_nothing_has_an_empty_folder(self, world: World, job: Job, root: Path):
        assert names(world.member.get(listing(job))) == []
        is_error(world.member.get(listing(job, "step-1")), 404, "not_found")
        is_error(world.member.get(content(job, "model.pt")), 404, "not_found")

    def test_a_server_that_does_not_see_the_folder_says_what_to_set(self, world: World, job: Job):
        for path in (listing(job), content(job, "model.pt")):
            told = is_error(world.member.get(path), 409, "conflict")
            assert "ALLOT_CHECKPOINT_FOLDER" in told["detail"]

    def test_a_folder_that_is_gone_is_said(self, world: World, job: Job, root: Path):
        root.rmdir()
        told = is_error(world.member.get(listing(job)), 409, "conflict")
        assert "No such file" in told["detail"]

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user who may not read")
    def test_a_server_that_may_not_read_them_says_so(self, world: World, job: Job, own: Path):
        (own / "closed").mkdir(mode=0o700)
        (own / "model.pt").write_bytes(b"weights")
        (own / "model.pt").chmod(0o600)
        (own / "half").mkdir(mode=0o744)
        (own / "half" / "x").touch()
        own.chmod(0o755)
        with as_somebody_else(own.parents[1]):
            assert names(world.member.get(listing(job))) == ["closed", "half", "model.pt"]
            for path in (listing(job, "closed"), listing(job, "half"), content(job, "model.pt")):
                told = is_error(world.member.get(path), 409, "conflict")
                assert "may not read" in told["detail"]


class as_somebody_else:
    """Files are opened by a user who has no rights to them, as a server that is not root."""

    NOBODY = 65_534

    def __init__(self, folder: Path) -> None:
        for parent in [folder, *folder.parents[:3]]:
            parent.chmod(parent.stat().st_mode | 0o011)

    def __enter__(self) -> None:
        os.seteuid(self.NOBODY)

    def __exit__(self, *_: object) -> None:
        os.seteuid(0)


@pytest.fixture
def hostile(own: Path, root: Path) -> Iterator[Path]:
    """All that a job can put where it writes checkpoints."""
    outside = root.parent / "outside"
    (own / "to-file").symlink_to(outside / "secret")
    (own / "to-folder").symlink_to(outside)
    (own / "to-parent").symlink_to("../..")
    (own / "to-itself").symlink_to("to-itself")
    (own / "real").write_bytes(b"weights")
    (own / "to-real").symlink_to("real")
    os.mkfifo(own / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        # The path of a socket has at most 107 bytes.
        os.chdir(own)
        listening.bind("socket")
        os.chdir(here)
        yield own


class TestHostileFolders:
    @pytest.mark.parametrize(
        "path",
        [
            "..",
            "../outside/secret",
            "a/../../outside/secret",
            ".",
            "./real",
            "/etc/passwd",
            "/",
            "//etc/passwd",
            "real/",
            "a//b",
            r"\x2e\x2e/outside/secret",
            r"..\x2foutside\x2fsecret",
            r"re\x00al",
            r"\x",
            r"\x2E\x2E",
            "\\",
            "n" * 256,
        ],
    )
    def test_a_path_that_could_lead_elsewhere_is_refused_by_name(
        self, world: World, job: Job, hostile: Path, path: str
    ):
        for asked in (listing(job, path), content(job, path)):
            told = is_error(world.member.get(asked), 400, "invalid")
            assert [field["field"] for field in told["fields"]] == ["path"]
            assert SECRET.decode() not in told["detail"]

    def test_a_path_may_not_be_longer_than_one_of_the_system(self, world: World, job: Job, hostile: Path):
        for asked in (listing(job, "a/" * 2_048 + "b"), content(job, "a/" * 2_048 + "b")):
            assert is_error(world.member.get(asked), 400, "invalid")["fields"][0]["field"] == "path"
        is_error(world.member.get(content(job, "a/" * 2_047 + "b")), 404, "not_found")

    def test_a_path_that_is_missing_is_asked_for(self, world: World, job: Job, hostile: Path):
        told = is_error(world.member.get(f"/jobs/{job.id}/artefacts/content"), 400, "invalid")
        assert told["fields"][0]["field"] == "path"

    def test_everything_is_listed_as_what_it_is(self, world: World, job: Job, hostile: Path):
        found = world.member.get(listing(job)).json()["results"]
        assert {each["name"]: each["kind"] for each in found} == {
            "pipe": "other",
            "real": "file",
            "socket": "other",
            "to-file": "link",
            "to-folder": "link",
            "to-itself": "link",
            "to-parent": "link",
            "to-real": "link",
        }
        assert [each["bytes"] for each in found if each["kind"] != "file"] == [None] * 7

    @pytest.mark.parametrize("name", ["to-file", "to-folder", "to-parent", "to-itself", "to-real"])
    def test_no_link_is_followed(self, world: World, job: Job, hostile: Path, name: str):
        for asked in (
            listing(job, name),
            content(job, name),
            listing(job, f"{name}/outside"),
            content(job, f"{name}/secret"),
        ):
            told = is_error(world.member.get(asked), 400, "invalid")
            assert told["fields"][0] == {
                "field": "path",
                "problem": "leads to a link, which is not followed",
                "expected": told["fields"][0]["expected"],
            }

    @pytest.mark.parametrize("name", ["pipe", "socket"])
    def test_what_is_no_file_is_not_opened(self, world: World, job: Job, hostile: Path, name: str):
        for asked in (content(job, name), listing(job, name)):
            told = is_error(world.member.get(asked), 400, "invalid")
            assert told["fields"][0]["problem"] == "leads to a pipe, a socket or a device"

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
    def test_a_device_is_not_opened(self, world: World, job: Job, own: Path):
        try:
            os.mknod(own / "zero", 0o020666, os.makedev(1, 5))
        except PermissionError:
            pytest.skip("this machine lets nobody make devices")
        told = is_error(world.member.get(content(job, "zero")), 400, "invalid")
        assert told["fields"][0]["problem"] == "leads to a pipe, a socket or a device"

    def test_a_folder_is_no_file_and_a_file_no_folder(self, world: World, job: Job, own: Path):
        (own / "folder").mkdir()
        (own / "file").touch()
        told = is_error(world.member.get(content(job, "folder")), 400, "invalid")
        assert told["fields"] == [{"field": "path", "problem": "leads to a folder", "expected": "a file"}]
        told = is_error(world.member.get(listing(job, "file")), 400, "invalid")
        assert told["fields"] == [{"field": "path", "problem": "leads to a file", "expected": "a folder"}]
        is_error(world.member.get(content(job, "file/x")), 400, "invalid")

    def test_the_jobs_folder_may_be_no_link_either(self, world: World, job: Job, root: Path):
        (root / str(job.id)).symlink_to("../outside")
        for asked in (listing(job), content(job, "secret")):
            is_error(world.member.get(asked), 400, "invalid")

    @pytest.mark.parametrize("swapped", ["pipe", "link"])
    def test_a_file_that_becomes_something_else_between_two_looks_is_not_read(
        self, world: World, job: Job, own: Path, root: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
    ):
        (own / "file").write_bytes(b"weights")
        looked = os.stat

        def swap(path, **more):
            facts = looked(path, **more)
            if path == b"file" and (own / "file").is_file() and not (own / "file").is_symlink():
                (own / "file").unlink()
                if swapped == "pipe":
                    os.mkfifo(own / "file")
                else:
                    (own / "file").symlink_to(root.parent / "outside" / "secret")
            return facts

        monkeypatch.setattr(folders.os, "stat", swap)
        told = is_error(world.member.get(content(job, "file")), 400, "invalid")
        assert told["fields"][0]["problem"].startswith("leads to a ")

    def test_a_folder_that_becomes_a_link_below_an_open_one_leads_nowhere(
        self, world: World, job: Job, own: Path, root: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """The folder was opened: what its name means afterwards is of no matter."""
        (own / "step").mkdir()
        (own / "step" / "secret").write_bytes(b"the job's own")
        opened = os.open

        def swap(path, *more, **options):
            descriptor = opened(path, *more, **options)
            if path == b"step":
                (own / "step").rename(own / "moved")
                (own / "step").symlink_to(root.parent / "outside")
            return descriptor

        monkeypatch.setattr(folders.os, "open", swap)
        assert world.member.get(content(job, "step/secret")).content == b"the job's own"

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
    def test_a_second_name_of_anothers_file_is_not_read(self, world: World, job: Job, own: Path, root: Path):
        os.chown(own, 12_345, 12_345)
        os.link(root.parent / "outside" / "secret", own / "mine")
        told = is_error(world.member.get(content(job, "mine")), 409, "conflict")
        assert "another owner" in told["detail"]
        (own / "one").write_bytes(b"weights")
        os.chown(own / "one", 12_345, 12_345)
        os.link(own / "one", own / "two")
        assert world.member.get(content(job, "two")).content == b"weights"

    def test_a_time_of_no_calendar_is_no_time(self, world: World, job: Job, own: Path):
        (own / "early").touch()
        (own / "late").touch()
        os.utime(own / "early", (-1, -1))
        os.utime(own / "late", (2**33 * 1_000, 2**33 * 1_000))
        found = world.member.get(listing(job)).json()["results"]
        assert found[0]["modified_at"] == "1969-12-31T23:59:59Z"
        # Where the file system has no such time, it says another one.
        late = os.stat(own / "late").st_mtime
        assert (found[1]["modified_at"] is None) == (late > 253_402_300_799)

    def test_files_that_vanish_while_they_are_listed_are_left_out(
        self, world: World, job: Job, own: Path, monkeypatch: pytest.MonkeyPatch
    ):
        for name in ("a", "b", "c"):
            (own / name).touch()
        looked = os.stat

        def vanish(path, **more):
            if path == b"b":
                (own / "b").unlink(missing_ok=True)
            return looked(path, **more)

        monkeypatch.setattr(folders.os, "stat", vanish)
        assert names(world.member.get(listing(job))) == ["a", "c"]


class TestNames:
    RAW = (
        b"\xff\xfe",
        b"a\\b",
        b"\x1b[2J",
        "résumé.pt".encode(),
        "\u202egnp.pt".encode(),
        b"new\nline",
        b"q?#&% +",
    )

    @pytest.mark.parametrize("raw", RAW)
    def test_a_name_of_any_bytes_has_a_form_that_is_shown_and_leads_back(
        self, world: World, job: Job, own: Path, raw: bytes
    ):
        (own / os.fsdecode(raw)).write_bytes(raw)
        (entry,) = world.member.get(listing(job)).json()["results"]
        assert entry["name"].isprintable()
        answer = world.member.get(content(job, entry["path"]))
        assert (answer.status_code, answer.content) == (200, raw)
        header = answer.headers["Content-Disposition"]
        assert header.startswith("attachment; filename")
        assert header.isprintable()
        assert "\\" not in header

    def test_they_are_what_they_were(self):
        assert [shown(raw) for raw in self.RAW] == [
            r"\xff\xfe",
            r"a\\b",
            r"\x1b[2J",
            "résumé.pt",
            r"\xe2\x80\xaegnp.pt",
            r"new\x0aline",
            "q?#&% +",
        ]
        assert [named(shown(raw), "path") for raw in self.RAW] == list(self.RAW)

    @pytest.mark.parametrize("text", ["\\", r"\n", r"\xf", r"\xFF", r"a\\\b"])
    def test_an_escape_of_nothing_is_refused(self, text: str):
        with pytest.raises(Invalid, match="escapes"):
            parts_of(text)


class TestManyFiles:
    def test_a_page_is_as_long_as_it_is_asked_for_and_the_next_follows(
        self, world: World, job: Job, own: Path
    ):
        for number in range(120):
            (own / f"{number:03} x&\\").touch()
        seen, path = [], listing(job, page_size=50)
        while path:
            page = world.member.get(path).json()
            assert len(page["results"]) <= 50
            assert page["previous"] is None
            seen += [named(each["name"], "name").decode() for each in page["results"]]
            path = page["next"]
        assert seen == [f"{number:03} x&\\" for number in range(120)]

    def test_a_page_looks_at_the_files_it_shows_and_no_others(
        self, world: World, job: Job, own: Path, monkeypatch: pytest.MonkeyPatch
    ):
        for number in range(500):
            (own / f"{number:03}").touch()
        looked, asked = os.stat, []

        def counted(path, **more):
            # Not those of the server itself, which looks at the files of its page as it starts.
            if "dir_fd" in more:
                asked.append(path)
            return looked(path, **more)

        monkeypatch.setattr(folders.os, "stat", counted)
        assert len(names(world.member.get(listing(job, page_size=10)))) == 10
        assert len(asked) == 11

    def test_a_folder_of_too_many_names_is_not_listed_and_its_files_are_there(
        self, world: World, job: Job, own: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(folders, "MOST_NAMES", 20)
        for number in range(20):
            (own / f"{number:03}").touch()
        assert len(names(world.member.get(listing(job)))) == 20
        (own / "one-more").touch()
        told = is_error(world.member.get(listing(job)), 409, "conflict")
        assert "more than 20 names" in told["detail"]
        assert world.member.get(content(job, "one-more")).status_code == 200

    @pytest.mark.parametrize("cursor", ["\\", r"\xZZ"])
    def test_a_cursor_that_is_none_is_refused(self, world: World, job: Job, own: Path, cursor: str):
        told = is_error(world.member.get(listing(job, cursor=cursor)), 400, "invalid")
        assert told["fields"][0]["field"] == "cursor"


class TestChangingFiles:
    def test_no_more_is_sent_than_the_file_had_when_it_was_opened(self, job: Job, own: Path):
        path = own / "log"
        path.write_bytes(b"first ")
        file = folders.file_open(job.id, [b"log"])
        with path.open("ab") as more:
            more.write(b"second")
        assert (file.size, file.read(100), file.read(100)) == (6, b"first ", b"")
        file.close()

    def test_one_that_becomes_shorter_ends_where_it_ends(self, job: Job, own: Path):
        path = own / "log"
        path.write_bytes(b"first second")
        file = folders.file_open(job.id, [b"log"])
        os.truncate(path, 5)
        assert (file.read(4), file.read(100), file.read(100)) == (b"firs", b"t", b"")
        file.close()

    @pytest.mark.parametrize(
        ("asked", "status", "sent", "range_"),
        [
            ("bytes=0-3", 206, b"0123", "bytes 0-3/10"),
            ("bytes=7-", 206, b"789", "bytes 7-9/10"),
            ("bytes=7-99", 206, b"789", "bytes 7-9/10"),
            ("bytes=-2", 206, b"89", "bytes 8-9/10"),
            ("bytes=-0", 200, b"0123456789", None),
            ("bytes=-99", 200, b"0123456789", None),
            ("bytes=0-", 200, b"0123456789", None),
            ("bytes=10-", 200, b"0123456789", None),
            ("bytes=5-4", 200, b"0123456789", None),
            ("bytes=0-1,4-5", 200, b"0123456789", None),
            ("bytes=-", 200, b"0123456789", None),
            ("bytes=999999999999999999999-", 200, b"0123456789", None),
            ("lines=1-2", 200, b"0123456789", None),
        ],
    )
    def test_one_range_is_sent_and_else_the_whole(
        self, world: World, job: Job, own: Path, asked: str, status: int, sent: bytes, range_: str | None
    ):
        (own / "model.pt").write_bytes(b"0123456789")
        answer = world.member.get(content(job, "model.pt"), headers={"Range": asked})
        assert (answer.status_code, answer.content) == (status, sent)
        assert answer.headers["Content-Length"] == str(len(sent))
        assert answer.headers.get("Content-Range") == range_

    def test_the_rest_of_a_file_that_has_changed_is_the_whole_of_it(self, world: World, job: Job, own: Path):
        (own / "model.pt").write_bytes(b"0123456789")
        tag = world.member.get(content(job, "model.pt")).headers["ETag"]
        rest = {"Range": "bytes=5-", "If-Range": tag}
        assert world.member.get(content(job, "model.pt"), headers=rest).content == b"56789"
        (own / "model.pt").write_bytes(b"abcdefghij")
        os.utime(own / "model.pt", (1, 1))
        assert world.member.get(content(job, "model.pt"), headers=rest).content == b"abcdefghij"

    def test_an_empty_file_is_empty(self, world: World, job: Job, own: Path):
        (own / "empty").touch()
        answer = world.member.get(content(job, "empty"), headers={"Range": "bytes=0-"})
        assert (answer.status_code, answer.content, answer.headers["Content-Length"]) == (200, b"", "0")

    def test_every_file_that_was_opened_is_closed(self, world: World, job: Job, own: Path):
        (own / "model.pt").write_bytes(b"weights")
        (own / "folder").mkdir()
        (own / "link").symlink_to("model.pt")

        def ask() -> int:
            for path in ("model.pt", "folder", "link", "none", quote("folder/none")):
                world.member.get(content(job, path))
                world.member.get(listing(job, path))
            return len(os.listdir("/proc/self/fd"))

        ask()
        assert ask() == ask()
