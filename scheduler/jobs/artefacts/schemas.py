"""What is asked and answered about files of jobs."""

from collections.abc import Mapping

from rest_framework import serializers

#: Linux accepts no longer path at once.
LONGEST_PATH_CHARACTERS = 4_096
_ESCAPED = r"Bytes that are not printable are written as `\x1b`, a backslash as `\\`."


class WhichFolder(serializers.Serializer[Mapping[str, object]]):
    path = serializers.CharField(
        default="",
        allow_blank=True,
        trim_whitespace=False,
        max_length=LONGEST_PATH_CHARACTERS,
        help_text=f"Path inside the checkpoint folder, separated by /. Default: that folder. {_ESCAPED}",
    )


class WhichFile(serializers.Serializer[Mapping[str, object]]):
    path = serializers.CharField(
        trim_whitespace=False,
        max_length=LONGEST_PATH_CHARACTERS,
        help_text=f"Path inside the job's checkpoint folder, separated by /. {_ESCAPED}",
    )


class Artefact(serializers.Serializer[Mapping[str, object]]):
    """One entry of a job's checkpoint folder or a subfolder."""

    name = serializers.CharField(help_text=_ESCAPED)
    path = serializers.CharField(help_text="Path of the entry inside the checkpoint folder.")
    kind = serializers.ChoiceField(
        choices=["file", "folder", "link", "other"], help_text="Links are not followed."
    )
    bytes = serializers.IntegerField(
        allow_null=True, help_text="Size in bytes; null for anything but a file."
    )
    modified_at = serializers.DateTimeField(
        allow_null=True,
        help_text="Last change, as the file system reports it; null if it is not a valid time.",
    )
