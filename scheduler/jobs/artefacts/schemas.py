"""What is asked and answered about files of jobs."""

from collections.abc import Mapping

from rest_framework import serializers

#: As Linux takes no longer path at once.
LONGEST_PATH_CHARACTERS = 4_096
_ESCAPED = r"Bytes that are not printable are written as `\x1b`, a backslash as `\\`."


class WhichFolder(serializers.Serializer[Mapping[str, object]]):
    path = serializers.CharField(
        default="",
        allow_blank=True,
        trim_whitespace=False,
        max_length=LONGEST_PATH_CHARACTERS,
        help_text=f"Names from the job's folder on, separated by /; left out, that folder. {_ESCAPED}",
    )


class WhichFile(serializers.Serializer[Mapping[str, object]]):
    path = serializers.CharField(
        trim_whitespace=False,
        max_length=LONGEST_PATH_CHARACTERS,
        help_text=f"Names from the job's folder on, separated by /. {_ESCAPED}",
    )


class Artefact(serializers.Serializer[Mapping[str, object]]):
    """What a job's checkpoint folder, or a folder in it, holds under one name."""

    name = serializers.CharField(help_text=_ESCAPED)
    path = serializers.CharField(help_text="To ask for it: the names of its folders before its own.")
    kind = serializers.ChoiceField(
        choices=["file", "folder", "link", "other"], help_text="Links are not followed."
    )
    bytes = serializers.IntegerField(allow_null=True, help_text="Null: it is no file.")
    modified_at = serializers.DateTimeField(
        allow_null=True, help_text="As the job left it; null: a time of no calendar."
    )
