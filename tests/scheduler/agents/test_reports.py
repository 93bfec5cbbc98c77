"""What the server makes of an agent's reports: repeated, late and lost ones change nothing."""

import base64

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nodeagent.messages import (
    OLDEST_PROTOCOL,
    PROTOCOL,
    Finding,
    GpuSample,
    Inventory,
    InventoryGpu,
    LogBatch,
    LogChunk,
    MessageError,
    PartReport,
    ProgressLine,
    Reading,
    Report,
)
from scheduler.agents.services import reports
from scheduler.agents.services.reports import report_apply, report_read
from scheduler.jobs.attempts import representations
from scheduler.jobs.attempts.services.lifecycle import attempt_stop
from scheduler.models import Event, Job, Node
from scheduler.models import LogChunk as StoredChunk
from scheduler.models.attempts import StopCause
from scheduler.rounds.snapshot import read_snapshot
from scheduler.telemetry.logs.services.reading import next_chunks
from scheduler.telemetry.logs.services.storing import logs_append
from scheduler.wiring import stream, wakeups
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node, make_tenant

pytestmark = pytest.mark.django_db


def report(node: Node, *parts: PartReport, **fields):
    fields = {"protocol": PROTOCOL, "boot": node.boot, "generation": 0, "parts": parts, **fields}
    return report_apply(node, Report(**fields))


def exited(attempt, code=0, **fields) -> PartReport:
    fields = {"started_at": 1.0, "ended_at": 2.0, **fields}
    return PartReport(attempt=attempt.id, state="exited", exit_code=code, **fields)


def gang(*, replicas=2, **spec):
    """A job of one GPU on each of as many nodes, about to start."""
    nodes = [make_node(gpus=1) for _ in range(replicas)]
    attempt = make_attempt(make_job(replicas=replicas, **spec), gpus_of(*nodes), state="starting", go=False)
    return nodes, attempt


@pytest.mark.parametrize("broken", ["findings_apply", "publish_samples", "readings_store"])
def test_what_else_a_report_has_costs_no_job_on_the_node_its_lease(monkeypatch, broken):
    def fail(*_, **__):
        raise ValueError("A value that no one thought about.")

    monkeypatch.setattr(reports, broken, fail)
    (node,), attempt = gang(replicas=1)
    extras = {
        "findings": (Finding(name="disk", verdict="ok"),),
        "samples": (GpuSample(index=0, utilisation_percent=1.0, memory_used_bytes=1),),
        "readings": (Reading(at=1.0),),
    }
    answer = report(node, PartReport(attempt=attempt.id, state="ready"), **extras)
    assert [part.attempt for part in answer.parts] == [attempt.id]
    assert attempt.parts.get().state == "ready"


def test_a_gang_goes_when_every_node_is_ready():
    (left, right), attempt = gang()
    ready = PartReport(attempt=attempt.id, state="ready", master_port=5555)
    (part,) = report(left, ready).parts
    assert (part.go, part.has_rank_zero, part.world_size) == (False, True, 2)
    (part,) = report(right, PartReport(attempt=attempt.id, state="ready")).parts
    assert (part.go, part.master_address, part.master_port) == (True, "127.0.0.1", 5555)
    assert not part.has_rank_zero
    (part,) = report(left, ready).parts
    assert part.go


def test_how_an_attempt_is_held_to_its_parts_is_what_its_nodes_say_where_it_is_held_least():
    (left, right), attempt = gang()

    def say(node, enforcement):
        report(node, PartReport(attempt=attempt.id, state="running", enforcement=enforcement))
        (shown,) = representations.attempts([attempt.id])
        return shown["enforcement"]

    assert say(left, "") == ""
    version = Job.objects.get(id=attempt.job_id).version
    assert say(left, "enforced") == "enforced"
    assert Job.objects.get(id=attempt.job_id).version > version, "so that whoever looks hears of it"
    assert say(right, "placement_only") == "placement_only"
    assert say(right, "cooperative") == "cooperative"
    # An agent that was restarted has not looked yet.
    assert say(right, "") == "cooperative"
    version = Job.objects.get(id=attempt.job_id).version
    assert say(right, "cooperative") == "cooperative"
    assert Job.objects.get(id=attempt.job_id).version == version


def test_a_part_is_in_the_queue_of_another_scheduler_until_its_agent_says_otherwise():
    (node, _), attempt = gang()
    queued = PartReport(attempt=attempt.id, state="preparing", is_queued=True)
    assert locks_of(node, queued) == 1
    part = attempt.parts.get(node=node)
    assert (part.is_queued, part.left_queue_at, part.state) == (True, None, "waiting")
    assert locks_of(node, queued) == 0, "it says nothing new"
    report(node, PartReport(attempt=attempt.id, state="ready", master_port=5555))
    part.refresh_from_db()
    assert (part.is_queued, part.state) == (False, "ready")
    assert part.left_queue_at is not None
    left_at = part.left_queue_at
    report(node, PartReport(attempt=attempt.id, state="running"))
    part.refresh_from_db()
    assert part.left_queue_at == left_at


def test_the_job_runs_when_every_node_does():
    (left, right), attempt = gang()
    running = PartReport(attempt=attempt.id, state="running")
    report(left, running)
    attempt.job.refresh_from_db()
    assert attempt.job.state == "queued"
    report(right, running)
    report(right, running)
    attempt.refresh_from_db()
    attempt.job.refresh_from_db()
    assert (attempt.state, attempt.job.state) == ("running", "running")
    assert attempt.job.started_at is not None
    assert Event.objects.filter(job_id=attempt.job_id, kind="job.started").count() == 1


def test_only_jobs_of_which_there_is_news_are_locked():
    node = make_node(gpus=3)
    attempts = [make_attempt(make_job(), [gpu], state="starting") for gpu in gpus_of(node)]
    states = ("ready", "running", "running")
    first = [PartReport(attempt=each.id, state=said) for each, said in zip(attempts, states, strict=True)]
    assert locks_of(node, *first) == 3
    assert locks_of(node, *first) == 0
    preparing = PartReport(attempt=attempts[0].id, state="preparing")
    assert locks_of(node, preparing, exited(attempts[1]), first[2]) == 1
    assert locks_of(node, PartReport(attempt=attempts[0].id, state="running"), exited(attempts[1])) == 1
    progress = (ProgressLine(sequence=1, at=1.0, step=1, samples=None, values={}),)
    assert locks_of(node, PartReport(attempt=attempts[2].id, state="running", progress=progress)) == 1
    for attempt, state in zip(attempts, ("running", "ended", "running"), strict=True):
        attempt.refresh_from_db()
        assert attempt.state == state


def locks_of(node: Node, *parts: PartReport) -> int:
    """Return how many jobs a report locks."""
    with CaptureQueriesContext(connection) as captured:
        report(node, *parts)
    return sum(
        "FROM scheduler_job " in query["sql"] and "FOR NO KEY UPDATE" in query["sql"]
        for query in captured.captured_queries
    )


def test_a_short_job_is_told_of_once_and_costs_few_statements(
    django_capture_on_commit_callbacks, monkeypatch
):
    """It ran and ended between two reports: its row, its GPU and its part are each written for that."""
    rounds, published = [], []
    monkeypatch.setattr(wakeups, "request_round", lambda: rounds.append(None))
    monkeypatch.setattr(stream, "_send_if_open", lambda send, items: published.append((send, items)))
    (node,), attempt = gang(replicas=1)
    with CaptureQueriesContext(connection) as captured, django_capture_on_commit_callbacks(execute=True):
        report(node, exited(attempt))
    steps = Event.objects.filter(job_id=attempt.job_id).order_by("id").values_list("kind", flat=True)
    assert list(steps) == ["attempt.running", "job.started", "attempt.ended", "job.succeeded"]
    part = attempt.parts.get()
    assert (part.state, part.exit_code) == ("exited", 0)
    assert len(rounds) == 1
    assert sorted(items for _, items in published) == sorted([[attempt.job_id], [node.id]])
    written = [query["sql"] for query in captured.captured_queries if "UPDATE " in query["sql"]]
    assert sum("scheduler_attemptpart" in sql for sql in written) == 1
    assert len(captured) <= 24


def test_the_last_exit_ends_the_job_and_frees_its_gpus():
    (left, right), attempt = gang()
    for node in (left, right):
        report(node, PartReport(attempt=attempt.id, state="running"))
    assert report(left, exited(attempt)).parts == ()
    assert list(attempt.allocation.gpus.values_list("phase", flat=True).order_by("gpu_id")) == [
        "held",
        "held",
    ]
    report(right, exited(attempt))
    attempt.refresh_from_db()
    job = attempt.job
    job.refresh_from_db()
    assert (attempt.state, attempt.outcome, job.state, job.exit_code) == (
        "ended",
        "succeeded",
        "succeeded",
        0,
    )
    assert attempt.allocation.gpus.exclude(phase="released").count() == 0
    assert job.service["V100"] > 0


def test_a_repeated_exit_changes_nothing():
    (node,), attempt = gang(replicas=1)
    report(node, exited(attempt))
    before = Event.objects.count()
    report(node, exited(attempt, code=1))
    attempt.job.refresh_from_db()
    assert attempt.job.state == "succeeded"
    assert Event.objects.count() == before


def test_one_failure_stops_the_gang_and_its_words_are_kept():
    (left, right), attempt = gang()
    for node in (left, right):
        report(node, PartReport(attempt=attempt.id, state="running"))
    report(left, exited(attempt, code=1, category="user_error", message="KeyError: 'x'"))
    (part,) = report(right).parts
    assert part.stop
    report(right, exited(attempt, code=143, category="stopped"))
    job = attempt.job
    job.refresh_from_db()
    assert (job.state, job.exit_code, job.message) == ("failed", 1, "KeyError: 'x'")


def test_the_signal_that_ended_an_attempt_is_kept():
    (left, right), attempt = gang()
    for node in (left, right):
        report(node, PartReport(attempt=attempt.id, state="running"))
    report(left, exited(attempt, code=139, category="user_error", message="Crashed.", signal="SIGSEGV"))
    report(right, exited(attempt, code=143, category="stopped", signal="SIGTERM"))
    (shown,) = representations.attempts([attempt.id])
    assert (shown["state"], shown["exit_code"], shown["signal"]) == ("ended", 139, "SIGSEGV")


def test_the_signal_by_which_a_stopped_attempt_ended_is_kept_too():
    (node,), attempt = gang(replicas=1)
    report(node, PartReport(attempt=attempt.id, state="running"))
    attempt.refresh_from_db()
    attempt_stop(attempt, cause=StopCause.CANCELLED, actor="olga")
    report(node, exited(attempt, code=137, category="stopped", signal="SIGKILL"))
    (shown,) = representations.attempts([attempt.id])
    assert (shown["exit_code"], shown["signal"]) == (137, "SIGKILL")


def test_hardware_failures_are_tried_again_with_backoff_and_not_for_ever():
    (node,), attempt = gang(replicas=1, max_attempts=2)
    job = attempt.job
    report(node, exited(attempt, code=1, category="hardware", message="Xid 79"))
    job.refresh_from_db()
    assert (job.state, job.failures) == ("queued", 1)
    assert job.eligible_at > timezone.now()
    second = make_attempt(job, gpus_of(node), state="starting")
    report(node, exited(second, code=1, category="hardware", message="Xid 79"))
    job.refresh_from_db()
    assert (job.state, job.failures, job.message) == ("failed", 2, "Xid 79")


def test_a_job_whose_gpu_broke_goes_on_elsewhere_and_says_so():
    for _ in range(3):
        make_node(gpus=1)
    (node,), attempt = gang(replicas=1)
    report(node, exited(attempt, code=1, category="hardware", message="CUDA error: uncorrectable ECC error"))
    attempt.job.refresh_from_db()
    attempt.refresh_from_db()
    assert (attempt.failure, attempt.job.avoid_nodes) == ("gpu_ecc_error", [node.id])
    said = Event.objects.get(kind="job.requeued", job_id=attempt.job_id).message
    assert said.endswith(
        "It is tried again: the GPU's memory is faulty; attempt 2 of 3 on another node after 5 s."
    )


def test_the_last_nodes_are_not_avoided():
    (node,), attempt = gang(replicas=1)
    report(node, exited(attempt, code=1, category="hardware", message="Xid 79"))
    attempt.job.refresh_from_db()
    assert attempt.job.avoid_nodes == []


def test_a_node_whose_hardware_fails_jobs_of_several_tenants_gets_no_more():
    node, tenants = make_node(gpus=1), [make_tenant(), make_tenant()]
    for number in range(3):
        # Three of one tenant would be no more than its word.
        assert not Node.objects.get().cordoned
        job = make_job(tenant=tenants[number == 2])
        attempt = make_attempt(job, gpus_of(node), state="starting")
        report(node, exited(attempt, code=1, category="hardware", message="Xid 79"))
    assert Node.objects.get().cordoned
    # All tenants see it, so it has no word of the jobs' output.
    event = Event.objects.get(kind="node.cordoned")
    assert (event.actor, event.message) == (
        "health",
        "Its hardware failed 3 jobs of 2 tenants within 6 hours.",
    )


def test_a_user_error_is_tried_again_where_its_owner_asks_for_that():
    retry = {"attempts": {"semantic_error": 2}}
    (node,), attempt = gang(replicas=1, retry=retry)
    for state, number in (("queued", 1), ("failed", 2)):
        report(node, exited(attempt, code=1, category="user_error", message="KeyError: 'x'"))
        attempt.job.refresh_from_db()
        assert (attempt.job.state, attempt.job.failures) == (state, number)
        if state == "queued":
            attempt = make_attempt(attempt.job, gpus_of(node), state="starting")


def test_a_preempted_job_is_queued_again_even_if_it_left_with_zero():
    (node,), attempt = gang(replicas=1)
    report(node, PartReport(attempt=attempt.id, state="running"))
    attempt.refresh_from_db()
    attempt.job.refresh_from_db()
    attempt_stop(attempt, cause=StopCause.PREEMPTED, actor="round 1", message="Reclaimed by job 7.")
    (part,) = report(node).parts
    assert part.stop
    report(node, exited(attempt, code=0, category="stopped"))
    attempt.refresh_from_db()
    attempt.job.refresh_from_db()
    assert (attempt.outcome, attempt.job.state, attempt.job.preemptions) == ("preempted", "queued", 1)


@pytest.mark.parametrize(("category", "state"), [("lost", "queued"), ("out_of_disk", "failed")])
def test_what_did_not_end_by_itself_is_not_done_even_if_it_left_with_zero(category: str, state: str):
    """A shim that was killed has not seen how its processes ended."""
    (node,), attempt = gang(replicas=1)
    report(node, PartReport(attempt=attempt.id, state="running"))
    report(node, exited(attempt, code=0, category=category))
    attempt.job.refresh_from_db()
    assert attempt.job.state == state


def test_a_part_that_was_stopped_before_it_started_has_no_exit_code_and_that_is_fine():
    (node,), attempt = gang(replicas=1)
    attempt_stop(attempt, cause=StopCause.CANCELLED, actor="user ada")
    report(node, exited(attempt, code=None, category="stopped", started_at=None))
    attempt.refresh_from_db()
    assert (attempt.state, attempt.outcome, attempt.exit_code) == ("ended", "cancelled", None)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_job_that_never_started_has_no_exit_code(replicas: int):
    (node, *others), attempt = gang(replicas=replicas)
    gone = "The secret tok was deleted."
    report(node, exited(attempt, code=None, category="start_failed", message=gone, started_at=None))
    for other in others:
        report(other, exited(attempt, code=143, category="stopped", signal="SIGTERM"))
    attempt.refresh_from_db()
    attempt.job.refresh_from_db()
    assert (attempt.job.state, attempt.job.message) == ("failed", gone)
    assert (attempt.job.exit_code, attempt.exit_code, attempt.signal) == (None, None, "")


def test_a_job_that_was_done_before_the_stop_reached_it_is_done():
    (node,), attempt = gang(replicas=1)
    report(node, PartReport(attempt=attempt.id, state="running"))
    attempt.refresh_from_db()
    attempt.job.refresh_from_db()
    attempt_stop(attempt, cause=StopCause.PREEMPTED, actor="round 1")
    report(node, exited(attempt, code=0))
    attempt.job.refresh_from_db()
    assert attempt.job.state == "succeeded"


def test_a_report_for_an_attempt_of_the_past_or_of_another_node_is_ignored():
    (_node,), attempt = gang(replicas=1)
    other = make_node(gpus=1)
    assert report(other, exited(attempt), PartReport(attempt=10**9, state="running")).parts == ()
    attempt.refresh_from_db()
    assert attempt.state == "starting"


def test_the_inventory_is_taken_over_and_what_vanished_is_kept_as_absent():
    node = make_node(gpus=2, state="new")
    node.boot = ""
    node.save()
    assert report(node, boot="life-1").want_inventory
    gpu = InventoryGpu(index=0, uuid="u0", memory_bytes=2**34, socket=1, switch=3)
    inventory = Inventory(
        gpu_model="H200", gpus=(gpu,), cpus=8.0, memory_bytes=2**36, address="10.0.0.9", agent_version="1"
    )
    answer = report(node, boot="life-1", inventory=inventory)
    assert not answer.want_inventory
    node.refresh_from_db()
    assert (node.state, node.gpu_model.name, node.address) == ("ready", "H200", "10.0.0.9")
    assert list(node.gpus.order_by("index").values_list("index", "uuid", "switch", "present")) == [
        (0, "u0", 3, True),
        (1, f"{node.name}-1", 0, False),
    ]


def bare_inventory(**fields) -> Inventory:
    return Inventory(
        **{"gpu_model": "", "gpus": (), "cpus": 8.0, "memory_bytes": 2**36, "address": "10.0.0.9"}
        | {"agent_version": "1", **fields}
    )


def test_a_node_without_gpus_is_taken_over_too():
    node = make_node(gpus=0, state="new", boot="")
    assert core_node(node) is None
    report(node, boot="life-1", inventory=bare_inventory())
    node.refresh_from_db()
    assert (node.state, node.gpu_model, node.cpus, node.gpus.count()) == ("ready", None, 8.0, 0)
    assert Event.objects.get(kind="node.ready").message == "no GPUs"
    there = core_node(node)
    assert (there.gpu_model, there.gpus, there.cpus, there.takes_work) == ("", (), 8.0, True)


def test_a_round_knows_what_the_storage_of_a_node_delivers():
    node = make_node(gpus=0, state="new", boot="")
    report(node, boot="life-1", inventory=bare_inventory(storage_bandwidth=2.5e9, cache_bytes=2**39))
    there = core_node(node)
    assert (there.storage_bandwidth, there.cache_bytes) == (2.5e9, 2**39)
    report(node, boot="life-2", inventory=bare_inventory())
    there = core_node(node)
    assert (there.storage_bandwidth, there.cache_bytes) == (0, 0), "an agent that says nothing sets no limit"


def test_a_node_that_lost_all_its_gpus_stays_one_of_its_model():
    node = make_node(gpus=2)
    report(node, boot="life-2", inventory=bare_inventory())
    node.refresh_from_db()
    assert node.gpu_model.name == "V100"
    there = core_node(node)
    assert (there.gpu_model, [gpu.healthy for gpu in there.gpus]) == ("V100", [False, False])


def test_no_index_is_reported_twice():
    gpu = InventoryGpu(index=0, uuid="u0", memory_bytes=2**34)
    with pytest.raises(MessageError, match="must name each index once"):
        report(make_node(), boot="life-2", inventory=bare_inventory(gpu_model="V100", gpus=(gpu, gpu)))


def core_node(node):
    return next((each for each in read_snapshot(9).nodes if each.id == node.id), None)


def test_generations_grow_with_every_answer():
    node = make_node()
    assert report(node).generation < report(node).generation


def test_an_agent_that_obeyed_a_later_answer_than_a_restored_database_knows_obeys_the_next():
    node = make_node()
    assert report(node, generation=5_000).generation == 5_001
    assert report(node, generation=17).generation == 5_002
    # A number without bounds is a node's own loss.
    assert report(node, generation=2**63 - 1).generation == 2**60 + 1


def test_a_report_of_a_node_without_news_costs_two_statements(django_assert_num_queries):
    node = make_node()
    report(node)
    with django_assert_num_queries(2):
        report(node)


def test_progress_is_stored_once_and_gives_throughput():
    (node,), attempt = gang(replicas=1)
    lines = tuple(
        ProgressLine(sequence=i, at=1000.0 + i, step=i * 10, samples=i * 640.0, values={"total_steps": 50})
        for i in range(1, 4)
    )
    for _ in range(2):
        report(node, PartReport(attempt=attempt.id, state="running", progress=lines))
    assert attempt.progress.count() == 3
    attempt.refresh_from_db()
    assert (attempt.step, attempt.total_steps, attempt.throughput) == (30, 50, 640.0)


def chunk(sequence, text="x") -> LogChunk:
    return LogChunk(sequence=sequence, at=1000.0, text=text)


def test_log_chunks_are_stored_once_and_in_order():
    (node,), attempt = gang(replicas=1)

    def send(*chunks):
        return logs_append(node, LogBatch(attempt=attempt.id, rank=0, chunks=chunks)).next_sequence

    assert send(chunk(0), chunk(1)) == 2
    assert send(chunk(0), chunk(1), chunk(2, "a\x00b")) == 3
    assert send(chunk(4)) == 3
    stored = StoredChunk.objects.filter(attempt=attempt).order_by("sequence")
    assert [(each.sequence, each.text) for each in stored] == [(0, "x"), (1, "x"), (2, "a\ufffdb")]


def test_bytes_that_are_no_text_are_stored_as_they_are(settings):
    (node,), attempt = gang(replicas=1)
    data = b"a\xff\x00b"
    raw = base64.b64encode(data).decode()
    sent = LogChunk(sequence=0, at=1000.0, text="a\ufffd\ufffdb", raw=raw)
    broken = LogChunk(sequence=1, at=1000.0, text="c", raw="no base64")
    logs_append(node, LogBatch(attempt=attempt.id, rank=0, chunks=(sent, broken)))
    first, second = next_chunks(attempt, {0: -1}, 10)
    assert (first.text, first.data) == ("a\ufffd\ufffdb", data)
    assert (second.text, second.data) == ("c", b"c")


def test_an_agent_that_knows_no_limit_is_cut_off(settings):
    (node,), attempt = gang(replicas=1)
    settings.CONFIG = settings.CONFIG.model_copy(update={"log_bytes_per_attempt": 10})
    sequence, answers = 0, []
    while not answers or not answers[-1].full:
        assert sequence < 100
        batch = LogBatch(attempt=attempt.id, rank=0, chunks=(chunk(sequence, "x" * 8_000),))
        answers.append(logs_append(node, batch))
        sequence += 1
    assert StoredChunk.objects.filter(attempt=attempt).count() == sequence - 1 == 9


def test_a_node_cannot_write_another_nodes_log():
    (_left, right), attempt = gang()
    answer = logs_append(right, LogBatch(attempt=attempt.id, rank=0, chunks=(chunk(0),)))
    assert answer.full
    assert not StoredChunk.objects.exists()


@pytest.mark.parametrize("error", [ZeroDivisionError, ValueError])
def test_what_one_job_reports_costs_no_other_its_lease(monkeypatch, caplog, error):
    node = make_node(gpus=2)
    broken, sound = [make_attempt(make_job(), [gpu], state="starting", go=False) for gpu in gpus_of(node)]

    def breaks(attempt, points):
        raise error

    monkeypatch.setattr(reports, "profile_note", breaks)
    line = ProgressLine(sequence=1, at=1.0, step=1)
    answer = report(
        node,
        PartReport(attempt=broken.id, state="running", progress=(line,)),
        PartReport(attempt=sound.id, state="running"),
    )
    assert [part.attempt for part in answer.parts] == [broken.id, sound.id]
    sound.refresh_from_db()
    assert sound.state == "running"
    broken.refresh_from_db()
    assert (broken.state, broken.step) == ("starting", None), "nothing of its report is half written"
    assert error.__name__ in caplog.text


def test_what_a_newer_agent_of_the_same_protocol_adds_is_passed_over():
    report = report_read({"protocol": PROTOCOL, "boot": "b", "generation": 1, "weather": {"sunny": True}})
    assert report == Report(protocol=PROTOCOL, boot="b", generation=1)


@pytest.mark.parametrize(("protocol", "outdated"), [(OLDEST_PROTOCOL - 1, "agent"), (PROTOCOL + 1, "server")])
def test_another_protocol_is_named_before_any_field_that_it_lacks(protocol: int, outdated: str):
    with pytest.raises(MessageError, match=f"not {protocol}; update the {outdated}"):
        report_read({"protocol": protocol})
