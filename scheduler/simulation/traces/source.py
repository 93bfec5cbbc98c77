"""A trace file while it is read: its text, its rows with their lines, and their problems."""

from __future__ import annotations

import csv
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from scheduler.core.model import wording
from scheduler.core.model.data_sets import DataSet
from scheduler.core.model.snapshot import RESIZABLE, Candidates, Task
from scheduler.core.model.training import Profile, Regime
from scheduler.core.perf.convergence import LossCurve
from scheduler.core.sim.scaling import Scaling
from scheduler.core.sim.workload import Phase, Status
from scheduler.simulation import file_kinds
from scheduler.simulation.errors import Problem, TraceError
from scheduler.simulation.inventory import MOST_GPUS
from scheduler.simulation.traces.fields import BadField, listed_columns, one_line, shown, within_a_century
from scheduler.simulation.traces.options import TraceOptions

Row = TypeVar("Row")

#: What a sentence about several rows begins with, and what else of it differs in a sentence about one.
_KINDS = re.compile(r"^(attempt|job|pod|row|step)s\b")
_OF_ONE = {"were": "was", "have": "has", "they count": "it counts", "they run": "it runs"}
_OF_SEVERAL = re.compile(rf"\b({'|'.join(_OF_ONE)})\b")

#: zlib's window for a gzip archive, and how many bytes of it are unpacked at a time.
_GZIP, _PIECE_BYTES = 31, 1 << 12

#: The tenant and virtual cluster in traces that have neither.
ANY_TENANT = "everyone"
ANY_VIRTUAL_CLUSTER = "cluster"


#: The largest priority, and, negated, the smallest.
MOST_PRIORITY = 1_000_000
#: More replicas without GPUs than a job has, so that a typing mistake does not fill all memory.
MOST_CPU_REPLICAS = 100_000


def counted(count: int, sentence: str) -> str:
    """Return "3 rows without GPUs were left out.", or "1 row without GPUs was left out."."""
    if count == 1:
        sentence = _OF_SEVERAL.sub(lambda found: _OF_ONE[found[0]], _KINDS.sub(r"\1", sentence))
    return f"{count:,} {sentence}"


class TracedJob(NamedTuple):
    """A job as a reader returns it; `traces.reading` turns it into a job of the workload."""

    #: Seconds by the trace's own clock.
    submitted_at: float
    gpus: int
    #: The run time alone and consolidated on the reference model.
    duration_seconds: float
    tenant: str = ANY_TENANT
    virtual_cluster: str = ANY_VIRTUAL_CLUSTER
    application: str = ""
    status: Status = "passed"
    gpu_models: tuple[str, ...] = ()
    priority: int = 0
    guaranteed: bool = True
    time_limit_seconds: float | None = None
    #: None if it follows from the duration and the options.
    estimate_seconds: float | None = None
    #: Whether the reader knows the estimate, or that there is none, so that the options do not change it.
    own_estimate: bool = False
    #: None if the gang is split by the general rule.
    tasks: tuple[Task, ...] | None = None
    #: The CPUs of each replica of a gang that is split by that rule; likewise the memory.
    cpus: float = 0.0
    memory_bytes: int = 0
    #: None if it follows from the application's name.
    skew: float | None = None
    throughput: Mapping[str, float] = {}
    #: The batch sizes in order, if the job changes its batch size, and the batch sizes that it may use.
    phases: tuple[Phase, ...] = ()
    regimes: tuple[Regime, ...] = ()
    #: Its user within the tenant, and the search that it belongs to; empty if unknown.
    user: str = ""
    search: str = ""
    #: The pinned cell, by its name in the virtual cluster; empty for none.
    pinned_cell: str = ""
    #: The reservation that it names; empty for none.
    reservation: str = ""
    #: None for any nodes.
    nodes: Candidates | None = None
    #: "preempt", "downgrade" or empty.
    on_reclaim: str = ""
    #: The (least, most) GPUs, and how it may be resized.
    elastic: tuple[int, int] | None = None
    elastic_mode: str = RESIZABLE
    #: How fast it truly is; None if in proportion, or by a table.
    scaling: Scaling | None = None
    #: How its loss falls with the seconds of work.
    loss: LossCurve | None = None
    #: As `Truth.use`.
    use: tuple[tuple[float, float], ...] = ()
    #: How it uses GPUs that it has alone, which the scheduler knows from the beginning.
    profile: Profile | None = None
    data: DataSet | None = None


def check_bounds(job: TracedJob) -> None:
    """Raise BadField for implausible values, and for values that sums and dates cannot hold."""
    for name in ("submitted_at", "duration_seconds", "time_limit_seconds", "estimate_seconds"):
        value = getattr(job, name)
        if value is not None:
            within_a_century(name, value)
    if not -MOST_PRIORITY <= job.priority <= MOST_PRIORITY:
        raise BadField(
            "priority", f"{job.priority:g} is not between -{MOST_PRIORITY:,} and {MOST_PRIORITY:,}"
        )
    if job.gpus > MOST_GPUS:
        raise BadField("", f"asks for {job.gpus:,} GPUs; a cluster may have at most {MOST_GPUS:,}")
    replicas = sum([task.replicas for task in job.tasks or () if not task.gpus])
    if replicas > MOST_CPU_REPLICAS:
        raise BadField(
            "", f"has {replicas:,} replicas without GPUs; at most {MOST_CPU_REPLICAS:,} are allowed"
        )


class Source:
    """One file that is read. Problems are collected, or raised at once if it is read strictly."""

    def __init__(self, path: Path, options: TraceOptions, *, strict: bool) -> None:
        self.path, self.options, self.strict = path, options, strict
        self.problems: list[Problem] = []
        self.jobs: list[TracedJob] = []
        #: Ends of sentences about assumptions, and how many rows each concerns.
        self.assumed: Counter[str] = Counter()
        self.notes: list[str] = []
        #: Ends of sentences about rows that were left out, with their number and the place of the first.
        self._left_out: dict[str, tuple[int, str]] = {}
        #: Lines of the jobs, in the order of `jobs`.
        self.lines_of_jobs: list[int] = []
        self._line = 0
        self._cut_off = ""
        self._has_bad_bytes = False
        self._text: str | None = None

    def unusable(self, message: str, line: int = 0, field: str = "") -> TraceError:
        """Return the error for a file of which nothing can be read."""
        return TraceError(Problem(self.path.name, line, field, message))

    def skip(self, line: int, field: str, message: str) -> None:
        """Record a wrong row; raise TraceError when reading strictly."""
        problem = Problem(self.path.name, line, field, message)
        if self.strict:
            raise TraceError(problem)
        self.problems.append(problem)

    def leave_out(self, sentence: str, name: str = "") -> None:
        """Record that the present row is not used; raise TraceError when reading strictly.

        `sentence` follows the number of such rows; `name` is the name of the row in the file.
        """
        if self.strict:
            raise self.unusable(f"--strict leaves nothing out: {sentence}", self._line)
        count, first = self._left_out.get(sentence, (0, ""))
        where = f"{self.path.name}:{self._line}"
        self._left_out[sentence] = count + 1, first or (f"{one_line(name)} ({where})" if name else where)

    def text(self) -> str:
        """Return the whole text, unpacked when the name ends in .gz; a cut-off archive gives what it has."""
        if self._text is None:
            self._text = self._read_text()
        return self._text

    def _read_text(self) -> str:
        try:
            data = self._unpacked() if self.path.suffix == ".gz" else self.path.read_bytes()
        except OSError as error:
            raise self.unusable(f"cannot be read: {error.strerror or error}") from None
        if words := file_kinds.not_text(data):
            raise self.unusable(words)
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError:
            self._has_bad_bytes = True
            return data.decode("utf-8-sig", errors="surrogateescape")

    def _is_bad(self, line: int, text: Iterable[str]) -> bool:
        """Return whether a row is left out because some of its bytes are not UTF-8."""
        if not self._has_bad_bytes or not any(map(file_kinds.has_bad_bytes, text)):
            return False
        self.skip(line, "", "has bytes that are not UTF-8")
        return True

    def _unpacked(self) -> bytes:
        packed = self.path.read_bytes()
        parts: list[bytes] = []
        try:
            while packed:
                archive = zlib.decompressobj(wbits=_GZIP)
                # Unpack in pieces, so that the part before a damaged place is not lost.
                for first in range(0, len(packed), _PIECE_BYTES):
                    parts.append(archive.decompress(packed[first : first + _PIECE_BYTES]))
                    if archive.eof:
                        packed = archive.unused_data + packed[first + _PIECE_BYTES :]
                        break
                else:
                    self._cut_off = "the archive ends in the middle; what follows is lost"
                    break
        except zlib.error as error:
            self._cut_off = f"the archive is damaged here: {error}"
        if self._cut_off and not any(parts):
            raise self.unusable("is not a gzip archive, as its name says")
        return b"".join(parts)

    def header(self) -> list[str]:
        """Return the names of the columns of a comma-separated file; empty when the file is."""
        return self._header(csv.reader(StringIO(self.text(), newline="")))

    def _header(self, reader: Iterator[list[str]]) -> list[str]:
        try:
            names = [name.strip() for name in next(reader, [])]
        except csv.Error as error:
            raise self.unusable(f"does not begin with the header of a table: {error}", 1) from None
        if self._has_bad_bytes and any(map(file_kinds.has_bad_bytes, names)):
            raise self.unusable("the header has bytes that are not UTF-8", 1)
        if words := file_kinds.not_a_table(names):
            raise self.unusable(words, 1)
        return names

    def rows(
        self, required: Sequence[str], optional: Sequence[str] = (), *, delimiter: str = ","
    ) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield (line, fields in the requested order) of a file of separated fields with a header.

        Fields that commas separate may be quoted. Missing optional columns give "". A row whose number of
        fields differs from that of the header is a problem. At least two columns must be requested.
        """
        text = StringIO(self.text(), newline="")
        if delimiter == ",":
            reader = csv.reader(text)
        else:
            reader = csv.reader(text, delimiter=delimiter, quoting=csv.QUOTE_NONE)
        header = self._header(reader)
        if not header:
            raise self.unusable(f"is empty; it must begin with a header: {', '.join(required)}")
        if missing := [name for name in required if name not in header]:
            raise self.unusable(
                f"the header has no column {wording.listed(missing)}; it has {listed_columns(header)}", 1
            )
        width = len(header)
        columns = [*required, *optional]
        if twice := [name for name in columns if header.count(name) > 1]:
            raise self.unusable("the header has this column twice; leave one out", 1, twice[0])
        pick = itemgetter(*[header.index(name) if name in header else width for name in columns])
        try:
            for row in reader:
                if self._has_bad_bytes and self._is_bad(reader.line_num, row):
                    continue
                if len(row) == width:
                    row.append("")
                    yield reader.line_num, pick(row)
                elif row:
                    less = "; the line may be cut off" if len(row) < width else ""
                    self.skip(reader.line_num, "", f"has {len(row)} fields, the header {width}{less}")
        except csv.Error as error:
            self.skip(reader.line_num, "", f"is not a row of a table: {error}; nothing after it was read")
        if self._cut_off:
            self.skip(reader.line_num, "", self._cut_off)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield (line, text) of the lines that are not empty."""
        number = 0
        for number, line in enumerate(self.text().splitlines(), 1):
            if line.strip() and not self._is_bad(number, [line]):
                yield number, line
        if self._cut_off:
            self.skip(number, "", self._cut_off)

    def objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield (line, object) of a JSON list of objects, one by one, so that a cut-off file yields most."""
        text = self.text()
        decoder = json.JSONDecoder()
        at, line, counted = 0, 1, 0
        while at < len(text) and (text[at].isspace() or (text[at] == "[" and not counted)):
            counted += text[at] == "["
            at += 1
        if not counted:
            raise self.unusable("is not a JSON list of jobs; it must begin with [", 1)
        behind, closed = 0, False
        while at < len(text):
            if text[at] in " \t\r\n,":
                at += 1
                continue
            if text[at] == "]":
                closed = True
                break
            line, behind = line + text.count("\n", behind, at), at
            try:
                value, at = decoder.raw_decode(text, at)
            except (ValueError, RecursionError) as error:
                words, place = file_kinds.json_fault(error)
                where = text.count("\n", 0, at if place is None else place) + 1
                self.skip(where, "", f"is not JSON: {words}; the file may be cut off after this")
                return
            if self._is_bad(line, [text[behind:at]]):
                continue
            if isinstance(value, dict):
                yield line, value
            else:
                self.skip(line, "", f"{shown(value)} is not an object with the fields of a job")
        if not closed:
            last = line + text.count("\n", behind)
            self.skip(last, "", self._cut_off or "the list is not closed; the file may be cut off")

    def read(self, rows: Iterable[tuple[int, Row]], job_of: Callable[[Row], TracedJob | None]) -> None:
        """Add the job of every row. `job_of` raises BadField for a wrong row; None leaves the row out."""
        largest, models = self.options.largest_gpus, self.options.gpu_models
        take, take_line = self.jobs.append, self.lines_of_jobs.append
        for line, row in rows:
            self._line = line
            try:
                job = job_of(row)
                if job is None:
                    continue
                check_bounds(job)
                if largest is not None and job.gpus > largest:
                    raise BadField("", f"asks for {job.gpus} GPUs; at most {largest} are there")
                if models and job.gpu_models and models.isdisjoint(job.gpu_models):
                    near = {model for model in models if model.lower() in map(str.lower, job.gpu_models)}
                    hint = f"; did you mean {wording.either(sorted(near))}?" if near else ""
                    raise BadField(
                        "",
                        f"asks for {wording.either(job.gpu_models)}; there is only "
                        f"{wording.listed(sorted(models))}{hint}",
                    )
            except BadField as bad:
                self.skip(line, bad.field, bad.message)
            else:
                take(job)
                take_line(line)

    def sentences(self) -> tuple[str, ...]:
        """Return the notes on assumptions, with the number of rows that each concerns."""
        said = [counted(self.assumed[sentence], sentence) for sentence in sorted(self.assumed)]
        return (*self.notes, *said)

    def left_out(self) -> tuple[str, ...]:
        """Return sentences about the rows that were left out, each with their number and the first."""
        return tuple(
            [
                f"{counted(count, sentence)} The first: {first}."
                for sentence, (count, first) in sorted(self._left_out.items())
            ]
        )

    def disorder(self) -> str:
        """Return a sentence on how many rows were submitted before one above them; empty when none was."""
        latest, late = -math.inf, []
        for job, line in zip(self.jobs, self.lines_of_jobs, strict=True):
            if job.submitted_at < latest:
                late.append(line)
            latest = max(latest, job.submitted_at)
        if not late:
            return ""
        rows = "1 row was" if len(late) == 1 else f"{len(late):,} rows were"
        return f"{rows} not in order of submission and moved. The first: {self.path.name}:{late[0]}."
