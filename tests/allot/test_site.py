"""`allot export` and `allot apply`: a site as one file and back, against the real REST API."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.utils import timezone

from scheduler.models import Budget, CellSpecification, Node
from tenants.models import (
    Guarantee,
    Invitation,
    Membership,
    Quota,
    Role,
    Tenant,
    User,
    VirtualCluster,
    VirtualClusterMember,
)
from tests.allot.in_process import Allot, signed_in
from tests.api.caller import make_token
from tests.scheduler.builders import (
    make_member,
    make_node,
    make_tenant,
    make_user,
    make_vc,
)


@pytest.fixture
def operator(db: None) -> User:
    return make_user("olga", operator=True)


@pytest.fixture
def allot(
    live_server: Any, redis_url: str, operator: User, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    settings: Any,
) -> Allot:  # fmt: skip
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    monkeypatch.chdir(tmp_path)
    return signed_in(monkeypatch, str(live_server.url), make_token(operator))


def test_prices_and_their_currency_are_in_the_file(allot: Allot) -> None:
    hardware()
    Path("site.yaml").write_text("currency: EUR\nprices: {V100: 2.5}\n")
    shown = allot("apply", "-f", "site.yaml", "--dry-run").stdout.splitlines()
    assert shown == ["~ currency: none -> EUR", "~ price of V100: 1.0 -> 2.5"]
    assert allot("apply", "-f", "site.yaml", "--yes").exit_code == 0
    assert "No changes." in allot("apply", "-f", "site.yaml").stderr
    exported = yaml.safe_load(allot("export").stdout)
    assert (exported["currency"], exported["prices"]) == ("EUR", {"P100": 1.0, "V100": 2.5})
    Path("site.yaml").write_text("prices: {V1000: 2}\n")
    assert "there is no such GPU model" in allot("apply", "-f", "site.yaml", "--yes").stderr
    assert allot("admin", "currency").stdout == "Prices and costs are in EUR.\n"
    assert allot("admin", "currency", "usd").stdout == "Prices and costs are in USD.\n"
    assert "COST, USD" in allot("usage").stdout
    assert allot("admin", "currency", "none").stdout == "Prices and costs are in cost units.\n"
    assert "COST, " not in allot("usage").stdout


def hardware() -> None:
    for name in ("v1", "v2"):
        make_node(name, gpus=8, rack="rack-1")
    make_node("p1", gpus=4, gpu_model="P100", rack="rack-2")


def a_whole_site(operator: User) -> None:
    """One of everything that a file can say, beside what it must not: secrets, tokens, who has left."""
    hardware()
    red = make_tenant("red", quota={"*": 16, "V100": 8})
    red.quota_cpus, red.quota_memory_bytes = 128.0, 2**40
    red.save()
    blue = make_tenant("blue")
    Tenant.objects.filter(pk=red.pk).update(title="Red team", most_unfinished_jobs=50)
    ann = make_member(red, "ann", role=Role.ADMIN)
    bob = make_member(red, "bob")
    User.objects.filter(pk=ann.pk).update(email="ann@example.org")
    Membership.objects.create(user=bob, tenant=blue, role=Role.VIEWER)
    User.objects.filter(pk=make_member(red, "gone").pk).update(is_active=False)
    now = timezone.now()
    Budget.objects.create(
        tenant=red, amount=500, action="hold", starts_at=now, period_starts_at=now, period_ends_at=now
    )
    for number, (email, days) in enumerate((("new@example.org", 3), ("late@example.org", -3), ("", 3))):
        Invitation.objects.create(
            tenant=red, role="viewer", email=email, key=f"key{number}", digest=b"s" * 32,
            invited_by=operator, expires_at=now + timedelta(days=days),
        )  # fmt: skip
    make_vc("lab", members={red: 2.0, blue: 1.0}, guaranteed={"P100": 3}, title="The lab")
    VirtualCluster.objects.filter(name="lab").update(
        policy="las", policy_parameters={"quantum_seconds": 60}, sharing="never"
    )
    make_vc("rest", members=[blue])
    Node.objects.filter(name="v2").update(
        cordoned=True, cordoned_by="user olga", cordon_why="fans", cordoned_at=now
    )
    Node.objects.filter(name="p1").update(cordoned=True, cordoned_by="health", returns_itself=True)


def empty_but_for_hardware() -> None:
    """As after an installation: the nodes report, and there is one operator."""
    for model in (
        Budget, Invitation, Quota, Guarantee, VirtualClusterMember, VirtualCluster, CellSpecification,
        Membership, Tenant,
    ):  # fmt: skip
        model.objects.all().delete()
    User.objects.filter(is_operator=False).delete()
    Node.objects.update(cordoned=False, cordoned_by="", cordon_why="", cordoned_at=None, returns_itself=False)


def test_what_is_exported_is_applied_without_changes(allot: Allot, operator: User) -> None:
    a_whole_site(operator)
    exported = allot("export").stdout
    Path("site.yaml").write_text(exported)
    document = yaml.safe_load(exported)
    red = document["tenants"][1]
    assert (red["name"], red["quota"], red["members"]) == (
        "red",
        {"*": 16, "V100": 8},
        {"ann": "admin", "bob": "member"},
    )
    assert (red["quota_cpus"], red["quota_memory_bytes"]) == (128.0, 2**40)
    assert red["invitations"] == [{"email": "new@example.org", "role": "viewer"}]
    assert [node["cordoned"] for node in document["nodes"]] == [False, False, True]
    for secret in ("alt_", "altn_", "token", "digest", "password", "key0", "gone"):
        assert secret not in exported
    done = allot("apply", "-f", "site.yaml")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "No changes.\n")


def test_applied_to_an_empty_platform_it_gives_the_same_export(allot: Allot, operator: User) -> None:
    a_whole_site(operator)
    before = allot("export").stdout
    Path("site.yaml").write_text(before)
    empty_but_for_hardware()
    done = allot("apply", "-f", "site.yaml", "--yes")
    assert done.exit_code == 0, done.stderr
    assert allot("export").stdout == before
    assert allot("apply", "-f", "site.yaml").stderr == "No changes.\n"
    # What is shown once was shown: passwords work, and so does the link.
    password = next(line for line in done.stdout.splitlines() if line.startswith("password of ann: "))
    assert User.objects.get(username="ann").check_password(password.rsplit(" ", 1)[1])
    assert "/invitation#alti_" in done.stdout


def test_cells_are_exported_and_made_with_the_virtual_clusters_that_own_them(
    allot: Allot, operator: User
) -> None:
    hardware()
    make_vc("lab")
    wanted = {
        "types": {"V100-NODE": {"of": "V100", "count": 8, "node": True}},
        # Their names are left out, as people write it.
        "physical": [{"type": "V100-NODE", "nodes": ["v1"]}, {"type": "V100-NODE", "nodes": ["v2"]}],
        "virtual_clusters": {"lab": {"cells": {"V100-NODE": 1}}},
    }
    document = {"virtual_clusters": [{"name": "lab", "guaranteed": {"P100": 2}}], "cells": wanted}
    Path("mine.yaml").write_text(yaml.safe_dump(document))
    assert allot("apply", "-f", "mine.yaml", "--yes").exit_code == 0
    assert allot("apply", "-f", "mine.yaml").stderr == "No changes.\n"
    assert dict(VirtualCluster.objects.get().guarantees.values_list("gpu_model", "gpus")) == {
        "P100": 2,
        "V100": 8,
    }
    exported = allot("export").stdout
    Path("site.yaml").write_text(exported)
    empty_but_for_hardware()
    applied = allot("apply", "-f", "site.yaml", "--yes")
    assert applied.exit_code == 0, applied.stderr
    assert allot("export").stdout == exported
    wanted["physical"][1]["nodes"] = ["v3"]
    Path("mine.yaml").write_text(yaml.safe_dump(document))
    refused = allot("apply", "-f", "mine.yaml", "--yes")
    assert (refused.exit_code, "cells.physical[1].nodes[0]" in refused.stderr) == (2, True)


def test_the_changes_are_shown_and_made_only_when_they_are_confirmed(allot: Allot) -> None:
    red = make_tenant("red", quota={"*": 4})
    make_member(red, "ann", role=Role.ADMIN)
    make_member(red, "bob")
    Path("site.yaml").write_text(
        "users: [{username: carla}]\n"
        "tenants:\n"
        "  - name: red\n"
        "    quota: {'*': 8}\n"
        "    members: {ann: admin, carla: viewer}\n"
        "  - {name: blue, budget: {amount: 10}}\n"
    )
    for options, said in ((["--dry-run"], "6 changes; none was made."), ([], "Make 6 changes?")):
        shown = allot("apply", "-f", "site.yaml", *options, stdin="n\n")
        # Behind them the runner writes what was typed.
        assert shown.stdout.splitlines()[:8] == [
            "+ user carla, with a random password",
            "~ tenant red",
            '    quota: {"*": 4} -> {"*": 8}',
            "+ tenant red: member carla, viewer",
            "- tenant red: member bob, member",
            "+ tenant blue",
            "~ tenant blue",
            '    budget: none -> {"amount": 10}',
        ]
        assert said in shown.stderr
        assert Tenant.objects.count() == 1
    assert allot("apply", "-f", "site.yaml", stdin="y\n").exit_code == 0
    assert set(red.memberships.values_list("user__username", "role")) == {
        ("ann", "admin"),
        ("carla", "viewer"),
    }
    assert Quota.objects.get().gpus == 8
    assert allot("apply", "-f", "site.yaml").stderr == "No changes.\n"
    # What a file does not name stays.
    assert User.objects.filter(username="bob").exists()


def test_guarantees_move_from_one_virtual_cluster_to_another(allot: Allot) -> None:
    make_node("v1", gpus=8)
    for name, gpus in (("a", 2), ("b", 6)):
        make_vc(name, guaranteed={"V100": gpus})
    vcs = [{"name": "a", "guaranteed": {"V100": 5}}, {"name": "b", "guaranteed": {"V100": 3}}]
    Path("site.yaml").write_text(yaml.safe_dump({"virtual_clusters": vcs}))
    assert allot("apply", "-f", "site.yaml", "--yes").exit_code == 0
    assert dict(Guarantee.objects.values_list("virtual_cluster__name", "gpus")) == {"a": 5, "b": 3}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("tenants: [{name: a}, {name: b}, {name: c, quota: 8}]", "tenants[2].quota"),
        ("tenants: [{name: a, qouta: {}}]", "tenants[0].qouta"),
        ("tenants: [{title: A}]", "tenants[0].name"),
        ("tenants: [{name: a}, {name: a}]", "tenants[1].name"),
        ("tenants: [{name: a, members: {nobody-here: admin}}]", "tenants[0].members.nobody-here"),
        ("tenants: [{name: a, members: {gone: admin}}]", "tenants[0].members.gone"),
        ("tenants: [{name: a, budget: {unit: cost}}]", "tenants[0].budget.amount"),
        ("tenants: [{name: a, quota: {V100: true}}]", "tenants[0].quota.V100"),
        ("tenants: [{name: a, quota_cpus: many}]", "tenants[0].quota_cpus"),
        ("tenants: [{name: a, quota_memory_bytes: 1.5}]", "tenants[0].quota_memory_bytes"),
        ("tenants: [{name: a, invitations: [{email: x@y.org}]}]", "tenants[0].invitations[0].role"),
        ("virtual_clusters: [{name: a, members: {nowhere: 1}}]", "virtual_clusters[0].members.nowhere"),
        ("virtual_clusters: [{name: a, policy_plugin: las}]", "virtual_clusters[0].policy_plugin"),
        ("nodes: [{name: n, cordoned: 'yes'}]", "nodes[0].cordoned"),
        ("nodes: {n: {}}", "nodes"),
        ("tennants: []", "tennants"),
        ("cells: {types: {T: {of: V100, count: 0}}}", "cells.types.T"),
    ],
)
def test_a_wrong_file_changes_nothing_and_names_the_place(allot: Allot, text: str, place: str) -> None:
    User.objects.filter(pk=make_user("gone").pk).update(is_active=False)
    Path("site.yaml").write_text(f"{text}\n")
    refused = allot("apply", "-f", "site.yaml", "--yes")
    assert (refused.exit_code, place in refused.stderr) == (2, True), refused.stderr
    assert not Tenant.objects.exists()


def test_what_the_server_refuses_half_way_is_told_with_its_place(allot: Allot) -> None:
    make_node("v1", gpus=4)
    Path("site.yaml").write_text(
        "tenants: [{name: red}, {name: blue, quota: {'no model': 1}}, {name: green}]\n"
    )
    refused = allot("apply", "-f", "site.yaml", "--yes")
    assert refused.exit_code == 1
    assert "tenants[1].quota" in refused.stderr
    assert "Made: 2 changes. Failed: this one. Not tried: 1 change." in refused.stderr
    assert set(Tenant.objects.values_list("name", flat=True)) == {"red", "blue"}
    Path("site.yaml").write_text("tenants: [{name: red}, {name: blue, quota: {V100: 1}}, {name: green}]\n")
    assert "2 changes made." in allot("apply", "-f", "site.yaml", "--yes").stderr


def test_an_invitation_is_not_made_again_once_it_was_accepted(
    allot: Allot, operator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    red = make_tenant("red")
    Path("site.yaml").write_text(
        "tenants: [{name: red, invitations: [{email: Ann@example.org, role: member}]}]\n"
    )
    made = allot("apply", "-f", "site.yaml", "--yes")
    assert made.stdout.splitlines()[0] == "+ tenant red: invitation of Ann@example.org, member"
    assert allot("apply", "-f", "site.yaml").stderr == "No changes.\n"
    # Another role: the open one is revoked.
    text = Path("site.yaml").read_text()
    Path("site.yaml").write_text(text.replace("role: member", "role: admin"))
    assert "in place of member" in allot("apply", "-f", "site.yaml", "--yes").stdout
    assert Invitation.objects.get(ended_at=None).role == "admin"
    Invitation.objects.update(ended_at=timezone.now())
    ann = make_member(red, "ann", role=Role.ADMIN)
    User.objects.filter(pk=ann.pk).update(email="ann@example.org")
    assert allot("apply", "-f", "site.yaml").stderr == "No changes.\n"


def test_only_operators_read_and_write_a_site(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = make_member(make_tenant("red"), "ann", role=Role.ADMIN)
    monkeypatch.setenv("ALLOT_TOKEN", make_token(ann))
    Path("site.yaml").write_text("tenants: [{name: blue}]\n")
    for command in (("export",), ("apply", "-f", "site.yaml", "--yes")):
        refused = allot(*command)
        assert (refused.exit_code, refused.stdout, "operators" in refused.stderr) == (3, "", True)
    assert Tenant.objects.count() == 1


def test_a_file_is_of_bounded_size(allot: Allot) -> None:
    Path("site.yaml").write_text(f"# {'x' * 1_000_000}\ntenants: []\n")
    refused = allot("apply", "-f", "site.yaml")
    assert (refused.exit_code, "larger than" in refused.stderr) == (2, True)
