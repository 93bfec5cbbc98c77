"""Checkpoints in an S3-compatible store: signatures, tries, one winner, and training over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from allot import training
from allot.training.s3 import FIRST_WAIT_SECONDS, TRIES, S3Store
from allot.training.signing import EMPTY_SHA256, Credentials, signed_headers
from tests.allot.fake_s3 import CREDENTIALS, FakeS3, fake_s3


@pytest.fixture
def fake() -> Iterator[FakeS3]:
    with fake_s3() as store:
        yield store


def open_store(fake: FakeS3, *, waits: list[float] | None = None, **changes: str) -> S3Store:
    waits = [] if waits is None else waits
    credentials = replace(CREDENTIALS, **changes)
    return S3Store(fake.endpoint, "bucket", "models/7", credentials, sleep=waits.append)


@pytest.mark.parametrize(
    ("path", "query", "headers", "signature"),
    [
        (
            "/test.txt",
            {},
            {"range": "bytes=0-9"},
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        ("/", {"lifecycle": ""}, {}, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        (
            "/",
            {"max-keys": "2", "prefix": "J"},
            {},
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
)
def test_signatures_are_those_of_the_published_examples(
    path: str, query: dict[str, str], headers: dict[str, str], signature: str
) -> None:
    credentials = Credentials(
        access_key="AKIAIOSFODNN7EXAMPLE",
        secret_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        region="us-east-1",
    )
    signed = signed_headers(
        credentials,
        method="GET",
        path=path,
        query=query,
        headers={"host": "examplebucket.s3.amazonaws.com", **headers},
        content_sha256=EMPTY_SHA256,
        at=datetime(2013, 5, 24, tzinfo=UTC),
    )
    assert signed["authorization"].endswith(f"Signature={signature}")


class TestStore:
    def test_files_go_there_and_back_and_are_listed_over_several_pages(
        self, fake: FakeS3, tmp_path: Path
    ) -> None:
        store = open_store(fake)
        source = tmp_path / "source"
        source.write_bytes(b"weights" * 1000)
        names = [f"checkpoints/{number} + über.bin" for number in range(7)]
        for name in names:
            store.upload(source, name, training.files.sha256_of(source))
        fake.objects["models/70/other"] = b"of another job"
        assert store.names("checkpoints/") == names
        assert store.download(names[0], tmp_path / "sub" / "target")
        assert (tmp_path / "sub" / "target").read_bytes() == source.read_bytes()
        assert not store.download("nothing", tmp_path / "nothing")
        assert store.read("nothing") is None
        store.remove("checkpoints/")
        assert list(fake.objects) == ["models/70/other"]
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["source", "sub", "target"]

    def test_a_store_that_is_busy_is_asked_again_with_longer_and_longer_waits(self, fake: FakeS3) -> None:
        waits: list[float] = []
        fake.unavailable = TRIES - 1
        assert open_store(fake, waits=waits).create("claims/1", b"mine")
        assert len(waits) == TRIES - 1
        for tried, wait in enumerate(waits):
            assert 0.5 <= wait / (FIRST_WAIT_SECONDS * 2**tried) <= 1.5
        fake.unavailable = TRIES
        with pytest.raises(training.StoreError, match="status 503 SlowDown"):
            open_store(fake).names("claims/")

    def test_who_created_first_is_known_even_when_answers_get_lost(self, fake: FakeS3) -> None:
        fake.lost_answers = 1
        assert open_store(fake).create("claims/1", b"mine")
        assert fake.requests == ["PUT /bucket/models/7/claims/1"] * 2 + ["GET /bucket/models/7/claims/1"]
        assert not open_store(fake).create("claims/1", b"another's")
        assert fake.objects == {"models/7/claims/1": b"mine"}

    def test_a_wrong_key_is_said_at_once(self, fake: FakeS3) -> None:
        with pytest.raises(training.StoreError, match="status 403 SignatureDoesNotMatch"):
            open_store(fake, secret_key="another").names("claims/")
        assert len(fake.requests) == 1

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (
                {"ALLOT_CHECKPOINT_STORE": "https://bucket"},
                "must be s3://BUCKET/PREFIX, not 'https://bucket'",
            ),
            ({"ALLOT_CHECKPOINT_ENDPOINT": ""}, "ALLOT_CHECKPOINT_ENDPOINT must be the store's address"),
            ({"AWS_SECRET_ACCESS_KEY": ""}, "AWS_SECRET_ACCESS_KEY must be set too"),
        ],
    )
    def test_what_is_missing_in_the_environment_is_said(
        self, fake: FakeS3, changes: dict[str, str], message: str
    ) -> None:
        environment = {**fake.environment(), **changes}
        with pytest.raises(training.TrainingError, match=message):
            S3Store.from_environment(environment["ALLOT_CHECKPOINT_STORE"], environment)


class TestTraining:
    @pytest.fixture(autouse=True)
    def environment(self, fake: FakeS3, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in fake.environment().items():
            monkeypatch.setenv(name, value)

    def train(
        self, monkeypatch: pytest.MonkeyPatch, folder: Path, attempt: int, total: int
    ) -> training.Session:
        """Count to `total` on a node whose local folder this is."""
        monkeypatch.setenv("ALLOT_CHECKPOINT_DIR", str(folder))
        monkeypatch.setenv("ALLOT_ATTEMPT", str(attempt))
        count = [0]
        with training.session(
            save_bytes=lambda: b"%d" % count[0],
            load_bytes=lambda content: count.__setitem__(0, int(content)),
            every_steps=1,
        ) as run:
            for _ in run.steps(total):
                count[0] += 1
        assert count == [total]
        return run

    def test_a_job_goes_on_on_another_node_and_falls_back_from_what_is_damaged(
        self,
        fake: FakeS3,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.train(monkeypatch, tmp_path / "node-1", 1, 3)
        (state,) = [name for name in fake.objects if "3/rank-00000/files" in name]
        fake.objects[state] = b"2"
        assert self.train(monkeypatch, tmp_path / "node-2", 2, 4).restored.step == 2  # type: ignore[union-attr]
        assert "falling back to the checkpoint of step 2" in capsys.readouterr().err
        assert self.train(monkeypatch, tmp_path / "node-1", 3, 5).restored.step == 4  # type: ignore[union-attr]
        steps = {name.split("/")[4] for name in fake.objects if "/checkpoints/" in name}
        assert {int(step) for step in steps} == {4, 5}
        for node in ("node-1", "node-2"):
            assert len(list((tmp_path / node).glob("checkpoints/*/*"))) <= 2

    def test_an_older_attempt_is_fenced(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("ALLOT_CHECKPOINT_DIR", str(tmp_path / "node-1"))
        monkeypatch.setenv("ALLOT_ATTEMPT", "1")
        with training.session(save_bytes=lambda: b"%d" % older.step, every_steps=1) as older:
            steps = older.steps(9)
            next(steps)
            next(steps)
            self.train(monkeypatch, tmp_path / "node-2", 2, 5)
            with pytest.raises(training.Fenced):
                next(steps)
        assert self.train(monkeypatch, tmp_path / "node-1", 3, 5).restored.step == 5  # type: ignore[union-attr]

    def test_a_store_that_goes_away_costs_a_warning_until_it_is_back(
        self,
        fake: FakeS3,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setattr("allot.training.s3.FIRST_WAIT_SECONDS", 0.0)
        monkeypatch.setenv("ALLOT_CHECKPOINT_DIR", str(tmp_path))
        with training.session(save_bytes=lambda: b"state", every_steps=1) as run:
            for step in run.steps(3):
                fake.unavailable = TRIES if step == 1 else 0
        assert "warning: saving at step 2 failed" in capsys.readouterr().err
        assert len([name for name in fake.objects if name.endswith("manifest.json")]) == 2
