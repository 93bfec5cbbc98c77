"""Pollux's published workloads in the platform's own simulator, by their measured profiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.simulation.errors import InputError
from scheduler.simulation.scenario import read_scenario
from scheduler.simulation.sweep import Case, prepare, run_case
from tests.simulation import samples

DATA = samples.SHARED / "pollux"
are_here = pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data/pollux is not here")

CASES = {
    "tiresias": ("tiresias:thresholds=57600|,pack_limit=1.0,inside=submission", "rigid", "measured"),
    "optimus": ("optimus:interval_seconds=60", "resizable", "true"),
    "pollux": ("pollux", "adaptive", "measured"),
}


def mean(name: str, *, limit: int | None = None, nodes: int = 16, **fields: float) -> float:
    policy, scaling, goodput = CASES[name]
    result = run_case(
        Case(
            cluster=f"t4={4 * nodes}:4",
            trace=str(DATA / "workloads" / "workload-6.csv"),
            format="pollux",
            policy=policy,
            limit=limit,
            options={"scaling": scaling},
            goodput=goodput,
            costs={"start_seconds": 30.0},
            **fields,  # type: ignore[arg-type]
        )
    )
    assert not result.cut_short
    assert not result.degraded
    return sum([job.completion_seconds or 0.0 for job in result.jobs]) / len(result.jobs)


@pytest.mark.slow
@are_here
def test_a_small_cut_ends_sooner_under_pollux_than_under_either() -> None:
    means = {name: mean(name, limit=6, nodes=4) for name in CASES}
    assert means["pollux"] < 0.9 * min(means["tiresias"], means["optimus"])


@are_here
@pytest.mark.slow
def test_a_workload_comes_out_nearly_as_in_the_artifacts_own_ticks() -> None:
    """Within a twentieth of 2,446 s, 3,470 s and 5,302 s, whatever else is modelled here."""
    means = {name: mean(name) for name in CASES}
    assert means["tiresias"] == pytest.approx(3469.7, rel=0.05)
    assert means["optimus"] == pytest.approx(5301.9, rel=0.05)
    assert means["pollux"] == pytest.approx(2446.1, rel=0.05)


@pytest.mark.parametrize("scaling", ["rigid", "resizable", "adaptive"])
def test_jobs_are_what_the_option_says(tmp_path: Path, scaling: str) -> None:
    ncf = samples.write_profiles(tmp_path) / "ncf"
    # The batch that the authors fix for ncf was measured too.
    (ncf / "validation-32768.csv").write_text((ncf / "validation-2048.csv").read_text())
    (tmp_path / "workloads").mkdir()
    trace = tmp_path / "workloads" / "workload.csv"
    trace.write_text("name,time,application,num_replicas,batch_size\nncf-0,0,ncf,1,256\n")
    case = Case(cluster="t4=4:4", trace=str(trace), format="pollux", options={"scaling": scaling})
    (arrival,) = prepare(case).experiment.workload.arrivals
    assert arrival.truth.scaling is not None
    assert arrival.job.elastic == (None if scaling == "rigid" else (1, 1))


def test_a_scenario_names_a_folder_of_profiles(tmp_path: Path) -> None:
    """100 iterations at 256 an epoch, in two passes of 128 of which nothing was measured on one GPU."""
    samples.write_profiles(tmp_path)
    story = tmp_path / "story.yaml"
    story.write_text(
        "cluster: t4=4:4\nprofiles: profiles\nevents:\n"
        "  - {at: 0, submit: {name: a, gpus: 1, application: ncf, batch_size: 256}}\n"
    )
    scenario = read_scenario(story)
    truth = scenario.workload.arrivals[0].truth
    assert truth.scaling is not None
    assert truth.work_seconds == pytest.approx(truth.scaling.run_seconds((1,), 256))
    story.write_text(story.read_text().replace("profiles: profiles", "profiles: nowhere"))
    with pytest.raises(InputError, match="profiles: there is no folder nowhere"):
        read_scenario(story)
    story.write_text(
        "cluster: t4=4:4\nprofiles: profiles\nevents:\n"
        "  - {at: 0, submit: {name: a, gpus: 1, application: ncf, batch_size: 9}}\n"
    )
    with pytest.raises(InputError, match="9 was not measured for ncf; it must be from 256 to 2048"):
        read_scenario(story)
