"""The job specification: what is accepted, what it becomes, and what is said of mistakes."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.model.auxiliary import Auto, Sensitivity
from scheduler.core.model.data_sets import DataSet
from scheduler.core.model.gpu_parts import GpuPart, SharingLabels
from scheduler.core.model.snapshot import Topology
from scheduler.core.model.tag_constraints import TagConstraint
from scheduler.jobspec import in_order, parse
from scheduler.jobspec.input_workers import input_worker_of
from scheduler.jobspec.launchers import LAUNCHERS, processes_each
from scheduler.jobspec.shape import shape_of
from scheduler.jobspec.spec import Watch
from tenants.errors import FieldError, Invalid
from tests.effort import examples


def spec(**fields: Any) -> dict[str, Any]:
    """Return a valid specification with these fields replaced."""
    task = {"name": "main", "resources": {"gpu": 1}, "command": ["true"]}
    return {"name": "train", "tasks": [task], **fields}


def task(**fields: Any) -> dict[str, Any]:
    return {"name": "main", "resources": {"gpu": 1}, "command": ["true"], **fields}


def problems(value: object, **options: Any) -> dict[str, FieldError]:
    """Return what is wrong with a specification, by field."""
    with pytest.raises(Invalid) as caught:
        parse(value, **options)
    return {problem.field: problem for problem in caught.value.fields}


def test_defaults_are_filled_in() -> None:
    assert parse(spec()).to_dict() == {
        "name": "train",
        "description": None,
        "virtual_cluster": None,
        "priority": 0,
        "guarantee": "guaranteed",
        "tasks": [
            {
                "name": "main",
                "replicas": 1,
                "resources": {"gpu": 1, "gpu_model": "any", "cpu": 0.0, "memory": 0},
                "command": ["true"],
                "env": {},
            }
        ],
        "elastic": None,
        "image": None,
        "topology": None,
        "time_limit": None,
        "estimate": None,
        "deadline": None,
        "application": None,
        "search": None,
        "skew": None,
        "nodes": None,
        "pinned_cell": None,
        "on_reclaim": None,
        "retry": {"max_attempts": 3, "attempts": {}, "matching": {}},
        "watch": None,
        "trial": None,
        "notify": None,
        "ports": [],
        "secrets": [],
        "checkpoint": {"grace_seconds": 30},
        "throughput": {},
        "labels": {},
    }


def test_a_pinned_cell_is_for_guaranteed_jobs() -> None:
    parsed = parse(spec(pinned_cell="demo 1"))
    assert parsed.shape()["pinned_cell"] == parsed.to_dict()["pinned_cell"] == "demo 1"
    assert parsed.core_job(tenant="vision", submitted_at=0.0).pinned_cell == "demo 1"
    told = problems(spec(pinned_cell="demo", guarantee="opportunistic"))["pinned_cell"]
    assert told.problem == "an opportunistic job cannot ask for a pinned cell"
    assert problems(spec(pinned_cell=["demo"]))["pinned_cell"].problem == "a list is not a valid name"


def test_jobs_to_wait_for_are_written_as_numbers_text_or_objects() -> None:
    parsed = parse(spec(after=[17, "18", "failed:19", {"job": 20, "when": "ended"}, 17], singleton=True))
    normal = parsed.to_dict()
    assert [(one["job"], one["when"]) for one in normal["after"]] == [
        (17, "succeeded"), (18, "succeeded"), (19, "failed"), (20, "ended"),
    ]  # fmt: skip
    assert parse(normal) == parsed
    assert parsed.shape()["singleton"] is normal["singleton"] is True
    assert "after" not in parse(spec()).to_dict()
    assert parse(spec(after="started:7")).to_dict()["after"] == [{"job": 7, "when": "started"}]
    told = problems(spec(after=["soon", {"job": 0}, {"job": 1, "when": "done"}, True], on_unmet="die"))
    assert set(told) == {"after.0", "after.1.job", "after.2.when", "after.3", "on_unmet"}
    assert told["after.0"].problem == "'soon' names no job"
    assert problems(spec(after=list(range(1, 200))))["after"].problem == "has 199 entries"


def test_what_becomes_of_a_job_whose_guarantee_is_taken() -> None:
    parsed = parse(spec(on_reclaim="downgrade"))
    assert parsed.shape()["on_reclaim"] == parsed.to_dict()["on_reclaim"] == "downgrade"
    assert parsed.core_job(tenant="vision").on_reclaim == "downgrade"
    told = problems(spec(on_reclaim="downgrad"))["on_reclaim"]
    assert told.problem == "'downgrad' is not known (did you mean \"downgrade\"?)"
    assert told.expected == "one of: preempt, downgrade"
    told = problems(spec(on_reclaim="preempt", guarantee="opportunistic"))["on_reclaim"]
    assert told.problem == "an opportunistic job has no guarantee that could be taken"


@pytest.mark.parametrize(
    ("nodes", "field", "problem"),
    [
        (["n1"], "nodes", "a list is not an object"),
        ({"only": "n1"}, "nodes.only", "'n1' is not a list"),
        ({"avoid": ["n1", 2]}, "nodes.avoid", "2 is not the name of a node"),
        ({"only": ["n1"], "avoid": ["n1"]}, "nodes.only", "leaves no node, since avoid names them all"),
        ({"only": ["n"] * 257}, "nodes.only", "has 257 entries"),
        ({"onlly": ["n1"]}, "nodes.onlly", 'is not a known field (did you mean "only"?)'),
    ],
)
def test_nodes_are_two_lists_of_names(nodes: object, field: str, problem: str) -> None:
    assert problems(spec(nodes=nodes))[field].problem == problem


def test_ports_have_names_and_may_have_numbers() -> None:
    parsed = parse(spec(notebook=True, ports=["metrics", {"name": "web", "port": 8080}]))
    assert parsed.ports == {"notebook": None, "metrics": None, "web": 8080}
    assert parse(parsed.to_dict()) == parsed


def test_everything_can_be_stated() -> None:
    parsed = parse(
        spec(
            virtual_cluster="research",
            priority=-5,
            guarantee="opportunistic",
            tasks=[
                task(name="worker", replicas=4, resources={"gpu": 2, "gpu_model": ["V100", "P100"]}),
                task(name="ps", resources={"gpu": 1, "cpu": 2.5, "memory": "4GiB"}, env={"A": 1}),
            ],
            topology={"level": "rack", "required": True},
            time_limit="1d12h",
            estimate="9h30m",
            deadline="2d",
            application="bert-large",
            search="rates",
            nodes={"only": ["n1", "n2", "n1"], "avoid": ["n3"]},
            skew=0.3,
            watch={"silent": "30m", "then": "stop", "idle_gpus": {"seconds": "1h"}},
            notify={"email": ["end", "preemption"]},
            retry={"max_attempts": 4, "attempts": {"engine": 3}, "matching": {"worker died": 2}},
            checkpoint={"grace_seconds": 0},
            throughput={"V100": 120.5, "K80": 0},
            labels={"team": "a"},
        )
    )
    assert parsed.gpus == 9
    assert parsed.gpu_models == ("V100", "P100")
    assert parsed.tasks[1].memory_bytes == 4 * 2**30
    assert parsed.tasks[1].env == {"A": "1"}
    assert parsed.time_limit_seconds == 36 * 3600
    assert parsed.watch == Watch(
        silent_seconds=1_800.0, then="stop", idle_seconds=3_600.0, idle_below_percent=5.0
    )
    assert parsed.notify_email == ("end", "preemption")
    assert parsed.topology == Topology(level="rack", required=True)
    assert parsed.shape() == {
        "tasks": [[4, 2, 0.0, 0], [1, 1, 2.5, 4 * 2**30]],
        "topology": ["rack", True],
        "min_gpus": None,
        "throughput": {"V100": 120.5, "K80": 0.0},
        "needs_containers": False,
        "estimate_seconds": 34_200.0,
        "application": "bert-large",
        "search": "rates",
        "nodes": {"only": ["n1", "n2"], "avoid": ["n3"]},
        "pinned_cell": "",
        "on_reclaim": "",
        "skew": 0.3,
        "deadline_seconds": 172_800.0,
    }
    core = parsed.core_job(tenant="vision", submitted_at=1_000.0)
    assert core.deadline_at == 173_800.0
    assert (core.gpus, core.guaranteed, core.priority) == (9, False, -5)
    assert core.search == "rates"
    assert (core.estimate_seconds, core.application, core.skew) == (34_200.0, "bert-large", 0.3)


def test_an_estimate_is_not_longer_than_the_limit() -> None:
    assert parse(spec(estimate="90m")).estimate_seconds == 5_400
    found = problems(spec(estimate="2h", time_limit="1h"))
    assert found == {
        "estimate": FieldError(
            "estimate",
            "7,200 seconds are longer than the time limit",
            "at most the time limit, 3,600 seconds",
        )
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [("estimate", "soon"), ("estimate", 0), ("application", "a b"), ("search", "a b"), ("skew", 1.5)],
)
def test_what_is_told_of_a_job_is_checked(field: str, value: object) -> None:
    found = problems(spec(**{field: value}))
    assert list(found) == [field]
    assert found[field].expected


def test_one_task_can_be_written_short() -> None:
    parsed = parse({"name": "short", "command": "python train.py | tee log", "gpus": 2, "replicas": 3})
    assert parsed.tasks[0].command == ("sh", "-c", "python train.py | tee log")
    assert (parsed.tasks[0].name, parsed.gpus) == ("main", 6)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (90, 90),
        ("90", 90),
        ("45s", 45),
        ("30m", 1800),
        ("2h", 7200),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("2 d", 172_800),
    ],
)
def test_durations(written: object, seconds: float) -> None:
    assert parse(spec(time_limit=written)).time_limit_seconds == seconds


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (4096, 4096),
        ("4096", 4096),
        ("512MiB", 512 * 2**20),
        ("4Gi", 4 * 2**30),
        ("1.5GB", 1_500_000_000),
        ("2 TiB", 2**41),
    ],
)
def test_sizes(written: object, expected: int) -> None:
    parsed = parse(spec(tasks=[task(resources={"gpu": 1, "memory": written})]))
    assert parsed.tasks[0].memory_bytes == expected


def test_every_mistake_is_reported_at_once() -> None:
    found = problems(
        {
            "name": "has space",
            "priorty": 3,
            "guarantee": "guarenteed",
            "tasks": [{"name": "w", "replicas": 0, "resources": {"gpu": -1, "gpus": 1}, "command": []}],
            "time_limit": "soon",
        }
    )
    assert set(found) == {
        "name",
        "priorty",
        "guarantee",
        "tasks.0.replicas",
        "tasks.0.resources.gpu",
        "tasks.0.resources.gpus",
        "tasks.0.command",
        "time_limit",
    }
    assert 'did you mean "priority"?' in found["priorty"].problem
    assert 'did you mean "guaranteed"?' in found["guarantee"].problem
    assert found["tasks.0.resources.gpu"].problem == "-1 is less than 0"
    assert found["tasks.0.resources.gpu"].expected == (
        "a whole number from 0 to 16, or a part of one GPU such as 0.3"
    )
    assert all(problem.expected for problem in found.values())


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"name": None}, "name"),
        ({"name": "x" * 64}, "name"),
        ({"description": "x" * 501}, "description"),
        ({"description": ["x"]}, "description"),
        ({"priority": True}, "priority"),
        ({"priority": 101}, "priority"),
        ({"priority": 10**400}, "priority"),
        ({"tasks": []}, "tasks"),
        ({"tasks": None}, "tasks"),
        ({"tasks": [task()] * 9}, "tasks"),
        ({"tasks": [task(), task()]}, "tasks.1.name"),
        ({"tasks": ["train.py"]}, "tasks.0"),
        ({"tasks": [task(resources="4")]}, "tasks.0.resources"),
        ({"tasks": [task(resources={"gpu": "4"})]}, "tasks.0.resources.gpu"),
        ({"tasks": [task(resources={"gpu": 17})]}, "tasks.0.resources.gpu"),
        ({"tasks": [task(resources={"gpu": 1, "gpu_model": []})]}, "tasks.0.resources.gpu_model"),
        (
            {"tasks": [task(resources={"gpu": 1, "gpu_model": ["V100", "V100"]})]},
            "tasks.0.resources.gpu_model",
        ),
        ({"tasks": [task(resources={"gpu": 1, "memory": "lots"})]}, "tasks.0.resources.memory"),
        ({"tasks": [task(resources={"gpu": 1, "memory": "9" * 400})]}, "tasks.0.resources.memory"),
        ({"tasks": [task(resources={"gpu": 1, "cpu": -1})]}, "tasks.0.resources.cpu"),
        ({"tasks": [task(command="")]}, "tasks.0.command"),
        ({"tasks": [task(command=["python", 3])]}, "tasks.0.command.1"),
        ({"tasks": [task(command=["a\0b"])]}, "tasks.0.command.0"),
        ({"tasks": [task(env={"CUDA_VISIBLE_DEVICES": "0"})]}, "tasks.0.env.CUDA_VISIBLE_DEVICES"),
        ({"tasks": [task(env={"ALLOT_JOB": "1"})]}, "tasks.0.env.ALLOT_JOB"),
        ({"tasks": [task(env={"1A": "x"})]}, "tasks.0.env.1A"),
        ({"tasks": [task(env={"A": True})]}, "tasks.0.env.A"),
        ({"topology": {"level": "row"}}, "topology.level"),
        ({"topology": {"level": "rack", "must": True}}, "topology.must"),
        ({"time_limit": 0}, "time_limit"),
        ({"time_limit": "400d"}, "time_limit"),
        ({"checkpoint": {"grace_seconds": 601}}, "checkpoint.grace_seconds"),
        ({"retry": {"max_attempts": 0}}, "retry.max_attempts"),
        ({"watch": {"then": "stop"}}, "watch.silent"),
        ({"watch": {"idle_gpus": {"seconds": 5}}}, "watch.idle_gpus.seconds"),
        ({"watch": {"silent": 5, "idle_gpus": {"below_percent": 0}}}, "watch.idle_gpus.below_percent"),
        ({"trial": {"gpus": 1}}, "trial.seconds"),
        ({"trial": {"seconds": "2h"}, "tasks": [task(replicas=2)]}, "trial.seconds"),
        ({"trial": {"seconds": 60}}, "trial"),
        ({"notify": {"email": ["ends"]}}, "notify.email"),
        ({"notify": {"email": "end"}}, "notify.email"),
        ({"notify": {"mail": []}}, "notify.mail"),
        ({"watch": {"silent": "30m", "then": "cry"}}, "watch.then"),
        ({"ports": "notebook"}, "ports"),
        ({"ports": ["Notebook"]}, "ports.0.name"),
        ({"ports": [{"name": "a", "port": 80}]}, "ports.0.port"),
        ({"ports": ["a", {"name": "a"}]}, "ports.1.name"),
        ({"ports": [{"name": "a", "port": 8888}, {"name": "b", "port": 8888}]}, "ports"),
        ({"notebook": True, "ports": ["notebook"]}, "ports.0.name"),
        ({"secrets": {"HF_TOKEN": "hf_abc"}}, "secrets"),
        ({"secrets": ["3-tokens"]}, "secrets.0.env"),
        ({"secrets": ["hf-token", "HF_TOKEN"]}, "secrets.1.env"),
        ({"secrets": [{"name": "hf"}]}, "secrets.0.env"),
        ({"secrets": [{"name": "hf", "env": "HF", "file": "hf"}]}, "secrets.0.file"),
        ({"secrets": [{"name": "hf", "file": "../hf"}]}, "secrets.0.file"),
        ({"secrets": [{"name": "hf", "env": "ALLOT_JOB"}]}, "secrets.0.env"),
        ({"secrets": [{"name": "hf", "env": "RANK"}]}, "secrets.0.env"),
        ({"secrets": ["A", {"name": "b", "env": "A"}]}, "secrets.1.env"),
        ({"secrets": ["A"], "tasks": [task(env={"A": "x"})]}, "secrets.0.env"),
        ({"secrets": [{"name": "hf", "env": "A", "scope": "mine"}]}, "secrets.0.scope"),
        ({"secrets": [{"name": "hf", "env": "A", "value": "x"}]}, "secrets.0.value"),
        ({"secrets": [7]}, "secrets.0"),
        ({"secrets": ["A"] * 21}, "secrets"),
        ({"elastic": {"min_gpus": 0}}, "elastic.min_gpus"),
        ({"elastic": {"min_gpus": 1, "most": 4}}, "elastic.most"),
        ({"retry": {"attempts": {"bad luck": 2}}}, "retry.attempts.bad luck"),
        ({"retry": {"attempts": {"engine": 0}}}, "retry.attempts.engine"),
        ({"retry": {"matching": {"": 2}}}, "retry.matching."),
        ({"retry": {"matching": {"x": True}}}, "retry.matching.x"),
        ({"deadline": "soon"}, "deadline"),
        ({"deadline": -5}, "deadline"),
        ({"throughput": {"V100": -1}}, "throughput.V100"),
        ({"throughput": {"V100": float("nan")}}, "throughput.V100"),
        ({"throughput": {"V100": float("inf")}}, "throughput.V100"),
        ({"throughput": {"V100": 1e13}}, "throughput.V100"),
        ({"throughput": {"V100": 1e-300}}, "throughput.V100"),
        ({"throughput": {"V100": 1e5, "K80": 1e-9, "P100": 0}}, "throughput.K80"),
        ({"labels": {"a": 1}}, "labels.a"),
        ({"labels": {str(n): "" for n in range(21)}}, "labels"),
        ({"image": "--privileged"}, "image"),
        ({"image": "dir:/etc"}, "image"),
        ({"image": 3}, "image"),
        ({"command": "true"}, "command"),
    ],
)
def test_one_mistake_is_named_where_it_is(fields: dict[str, Any], where: str) -> None:
    assert list(problems(spec(**fields))) == [where]


def test_mistakes_in_the_short_form_are_named_as_written() -> None:
    assert set(problems({"name": "a", "gpus": -1, "gpu_model": 3, "command": "true"})) == {
        "gpus",
        "gpu_model",
    }


def test_an_image_may_be_named_as_registries_do() -> None:
    for image in ("pytorch", "registry.example:5000/team/pytorch:2.5", f"a/b@sha256:{64 * 'a'}"):
        parsed = parse(spec(image=image))
        assert parsed.image == parsed.to_dict()["image"] == image
        assert parsed.shape()["needs_containers"]
    assert not parse(spec()).shape()["needs_containers"]


def test_all_tasks_want_the_same_model() -> None:
    first = task(name="a", resources={"gpu": 1, "gpu_model": "V100"})
    assert parse(spec(tasks=[first, task(name="b")])).gpu_models == ("V100",)
    other = task(name="b", resources={"gpu": 1, "gpu_model": "K80"})
    assert list(problems(spec(tasks=[first, other]))) == ["tasks.1.resources.gpu_model"]


def test_fields_of_bulk_submits_carry_their_place() -> None:
    assert list(problems(spec(tasks=[]), where="jobs.17")) == ["jobs.17.tasks"]
    assert list(problems("job", where="jobs.3")) == ["jobs.3"]


def test_a_huge_specification_is_refused() -> None:
    words = ["x" * 1000] * 70
    assert problems(spec(tasks=[task(command=words)]))["tasks"].expected == "at most 65536 characters in all"


def test_a_thousand_mistakes_are_cut_short() -> None:
    assert len(problems({**spec(), **{f"unknown{n}": 1 for n in range(50_000)}})) == 10


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
field_names = st.sampled_from(
    sorted({*parse(spec()).to_dict(), "image", "command", "gpus", "resources", "env"})
)


@given(st.dictionaries(field_names | st.text(), json_values, max_size=8))
@settings(max_examples=examples(300))
def test_nonsense_is_refused_and_never_crashes(fields: dict[str, Any]) -> None:
    outcome: tuple[FieldError, ...] | None = None
    try:
        json.dumps(parse({**spec(), **fields}).to_dict()).encode()
    except Invalid as error:
        outcome = error.fields
    assert outcome is None or (outcome and all(problem.problem for problem in outcome))


names = st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
tasks = st.builds(
    lambda name, replicas, gpu, cpu, memory, command: {
        "name": name,
        "replicas": replicas,
        "resources": {"gpu": gpu, "gpu_model": ["V100"], "cpu": cpu, "memory": memory},
        "command": command,
    },
    name=names,
    replicas=st.integers(1, 256),
    gpu=st.integers(1, 16),
    cpu=st.floats(0, 4096),
    memory=st.integers(0, 2**40) | st.sampled_from(["1GiB", "1.5 GB", "10M"]),
    command=st.lists(names, min_size=1, max_size=5) | names,
)
good_specs = st.fixed_dictionaries(
    {"name": names, "tasks": st.lists(tasks, min_size=1, max_size=4, unique_by=lambda task: task["name"])},
    optional={
        "priority": st.integers(-100, 100),
        "guarantee": st.sampled_from(["guaranteed", "opportunistic"]),
        "time_limit": st.floats(1, 1e6) | st.sampled_from(["30m", "2h", "1d"]),
        "topology": st.fixed_dictionaries({"level": st.sampled_from(["rack", "node"])}),
        "labels": st.dictionaries(
            names,
            st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=20),
            max_size=20,
        ),
    },
)


@given(good_specs)
@settings(max_examples=examples(50))
def test_a_stored_normal_form_comes_back_in_its_order(value: dict[str, Any]) -> None:
    # The order of a person's own names is not kept.
    labels = dict(sorted(value.get("labels", {}).items()))
    normal = parse({**value, "labels": labels}).to_dict()
    shuffled = json.loads(json.dumps(normal, sort_keys=True))
    assert json.dumps(in_order(shuffled)) == json.dumps(normal)


@given(good_specs)
@settings(max_examples=examples(200))
def test_the_normal_form_is_accepted_again_unchanged(value: dict[str, Any]) -> None:
    parsed = parse(value)
    assert parse(json.loads(json.dumps(parsed.to_dict()))) == parsed


def test_an_elastic_job_runs_fewer_replicas_of_its_only_task() -> None:
    worker = task(replicas=4, resources={"gpu": 2})
    parsed = parse(spec(tasks=[worker], elastic={"min_gpus": 4}))
    assert parsed.core_job(tenant="vision").elastic == (4, 8)
    assert parsed.shape()["min_gpus"] == 4
    assert parse(parsed.to_dict()) == parsed
    assert set(problems(spec(tasks=[worker], elastic={"min_gpus": 3}))) == {"elastic.min_gpus"}
    assert set(problems(spec(tasks=[worker], elastic={"min_gpus": 9}))) == {"elastic.min_gpus"}
    assert set(problems(spec(tasks=[worker, task(name="ps")], elastic={"min_gpus": 2}))) == {"elastic"}


@pytest.mark.parametrize(
    ("elastic", "range_", "mode", "stored"),
    [
        ({"min_gpus": 4}, (4, 8), "resizable", {"min_gpus": 4}),
        ({"max_gpus": 16}, (8, 16), "resizable", {"min_gpus": 8, "max_gpus": 16}),
        (
            {"min_gpus": 2, "max_gpus": 32, "mode": "adaptive"},
            (2, 32),
            "adaptive",
            {"min_gpus": 2, "max_gpus": 32, "elastic_mode": "adaptive"},
        ),
        ({"mode": "adaptive"}, (8, 8), "adaptive", {"min_gpus": 8, "elastic_mode": "adaptive"}),
        (
            {"min_gpus": 2, "mode": "fixed_world"},
            (2, 8),
            "fixed_world",
            {"min_gpus": 2, "elastic_mode": "fixed_world"},
        ),
        ({}, None, "resizable", {"min_gpus": None}),
        ({"mode": "resizable", "max_gpus": None}, None, "resizable", {"min_gpus": None}),
    ],
)
def test_what_an_elastic_job_says_is_kept_and_nothing_else(elastic, range_, mode, stored) -> None:
    parsed = parse(spec(tasks=[task(replicas=4, resources={"gpu": 2})], elastic=elastic))
    job = parsed.core_job(tenant="vision")
    assert (job.elastic, job.elastic_mode) == (range_, mode)
    shape = parsed.shape()
    assert {name: shape[name] for name in ("min_gpus", "max_gpus", "elastic_mode") if name in shape} == stored
    read = shape_of(json.dumps(shape))
    assert (read.elastic, read.elastic_mode) == (range_, mode)
    told = {name: value for name, value in elastic.items() if value not in (None, "resizable")}
    assert parsed.to_dict()["elastic"] == (told or None)
    assert parse(parsed.to_dict()) == parsed


@pytest.mark.parametrize(
    ("elastic", "field", "problem", "expected"),
    [
        ({"min_gpus": 10}, "min_gpus", "10 is more than 8", "a whole number from 1 to 8"),
        ({"max_gpus": 6}, "max_gpus", "6 is less than 8", "a whole number from 8 to 512"),
        ({"max_gpus": 514}, "max_gpus", "514 is more than 512", "a whole number from 8 to 512"),
        ({"max_gpus": 9}, "max_gpus", "9 GPUs are not whole replicas of 2 GPUs", "a multiple of 2"),
        (
            {"mode": "adaptiv"},
            "mode",
            "'adaptiv' is not known (did you mean \"adaptive\"?)",
            "one of: resizable, adaptive, fixed_world",
        ),
        (
            {"max_gpus": 16, "mode": "fixed_world"},
            "max_gpus",
            "a job in mode fixed_world has no more than its 4 replicas",
            "8, or another mode",
        ),
        (
            {"min_gpus": 6, "mode": "fixed_world"},
            "min_gpus",
            "4 replicas cannot share the GPUs of 3 evenly",
            "one of: 2, 4, 8",
        ),
    ],
)
def test_what_is_wrong_with_an_elastic_job_is_told_with_what_would_be_right(
    elastic, field, problem, expected
) -> None:
    told = problems(spec(tasks=[task(replicas=4, resources={"gpu": 2})], elastic=elastic))
    assert set(told) == {f"elastic.{field}"}
    assert (told[f"elastic.{field}"].problem, told[f"elastic.{field}"].expected) == (problem, expected)


def test_a_trial_of_an_elastic_job_is_not_elastic() -> None:
    elastic = {"min_gpus": 2, "max_gpus": 8, "mode": "adaptive"}
    parsed = parse(spec(tasks=[task(replicas=4)], elastic=elastic, trial={"seconds": 60}))
    trial = shape_of(json.dumps(parsed.shape()))
    assert (trial.gpus, trial.elastic, trial.elastic_mode) == (1, None, "resizable")
    gang = shape_of(trial.after_trial)
    assert (gang.gpus, gang.elastic, gang.elastic_mode) == (4, (2, 8), "adaptive")


def part_of(**resources: Any) -> dict[str, Any]:
    return spec(tasks=[task(resources=resources)])


def test_a_part_of_a_gpu_is_kept_in_thousandths() -> None:
    parsed = parse(part_of(gpu=0.3, gpu_limit=0.6, gpu_memory="6GiB"))
    assert parsed.to_dict()["tasks"][0]["resources"] == {
        "gpu": 0.3, "gpu_limit": 0.6, "gpu_memory": 6 * 2**30, "gpu_model": "any", "cpu": 0.0, "memory": 0,
    }  # fmt: skip
    assert parse(parsed.to_dict()) == parsed
    assert parsed.shape()["tasks"] == [[1, 1, 0.0, 0, [300, 600, 6 * 2**30]]]
    part = parsed.core_job(tenant="vision").tasks[0].part
    assert part == GpuPart(request=300, limit=600, memory_bytes=6 * 2**30)
    assert shape_of(json.dumps(parsed.shape())).tasks[0].part == part
    assert (parsed.gpus, parsed.core_job(tenant="vision").milligpus) == (1, 300)
    # As in KubeShare, what is no whole thousandth is rounded up. A limit that is not stated is the request.
    (smallest,) = parse(part_of(gpu=0.0001)).tasks
    assert smallest.part == GpuPart(request=1, limit=1)


def test_whole_gpus_are_written_as_before() -> None:
    parsed = parse(part_of(gpu=2.0))
    assert (parsed.gpus, parsed.tasks[0].part) == (2, None)
    assert parsed.to_dict()["tasks"][0]["resources"]["gpu"] == 2
    assert "sharing" not in parsed.to_dict()
    assert "gpu_limit" not in parsed.to_dict()["tasks"][0]["resources"]


@pytest.mark.parametrize(
    ("resources", "field", "problem", "expected"),
    [
        ({"gpu": 1.5}, "gpu", "1.5 is neither a part of one GPU nor whole GPUs", "1 or 2, or less than 1"),
        ({"gpu": -0.3}, "gpu", "-0.3 is less than 0", None),
        ({"gpu": 17}, "gpu", "17 is more than 16", None),
        ({"gpu": float("nan")}, "gpu", "nan is not a number of GPUs", None),
        (
            {"gpu": 0.3, "gpu_limit": 0.2},
            "gpu_limit",
            "0.2 is less than the part itself, 0.3",
            "a number from 0.3 to 1",
        ),
        ({"gpu": 0.3, "gpu_limit": 1.2}, "gpu_limit", "1.2 is more than 1", None),
        (
            {"gpu": 2, "gpu_limit": 0.5},
            "gpu_limit",
            "needs a part of a GPU, and the task has whole ones",
            None,
        ),
        (
            {"gpu": 1, "gpu_memory": 1},
            "gpu_memory",
            "needs a part of a GPU, and the task has whole ones",
            None,
        ),
    ],
)
def test_what_is_wrong_with_a_part(
    resources: dict[str, Any], field: str, problem: str, expected: str | None
) -> None:
    said = problems(part_of(**resources))[f"tasks.0.resources.{field}"]
    assert said.problem == problem
    assert expected is None or said.expected == expected


def test_labels_are_for_parts_and_parts_are_of_gangs_of_one_size() -> None:
    labelled = parse(part_of(gpu=0.5) | {"sharing": {"affinity": "a", "exclusion": "b"}})
    assert labelled.core_job(tenant="vision").sharing == SharingLabels(affinity="a", exclusion="b")
    assert parse(labelled.to_dict()) == labelled
    assert shape_of(json.dumps(labelled.shape())).sharing == labelled.sharing
    assert parse(part_of(gpu=0.5) | {"sharing": {}}).sharing is None
    said = problems(part_of(gpu=1) | {"sharing": {"exclusion": "b"}})["sharing"]
    assert said.problem == "the job has its GPUs to itself"
    said = problems(part_of(gpu=0.5) | {"elastic": {"max_gpus": 4}})["elastic"]
    assert said.problem == "a job with parts of GPUs has a fixed number of replicas"


SERVICE = {
    "name": "web",
    "command": "serve",
    "gpus": 1,
    "replicas": 3,
    "tags": ["web"],
    "constraints": [
        {"with": "web", "max": 0},
        {"with": "cache", "scope": "rack", "min": 1, "weight": 2},
    ],
}


def test_a_job_says_which_data_set_it_reads() -> None:
    stated = parse(spec(data={"name": "imagenet", "size": "140GiB", "bandwidth": "200MiB"}))
    normal = stated.to_dict()
    assert normal["data"] == {"name": "imagenet", "size": 140 * 2**30, "bandwidth": 200 * 2**20}
    assert parse(normal) == stated
    wanted = DataSet(name="imagenet", size_bytes=140 * 2**30, bandwidth=200.0 * 2**20)
    assert stated.core_job(tenant="vision").data == wanted
    assert shape_of(json.dumps(stated.shape())).data == wanted
    assert "data" not in parse(spec()).to_dict()
    assert "data" not in parse(spec()).shape()


@pytest.mark.parametrize(
    ("data", "field", "problem"),
    [
        ({"name": "imagenet"}, "data.size", "is missing"),
        ({"size": "1GiB"}, "data.name", "is missing"),
        ({"name": "a/b", "size": 1}, "data.name", "'a/b'"),
        ({"name": "a", "size": "2PiB"}, "data.size", "is not a size"),
        ({"name": "a", "size": 1, "bandwidth": "fast"}, "data.bandwidth", "is not a size"),
        ({"name": "a", "size": 1, "bandwidth": -1}, "data.bandwidth", "is negative"),
        ({"name": "a", "size": 1, "speed": 1}, "data.speed", "is not a known field"),
        ("imagenet", "data", "is not an object"),
    ],
)
def test_a_wrong_data_set_is_named(data: object, field: str, problem: str) -> None:
    found = problems(spec(data=data))
    assert problem in found[field].problem


def test_a_service_says_by_tags_whom_it_wants_near_it() -> None:
    parsed = parse(SERVICE)
    assert parse(parsed.to_dict()) == parsed
    alone = TagConstraint(tag="web", scope="node", most=0)
    near = TagConstraint(tag="cache", scope="rack", least=1, weight=2.0)
    job = parsed.core_job(tenant="vision")
    assert (job.tags, job.constraints) == (("web",), (alone, near))
    assert shape_of(json.dumps(parsed.shape())).constraints == (alone, near)
    assert {"tags", "constraints"}.isdisjoint(parse(part_of(gpu=1)).to_dict())
    # Its trial is one replica that soon ends: nobody minds it.
    tried = parse(SERVICE | {"trial": {"seconds": 60}}).shape()
    assert "constraints" not in tried
    assert "constraints" in tried["after_trial"]


@pytest.mark.parametrize(
    ("wrong", "field", "problem"),
    [
        ({"constraints": [{"with": "web"}]}, "constraints.0.max", "is missing"),
        ({"constraints": [{"with": "web", "min": 2, "max": 1}]}, "constraints.0.max", "1 is less than min"),
        (
            {"constraints": [{"with": "web", "scope": "nod", "max": 1}]},
            "constraints.0.scope",
            "'nod' is not known (did you mean \"node\"?)",
        ),
        (
            {"constraints": [{"with": "web", "max": 0, "weight": 0}]},
            "constraints.0.weight",
            "0 is less than 0.01",
        ),
        ({"tags": ["a b"]}, "tags", "'a b' is not the name of a tag"),
        ({"gpus": 0.5}, "constraints", "the job has parts of GPUs"),
        (
            {"elastic": {"max_gpus": 4}},
            "elastic",
            "a job with constraints has a fixed number of replicas",
        ),
        (
            {"topology": {"level": "rack"}},
            "topology",
            "a job with constraints states in constraints how close its replicas are",
        ),
    ],
)
def test_what_is_wrong_with_constraints_is_told(wrong: dict[str, Any], field: str, problem: str) -> None:
    assert problems(SERVICE | wrong)[field].problem == problem


def automatic(resources: dict[str, Any], **sensitivity: Any) -> dict[str, Any]:
    return {
        "name": "train",
        "command": ["true"],
        "resources": {"gpu": 1, **resources},
        "sensitivity": sensitivity or None,
    }


def test_a_job_leaves_cpus_and_memory_to_the_platform() -> None:
    parsed = parse(automatic({"cpu": "auto", "memory": "auto"}, cpu={"9": 2.5, 3: 1}, memory={"2GiB": 1}))
    task = parsed.to_dict()["tasks"][0]
    assert (task["resources"]["cpu"], task["resources"]["memory"]) == ("auto", "auto")
    assert task["sensitivity"] == {"cpu": {"3": 1, "9": 2.5}, "memory": {str(2 * 2**30): 1}}
    assert parse(parsed.to_dict()) == parsed
    (core_task,) = parsed.core_job(tenant="vision").tasks
    known = Sensitivity(by_cpus=((3.0, 1.0), (9.0, 2.5)), by_memory=((2.0 * 2**30, 1.0),))
    assert core_task.auto == Auto(cpus=True, memory=True, sensitivity=known)
    # It waits for neither.
    assert (core_task.cpus, core_task.memory_bytes) == (0.0, 0)
    assert shape_of(json.dumps(parsed.shape())).tasks == (core_task,)


def test_one_of_the_two_may_be_stated() -> None:
    parsed = parse(automatic({"gpu": 0.5, "cpu": "auto", "memory": "4GiB"}))
    (core_task,) = shape_of(json.dumps(parsed.shape())).tasks
    assert core_task.auto == Auto(cpus=True, memory=False)
    assert core_task.memory_bytes == 4 * 2**30
    assert core_task.part is not None
    assert "sensitivity" not in parsed.to_dict()["tasks"][0]


@pytest.mark.parametrize(
    ("resources", "sensitivity", "field", "problem"),
    [
        ({"cpu": "automatic"}, {}, "resources.cpu", "'automatic' is not a number"),
        ({"cpu": "Auto"}, {}, "resources.cpu", "'Auto' is not an amount"),
        (
            {"cpu": 2},
            {"cpu": {"2": 1}},
            "sensitivity.cpu",
            'needs resources.cpu: "auto", and the task states an amount',
        ),
        ({"cpu": "auto"}, {"cpu": [1]}, "sensitivity.cpu", "a list is not an object"),
        ({"cpu": "auto"}, {"cpu": {}}, "sensitivity.cpu", "has 0 entries"),
        ({"cpu": "auto"}, {"cpu": {"two": 1}}, "sensitivity.cpu.two", "'two' is not a number"),
        ({"cpu": "auto"}, {"cpu": {"0": 1}}, "sensitivity.cpu.0", "0 CPUs need no speed"),
        ({"cpu": "auto"}, {"cpu": {"2": 0}}, "sensitivity.cpu", "has no speed above 0"),
        ({"cpu": "auto"}, {"cpu": {"2": 1, "2.0": 2}}, "sensitivity.cpu.2.0", "repeats an amount"),
        (
            {"cpu": "auto"},
            {"cpu": {"2": 2, "4": 1}},
            "sensitivity.cpu",
            "is slower with 4 CPUs (1) than with",
        ),
        ({"memory": "auto"}, {"memory": {"much": 1}}, "sensitivity.memory.much", "'much' is not a size"),
    ],
)
def test_mistakes_in_what_is_automatic(
    resources: dict[str, Any], sensitivity: dict[str, Any], field: str, problem: str
) -> None:
    assert problems(automatic(resources, **sensitivity))[field].problem.startswith(problem)


def test_a_task_without_gpus_states_what_it_takes() -> None:
    parsed = parse({"name": "a", "gpus": 0, "resources": {"cpu": 4, "memory": "8GiB"}, "command": "true"})
    (task,) = parsed.core_job(tenant="vision", submitted_at=0.0).tasks
    assert (task.gpus, task.part, task.cpus, task.memory_bytes) == (0, None, 4.0, 8 * 2**30)
    assert (parsed.gpus, parsed.gpu_amount) == (0, 0)
    assert parse(parsed.to_dict()) == parsed
    assert shape_of(json.dumps(parsed.shape())).gpus == 0


def test_a_gang_may_have_tasks_with_and_without_gpus() -> None:
    helper = task(name="helper", replicas=2, resources={"gpu": 0, "memory": "1GiB"})
    parsed = parse(spec(tasks=[task(), helper]))
    assert [one.gpus for one in parsed.tasks] == [1, 0]
    assert parsed.gpus == 1


@pytest.mark.parametrize(
    ("fields", "field", "problem", "expected"),
    [
        (
            {"gpus": 0},
            "gpus",
            "is 0, and neither cpu nor memory states what each replica needs instead",
            "cpu or memory in numbers beside it, or gpu of 1 or more",
        ),
        (
            {"resources": {"gpu": 0, "cpu": "auto"}},
            "resources.cpu",
            '"auto" is in proportion to the GPUs, and the task has none',
            "a number, or gpu of 1 or more",
        ),
        (
            {"resources": {"gpu": 0, "cpu": 1, "gpu_limit": 0.5}},
            "resources.gpu_limit",
            "needs a part of a GPU, and the task has none",
            "nothing, or gpu below 1 instead of 0",
        ),
        *(
            (
                {"resources": {"gpu": 0, "cpu": 1}, **fields},
                next(iter(fields)),
                "needs GPUs, and this job has none",
                "nothing, or resources.gpu above 0",
            )
            for fields in (
                {"elastic": {"min_gpus": 1}},
                {"pinned_cell": "demo"},
                {"trial": {"gpus": 1, "seconds": 60}},
                {"tags": ["a"]},
                {"constraints": [{"with": "a", "scope": "node", "min": 1}], "tags": ["a"]},
                {"throughput": {"V100": 1}},
            )
        ),
        (
            {"resources": {"gpu": 0, "cpu": 1}, "replicas": 2, "ports": [{"name": "web", "port": 8080}]},
            "ports",
            "replicas without GPUs can be on one node, where only one of them can have the port",
            "ports without numbers, or one replica",
        ),
    ],
)
def test_what_does_not_go_with_no_gpus(
    fields: dict[str, Any], field: str, problem: str, expected: str
) -> None:
    found = problems({"name": "a", "command": "true", **fields})
    assert (found[field].problem, found[field].expected) == (problem, expected)


def test_a_trial_is_of_a_first_task_with_gpus() -> None:
    helper = task(name="helper", resources={"gpu": 0, "cpu": 1})
    gang = spec(tasks=[helper, task(replicas=4)], trial={"gpus": 1, "seconds": 60})
    assert problems(gang)["trial"].problem == "runs the first task, which has no GPUs"


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_launcher_starts_a_process_for_each_gpu_of_a_replica(launcher: str) -> None:
    for gpus, processes in ((4, 4), (1, 1), (0.5, 1), (0, 1)):
        resources = {"gpu": gpus, "cpu": 2}
        parsed = parse(spec(launcher=launcher, tasks=[task(replicas=2, resources=resources)]))
        assert parsed.to_dict()["launcher"] == launcher
        assert processes_each(parsed) == processes
    without = parse(spec(tasks=[task(resources={"gpu": 4})]))
    assert "launcher" not in without.to_dict()
    assert processes_each(without) == 1


def test_a_launcher_with_what_it_cannot_start_is_refused() -> None:
    found = problems(spec(launcher="torchrun", tasks=[task(name="a"), task(name="b")]))
    assert found["launcher"].problem == "the job has 2 tasks"
    assert problems(spec(launcher="srun"))["launcher"].expected == f"one of: {', '.join(LAUNCHERS)}"
    two_gpus = [task(resources={"gpu": 2})]
    found = problems(spec(launcher="torchrun", tasks=two_gpus, input_workers=WORKERS))
    assert found["input_workers"].problem == "needs one process in each replica, and torchrun starts 2"
    assert parse(spec(launcher="torchrun", input_workers=WORKERS)).launcher == "torchrun"
    assert parse(spec(tasks=two_gpus, input_workers=WORKERS)).input_workers is not None


WORKERS = {"command": ["python", "-m", "allot.training.input_workers", "dataset:make"]}


def test_a_job_has_input_workers() -> None:
    parsed = parse(
        spec(input_workers=WORKERS | {"min": 2, "max": 6, "cpu": 0.5, "memory": "2GiB"}, image="team/train:2")
    )
    written = parsed.to_dict()
    assert written["input_workers"] == WORKERS | {"min": 2, "max": 6, "cpu": 0.5, "memory": 2**31}
    assert parse(written) == parsed
    assert parse(spec(input_workers=WORKERS)).to_dict()["input_workers"] == WORKERS | {
        "min": 1,
        "max": 8,
        "cpu": 1.0,
        "memory": 2**30,
    }
    assert "input_workers" not in parse(spec()).to_dict()


def test_an_input_worker_asks_for_what_its_job_says_of_it() -> None:
    job = spec(
        name="a" * 63,
        priority=5,
        virtual_cluster="research",
        tasks=[task(env={"DATA": "/data"})],
        image="team/train:2",
        secrets=["HF_TOKEN"],
        input_workers=WORKERS | {"cpu": 2, "memory": "2GiB"},
        time_limit="2h",
        labels={"team": "vision"},
    )
    worker = input_worker_of(parse(job))
    assert worker is not None
    assert parse(worker.to_dict()) == worker
    written = worker.to_dict()
    assert written["name"] == "a" * 57 + "-input"
    assert written["tasks"] == [
        {
            "name": "main",
            "replicas": 1,
            "resources": {"gpu": 0, "gpu_model": "any", "cpu": 2.0, "memory": 2**31},
            "command": WORKERS["command"],
            "env": {"DATA": "/data"},
        }
    ]
    assert (written["guarantee"], written["priority"], written["image"]) == (
        "opportunistic",
        5,
        "team/train:2",
    )
    assert [use["name"] for use in written["secrets"]] == ["HF_TOKEN"]
    # Nobody gets mail about it, it ends with its job, and it is not found by the job's labels.
    assert (written["notify"], written["time_limit"], written["labels"]) == ({"email": []}, None, {})
    assert input_worker_of(parse(spec())) is None


@pytest.mark.parametrize(
    ("wrong", "field", "problem"),
    [
        ({"input_workers": {}}, "input_workers.command", "is missing"),
        ({"input_workers": 4}, "input_workers", "4 is not an object"),
        ({"input_workers": WORKERS | {"command": []}}, "input_workers.command", "a list is not a command"),
        ({"input_workers": WORKERS | {"min": 0}}, "input_workers.min", "0 is less than 1"),
        ({"input_workers": WORKERS | {"max": 65}}, "input_workers.max", "65 is more than 64"),
        (
            {"input_workers": WORKERS | {"min": 4, "max": 2}},
            "input_workers.max",
            "2 is less than min, 4",
        ),
        ({"input_workers": WORKERS | {"min": 9}}, "input_workers.max", "8 is less than min, 9"),
        ({"input_workers": WORKERS | {"cpu": 0}}, "input_workers.cpu", "0 is less than 0.1"),
        ({"input_workers": WORKERS | {"cpu": "auto"}}, "input_workers.cpu", "'auto' is not a number"),
        ({"input_workers": WORKERS | {"memory": "much"}}, "input_workers.memory", "'much' is not a size"),
        (
            {"input_workers": WORKERS | {"maximum": 4}},
            "input_workers.maximum",
            "is not a known field",
        ),
        (
            {"input_workers": WORKERS, "ports": ["input-workers"]},
            "ports",
            "input-workers is the port of the job's input workers",
        ),
        (
            {"input_workers": WORKERS | {"command": "x" * 70_000}},
            "tasks",
            "its commands, variables and labels are too long",
        ),
    ],
)
def test_what_is_wrong_with_input_workers_is_told(wrong: dict[str, Any], field: str, problem: str) -> None:
    found = problems(spec(**wrong))
    assert found[field].problem.startswith(problem), found
    assert found[field].expected
