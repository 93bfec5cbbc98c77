"""A batch as a header and bytes: NumPy arrays and bytes, nothing that runs when it is read.

The header is JSON: the form (`one`, `list` or `dict`), and for each part its name, type, shape and length.
The body is the parts one after another, each from a multiple of 64 bytes on. Nothing from the sender is
trusted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from allot.training.errors import TrainingError

PARTS_MOST = 256
NAME_MOST = 256
DIMENSIONS_MOST = 32
#: Where parts begin, so that arrays lie as NumPy likes them.
ALIGNMENT = 64
#: Truth values, numbers and complex numbers; no objects, no fields, no text.
_DTYPE = re.compile(r"[<>|][biufc]\d{1,2}")
_BYTES = "bytes"


class BatchError(TrainingError):
    """An invalid batch."""


def pack(batch: object) -> tuple[dict[str, Any], list[memoryview | bytes]]:
    """Return header and body of a NumPy array, of bytes, or of a list, tuple or dict of them.

    Raises BatchError for anything else.
    """
    if isinstance(batch, Mapping):
        form, named = "dict", list(batch.items())
    elif isinstance(batch, list | tuple):
        form, named = "list", [("", each) for each in batch]
    else:
        form, named = "one", [("", batch)]
    if len(named) > PARTS_MOST:
        raise BatchError(f"a batch has at most {PARTS_MOST} parts, not {len(named)}")
    parts: list[list[Any]] = []
    body: list[memoryview | bytes] = []
    for name, value in named:
        if not isinstance(name, str) or len(name) > NAME_MOST:
            raise BatchError(
                f"a part's name must be text of at most {NAME_MOST} characters, not {name!r:.80}"
            )
        dtype, shape, content = _part(value)
        parts.append([name, dtype, shape, len(content)])
        body += [content, b"\0" * (-len(content) % ALIGNMENT)]
    return {"form": form, "parts": parts}, body


def unpack(header: Mapping[str, Any], body: bytearray) -> object:
    """Return the batch; arrays lie in the body, and may be written to. A tuple comes as a list.

    Raises BatchError for what `pack` does not make.
    """
    form, parts = header.get("form"), header.get("parts")
    if form not in ("one", "list", "dict") or not isinstance(parts, list) or len(parts) > PARTS_MOST:
        raise BatchError("a batch's header has no valid form or parts")
    values: list[tuple[str, object]] = []
    begin = 0
    for part in parts:
        if not isinstance(part, list) or len(part) != 4:
            raise BatchError("a part of a batch must be name, type, shape and length")
        name, dtype, shape, length = part
        if not isinstance(name, str) or len(name) > NAME_MOST or not _is_count(length):
            raise BatchError("a part of a batch has no name or no length")
        if begin + length > len(body):
            raise BatchError("a batch is shorter than its header says")
        values.append((name, _value(dtype, shape, body, begin, length)))
        begin += length + -length % ALIGNMENT
    if begin != len(body):
        raise BatchError("a batch is longer than its header says")
    if form == "dict":
        if len({name for name, _ in values}) != len(values):
            raise BatchError("two parts of a batch have the same name")
        return dict(values)
    if form == "list":
        return [value for _, value in values]
    if len(values) != 1:
        raise BatchError("a batch of one part has a different number of parts")
    return values[0][1]


def _part(value: object) -> tuple[str, list[int], memoryview | bytes]:
    if isinstance(value, bytes | bytearray | memoryview):
        return _BYTES, [], memoryview(value).cast("B") if not isinstance(value, bytes) else value
    # A program that makes arrays has loaded NumPy; this module works without.
    if type(value).__module__.partition(".")[0] == "numpy" and hasattr(value, "dtype"):
        import numpy as np

        array = np.asarray(value)
        if _DTYPE.fullmatch(array.dtype.str):
            # As bytes, for a memoryview does not know all types.
            flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            return array.dtype.str, list(array.shape), flat.data
        raise BatchError(f"an array of type {array.dtype} cannot be sent: only numbers and truth values can")
    raise BatchError(
        "a batch must be NumPy arrays or bytes, alone or in a list, tuple or dict, not "
        f"{type(value).__name__}"
    )


def _value(dtype: object, shape: object, body: bytearray, begin: int, length: int) -> object:
    if dtype == _BYTES and shape == []:
        return bytes(memoryview(body)[begin : begin + length])
    if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
        raise BatchError("a part of a batch has a type that cannot be sent")
    if not isinstance(shape, list) or len(shape) > DIMENSIONS_MOST or not all(map(_is_count, shape)):
        raise BatchError("a part of a batch has no valid shape")
    import numpy as np

    try:
        kind = np.dtype(dtype)
        count = math.prod(shape)
        if count * kind.itemsize != length:
            raise BatchError("a part of a batch is not as long as its shape and type say")
        return (
            np.frombuffer(body, kind, count, begin if count else 0).reshape(shape)
            if count
            else np.empty(shape, kind)
        )
    except (TypeError, ValueError) as error:
        raise BatchError(f"a part of a batch is not an array: {error}") from None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
