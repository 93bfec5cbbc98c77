"""The site's own rules for failures, from what an operator writes to what becomes of a job."""

from typing import Any

import pytest
from django.db import connection

from nodeagent.messages import PROTOCOL, PartReport, Report
from scheduler.agents.services.reports import report_apply
from scheduler.jobs.failures import services as failure_services
from scheduler.jobs.failures.services import MatchTimeout, first_match, rules_read, rules_written
from scheduler.models import Event, Job
from tenants.errors import Invalid
from tests.api.caller import is_error
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node
from tests.scheduler.conftest import World, world

pytestmark = pytest.mark.django_db

__all__ = ["world"]

SCRATCH = {
    "name": "scratch-full",
    "class": "scratch",
    "retry": "elsewhere",
    "pattern": r"^OSError: .*/scratch/.*\(quota\)$",
    "severity": "warning",
    "advice": "Remove old checkpoints under /scratch.",
}
LICENCE = {"name": "no-licence", "class": "licence", "retry": "never", "exit_codes": [75]}
KILLED = {"name": "killed", "class": "cpu_out_of_memory", "signals": [9], "pattern": "slurm-epilog"}


def test_rules_are_read_again_as_they_are_written():
    rules = rules_read([SCRATCH, LICENCE, KILLED])
    assert rules_read(rules_written(rules)) == rules
    assert [rule.failure.words for rule in rules] == ["scratch full", "no licence", "it needs more memory"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "Scratch Full"}, "name"),
        ({"class": "platform"}, "class"),
        ({"retry": None}, "retry"),
        ({"retry": "often"}, "retry"),
        ({"class": "disk_full"}, "retry"),
        ({"pattern": "(("}, "pattern"),
        ({"pattern": "x" * 501}, "pattern"),
        ({"pattern": ""}, "pattern"),
        ({"exit_codes": [0]}, "exit_codes"),
        ({"signals": [True]}, "signals"),
        ({"severity": "grave"}, "severity"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(changes: dict, field: str):
    with pytest.raises(Invalid) as raised:
        rules_read([LICENCE, {**SCRATCH, **changes}])
    (problem,) = raised.value.fields
    assert (problem.field, bool(problem.expected)) == (f"rules.1.{field}", True)


def test_two_rules_say_the_same_of_a_class():
    with pytest.raises(Invalid, match="another rule defines scratch differently"):
        rules_read([SCRATCH, {**LICENCE, "class": "scratch"}])
    with pytest.raises(Invalid, match="is used twice"):
        rules_read([SCRATCH, SCRATCH])


def test_a_pattern_that_explodes_is_given_up_and_the_transaction_goes_on(monkeypatch):
    monkeypatch.setattr(failure_services, "PATTERNS_SECONDS", 0.05)
    (rule,) = rules_read([{**SCRATCH, "pattern": r"^(x+)(x+)\1\2x$"}])
    with pytest.raises(MatchTimeout):
        first_match([rule], "x" * 5_000)
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('statement_timeout')")
        assert cursor.fetchone() == ("0",)


def fail(job: Job, **fields: Any) -> None:
    """Let an attempt of the job fail on a node of its own."""
    node = make_node(gpus=1)
    attempt = make_attempt(job, gpus_of(node))
    part = PartReport(attempt=attempt.id, state="exited", started_at=1.0, **fields)
    report_apply(node, Report(protocol=PROTOCOL, boot=node.boot, generation=0, parts=(part,)))
    job.refresh_from_db()


def test_a_rule_decides_before_the_built_in_ones(world: World):
    world.operator.put("/failure-rules", {"rules": [LICENCE, SCRATCH]})
    make_node(gpus=1), make_node(gpus=1)  # So that there is a choice of nodes.
    job = make_job()
    end = {"exit_code": 1, "category": "user_error", "message": "KeyError: 'x'"}
    fail(job, **end, last_lines="epoch 3\nOSError: [Errno 122] /scratch/a (quota)\nKeyError: 'x'\n")
    attempt = job.attempts.get()
    assert (attempt.failure, attempt.matched_rule["name"]) == ("scratch", "scratch-full")
    assert (job.state, job.avoid_nodes) == ("queued", [attempt.parts.get().node_id])
    why = Event.objects.get(kind="job.requeued").message
    assert why.startswith(
        "KeyError: 'x'. Remove old checkpoints under /scratch. It is tried again: scratch full;"
    )
    # Rules that were taken away leave known what was said of earlier attempts.
    world.operator.put("/failure-rules", {"rules": []})
    fail(job, **end, last_lines="KeyError: 'x'\n")
    assert (job.state, job.attempts.get(number=2).matched_rule) == ("failed", None)
    shown = world.operator.get(f"/jobs/{job.id}/attempts").json()["results"]
    rules = {one["number"]: one["matched_rule"] for one in shown}
    assert rules == {1: {k: SCRATCH[k] for k in ("name", "severity", "advice")}, 2: None}


def test_what_the_platform_did_is_no_matter_for_rules(world: World):
    world.operator.put("/failure-rules", {"rules": [{**LICENCE, "exit_codes": [143]}]})
    job = make_job()
    fail(job, exit_code=143, category="lost", message="The node agent was stopped.")
    assert (job.state, job.attempts.get().matched_rule) == ("queued", None)


def test_rules_are_tried_on_an_output_before_they_are_in_force(world: World):
    def tried(**asked: Any) -> tuple[str | None, bool | None]:
        found = world.operator.post("/failure-rules/test", {"log": "", **asked}).json()
        return found["rule"] and found["rule"]["name"], found["tried_again"]

    rules = [LICENCE, SCRATCH, KILLED]
    line = "OSError: disc /scratch/x (QUOTA)"
    assert tried(rules=rules, log=f"one\n{line}\ntwo") == ("scratch-full", True)
    assert tried(rules=rules, log=f"one {line}") == (None, None), "^ and $ are the ends of a line"
    assert tried(rules=rules, exit_code=75) == ("no-licence", False)
    assert tried(rules=rules, log="slurm-epilog: bye", exit_code=137) == ("killed", False)
    assert tried(rules=rules, log="slurm-epilog: bye") == (None, None)
    assert tried(exit_code=75) == (None, None), "none of them is in force"
    world.operator.put("/failure-rules", {"rules": rules})
    assert tried(exit_code=75) == ("no-licence", False)
    seen = world.member.get("/failure-rules").json()
    assert [rule["name"] for rule in seen["rules"]] == ["no-licence", "scratch-full", "killed"]
    assert ("disk_full", "platform") in {(known["name"], known["layer"]) for known in seen["classes"]}
    body = is_error(world.operator.put("/failure-rules", {"rules": "all"}), 400, "invalid")
    assert body["fields"][0]["field"] == "rules"
