"""Policies and placers stored as texts become names and parameters, and texts again on the way back."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from tenants.audit import triggers

TEXTS = [("scheduler", "0023_agent_service_since"), ("tenants", "0009_invitations")]
PARAMETERS = [("scheduler", "0024_plugin_parameters"), ("tenants", "0010_placer_parameters")]

#: By name of a virtual cluster: policy, its parameters, placer, and what the placer becomes.
CLUSTERS: dict[str, tuple[str, dict[str, Any], str, str, dict[str, Any]]] = {
    "plain": ("fifo", {"backfill": False}, "consolidate", "consolidate", {}),
    "number": ("fifo", {}, "delay:relax_after_seconds=600", "delay", {"relax_after_seconds": 600}),
    "list": ("fifo", {}, "fgd:workload=1:4:70|8:64:30", "fgd", {"workload": ["1:4:70", "8:64:30"]}),
    "of-one": ("fifo", {}, "fgd:workload=1:4:70|", "fgd", {"workload": ["1:4:70"]}),
    "unknown": ("fifo", {}, "elsewhere:a=true,b=1e-05", "elsewhere", {"a": True, "b": 1e-05}),
    "broken": ("fifo", {}, "delay:", "delay:", {}),
}

migration = import_module("scheduler.migrations.0024_plugin_parameters")


class Tables:
    """The tables as they are after migrating there."""

    def __init__(self, to: list[tuple[str, str]]) -> None:
        apps = MigrationExecutor(connection).migrate(to).apps
        self.vcs = apps.get_model("tenants", "VirtualCluster").objects
        self.settings = apps.get_model("scheduler", "ClusterSettings").objects
        self.computing = apps.get_model("scheduler", "ViewComputing").objects


def test_a_text_becomes_a_name_and_parameters_and_the_same_text_again() -> None:
    for _, _, text, name, parameters in CLUSTERS.values():
        found = migration.split(text, {})
        assert found == (name, migration.as_parsed(parameters))
        assert migration.join(*found) == text
    with pytest.raises(ValueError, match="cannot be written"):
        migration.join("mine", {"words": "one, two"})


# Going back and forth computes the state of all tables several times.
@pytest.mark.slow
@pytest.mark.django_db
def test_texts_become_names_and_parameters_and_texts_again() -> None:
    # As before every run of `migrate`.
    triggers.remove(plan=TEXTS)
    there = Tables(TEXTS)
    for name, (policy, parameters, placer, _, _) in CLUSTERS.items():
        there.vcs.create(name=name, policy=policy, policy_parameters=parameters, placer=placer)
    there.vcs.create(name="text", policy="las:quantum_seconds=60", policy_parameters={})
    there.settings.create(id=1, spare_policy="tiresias:thresholds=60|600", spare_placer="random:seed=3")
    there.computing.create(view="spare", policy=["tiresias:thresholds=60|600", {}])

    there = Tables(PARAMETERS)
    for name, (policy, parameters, _, placer, placing) in CLUSTERS.items():
        row = there.vcs.get(name=name)
        assert (row.policy, row.policy_parameters) == (policy, parameters)
        assert (row.placer, row.placer_parameters) == (placer, placing)
    row = there.vcs.get(name="text")
    assert (row.policy, row.policy_parameters) == ("las", {"quantum_seconds": 60})
    row = there.settings.get()
    assert (row.spare_policy, row.spare_policy_parameters) == ("tiresias", {"thresholds": [60, 600]})
    assert (row.spare_placer, row.spare_placer_parameters) == ("random", {"seed": 3})
    # The circuit breaker goes on with what it knows.
    assert there.computing.get().policy == ["tiresias", {"thresholds": [60, 600]}]

    there = Tables(TEXTS)
    for name, (policy, parameters, placer, _, _) in CLUSTERS.items():
        row = there.vcs.get(name=name)
        assert (row.policy, row.policy_parameters, row.placer) == (policy, parameters, placer)
    row = there.settings.get()
    assert (row.spare_policy, row.spare_placer) == ("tiresias:thresholds=60|600", "random:seed=3")
    assert there.computing.get().policy == ["tiresias:thresholds=60|600", {}]


@pytest.mark.slow
@pytest.mark.django_db
def test_parameters_that_no_text_can_say_stop_the_way_back() -> None:
    triggers.remove(plan=TEXTS)
    there = Tables(PARAMETERS)
    there.vcs.create(name="odd", placer="mine", placer_parameters={"words": "one, two"})
    with pytest.raises(ValueError, match=r"placer of odd: mine with .*one, two.* cannot be written"):
        Tables(TEXTS)
