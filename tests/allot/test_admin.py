"""`allot admin`: people and places by command, against the real REST API."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduler.models import Budget, Job, MaintenanceWindow, Node, Reservation, UserBudget
from tenants.models import Invitation, Role, Tenant, Token, User, VirtualCluster
from tests.allot.in_process import Allot, signed_in
from tests.api.caller import make_token
from tests.scheduler.builders import (
    gpus_of,
    make_attempt,
    make_job,
    make_member,
    make_node,
    make_tenant,
    make_user,
    make_vc,
)

PASSWORD = "correct-horse-9"


@pytest.fixture
def allot(live_server: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Allot:
    """Signed in as olga, an operator."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    olga = make_user("olga", operator=True, password=PASSWORD)
    return signed_in(monkeypatch, str(live_server.url), make_token(olga))


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_users_are_made_found_changed_deactivated_and_back(allot: Allot) -> None:
    make_tenant("red")
    made = allot("admin", "user", "add", "ann", "--email", "ann@example.org", "--tenant", "red")
    assert User.objects.get(username="ann").check_password(made.stdout.strip())
    assert "ann is a member of tenant red" in made.stderr
    assert allot("admin", "user", "list", "EXAMPLE.org", "-q").stdout == "ann\n"
    assert rows(allot("admin", "user", "list").stdout)[1] == [
        "ann", "active", "ann@example.org", "never", "red", "(member)",
    ]  # fmt: skip
    [shown] = json.loads(allot("admin", "user", "list", "--tenant", "red", "--json").stdout)
    assert shown["tenants"] == [{"name": "red", "role": "member"}]
    assert "ann@example.org" in allot("admin", "user", "show", "ann").stdout

    ann = User.objects.get(username="ann")
    token = make_token(ann)
    job = make_job(tenant=Tenant.objects.get(), virtual_cluster=make_vc(), submitted_by=ann)
    # Who says no has changed nothing.
    asked = allot("admin", "user", "deactivate", "ann", stdin="n\n")
    assert (asked.exit_code, "1 waiting job to be held" in asked.stderr) == (1, True)
    assert User.objects.get(username="ann").is_active
    done = allot("admin", "user", "deactivate", "ann", "--yes", "--json")
    assert json.loads(done.stdout) == {"running": 0, "held": 1, "cancelled": 0, "remaining": 0}
    assert Job.objects.get(pk=job.pk).held
    assert allot("admin", "user", "list", "--inactive", "-q").stdout == "ann\n"
    assert "is active" in allot("admin", "user", "reactivate", "ann").stdout
    assert User.objects.get(username="ann").is_active
    assert token not in allot("admin", "token", "list", "--user", "ann").stdout
    cancelled = allot("admin", "user", "deactivate", "ann", "--jobs", "cancel", "-y")
    assert "1 job to be cancelled" in cancelled.stdout


def test_what_takes_the_person_asks_for_the_password(allot: Allot) -> None:
    make_user("ann")
    wish = ("admin", "user", "set", "ann", "--operator", "--password-stdin")
    assert allot(*wish, stdin="wrong\n").exit_code == 1
    assert allot(*wish, stdin=f"{PASSWORD}\n").exit_code == 0
    assert User.objects.get(username="ann").is_operator
    reset = allot("admin", "user", "password", "ann", "-y", "--password-stdin", stdin=f"{PASSWORD}\n")
    assert User.objects.get(username="ann").check_password(reset.stdout.strip())
    nothing = allot("admin", "user", "set", "ann")
    assert (nothing.exit_code, "--email" in nothing.stderr) == (2, True)


def test_a_tenant_from_its_making_to_its_end(allot: Allot) -> None:
    assert allot("admin", "tenant", "add", "red", "--title", "Red team").exit_code == 0
    twice = allot("admin", "tenant", "add", "red")
    assert (twice.exit_code, "name" in twice.stderr, "is taken" in twice.stderr) == (1, True, True)
    changed = allot("admin", "tenant", "set", "red", "--most-jobs", "5", "--json")
    assert json.loads(changed.stdout)["most_unfinished_jobs"] == 5
    assert allot("admin", "tenant", "set", "red", "--most-jobs", "many").exit_code == 2
    allot("admin", "tenant", "set", "red", "--most-jobs", "usual")
    assert Tenant.objects.get().most_unfinished_jobs is None

    make_user("ann")
    assert allot("admin", "member", "add", "red", "ann").stdout == "ann is a member of tenant red\n"
    assert allot("admin", "member", "set", "red", "ann", "admin").exit_code == 0
    assert rows(allot("admin", "member", "list", "red").stdout)[1] == ["ann", "admin", "-"]
    assert allot("admin", "tenant", "remove", "red", stdin="n\n").exit_code == 1
    refused = allot("admin", "tenant", "remove", "red", "--yes")
    assert (refused.exit_code, "1 member" in refused.stderr) == (1, True)
    allot("admin", "member", "remove", "red", "ann", "--yes")
    assert allot("admin", "tenant", "remove", "red", "--yes").stdout == "tenant red is removed\n"
    assert allot("admin", "tenant", "list", "-q").stdout == ""
    assert allot("admin", "tenant", "show", "red").exit_code == 3


def test_a_quota_of_a_model_that_no_node_had_is_refused_with_the_known_ones(allot: Allot) -> None:
    make_tenant("red")
    make_node(gpu_model="V100")
    wrong = allot("admin", "quota", "set", "red", "V10O=8")
    assert wrong.exit_code == 1
    assert all(words in wrong.stderr for words in ("limits.V10O", "no GPU model 'V10O'", "one of: V100"))


def test_quotas_and_budgets(allot: Allot) -> None:
    make_tenant("red")
    assert allot("admin", "quota", "set", "red", "V100=8", "*=16").stdout == "tenant red: *:16,V100:8\n"
    assert rows(allot("admin", "quota", "list").stdout)[1] == ["red", "*:16,V100:8"]
    assert json.loads(allot("admin", "quota", "show", "red", "--json").stdout)["limits"] == {
        "*": 16,
        "V100": 8,
    }
    wrong = allot("admin", "quota", "set", "red", "V100=eight")
    assert (wrong.exit_code, "V100" in wrong.stderr) == (2, True)
    wrong = allot("admin", "quota", "set", "red", "no model=8")
    assert (wrong.exit_code, "limits.no model" in wrong.stderr) == (1, True)
    both = allot("admin", "quota", "set", "red", "*=4", "--cpus", "64", "--memory", "1.5TiB")
    assert both.stdout == "tenant red: *:4, 64 CPUs, 1536 GiB\n"
    assert json.loads(allot("admin", "quota", "show", "red", "--json").stdout)["memory_bytes"] == 1536 * 2**30
    assert rows(allot("admin", "quota", "list").stdout)[1] == ["red", "*:4,", "64", "CPUs,", "1536", "GiB"]
    wrong = allot("admin", "quota", "set", "red", "--memory", "much")
    assert (wrong.exit_code, "--memory much" in wrong.stderr) == (2, True)
    wrong = allot("admin", "quota", "set", "red")
    assert (wrong.exit_code, "--cpus or --memory" in wrong.stderr) == (2, True)
    assert "no quota" in allot("admin", "quota", "remove", "red").stdout

    refused = allot("admin", "budget", "set", "red", "-5")
    assert (refused.exit_code, "-5.0 is not in the range" in refused.stderr) == (2, True)
    allot("admin", "budget", "set", "red", "500", "--action", "hold")
    assert rows(allot("admin", "budget", "list").stdout)[1] == [
        "red", "500", "gpu", "hours", "month", "hold", "no",
    ]  # fmt: skip
    assert json.loads(allot("admin", "budget", "show", "red", "--json").stdout)["budget"]["amount"] == 500
    allot("admin", "budget", "remove", "red")
    assert not Budget.objects.exists()


def test_an_admin_limits_what_members_hold_and_use_up(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    red = make_tenant("red", quota={"*": 8})
    ann = make_member(red, "ann", role=Role.ADMIN)
    make_member(red, "bob")
    monkeypatch.setenv("ALLOT_TOKEN", make_token(ann))
    made = allot("admin", "quota", "user", "set", "red", "bob", "--gpus", "4", "--memory", "64GiB")
    assert made.stdout == "user bob of tenant red: *:4, 64 GiB\nholds now: 0 CPUs, 0 MiB\n"
    refused = allot("admin", "quota", "user", "set", "red", "bob", "--gpus", "9")
    assert (refused.exit_code, "gpus: 9 is more than tenant red may hold, 8" in refused.stderr) == (1, True)
    refused = allot("admin", "budget", "user", "set", "red", "bob", "-5")
    assert (refused.exit_code, "-5.0 is not in the range" in refused.stderr) == (2, True)
    allot("admin", "budget", "user", "set", "red", "bob", "50", "--period", "week", "--action", "hold")
    assert rows(allot("admin", "quota", "user", "list", "red").stdout)[1] == [
        "bob", "*:4,", "64", "GiB", "50", "GPU-hours", "a", "week,", "hold",
    ]  # fmt: skip
    shown = json.loads(allot("admin", "budget", "user", "show", "red", "bob", "--json").stdout)
    assert shown["budget"]["amount"] == 50
    assert "no quota" in allot("admin", "quota", "user", "remove", "red", "bob").stdout
    assert "no budget" in allot("admin", "budget", "user", "remove", "red", "bob").stdout
    assert not UserBudget.objects.exists()
    assert allot("admin", "quota", "user", "set", "red", "bob").exit_code == 2
    assert allot("admin", "quota", "user", "show", "red", "nobody-here").exit_code == 3


def test_an_admin_of_a_tenant_manages_its_people_and_nothing_else(
    allot: Allot, monkeypatch: pytest.MonkeyPatch
) -> None:
    red = make_tenant("red")
    make_tenant("blue")
    ann = make_member(red, "ann", role=Role.ADMIN)
    make_member(red, "bob")
    monkeypatch.setenv("ALLOT_TOKEN", make_token(ann))
    assert allot("admin", "tenant", "list", "-q").stdout == "red\n"
    made = allot("admin", "invite", "add", "red", "--role", "viewer", "--days", "3")
    assert "/invitation#" in made.stdout
    key = Invitation.objects.get().key
    assert rows(allot("admin", "invite", "list", "red").stdout)[1][:2] == [key, "viewer"]
    assert allot("admin", "invite", "remove", "red", key, "--yes").exit_code == 0
    assert json.loads(allot("admin", "invite", "list", "red", "--json").stdout) == []
    assert allot("admin", "member", "set", "red", "bob", "viewer").exit_code == 0
    for forbidden in (
        ("user", "list"),
        ("user", "deactivate", "bob", "-y"),
        ("tenant", "add", "green"),
        ("tenant", "remove", "red", "-y"),
        ("tenant", "show", "blue"),
        ("member", "list", "blue"),
        ("quota", "set", "red", "*=9"),
        ("budget", "set", "red", "9"),
        ("node", "add", "n1"),
        ("vc", "add", "mine"),
        ("token", "list"),
    ):
        refused = allot("admin", *forbidden)
        assert (refused.exit_code, refused.stdout) == (3, ""), forbidden


def test_nodes_and_virtual_clusters(allot: Allot) -> None:
    added = allot("admin", "node", "add", "n1", "--rack", "rack-2")
    assert json.loads(added.stdout)["token"].startswith("altn_")
    assert json.loads(added.stdout)["inventory"] == {"kind": "nvml"}
    before = Node.objects.get().token_key
    again = allot("admin", "node", "token", "n1", "--yes", "--simulated", "A100")
    inventory = json.loads(again.stdout)["inventory"]
    assert (inventory["kind"], inventory["gpu_model"], len(inventory["gpus"])) == ("simulated", "A100", 4)
    assert Node.objects.get().token_key != before
    allot("admin", "node", "set", "n1", "--cordon", "--rack", "rack-3", "-m", "fans")
    node = Node.objects.get()
    assert (node.rack, node.cordoned, node.cordon_why) == ("rack-3", True, "fans")
    assert "in service" in allot("admin", "node", "set", "n1", "--uncordon").stdout
    assert "n1" in allot("nodes").stdout
    assert allot("admin", "node", "remove", "n1", "--yes").exit_code == 0

    make_node("v1", gpus=8)
    for name in ("red", "blue"):
        make_tenant(name)
    parts = ("--guaranteed", "V100=4", "--member", "red", "--member", "blue=2", "--policy", "las")
    made = allot("admin", "vc", "add", "lab", *parts)
    assert made.exit_code == 0, made.stderr
    assert rows(made.stdout)[2:] == [
        ["Guaranteed", "V100:4"],
        ["Members", "blue", "(weight", "2),", "red", "(weight", "1)"],
    ]
    too_many = allot("admin", "vc", "set", "lab", "--guaranteed", "V100=9")
    assert (too_many.exit_code, "guaranteed.V100" in too_many.stderr) == (1, True)
    assert allot("admin", "vc", "set", "lab", "--member", "red=heavy").exit_code == 2
    allot("admin", "vc", "set", "lab", "--title", "The lab")
    assert json.loads(allot("vcs", "lab", "-o", "json").stdout)["title"] == "The lab"
    assert VirtualCluster.objects.get().guarantees.get().gpus == 4
    assert allot("admin", "vc", "remove", "lab", "--yes").exit_code == 0
    assert json.loads(allot("vcs", "-o", "json").stdout) == []


def test_a_maintenance_window_from_its_announcement_to_its_end(allot: Allot) -> None:
    node = make_node("a1", rack="a")
    make_node("b1", rack="b")
    job = make_job(name="bert")
    make_attempt(job, gpus_of(node)[:1])
    when = ("--start", "36h", "--end", "4h")
    added = allot("admin", "maintenance", "add", "b1", "--rack", "a", "-m", "new fans", *when)
    assert added.exit_code == 0, added.stderr
    window = MaintenanceWindow.objects.get()
    assert (window.nodes, window.made_by) == (["a1", "b1"], "user olga")
    assert window.ends_at - window.starts_at == timedelta(hours=4)
    assert added.stdout.startswith(f"maintenance window {window.id}: ")
    assert "2 nodes, 1 job there" in added.stdout

    heading, line = rows(allot("maintenance").stdout)
    assert heading == ["ID", "STATE", "STARTS", "ENDS", "NODES", "JOBS", "REASON"]
    assert [line[0], line[1], *line[6:]] == [
        str(window.id),
        "ANNOUNCED",
        "a1",
        "b1",
        str(job.id),
        "new",
        "fans",
    ]
    assert "closes on" in allot("nodes", "a1").stdout
    assert "its node a1 closes on" in allot("show", str(job.id)).stdout

    again = allot("admin", "maintenance", "add", "a1", "-m", "belts", "--start", "37h", "--end", "1h")
    assert (again.exit_code, f"maintenance window {window.id} (new fans)" in again.stderr) == (1, True)
    changed = allot("admin", "maintenance", "change", str(window.id), "--end", "6h", "--node", "b1")
    assert "1 node, 0 jobs there" in changed.stdout
    window.refresh_from_db()
    assert (window.nodes, window.ends_at - window.starts_at) == (["b1"], timedelta(hours=6))
    assert allot("admin", "maintenance", "change", str(window.id)).exit_code == 2

    now = timezone.now()
    MaintenanceWindow.objects.update(starts_at=now - timedelta(hours=1), ends_at=now + timedelta(hours=1))
    assert "MAINTENANCE" in allot("nodes", "b1").stdout
    assert "maint" in allot("slurm", "sinfo").stdout
    assert allot("admin", "maintenance", "cancel", str(window.id), "--yes").exit_code == 0
    assert allot("maintenance").stdout == ""
    assert json.loads(allot("admin", "maintenance", "list", "--json").stdout)[0]["state"] == "cancelled"


def test_a_reservation_from_its_making_to_its_end(allot: Allot) -> None:
    make_node("a1")
    red = make_tenant("red")
    make_vc("shared", members=[red], guaranteed={"V100": 8})
    wanted = ("--tenant", "red", "--gpus", "8", "--gpu-model", "V100", "--start", "36h", "--end", "4h")
    made = allot("admin", "reservation", "create", "paper", *wanted, "-m", "deadline")
    assert made.exit_code == 0, made.stderr
    row = Reservation.objects.get()
    assert (row.name, row.tenant, row.nodes, row.made_by) == ("paper", red, ["a1"], "user olga")
    assert row.ends_at - row.starts_at == timedelta(hours=4)
    assert made.stdout.startswith(f"reservation {row.id} (paper): ")

    heading, line = rows(allot("admin", "reservation", "ls").stdout)
    assert heading == ["ID", "NAME", "STATE", "FOR", "GPUS", "STARTS", "ENDS", "NODES", "NOTE"]
    assert [*line[:6], *line[-2:]] == [
        str(row.id), "paper", "ANNOUNCED", "red", "8", "V100", "a1", "deadline",
    ]  # fmt: skip
    again = allot("admin", "reservation", "create", "more", *wanted)
    assert (again.exit_code, "0 V100 can be reserved" in again.stderr) == (1, True)

    submit = ("submit", "--gpus", "8", "--tenant", "red", "--vc", "shared", "--reservation")
    assert allot(*submit, "paper", "--", "true").exit_code == 0
    assert Job.objects.get().spec["reservation"] == "paper"
    refused = allot(*submit, "papre", "--", "true")
    assert (refused.exit_code, 'did you mean "paper"' in refused.stderr) == (1, True)

    assert "a1" in allot("admin", "reservation", "change", str(row.id), "--end", "6h").stdout
    row.refresh_from_db()
    assert row.ends_at - row.starts_at == timedelta(hours=6)
    assert allot("admin", "reservation", "change", str(row.id)).exit_code == 2
    assert allot("admin", "reservation", "cancel", str(row.id), "--yes").exit_code == 0
    assert allot("admin", "reservation", "ls").stdout == ""
    every = allot("admin", "reservation", "ls", "--all", "--output", "json")
    assert json.loads(every.stdout)[0]["state"] == "cancelled"


def test_tokens_of_others_are_ended(allot: Allot) -> None:
    ann = make_user("ann")
    make_token(ann)
    key = Token.objects.get(user=ann).key
    assert key in [row["key"] for row in json.loads(allot("admin", "token", "list", "--json").stdout)]
    assert allot("admin", "token", "remove", key, "--yes").stdout == f"{key} revoked\n"
    assert not Token.objects.filter(user=ann).exists()
