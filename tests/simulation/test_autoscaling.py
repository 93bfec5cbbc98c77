"""Autoscaling as it is given on the command line and in scenarios, and what is reported of it."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest

from scheduler.simulation import command
from scheduler.simulation.errors import InputError
from scheduler.simulation.replay import replay_scenario
from scheduler.simulation.report.measure import measure
from scheduler.simulation.scenario import read_scenario
from scheduler.simulation.sweep import Case, expand, prepare, run_case

STORY = """
cluster: v100=16:4
policy: fifo
autoscaling: {min_nodes: 1, max_nodes: 4, every_seconds: 300}
events:
  - {at: 0, submit: {name: night, gpus: 2, duration_seconds: 3600}}
  - {at: 1000, submit: {name: gang, replicas: 3, gpus_per_replica: 4, duration_seconds: 600}}
"""


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "jobs.csv"
    path.write_text("submitted_at,gpus,duration_seconds\n0,2,3600\n1000,4,600\n1000,4,600\n1000,4,600\n")
    return str(path)


def case(trace: str, cluster: str = "v100=16:4", **autoscaling: float) -> Case:
    return Case(trace=trace, format="allot", cluster=cluster, autoscaling=autoscaling)


def test_a_run_reports_fewer_node_hours_than_the_fixed_cluster(trace: str) -> None:
    fixed, scaled = map(
        run_case, expand(case(trace, min_nodes=1), ["fifo"], [0], {"autoscaling": ["no", "yes"]})
    )
    assert (fixed.node_seconds, fixed.is_autoscaled) == (4 * 3600.0, False)
    # One node until the jobs at 1,000 s are seen at 1,200 s; four until they have gone at 1,800 s.
    assert scaled.node_seconds == 3600.0 + 3 * 600.0
    assert scaled.is_autoscaled
    assert (measure(fixed).node_hours, measure(scaled).node_hours) == (4.0, 1.5)
    assert any("1 to 4 nodes are in service" in note for note in scaled.notes)


def test_node_hours_end_with_the_last_job_whatever_was_foreseen(tmp_path: Path) -> None:
    """An elastic job that grows ends long before it would have on its first GPUs."""
    path = tmp_path / "story.yaml"
    path.write_text(
        "cluster: v100=8:8\npolicy: slaq\nround_seconds: 60\nevents:\n"
        "  - {at: 0, submit: {name: short, replicas: 7, gpus_per_replica: 1, duration_seconds: 60}}\n"
        "  - {at: 0, submit: {name: long, replicas: 1, gpus_per_replica: 1, min_gpus: 1, max_gpus: 8,"
        " duration_seconds: 40000}}\n"
    )
    output = io.StringIO()
    assert replay_scenario(path, Case(cluster="", autoscaling={"min_nodes": 1}), output).is_whole
    ended = float(output.getvalue().split("long: succeeded at ")[1].split()[0])
    assert ended < 20_000
    # To the end of its minute.
    span = math.ceil(ended / 60) * 60
    assert f"in service for {span / 3600:.2f} node-hours" in output.getvalue()


def test_a_scenario_says_which_nodes_are_in_service(tmp_path: Path) -> None:
    path = tmp_path / "story.yaml"
    path.write_text(STORY)
    output = io.StringIO()
    assert replay_scenario(path, Case(cluster=""), output).is_whole
    said = [line.split(maxsplit=1) for line in output.getvalue().splitlines() if "in service: " in line]
    assert [(at, words.count("v100-")) for at, words in said] == [("0", 1), ("1200", 4), ("1800", 1)]
    assert output.getvalue().endswith(
        "Nodes were in service for 1.50 node-hours; all of them all the time would be 4.00."
        " Mean completion time: 0.61 h.\n"
    )


def test_the_command_ends_with_cost_and_completion_time(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--trace", trace, "--cluster", "v100=16:4", "--round-seconds", "0", "--quiet"]
    arguments += ["--autoscaling", "max_nodes=4", "--sweep", "autoscaling=no,yes"]
    assert command.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "fifo · autoscaled" in lines[0]
    assert lines[-1].startswith("fifo · autoscaled: Nodes were in service for 1.50 node-hours")


@pytest.mark.parametrize(
    ("terms", "problem"),
    [
        ({"nodes": 3}, "there is no 'nodes'; choose min_nodes, max_nodes, low_utility"),
        ({"min_nodes": 1.5}, "min_nodes is 1.5; it must be a whole number"),
        ({"min_nodes": 5}, "min_nodes is 5; it must be at most 4, the cluster's nodes"),
        ({"max_nodes": 5}, "max_nodes is 5; it must be at most 4"),
        ({"low_utility": 0.9}, "low_utility is 0.9 and high_utility 0.65; the first must be"),
    ],
)
def test_terms_that_cannot_be_are_refused(trace: str, terms: dict[str, float], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        prepare(case(trace, **terms))


def test_clusters_that_it_is_not_for_are_refused(trace: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nodes of one GPU model; this cluster has p100 and v100"):
        prepare(case(trace, "v100=8:4,p100=8:4", min_nodes=1))
    with pytest.raises(InputError, match="--private compares with clusters of a fixed size"):
        prepare(
            Case(trace=trace, format="allot", cluster="v100=8:4", autoscaling={"min_nodes": 1}, private=True)
        )
    with pytest.raises(InputError, match="state its bounds, such as --autoscaling"):
        expand(case(trace), ["fifo"], [0], {"autoscaling": ["no", "yes"]})
    story = tmp_path / "story.yaml"
    story.write_text(STORY.replace("{min_nodes: 1, max_nodes: 4, every_seconds: 300}", "4"))
    with pytest.raises(InputError, match=r"story.yaml: autoscaling: .4. is not an object"):
        read_scenario(story)
    story.write_text(STORY.replace("every_seconds: 300", "every_seconds: soon"))
    with pytest.raises(InputError, match=r"autoscaling: every_seconds: .soon. is not a number"):
        read_scenario(story)
