"""Scenarios by hand, and what is printed of them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from scheduler.simulation.errors import InputError
from scheduler.simulation.replay import replay_scenario
from scheduler.simulation.scenario import read_scenario
from scheduler.simulation.sweep import Case

STORY = """
cluster: v100=8:4
policy: fifo
events:
  - {at: 0, submit: {name: first, gpus: 4, duration_seconds: 300}}
  - {at: 0, submit: {name: borrower, gpus: 4, duration_seconds: 300, guaranteed: false}}
  - {at: 10, submit: {name: big, gpus: 8, duration_seconds: 50}}
  - {at: 60, cancel: first}
  - {at: 65, node_down: v100-0001}
  - {at: 80, node_up: v100-0001}
  - {at: 150, quota: {tenant: everyone, gpus: {v100: 4}}}
  - {at: 150, submit: {name: over, gpus: 8, duration_seconds: 1}}
  - {at: 160, virtual_cluster: {name: cluster, policy: sjf}}
  - {at: 170, quota: {tenant: everyone, gpus: {v100: 8}}}
"""


def told(tmp_path: Path, text: str, case: Case | None = None) -> str:
    path = tmp_path / "story.yaml"
    path.write_text(text)
    output = io.StringIO()
    replay_scenario(path, case or Case(cluster=""), output)
    return output.getvalue()


def test_every_decision_is_told(tmp_path: Path) -> None:
    lines = [line.strip() for line in told(tmp_path, STORY).splitlines()]
    for expected in (
        "0  start first on v100 GPUs 1,2,3,4",
        "0  start borrower on v100 GPUs 5,6,7,8",
        "60  cancel first",
        "60  start big on v100 GPUs 1,2,3,4 + 5,6,7,8",
        "65  node_down v100-0001",
        "65  stop big (lost)",
        "80  start big on v100 GPUs 1,2,3,4 + 5,6,7,8",
        "first: cancelled at 60 s",
        "big: succeeded at 130 s",
    ):
        assert expected in lines, expected
    big = "big waits: Virtual cluster cluster guarantees 8 v100; its guaranteed jobs use 4 and"
    assert any(big in line for line in lines)
    assert any("over waits: Tenant everyone may hold" in line for line in lines)
    assert not any("early" in line for line in lines)


COMING = """
cluster: v100=8:4
policy: fifo
round_seconds: 10
events:
  - {at: 0, budget: {tenant: everyone, gpu_hours: 2, renewed_at: [3600]}}
  - {at: 0, submit: {name: first, gpus: 4, duration_seconds: 1200}}
  - {at: 300, drain: {node: v100-0001, until: 600}}
  - {at: 600, submit: {name: second, gpus: 4, duration_seconds: 1200}}
  - {at: 900, node_up: v100-0001}
  - {at: 1810, submit: {name: third, gpus: 4, duration_seconds: 60}}
"""


def test_a_drained_node_is_left_in_time_and_a_spent_budget_is_waited_out(tmp_path: Path) -> None:
    lines = [line.strip() for line in told(tmp_path, COMING).splitlines()]
    assert "600  stop first (drained)" in lines
    assert "600  start first on v100 GPUs 5,6,7,8" in lines
    # Four GPUs for 900 s, eight for 300 s and four again: two GPU-hours are used up at 1,500 s.
    assert "900  start second on v100 GPUs 1,2,3,4" in lines
    assert any("third waits: Tenant everyone has used up its budget" in line for line in lines)
    assert "third: succeeded at 3660 s" in lines


def test_a_budget_like_the_one_before_begins_with_no_use(tmp_path: Path) -> None:
    """Four GPUs use up one GPU-hour in 900 s, so the budget of 3,600 s is spent at 4,500 s."""
    budget, job = "budget: {tenant: everyone, gpu_hours: 1}", "gpus: 4, duration_seconds: 1200}"
    text = f"""
cluster: v100=4:4
round_seconds: 10
events:
  - {{at: 0, {budget}}}
  - {{at: 0, submit: {{name: first, {job}}}
  - {{at: 1300, submit: {{name: second, {job}}}
  - {{at: 3600, {budget}}}
  - {{at: 5000, submit: {{name: third, {job}}}
"""
    lines = [line.strip() for line in told(tmp_path, text).splitlines()]
    assert any("second waits: Tenant everyone has used up its budget" in line for line in lines)
    assert "second: succeeded at 4800 s" in lines
    assert any("third waits: Tenant everyone has used up its budget" in line for line in lines)


RESERVED = """
cluster: v100=8:4
policy: fifo
round_seconds: 10
events:
  - at: 0
    reserve: {name: paper, tenant: everyone, nodes: [v100-0001], starts_at: 600, ends_at: 1200}
  - {at: 0, submit: {name: long, gpus: 4, duration_seconds: 700, time_limit_seconds: 700}}
  - {at: 0, submit: {name: own, gpus: 4, duration_seconds: 100, reservation: paper}}
  - {at: 10, submit: {name: short, gpus: 4, duration_seconds: 300, time_limit_seconds: 300}}
  - {at: 20, submit: {name: later, gpus: 4, duration_seconds: 700, time_limit_seconds: 700}}
"""


def test_a_reserved_node_is_used_by_short_jobs_before_and_by_its_own_then(tmp_path: Path) -> None:
    lines = [line.strip() for line in told(tmp_path, RESERVED).splitlines()]
    assert "0  start long on v100 GPUs 5,6,7,8" in lines
    assert "10  start short on v100 GPUs 1,2,3,4" in lines
    assert "600  start own on v100 GPUs 1,2,3,4" in lines
    assert any("later waits:" in line and "(reservation paper)" in line for line in lines)
    assert any(line.startswith("7") and "start later on v100 GPUs 5,6,7,8" in line for line in lines)


def test_the_command_line_fills_in_what_the_file_leaves_open(tmp_path: Path) -> None:
    story = "events: [{at: 0, submit: {gpus: 2, duration_seconds: 5}}]"
    with pytest.raises(InputError, match=r"story\.yaml: names no cluster"):
        told(tmp_path, story)
    assert "job 1: succeeded at 5 s" in told(tmp_path, story, Case(cluster="v100=2:2"))


LEND = "{{at: 0, lend_rule: {{virtual_cluster: cluster, idle_seconds: 9, lend_seconds: 600, {}}}}}"
BORROW = "{{at: 0, borrow_rule: {{virtual_cluster: cluster, waiting_seconds: 9, most_gpus: {}}}}}"


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ("{submit: {gpus: 1, duration_seconds: 1}}", "event 1: must be an object with `at`"),
        ("{at: 0, submits: 3}", "event 1: must have `at` and exactly one of submit"),
        ("{at: noon, cancel: 1}", "event 1: at:"),
        ("{at: 0, submit: {gpus: 1}}", "event 1: submit: duration_seconds: is missing"),
        ("{at: 0, submit: {gpus: 0, duration_seconds: 1}}", "event 1: submit: gpus:"),
        ("{at: 0, submit: {gpu: 1, duration_seconds: 1}}", "did you mean gpus"),
        ("{at: 0, cancel: nobody}", "event 1: 'nobody' is not a job"),
        ("{at: 0, node_down: v100-9}", "event 1: there is no node"),
        ("{at: 0, quota: {tenant: nobody, gpus: {v100: 1}}}", "event 1: quota: there is no tenant"),
        ("{at: 0, quota: {tenant: everyone, gpus: many}}", "event 1: quota: gpus:"),
        (
            "{at: 0, quota: {tenant: everyone, gpus: {v100: 1, v10: 4}}}",
            "event 1: quota: gpus: there is no v10; the nodes have v100",
        ),
        (
            "{at: 0, quota: {tenant: everyone, cpus: many}}",
            "event 1: quota: cpus: 'many' is not a number of CPUs of at least 0",
        ),
        ("{at: 0, quota: {tenant: everyone, memory: big}}", "event 1: quota: memory: 'big' is not a size"),
        ("{at: 0, quota: {tenant: everyone, gpus: {v100: true}}}", "event 1: quota: gpus:"),
        (
            "{at: 0, virtual_cluster: {name: cluster, guaranteed: {v100: true}}}",
            "virtual_cluster: guaranteed:",
        ),
        ("{at: 0, offer: {virtual_cluster: cluster, gpus: {v100: true}, ends_at: 9}}", "offer: gpus:"),
        (
            "{at: 0, submit: {gpus: 1, duration_seconds: 1}}\n  - {at: 0, cancel: true}",
            "event 2: 'True' is not a job",
        ),
        ("{at: 0, cancel: null}", "event 1: must have `at` and exactly one of submit"),
        ("{at: 0, reserve: {name: null, tenant: everyone, nodes: [v100-0001]}}", "reserve: must have a name"),
        ("{at: 0, drain: {node: v100-0001}}", "event 1: drain: until: is missing"),
        ("{at: 0, drain: {node: v100-9, until: 9}}", "event 1: drain: there is no node"),
        (
            "{at: 0, reserve: {name: paper, tenant: everyone}}",
            "event 1: reserve: must have a name, and nodes",
        ),
        (
            "{at: 0, reserve: {name: a, tenant: everyone, nodes: [v100-9], starts_at: 1, ends_at: 2}}",
            "event 1: reserve: there is no node",
        ),
        (
            "{at: 0, reserve: {name: a, tenant: everyone, nodes: [v100-0001], starts_at: 2, ends_at: 1}}",
            "event 1: reserve: ends_at: 1 is not after starts_at, 2",
        ),
        (
            "{at: 0, reserve: {name: a, tenant: nobody, nodes: [v100-0001], starts_at: 1, ends_at: 2}}",
            "event 1: reserve: there is no tenant",
        ),
        (
            "{at: 0, budget: {tenant: everyone, gpu_hours: -1}}",
            "event 1: budget: gpu_hours: '-1' is not a number of GPU-hours of at least 0",
        ),
        (
            "{at: 0, budget: {tenant: everyone, cost: -1}}",
            "event 1: budget: cost: '-1' is not a number of cost units of at least 0",
        ),
        (
            "{at: 0, budget: {tenant: everyone, cost: 1, renewed_at: [-1]}}",
            "event 1: budget: renewed_at: '-1' is not a number of seconds",
        ),
        ("{at: 0, budget: {tenant: everyone}}", "event 1: budget: must have either gpu_hours or cost"),
        (
            "{at: 0, virtual_cluster: {name: nowhere}}",
            "event 1: virtual_cluster: there is no virtual cluster",
        ),
        ("{at: 0, loan: {from: cluster, to: nobody}}", "event 1: loan: to: there is no virtual cluster"),
        ("{at: 0, grant: {virtual_cluster: cluster, credits: -1}}", "event 1: grant: credits:"),
        ("{at: 0, take: {offer: x, virtual_cluster: cluster}}", "event 1: take: there is no offer"),
        ("{at: 0, offer: {virtual_cluster: cluster, gpus: {v100: 3}, ends_at: 9}}", "owns 2 v100, not 3"),
        (
            "{at: 0, loan: {from: cluster, to: cluster, ends_at: 1.0e+99}}",
            "ends_at: 1e+99 is more than 1e+10",
        ),
        ("{at: 0, lend_rule: {virtual_cluster: cluster, sells: 1}}", "event 1: lend_rule: 'sells' is not"),
        (LEND.format("gpus: {v100: -4}"), "event 1: lend_rule: gpus: '{'v100': -4}' is not an object of"),
        (LEND.format("gpus: {v100: 0}"), "event 1: lend_rule: lot.gpus.v100: 0 is less than 1"),
        (LEND.format("gpus: {v100: 3}"), "event 1: lend_rule: lot.gpus.v100: cluster owns 2 v100, not 3"),
        (LEND.format("gpus: {nosuch: 3}"), "event 1: lend_rule: lot.gpus.nosuch: cluster owns 0 nosuch"),
        (LEND.format("price: 1"), "event 1: lend_rule: lot: is empty"),
        (
            LEND.format("gpus: {v100: 1}").replace("600", "0"),
            "event 1: lend_rule: lend_seconds: '0' is not a number of seconds above 0",
        ),
        (BORROW.format(2.7), "event 1: borrow_rule: most_gpus: '2.7' is not a whole number of GPUs"),
        (
            BORROW.format("2, gpu_models: [v100, typo]"),
            "event 1: borrow_rule: gpu_models: there is no 'typo'; the nodes have v100",
        ),
        (BORROW.format("2, gpu_models: [[v100]]"), "event 1: borrow_rule: gpu_models: there is no"),
        (
            "{at: 0, node_return: {serving_pool: chat, nodes: 1.5, by: 9}}",
            "event 1: node_return: nodes: '1.5' is not a whole number of nodes of at least 1",
        ),
        (
            "{at: 9, virtual_cluster: {name: cluster, policy: nosuch}}",
            "event 1: virtual_cluster: policy: there is no policy 'nosuch'",
        ),
        (
            "{at: 9, virtual_cluster: {name: cluster, policy: 'fifo:depth=3'}}",
            "event 1: virtual_cluster: policy: policy fifo has no parameter depth",
        ),
        (
            "{at: 9, virtual_cluster: {name: cluster, placer: nosuch}}",
            "event 1: virtual_cluster: placer: there is no placer 'nosuch'",
        ),
        (
            "{at: 9, virtual_cluster: {name: cluster, guaranteed: {v100: 99}}}",
            "event 1: virtual_cluster: guaranteed: 99 v100 are guaranteed in all; there are 2",
        ),
        (
            "{at: 9, virtual_cluster: {name: cluster, guaranteed: {h100: 1}}}",
            "event 1: virtual_cluster: guaranteed: there is no h100; the nodes have v100",
        ),
        ("{at: 0, virtual_cluster: {colour: red}}", "event 1: virtual_cluster: 'colour' is not known here"),
    ],
)
def test_a_wrong_event_is_named(tmp_path: Path, event: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        told(tmp_path, f"cluster: v100=2:2\nevents:\n  - {event}\n")
    assert said in str(error.value).replace('"', "'")


def test_what_is_null_counts_as_left_out(tmp_path: Path) -> None:
    (tmp_path / "story.yaml").write_text(
        """
cluster: v100=2:2
policy: null
autoscaling: {min_nodes: 1, max_nodes: null}
events:
  - {at: 0, submit: {name: null, user: null, search: null, gpus: 1, duration_seconds: 60}}
  - {at: 5, quota: {tenant: everyone, gpus: {v100: 1}, cpus: null}}
  - {at: 9, virtual_cluster: {name: cluster, policy: null, placer: null}}
"""
    )
    scenario = read_scenario(tmp_path / "story.yaml")
    [arrival] = scenario.workload.arrivals
    assert (arrival.job.user, arrival.job.search, scenario.names, scenario.policy) == ("", "", {}, "")
    assert "job 1: succeeded at 60 s" in told(tmp_path, (tmp_path / "story.yaml").read_text())


@pytest.mark.parametrize(
    "event", ["{at: 90, node_down: zz}", "{at: 90, quota: {tenant: zz, gpus: {v100: 1}}}"]
)
def test_a_wrong_event_is_named_before_anything_happens(tmp_path: Path, event: str) -> None:
    (tmp_path / "story.yaml").write_text(
        "cluster: v100=2:2\nevents:\n"
        "  - {at: 0, submit: {gpus: 1, duration_seconds: 500}}\n"
        f"  - {{at: 10, submit: {{gpus: 1, duration_seconds: 500}}}}\n  - {event}\n"
    )
    output = io.StringIO()
    with pytest.raises(InputError, match=r"story\.yaml: event 3: .*there is no"):
        replay_scenario(tmp_path / "story.yaml", Case(cluster=""), output)
    assert output.getvalue() == ""


def test_a_guarantee_may_go_from_one_virtual_cluster_to_another_at_an_instant(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(TWO)
    story = (
        f"cluster: {tmp_path / 'two.yaml'}\nevents:\n"
        "  - {at: 5, virtual_cluster: {name: speech, guaranteed: {v100: 8}}}\n"
        "  - {at: 5, virtual_cluster: {name: vision, guaranteed: {v100: 0}}}\n"
    )
    assert "virtual_cluster name=vision" in told(tmp_path, story)
    with pytest.raises(InputError, match="event 1: virtual_cluster: guaranteed: 12 v100"):
        told(
            tmp_path,
            story.replace("at: 5, virtual_cluster: {name: vision", "at: 6, virtual_cluster: {name: vision"),
        )


def test_a_file_that_is_no_scenario_is_said(tmp_path: Path) -> None:
    for text, said in (
        ("[]", "must be an object"),
        ("cluster: v100=2\nevents:\n  - {at: -5, cancel: a}", "event 1: at: -5 is before the beginning"),
        ("events: [}", "story.yaml:1: is not YAML"),
        ("events:\n  - {at: 0, at: 5}", "story.yaml:2: at stands here twice"),
        ("x: 1\nevents: []", "is not known"),
        ("cluster: v100=2:2\npolicy: fife\nevents: []", "story.yaml: policy: there is no policy 'fife'"),
    ):
        with pytest.raises(InputError, match=said):
            told(tmp_path, text)


MARKET = """
cluster: {cluster}
events:
  - at: 0
    lend_rule: {{virtual_cluster: speech, gpus: {{v100: 4}}, idle_seconds: 60, lend_seconds: 3600, price: 1}}
  - {{at: 0, borrow_rule: {{virtual_cluster: vision, most_gpus: 4, waiting_seconds: 20, price: 2}}}}
  - {{at: 0, grant: {{virtual_cluster: vision, credits: 10}}}}
  - {{at: 0, submit: {{name: long, virtual_cluster: vision, gpus: 4, duration_seconds: 9000}}}}
  - {{at: 50, submit: {{name: next, virtual_cluster: vision, gpus: 4, duration_seconds: 5000}}}}
  - {{at: 3000, submit: {{name: own, virtual_cluster: speech, gpus: 4, duration_seconds: 100}}}}
"""
TWO = """
nodes: [{name: a, gpu_model: v100, gpus: 4}, {name: b, gpu_model: v100, gpus: 4}]
virtual_clusters:
  - {name: speech, guaranteed: {v100: 4}}
  - {name: vision, guaranteed: {v100: 4}}
"""


def test_rules_lend_what_is_idle_and_its_owner_has_it_back_in_time(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(TWO)
    lines = told(tmp_path, MARKET.format(cluster=tmp_path / "two.yaml")).splitlines()
    expected = [
        "60  offer of 4 v100 by rule 1 of speech",
        "70  take 1 of 4 v100 by rule 2 of vision",
        "71  loan 1 of 4 v100 from speech to vision begins",
        "71  start next on v100 GPUs 5,6,7,8",
        "3000  own waits: Virtual cluster speech lends 4 v100 to vision until 01:01:00 UTC on 1 January",
        "3660  loan 1 of 4 v100 from speech to vision ends",
        "3660  stop next (preempted): 4 of its 4 GPUs were reclaimed by guaranteed job 3 of virtual cluster",
        "3660  start own on v100 GPUs 5,6,7,8",
        "own: succeeded at 3760 s",
    ]
    told_of = iter(line.strip() for line in lines)
    for line in expected:
        assert any(each.startswith(line) for each in told_of), (line, lines)


LENDING = """
cluster: {cluster}
policy: aryl
placer: aryl
events:
  - {{at: 0, submit: {{name: own, gpus: 4, duration_seconds: 900}}}}
  - {{at: 0, submit: {{name: guest, gpus: 4, duration_seconds: 900}}}}
  - {{at: 60, node_loan: serve}}
  - {{at: 600, node_return: {{serving_pool: chat, nodes: 1, by: 660}}}}
"""


def test_a_node_that_is_lent_and_asked_back(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(
        "nodes: [{name: train, gpu_model: v100, gpus: 4},"
        " {name: serve, gpu_model: v100, gpus: 4, serving_pool: chat}]\nserving_pools: [{name: chat}]\n"
    )
    lines = told(tmp_path, LENDING.format(cluster=cluster))
    assert "guest waits: Virtual cluster cluster may use 4 more v100, but only 0 are available" in lines
    assert "4 v100 are on nodes that serving pool chat does not lend." in lines
    assert "60  start guest on v100 GPUs 5,6,7,8" in lines
    assert "660  stop guest (drained): Node serve returns to its serving pool chat by" in lines
    assert not any(line.endswith("stop guest (drained)") for line in lines)
    assert "900  start guest on v100 GPUs 1,2,3,4" in lines
    with pytest.raises(InputError, match='"train" is not a node of a serving pool'):
        told(tmp_path, LENDING.format(cluster=cluster).replace("node_loan: serve", "node_loan: train"))


def test_an_elastic_job_of_a_scenario_grows_to_the_gpus_that_are_there(tmp_path: Path) -> None:
    path = tmp_path / "story.yaml"
    path.write_text(
        "cluster: v100=8:4\npolicy: fifo\nevents:\n"
        "  - {at: 0, submit: {gpus: 1, max_gpus: 1000000, duration_seconds: 60}}\n"
    )
    (arrival,) = read_scenario(path).workload.arrivals
    assert arrival.job.elastic == (1, 8)
