"""Tables of throughputs: read as a whole, every wrong line named, and written so that they read back."""

import json
from pathlib import Path

import pytest

from scheduler.core.perf import tables
from scheduler.core.perf.tables import TableEntry, read_table, write_csv, write_gavel
from scheduler.core.perf.throughput import Setting
from scheduler.simulation.throughputs import read_throughputs

HEADER = "application,gpus,gpu_model,rate,nodes,other\n"
GAVEL = {
    "v100": {
        "('LM (batch size 5)', 1)": {"null": 10.0, "('A3C', 1)": [5.0, 8.0], "('A3C', 2)": [1.0, 1.0]},
        "('A3C', 1)": {"null": 10.0, "('LM (batch size 5)', 1)": [8.0, 5.0]},
    },
    "k80": {"('A3C', 1)": {"null": 0.0}},
    "v100_unconsolidated": {"('A3C', 2)": {"null": 12.0, "('A3C', 2)": [1.0, 1.0]}},
}


def test_our_csv() -> None:
    text = "bert,4,V100,200,,\nbert,4,V100,150,2,\nbert,4,V100,120,,gpt\nbert,4,K80,0,1,\n"
    table = read_table(f"\ufeff{HEADER}{text}")
    assert (table.layout, table.problems) == ("csv", [])
    assert table.throughputs == {
        ("bert", Setting("V100", 4)): 200.0,
        ("bert", Setting("V100", 4, spread=True)): 150.0,
        ("bert", Setting("V100", 4, partner="gpt")): 0.6,
        ("bert", Setting("K80", 4)): 0.0,
    }


def test_lines_may_end_as_on_any_machine_and_fields_may_be_quoted() -> None:
    text = '"application",gpus,"gpu_model",rate\r\n"bert",1,V100,5\r\n\r\n"gpt",1,V100,x\r\n'
    table = read_table(text)
    assert table.throughputs == {("bert", Setting("V100", 1)): 5.0}
    assert [problem.place for problem in table.problems] == ["line 4"]


def test_gavels_layout() -> None:
    table = read_table(json.dumps(GAVEL))
    assert (table.layout, table.problems) == ("gavel", [])
    assert table.renamed == {"LM (batch size 5)": "LM-batch-size-5"}
    assert table.throughputs == {
        ("LM-batch-size-5", Setting("v100", 1)): 10.0,
        ("LM-batch-size-5", Setting("v100", 1, partner="A3C")): 0.5,
        ("A3C", Setting("v100", 1)): 10.0,
        ("A3C", Setting("v100", 1, partner="LM-batch-size-5")): 0.8,
        ("A3C", Setting("k80", 1)): 0.0,
        ("A3C", Setting("v100", 2, spread=True)): 12.0,
    }


def test_up_to_three_share_the_gpus_of_one_whichever_order_they_are_in() -> None:
    text = "bert,1,V100,10,,\nbert,1,V100,6,,vit+gpt\nbert,1,V100,4,,vit+bert + a b\n"
    table = read_table(HEADER + text)
    assert (table.problems, table.renamed) == ([], {"a b": "a-b"})
    assert table.throughputs == {
        ("bert", Setting("V100", 1)): 10.0,
        ("bert", Setting("V100", 1, partner="gpt+vit")): 0.6,
        ("bert", Setting("V100", 1, partner="a-b+bert+vit")): 0.4,
    }


def test_a_gain_from_sharing_is_noise() -> None:
    table = read_table(f"{HEADER}a,1,V100,10,,\na,1,V100,11,,b\n")
    assert table.throughputs["a", Setting("V100", 1, partner="b")] == 1.0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("bert,1,V100,-1,,", "rate: -1 is negative"),
        ("bert,1,V100,nan,,", "rate: nan is not a number"),
        ("bert,1,V100,inf,,", "rate: inf is not a finite number"),
        ("bert,1,V100,1e13,,", "rate: 1e+13 is more than"),
        ("bert,1,V100,fast,,", "rate: fast is not a number"),
        ("bert,1,V100", "rate: None is not a number"),
        ("bert,0,V100,1,,", "gpus: 0 is no size of a gang"),
        ("bert,99999,V100,1,,", "gpus: 99999 is no size of a gang"),
        ("bert,1,V 100,1,,", "gpu_model: V 100 is no model's name"),
        ("((())),1,V100,1,,", "application: ((())) is no name"),
        ("bert,1,V100,1,two,", "nodes: two is no number of nodes"),
        ("bert,1,V100,1,2,gpt", "says both nodes and other"),
        ("bert,1,V100,1,,gpt", "bert with 1 GPUs on V100 has no rate alone"),
        ("bert,1,V100,1,,gpt+vit", "bert with 1 GPUs on V100 has no rate alone"),
        ("bert,1,V100,1,,a+b+c+d", "other: a+b+c+d are 4 applications"),
        ("bert,1,V100,1,,a+", "other: +a lacks an application"),
        ("fine,1,K80,1,,a+b\nfine,1,K80,1,,b+a", "says the same as line 3"),
        ("fine,1,K80,1,,", "says the same as line 2"),
        ("fine,1,V100,9e6,,", "rate: 1 is too far from 9e+06"),
        ("a b,1,V100,1,,\na  b,1,K80,1,,", "application: a  b would be called a-b, as another is"),
    ],
)
def test_wrong_lines_are_named(line: str, words: str) -> None:
    table = read_table(f"{HEADER}fine,1,K80,1,,\n{line}\n")
    (problem,) = table.problems
    assert words in problem.problem
    assert problem.place in ("line 2", "line 3", "line 4")
    assert problem.expected


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "line 1"),
        ("application,gpus\na,1\n", "line 1"),
        (HEADER, "line 1"),
        ("{not json}", "line 1"),
        ("{}", "line 1"),
        ('{"v100": 3}', "v100"),
        ('{"v100": {"LM": {"null": 1}}}', "v100: LM"),
        ("""{"v100": {"('LM', 1)": {"null": NaN}}}""", "v100: ('LM', 1)"),
        ("""{"v100": {"('LM', 1)": {"null": true}}}""", "v100: ('LM', 1)"),
        ("""{"v100": {"('LM', 1)": {}}}""", "v100: ('LM', 1)"),
        ("""{"v100": {"('LM', 1)": {"null": 1, "('A', 1)": 3}}}""", "v100: ('LM', 1): ('A', 1)"),
        ("[" * 100_000, "line 1"),
        ('{"a":' * 100_000, "line 1"),
        (f"{HEADER}a,1,V100,{'9' * 200_000},,", "line 2"),
        (f"{HEADER}a\0b,1,V100,(,,", "line 2"),
    ],
)
def test_what_is_no_table_is_said_to_be_none(text: str, place: str) -> None:
    table = read_table(text)
    assert table.problems
    assert table.problems[0].place == place


def test_all_wrong_lines_are_named_at_once() -> None:
    table = read_table(HEADER + "bert,1,V100,-1,,\n" * 300)
    assert [problem.place for problem in table.problems] == [f"line {n}" for n in range(2, 302)]


def test_a_table_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_LINES", 3)
    table = read_table(HEADER + "".join(f"a{n},1,V100,1,,\n" for n in range(9)))
    assert [problem.place for problem in table.problems] == ["line 5"]


def test_what_is_written_reads_back_here_and_in_the_simulator(tmp_path: Path) -> None:
    throughputs = {
        ("bert", Setting("V100", 4)): 200.0,
        ("bert", Setting("K80", 4)): 20.0,
        ("bert", Setting("V100", 4, spread=True)): 150.0,
        ("bert", Setting("V100", 4, partner="gpt")): 0.6,
        ("gpt", Setting("V100", 4)): 80.0,
        ("gpt", Setting("V100", 4, partner="bert")): 0.75,
        ("gpt", Setting("V100", 4, partner="bert+vit")): 0.5,
    }
    # Nothing to compare with: such rows cannot be written for the simulator.
    lost = {("lone", Setting("V100", 4, spread=True)): 1.0, ("lone", Setting("K80", 4, partner="bert")): 0.5}
    written = {key: TableEntry(throughput, "measured", 3) for key, throughput in (throughputs | lost).items()}
    assert read_table(write_csv(written)).throughputs == pytest.approx(throughputs)
    (tmp_path / "own.csv").write_text(write_csv(written))
    own = read_throughputs(tmp_path / "own.csv", reference="V100")
    assert own.rate("bert", 4, "K80") == pytest.approx(0.1)
    assert own.locality("bert", 4, 2) == pytest.approx(0.75)
    assert own.interference("bert", "gpt", "V100", 4) == pytest.approx(0.6)
    assert own.among("gpt", ("vit", "bert"), "V100", 4) == pytest.approx(0.5)

    read = read_table(write_gavel(written)).throughputs
    in_lower_case = {
        (name, key._replace(gpu_model=key.gpu_model.lower())): v
        for (name, key), v in throughputs.items()
        if key.partner != "bert+vit"  # It has pairs only.
    }
    assert read == pytest.approx({**in_lower_case, ("lone", Setting("v100", 4, spread=True)): 1.0})
    (tmp_path / "gavel.json").write_text(write_gavel(written))
    gavel = read_throughputs(tmp_path / "gavel.json")
    assert gavel.rate("bert", 4, "K80") == pytest.approx(0.1)
    assert gavel.interference("gpt", "bert", "V100", 4) == pytest.approx(0.75)
