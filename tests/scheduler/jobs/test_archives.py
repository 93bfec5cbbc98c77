"""Working folders that members upload: who may, how much, and what becomes of them."""

import asyncio
import json
import os
import tarfile
from datetime import timedelta
from pathlib import Path

import pytest
from channels.db import database_sync_to_async
from django.utils import timezone

from controlplane.asgi import application
from nodeagent.messages import Code
from scheduler.agents.services.desired import desired_parts
from scheduler.jobs.archives import services, storing
from scheduler.models import Archive, Job, Node
from tenants import tokens
from tenants.errors import NoSpace
from tenants.models import Tenant
from tests.api.caller import Caller, is_error, make_token
from tests.archives import digest_of, member, tar_of
from tests.scheduler.builders import (
    gpus_of,
    make_archive,
    make_attempt,
    make_job,
    make_member,
    make_node,
    make_tenant,
    make_vc,
)
from tests.scheduler.conftest import World, spec

TAR = tar_of({"train.py": "print(1)", "lib/model.py": "x = 1"})
OTHER = tar_of({"train.py": "print(2)"})
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def folder(settings, tmp_path: Path) -> Path:
    settings.CONFIG = settings.CONFIG.model_copy(update={"archives_folder": str(tmp_path)})
    return tmp_path


def limit(settings, **changed: float) -> None:
    settings.CONFIG = settings.CONFIG.model_copy(update=changed)


def path_of(archive: bytes, tenant: str = "vision") -> str:
    return f"/tenants/{tenant}/archives/{digest_of(archive)}"


def put(by: Caller, archive: bytes, *, named: bytes | None = None):
    return by.put(path_of(archive if named is None else named), archive)


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def submit(world: World, archive: bytes, **fields):
    return world.member.post("/jobs", spec(code={"archive": digest_of(archive)}, **fields))


class TestUploading:
    def test_what_arrived_is_stored_by_its_digest_once(self, world: World, folder: Path):
        assert world.member.get(path_of(TAR)).status_code == 404
        stored = put(world.member, TAR)
        assert stored.status_code == 201
        assert stored.json() | {"uploaded_at": ""} == {
            "archive": digest_of(TAR),
            "bytes": len(TAR),
            "files": 2,
            "unpacked_bytes": 13,
            "uploaded_by": "mia",
            "uploaded_at": "",
        }
        assert files_in(folder) == [digest_of(TAR).removeprefix("sha256:")]
        # What is sent the second time is not read: it could be anything.
        assert put(world.member, b"not even a tar", named=TAR).status_code == 200
        assert world.viewer.get(path_of(TAR)).json()["files"] == 2
        assert world.member.send("HEAD", path_of(TAR)).status_code == 200

    def test_a_viewer_may_look_and_not_upload(self, world: World, folder: Path):
        is_error(put(world.viewer, TAR), 403, "not_allowed")
        assert files_in(folder) == []

    def test_another_tenants_archive_does_not_exist(self, world: World):
        put(world.member, TAR)
        for method in ("GET", "HEAD", "PUT"):
            assert world.stranger.send(method, path_of(TAR), TAR).status_code == 404
        # In a tenant of his own he learns nothing of it either, and cannot name it.
        assert world.stranger.get(path_of(TAR, "other")).status_code == 404
        make_vc("theirs", members=[Tenant.objects.get(name="other")], guaranteed={"V100": 0})
        answers = [
            world.stranger.post("/jobs", spec(code={"archive": digest_of(one)})) for one in (TAR, OTHER)
        ]
        told = [is_error(answer, 400, "invalid")["fields"] for answer in answers]
        assert told[0] == told[1]
        assert told[0][0]["field"] == "code.archive"

    @pytest.mark.parametrize("digest", ["sha256:12", "md5:" + "a" * 64, "sha256:" + "A" * 64, ".."])
    def test_a_digest_has_one_form(self, world: World, digest: str):
        answer = world.member.put(f"/tenants/vision/archives/{digest}", TAR)
        assert answer.status_code in (400, 404)
        if answer.status_code == 400:
            assert is_error(answer, 400, "invalid")["fields"][0]["field"] == "digest"

    def test_bytes_of_another_digest_are_refused(self, world: World, folder: Path):
        told = is_error(put(world.member, OTHER, named=TAR), 400, "invalid")
        assert digest_of(OTHER) in told["fields"][0]["problem"]
        assert (files_in(folder), Archive.objects.count()) == ([], 0)

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"no archive at all", "not a whole tar"),
            (TAR[:-40], "not a whole tar"),
            (tar_of({"../out": "x"}), "leads out"),
            (tar_of({}, more=[member("null", tarfile.CHRTYPE)]), "a device"),
        ],
    )
    def test_what_no_node_would_unpack_is_refused(
        self, world: World, folder: Path, content: bytes, said: str
    ):
        told = is_error(put(world.member, content), 400, "invalid")
        assert said in told["detail"]
        assert files_in(folder) == []

    def test_one_that_unpacks_to_too_much_is_refused(self, world: World, settings):
        limit(settings, archive_unpacked_bytes=10_000)
        bomb = tar_of({"zeros": bytes(50_000)})
        assert len(bomb) < 1_000
        assert "10,000" in is_error(put(world.member, bomb), 400, "invalid")["detail"]

    def test_one_that_is_too_large_is_refused_by_its_declared_length_and_without(
        self, world: World, settings
    ):
        limit(settings, archive_bytes=1_024)
        large = tar_of({"noise": os.urandom(3_000)})
        assert "ALLOT_ARCHIVE_BYTES" in is_error(put(world.member, large), 413, "too_large")["detail"]


class TestRoom:
    def test_a_tenant_has_so_much_and_old_ones_that_no_job_needs_go_first(
        self, world: World, settings, folder: Path
    ):
        limit(settings, archive_bytes_of_tenant=len(TAR) + len(OTHER) - 1)
        put(world.member, TAR)
        # It was uploaded a moment ago: its job may be on the way.
        told = is_error(put(world.member, OTHER), 409, "quota_exceeded")
        assert "ALLOT_ARCHIVE_BYTES_OF_TENANT" in told["detail"]
        Archive.objects.update(used_at=timezone.now() - 2 * HOUR)
        assert put(world.member, OTHER).status_code == 201
        assert files_in(folder) == [digest_of(OTHER).removeprefix("sha256:")]
        assert world.member.get(path_of(TAR)).status_code == 404

    def test_what_a_job_needs_is_kept_however_old_it_is(self, world: World, settings):
        put(world.member, TAR)
        job = submit(world, TAR).json()["id"]
        Archive.objects.update(used_at=timezone.now() - timedelta(days=100))
        services.prune_archives()
        assert world.member.get(path_of(TAR)).status_code == 200
        limit(settings, archive_bytes_of_tenant=len(TAR) + 1)
        is_error(put(world.member, OTHER), 409, "quota_exceeded")
        world.member.post(f"/jobs/{job}/cancel")
        services.prune_archives()
        shown = world.member.get(f"/jobs/{job}").json()["code"]
        assert (shown["archive"], shown["is_removed"]) == (digest_of(TAR), True)
        told = is_error(world.member.get(f"/jobs/{job}/code"), 404, "not_found")
        assert "removed" in told["detail"]
        # Uploaded again, it is the same one.
        assert put(world.member, TAR).status_code == 201
        assert world.member.get(f"/jobs/{job}/code").content == TAR

    def test_all_tenants_together_have_so_much(self, world: World, settings):
        limit(settings, archive_bytes_of_all=len(TAR) - 1)
        assert "ALLOT_ARCHIVE_BYTES_OF_ALL" in is_error(put(world.member, TAR), 507, "no_space")["detail"]

    def test_a_nearly_full_disk_is_left_alone(self, world: World, monkeypatch, folder: Path):
        monkeypatch.setattr(storing, "LEAST_FREE_BYTES", 2**62)
        is_error(put(world.member, TAR), 507, "no_space")
        assert files_in(folder) == []

    def test_a_disk_that_is_full_is_named(self):
        full = open("/dev/full", "wb", buffering=0)  # noqa: SIM115 - nothing is left to be written at its end
        with pytest.raises(NoSpace, match="No space left"):
            storing.written(full, b"x")
        full.close()

    def test_what_cut_off_uploads_left_is_removed_after_a_while(self, world: World, folder: Path):
        put(world.member, TAR)
        left = [folder / "unfinished-x", folder / str(world.tenant.id) / ("a" * 64)]
        for path in left:
            path.write_bytes(b"half")
        services.prune_archives()
        assert all(path.exists() for path in left)
        for path in left:
            os.utime(path, (0, 0))
        services.prune_archives()
        assert files_in(folder) == [digest_of(TAR).removeprefix("sha256:")]


class TestJobs:
    def test_a_job_names_it_and_shows_it_and_hands_it_out(self, world: World):
        put(world.member, TAR)
        job = submit(world, TAR).json()
        assert job["spec"]["code"] == {"archive": digest_of(TAR)}
        shown = world.viewer.get(f"/jobs/{job['id']}").json()["code"]
        assert shown == {
            "archive": digest_of(TAR),
            "git": None,
            "commit": None,
            "bytes": len(TAR),
            "files": 2,
            "unpacked_bytes": 13,
            "is_removed": False,
        }
        download = world.viewer.get(f"/jobs/{job['id']}/code")
        assert download.content == TAR
        assert f"job-{job['id']}-code.tar.gz" in download.headers["Content-Disposition"]
        assert world.stranger.get(f"/jobs/{job['id']}/code").status_code == 404
        changed = world.member.patch(f"/jobs/{job['id']}", {"priority": 5})
        assert changed.json()["code"] == shown

    def test_every_task_of_an_array_has_it(self, world: World):
        put(world.member, TAR)
        assert submit(world, TAR, array={"indices": "0-2"}).status_code == 201
        assert Job.objects.filter(archive__tenant=world.tenant).count() == 3

    def test_one_that_brings_nothing_says_so(self, world: World):
        job = world.member.post("/jobs", spec()).json()
        assert job["code"] is None
        is_error(world.member.get(f"/jobs/{job['id']}/code"), 404, "not_found")

    def test_a_commit_is_shown(self, world: World):
        code = {"git": "https://git.example.org/team/model.git", "commit": "a" * 40}
        shown = world.member.post("/jobs", spec(code=code)).json()["code"]
        assert (shown["git"], shown["commit"], shown["archive"]) == (code["git"], code["commit"], None)

    def test_one_that_is_removed_before_the_job_is_queued_is_said(self, world: World):
        put(world.member, TAR)
        Archive.objects.update(removed_at=timezone.now())
        assert is_error(submit(world, TAR), 400, "invalid")["fields"][0]["field"] == "code.archive"


class TestNodes:
    def asked(self, node: Node, attempt: int) -> object:
        secret = tokens.new_secret(tokens.NODE_PREFIX)
        Node.objects.filter(id=node.id).update(token_key=secret.key, token_digest=secret.digest)
        return Caller(secret.text).get(f"/api/agent/v1/code/{attempt}")

    def test_the_node_of_an_attempt_is_given_it_and_no_other_is(self, world: World):
        archive = make_archive(world.tenant, {"a": "b"}, by=make_member(world.tenant))
        job = make_job(
            tenant=world.tenant,
            virtual_cluster=world.virtual_cluster,
            columns={"archive": archive},
        )
        attempt = make_attempt(job, gpus_of(world.node)[:1])
        named = {"archive": f"sha256:{archive.digest}"}
        Job.objects.filter(id=job.id).update(spec={**job.spec, "code": named})
        (part,) = desired_parts(world.node)
        assert part.code == Code(archive=archive.digest)
        assert digest_of(self.asked(world.node, attempt.id).content) == f"sha256:{archive.digest}"
        assert self.asked(make_node("node-b"), attempt.id).status_code == 404
        attempt.state, attempt.outcome, attempt.ended_at = "ended", "succeeded", timezone.now()
        attempt.save()
        assert self.asked(world.node, attempt.id).status_code == 404

    def test_a_member_is_no_node(self, world: World):
        assert world.member.get("/api/agent/v1/code/1").status_code == 401


@pytest.mark.django_db(transaction=True)
class TestOverTheNetwork:
    """By the application that a server runs: there the body comes while the view reads it."""

    async def answer(self, path: str, token: str, incoming: list[dict]) -> tuple[int, dict]:
        sent = []

        async def receive() -> dict:
            return incoming.pop(0) if incoming else await asyncio.Future()

        async def send(message: dict) -> None:
            sent.append(message)

        headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {token}".encode())]
        scope = {"type": "http", "method": "PUT", "path": f"/api/v1{path}", "query_string": b""}
        await application(scope | {"headers": headers}, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"])

    @pytest.fixture
    async def token(self, redis_url) -> str:
        def made() -> str:
            return make_token(make_member(make_tenant("vision"), "mia"))

        return await database_sync_to_async(made)()

    async def test_a_body_longer_than_others_may_be_is_read_piece_by_piece(
        self, token: str, settings, folder
    ):
        noise = os.urandom(2 * settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        archive = tar_of({"noise": noise})
        size = 100_000
        pieces = [archive[at : at + size] for at in range(0, len(archive), size)]
        incoming = [
            {"type": "http.request", "body": piece, "more_body": number < len(pieces)}
            for number, piece in enumerate(pieces, start=1)
        ]
        status, stored = await self.answer(path_of(archive), token, incoming)
        assert (status, stored["bytes"]) == (201, len(archive))

    async def test_one_that_is_cut_off_vanishes(self, token: str, folder: Path):
        half = {"type": "http.request", "body": TAR[:50], "more_body": True}
        status, told = await self.answer(path_of(TAR), token, [half, {"type": "http.disconnect"}])
        assert (status, told["fields"][0]["field"]) == (400, "body")
        assert files_in(folder) == []

    async def test_one_that_may_not_is_refused_before_anything_is_read(self, token: str, folder: Path):
        left = [{"type": "http.request", "body": TAR, "more_body": False}]
        status, _ = await self.answer(path_of(TAR, "other"), token, left)
        assert (status, len(left)) == (404, 1)
