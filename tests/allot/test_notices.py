"""`allot notifications`, `allot webhook` and `allot budget` against the real REST API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.models import Budget, Delivery, Job, NotificationSettings, UsageSubscription, Webhook
from tests.allot.in_process import signed_in
from tests.api.caller import make_token
from tests.scheduler.builders import make_member, make_node, make_tenant, make_user, make_vc


def test_what_is_told_and_used_up_by_command(
    live_server: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_node("node-1", gpus=4)
    red = make_tenant("red")
    make_vc("red", members=[red], guaranteed={"V100": 4})
    admin = make_member(red, "ada", role="admin")
    allot = signed_in(monkeypatch, str(live_server.url), make_token(admin))

    shown = allot("notifications", "--jobs", "all", "--no-tenants", "--address", "ada@example.org").stdout
    assert shown.splitlines()[:3] == ["Address    ada@example.org", "Jobs       all", "Tenants    no"]
    assert "no mail server" in shown
    chosen = NotificationSettings.objects.get(user=admin)
    assert (chosen.jobs, chosen.tenants, chosen.cluster) == ("all", False, True)

    shown = allot("notifications", "--report", "red=week").stdout
    assert "Report     red, each week" in shown.splitlines()
    assert UsageSubscription.objects.get(user=admin).tenant == red
    assert allot("notifications", "--report", "month").exit_code == 3, "the cluster's are the operators'"
    assert allot("notifications", "--report", "red=daily").exit_code == 2
    assert "Report" not in allot("notifications", "--report", "red=none").stdout

    for notify, kept in (("end,preemption", ["end", "preemption"]), ("none", [])):
        allot("submit", "--gpus", "1", "--notify", notify, "--", "true")
        assert Job.objects.latest("id").spec["notify"] == {"email": kept}
    assert "notify.email" in allot("submit", "--gpus", "1", "--notify", "ends", "--", "true").stderr

    add = ("webhook", "add", "https://ci.example.org/gpus", "--tenant", "red")
    made = allot(*add, "--topic", "job.failed", "--title", "CI")
    webhook = Webhook.objects.get()
    assert made.stdout.startswith("whsec_")
    assert "is not shown again" in made.stderr
    assert allot(*add, "--topic", "node.lost").exit_code == 1
    assert allot("webhook", "list").exit_code == 3, "the cluster's are the operators'"
    listed = allot("webhook", "list", "--tenant", "red").stdout.splitlines()[1].split()
    assert listed == [str(webhook.id), "READY", webhook.url, "CI", "job.failed"]
    allot("webhook", "test", str(webhook.id))
    delivery = Delivery.objects.get()
    rows = allot("webhook", "deliveries", str(webhook.id), "--state", "waiting").stdout.splitlines()
    assert rows[1].split()[:3] == [str(delivery.id), "test", "WAITING"]
    Delivery.objects.update(state="given_up", status=500, reply="no", tries=9, seconds=0.25)
    assert "0.25s  500 no" in allot("webhook", "deliveries", str(webhook.id)).stdout
    allot("webhook", "redeliver", str(webhook.id), str(delivery.id))
    delivery.refresh_from_db()
    assert (delivery.state, delivery.tries) == ("waiting", 0)
    assert allot("webhook", "rotate", str(webhook.id)).stdout != made.stdout
    assert "OFF" in allot("webhook", "set", str(webhook.id), "--off").stdout
    assert "OFF" in allot("webhook", "show", str(webhook.id)).stdout
    assert allot("webhook", "test", str(webhook.id)).exit_code == 1
    allot("webhook", "remove", str(webhook.id))
    assert not Webhook.objects.exists()

    assert allot("budget", "set", "red", "10").exit_code == 3
    assert allot("budget", "show", "red").stdout.startswith("Budget     none\nUsed       0.0 GPU-hours since")
    monkeypatch.setenv("ALLOT_TOKEN", make_token(make_user(operator=True)))
    refused = allot("budget", "set", "red", "-5")
    assert (refused.exit_code, "-5.0 is not in the range" in refused.stderr) == (2, True)
    shown = allot(
        "budget", "set", "red", "10", "--unit", "cost", "--period", "none", "--action", "hold"
    ).stdout
    assert shown.startswith("Budget     10 in cost, 0% used\n")
    assert shown.endswith("At 100 %   nothing more is started\n")
    assert json.loads(allot("budget", "show", "red", "-o", "json").stdout)["budget"]["unit"] == "cost"
    allot("budget", "remove", "red")
    assert not Budget.objects.exists()
