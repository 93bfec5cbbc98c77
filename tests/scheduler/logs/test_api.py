"""What a job wrote, over HTTP: by task and rank, merged, searched, as files, and removed."""

from __future__ import annotations

import io
import zipfile
from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.models import Attempt, AttemptPart, LogChunk, LogRemoval
from tests.api.caller import is_error
from tests.scheduler.builders import gpus_of, make_attempt, make_job
from tests.scheduler.conftest import World, spec


@pytest.fixture
def attempt(world: World) -> Attempt:
    """Rank 0 is a task "chief", ranks 1 and 2 are a task "worker"."""
    attempt = make_attempt(
        make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster, replicas=3),
        gpus_of(world.node)[:3],
    )
    part = AttemptPart.objects.get(attempt=attempt)
    for replica in part.replicas:
        replica["task"] = "chief" if replica["rank"] == 0 else "worker"
    part.save()
    for rank in range(3):
        for sequence in range(2):
            LogChunk.objects.create(
                attempt=attempt,
                rank=rank,
                sequence=sequence,
                at=timezone.now() + timedelta(seconds=10 * sequence + rank),
                text=f"rank {rank} begins\nloss of ra" if sequence == 0 else f"nk {rank}: 0.5\n",
            )
    return attempt


def test_output_by_task_and_rank(world: World, attempt: Attempt) -> None:
    path = f"/jobs/{attempt.job_id}/logs"
    page = world.viewer.get(f"{path}?task=worker").json()
    assert (page["rank"], page["ranks"], page["tasks"]) == (1, [0, 1, 2], ["chief", "worker", "worker"])
    assert page["chunks"][0]["text"].startswith("rank 1")
    assert world.viewer.get(f"{path}?task=worker&rank=2").json()["rank"] == 2
    refused = is_error(world.viewer.get(f"{path}?task=worker&rank=0"), 400, "invalid")
    assert refused["fields"] == [
        {"field": "rank", "problem": "Task worker has no rank 0.", "expected": "one of 1 to 2"}
    ]
    refused = is_error(world.viewer.get(f"{path}/merged?task=boss"), 400, "invalid")
    assert refused["fields"][0]["expected"] == "one of chief, worker"


def test_the_last_lines_of_a_long_output(world: World, attempt: Attempt) -> None:
    for sequence in range(2, 12):
        LogChunk.objects.create(
            attempt=attempt, rank=0, sequence=sequence, at=timezone.now(), text=f"a{sequence}\nb{sequence}\n"
        )
    path = f"/jobs/{attempt.job_id}/logs"
    end = world.viewer.get(f"{path}?last=3").json()
    assert [chunk["sequence"] for chunk in end["chunks"]] == [10, 11]
    assert end["next_after"] == 11
    whole = world.viewer.get(f"{path}?last=200").json()
    assert [chunk["sequence"] for chunk in whole["chunks"]] == list(range(12))
    is_error(world.viewer.get(f"{path}?last=201"), 400, "invalid")


def test_output_of_several_ranks_merged(world: World, attempt: Attempt) -> None:
    path = f"/jobs/{attempt.job_id}/logs/merged"
    first = world.viewer.get(f"{path}?limit=1").json()
    assert [(chunk["rank"], chunk["sequence"]) for chunk in first["chunks"]] == [(0, 0)]
    rest = world.viewer.get(f"{path}?after={first['next_after']}").json()
    assert [(chunk["task"], chunk["rank"], chunk["sequence"]) for chunk in rest["chunks"]] == [
        ("worker", 1, 0),
        ("worker", 2, 0),
        ("chief", 0, 1),
        ("worker", 1, 1),
        ("worker", 2, 1),
    ]
    assert not rest["complete"]
    # What comes late is not missed, whatever came before it from others.
    LogChunk.objects.create(attempt=attempt, rank=1, sequence=2, at=attempt.planned_at, text="late\n")
    late = world.viewer.get(f"{path}?after={rest['next_after']}").json()
    assert [chunk["text"] for chunk in late["chunks"]] == ["late\n"]
    is_error(world.viewer.get(f"{path}?after=1:x"), 400, "invalid")


def test_search(world: World, attempt: Attempt) -> None:
    path = f"/jobs/{attempt.job_id}/logs/search"
    found = world.viewer.get(f"{path}?q=LOSS of rank&context=1").json()
    assert [(hit["task"], hit["rank"], hit["line"]) for hit in found["hits"]] == [
        ("chief", 0, 2),
        ("worker", 1, 2),
        ("worker", 2, 2),
    ]
    hit = found["hits"][1]
    assert (hit["text"][hit["start"] : hit["end"]], hit["before"]) == ("loss of rank", ["rank 1 begins"])
    assert (found["next_after"], found["lines_searched"]) == ("", 6)
    assert not world.viewer.get(f"{path}?q=LOSS&match_case=true").json()["hits"]
    page = world.viewer.get(f"{path}?q=^(loss|rank) .* (\\d|begins)&regex=1&limit=4").json()
    assert len(page["hits"]) == 4
    page = world.viewer.get(f"{path}?q=^(loss|rank)&regex=1&limit=4&after={page['next_after']}").json()
    assert [(hit["rank"], hit["line"]) for hit in page["hits"]] == [(2, 1), (2, 2)]
    refused = is_error(world.viewer.get(f"{path}?q=(loss&regex=1"), 400, "invalid")
    assert refused["fields"][0]["field"] == "q"
    is_error(world.viewer.get(f"{path}?q=loss&after=elsewhere"), 400, "invalid")
    is_error(world.viewer.get(path), 400, "invalid")


def test_download(world: World, attempt: Attempt) -> None:
    path = f"/jobs/{attempt.job_id}/logs/download"
    text = world.viewer.get(f"{path}?rank=2")
    assert text.content == b"rank 2 begins\nloss of rank 2: 0.5\n"
    assert text["Content-Type"] == "text/plain; charset=utf-8"
    assert f"job-{attempt.job_id}-attempt-1-rank-2.log" in text["Content-Disposition"]
    answer = world.viewer.get(f"{path}?task=worker")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        folder = f"job-{attempt.job_id}-attempt-1"
        assert archive.namelist() == [f"{folder}/worker-rank-1.log", f"{folder}/worker-rank-2.log"]
        assert archive.read(f"{folder}/worker-rank-1.log") == b"rank 1 begins\nloss of rank 1: 0.5\n"
    waiting = world.member.post("/jobs", spec()).json()["id"]
    is_error(world.viewer.get(f"/jobs/{waiting}/logs/download"), 409, "conflict")


def test_a_download_has_the_bytes_and_views_replace_them(world: World, attempt: Attempt) -> None:
    LogChunk.objects.filter(attempt=attempt, rank=2).update(text="caf\ufffd\ufffd\n", raw=b"caf\xe9\x00\n")
    path = f"/jobs/{attempt.job_id}/logs"
    (chunk, *_) = world.viewer.get(f"{path}?rank=2").json()["chunks"]
    assert chunk["text"] == "caf\ufffd\ufffd\n"
    (hit, *_) = world.viewer.get(f"{path}/search?rank=2&q=caf").json()["hits"]
    assert hit["text"] == "caf\ufffd\ufffd"
    assert world.viewer.get(f"{path}/download?rank=2").content.startswith(b"caf\xe9\x00\n")


def test_an_attempt_that_there_is_not_is_refused_with_those_that_there_are(
    world: World, attempt: Attempt
) -> None:
    refused = is_error(world.viewer.get(f"/jobs/{attempt.job_id}/logs?attempt=9"), 404, "not_found")
    assert refused["detail"] == f"Job {attempt.job_id} has no attempt 9. Expected a number from 1 to 1."
    job = make_job(tenant=world.tenant)
    refused = is_error(world.viewer.get(f"/jobs/{job.id}/logs?attempt=1"), 404, "not_found")
    assert refused["detail"] == f"Job {job.id} has no attempt 1. It has none yet."


def test_what_was_removed_is_said(world: World, attempt: Attempt) -> None:
    LogChunk.objects.all().delete()
    LogRemoval.objects.create(attempt=attempt, at=timezone.now(), cause="age", limit=30, bytes=4096)
    path = f"/jobs/{attempt.job_id}/logs"
    for way in ("", "/merged", "/search?q=loss"):
        removed = world.viewer.get(f"{path}{way}").json()["removed"]
        assert removed["bytes"] == 4096
        assert "kept for 30 days" in removed["message"]
    refused = is_error(world.viewer.get(f"{path}/download"), 404, "not_found")
    assert refused["detail"] == removed["message"]
