"""`allot policies`, `allot vc policy`, `allot vc whole` and `allot spare` against the real REST API."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from allot import schema
from allot.client import Client
from scheduler.models import ClusterSettings, ViewComputing
from scheduler.models.nodes import ServingPool
from tenants.models import VirtualCluster
from tests.allot.in_process import Allot, signed_in
from tests.api.caller import make_token
from tests.scheduler.builders import make_cells, make_node, make_tenant, make_user, make_vc


@pytest.fixture
def allot(live_server: Any, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Allot:
    """Signed in as an operator of a cluster of ten GPUs of two models and two virtual clusters."""
    research = make_tenant("research")
    make_vc("shared", members=[research], guaranteed={"V100": 2})
    make_vc("speech", members=[make_tenant("speech")], guaranteed={"V100": 4, "K80": 1})
    make_node("v100-1", gpus=8)
    make_node("k80-1", gpus=2, gpu_model="K80")
    monkeypatch.chdir(tmp_path)

    return signed_in(monkeypatch, str(live_server.url), make_token(make_user("olga", operator=True)))


def test_policies_are_listed_with_their_defaults(allot: Allot) -> None:
    every = allot("policies").stdout
    assert "fifo" in every
    assert "backfill=true" in every
    assert "consolidate" in every
    one = allot("policies", "fifo").stdout
    assert one.splitlines()[2].split() == ["PARAMETER", "TYPE", "DEFAULT", "CHOICES"]
    assert one.splitlines()[3].split()[:3] == ["backfill", "bool", "true"]
    assert json.loads(allot("policies", "fifo", "-o", "json").stdout)["name"] == "fifo"
    assert {"policies", "placers"} == set(json.loads(allot("policies", "-o", "json").stdout))
    refused = allot("policies", "fifa")
    assert refused.exit_code == 1
    assert "There is no policy or placer 'fifa'; there are " in refused.stderr


def test_a_virtual_cluster_gets_another_policy(allot: Allot) -> None:
    done = allot("vc", "policy", "shared", "fifo:backfill=false", "--placer", "delay:relax_after_seconds=60")
    assert done.stdout == (
        "Virtual cluster shared: policy fifo with backfill=false, placer delay:relax_after_seconds=60,"
        " from the next round on.\n"
    )
    vc = VirtualCluster.objects.get(name="shared")
    assert (vc.policy, vc.policy_parameters) == ("fifo", {"backfill": False})
    # Without parameters it means the defaults, whatever was chosen before.
    allot("vc", "policy", "shared", "fifo")
    vc.refresh_from_db()
    assert (vc.policy, vc.policy_parameters) == ("fifo", {})
    assert (vc.placer, vc.placer_parameters) == ("delay", {"relax_after_seconds": 60})
    assert vc.guarantees.get().gpus == 2
    shown = allot("vc", "show", "shared").stdout
    assert ["Placer", "delay:relax_after_seconds=60"] in [line.split() for line in shown.splitlines()]


def test_mistakes_are_told(allot: Allot) -> None:
    for arguments, words in (
        (("vc", "policy", "shared", "fifa"), "policy_plugin.name: there is no 'fifa'"),
        (
            ("vc", "policy", "shared", "fifo:backfill=often"),
            "policy_plugin.parameters.backfill: 'often' is not a valid backfill of fifo",
        ),
        (
            ("vc", "policy", "shared", "fifo:backfill"),
            "backfill has no value: write backfill=value",
        ),
        (("vc", "policy", "shared", "las", "--placer", "x"), "placer_plugin.name: there is no 'x'"),
        (("spare", "policy", "fifa"), "spare_policy_plugin.name: there is no 'fifa'"),
    ):
        refused = allot(*arguments)
        assert refused.exit_code == 1
        assert words in refused.stderr
    assert allot("vc", "policy", "nowhere", "fifo").exit_code == 3
    assert VirtualCluster.objects.get(name="shared").policy == "fifo"


def test_spare_gpus_get_another_policy(allot: Allot) -> None:
    done = allot("spare", "policy", "tiresias:thresholds=60|600", "--placer", "spread")
    assert done.stdout == (
        "Spare GPUs: policy tiresias:thresholds=60|600, placer spread, from the next round on.\n"
    ), done.stderr
    row = ClusterSettings.objects.get()
    assert (row.spare_placer, row.spare_policy_parameters) == ("spread", {"thresholds": [60, 600]})
    allot("spare", "policy", "fifo")
    row = ClusterSettings.objects.get()
    assert (row.spare_policy, row.spare_policy_parameters, row.spare_placer) == ("fifo", {}, "spread")
    shown = allot("spare", "show").stdout
    assert ["Placer", "spread"] in [line.split() for line in shown.splitlines()]


def test_only_operators_choose(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOT_TOKEN", make_token(make_user("ann")))
    for arguments in (
        ("vc", "policy", "shared", "las"),
        ("spare", "policy", "las"),
        ("vc", "whole", "shared", "-y"),
    ):
        assert allot(*arguments).exit_code == 3
    assert allot("policies").exit_code == 0
    assert VirtualCluster.objects.get(name="speech").guarantees.count() == 2


def test_the_whole_cluster_as_one_virtual_cluster(allot: Allot) -> None:
    asked = allot("vc", "whole", "shared", stdin="n\n")
    assert "guarantees of 1 virtual cluster, speech (K80:1,V100:4)?" in asked.stderr
    assert asked.exit_code == 1
    assert VirtualCluster.objects.get(name="speech").guarantees.count() == 2
    done = allot("vc", "whole", "shared", "-y").stdout.splitlines()
    assert done[0] == "Virtual cluster shared is guaranteed K80:2,V100:8, all that there is."
    assert done[1].endswith(": research.")
    assert not VirtualCluster.objects.get(name="speech").guarantees.exists()
    assert dict(VirtualCluster.objects.get(name="shared").guarantees.values_list("gpu_model", "gpus")) == {
        "K80": 2,
        "V100": 8,
    }
    # A second time nobody loses anything, so nobody is asked.
    assert allot("vc", "whole", "shared").exit_code == 0
    assert allot("vc", "whole", "nowhere", "-y").exit_code == 3


def test_nodes_of_serving_pools_are_not_part_of_the_whole(allot: Allot) -> None:
    pool = ServingPool.objects.create(name="chat")
    make_node("serves", gpus=4, serving_pool=pool, loan_state="serving")
    done = allot("vc", "whole", "shared", "-y")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("Virtual cluster shared is guaranteed K80:2,V100:8,")


def test_of_models_that_are_divided_by_cells_it_owns_the_topmost_ones(allot: Allot) -> None:
    with Client.from_environment() as client:
        proposed = client.propose_cells()
    proposed["virtual_clusters"] = {"speech": {"cells": {"V100-SWITCH": 1}}}
    proposed["physical"] = [cell for cell in proposed["physical"] if cell["type"].startswith("V100")]
    make_cells(proposed)
    done = allot("vc", "whole", "shared", "-y")
    assert done.stdout.startswith("Virtual cluster shared is guaranteed K80:2,V100:8, all that there is."), (
        done.stderr
    )
    assert not VirtualCluster.objects.get(name="speech").guarantees.exists()
    with Client.from_environment() as client:
        owned = client.cells()["specification"]["virtual_clusters"]
        assert client.virtual_cluster("speech")["own_guaranteed"] == {}
    assert owned == {"shared": {"cells": {"V100-NODE": 1}}}
    assert allot("vc", "whole", "shared").exit_code == 0


def test_a_policy_that_takes_too_long_shows(allot: Allot) -> None:
    since = datetime(2026, 11, 21, 12, tzinfo=UTC)
    for view in ("shared", "spare"):
        ViewComputing.objects.create(view=view, since=since, message="its policy took too long")
    for arguments in (("vc", "show", "shared"), ("spare", "show")):
        assert "2026-11-21" in allot(*arguments).stdout
        assert ": its policy took too long" in allot(*arguments).stdout
    assert "Overrun" not in allot("vc", "show", "speech").stdout


def test_answers_are_what_their_types_promise(allot: Allot) -> None:
    ViewComputing.objects.create(view="spare", since=datetime.now(UTC), message="slow")
    with Client.from_environment() as client:
        answers = [
            (client.plugins(), schema.Plugins),
            (client.cluster_settings(), schema.ClusterSettings),
            (client.gpu_models(), list[schema.GpuModel]),
            (client.set_virtual_cluster("shared", {}), schema.VirtualCluster),
        ]
    for answer, kind in answers:
        assert answer
        msgspec.convert(answer, type=kind)


def test_what_is_lent_of_nodes_is_set_and_shown(allot: Allot) -> None:
    assert "Overcommit   what its jobs do not use is not lent" in allot("vcs", "shared").stdout
    done = allot("vc", "overcommit", "shared", "predicted", "--margin", "0.2")
    assert done.stdout == (
        "Virtual cluster shared: opportunistic jobs get CPUs and memory beyond the predicted peak,"
        " margin 20%; nothing measured in the last 7 days.\n"
    ), done.stderr
    assert allot("vc", "overcommit", "shared", "--margin", "0.1").stdout.count("margin 10%") == 1
    assert "Nothing to change" in allot("vc", "overcommit", "shared").stderr
    assert "--margin" in allot("vc", "overcommit", "shared", "--margin", "2").stderr


def test_limits_on_preemption_are_set_and_shown(allot: Allot) -> None:
    done = allot("vc", "limits", "shared", "--min-run-time", "300")
    assert done.stdout == (
        "Virtual cluster shared: minimum run time before preemption 5m; reclaim at once; longest wait 6h.\n"
    ), done.stderr
    done = allot("vc", "limits", "shared", "--longest-wait", "0")
    assert done.stdout.endswith("; no longest wait.\n")
    assert "minimum run time before preemption 5m" in allot("vcs", "shared").stdout
    assert "Nothing to change" in allot("vc", "limits", "shared").stderr
    said = allot("spare", "limits", "--preemptions-per-round", "2", "--backoff", "5").stdout
    assert said == "Preemptions per round: at most 2\nBack-off: 5s, doubled each time up to 10m\n"
    assert "unlimited" in allot("spare", "limits", "--preemptions-per-round", "none").stdout
    assert "neither a number" in allot("spare", "limits", "--preemptions-per-round", "few").stderr
