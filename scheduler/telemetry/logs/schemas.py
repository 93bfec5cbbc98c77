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
        required=False,
        min_value=1,
        max_value=_LARGEST,
        help_text="Number of the attempt. Default: the newest.",
    )
    task = serializers.CharField(
        required=False, max_length=63, help_text="Only ranks of the task with this name."
    )


class LogQuery(WhichOutput):
    rank = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=_LARGEST,
        help_text="Rank of the process, as in its `$RANK`. Default: the first rank of the task, or 0.",
    )
    after = serializers.IntegerField(
        default=-1,
        min_value=-1,
        max_value=_LARGEST,
        help_text="Only chunks after this sequence number; -1: from the first.",
    )
    limit = serializers.IntegerField(
        default=100,
        min_value=1,
        max_value=1_000,
        help_text="Maximum number of chunks; fewer are returned if they are long.",
    )
    last = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=MOST_LAST_LINES,
        help_text="Start with the chunk that contains the first of this many last lines.",
    )


class MergedQuery(WhichOutput):
    after = serializers.CharField(
        default="",
        allow_blank=True,
        max_length=_CURSOR_CHARACTERS,
        help_text="`next_after` of the previous answer.",
    )
    limit = serializers.IntegerField(
        default=100, min_value=1, max_value=1_000, help_text="Maximum number of chunks of each rank."
    )


class DownloadQuery(WhichOutput):
    rank = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=_LARGEST,
        help_text="Only this rank. Default: all ranks; several come as a zip archive.",
    )


class SearchQuery(WhichOutput):
    q = serializers.CharField(
        max_length=LONGEST_PATTERN_CHARACTERS,
        trim_whitespace=False,
        help_text="Text that a line must contain.",
    )
    regex = serializers.BooleanField(
        default=False, help_text="Treat `q` as a regular expression (PostgreSQL's syntax)."
    )
    match_case = serializers.BooleanField(default=False)
    rank = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=_LARGEST,
        help_text="Only this rank. Default: all ranks, one after the other.",
    )
    context = serializers.IntegerField(  # type: ignore[assignment]  # taken off the class by the framework
        default=0,
        min_value=0,
        max_value=MOST_CONTEXT_LINES,
        help_text="Lines to show before and after each match.",
    )
    after = serializers.CharField(
        default="", allow_blank=True, max_length=50, help_text="`next_after` of the previous answer."
    )
    limit = serializers.IntegerField(default=100, min_value=1, max_value=MOST_HITS)


class LogChunk(serializers.Serializer[Mapping[str, object]]):
    sequence = serializers.IntegerField()
    at = serializers.DateTimeField()
    text = serializers.CharField()


class LogRemoval(serializers.Serializer[Mapping[str, object]]):
    at = serializers.DateTimeField()
    bytes = serializers.IntegerField()
    message = serializers.CharField(help_text="The retention limit for which the output was deleted.")


class LogPage(serializers.Serializer[Mapping[str, object]]):
    attempt = serializers.IntegerField(allow_null=True)
    rank = serializers.IntegerField()
    ranks = serializers.ListField(child=serializers.IntegerField())
    tasks = serializers.ListField(child=serializers.CharField(), help_text="The task of each of `ranks`.")
    chunks = LogChunk(many=True)
    next_after = serializers.IntegerField(help_text="Pass it as `after` to continue.")
    complete = serializers.BooleanField(
        help_text="Whether the attempt has ended and this is the end of its output."
    )
    truncated = serializers.BooleanField(help_text="Whether the attempt wrote more than is kept.")
    removed = LogRemoval(
        allow_null=True, help_text="Set if the output was deleted because of a retention limit."
    )


class RankedLogChunk(LogChunk):
    rank = serializers.IntegerField()
    task = serializers.CharField()


class MergedLogPage(serializers.Serializer[Mapping[str, object]]):
    attempt = serializers.IntegerField(allow_null=True)
    ranks = serializers.ListField(child=serializers.IntegerField())
    chunks = RankedLogChunk(many=True, help_text="Chunks in the order in which the nodes sent them.")
    next_after = serializers.CharField(allow_blank=True, help_text="Pass it as `after` to continue.")
    complete = serializers.BooleanField(
        help_text="Whether the attempt has ended and this is the end of its output."
    )
    removed = LogRemoval(
        allow_null=True, help_text="Set if the output was deleted because of a retention limit."
    )


class LogHit(serializers.Serializer[Mapping[str, object]]):
    rank = serializers.IntegerField()
    task = serializers.CharField()
    line = serializers.IntegerField(help_text="Number of the line, from 1.")
    sequence = serializers.IntegerField(help_text="Sequence number of the chunk in which the line begins.")
    chunk_line = serializers.IntegerField(help_text="Number of the first line of that chunk.")
    text = serializers.CharField(help_text="Text of the line, truncated if it is long.")
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
        help_text=f"Pass it as `after` to continue: there were more hits, or {SEARCH_SECONDS:g} s were over. "
        "Empty when everything was searched.",
    )
    removed = LogRemoval(
        allow_null=True, help_text="Set if the output was deleted because of a retention limit."
    )
