"""The layout of the project: what may be where, and how long it may be."""

import ast
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from scripts import structure
from scripts.structure import Structure

ROOT = Path(__file__).resolve().parents[1]
SOURCE_FOLDERS = ("platform", "tenants", "scheduler", "frontend/src", "examples", "benchmarks", "scripts")
SUFFIXES = {".py", ".ts", ".tsx", ".css", ".sh", ""}
SOURCE_LINES, TEST_LINES = 500, 1000
# Written by tools: Django's migrations, and the API's types in TypeScript and Python.
GENERATED = ("/migrations/", "frontend/src/api/schema.d.ts", "platform/allot/schema.py")
# Names that say nothing gather everything.
SAYING_NOTHING = {"utils", "util", "common", "helpers", "helper", "base", "misc", "shared", "lib"}
# Words that were given up, and what stands for them.
GIVEN_UP = {"minder": "shim", "minded": "shim", "outpost": "remote runner", "errand": "batch job"}
# Names of files and folders, and of the first agent's shims in the upgrade test, which have to be found.
STILL_READ = re.compile(r'minder\.lock|errand\.json|[`"]errands[`"]|\(shim\|minder\)')

# Words that went and what is said instead, by the folder they left. Whoever renames a thing appends here.
GONE = {
    "scheduler/core": {
        "Agenda": "EventQueue",
        "Asked": "SolverRequest",
        "Bench": "Evaluator",
        "Chosen": "ColumnShares, AssignmentChoice",
        "Closing": "DrainDeadlines",
        "Dealt": "MarketStep",
        "Estimated": "RowEstimate",
        "Failed": "FailedAttempt",
        "Floor": "SimulatedCluster",
        "Followed": "RuleOutcome",
        "Found": "BestShares",
        "Granted": "GroupGrant",
        "Guaranteed": "GuaranteedRequest",
        "Had": "Bundle",
        "Held": "TenantHoldings",
        "Kind": "JobClass",
        "Knowledge": "ThroughputEstimator",
        "LateWatch": "LateStartDetector",
        "Lease": "LeaseSettler",
        "Ledger": "Deficits",
        "Measured": "MovingAverage",
        "PROMISED": "RESERVED",
        "Pacing": "StepReporter",
        "Planned": "RoundSchedule",
        "Promise": "BackfillReservation",
        "Prospect": "RunOption",
        "Prospects": "RunOptions",
        "Question": "SolverInput",
        "Rebuilt": "Rebuild",
        "Reconfigured": "Reconfiguration",
        "Reported": "TrainingReport",
        "Restraint": "PreemptionLimits",
        "Scripted": "ScriptedEvent",
        "Seating": "LeasePlacement",
        "Seen": "BatchSizeEpochs",
        "Served": "ViewOutcome",
        "Session": "RoundEngine",
        "Speed": "Throughput",
        "Spending": "BudgetMeter",
        "StrideTurns": "StrideTimeSlices",
        "Targets": "TimeShares",
        "Telling": "TrainingReporter",
        "Told": "AppStanding",
        "Tried": "Evaluation",
        "Turns": "TimeSlices",
        "Waited": "JobWait",
        "Watch": "ClusterSampler",
        "Written": "TableEntry",
        "_Purse": "_Balance, _Borrower",
        "agenda": "events",
        "asked": "request",
        "floors": "lower_bounds",
        "homeless": "orphaned",
        "kind_of": "job_class_of",
        "promise": "nominate, guarantee",
        "told": "known",
        "unpromised": "unguaranteed",
        "wanted": "desired, needed",
        "wanted_since": "demand_since",
        "wish": "desired",
        "wishes": "candidates",
    },
    "scheduler/simulation": {
        "Drawn": "DrawnJob",
        "Happening": "ScenarioEvent",
        "Prepared": "PreparedCase",
    },
    "scheduler": {
        "Applied": "ApplyOutcome",
        "Borrowed": "IncomingLoan",
        "BulkCancelled": "BulkCancelAnswer",
        "BulkSubmitted": "BulkSubmitAnswer",
        "Cancelled": "CancelOutcome",
        "Compared": "ComparisonRun",
        "Declared": "FieldDeclaration",
        "Dropped": "DroppedAction",
        "FailureRulesFound": "FailureRuleMatch",
        "Fenced": "FenceError",
        "Foreseen": "StartForecast",
        "Found": "SearchOutcome",
        "GivenUp": "MatchTimeout",
        "InForce": "CellsInForce",
        "Isolated": "IsolatedSplit",
        "KnownSpeeds": "KnownThroughputs",
        "Lent": "OutgoingLoan",
        "Listed": "ListOf",
        "LogRemoved": "LogRemoval",
        "MarketNow": "MarketState",
        "NodeRefused": "NodeRefusal",
        "NodeWithdrawn": "NodeWithdrawal",
        "Overruns": "CircuitBreaker",
        "PassHeld": "HeldPass",
        "Replayed": "ReplayOutcome",
        "SpeedCorrected": "ThroughputCorrection",
        "SpeedMeasured": "ThroughputMeasurement",
        "Wanted": "SessionRequest, VirtualClusterSettings",
        "_Kept": "_CachedEstimator",
        "_Sending": "_Dispatch",
        "_told": "what it is",
        "ask_for_forecast": "request_forecast",
        "ask_for_round": "request_round",
        "asked": "request",
        "comparable_speeds": "comparable_throughputs",
        "courier": "sender",
        "deed": "mutation",
        "hint_round": "request_round_on_commit",
        "job_speeds": "job_throughputs",
        "known_speeds": "known_throughputs",
        "put_off": "gc_paused",
        "speed_correct": "throughput_correct",
        "tell_and_send": "dispatch",
        "turns_of": "time_slices_of",
        "wanted": "desired, body",
        "wish": "desired",
    },
    "tenants": {
        "Audited": "AuditedTable",
        "Held": "RoleInTenant",
        "Sealed": "SealedValue",
        "asked": "request",
        "told": "generated, shown",
        "wanted": "desired, body",
    },
    "platform/controlplane": {
        "Broken": "RelayError",
        "asked": "content",
        "told": "stopping",
        "wanted": "request",
        "wanted_of": "session_request_of",
    },
    "platform/nodeagent": {
        "BatchWatch": "BatchPoller",
        "Desired": "DesiredState",
        "DiskWatch": "DiskMeter",
        "Reached": "Endpoint",
        "Refused": "Refusal",
        "Watch": "CheckState",
        "is_wanted": "is_desired",
        "promise": "reserve",
        "told": "known",
        "wanted": "desired",
        "wish": "desired",
    },
}


# What `python -m scripts.structure` counts may only fall. A change that lowers a number lowers it here, too.
STRUCTURE = {
    "core": {"rooms": 15, "floors": 7, "arrows": 49, "upward": 0, "fewest upward": 0, "in circles": 0},
    "server": {"rooms": 18, "floors": 9, "arrows": 82, "upward": 0, "fewest upward": 0, "in circles": 0},
}


def files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix in SUFFIXES and "__pycache__" not in path.parts:
                yield path


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def is_test(path: Path) -> bool:
    return name_of(path).startswith("tests/") or ".test." in path.name


def test_platform_is_a_folder_and_no_package() -> None:
    """As a package it would shadow Python's own `platform` for everything run from here (0001)."""
    assert not (ROOT / "platform" / "__init__.py").exists()


@pytest.mark.parametrize(
    "command",
    [
        ["-c", "import platform; print(platform.__file__)"],
        ["manage.py", "shell", "--no-imports", "-c", "import platform; print(platform.__file__)"],
    ],
    ids=["python from the root", "manage.py"],
)
def test_import_platform_is_the_standard_library(command: list[str]) -> None:
    result = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == platform.__file__


def test_files_are_short_enough_to_read() -> None:
    long = {}
    for path in files(*SOURCE_FOLDERS, "tests"):
        if not any(part in name_of(path) for part in GENERATED):
            lines = len(path.read_text().splitlines())
            if lines > (TEST_LINES if is_test(path) else SOURCE_LINES):
                long[name_of(path)] = lines
    assert not long, "split these"


def test_modules_are_named_for_what_they_do() -> None:
    modules = (path for path in files(*SOURCE_FOLDERS, "tests") if path.suffix in {".py", ".ts", ".tsx"})
    named = [name_of(path) for path in modules if path.stem in SAYING_NOTHING]
    # Django names the module of a database engine.
    assert named == ["platform/controlplane/postgresql/base.py"]


def counted(name: str) -> dict[str, int]:
    counts: Structure = getattr(structure, name)()
    return {
        "rooms": counts.rooms,
        "floors": counts.floors,
        "arrows": counts.arrow_count,
        "upward": len(counts.upward),
        "fewest upward": counts.fewest_upward,
        "in circles": sum(map(len, counts.circles)),
    }


@pytest.mark.parametrize("name", STRUCTURE)
def test_rooms_get_no_more_entangled(name: str) -> None:
    found = counted(name)
    assert {each: count for each, count in found.items() if count > STRUCTURE[name][each]} == {}
    assert found.keys() == STRUCTURE[name].keys()


def test_the_count_of_rooms_sees_each_fault() -> None:
    """Three rooms of which two know each other, and one that knows the room above it."""
    arrows = {"low": {"high"}, "middle": {"low", "high"}, "high": {"middle"}}
    counts = Structure(
        arrows={room: frozenset(others) for room, others in arrows.items()},
        places={"low": 0, "middle": 1, "high": 2},
    )
    assert (counts.rooms, counts.floors, counts.arrow_count) == (3, 3, 4)
    assert counts.upward == [("low", "high"), ("middle", "high")]
    assert counts.fewest_upward == 1
    assert counts.circles == [["high", "low", "middle"]]


@pytest.mark.parametrize("folder", GONE)
def test_words_that_went_stay_away(folder: str) -> None:
    """As names in code: in a sentence a word may mean something else."""
    assert not [
        f"{name_of(path)}: {name}, say {GONE[folder][name]}"
        for path in files(folder)
        if path.suffix == ".py" and "/migrations/" not in name_of(path)
        for name in sorted(names_in(path) & GONE[folder].keys())
    ]


@cache
def names_in(path: Path) -> set[str]:
    """Return the names in a module's code."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return {getattr(node, field, None) or "" for node in nodes for field in ("name", "id", "attr")}


@pytest.mark.parametrize("name", ["Dockerfile", "docker-compose.yml"])
def test_images_of_others_are_pinned_by_digest(name: str) -> None:
    """A tag is whatever its owner, or whoever took his place, says today."""
    images = re.findall(r"^(?:FROM|\s*image:) (\S+)", (ROOT / name).read_text(), re.MULTILINE)
    others = [image for image in images if not image.startswith("allotment:")]
    assert others
    assert [image for image in others if not re.search(r"@sha256:[0-9a-f]{64}$", image)] == []


def given_up(text: str) -> set[str]:
    """Return the words in a text that were given up for others."""
    words = "|".join(GIVEN_UP)
    return set(re.findall(rf"(?<![a-z])(?:{words})(?=s?(?![a-z]))", STILL_READ.sub("", text).lower()))


def documents() -> list[Path]:
    """What people read: at the top, in docs/, and beside the code."""
    folders = ("docs", "platform", "tenants", "scheduler", "examples", "tests")
    beside = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.md"))]
    return [*sorted(ROOT.glob("*.md")), *beside, ROOT / "frontend" / "README.md"]


def test_documents_link_to_what_is_there() -> None:
    dead = {
        (name_of(path), target)
        for path in documents()
        for target in re.findall(r"\]\(([^)#\s]+)", path.read_text())
        if "://" not in target and not (path.parent / target).exists()
    }
    assert dead == set()


def test_words_that_were_given_up_do_not_come_back() -> None:
    pages = documents()
    found = {
        name_of(path): sorted(words)
        for path in [*files(*SOURCE_FOLDERS, "tests"), *pages]
        if path != Path(__file__) and (words := given_up(f"{path.name}\n{path.read_text()}"))
    }
    assert found == {}, GIVEN_UP


@pytest.mark.parametrize("text", ["Minders live", "the_errand", "OUTPOST", "self.minded[1]"])
def test_the_test_of_words_can_fail(text: str) -> None:
    assert given_up(text)


# Files with time-outs or pauses of their own, each for a reason; all others wait by tests/patience.py.
IMPATIENT = {
    "tests/patience.py": "is what the others wait by",
    "tests/test_patience.py": "waits in vain, to see what is said then",
    "tests/tiers.py": "runs the tests, and looks at their processes again and again",
    "tests/agent/test_sharing.py": "measures what parts of real time jobs get",
    "tests/agent/gpu/train.py": "is a job, which is started as a process and paces itself",
    "tests/allot/test_client.py": "calls a stand-in for `time.sleep` that moves a clock of its own",
    "tests/allot/test_input_dispatch.py": "joins workers to a dispatch, by their numbers",
    "tests/allot/test_input_workers.py": "has a slow worker, of which it is measured how slow it is",
    "tests/allot/test_training_zombies.py": "stops and kills at random moments, for some seconds",
    "tests/scheduler/rounds/test_watchdog.py": "lets turns end just when they are to be ended",
    "tests/e2e/loud_tenant.py": "pauses between requests, as an impatient client does",
}
# `make chaos` measures in seconds what a platform does that is hurt; it is no test.
IMPATIENT_FOLDERS = ("tests/chaos/",)
LEAST_SECONDS = 60.0
BOUNDED_CALLS = {"wait", "join", "communicate", "result", "settimeout", "timeout", "acquire"}


def test_tests_wait_for_conditions_and_with_patience() -> None:
    """What takes a second here takes ten beside other tests: only a failing test may wait to the end."""
    found = {
        name_of(path): waits
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if (waits := sorted(impatience(ast.parse(path.read_text()))))
    }
    refused = {
        name: waits
        for name, waits in found.items()
        if name not in IMPATIENT and not name.startswith(IMPATIENT_FOLDERS)
    }
    assert refused == {}, "wait by tests/patience.py"
    assert IMPATIENT.keys() <= found.keys(), "these need no exception any more"


def impatience(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and source of each wait for a literal time below patience, and of each sleep."""
    numbers = dict(constants_in(tree))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        words = ast.unparse(node.func)
        name = words.rpartition(".")[2]
        times = [each.value for each in node.keywords if each.arg == "timeout"]
        if name.startswith(("until", "wait")):
            times += [each.value for each in node.keywords if each.arg == "seconds"]
        if name != words and name in BOUNDED_CALLS | {"wait_for", "sleep"}:
            times += node.args
        literals = [number for time in times if (number := number_in(time, numbers)) is not None]
        # To sleep for no time lets others go on.
        is_sleep = name == "sleep" and literals != [0]
        if is_sleep or (name != "sleep" and any(number < LEAST_SECONDS for number in literals)):
            yield node.lineno, ast.unparse(node)


def constants_in(tree: ast.Module) -> Iterator[tuple[str, float]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and (value := number_in(node.value, {})) is not None:
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, value


def number_in(node: ast.expr, names: Mapping[str, float]) -> float | None:
    """Return the number that an expression of literals, and names of literals, stands for."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.Name):
        return names.get(node.id)
    return None


@pytest.mark.parametrize(
    "text",
    [
        "process.wait(5)",
        "process.wait(timeout=30)",
        "subprocess.run(words, timeout=59.5)",
        "SHORT = 10\nthread.join(SHORT)",
        "async def f():\n    async with asyncio.timeout(1): pass",
        "asyncio.wait_for(answer, 0.5)",
        "until(condition, seconds=20)",
        "platform.wait_for(job, 'running', seconds=30)",
        "import time\ntime.sleep(pause)",
        "sleep(0.1)",
    ],
)
def test_the_test_of_waits_can_fail(text: str) -> None:
    assert len(list(impatience(ast.parse(text)))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "process.wait(PATIENCE_SECONDS)",
        "subprocess.run(words, timeout=2 * PATIENCE_SECONDS)",
        "asyncio.sleep(0)",
        "', '.join(words)",
        "timedelta(seconds=5)",
        "SCRIPT = 'time.sleep(0.1)'",
    ],
)
def test_patient_waits_are_not_refused(text: str) -> None:
    assert not list(impatience(ast.parse(text)))
