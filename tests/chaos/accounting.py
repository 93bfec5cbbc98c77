"""What must be true afterwards, from the database and from the jobs' own ledgers.

`collect` reads the facts, `violations` judges them and is pure.
"""

import contextlib
import json
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tests.chaos.job import SAVE_EVERY_STEPS
from tests.chaos.load import LOUD_NAME, Submitted, client, undisturbed
from tests.chaos.world import World

#: What was stopped from outside for longer than its lease runs on for as long as a kill takes.
THAWED_SECONDS = 1.0
#: Two clocks of one machine, read one after the other.
CLOCK_SECONDS = 0.2
#: What is promised (docs/decisions/0026).
ENDS_SECONDS = 10.0
#: What others feel of a loud tenant; on a machine that is busy anyway, how much slower it may become.
QUICK_SECONDS, SLOWER = 0.5, 3.0
#: An answer of `/readyz` holds for a second.
NOTICED_SECONDS = 3.0
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
    attempt: int = 0
    #: Of the GPU.
    thousandths: int = 1000


@dataclass(frozen=True)
class Attempt:
    id: int
    job: int
    number: int
    outcome: str
    cause: str
    lost_seconds: float | None


@dataclass(frozen=True)
class Taken:
    """A right that was taken from somebody who had things open."""

    kind: str
    who: str
    #: By what was open: after how long it had ended; None: not while it was waited for.
    seconds: Mapping[str, float | None]
    #: How long the web server was stopped meanwhile.
    stopped_seconds: float
    is_let_in: bool


@dataclass(frozen=True)
class Flooded:
    """What a loud tenant did to others. Medians are those of a quiet user's requests."""

    before_seconds: float
    median_seconds: float
    longest_seconds: float
    #: What the quiet user was told that is no answer.
    refused: Sequence[str]
    #: How often the loud one was answered what; 0: nothing.
    answers: Mapping[int, int]
    nodes_lost: int
    is_cancelled: bool


@dataclass(frozen=True)
class Full:
    """The disk below the database was full."""

    lasted_seconds: float
    #: What `/readyz` said: how long after that it was asked, and the status.
    answers: Sequence[tuple[float, int]]


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
    #: By the boot clock: from when to when there was no room for checkpoints.
    no_room: Sequence[tuple[float, float]] = ()
    #: The jobs of the loud tenant, all of which it cancelled: states by number.
    loud: Mapping[int, str] = field(default_factory=dict)
    taken: Sequence[Taken] = ()
    floods: Sequence[Flooded] = ()
    full: Sequence[Full] = ()
    #: What to add to an instant of the boot clock for one of the database's.
    clock_offset: float = 0.0
    #: GPUs before and after, of each resize that was written down.
    resizes: Sequence[tuple[int, int]] = ()


def violations(facts: Facts) -> list[str]:
    """Return what should not have been, in words; nothing when all is well."""
    found = list(_not_done_once(facts))
    found += _held_by_two(facts.held)
    found += _not_held(facts)
    found += [f"round {number} failed: {error}" for number, error in facts.failed_rounds]
    for job, lines in sorted(facts.ledgers.items()):
        submitted = facts.jobs[job]
        found += [f"job {job}: {problem}" for problem in _two_places_at_once(lines, facts.thaws)]
        if submitted.seed is not None:
            expected = facts.expected[submitted.steps, submitted.seed]
            found += [f"job {job}: {problem}" for problem in _work_lost(lines, facts.no_room)]
            found += [f"job {job}: {problem}" for problem in _learned_otherwise(lines, expected)]
    found += _gpus_shared(facts)
    found += _output_missing(facts)
    found += _rights_kept(facts.taken)
    found += _felt(facts)
    found += _said_to_be_ready(facts.full)
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
    for job in set(facts.states) - set(facts.jobs) - set(facts.loud):
        yield f"job {job} was submitted twice"


def _held_by_two(held: Sequence[Held]) -> Iterable[str]:
    by_gpu: dict[str, list[Held]] = defaultdict(list)
    for each in held:
        by_gpu[each.gpu].append(each)
    for gpu, holders in by_gpu.items():
        there: list[Held] = []
        for each in sorted(holders, key=lambda each: each.begin):
            there = [one for one in there if one.end is None or one.end > each.begin]
            if sum(one.thousandths for one in there) + each.thousandths > 1000:
                names = ", ".join(str(one.allocation) for one in there)
                yield f"GPU {gpu} was held by allocations {names} and {each.allocation} at once"
            there.append(each)
        if (last := max(holders, key=lambda each: each.begin)).end is None:
            yield f"GPU {gpu} is held by allocation {last.allocation} for ever"


def _not_held(facts: Facts) -> Iterable[str]:
    """Whoever writes holds the GPUs that he was given, all of them: also of a gang that was resized."""
    allocated: dict[int, dict[str, Held]] = defaultdict(dict)
    for each in facts.held:
        allocated[each.attempt][each.gpu] = each
    for job, lines in facts.ledgers.items():
        starts = {(line["attempt"], line["rank"]): line for line in lines if line["what"] == "start"}
        spans = _spans(lines)
        # A gang's nodes give their GPUs back one by one: each rank is held to its own.
        for (attempt, rank), start in starts.items():
            held = allocated.get(attempt, {})
            if missing := set(start["gpus"]) - held.keys():
                yield f"job {job}: attempt {attempt} ran on GPUs that it was not allocated: {sorted(missing)}"
                continue
            if facts.jobs[job].shape == "elastic" and start["world"] != len(held):
                yield f"job {job}: attempt {attempt} ran {start['world']} replicas on {len(held)} GPUs"
            begin, end = (at + facts.clock_offset for at in spans[attempt, rank])
            for gpu in sorted(start["gpus"]):
                span = held[gpu]
                thawed = [at + facts.clock_offset for at in facts.thaws.get(gpu.rpartition("-")[0], ())]
                if begin < span.begin - CLOCK_SECONDS:
                    yield f"job {job}: attempt {attempt} ran before it held GPU {gpu}"
                after = 0.0 if span.end is None else end - span.end
                if after > CLOCK_SECONDS and not any(at <= end <= at + THAWED_SECONDS for at in thawed):
                    yield f"job {job}: attempt {attempt} ran {after:.2f} s after GPU {gpu} was released"


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


def _work_lost(
    lines: Sequence[Mapping[str, Any]], no_room: Sequence[tuple[float, float]] = ()
) -> Iterable[str]:
    """Each start goes on from the last checkpoint that was due while there was room, or a later one."""
    saved = due = 0
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
            newest = (line["step"] - 1) // SAVE_EVERY_STEPS * SAVE_EVERY_STEPS
            if newest > due and not any(begin <= line["at"] <= end for begin, end in no_room):
                saved = max(saved, newest)
            due = newest


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


def _rights_kept(taken: Iterable[Taken]) -> Iterable[str]:
    for each in taken:
        for name, seconds in each.seconds.items():
            if seconds is None or seconds > ENDS_SECONDS + each.stopped_seconds:
                after = "all the time" if seconds is None else f"for {seconds:.1f} s"
                yield f"{each.kind}: {each.who}'s {name} went on {after}"
        if each.is_let_in:
            yield f"{each.kind}: {each.who} was let in again"


def _felt(facts: Facts) -> Iterable[str]:
    for flood in facts.floods:
        if flood.median_seconds > max(QUICK_SECONDS, SLOWER * flood.before_seconds):
            yield (
                f"overload: requests of others took {flood.median_seconds:.2f} s at the median,"
                f" {flood.before_seconds:.2f} s before"
            )
        yield from (f"overload: somebody else was refused {refused}" for refused in flood.refused)
        if broken := {status: count for status, count in flood.answers.items() if status >= 500}:
            yield f"overload: answers with errors of the server: {broken}"
        if flood.nodes_lost:
            yield f"overload: {flood.nodes_lost} nodes lost their leases"
        if not flood.is_cancelled:
            yield "overload: what was submitted could not be cancelled"
    for job, state in facts.loud.items():
        if state not in ("cancelled", "succeeded"):
            yield f"overload: job {job} is {state}"


def _said_to_be_ready(full: Iterable[Full]) -> Iterable[str]:
    for each in full:
        late = [after for after, status in each.answers if after >= NOTICED_SECONDS and status == 200]
        if late:
            yield f"/readyz said that all is well {max(late):.1f} s after the database's disk was full"


def collect(world: World, jobs: Mapping[int, Submitted]) -> Facts:
    """Read everything there is about these jobs."""
    facts = Facts(jobs, thaws={node.name: node.thaws for node in world.nodes.values()})
    with world.platform.database() as database:
        facts.states = dict(database.execute("SELECT id, state FROM scheduler_job").fetchall())
        loud = database.execute("SELECT id, state FROM scheduler_job WHERE name = %s", [LOUD_NAME])
        facts.loud = dict(loud.fetchall())
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
                " extract(epoch FROM g.released_at)::float8, coalesce(t.id, 0), g.request"
                " FROM scheduler_allocatedgpu g JOIN scheduler_allocation a ON a.id = g.allocation_id"
                " JOIN scheduler_gpu u ON u.id = g.gpu_id JOIN scheduler_node n ON n.id = u.node_id"
                " LEFT JOIN scheduler_attempt t ON t.allocation_id = a.id"
                " WHERE a.held_at IS NOT NULL"
            ).fetchall()
        ]
        facts.resizes = database.execute(
            "SELECT (data->>'gpus_before')::int, (data->>'gpus')::int FROM scheduler_event"
            " WHERE kind = 'job.resized'"
        ).fetchall()
        (now,) = database.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        facts.clock_offset = now - time.clock_gettime(time.CLOCK_BOOTTIME)
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
    lines = []
    for text in path.read_text().splitlines() if path.exists() else ():
        # A full disk takes the end of a line; who wrote it ended with it.
        with contextlib.suppress(ValueError):
            lines.append(json.loads(text))
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
