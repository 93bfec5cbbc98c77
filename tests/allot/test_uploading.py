"""--upload: what is packed, that it is the same each time, and what reaches the real server."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from allot.errors import WrongUse
from allot.packing import LIMIT, Packed, pack
from scheduler.models import Archive, Job
from tenants.models import Membership, Role
from tests.allot.in_process import Allot
from tests.allot.test_real_api import allot, url
from tests.scheduler.builders import make_tenant

__all__ = ["allot", "url"]


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(packed: Packed) -> list[str]:
    packed.file.seek(0)
    with packed.file, tarfile.open(fileobj=packed.file) as tar:
        return tar.getnames()


class TestPacking:
    def test_the_same_files_are_the_same_archive_wherever_and_whenever(self, tmp_path: Path) -> None:
        for copy in ("one", "two"):
            write(tmp_path / copy, **{"train.py": "print(1)", "lib/b.py": "b", "lib/a.py": "a", "ü": "x"})
        os.utime(tmp_path / "two/train.py", (1, 1))
        (tmp_path / "two/lib/a.py").chmod(0o600)
        one, two = pack(str(tmp_path / "one")), pack(str(tmp_path / "two"))
        assert one.digest == two.digest
        assert (one.files, one.file.read(), one.links_out) == (4, two.file.read(), ())
        assert names(one) == ["lib/a.py", "lib/b.py", "train.py", "ü"]
        (tmp_path / "two/train.py").chmod(0o755)
        assert pack(str(tmp_path / "two")).digest != two.digest

    def test_ignore_files_count_as_git_counts_them(self, tmp_path: Path) -> None:
        write(
            tmp_path,
            **{
                ".gitignore": "*.pt\n/data/\n!keep.pt\n",
                "a.pt": "",
                "keep.pt": "",
                "data/x": "",
                "lib/data/x": "",
                "lib/.gitignore": "x\n!b.pt\n",
                "lib/b.pt": "",
                "lib/c.py": "",
                ".git/config": "",
                ".venv/bin/python": "",
            },
        )
        assert ".venv/bin/python" in names(pack(str(tmp_path)))
        subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
        listed = subprocess.run(
            ["git", "-C", str(tmp_path), "ls-files", "--others", "--exclude-standard"],
            check=True,
            capture_output=True,
            text=True,
        )
        assert names(pack(str(tmp_path))) == listed.stdout.splitlines()
        # And what is for uploads alone comes last in its folder.
        write(tmp_path, **{".allotignore": ".venv\n!a.pt\nlib/c.py\n"})
        assert names(pack(str(tmp_path))) == [
            ".allotignore", ".gitignore", "a.pt", "keep.pt", "lib/.gitignore", "lib/b.pt",
        ]  # fmt: skip

    def test_lines_that_git_skips_are_skipped(self, tmp_path: Path) -> None:
        write(tmp_path, **{"a.py": "a", "b.log": "b", ".gitignore": "!\n\\\n[z-a]\n!!\n*.log\n"})
        assert names(pack(str(tmp_path))) == [".gitignore", "a.py"]

    def test_an_ignore_file_that_cannot_be_read_is_named(self, tmp_path: Path) -> None:
        write(tmp_path, **{"a.py": "a"})
        (tmp_path / ".gitignore").symlink_to(".gitignore")
        with pytest.raises(WrongUse, match=r"Cannot read .*/\.gitignore: Too many levels"):
            pack(str(tmp_path))

    def test_a_folder_inside_a_repository_obeys_the_files_above_it(self, tmp_path: Path) -> None:
        write(
            tmp_path,
            **{
                ".gitignore": "*.pt\n/project/out/\n",
                ".git/config": "",
                "project/.gitignore": "!best.pt\n",
                "project/best.pt": "",
                "project/worst.pt": "",
                "project/out/x": "",
                "project/train.py": "",
            },
        )
        assert names(pack(str(tmp_path / "project"))) == [".gitignore", "best.pt", "train.py"]

    def test_links_are_kept_inside_and_never_followed_out(self, tmp_path: Path) -> None:
        write(tmp_path, **{"secret": "x", "top/lib/a.py": "a"})
        links = {"inside": "lib", "lib/up": "../lib/a.py", "out": "../secret", "far": "/etc", "loop": "loop"}
        for name, target in links.items():
            (tmp_path / "top" / name).symlink_to(target)
        packed = pack(str(tmp_path / "top"))
        assert packed.links_out == ("far", "out")
        with tarfile.open(fileobj=packed.file) as tar:
            found = {one.name: one.linkname for one in tar}
        assert found == {"inside": "lib", "lib/a.py": "", "lib/up": "../lib/a.py", "loop": "loop"}

    def test_pipes_and_empty_folders_are_left_out(self, tmp_path: Path) -> None:
        write(tmp_path, **{"a": ""})
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "empty").mkdir()
        assert names(pack(str(tmp_path))) == ["a"]

    def test_more_than_the_limit_is_refused_with_the_largest_files(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(tmp_path, **{f"file-{number:02}": "x" * number * 100_000 for number in range(12)})
        monkeypatch.setenv(LIMIT, "1000000")
        with pytest.raises(WrongUse) as refused:
            pack(str(tmp_path))
        said, *lines = str(refused.value).splitlines()
        assert "6.3 MiB" in said
        assert LIMIT in said
        assert [line.split()[-1] for line in lines] == [f"file-{number:02}" for number in range(11, 1, -1)]
        monkeypatch.setenv(LIMIT, "many")
        with pytest.raises(WrongUse, match="not a number of bytes"):
            pack(str(tmp_path))

    def test_nothing_and_nowhere_are_said(self, tmp_path: Path) -> None:
        with pytest.raises(WrongUse, match="nothing to upload"):
            pack(str(tmp_path))
        with pytest.raises(WrongUse, match="no such folder"):
            pack(str(tmp_path / "none"))


@pytest.mark.django_db(transaction=True)
class TestCommands:
    @pytest.fixture(autouse=True)
    def place(self, settings, tmp_path: Path) -> Path:
        archives = str(tmp_path / "archives")
        settings.CONFIG = settings.CONFIG.model_copy(update={"archives_folder": archives})
        write(tmp_path / "project", **{"train.py": "print('hello')"})
        return tmp_path / "project"

    def test_it_is_uploaded_once_and_every_job_names_it(self, allot: Allot, place: Path) -> None:
        arguments = ("submit", "--upload", str(place), "--gpus", "1", "--", "python", "train.py")
        first = allot(*arguments)
        assert first.exit_code == 0, first.stderr
        assert "Packed 1 files of" in first.stderr
        assert "Uploaded it to tenant research." in first.stderr
        second = allot(*arguments)
        assert "Uploaded" not in second.stderr
        archive = Archive.objects.get()
        assert set(Job.objects.values_list("archive", flat=True)) == {archive.id}
        shown = allot("ls", "-o", "json")
        assert f"sha256:{archive.digest}" in shown.stdout

    def test_several_files_and_a_batch_script(self, allot: Allot, place: Path, tmp_path: Path) -> None:
        script = tmp_path / "train.sbatch"
        script.write_text("#!/bin/sh\n#SBATCH --gres=gpu:1\npython train.py\n")
        both = tmp_path / "both.yaml"
        both.write_text("name: one\ncommand: 'true'\ngpus: 1\n---\nname: two\ncommand: 'true'\ngpus: 1\n")
        submitted = allot("submit", str(script), str(both), "--upload", str(place))
        assert submitted.exit_code == 0, submitted.stderr
        assert Job.objects.filter(archive=Archive.objects.get()).count() == 3

    def test_a_dry_run_uploads_nothing(self, allot: Allot, place: Path) -> None:
        done = allot("submit", "--dry-run", "--upload", str(place), "--gpus", "1", "--", "true")
        assert done.exit_code == 0, done.stderr
        assert "Packed 1 files" in done.stderr
        assert not Archive.objects.exists()

    def test_what_is_already_said_and_whose_it_is(self, allot: Allot, place: Path, tmp_path: Path) -> None:
        spec = tmp_path / "spec.yaml"
        spec.write_text("name: a\ncommand: 'true'\ncode: {git: https://x.org/y, commit: abc}\n")
        refused = allot("submit", str(spec), "--upload", str(place))
        assert refused.exit_code == 2
        assert "leave out `code`, or --upload" in refused.stderr
        ann = Membership.objects.get().user
        make_tenant("other", members={ann: Role.MEMBER})
        refused = allot("submit", "--upload", str(place), "--", "true")
        assert "Say which by --tenant: one of: other, research" in refused.stderr

    def test_a_server_that_has_no_room_says_so(self, allot: Allot, place: Path, settings) -> None:
        settings.CONFIG = settings.CONFIG.model_copy(update={"archive_bytes_of_tenant": 10})
        refused = allot("submit", "--upload", str(place), "--gpus", "1", "--", "true")
        assert refused.exit_code == 1
        assert "ALLOT_ARCHIVE_BYTES_OF_TENANT" in refused.stderr
        assert not Job.objects.exists()
