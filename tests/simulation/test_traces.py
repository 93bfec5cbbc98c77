"""Every trace format: what a reader makes of a sample, and what it says of a wrong one."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler.core.model.gpu_parts import GpuPart
from scheduler.core.model.snapshot import Job, Task
from scheduler.core.model.training import Profile, Regime, Training
from scheduler.core.sim.workload import Workload
from scheduler.simulation.errors import InputError, Problem, TraceError
from scheduler.simulation.profiles import read_application
from scheduler.simulation.rates import ThroughputTable
from scheduler.simulation.traces.options import TraceOptions, parse_options
from scheduler.simulation.traces.reading import Reading, gang, skew_of
from scheduler.simulation.traces.registry import FORMATS, read_trace
from tests.simulation import samples
from tests.simulation.samples import OPTIONS, SAMPLES, SHARED


def read(
    folder: Path,
    format: str,
    text: str,
    *,
    strict: bool = False,
    limit: int | None = None,
    options: TraceOptions = OPTIONS,
    name: str = "trace.csv",
) -> Reading:
    path = folder / name
    path.write_text(text)
    if format == "pollux":
        options = replace(options, profiles=samples.write_profiles(folder))
    return read_trace(path, format, strict=strict, limit=limit, options=options)


def jobs(reading: Reading) -> list[Job]:
    return [arrival.job for arrival in reading.workload.arrivals]


def work(reading: Reading) -> list[float]:
    return [arrival.truth.work_seconds for arrival in reading.workload.arrivals]


def said(workload: Workload) -> str:
    return "\n".join((*workload.notes, *workload.left_out))


#: In the samples of these formats are rows that are left out.
LEAVING_OUT = ("alibaba-gpu-v2023", "helios", "slurm")


def test_pollux_measurements_are_means_of_placements_on_as_many_nodes(tmp_path: Path) -> None:
    found = read_application(samples.write_profiles(tmp_path) / "ncf").measurements()
    ways = [(each.nodes, each.replicas, each.local_batch, each.accumulation) for each in found]
    assert ways == [(1, 1, 200, 0), (1, 1, 300, 0), (2, 6, 128, 0), (6, 24, 64, 0)]
    assert (found[2].gradient_seconds, found[2].iteration_seconds) == pytest.approx((4.15, 4.75))


def test_every_format_has_a_sample_that_reads_without_problems(tmp_path: Path) -> None:
    assert set(SAMPLES) == set(FORMATS)
    for format, texts in SAMPLES.items():
        for text in texts:
            reading = read(tmp_path, format, text, strict=format not in LEAVING_OUT)
            assert reading.workload.arrivals
            assert not reading.problems
            assert [job.id for job in jobs(reading)] == list(range(1, len(jobs(reading)) + 1))
            assert jobs(reading)[0].submitted_at == 0


def test_philly_tables_name_tenants_by_virtual_cluster_and_split_gangs_over_nodes(tmp_path: Path) -> None:
    first, second, third = jobs(reading := read(tmp_path, "philly", samples.PHILLY))
    assert (first.tenant, first.virtual_cluster, first.estimate_seconds) == ("6214e9", "6214e9", 3600)
    assert [job.submitted_at for job in (first, second, third)] == [0, 30, 3600]
    assert second.tasks == (Task(replicas=2, gpus=8),)
    assert work(reading) == [3600, 60, 7200]


def test_philly_log_sums_the_attempts_and_knows_users(tmp_path: Path) -> None:
    reading = read(tmp_path, "philly", samples.PHILLY_LOG, options=TraceOptions(tenants="user"))
    first, second = jobs(reading)
    assert (first.tenant, first.virtual_cluster, first.gpus) == ("ce2f4c", "ee9e8c", 8)
    assert work(reading) == [74 + (2 * 86_400 + 5 * 3600 + 39 * 60 + 42), 60]
    assert second.gpus == 2
    assert reading.workload.arrivals[1].truth.status == "killed"


#: In seconds from 00:00: the attempts of a job, None where the log lost an end, and how long it ran.
ATTEMPTS = {
    "one inside another": ([(0, 100), (20, 60)], 100),
    "one overlaps another": ([(0, 100), (60, 150)], 150),
    "the same twice": ([(0, 100), (0, 100)], 100),
    "one after another": ([(0, 100), (200, 250)], 150),
    "an end that was lost": ([(0, None), (200, 250)], 250),
    "an end that was lost, and a start as well": ([(0, None), (None, 150), (200, 250)], 250),
}


def philly_log(attempts: Sequence[tuple[int | None, int | None]]) -> str:
    def at(second: int | None) -> str | None:
        return None if second is None else f"2017-10-07 00:{second // 60:02}:{second % 60:02}"

    detail = [{"ip": "m1", "gpus": ["gpu0"]}]
    told = [{"start_time": at(begin), "end_time": at(end), "detail": detail} for begin, end in attempts]
    return json.dumps(
        [{"status": "Pass", "vc": "v", "attempts": told, "submitted_time": at(0), "user": "u", "jobid": "j"}]
    )


@pytest.mark.parametrize(("attempts", "seconds"), ATTEMPTS.values(), ids=ATTEMPTS)
def test_philly_counts_the_time_in_which_an_attempt_ran_once(
    tmp_path: Path, attempts: list[tuple[int | None, int | None]], seconds: float
) -> None:
    reading = read(tmp_path, "philly", philly_log(attempts))
    assert work(reading) == [seconds]
    assert ("1 attempt has no end in the log" in said(reading.workload)) == (attempts[0][1] is None)


def test_an_end_that_no_later_attempt_tells_is_a_problem(tmp_path: Path) -> None:
    found = problem(tmp_path, "philly", philly_log([(0, None), (None, 150)]))
    assert found.field == "attempts[0].end_time"


def test_gavel_divides_steps_by_the_rate_of_the_gang_on_the_reference_model(tmp_path: Path) -> None:
    reading = read(tmp_path, "gavel", samples.GAVEL)
    resnet, language = jobs(reading)
    assert work(reading) == [3000 / 30, 500 / 100]
    assert resnet.throughput == {"v100": 30.0, "k80": 6.0}
    assert (language.submitted_at, language.priority, language.gpus) == (120.5, 4, 2)
    assert resnet.priority == 0


def test_gavel_gang_that_was_not_measured_has_the_rate_of_a_smaller_one(tmp_path: Path) -> None:
    reading = read(tmp_path, "gavel", samples.GAVEL_MSR)
    assert work(reading) == [1000 / 100]
    assert "1 job has a gang size that was not measured" in said(reading.workload)


def test_gavel_without_a_throughput_table_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(
        TraceError, match=r"needs a throughput table; there is no simulation_throughputs\.json"
    ):
        read(tmp_path, "gavel", samples.GAVEL, options=TraceOptions())


def test_pollux_takes_progress_over_gain_times_the_step_of_the_nearest_placement(tmp_path: Path) -> None:
    reading = read(tmp_path, "pollux", samples.POLLUX)
    # 256 on one GPU lies between the steps at 200 and 300.
    step = 0.10 + 0.56 * 0.10
    # Ten epochs of 100 iterations at the smallest batch size, which the run at 2048 ends a little sooner.
    # At scale 6 an iteration gains (1 + 1) / (1 / 6 + 1).
    gain = 2 / (1 / 6 + 1)
    assert work(reading) == [10 * round(99 * step), 10 * round(99 / gain * 0.50)]
    assert jobs(reading)[1].tasks == (Task(replicas=2, gpus=3),)


def test_pollux_accumulates_what_no_pass_holds(tmp_path: Path) -> None:
    """342 on each of six GPUs are two passes of 170, of which the first does not synchronise."""
    reading = read(tmp_path, "pollux", samples.POLLUX.replace("6,1536", "6,2048"))
    scale = 6 * 2 * 170 / 256
    gain = 2 / (1 / scale + 1)
    assert work(reading)[1] == 10 * round(99 / gain * (0.50 + 0.30))


def test_helios_leaves_out_jobs_without_gpus_and_counts_time_outs_as_failures(tmp_path: Path) -> None:
    reading = read(tmp_path, "helios", samples.HELIOS)
    assert [(job.tenant, job.gpus) for job in jobs(reading)] == [("vcJkd", 1), ("vcpDC", 16)]
    assert reading.workload.arrivals[1].truth.status == "failed"
    assert reading.workload.left_out == (
        "1 row without GPUs was left out. The first: 1425512 (trace.csv:3).",
    )


def test_lucids_log_of_the_same_family_names_kinds_of_job_as_its_table_of_pairs(tmp_path: Path) -> None:
    text = (
        "job_id,user,vc,jobname,gpu_num,cpu_num,state,submit_time,duration,dataset,model,batchsize,amp\n"
        '1,u1,vcA,"train, long",1,4,COMPLETED,2020-04-01 00:00:00,60,CIFAR-10,ResNet18,64,1\n'
    )
    assert jobs(read(tmp_path, "helios", text))[0].application == "ResNet18/CIFAR-10/64/amp"


def test_slurm_accounts_are_tenants_and_jobs_arrive_when_they_are_eligible(tmp_path: Path) -> None:
    reading = read(tmp_path, "slurm", samples.SLURM)
    timed_out, whole, late = sorted(reading.workload.arrivals, key=lambda each: each.job.gpus)
    assert (whole.job.tenant, whole.job.virtual_cluster, whole.job.gpu_models) == ("vision", "gpu", ("a100",))
    assert (whole.job.gpus, whole.truth.work_seconds, whole.job.time_limit_seconds) == (2, 3600, 86_400)
    assert (late.job.tenant, late.job.gpus, late.job.time_limit_seconds) == ("nlp", 16, None)
    assert late.job.submitted_at - whole.job.submitted_at == 3600
    # What it requested does not name GPUs, and it was ended a little after its limit.
    assert (timed_out.job.gpus, timed_out.job.gpu_models, timed_out.job.time_limit_seconds) == (1, (), 1831)
    assert [each.truth.status for each in (whole, late, timed_out)] == ["passed", "killed", "failed"]
    assert reading.workload.left_out == (
        "1 job that has not ended was left out. The first: 106 (trace.csv:7).",
        "1 job that never ran was left out. The first: 105 (trace.csv:6).",
        "1 job without GPUs was left out. The first: 104 (trace.csv:5).",
        "1 step of jobs was left out. The first: 101.batch (trace.csv:8).",
        "1 row was not in order of submission and moved. The first: trace.csv:4.",
    )


def test_a_slurm_job_of_less_than_a_second_ran(tmp_path: Path) -> None:
    text = samples.SLURM.replace("COMPLETED|3600|1-00:00:00", "COMPLETED|0|1-00:00:00")
    reading = read(tmp_path, "slurm", text)
    (short,) = [each for each in reading.workload.arrivals if each.job.gpus == 2]
    assert short.truth.work_seconds == 1
    assert "1 job ran for less than a second; it counts as one second." in said(reading.workload)
    assert "1 job that never ran was left out. The first: 105 (trace.csv:6)." in reading.workload.left_out


def test_a_slurm_user_may_be_the_tenant_and_have_a_part_of_a_gpu(tmp_path: Path) -> None:
    text = samples.SLURM.replace("gres/gpu=16", "gres/gpu=0.3")
    reading = read(tmp_path, "slurm", text, options=replace(OPTIONS, tenants="user"))
    assert [job.tenant for job in jobs(reading)] == ["mara", "ines", "ines"]
    assert jobs(reading)[-1].tasks == (Task(replicas=1, gpus=1, part=GpuPart(request=300, limit=300)),)


def test_openb_pods_have_the_parts_of_gpus_that_they_ask_for(tmp_path: Path) -> None:
    reading = read(tmp_path, "alibaba-gpu-v2023", samples.OPENB)
    whole, part, without = jobs(reading)
    assert (part.gpus, part.gpu_models, part.guaranteed) == (1, ("V100M16", "V100M32"), True)
    assert part.tasks == (
        Task(
            replicas=1,
            gpus=1,
            cpus=6.0,
            memory_bytes=12_288 * 2**20,
            part=GpuPart(request=460, limit=460),
        ),
    )
    assert not whole.has_parts
    assert without.tasks == (Task(replicas=1, gpus=0, cpus=32.0, memory_bytes=49_152 * 2**20),)
    assert work(reading) == [12_537_496, 12_902_960 - 427_161, 10_822_031 - 427_091]
    assert reading.workload.left_out == (
        "1 pod that was never scheduled was left out. The first: openb-pod-0003 (trace.csv:5).",
    )
    assert whole.gpu_models == ()


def test_best_effort_jobs_can_be_opportunistic(tmp_path: Path) -> None:
    options = replace(OPTIONS, best_effort="opportunistic")
    assert [
        job.guaranteed for job in jobs(read(tmp_path, "alibaba-gpu-v2023", samples.OPENB, options=options))
    ] == [
        True,
        False,
        False,
    ]
    assert [job.guaranteed for job in jobs(read(tmp_path, "chronus", samples.CHRONUS, options=options))] == [
        False,
        True,
    ]


def test_shockwave_adds_up_the_schedule_of_batch_sizes(tmp_path: Path) -> None:
    reading = read(tmp_path, "shockwave", samples.SHOCKWAVE)
    assert work(reading) == [2 * 60.5 + 40]
    (arrival,) = reading.workload.arrivals
    assert [(phase.batch_size, phase.epochs) for phase in arrival.truth.phases] == [(10, 2), (20, 1)]
    # The scheduler is told of the batch sizes, and not of when they come.
    regimes = (Regime(batch_size=10, epoch_seconds=60.5), Regime(batch_size=20, epoch_seconds=40.0))
    assert arrival.job.training == Training(epochs=3.0, batch_size=10, regimes=regimes)


def test_units_are_seconds_whatever_the_trace_has(tmp_path: Path) -> None:
    assert work(read(tmp_path, "tiresias", samples.TIRESIAS)) == [164, 147]
    assert work(read(tmp_path, "muri", samples.MURI)) == pytest.approx([5_853_661 * 0.490, 8_787_693 * 0.509])
    assert read(tmp_path, "muri", samples.MURI).workload.arrivals[0].job.profile == Profile(
        stages=(0.446, 0.008, 0.0)
    )
    assert work(read(tmp_path, "chronus", samples.CHRONUS)) == [98 * 60, 747 * 60]


def test_models_that_are_named_have_a_skew(tmp_path: Path) -> None:
    vgg, resnet = jobs(read(tmp_path, "tiresias", samples.TIRESIAS))
    assert vgg.skew == pytest.approx(0.744, abs=0.05)
    assert resnet.skew == pytest.approx(0.112, abs=0.001)
    assert skew_of("ResNet-50 (batch size 64)") == resnet.skew
    assert skew_of("dqn") is None


@pytest.mark.parametrize(
    ("gpus", "per_node", "task"),
    [
        (1, 8, Task(replicas=1, gpus=1)),
        (8, 8, Task(replicas=1, gpus=8)),
        (16, 8, Task(replicas=2, gpus=8)),
        (12, 8, Task(replicas=2, gpus=6)),
        (20, 8, Task(replicas=4, gpus=5)),
        (13, 8, Task(replicas=13, gpus=1)),
        (6, 4, Task(replicas=2, gpus=3)),
    ],
)
def test_a_gang_is_as_few_equal_replicas_as_fit_on_nodes(gpus: int, per_node: int, task: Task) -> None:
    assert gang(gpus, per_node) == task


# --- what is wrong with a file


def problem(folder: Path, format: str, text: str, options: TraceOptions = OPTIONS) -> Problem:
    """Return the one problem of a file, having checked that reading strictly raises just it."""
    reading = read(folder, format, text, options=options)
    (found,) = reading.problems
    with pytest.raises(TraceError) as raised:
        read(folder, format, text, strict=True, options=options)
    assert raised.value.problem == found
    assert str(found) in said(reading.workload)
    return found


@pytest.mark.parametrize("duration", ["nan", "-1", "inf", "1e999", "", "an hour", "None"])
def test_a_wrong_duration_is_named_with_file_line_and_field(tmp_path: Path, duration: str) -> None:
    text = samples.PHILLY.replace(",60,", f",{duration},")
    found = problem(tmp_path, "philly", text)
    assert str(found) == f'trace.csv:3: duration_s: "{duration}" is not a number of seconds of at least 0'
    assert work(read(tmp_path, "philly", text)) == [3600, 7200]


@pytest.mark.parametrize("gpus", ["0", "-8", "1.5", "nan", "many", ""])
def test_a_wrong_number_of_gpus_is_a_problem(tmp_path: Path, gpus: str) -> None:
    text = samples.TIRESIAS.replace("1,8,30", f"1,{gpus},30")
    found = problem(tmp_path, "tiresias", text)
    assert str(found) == f'trace.csv:3: num_gpu: "{gpus}" is not a whole number of GPUs of at least 1'


WRONG = [
    ("philly", samples.PHILLY, "2017-10-07 02:00:00", "7 October", "is not a time like 2017-10-07 01:11:39"),
    ("philly", samples.PHILLY, ",ee9e8c,", ",,", "vc: is empty; it must be a name"),
    ("philly", samples.PHILLY, "16,60,sum,A", "16", "has 4 fields, the header 7; the line may be cut off"),
    ("philly", samples.PHILLY_LOG, '"Killed"', '"Lost"', "is not a known end of a job"),
    (
        "philly",
        samples.PHILLY_LOG,
        "01:11:49",
        "01:12:30",
        r"attempts\[0\].start_time: is before the submission",
    ),
    (
        "philly",
        samples.PHILLY_LOG,
        '"2017-10-07 01:13:00"',
        "null",
        "the job still ran when the log was taken",
    ),
    (
        "philly",
        samples.PHILLY_LOG,
        '"gpus": [',
        '"none": [',
        "must be a list of nodes, each with ip and gpus",
    ),
    ("gavel", samples.GAVEL, "LM (batch size 10)", "LM", 'job_type: "LM" has no rate on v100 in sample.json'),
    ("gavel", samples.GAVEL, "\t500\t", "\t0\t", "total_steps: .* is not a number of steps above 0"),
    (
        "gavel",
        samples.GAVEL,
        "\t5\t-1.000000\t120.500000",
        "",
        "has 7 fields separated by tabs, the first line 10",
    ),
    ("pollux", samples.POLLUX, "ncf,6", "bert,6", 'application: "bert" has no profile; there are ncf'),
    ("pollux", samples.POLLUX, "6,1536", "6,999999", "must be from 256 to 2048"),
    ("pollux", samples.POLLUX, "ncf,6", "ncf,5", "num_replicas: 5 was not measured for ncf"),
    (
        "helios",
        samples.HELIOS.replace(",vchbv,0,", ",vchbv,1,"),
        "18:41:28,2020-06-09 18:41:28",
        "18:41:28,2020-06-09 18:41:27",
        "before the submission",
    ),
    (
        "helios",
        samples.HELIOS.replace(",vchbv,0,", ",vchbv,1,"),
        "TIMEOUT",
        "SUSPENDED",
        "state: .* is not a known end of a job",
    ),
    ("slurm", samples.SLURM, "TIMEOUT", "VANISHED", 'State: "VANISHED" is not a known end of a job'),
    ("slurm", samples.SLURM, "00:30:00", "30 min", 'Timelimit: "30 min" is not a time like 1-12:00:00'),
    ("slurm", samples.SLURM, "gres/gpu=16,node=2|", "gres/gpu|", 'ReqTRES: "gres/gpu" is not a resource'),
    (
        "alibaba-gpu-v2023",
        samples.OPENB,
        "427061,12902960,427161",
        "427061,12902960,427000",
        "before the creation",
    ),
    ("alibaba-gpu-v2023", samples.OPENB, ",460,", ",1460,", "gpu_milli: 1460 is more than a whole GPU"),
    ("alibaba-gpu-v2023", samples.OPENB, "Failed", "Evicted", "is not Failed, Running or Succeeded"),
    ("shockwave", samples.SHOCKWAVE, "10x2", "11x2", "batch size 11 has no entry"),
    ("allot", samples.ALLOT, "b,12.5", "a,12.5", "id: .* is the id of an earlier job"),
    ("allot", samples.ALLOT, "12.5", "2020-01-01 00:00:00", "is a date, but an earlier job's is seconds"),
    ("allot", samples.ALLOT, "false", "perhaps", "guaranteed: .* is neither true nor false"),
    (
        "allot",
        samples.ALLOT_LINES,
        '"gpus": 1',
        '"gpu": 1',
        "gpu: is not a field of this format; did you mean gpus",
    ),
    (
        "allot",
        samples.ALLOT_LINES,
        '"gpus": 1',
        '"gpus": 1, "gpus": 2',
        "gpus: is given twice",
    ),
    (
        "allot",
        samples.ALLOT_LINES,
        '"replicas": 2',
        '"gpus": 9, "replicas": 2',
        "is not replicas x gpus_per_replica",
    ),
]


@pytest.mark.parametrize(("format", "text", "right", "wrong", "message"), WRONG)
def test_a_wrong_row_is_a_problem_and_the_others_are_read(
    tmp_path: Path, format: str, text: str, right: str, wrong: str, message: str
) -> None:
    assert right in text
    head, _, tail = text.rpartition(right)
    reading = read(tmp_path, format, head + wrong + tail)
    assert len(reading.problems) == 1
    assert len(jobs(reading)) == len(jobs(read(tmp_path, format, text))) - 1
    with pytest.raises(TraceError, match=message):
        read(tmp_path, format, head + wrong + tail, strict=True)


def test_jobs_larger_than_allowed_and_of_unknown_models_are_problems(tmp_path: Path) -> None:
    found = problem(tmp_path, "philly", samples.PHILLY, TraceOptions(largest_gpus=8))
    assert str(found) == "trace.csv:3: asks for 16 GPUs; at most 8 are there"
    found = problem(
        tmp_path, "alibaba-gpu-v2023", samples.OPENB, TraceOptions(gpu_models=frozenset({"T4", "P100"}))
    )
    assert str(found) == "trace.csv:3: asks for V100M16 or V100M32; there is only P100 and T4"
    found = problem(tmp_path, "allot", samples.ALLOT, TraceOptions(gpu_models=frozenset({"v100"})))
    assert found.message == "asks for V100 or P100; there is only v100; did you mean v100?"


def test_rows_out_of_order_are_sorted_and_said_once(tmp_path: Path) -> None:
    reading = read(tmp_path, "chronus", samples.CHRONUS)
    assert [job.submitted_at for job in jobs(reading)] == [0, (8555 - 832) * 60]
    assert reading.workload.left_out == (
        "1 row was not in order of submission and moved. The first: trace.csv:3.",
    )
    assert read(tmp_path, "philly", samples.PHILLY).workload.left_out == ()


@pytest.mark.parametrize("format", LEAVING_OUT)
def test_reading_strictly_leaves_nothing_out(tmp_path: Path, format: str) -> None:
    (text,) = SAMPLES[format]
    with pytest.raises(
        TraceError, match=r"trace\.csv:\d: --strict leaves nothing out: (rows without|pods that|jobs without)"
    ):
        read(tmp_path, format, text, strict=True)


def test_problems_are_counted_by_field(tmp_path: Path) -> None:
    text = samples.PHILLY.replace(",60,", ",nan,").replace("6214e9,8", "6214e9,0")
    assert "2 rows were skipped (1 for duration_s and 1 for num_gpus)" in said(
        read(tmp_path, "philly", text).workload
    )


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_a_file_of_which_nothing_can_be_read_is_an_error(tmp_path: Path, format: str) -> None:
    with pytest.raises(TraceError, match=r"missing\.csv: cannot be read: No such file"):
        read_trace(tmp_path / "missing.csv", format, options=OPTIONS)
    with pytest.raises(TraceError, match=r"trace\.csv:1: .*(header|format)"):
        read(tmp_path, format, "one,two\n1,2\n")
    with pytest.raises(TraceError, match=r"trace\.csv: is empty; it must begin with"):
        read(tmp_path, format, "")


def test_an_unknown_format_or_option_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no trace format 'borg'; choose alibaba-gpu-v2023, allot"):
        read_trace(tmp_path, "borg")
    with pytest.raises(InputError, match="there is no trace option 'estimate'"):
        parse_options({"estimate": "none"})
    with pytest.raises(InputError, match="gpus_per_node: '0' is not a whole number of at least 1"):
        parse_options({"gpus_per_node": "0"})
    assert parse_options({"estimates": "none", "estimate_error": "0.5"}).estimate_error == 0.5


@pytest.mark.parametrize(
    ("format", "text"), [(name, text) for name, texts in SAMPLES.items() for text in texts]
)
def test_a_file_cut_off_anywhere_gives_the_whole_rows_before_it(
    tmp_path: Path, format: str, text: str
) -> None:
    everything = len(jobs(read(tmp_path, format, text)))
    step = max(1, len(text) // 25)
    for length in range(0, len(text), step):
        try:
            reading = read(tmp_path, format, text[:length])
        except TraceError:
            continue
        whole_rows = text[:length].count("\n")
        assert len(jobs(reading)) <= min(everything, whole_rows + 1)


def test_a_cut_off_archive_gives_what_is_left_of_it_and_says_so(tmp_path: Path) -> None:
    text = samples.PHILLY + "".join(
        f"2017-10-08 {n // 60 % 24:02d}:{n % 60:02d}:00,0,vc,{1 + n % 8},{n * 6_700_417 % 9973},,\n"
        for n in range(10_000)
    )
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    assert len(jobs(read_trace(path, "philly"))) == 10_003
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    reading = read_trace(path, "philly")
    assert 0 < len(jobs(reading)) < 10_003
    assert "the archive ends in the middle" in str(reading.problems[-1])
    path.write_bytes(data[:20_000] + bytes(2000) + data[22_000:])
    assert any("the archive is damaged here" in str(found) for found in read_trace(path, "philly").problems)


def test_bytes_that_are_no_text_are_a_problem_of_their_row(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(samples.PHILLY.encode().replace(b",16,", b",\xff\x00,"))
    assert [problem.line for problem in read_trace(path, "philly").problems] == [3]


@pytest.mark.parametrize(
    ("format", "text", "name"),
    [
        ("philly", samples.PHILLY, "ee9e8c"),
        ("philly", samples.PHILLY_LOG, "ee9e8c"),
        ("allot", samples.ALLOT, "speech"),
        ("allot", samples.ALLOT_LINES.replace('"gpus": 1', '"gpus": 1, "tenant": "speech"'), "speech"),
    ],
)
def test_a_name_that_is_not_utf_8_is_a_problem_of_its_row(
    tmp_path: Path, format: str, text: str, name: str
) -> None:
    """Read as something else, the job would be another tenant's."""
    path = tmp_path / "trace.csv"
    path.write_bytes(text.encode().replace(name.encode(), b"M\xfcller"))
    reading = read_trace(path, format)
    assert [found.message for found in reading.problems] == ["has bytes that are not UTF-8"]
    assert len(jobs(reading)) == len(jobs(read(tmp_path, format, text))) - 1


#: What is not a table in UTF-8, and what it is said to be.
FOREIGN = {
    "semicolons": (samples.ALLOT.replace(",", ";").encode(), "columns are separated by semicolons"),
    "tabs": (samples.ALLOT.replace(",", "\t").encode(), "columns are separated by tabs"),
    "utf-16": (samples.ALLOT.encode("utf-16"), "is text in UTF-16; save it as UTF-8"),
    "utf-16 without a mark": (samples.ALLOT.encode("utf-16-le"), "is text in UTF-16; save it as UTF-8"),
    "utf-32": (samples.ALLOT.encode("utf-32"), "is text in UTF-32"),
    "gzip": (gzip.compress(samples.ALLOT.encode()), "is a gzip archive; let its name end in .gz"),
    "a spreadsheet": (b"PK\x03\x04 and more", "is a zip archive or a spreadsheet"),
    "a list": (b'[{"submitted_at": 0, "gpus": 1}]', "is JSON; it must be a table"),
    "the header": (b"submitted_at,gpus,duration_seconds,\xff\n", "the header has bytes that are not UTF-8"),
}


@pytest.mark.parametrize(("data", "words"), FOREIGN.values(), ids=FOREIGN)
def test_a_file_that_is_something_else_is_said_to_be_that(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(data)
    with pytest.raises(TraceError, match=words):
        read_trace(path, "allot")


@pytest.mark.parametrize(("value", "words"), [("9" * 5_000, "number is too long"), ("[" * 99_999, "nested")])
@pytest.mark.parametrize("format", ["allot", "philly"])
def test_json_that_no_reader_takes_ends_in_a_problem(
    tmp_path: Path, format: str, value: str, words: str
) -> None:
    text = samples.ALLOT_LINES.replace("60,", f"{value},")
    if format == "philly":
        text = samples.PHILLY_LOG.replace('"Killed"', value)
    assert words in problem(tmp_path, format, text).message


@pytest.mark.parametrize("format", ["chronus", "gavel", "muri", "shockwave"])
def test_numbers_whose_product_is_infinite_are_a_problem(tmp_path: Path, format: str) -> None:
    rows = {
        "chronus": "submit_time,user,num_gpu,duration,model_name\n0,v,1,1e308,bert\n",
        "gavel": "arrival_s,job_type,scale_factor,total_steps\n0,Slow,1,1e308\n",
        "muri": "submit_time,num_gpu,iterations,iteration_time,model_name\n0,1,9e9,1e308,bert\n",
        "shockwave": samples.SHOCKWAVE.replace("10:60.5", "10:1e308"),
    }
    slow = ThroughputTable(name="slow", reference="v100", alone={("Slow", 1, "v100"): 0.1})
    found = problem(tmp_path, format, rows[format], TraceOptions(throughputs=slow))
    assert found.field == "duration_seconds"
    assert found.message.startswith("inf seconds are more than 100 years")


@pytest.mark.parametrize("name", ["NaN", "None", "null", "nan", "NULL"])
def test_what_tools_write_for_a_missing_name_is_no_virtual_cluster(tmp_path: Path, name: str) -> None:
    for format, text in (
        ("philly", samples.PHILLY),
        ("philly", samples.PHILLY_LOG),
        ("helios", samples.HELIOS.replace("vcJkd", "ee9e8c").replace(",vchbv,0,", ",vchbv,1,")),
        ("allot", samples.ALLOT.replace("vision,research", "vision,ee9e8c")),
    ):
        found = problem(tmp_path, format, text.replace("ee9e8c", name))
        assert found.message == f'"{name}" stands for a missing name; it must be a name'


def test_the_name_of_an_application_may_be_too_long_for_a_file(tmp_path: Path) -> None:
    options = TraceOptions(profiles=samples.write_profiles(tmp_path))
    long = "ncf" * 200
    assert (
        problem(tmp_path, "pollux", samples.POLLUX.replace(",ncf,6", f",{long},6"), options).field
        == "application"
    )
    own = "submitted_at,gpus,application,batch_size\n0,1,ncf,256\n"
    assert problem(tmp_path, "allot", own + f"1,1,{long},256\n", options).field == "application"


def test_the_first_jobs_to_arrive_can_be_kept(tmp_path: Path) -> None:
    reading = read(tmp_path, "chronus", samples.CHRONUS, limit=1)
    assert work(reading) == [98 * 60]
    assert "Only the first 1 of 2 jobs." in reading.workload.notes


# --- estimates


def test_estimates_can_be_exact_wrong_or_withheld(tmp_path: Path) -> None:
    def estimates(**options: Any) -> list[float | None]:
        reading = read(tmp_path, "philly", samples.PHILLY, options=replace(OPTIONS, **options))
        return [job.estimate_seconds for job in jobs(reading)]

    assert estimates() == [3600, 60, 7200]
    assert estimates(estimates="none") == [None, None, None]
    wrong = estimates(estimate_error=1.0, seed=7)
    assert wrong == estimates(estimate_error=1.0, seed=7) != estimates(estimate_error=1.0, seed=8)
    assert all(estimate and estimate > 0 for estimate in wrong)


def test_estimates_in_our_own_format_are_left_as_they_are(tmp_path: Path) -> None:
    reading = read(tmp_path, "allot", samples.ALLOT_LINES, options=TraceOptions(estimate_error=2.0))
    assert [job.estimate_seconds for job in jobs(reading)] == [None, 90]


# --- the published files themselves

PUBLISHED = [
    pytest.param("philly", "traces/philly/philly_jobs_merged.csv", 92_719, 0, marks=pytest.mark.slow),
    ("tiresias", "traces/tiresias/60_job.csv", 60, 0),
    ("gavel", "gavel/traces/physical_minimize_makespan.csv", 100, 0),
    ("gavel", "gavel/traces/philly_virtual_clusters_seed0.csv", 15_264, 0),
    ("pollux", "pollux/workloads/workload-1.csv", 160, 0),
    ("alibaba-gpu-v2023", "openb/openb_pod_list_default.csv", 7_255, 0),
    ("shockwave", "shockwave/traces/tacc_32gpus_120jobs.csv", 120, 0),
    ("muri", "muri/trace1.csv", 1_494, 0),
]


@pytest.mark.parametrize(("format", "file", "count", "problems"), PUBLISHED)
def test_published_traces_are_read(format: str, file: str, count: int, problems: int) -> None:
    if not (SHARED / file).is_file():
        pytest.skip(f"the public data are not here: {SHARED / file}")
    reading = read_trace(SHARED / file, format)
    assert (len(jobs(reading)), len(reading.problems)) == (count, problems)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        (
            "duration_seconds",
            "1e12",
            "1e+12 seconds are more than 100 years; at most 3,155,760,000 are allowed",
        ),
        ("time_limit_seconds", "1e12", "at most 3,155,760,000 are allowed"),
        ("time_limit_seconds", "1e308", "1e+308 seconds are more than 100 years"),
        ("estimate_seconds", "1e17", "at most 3,155,760,000 are allowed"),
        ("submitted_at", "-1e12", "at most 3,155,760,000 are allowed"),
        ("priority", "1e308", "is not between -1,000,000 and 1,000,000"),
    ],
)
def test_what_dates_and_sums_cannot_hold_is_refused(
    tmp_path: Path, field: str, value: str, expected: str
) -> None:
    row = {"submitted_at": "0", "gpus": "1", "duration_seconds": "60", field: value}
    (problem,) = read(tmp_path, "allot", f"{','.join(row)}\n{','.join(row.values())}\n").problems
    assert problem.field == field
    assert expected in problem.message


def test_seconds_that_grow_too_large_by_arithmetic_are_refused_too(tmp_path: Path) -> None:
    """Chronus counts in minutes."""
    text = samples.CHRONUS
    header, first, *rest = text.splitlines()
    column = header.split(",").index("duration")
    values = first.split(",")
    values[column] = "1e307"
    reading = read(tmp_path, "chronus", "\n".join([header, ",".join(values), *rest]) + "\n")
    assert [problem.field for problem in reading.problems] == ["duration_seconds"]


@pytest.mark.parametrize(("format", "column"), [("allot", "gpus"), ("helios", "gpu_num")])
def test_a_column_that_is_given_twice_is_refused_by_its_name(
    tmp_path: Path, format: str, column: str
) -> None:
    header, _, rows = SAMPLES[format][0].partition("\n")
    text = "\n".join([f"{header},{column}", *(f"{row},2" for row in rows.splitlines())])
    with pytest.raises(TraceError, match=rf"trace\.csv:1: {column}: the header has this column twice"):
        read(tmp_path, format, text)
