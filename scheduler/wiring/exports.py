"""Lists as files, CSV or Parquet, read page by page: at most the newest 100,000 rows."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from itertools import chain
from tempfile import TemporaryFile
from typing import Any, Protocol

import arro3.io
from arro3.core import Array, DataType, Field, RecordBatch, RecordBatchReader, Schema
from django.db.models import QuerySet
from django.http import FileResponse, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request

#: An export has at most this many lines, the newest.
MOST_EXPORTED = 100_000
_AT_ONCE = 1_000
#: Rows that are encoded together, and so in memory together.
_ROW_GROUP = 10_000
#: With one of these a spreadsheet would take a text for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class FileFormat(StrEnum):
    CSV = "csv"
    PARQUET = "parquet"


_MEDIA_TYPES = {
    FileFormat.CSV: "text/csv; charset=utf-8",
    FileFormat.PARQUET: "application/vnd.apache.parquet",
}
#: What an export answers, for the API's schema.
FILE_ANSWERS = {
    (200, media_type.partition(";")[0]): OpenApiResponse(
        OpenApiTypes.BINARY if kind is FileFormat.PARQUET else OpenApiTypes.STR
    )
    for kind, media_type in _MEDIA_TYPES.items()
}


class Kind(StrEnum):
    """What a column holds; Parquet keeps it as a type. CSV writes all as text."""

    INTEGER = "integer"
    #: Exact, with six places: GPU-hours, money, credits.
    DECIMAL = "decimal"
    NUMBER = "number"
    #: With a time zone, in microseconds.
    INSTANT = "instant"
    DAY = "day"
    TEXT = "text"
    #: A list or a map, as JSON.
    PARTS = "parts"


#: The columns of a file, in their order.
Columns = Mapping[str, Kind]


class Shown(Protocol):
    """Returns rows as the objects whose fields become the columns."""

    def __call__(self, rows: Sequence[Any], /) -> Iterable[Mapping[str, Any]]: ...


class FileQuery(serializers.Serializer[Mapping[str, object]]):
    """The parameter that chooses the format of an export; it comes before the header Accept."""

    format = serializers.ChoiceField(
        choices=[kind.value for kind in FileFormat],
        required=False,
        help_text=(
            "Format of the file. Default: what the Accept header names, else CSV. Parquet has typed columns."
        ),
    )


class AnyFile(BaseContentNegotiation):
    """The export itself reads what is accepted; refusals are JSON."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(self, request: Request, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


def format_of(request: Request) -> FileFormat:
    """Return the format that a request asks for. Raises Invalid for another one than these."""
    query = FileQuery(data=request.query_params)
    query.is_valid(raise_exception=True)
    if chosen := query.validated_data.get("format"):
        return FileFormat(chosen)
    accepted = request.headers.get("Accept", "")
    return FileFormat.PARQUET if _MEDIA_TYPES[FileFormat.PARQUET] in accepted else FileFormat.CSV


def exported(
    request: Request, name: str, lines: QuerySet[Any], columns: Columns, shown: Shown
) -> StreamingHttpResponse:
    """Answer with the rows by id, the oldest first.

    If there are too many, it has the newest. A last line of CSV states this, in Parquet the file's metadata
    `note`.
    """
    lines = lines.order_by()
    newest = list(lines.order_by("-id").values_list("id", flat=True)[: MOST_EXPORTED + 1])
    is_cut = len(newest) > MOST_EXPORTED
    last, until = (newest[-1] if is_cut else 0), (newest[0] if newest else 0)
    note = f"Older lines were left out: these are the newest {MOST_EXPORTED:,}." if is_cut else ""
    pages = (shown(rows) for rows in _pages(lines, last, until))
    return file_of(format_of(request), name, columns, pages, note=note)


def _pages(lines: QuerySet[Any], last: int, until: int) -> Iterator[list[Any]]:
    while last < until:
        rows = list(lines.filter(id__gt=last, id__lte=until).order_by("id")[:_AT_ONCE])
        if not rows:
            return
        last = rows[-1].id
        yield rows


def file_of(
    kind: FileFormat,
    name: str,
    columns: Columns,
    pages: Iterable[Iterable[Mapping[str, Any]]],
    *,
    note: str = "",
) -> StreamingHttpResponse:
    """Answer with these rows, page by page.

    CSV is sent while it is written. Parquet ends with its table of contents, without which no reader opens
    it: it is written to the disk first, so that what goes wrong is an error and not half a file.
    """
    headers = {"Content-Disposition": f'attachment; filename="{name}.{kind}"'}
    if kind is FileFormat.PARQUET:
        file = TemporaryFile()  # noqa: SIM115  # FileResponse closes it
        try:
            write_parquet(file, columns, pages, note=note)
        except BaseException:
            file.close()
            raise
        file.seek(0)
        return FileResponse(file, content_type=_MEDIA_TYPES[kind], headers=headers)
    content = chain([_rows([columns])], (_lines(page, columns) for page in pages))
    last_line = [_rows([[note]])] if note else []
    return StreamingHttpResponse(chain(content, last_line), content_type=_MEDIA_TYPES[kind], headers=headers)


def csv_text(columns: Columns, rows: Iterable[Mapping[str, Any]]) -> str:
    """Return these rows as the text of a CSV file."""
    return (_rows([columns]) + _lines(rows, columns)).decode()


def _lines(rows: Iterable[Mapping[str, Any]], columns: Columns) -> bytes:
    return _rows([_cell(row[name]) for name in columns] for row in rows)


def _rows(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _cell(value: Any) -> object:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and value.startswith(_FORMULA):
        # Spreadsheets show what follows an apostrophe as it is.
        return f"'{value}"
    return "" if value is None else value


def write_parquet(
    file: Any, columns: Columns, pages: Iterable[Iterable[Mapping[str, Any]]], *, note: str = ""
) -> None:
    """Write these rows, with no more of them in memory than a page and a row group."""
    schema = Schema([Field(name, _TYPES[kind][1], nullable=True) for name, kind in columns.items()])
    batches = (_batch(list(page), columns, schema) for page in pages)
    arro3.io.write_parquet(
        RecordBatchReader.from_batches(schema, batches),
        file,
        compression="zstd(3)",
        max_row_group_size=_ROW_GROUP,
        key_value_metadata={"note": note} if note else None,
    )


#: By kind, the type in which values are handed over, and that of the column.
_TYPES = {
    Kind.INTEGER: (DataType.int64(), DataType.int64()),
    Kind.DECIMAL: (DataType.string(), DataType.decimal128(38, 6)),
    Kind.NUMBER: (DataType.float64(), DataType.float64()),
    Kind.INSTANT: (DataType.int64(), DataType.timestamp("us", tz="UTC")),
    Kind.DAY: (DataType.int32(), DataType.date32()),
    Kind.TEXT: (DataType.string(), DataType.string()),
    Kind.PARTS: (DataType.string(), DataType.string()),
}


def _batch(rows: Sequence[Mapping[str, Any]], columns: Columns, schema: Schema) -> RecordBatch:
    return RecordBatch.from_arrays(
        [_array([row[name] for row in rows], kind) for name, kind in columns.items()], schema=schema
    )


def _array(values: Iterable[Any], kind: Kind) -> Array:
    given, stored = _TYPES[kind]
    array = Array([None if value is None else _plain(value, kind) for value in values], given)
    return array if given == stored else array.cast(stored)


def _plain(value: Any, kind: Kind) -> Any:
    match kind:
        case Kind.DECIMAL:
            return f"{value:.6f}"
        case Kind.INSTANT:
            at = datetime.fromisoformat(value) if isinstance(value, str) else value
            return (at - _EPOCH) // timedelta(microseconds=1)
        case Kind.DAY:
            day = date.fromisoformat(value) if isinstance(value, str) else value
            return (day - _EPOCH.date()).days
        case Kind.PARTS:
            return json.dumps(value, ensure_ascii=False)
        case Kind.NUMBER:
            return float(value)
        case _:
            return value
