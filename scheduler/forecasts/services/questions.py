"""What-if questions: which ones users may ask, and how often. `answers` answers them."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

import redis
from django.conf import settings
from django.db import transaction

from scheduler.core.model.lifecycle import JobState
from scheduler.core.model.snapshot import GUARANTEED, OPPORTUNISTIC
from scheduler.jobs.services.submission import Submission
from scheduler.jobs.services.submission_facts import submission_facts
from scheduler.jobspec import ANY_MODEL, Fields, did_you_mean
from scheduler.models.forecasts import WhatIf, WhatIfState
from scheduler.models.jobs import Job
from scheduler.models.nodes import GpuModel, Node
from scheduler.models.selectors.jobs import job_get
from scheduler.virtual_clusters.cells.selectors import cells_in_force
from scheduler.wiring.clock import database_now
from scheduler.wiring.wakeups import request_answer
from tenants.after_commit import after_commit
from tenants.errors import Conflict, FieldError, Invalid, NotAllowed, NotFound, TooManyRequests
from tenants.models import VirtualCluster
from tenants.selectors import Viewer

#: Questions a person may ask in a minute, and how long an answer can be fetched.
PER_MINUTE = 10
KEPT = timedelta(hours=1)
#: A question without an answer after this time will never have one.
PATIENCE = timedelta(minutes=3)

_WORD = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_MOST_NAMES = 100
_MOST_SECONDS = 365 * 86_400
_MOST_GPUS = 1_000_000
_BODY = "job with changes, spec, cluster"


def ask(*, viewer: Viewer, body: object) -> WhatIf:
    """Check and keep a question, and have it answered soon. Every wrong field is named at once."""
    if not isinstance(body, Mapping):
        raise Invalid("The body is not an object.", [FieldError("body", "is not an object", "an object")])
    question = _checked(viewer, body)
    _count(viewer.user.pk)
    with transaction.atomic():
        row = WhatIf.objects.create(asked_by=viewer.user, asked_at=database_now(), question=question)
        after_commit(request_answer, str(row.id))
    return row


def question_get(viewer: Viewer, question_id: UUID) -> WhatIf:
    """Return the viewer's own question, operators' any; NotFound also when its time is over."""
    rows = WhatIf.objects.filter(id=question_id, asked_at__gt=database_now() - KEPT)
    row = (rows if viewer.is_operator else rows.filter(asked_by=viewer.user)).first()
    if row is None:
        raise NotFound("There is no such question of yours, or its answer has expired; ask it again.")
    return row


def expires_at(row: WhatIf) -> datetime:
    """Return until when the answer can be fetched."""
    return row.asked_at + KEPT


def is_given_up(row: WhatIf) -> bool:
    """Whether the worker that had the question must have died."""
    unanswered = row.state in (WhatIfState.WAITING, WhatIfState.RUNNING)
    return unanswered and row.asked_at < database_now() - PATIENCE


def _checked(viewer: Viewer, body: Mapping[str, Any]) -> dict[str, Any]:
    problems: list[FieldError] = []
    fields = Fields(body, "", problems)
    given = {name: fields.take(name) for name in ("job", "changes", "tenant", "spec", "cluster")}
    fields.finish()
    question: dict[str, Any] = {}
    if given["cluster"] is not None:
        if not viewer.is_operator:
            raise NotAllowed("Only operators may ask what-if questions about changes of the cluster.")
        question["cluster"] = _cluster(Fields(given["cluster"], "cluster", problems))
    if given["job"] is not None:
        question["job"] = _job(viewer, given["job"], problems)
        if question["job"] is not None:
            changes = Fields(given["changes"] or {}, "changes", problems)
            question["changes"] = _changes(viewer, question["job"], changes)
            if not question["changes"] and not problems:
                problems.append(
                    FieldError("changes", "change nothing", "at least one of gpus, gpu_models, ...")
                )
    elif given["changes"] is not None:
        problems.append(FieldError("changes", "need a job", "beside the number of a job"))
    if given["spec"] is not None:
        if given["tenant"] is not None and not isinstance(given["tenant"], str):
            raise Invalid(
                "tenant: is not text.", [FieldError("tenant", "is not text", "the name of a tenant")]
            )
        checked = Submission(viewer, given["tenant"]).check(given["spec"], where="spec")
        question |= {"tenant": checked.tenant, "spec": checked.spec.to_dict()}
    if not question and not problems:
        problems.append(FieldError("body", "asks nothing", f"one or more of: {_BODY}"))
    if problems:
        raise Invalid.of(*problems)
    return question


def _job(viewer: Viewer, value: object, problems: list[FieldError]) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        problems.append(FieldError("job", "is not a whole number", "the number of a job that waits"))
        return None
    job = job_get(viewer, value)
    if job.state != JobState.QUEUED:
        raise Conflict(f"Job {job.id} does not wait: its state is {job.state}.")
    return job.id


def _changes(viewer: Viewer, job_id: int, fields: Fields) -> dict[str, Any]:
    """Read what is to be different; what is left out stays, and is left out here too."""
    job = Job.objects.select_related("tenant").get(id=job_id)
    priority = fields.integer("priority", default=job.priority, least=-100, most=100)
    guarantee = fields.choice("guarantee", (GUARANTEED, OPPORTUNISTIC), default="unchanged")
    changes: dict[str, Any] = {
        "gpus": fields.integer("gpus", default=0, least=1, most=16) or None,
        "replicas": fields.integer("replicas", default=0, least=1, most=256) or None,
        "gpu_models": _models(fields),
        "time_limit_seconds": fields.duration("time_limit", most_seconds=_MOST_SECONDS),
        "guaranteed": None if guarantee == "unchanged" else guarantee == GUARANTEED,
        "priority": priority if priority != job.priority else None,
        "virtual_cluster": fields.word("virtual_cluster", _WORD, "a virtual cluster", default="") or None,
    }
    tasks = len(job.specification.tasks)
    if (changes["gpus"] or changes["replicas"]) and tasks > 1:
        name = "gpus" if changes["gpus"] else "replicas"
        fields.refuse(name, f"is ambiguous for a job with {tasks} tasks", "a job of one task")
    if changes["virtual_cluster"] and not viewer.is_operator:
        facts = submission_facts(job.tenant.name)
        usable = list(facts.virtual_clusters) if facts else []
        _check_name(fields, "virtual_cluster", changes["virtual_cluster"], usable)
    elif changes["virtual_cluster"]:
        _check_name(fields, "virtual_cluster", changes["virtual_cluster"], _virtual_clusters())
    fields.finish()
    return {name: value for name, value in changes.items() if value is not None}


def _models(fields: Fields) -> list[str] | None:
    value = fields.take("gpu_models")
    if value is None:
        return None
    names = [value] if isinstance(value, str) else value
    known = list(GpuModel.objects.order_by("name").values_list("name", flat=True))
    expected = f'"{ANY_MODEL}", or a list of some of: {", ".join(known)}'
    if names == [ANY_MODEL]:
        return []
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        fields.refuse("gpu_models", "names no GPU models", expected)
        return None
    for name in names:
        if name not in known:
            fields.refuse(
                "gpu_models", f"there is no GPU model {name[:80]!r}{did_you_mean(name, known)}", expected
            )
            return None
    return names


def _cluster(fields: Fields) -> dict[str, Any]:
    nodes = list(Node.objects.order_by("name").values_list("name", flat=True))
    desired: dict[str, Any] = {}
    for name in ("drain", "add_back"):
        values = fields.take(name)
        if values is None:
            continue
        if not isinstance(values, list) or len(values) > _MOST_NAMES:
            fields.refuse(name, "is not a list of nodes", f"a list of at most {_MOST_NAMES} names")
            continue
        for node in values:
            _check_name(fields, name, node, nodes)
        desired[name] = values
    enlarge = fields.take("enlarge")
    if enlarge is not None:
        if not isinstance(enlarge, list) or len(enlarge) > _MOST_NAMES:
            fields.refuse("enlarge", "is not a list", f"a list of at most {_MOST_NAMES} objects")
        else:
            desired["enlarge"] = [
                _enlarged(Fields(one, fields.path_of(f"enlarge.{number}"), fields.problems))
                for number, one in enumerate(enlarge)
            ]
    fields.finish()
    if not any(desired.values()):
        fields.problems.append(
            FieldError(fields.path, "changes nothing", "one or more of: drain, add_back, enlarge")
        )
    return desired


def _enlarged(fields: Fields) -> dict[str, Any]:
    vc = fields.word("virtual_cluster", _WORD, "the name of a virtual cluster", default=None)
    model = fields.word("gpu_model", _WORD, "the name of a GPU model", default=None)
    more = fields.integer("more_gpus", default=None, least=1, most=_MOST_GPUS)
    if vc:
        _check_name(fields, "virtual_cluster", vc, _virtual_clusters())
    if model:
        _check_name(fields, "gpu_model", model, list(GpuModel.objects.values_list("name", flat=True)))
        if model in cells_in_force().layout.gpu_models:
            expected = "POST /cells/check, which says what other cells would change"
            fields.refuse("gpu_model", f"{model} is divided by cells, not by counts", expected)
    fields.finish()
    return {"virtual_cluster": vc, "gpu_model": model, "more_gpus": more}


def _virtual_clusters() -> list[str]:
    return list(VirtualCluster.objects.order_by("name").values_list("name", flat=True))


def _check_name(fields: Fields, name: str, value: object, known: list[str]) -> None:
    if value in known:
        return
    shown = str(value)[:80]
    listed = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
    fields.refuse(
        name, f"there is no {shown!r}{did_you_mean(shown, known)}", f"one of: {listed or 'none yet'}"
    )


def _count(user_id: int) -> None:
    """Count the question; refuse it when there were too many within a minute."""
    key = f"allot:what-if:{user_id}"
    with _redis().pipeline(transaction=True) as pipeline:
        pipeline.set(key, 0, ex=60, nx=True)
        pipeline.incr(key)
        pipeline.ttl(key)
        _, questions, seconds_left = pipeline.execute()
    if questions > PER_MINUTE:
        wait = max(1, seconds_left)
        raise TooManyRequests(
            f"At most {PER_MINUTE} what-if questions a minute. Ask again in {wait} seconds.",
            retry_after_seconds=wait,
        )


@cache
def _redis() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)
