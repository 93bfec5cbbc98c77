"""Flags over files, and files as people write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from allot.errors import WrongUse
from allot.spec_flags import spec_flags, values_of
from allot.specfiles import Over, Source, name_from, pairs, read_sources


def over(spec: dict[str, Any], values: Any = (), command: tuple[str, ...] = ()) -> dict[str, Any]:
    of_one_task = {flag.where: flag.names[0] for flag in spec_flags() if flag.is_of_one_task}
    return Over(dict(values), command, of_one_task).over(Source("job.yaml", spec))


def test_without_flags_a_file_is_sent_as_it_is() -> None:
    spec = {"name": "a", "gpus": 2, "command": ["true"], "unknown": 1}
    assert over(spec) == spec


def test_flags_alone_make_a_whole_specification() -> None:
    made = over(
        {"name": "x"},
        {
            "tasks.resources.gpu": 4,
            "tasks.resources.gpu_model": ["V100", "P100"],
            "tasks.env": {"K": "V"},
            "tasks.replicas": 2,
            "guarantee": "opportunistic",
            "virtual_cluster": "research",
            "time_limit": "1h",
            "priority": 5,
            "topology.level": "node",
            "topology.required": True,
            "checkpoint.grace_seconds": 60,
            "retry.max_attempts": 1,
            "labels": {"team": "vision"},
        },
        command=("python", "train.py", "--lr", "1"),
    )
    assert made == {
        "name": "x",
        "virtual_cluster": "research",
        "priority": 5,
        "guarantee": "opportunistic",
        "time_limit": "1h",
        "labels": {"team": "vision"},
        "topology": {"level": "node", "required": True},
        "checkpoint": {"grace_seconds": 60},
        "retry": {"max_attempts": 1},
        "tasks": [
            {
                "name": "main",
                "resources": {"gpu": 4, "gpu_model": ["V100", "P100"]},
                "env": {"K": "V"},
                "replicas": 2,
                "command": ["python", "train.py", "--lr", "1"],
            }
        ],
    }


def test_flags_win_and_the_rest_of_the_file_stays() -> None:
    spec = {
        "name": "a",
        "priority": 1,
        "labels": {"a": "1"},
        "tasks": [
            {"name": "w", "resources": {"gpu": 1, "cpu": 2}, "env": {"A": "1", "B": "2"}, "command": ["x"]}
        ],
    }
    made = over(
        spec, {"priority": 9, "tasks.resources.gpu": 4, "tasks.env": {"B": "3"}, "labels": {"b": "2"}}
    )
    assert made["priority"] == 9
    assert made["labels"] == {"a": "1", "b": "2"}
    assert made["tasks"] == [
        {"name": "w", "resources": {"gpu": 4, "cpu": 2}, "env": {"A": "1", "B": "3"}, "command": ["x"]}
    ]
    assert spec["tasks"][0]["resources"] == {"gpu": 1, "cpu": 2}, "the file's content is not changed"


def test_shorthand_becomes_a_task_when_a_flag_touches_it() -> None:
    made = over({"name": "a", "gpus": 1, "gpu_model": "V100", "command": "./run"}, {"tasks.resources.gpu": 2})
    assert made == {
        "name": "a",
        "tasks": [{"name": "main", "command": "./run", "resources": {"gpu": 2, "gpu_model": "V100"}}],
    }


def test_a_flag_for_one_task_is_refused_for_several() -> None:
    spec = {"name": "a", "tasks": [{"name": "ps"}, {"name": "worker"}]}
    with pytest.raises(WrongUse, match=r"2 tasks.*--gpus and a command"):
        over(spec, {"tasks.resources.gpu": 2}, command=("true",))
    assert [task["resources"] for task in over(spec, {"tasks.resources.gpu_model": "V100"})["tasks"]] == [
        {"gpu_model": "V100"}
    ] * 2


@pytest.mark.parametrize("spec", [{"tasks": "x"}, {"tasks": [1]}, {"tasks": [{"resources": 3}]}])
def test_flags_over_a_misshapen_file_are_wrong_use(spec: dict[str, Any]) -> None:
    with pytest.raises(WrongUse, match=r"job\.yaml"):
        over(spec, {"tasks.resources.gpu": 1})


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "train.py"], "train"),
        (["torchrun", "src/Train_Big Model.py", "-x"], "train-big-model"),
        (["./run.sh"], "run"),
        (["nvidia-smi"], "nvidia-smi"),
        (["///"], "job"),
    ],
)
def test_a_job_without_a_name_is_named_after_its_script(command: list[str], name: str) -> None:
    assert name_from(command) == name


def test_a_file_may_hold_several_documents_or_a_list(tmp_path: Path) -> None:
    several = tmp_path / "several.yaml"
    several.write_text("name: a\n---\nname: b\n---\n")
    listed = tmp_path / "list.json"
    listed.write_text('[{"name": "c"}, {"name": "d"}]')
    sources = read_sources([str(several), str(listed)])
    assert [source.spec["name"] for source in sources] == ["a", "b", "c", "d"]
    assert sources[1].where == f"{several}, document 2"


def test_dates_stay_text(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("name: 2026-01-31\n")
    assert read_sources([str(path)])[0].spec == {"name": "2026-01-31"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"just words", "not a job specification"),
        (b"a: [1\nb: 2", "line 2"),
        (b"a: {b: [1, .nan]}", r"line 1, column 12: a\.b\[1\]: \.nan is not a number that a field can have"),
        (b"a: 1\na: 2", r"line 2, column 1: a stands here twice"),
        (b"\xff\xfe", "UTF-8"),
        (b"x" * 1_000_001, "larger than 1,000,000 bytes"),
        (b"&a [*a]", "not YAML or JSON"),
        (b"[" * 1500, "not YAML"),
    ],
)
def test_what_is_no_specification_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(content)
    with pytest.raises(WrongUse, match=said) as caught:
        read_sources([str(path)])
    assert "job.yaml" in str(caught.value)


def test_a_command_without_dashes_gets_the_right_advice() -> None:
    with pytest.raises(WrongUse, match=r"allot submit .* -- COMMAND"):
        read_sources(["python", "train.py"])


def test_pairs() -> None:
    assert pairs(["A=1", "B=x=y", "C="], "--env") == {"A": "1", "B": "x=y", "C": ""}
    with pytest.raises(WrongUse, match="KEY=VALUE"):
        pairs(["A"], "--env")


def test_a_flag_says_what_its_field_gets() -> None:
    given = {
        "tasks_resources_gpu_model": "V100",
        "guarantee": False,
        "notify_email": "none",
        "nodes_only": "n1,n2",
        "on_reclaim": "downgrade",
        "tasks_env": ["A=1", "B="],
        "secrets": ["HF_TOKEN"],
        "priority": 0,
        "deadline": None,
    }
    assert values_of(given) == {
        "tasks.resources.gpu_model": "V100",
        "guarantee": "guaranteed",
        "notify.email": [],
        "nodes.only": ["n1", "n2"],
        "on_reclaim": "downgrade",
        "tasks.env": {"A": "1", "B": ""},
        "secrets": ["HF_TOKEN"],
        "priority": 0,
    }


#: The dashboard's reader is held to the same cases.
YAML_CASES = json.loads((Path(__file__).parent / "yaml_cases.json").read_text())


@pytest.mark.parametrize("case", YAML_CASES, ids=[case["what"] for case in YAML_CASES])
def test_yaml_says_what_it_says_on_the_page(tmp_path: Path, case: dict[str, Any]) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(f"job:\n{indented(case['yaml'])}\n")
    if "line" in case:
        with pytest.raises(WrongUse, match=rf"job\.yaml, line {case['line'] + 1}, column"):
            read_sources([str(path)])
    else:
        [source] = read_sources([str(path)])
        assert source.spec == {"job": case["value"]}


def indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


@pytest.mark.parametrize("flag", ["memory", "gpu_memory"])
def test_an_amount_of_memory_without_a_unit_is_questioned(flag: str) -> None:
    name = f"tasks_resources_{flag}"
    with pytest.raises(WrongUse, match=r"4096 has no unit: write 4096MiB or 4096GiB"):
        values_of({name: "4096"})
    assert values_of({name: "4096MiB"}) == {f"tasks.resources.{flag}": "4096MiB"}
