"""As whom a tenant's jobs run, and what belongs to whom."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from nodeagent.configuration import UserRange
from nodeagent.process.users import NoUserLeft, RecordDamaged, Users, closed_folder, make_folder


def test_tenants_never_share_a_number_and_all_nodes_agree(tmp_path: Path) -> None:
    numbers = UserRange(first=1000, count=3)
    one, other = Users(str(tmp_path), numbers), Users(str(tmp_path), numbers)
    first = [one.number_of("vision"), other.number_of("speech"), one.number_of("robots")]
    assert sorted(first) == [1000, 1001, 1002]
    assert [other.number_of("vision"), one.number_of("speech"), other.number_of("robots")] == first
    with pytest.raises(NoUserLeft):
        one.number_of("late")
    assert set(json.loads((tmp_path / ".users.json").read_text())) == {"vision", "speech", "robots"}


@pytest.mark.parametrize("text", ["", '{"vision": 10', "[]", "null", '{"vision": "1001"}'])
def test_a_damaged_record_deals_out_no_number_again(tmp_path: Path, text: str) -> None:
    numbers = UserRange(first=1000, count=3)
    Users(str(tmp_path), numbers).number_of("vision")
    (tmp_path / ".users.json").write_text(text)
    with pytest.raises(RecordDamaged, match="restore it"):
        Users(str(tmp_path), numbers).number_of("speech")
    assert (tmp_path / ".users.json").read_text() == text


def test_a_number_is_on_the_disk_before_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.readlink(f"/dev/fd/{descriptor}")))
    Users(str(tmp_path), UserRange(first=1000, count=3)).number_of("vision")
    assert synced == [f"{tmp_path}/.users.json.{os.getpid()}.new", str(tmp_path)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_what_earlier_attempts_left_is_taken_over_but_no_second_name_of_a_strangers_file(
    tmp_path: Path,
) -> None:
    folder, stranger = tmp_path / "7", tmp_path / "stranger"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "weights").write_text("x")
    stranger.write_text("x")
    (folder / "a" / "hard").hardlink_to(stranger)
    (folder / "soft").symlink_to(stranger)
    make_folder(str(folder), 1234)
    assert folder.stat().st_mode & 0o777 == 0o700
    owned = (folder, folder / "a", folder / "a" / "weights", folder / "soft")
    assert {path.lstat().st_uid for path in owned} == {1234}
    assert stranger.stat().st_uid == 0


def test_a_folder_is_reached_if_everybody_may_pass(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert closed_folder("/usr/bin") == ""
    (tmp_path / "closed" / "inside").mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    assert closed_folder(str(tmp_path / "closed" / "inside")) == str(tmp_path / "closed")
