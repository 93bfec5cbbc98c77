"""A small server that speaks the REST contract over real HTTP, with the failures that a test asks for.

It keeps jobs as the dictionaries that the API would answer with; a test changes them directly, or lays
out a `timeline`: each reading of a job moves it one step on, so nothing depends on the clock.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.patience import PATIENCE_SECONDS

TOKEN = "alt_ann_secret"
PASSWORD = "correct horse"
NOW = "2026-01-31T12:00:00+00:00"


class Answer(Exception):
    """Ends the handling of a request with this answer."""

    def __init__(self, status: int, body: Any = None, headers: dict[str, str] | None = None) -> None:
        self.status, self.body, self.headers = status, body, headers or {}


def refusal(status: int, code: str, message: str, fields: list[dict[str, str]] | None = None) -> Answer:
    return Answer(status, {"code": code, "detail": message, "fields": fields or []})


def make_attempt(number: int = 1, **changes: Any) -> dict[str, Any]:
    attempt = {
        "id": 100 + number,
        "number": number,
        "is_trial": False,
        "state": "running",
        "outcome": None,
        "gpu_model": "V100",
        "placement": [
            {
                "node": "v100-1",
                "node_id": 1,
                "gpus": [{"id": 1, "index": 0}, {"id": 2, "index": 1}],
                "ranks": [0],
                "state": "running",
                "enforcement": "",
            }
        ],
        "turn": None,
        "auxiliary": None,
        "enforcement": "",
        "exit_code": None,
        "signal": "",
        "category": None,
        "failure": "",
        "message": "",
        "matched_rule": None,
        "stop_cause": None,
        "preempted_by": [],
        "lost_seconds": None,
        "planned_at": NOW,
        "starting_at": NOW,
        "running_at": NOW,
        "stopping_at": None,
        "ended_at": None,
        "throughput": 340.0,
        "step": 12,
        "total_steps": 100,
    }
    return {**attempt, **changes}


REASON = {
    "code": "no_free_gpus",
    "tier": "cluster",
    "message": "All V100 are in use.",
    "blocking": {},
    "needed": {"V100": 2},
    "available": {"V100": 0},
    "hint": "It would start at once on P100.",
}


def make_job(job_id: int, **changes: Any) -> dict[str, Any]:
    spec = {
        "name": changes.get("name", "train"),
        "tasks": [
            {"name": "main", "replicas": 1, "resources": {"gpu": 2}, "command": ["python", "train.py"]}
        ],
    }
    job = {
        "id": job_id,
        "name": "train",
        "tenant": "research",
        "virtual_cluster": "shared",
        "submitted_by": "ann",
        "state": "queued",
        "phase": "waiting",
        "guarantee": "guaranteed",
        "priority": 0,
        "gpus": 2,
        "gpu_models": ["V100", "P100"],
        "spec": spec,
        "submitted_at": NOW,
        "eligible_at": None,
        "started_at": None,
        "ended_at": None,
        "attempts": 0,
        "attempt": None,
        "guarantee_lapsed": False,
        "reasons": [REASON],
        "position": 3,
        "exit_code": None,
        "message": "",
        "preemptions": 0,
        "service_gpu_seconds": 0.0,
        "labels": {},
        "cancelling": False,
        "held": False,
        "array": None,
        "serves": None,
        "maintenance": None,
        "version": 1,
    }
    return {**job, **changes}


def running(number: int = 1, **changes: Any) -> dict[str, Any]:
    """The changes that make a job run in its n-th attempt."""
    return {
        "state": "running",
        "phase": "running",
        "attempts": number,
        "attempt": make_attempt(number),
        "started_at": NOW,
        "reasons": [],
        "position": None,
        **changes,
    }


def ended(state: str = "succeeded", exit_code: int | None = 0, **changes: Any) -> dict[str, Any]:
    return {"state": state, "phase": "ended", "exit_code": exit_code, "ended_at": NOW, **changes}


class FakeApi:
    """The state behind the server. `requests` holds (method, path, headers, body) of each request."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        self.jobs: dict[int, dict[str, Any]] = {}
        self.timeline: dict[int, list[dict[str, Any]]] = {}
        #: (job, attempt, rank) -> chunks of text; a log is complete when its key is in `complete`.
        self.logs: dict[tuple[int, int, int], list[str]] = {}
        self.complete: set[tuple[int, int, int]] = set()
        self.nodes: list[dict[str, Any]] = []
        self.virtual_clusters: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.tokens = {TOKEN: "ann"}
        self.created_tokens = 0
        self.answers: dict[str, Any] = {}
        #: Lose the answers to this many writes after doing the work, and answer so many with 503.
        self.lose_answers = 0
        self.busy_answers = 0
        #: What the next POST of a job is refused with.
        self.refuse: Answer | None = None
        #: What `why` foresees, the questions that were asked, and what they are answered.
        self.changes: list[tuple[int, Any]] = []
        self.bulk_cancels = 0
        #: So many jobs are cancelled by one request.
        self.cancelled_at_once = 1
        self.prediction: dict[str, Any] | None = None
        self.input_workers: dict[str, Any] = {}
        self.dependencies: dict[str, Any] = {"waits_for": [], "awaited_by": [], "awaited_by_count": 0}
        self.questions: list[Any] = []
        self.answer: dict[str, Any] = {}
        self.looks = 0
        self.changed = threading.Condition()

    def add(self, job_id: int, **changes: Any) -> dict[str, Any]:
        self.jobs[job_id] = make_job(job_id, **changes)
        return self.jobs[job_id]

    def sent(self, method: str, path: str) -> list[Any]:
        """The bodies of all requests so far to this path."""
        return [body for seen, where, _, body in self.requests if seen == method and where == path]

    def wait_for_request(self, method: str, path: str) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.sent(method, path), timeout=PATIENCE_SECONDS)

    # Handling

    def handle(
        self, method: str, path: str, query: dict[str, str], headers: dict[str, str], body: Any
    ) -> Any:
        parts = path.removeprefix("/api/v1/").split("/")
        if parts == ["session"] and method == "POST":
            if body["password"] != PASSWORD:
                raise refusal(401, "not_signed_in", "The user name or password is wrong.")
            raise Answer(200, self.me(), {"Set-Cookie": "sessionid=s1; Path=/; HttpOnly"})
        if "sessionid=s1" in headers.get("cookie", ""):
            if method != "GET" and headers.get("x-csrftoken") != "c1":
                raise refusal(403, "not_allowed", "The CSRF token is missing.")
        elif headers.get("authorization", "").removeprefix("Bearer ") not in self.tokens:
            raise refusal(401, "not_signed_in", "Who are you?")
        if method == "POST" and self.busy_answers:
            self.busy_answers -= 1
            raise refusal(503, "unavailable", "The database is restarting.")
        return getattr(self, f"on_{parts[0].replace('-', '_')}")(method, parts[1:], query, headers, body)

    def me(self) -> dict[str, Any]:
        return {
            "user": {"username": "ann", "email": "ann@example.org"},
            "is_operator": False,
            "tenants": [{"name": "research", "role": "member"}],
            "csrf_token": "c1",
        }

    def on_session(self, method: str, parts: list[str], *_: Any) -> Any:
        if method == "DELETE":
            raise Answer(204)
        return self.me()

    def on_tokens(self, method: str, parts: list[str], query: Any, headers: Any, body: Any) -> Any:
        if method == "DELETE":
            self.tokens = {text: user for text, user in self.tokens.items() if text.split("_")[1] != parts[0]}
            raise Answer(204)
        self.created_tokens += 1
        token = f"alt_made{self.created_tokens}_secret"
        self.tokens[token] = "ann"
        raise Answer(201, {"key": token.split("_")[1], "name": body["name"], "token": token})

    def on_jobs(self, method: str, parts: list[str], query: dict[str, str], headers: Any, body: Any) -> Any:
        if method == "POST" and parts[-1:] == ["check"]:
            problems = [] if body.get("name") else [_name_is_missing("")]
            message = "It would be refused." if problems else "Would start at once."
            return {
                "ok": not problems,
                "fields": problems,
                "warnings": ["No time limit."],
                "normalised": body,
                "gpus": 2,
                "message": message,
            }
        if method == "POST" and (not parts or parts == ["bulk"]):
            return self._create(parts == ["bulk"], headers, body)
        if not parts:
            return self._list(query)
        if parts == ["actions"]:
            return self._act_on_many(body)
        job_id = int(parts[0])
        if job_id not in self.jobs:
            raise refusal(404, "not_found", f"There is no job {job_id}.")
        job = self.jobs[job_id]
        action = parts[1] if len(parts) > 1 else ""
        if action == "logs":
            return self._log(job, query)
        if action == "why":
            keys = ("state", "reasons", "position")
            more = {"queue_length": 7, "round": 41, "decided_at": NOW}
            no_prediction = "" if self.prediction else "It was put on hold."
            more |= {"prediction": self.prediction, "no_prediction": no_prediction}
            return {**{key: job[key] for key in keys}, **more}
        if action == "dependencies":
            return self.dependencies
        if action == "input-workers":
            return self.input_workers
        if action == "preemptions":
            times = {"times": job["preemptions"], "lost_seconds": 75.0, "overhead_seconds": 4.5}
            return {**times, "cost_seconds": 79.5, "short_runs": 0, "may_borrow_at": None}
        if action == "run-time":
            seconds = {"declared_seconds": 7_200.0, "measured_seconds": 15_000.0}
            usual = {"usual_seconds": 6_000.0, "usual_by": "size", "usual_jobs": 12, "usual_error": 0.08}
            return {**seconds, **usual, "gpu_model": "V100", "differs": True, "outlasts_limit": False}
        if action == "attempts":
            return {"results": [job["attempt"]], "next": None, "previous": None}
        if method == "PATCH":
            if job["state"] == "running" and "guarantee" in body:
                raise refusal(409, "conflict", f"guarantee cannot be changed while job {job_id} has GPUs.")
            self.changes.append((job_id, body))
            job.update(body)
        if action == "hold" and job["state"] == "running":
            raise refusal(409, "conflict", f"Job {job_id} is running; only a waiting job can be held.")
        if action == "cancel":
            if job["state"] in ("succeeded", "failed"):
                raise refusal(409, "conflict", f"The job has already {job['state']}.")
            job.update(ended("cancelled", None))
        elif action == "requeue":
            job.update(state="queued", phase="waiting", preemptions=job["preemptions"] + 1)
        elif action in ("hold", "release"):
            job.update(held=action == "hold", phase="held" if action == "hold" else "waiting")
        elif self.timeline.get(job_id):
            job.update(self.timeline[job_id].pop(0))
        return job

    def _act_on_many(self, body: Any) -> Any:
        chosen = body["filter"]
        found = [
            job
            for job in self.jobs.values()
            if job["state"] in ("queued", "running")
            and job["state"] in chosen.get("state", job["state"]).split(",")
            and job["submitted_by"] == chosen.get("submitted_by", job["submitted_by"])
            and (body["action"] != "hold" or not job["held"])
            and str(job["id"]) in chosen.get("id", str(job["id"])).split(",")
        ]
        if body.get("dry_run"):
            queued = sum(job["state"] == "queued" for job in found)
            counts = {"queued": queued, "running": len(found) - queued}
            return {"jobs": len(found), "remaining": 0, "refused": [], **counts}
        # As a rule one at a time, so that a client has to ask again.
        self.bulk_cancels += 1
        now, later = found[: self.cancelled_at_once], found[self.cancelled_at_once :]
        for job in now:
            if body["action"] == "cancel":
                job.update(ended("cancelled", None))
            else:
                job.update(held=body["action"] == "hold")
        counts = {"queued": None, "running": None}
        return {"jobs": len(now), "remaining": len(later), "refused": [], **counts}

    def on_what_if(self, method: str, parts: list[str], query: Any, headers: Any, body: Any) -> Any:
        """Questions are answered when they are looked at for the second time."""
        if method == "POST":
            self.questions.append(body)
            raise Answer(202, {**self.answer, "state": "waiting"})
        self.looks += 1
        return self.answer if self.looks > 1 else {**self.answer, "state": "running"}

    def _create(self, bulk: bool, headers: dict[str, str], body: Any) -> Any:
        key = headers["idempotency-key"]
        if key in self.answers:
            raise Answer(201, self.answers[key], {"Idempotency-Replayed": "true"})
        if self.refuse:
            raise self.refuse
        specs = body["jobs"] if bulk else [body]
        missing = [
            _name_is_missing(f"jobs.{index}." if bulk else "")
            for index, spec in enumerate(specs)
            if not spec.get("name")
        ]
        if missing:
            raise refusal(400, "invalid", "The job specification has a mistake.", missing)
        first = len(self.jobs) + 1
        array = {"number": first, "index": 0, "size": 2, "at_most": None}
        made = [
            self.add(
                len(self.jobs) + 1, name=spec["name"], spec=spec, array=array if spec.get("array") else None
            )
            for spec in specs
        ]
        if specs[0].get("array"):
            self.add(first + 1, array={**array, "index": 1})
        answer = {"jobs": [{"id": job["id"], "name": job["name"]} for job in made]} if bulk else made[0]
        self.answers[key] = answer
        raise Answer(201, answer)

    def _list(self, query: dict[str, str]) -> Any:
        jobs = [
            job
            for job in self.jobs.values()
            if job["state"] in query.get("state", job["state"]).split(",")
            and ("array" not in query or str((job["array"] or {}).get("number")) == query["array"])
        ]
        jobs = [job for job in jobs if job["submitted_by"] == query.get("submitted_by", job["submitted_by"])]
        jobs.sort(key=lambda job: -job["id"])
        start, size = int(query.get("cursor", 0)), int(query.get("page_size", 50))
        following = None
        if start + size < len(jobs):
            # A host that cannot be reached: the client must take only the query from it.
            following = f"http://inside.invalid/api/v1/jobs?cursor={start + size}"
            following += "".join(f"&{key}={value}" for key, value in query.items() if key != "cursor")
        return {"results": jobs[start : start + size], "next": following, "previous": None}

    def _log(self, job: dict[str, Any], query: dict[str, str]) -> Any:
        attempt, rank = int(query.get("attempt", job["attempts"])), int(query.get("rank", 0))
        after = int(query.get("after", -1))
        chunks = self.logs.get((job["id"], attempt, rank), [])
        # Two at a time, so that several pages are read.
        page = list(enumerate(chunks))[after + 1 : after + 3]
        return {
            "attempt": attempt,
            "rank": rank,
            "ranks": [0, 1],
            "chunks": [{"sequence": number, "at": NOW, "text": text} for number, text in page],
            "next_after": page[-1][0] if page else after,
            "complete": (job["id"], attempt, rank) in self.complete,
            "truncated": False,
        }

    def on_nodes(self, method: str, parts: list[str], *_: Any) -> Any:
        return self._named(self.nodes, parts)

    def on_virtual_clusters(self, method: str, parts: list[str], *_: Any) -> Any:
        return self._named(self.virtual_clusters, parts)

    def _named(self, things: list[dict[str, Any]], parts: list[str]) -> Any:
        if not parts:
            return {"results": things, "next": None, "previous": None}
        for thing in things:
            if thing["name"] == parts[0]:
                return thing
        raise refusal(404, "not_found", f"There is nothing called {parts[0]}.")

    def on_events(self, method: str, parts: list[str], query: dict[str, str], *_: Any) -> Any:
        size = int(query["page_size"])
        return {"results": self.events[:size], "next": None, "previous": None}


def _name_is_missing(prefix: str) -> dict[str, str]:
    return {"field": f"{prefix}name", "problem": "is missing", "expected": "1 to 63 letters, digits or -"}


@contextmanager
def serving(api: FakeApi) -> Iterator[FakeApi]:
    """Serve on a free port until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # It sends head and body apart: without this the body waits 40 ms for news of the head.
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            headers = {key.lower(): value for key, value in self.headers.items()}
            content = self.rfile.read(int(headers.get("content-length", 0)))
            body = json.loads(content) if content else None
            path = parts.path.removeprefix("/api/v1")
            with api.changed:
                api.requests.append((self.command, path, headers, body))
                api.changed.notify_all()
                try:
                    answer = Answer(200, api.handle(self.command, parts.path, query, headers, body))
                except Answer as given:
                    answer = given
                if self.command == "POST" and api.lose_answers:
                    api.lose_answers -= 1
                    self.close_connection = True
                    return
            self._send(answer)

        do_POST = do_PATCH = do_DELETE = do_GET

        def _send(self, answer: Answer) -> None:
            raw = isinstance(answer.body, str)
            content = (answer.body if raw else json.dumps(answer.body)).encode()
            if answer.status == 204:
                content = b""
            self.send_response(answer.status)
            self.send_header("Content-Type", "text/html" if raw else "application/json")
            self.send_header("Content-Length", str(len(content)))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    api.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
