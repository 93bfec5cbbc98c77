"""What is asked and answered about output."""

from collections.abc import Mapping

from rest_framework import serializers

from scheduler.telemetry.logs.services.search import LONGEST_PATTERN_CHARACTERS, SEARCH_SECONDS

_LARGEST = 2**31 - 1
MOST_CONTEXT_LINES = 20
MOST_HITS = 500
MOST_LAST_LINES = 200
#: A place for each of some thousand ranks.
_CURSOR_CHARACTERS = 50_000


class WhichOutput(serializers.Serializer[Mapping[str, object]]):
    attempt = serializers.IntegerField(
        required=False, min_value=1, max_value=_LARGEST, help_text="Number; left out, the newest."
    )
    task = serializers.CharField(
        required=False, max_length=63, help_text="Only ranks of the task of this name."
    )


class LogQuery(WhichOutput):
    rank = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=_LARGEST,
        help_text="As the process knows it by `$RANK`; left out, the first rank of the task, or 0.",
    )
    after = serializers.IntegerField(
        default=-1, min_value=-1, max_value=_LARGEST, help_text="The last sequence one has; -1 for none."
    )
    limit = serializers.IntegerField(
        default=100,
        min_value=1,
        max_value=1_000,
        help_text="Chunks at most; there are fewer where they are long.",
    )
    last = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=MOST_LAST_LINES,
        help_text="Begin with the chunk that holds the first of this many last lines.",
    )


class MergedQuery(WhichOutput):
    after = serializers.CharField(
        default="",
        allow_blank=True,
        max_length=_CURSOR_CHARACTERS,
        help_text="`next_after` of the answer before.",
    )
    limit = serializers.IntegerField(
        default=100, min_value=1, max_value=1_000, help_text="Chunks of each rank at most."
    )


class DownloadQuery(WhichOutput):
    rank = serializers.IntegerField(
        required=False, min_value=0, max_value=_LARGEST, help_text="Left out: all ranks, of several as a zip."
    )


class SearchQuery(WhichOutput):
    q = serializers.CharField(
        max_length=LONGEST_PATTERN_CHARACTERS, trim_whitespace=False, help_text="What a line must contain."
    )
    regex = serializers.BooleanField(default=False, help_text="`q` is a regular expression (PostgreSQL's).")
    match_case = serializers.BooleanField(default=False)
    rank = serializers.IntegerField(
        required=False, min_value=0, max_value=_LARGEST, help_text="Left out: all ranks, one after another."
    )
    context = serializers.IntegerField(  # type: ignore[assignment]  # taken off the class by the framework
        default=0, min_value=0, max_value=MOST_CONTEXT_LINES, help_text="Lines shown before and after each."
    )
    after = serializers.CharField(
        default="", allow_blank=True, max_length=50, help_text="`next_after` of the answer before."
    )
    limit = serializers.IntegerField(default=100, min_value=1, max_value=MOST_HITS)


class LogChunk(serializers.Serializer[Mapping[str, object]]):
    sequence = serializers.IntegerField()
    at = serializers.DateTimeField()
    text = serializers.CharField()


class LogRemoval(serializers.Serializer[Mapping[str, object]]):
    at = serializers.DateTimeField()
    bytes = serializers.IntegerField()
    message = serializers.CharField(help_text="Which limit of the retention the output was removed for.")


class LogPage(serializers.Serializer[Mapping[str, object]]):
    attempt = serializers.IntegerField(allow_null=True)
    rank = serializers.IntegerField()
    ranks = serializers.ListField(child=serializers.IntegerField())
    tasks = serializers.ListField(child=serializers.CharField(), help_text="The task of each of `ranks`.")
    chunks = LogChunk(many=True)
    next_after = serializers.IntegerField(help_text="Give it as `after` to go on.")
    complete = serializers.BooleanField(help_text="The attempt has ended and this was the last of it.")
    truncated = serializers.BooleanField(help_text="The attempt wrote more than is kept.")
    removed = LogRemoval(allow_null=True, help_text="Set where the output was removed by the retention.")


class RankedLogChunk(LogChunk):
    rank = serializers.IntegerField()
    task = serializers.CharField()


class MergedLogPage(serializers.Serializer[Mapping[str, object]]):
    attempt = serializers.IntegerField(allow_null=True)
    ranks = serializers.ListField(child=serializers.IntegerField())
    chunks = RankedLogChunk(many=True, help_text="By the time at which the nodes sent them.")
    next_after = serializers.CharField(allow_blank=True, help_text="Give it as `after` to go on.")
    complete = serializers.BooleanField(help_text="The attempt has ended and this was the last of it.")
    removed = LogRemoval(allow_null=True, help_text="Set where the output was removed by the retention.")


class LogHit(serializers.Serializer[Mapping[str, object]]):
    rank = serializers.IntegerField()
    task = serializers.CharField()
    line = serializers.IntegerField(help_text="Its number, from 1.")
    sequence = serializers.IntegerField(help_text="The chunk in which the line begins.")
    chunk_line = serializers.IntegerField(help_text="Number of the line with which that chunk begins.")
    text = serializers.CharField(help_text="The line, cut where it is long.")
    start = serializers.IntegerField(help_text="Where in `text` the first match begins.")
    end = serializers.IntegerField()
    before = serializers.ListField(child=serializers.CharField())
    after = serializers.ListField(child=serializers.CharField())


class LogSearch(serializers.Serializer[Mapping[str, object]]):
    attempt = serializers.IntegerField(allow_null=True)
    hits = LogHit(many=True)
    lines_searched = serializers.IntegerField()
    next_after = serializers.CharField(
        allow_blank=True,
        help_text=f"Give it as `after` to go on: there were more hits, or {SEARCH_SECONDS:g} s were over. "
        "Empty when everything was searched.",
    )
    removed = LogRemoval(allow_null=True, help_text="Set where the output was removed by the retention.")
