"""What must be true afterwards, from the database and from the jobs' own ledgers.

`collect` reads the facts, `violations` judges them and is pure.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tests.chaos.job import SAVE_EVERY_STEPS
from tests.chaos.load import Submitted, client, undisturbed
from tests.chaos.world import World

#: What was stopped from outside for longer than its lease runs on for as long as a kill takes.
THAWED_SECONDS = 1.0
LINE = re.compile(r"^line (\d+)$", re.MULTILINE)
#: Errors of rounds whose connection was cut; their successors did their work.
CUT_OFF = ("OperationalError", "InterfaceError", "ConnectionError", "TimeoutError", "RedisError")


@dataclass(frozen=True)
class Held:
    """One GPU in one allocation, by the database's clock."""

    gpu: str
    allocation: int
    begin: float
    end: float | None


@dataclass(frozen=True)
class Attempt:
    id: int
    job: int
    number: int
    outcome: str
    cause: str
    lost_seconds: float | None


@dataclass
class Facts:
    """All that is judged. Ledgers are lines by job; outputs are texts by (attempt, rank)."""

    jobs: Mapping[int, Submitted]
    states: Mapping[int, str] = field(default_factory=dict)
    attempts: Sequence[Attempt] = ()
    held: Sequence[Held] = ()
    failed_rounds: Sequence[tuple[int, str]] = ()
    ledgers: Mapping[int, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    outputs: Mapping[tuple[int, int], str] = field(default_factory=dict)
    #: The last line of the ledger of the same training, undisturbed: by (steps, seed).
    expected: Mapping[tuple[int, int], Mapping[str, Any]] = field(default_factory=dict)
    #: By the boot clock, by node.
    thaws: Mapping[str, Sequence[float]] = field(default_factory=dict)


def violations(facts: Facts) -> list[str]:
    """Return what should not have been, in words; nothing when all is well."""
    found = list(_not_done_once(facts))
    found += _held_by_two(facts.held)
    found += [f"round {number} failed: {error}" for number, error in facts.failed_rounds]
    for job, lines in sorted(facts.ledgers.items()):
        submitted = facts.jobs[job]
        found += [f"job {job}: {problem}" for problem in _two_places_at_once(lines, facts.thaws)]
        if submitted.seed is not None:
            expected = facts.expected[submitted.steps, submitted.seed]
            found += [f"job {job}: {problem}" for problem in _work_lost(lines)]
            found += [f"job {job}: {problem}" for problem in _learned_otherwise(lines, expected)]
    found += _gpus_shared(facts)
    found += _output_missing(facts)
    return found


def _not_done_once(facts: Facts) -> Iterable[str]:
    succeeded: dict[int, int] = defaultdict(int)
    for attempt in facts.attempts:
        succeeded[attempt.job] += attempt.outcome == "succeeded"
        if not attempt.outcome:
            yield f"job {attempt.job}: attempt {attempt.number} never ended"
    for job in facts.jobs:
        state = facts.states.get(job, "not known to the platform")
        if state != "succeeded":
            yield f"job {job} is {state}"
        if succeeded[job] != 1:
            yield f"job {job} succeeded {succeeded[job]} times"
        if not any(line["what"] == "done" for line in facts.ledgers.get(job, ())):
            yield f"job {job} never wrote that it was done"
    for job in set(facts.states) - set(facts.jobs):
        yield f"job {job} was submitted twice"


def _held_by_two(held: Sequence[Held]) -> Iterable[str]:
    by_gpu: dict[str, list[Held]] = defaultdict(list)
    for each in held:
        by_gpu[each.gpu].append(each)
    for gpu, holders in by_gpu.items():
        for one, other in pairwise(sorted(holders, key=lambda each: each.begin)):
            if one.end is None or one.end > other.begin:
                yield f"GPU {gpu} was held by allocations {one.allocation} and {other.allocation} at once"
        if (last := max(holders, key=lambda each: each.begin)).end is None:
            yield f"GPU {gpu} is held by allocation {last.allocation} for ever"


def _two_places_at_once(
    lines: Sequence[Mapping[str, Any]], thaws: Mapping[str, Sequence[float]]
) -> Iterable[str]:
    """An attempt must have written its last line before the next one writes its first."""
    spans = _spans(lines)
    for (one, span), (other, later) in pairwise(sorted(spans.items(), key=lambda each: each[1][0])):
        if one[0] == other[0] or span[1] < later[0]:
            continue
        nodes = {gpu.rpartition("-")[0] for line in lines for gpu in line.get("gpus", ())}
        moments = [at for node in nodes for at in thaws.get(node, ())]
        if not any(at <= span[1] <= at + THAWED_SECONDS for at in moments):
            yield f"attempts {one[0]} and {other[0]} ran at once for {span[1] - later[0]:.2f} s"


def _spans(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[int, int], tuple[float, float]]:
    """Return when each process, by (attempt, rank), wrote its first and its last line."""
    spans: dict[tuple[int, int], tuple[float, float]] = {}
    for line in lines:
        key = (line["attempt"], line["rank"])
        begin, end = spans.get(key, (line["at"], line["at"]))
        spans[key] = (min(begin, line["at"]), max(end, line["at"]))
    return spans


def _gpus_shared(facts: Facts) -> Iterable[str]:
    for job, lines in facts.ledgers.items():
        for line in lines:
            if line["what"] == "gpu_is_taken":
                yield f"job {job}: attempt {line['attempt']} was given GPU {line['gpu']}, which was in use"


def _work_lost(lines: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """Each start goes on from the last checkpoint that was due, or a later one."""
    saved = 0
    for line in lines:
        if line["rank"] != 0:
            continue
        if line["what"] == "start" and line["restored"] < saved:
            yield (
                f"attempt {line['attempt']} went back to step {line['restored']},"
                f" though step {saved} had been saved"
            )
        if line["what"] == "step":
            # The checkpoint of a step is whole before the next step is written down.
            saved = max(saved, (line["step"] - 1) // SAVE_EVERY_STEPS * SAVE_EVERY_STEPS)


def _learned_otherwise(lines: Sequence[Mapping[str, Any]], expected: Mapping[str, Any]) -> Iterable[str]:
    for line in lines:
        if line["what"] == "done":
            for name in ("accuracy", "digest"):
                if line[name] != expected[name]:
                    yield f"{name} is {line[name]}, undisturbed {expected[name]}"


def _output_missing(facts: Facts) -> Iterable[str]:
    """Numbered lines without a gap; to the last one where the attempt ended by itself."""
    outcomes = {attempt.id: attempt.outcome for attempt in facts.attempts}
    for job, lines in facts.ledgers.items():
        printed: dict[tuple[int, int], int] = defaultdict(int)
        for line in lines:
            key = (line["attempt"], line["rank"])
            printed[key] = max(printed[key], line["printed"])
        for (attempt, rank), number in printed.items():
            text = facts.outputs.get((attempt, rank), "")
            numbers = [int(found) for found in LINE.findall(text)]
            if numbers != list(range(len(numbers))) and "[allotment]" not in text:
                yield f"job {job}: the output of attempt {attempt}, rank {rank}, has a gap"
            if outcomes.get(attempt) == "succeeded" and len(numbers) < number:
                yield (
                    f"job {job}: the output of attempt {attempt}, rank {rank}, ends after"
                    f" {len(numbers)} of {number} lines"
                )


def collect(world: World, jobs: Mapping[int, Submitted]) -> Facts:
    """Read everything there is about these jobs."""
    facts = Facts(jobs, thaws={node.name: node.thaws for node in world.nodes.values()})
    with world.platform.database() as database:
        facts.states = dict(database.execute("SELECT id, state FROM scheduler_job").fetchall())
        facts.attempts = [
            Attempt(*row)
            for row in database.execute(
                "SELECT id, job_id, number, outcome, stop_cause, lost_seconds FROM scheduler_attempt"
            ).fetchall()
        ]
        facts.held = [
            Held(*row)
            for row in database.execute(
                "SELECT n.name || '-' || u.index, a.id, extract(epoch FROM a.held_at)::float8,"
                " extract(epoch FROM g.released_at)::float8"
                " FROM scheduler_allocatedgpu g JOIN scheduler_allocation a ON a.id = g.allocation_id"
                " JOIN scheduler_gpu u ON u.id = g.gpu_id JOIN scheduler_node n ON n.id = u.node_id"
                " WHERE a.held_at IS NOT NULL"
            ).fetchall()
        ]
        facts.failed_rounds = [
            (number, error)
            for number, error in database.execute(
                "SELECT number, error FROM scheduler_round WHERE state = 'failed'"
            ).fetchall()
            if not error.startswith(CUT_OFF)
        ]
    facts.ledgers = {job: _ledger(world, job) for job in jobs}
    facts.outputs = _outputs(world, facts)
    for submitted in jobs.values():
        if submitted.seed is not None:
            key = (submitted.steps, submitted.seed)
            text = undisturbed(world.program, world.folder / "undisturbed", *key)
            facts.expected = {**facts.expected, key: json.loads(text.splitlines()[-1])}
    return facts


def _ledger(world: World, job: int) -> list[dict[str, Any]]:
    path = world.checkpoints / str(job) / "ledger"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return sorted(lines, key=lambda line: line["at"])


def _outputs(world: World, facts: Facts) -> dict[tuple[int, int], str]:
    outputs = {}
    numbers = {attempt.id: (attempt.job, attempt.number) for attempt in facts.attempts}
    with client(world) as api:
        for lines in facts.ledgers.values():
            for attempt, rank in {(line["attempt"], line["rank"]) for line in lines}:
                job, number = numbers[attempt]
                query = {"attempt": number, "rank": rank, "limit": 1000}
                answer = api.get(f"jobs/{job}/logs", params=query).raise_for_status().json()
                outputs[attempt, rank] = "".join(chunk["text"] for chunk in answer["chunks"])
    return outputs
