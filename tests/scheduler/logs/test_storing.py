"""What is kept of output, found in it, and read of several ranks at once."""

import re
from datetime import timedelta
from itertools import pairwise

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.models import Attempt, AttemptPart, LogChunk, LogRemoval
from scheduler.telemetry.logs.services import search as log_search
from scheduler.telemetry.logs.services.reading import next_chunks, removal_text
from scheduler.telemetry.logs.services.retention import prune_logs
from scheduler.telemetry.logs.services.search import Matcher, Place, SearchOutcome, matcher_of, search
from tenants.errors import Invalid
from tests.effort import examples
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node, make_tenant

pytestmark = pytest.mark.django_db

BEGAN = timezone.now() - timedelta(days=100)


def write(
    attempt: Attempt, *texts: str, rank: int = 0, every_seconds: float = 1.0, since: float = 0.0
) -> None:
    """Store these as the first chunks of the rank."""
    LogChunk.objects.bulk_create(
        LogChunk(
            attempt=attempt,
            rank=rank,
            sequence=sequence,
            at=BEGAN + timedelta(seconds=since + sequence * every_seconds),
            text=text,
        )
        for sequence, text in enumerate(texts)
    )
    part = AttemptPart.objects.get(attempt=attempt)
    part.log_size += sum(len(text.encode()) for text in texts)
    part.save()


def ended(days_ago: float, text: str, **job) -> Attempt:
    """Return an attempt that ended so long ago, having written this."""
    node = make_node(gpus=1)
    attempt = make_attempt(make_job(**job), gpus_of(node), phase="released")
    write(attempt, text)
    attempt.state, attempt.outcome = "ended", "succeeded"
    attempt.ended_at = timezone.now() - timedelta(days=days_ago)
    attempt.save()
    return attempt


@pytest.fixture
def attempt() -> Attempt:
    return make_attempt(make_job(replicas=2), gpus_of(make_node(gpus=2)))


def everything(attempt: Attempt, matcher: Matcher, limit: int = 100, **how) -> SearchOutcome:
    """Go on with a search as a page does until all was searched; each answer's place is used as text."""
    whole = SearchOutcome()
    after = None
    while True:
        found = search(attempt, [0, 1], matcher, limit=limit, after=after, **how)
        whole.hits += found.hits
        whole.lines_searched += found.lines_searched
        if found.go_on is None:
            return whole
        after = Place.parse(found.go_on.text())


def test_output_goes_by_age_then_by_size_and_it_is_said(settings):
    tenant, other = make_tenant(), make_tenant()
    old = ended(31, "o" * 100, tenant=tenant)
    large = ended(20, "l" * 3_000, tenant=tenant)
    middle = ended(10, "m" * 2_000, tenant=other)
    newest = ended(2, "n" * 2_000, tenant=tenant)
    running = make_attempt(make_job(tenant=tenant), gpus_of(make_node(gpus=1)))
    write(running, "r" * 5_000)
    late = ended(0.01, "just now", tenant=tenant)

    def kept(**limits) -> set[int]:
        settings.CONFIG = settings.CONFIG.model_copy(update=limits)
        prune_logs()
        return set(LogChunk.objects.values_list("attempt_id", flat=True))

    all_ids = {each.id for each in (large, middle, newest, running, late)}
    assert kept(log_days_kept=30, log_bytes_kept=0) == all_ids
    assert kept(log_bytes_kept_of_tenant=7_500) == all_ids - {large.id}
    assert kept(log_bytes_kept=7_500) == all_ids - {large.id, middle.id}
    # What still runs, or may still bring its last lines, is never removed.
    assert kept(log_bytes_kept=10) == {running.id, late.id}
    said = {
        removal.attempt_id: (removal.cause, removal.bytes, removal_text(removal))
        for removal in LogRemoval.objects.all()
    }
    assert said.keys() == {old.id, large.id, middle.id, newest.id}
    cause, size, text = said[old.id]
    assert (cause, size) == ("age", 100)
    assert re.fullmatch(
        r"The output of attempt 1, 100 bytes, was removed on \d{4}-\d\d-\d\d: "
        r"output is kept for 30 days after an attempt's end\.",
        text,
    )
    assert (said[large.id][0], said[middle.id][0]) == ("tenant_bytes", "platform_bytes")
    assert "the platform keeps 7.32 KiB of output, the newest" in said[middle.id][2]
    assert not AttemptPart.objects.exclude(attempt__in=[running, late]).filter(log_size__gt=0).exists()


def test_ranks_are_merged_by_time_whatever_the_size_of_a_page(attempt):
    write(attempt, *(f"a{number}\n" for number in range(20)), rank=0)
    # Its node's clock was set back in between: its own order stays.
    write(attempt, *(f"b{number}\n" for number in range(10)), rank=1, every_seconds=-0.5, since=9.25)
    for limit, most_bytes in ((100, 10_000), (3, 10_000), (100, 8)):
        seen, merged = {0: -1, 1: -1}, []
        while page := next_chunks(attempt, seen, limit, most_bytes):
            merged += page
            for chunk in page:
                assert chunk.sequence == seen[chunk.rank] + 1
                seen[chunk.rank] = chunk.sequence
        texts = "".join(chunk.text for chunk in merged).split()
        assert texts == [
            *(f"a{n}" for n in range(10)),
            *(f"b{n}" for n in range(10)),
            *(f"a{n}" for n in range(10, 20)),
        ]


# The attempt is the same for all examples; each begins by forgetting what the last one wrote.
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.text(alphabet="abé\r \x1b[m", max_size=8), max_size=25),
    cuts=st.lists(st.integers(0, 200), max_size=8),
    limit=st.integers(1, 5),
    is_pattern=st.booleans(),
)
def test_the_search_finds_what_a_page_shows_however_output_is_cut(attempt, lines, cuts, limit, is_pattern):
    """Chunks end anywhere, searches stop anywhere: the hits are those of the whole text, each in its line."""
    LogChunk.objects.filter(attempt=attempt).delete()
    text = "\n".join(lines)
    ends = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    chunks = [text[start:end] for start, end in pairwise(ends)]
    write(attempt, *chunks, rank=1)
    shown = [log_search._visible(line) for line in text.split("\n")]
    matcher = matcher_of("A", is_pattern=is_pattern, match_case=False)
    found = everything(attempt, matcher, limit, context=1)
    expected = [number for number, line in enumerate(shown, 1) if "a" in line]
    assert [hit.line for hit in found.hits] == expected
    for hit in found.hits:
        assert (hit.rank, hit.text) == (1, shown[hit.line - 1])
        assert hit.text[hit.start : hit.end] == "a"
        assert hit.before == shown[max(0, hit.line - 2) : hit.line - 1]
        # Who begins at that chunk, counting from that number, meets the line under its own.
        rest = "".join(chunks[hit.sequence :]).split("\n")
        from_there = [log_search._visible(line) for line in rest][hit.line - hit.chunk_line]
        assert from_there == hit.text or (hit.chunk_line == hit.line and hit.text.endswith(from_there))


def test_a_search_stops_when_its_time_is_over_and_goes_on(attempt, monkeypatch):
    monkeypatch.setattr(log_search, "_LONGEST_LINE_CHARACTERS", 50)
    write(attempt, "x" * 40, "x" * 40 + "found", "\nfound again\n", rank=0)
    write(attempt, "found too", rank=1)
    ticks = iter(range(10_000))
    found = everything(
        attempt,
        matcher_of("found", is_pattern=False, match_case=True),
        clock=lambda: next(ticks) * log_search.SEARCH_SECONDS,
    )
    assert [(hit.rank, hit.line) for hit in found.hits] == [(0, 1), (0, 2), (1, 1)]


def test_progress_bars_below_each_other_are_one_line_each(attempt):
    """As tqdm draws them: the inner bar in the row below, and the cursor back up."""
    bars = [f"\n\rinner {done}%\x1b[A\router {done // 2}%" for done in range(0, 101, 10)]
    write(attempt, "begin\n", "\router 0%", *bars, "\n\ndone inner outer\n")
    found = everything(attempt, matcher_of("inner", is_pattern=False, match_case=True), context=1)
    assert [(hit.line, hit.text) for hit in found.hits] == [(3, "inner 100%"), (4, "done inner outer")]
    assert found.hits[0].before == ["outer 50%"]
    assert found.lines_searched == 4


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("epoch (", "parentheses"),
        ("a{1,1000}", "invalid repetition"),
        ("^(x+)(x+)\\1\\2x$", "more than"),
    ],
)
def test_a_regular_expression_that_is_none_or_takes_too_long_is_refused(attempt, pattern, said, monkeypatch):
    monkeypatch.setattr(log_search, "PATTERN_SECONDS", 0.2)
    write(attempt, "x" * 5_000 + "\n")
    with pytest.raises(Invalid) as refused:
        everything(attempt, matcher_of(pattern, is_pattern=True, match_case=True))
    assert said in refused.value.fields[0].problem
    # The connection is as good as before.
    (hit,) = everything(attempt, matcher_of("X{3}$", is_pattern=True, match_case=False)).hits
    # Of a long line, what is around the match.
    assert (hit.text, hit.start, hit.end) == ("x" * 203, 200, 203)
