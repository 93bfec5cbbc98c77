"""Throughput tables: what they say of a kind of job, whichever file they come from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduler.core.model.interference import GroupSpeeds
from scheduler.simulation.errors import ThroughputError
from scheduler.simulation.rates import ThroughputTable, merged
from scheduler.simulation.throughputs import read_throughputs
from tests.simulation.samples import SHARED

A, B = "('A (batch size 1)', 1)", "('B', 1)"
GAVEL = {
    "v100": {
        A: {"null": 40.0, A: [20.0, 20.0], B: [30.0, 5.0]},
        B: {"null": 10.0, A: [5.0, 30.0], B: [0.0, 0.0]},
        "('B', 4)": {"null": 32.0},
    },
    "v100_unconsolidated": {"('B', 4)": {"null": 24.0}, A: {"null": 40.0}},
    "k80": {A: {"null": 10.0}, B: {"null": 0.0}, "('B', 4)": {"null": 4.0}},
}


def write(folder: Path, name: str, content: object) -> Path:
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder / name


@pytest.fixture
def table(tmp_path: Path) -> ThroughputTable:
    return read_throughputs(write(tmp_path, "gavel.json", GAVEL))


def test_rates_are_relative_to_the_reference_model(table: ThroughputTable) -> None:
    assert table.reference == "v100"
    assert table.rate("A (batch size 1)", 1, "V100") == 1
    assert table.rate("A (batch size 1)", 1, "K80") == 0.25
    assert table.rate("B", 4, "k80") == 4 / 32
    assert table.rate("A (batch size 1)", 1, "h100") is None
    assert table.rate("C", 1, "k80") is None


def test_a_model_on_which_a_job_does_not_fit_has_rate_0(table: ThroughputTable) -> None:
    assert table.rate("B", 1, "k80") == 0
    assert table.throughput("B", 1) == {"v100": 10.0}


def test_a_size_that_was_not_measured_is_like_the_nearest_smaller_one(table: ThroughputTable) -> None:
    assert table.rate("B", 16, "k80") == table.rate("B", 4, "k80")
    assert table.rate("B", 2, "k80") == table.rate("B", 1, "k80")
    assert table.reference_rate("B", 16) == 32
    assert table.throughput("B", 16) == {}


def test_an_elastic_gang_is_compared_with_the_size_its_work_is_of(table: ThroughputTable) -> None:
    assert table.rate("B", 1, "v100", of_gpus=4) == 10 / 32
    assert table.rate("B", 4, "k80", of_gpus=4) == table.rate("B", 4, "k80")
    assert table.rate("B", 2, "v100", of_gpus=4) is None


def test_locality_is_the_spread_rate_relative_to_the_near_one(table: ThroughputTable) -> None:
    assert table.locality("B", 4, 1) == 1
    assert table.locality("B", 4, 2) == table.locality("B", 4, 4) == 0.75
    assert table.locality("B", 4, 2, "k80") is None
    assert table.locality("B", 2, 2) is None


def test_interference_is_each_ones_rate_relative_to_its_own_alone(table: ThroughputTable) -> None:
    assert table.interference("A (batch size 1)", "B", "v100") == 0.75
    assert table.interference("B", "A (batch size 1)", "v100") == 0.5
    assert table.interference("B", "B", "v100") == 0
    assert table.interference("A (batch size 1)", "B", "k80") is None
    assert table.interference("A (batch size 1)", "B", "v100", gpus=4) is None


def test_pairs_are_told_to_policies_once_each_with_the_clusters_names_of_models(
    table: ThroughputTable,
) -> None:
    a, b = "A (batch size 1)", "B"
    known = {one.applications: (one.gpu_model, one.speeds) for one in table.pair_speeds({a, b}, ["V100"])}
    assert known == {
        (a, a): ("V100", (0.5, 0.5)), (a, b): ("V100", (0.75, 0.5)), (b, b): ("V100", (0.0, 0.0))
    }  # fmt: skip
    assert [one.applications for one in table.pair_speeds({a}, ["V100"])] == [(a, a)]
    assert table.pair_speeds({a, b}, ["K80"]) == ()


def test_a_gain_from_spreading_or_sharing_counts_as_none(tmp_path: Path) -> None:
    content = {
        "v100": {"('B', 4)": {"null": 32.0, "('B', 4)": [40.0, 40.0]}},
        "v100_unconsolidated": {"('B', 4)": {"null": 40.0}},
    }
    table = read_throughputs(write(tmp_path, "gavel.json", content))
    assert table.locality("B", 4, 2) == table.interference("B", "B", "v100", 4) == 1


def test_our_own_table_says_all_of_it_in_one_csv(tmp_path: Path) -> None:
    text = (
        "application,gpus,gpu_model,rate,nodes,other\n"
        "bert,8,V100,80,,\nbert,8,V100,60,2,\nbert,8,V100,20,4,\nbert,8,P100,40,1,\n"
        "bert,1,V100,10,,\nbert,1,V100,4,,ncf\n"
    )
    table = read_throughputs(write(tmp_path, "own.csv", text))
    assert (table.reference, table.rate("bert", 8, "P100")) == ("v100", 0.5)
    assert [table.locality("bert", 8, nodes) for nodes in (1, 2, 3, 4, 8)] == [1, 0.75, 0.5, 0.25, 0.25]
    assert table.interference("bert", "ncf", "V100") == 0.4
    assert read_throughputs(tmp_path / "own.csv", reference="P100").rate("bert", 8, "V100") == 2


def test_a_table_tells_of_three_and_four_on_the_same_gpus(tmp_path: Path) -> None:
    text = (
        "application,gpus,gpu_model,rate,other\n"
        "a,1,V100,10,\nb,1,V100,20,\nc,1,V100,40,\n"
        "a,1,V100,4,c+b\nb,1,V100,30,a+c\nc,1,V100,4,a + b\n"
        "b,1,V100,5,a+a+a\n"
    )
    table = read_throughputs(write(tmp_path, "own.csv", text))
    assert table.among("a", ["c", "b"], "V100") == 0.4
    assert table.among("b", ["a", "c"], "v100") == 1.0, "a gain is noise"
    assert table.among("b", ["a", "a", "a"], "V100") == 0.25
    assert table.among("b", ["a", "a"], "V100") is None
    # Of the four not every side is known.
    known = GroupSpeeds(applications=("a", "b", "c"), gpus=1, gpu_model="V100", speeds=(0.4, 1.0, 0.1))
    assert table.group_speeds({"a", "b", "c"}, ["K80", "V100"]) == (known,)
    assert table.group_speeds({"a", "b"}, ["V100"]) == table.group_speeds({"a", "b", "c"}, ["K80"]) == ()
    assert merged(table, ThroughputTable(name="none")).groups == table.groups


def test_chronus_and_lucid_add_locality_and_interference(tmp_path: Path, table: ThroughputTable) -> None:
    chronus = read_throughputs(write(tmp_path, "model_info.json", {"vgg16": {"8": {"1": 1.0, "4": 0.25}}}))
    lucid = read_throughputs(
        write(
            tmp_path,
            "pairs.csv",
            "model1,dataset1,batchsize1,amp1,speed1,model2,dataset2,batchsize2,amp2,speed2\n"
            "ResNet18,CIFAR-10,64,0,0.9,VGG,CIFAR-10,64,1,0.8\n",
        )
    )
    both = merged(table, chronus, lucid)
    assert both.locality("vgg16", 8, 2) == pytest.approx(0.75)
    assert both.interference("VGG/CIFAR-10/64/amp", "ResNet18/CIFAR-10/64", "any model") == 0.8
    assert both.rate("A (batch size 1)", 1, "k80") == 0.25
    assert both.applications >= {"vgg16", "B", "VGG/CIFAR-10/64/amp"}


def test_tables_of_two_references_are_not_mixed(tmp_path: Path, table: ThroughputTable) -> None:
    other = read_throughputs(write(tmp_path, "own.csv", "application,gpus,gpu_model,rate\nx,1,h100,5\n"))
    with pytest.raises(ThroughputError, match="reference models h100 and v100 cannot be joined"):
        merged(table, other)


BESIDE = "application,gpus,gpu_model,rate,nodes,other\n"
WRONG = [
    ("t.json", '{"v100": {', r"t\.json:1: is not JSON"),
    ("t.json", {"v100": {A: {"null": -1}}}, r"t\.json: v100: .*: null: -1 is not a rate of at least 0"),
    ("t.json", {"v100": {A: {"null": "NaN"}}}, "'NaN' is not a rate"),
    ("t.json", {"v100": {A: {}}}, "null: None is not a rate"),
    ("t.json", {"v100": {A: {"null": 1, B: [1]}}}, r"\[1\] is not a pair of rates"),
    ("t.json", {"v100": {A: {"null": 1}, "A": {"null": 1}}}, "'A' is not a job type such as"),
    ("t.json", {"k80": {A: {"null": 1}}}, "has no rates for the reference model v100; it has k80"),
    ("t.json", {"vgg16": {"8": {"one": 1.0}}}, "must be whole numbers"),
    ("t.csv", "application,gpus\nx,1\n", r"t\.csv:1: the header has no column gpu_model and rate"),
    ("t.csv", "application,gpus,gpu_model,rate\nx,0,v100,1\n", r"t\.csv:2: gpus: '0' is not a whole number"),
    ("t.csv", "application,gpus,gpu_model,rate\nx,1,v100,nan\n", r"t\.csv:2: rate: 'nan' is not a rate"),
    ("t.csv", "application,gpus,gpu_model,rate,nodes\nx,8,v100,1,2\n", "needs a row without nodes and other"),
    ("t.csv", BESIDE + "x,1,v100,1,,y+z\n", r"t\.csv:2: rate: x with 1 GPUs on v100 needs a row without"),
    (
        "t.csv",
        BESIDE + "x,1,v100,1,,a+b+c+d\n",
        r"t\.csv:2: other: 'a\+b\+c\+d' are 4 applications; at most 4",
    ),
    ("t.csv", BESIDE + "x,1,v100,1,,a+\n", r"t\.csv:2: other: 'a\+' has a plus without an application"),
    (
        "t.csv",
        BESIDE + "x,8,v100,1,2,a+b\n",
        r"t\.csv:2: a row says how fast a gang is over nodes, or beside",
    ),
]


@pytest.mark.parametrize(("name", "content", "message"), WRONG)
def test_a_wrong_table_says_where_and_what(tmp_path: Path, name: str, content: object, message: str) -> None:
    with pytest.raises(ThroughputError, match=message):
        read_throughputs(write(tmp_path, name, content))


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(ThroughputError, match=r"nowhere\.json: cannot be read"):
        read_throughputs(tmp_path / "nowhere.json")


def test_the_published_table_of_gavel_is_read() -> None:
    path = SHARED / "gavel" / "simulation_throughputs.json"
    if not path.is_file():
        pytest.skip(f"the public data are not here: {path}")
    table = read_throughputs(path)
    assert len(table.applications) == 26
    assert table.gpu_models == ("k80", "p100", "v100")
    assert table.rate("ResNet-18 (batch size 16)", 1, "k80") == pytest.approx(4.7953 / 32.3534, rel=1e-4)
    assert table.locality("LM (batch size 5)", 8, 2) == pytest.approx(0.1046404)
