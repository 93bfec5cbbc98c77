"""Names of files as text: one form that can be shown anywhere and turned back into the bytes.

A name on a Linux file system is any bytes but "/" and NUL: it need not be UTF-8, and may hold characters that
move a cursor or reverse the direction of writing. So a backslash is written twice, and each byte of a
character that is not printable as `\\x1b`. Nearly all names have neither and stay as they are.
"""

import re

from tenants.errors import FieldError, Invalid

#: The longest name on every file system that Linux knows.
LONGEST_NAME_BYTES = 255
_ESCAPE = re.compile(r"\\(\\|x[0-9a-f]{2})?")
_PATH_EXPECTED = "names separated by /, from the job's folder on, such as step-100/model.pt"


def shown(name: bytes) -> str:
    return "".join(map(_shown, name.decode(errors="surrogateescape")))


def _shown(letter: str) -> str:
    if letter == "\\":
        return r"\\"
    if letter.isprintable():
        return letter
    return "".join(rf"\x{byte:02x}" for byte in letter.encode(errors="surrogateescape"))


def named(text: str, field: str) -> bytes:
    """Return the name that is shown as this text. Raises Invalid for the field where there is none."""
    pieces, start = [], 0
    for escape in _ESCAPE.finditer(text):
        if escape[1] is None:
            expected = r"\\ for a backslash, and \x0a for the byte 0a"
            raise Invalid.of(FieldError(field, "has a backslash that escapes nothing", expected))
        byte = b"\\" if escape[1] == "\\" else bytes.fromhex(escape[1][1:])
        pieces += [text[start : escape.start()].encode(), byte]
        start = escape.end()
    return b"".join([*pieces, text[start:].encode()])


def parts_of(path: str) -> list[bytes]:
    """Return the names that lead from the job's folder to a file; none for the folder itself.

    Raises Invalid for what could lead elsewhere, and for an invalid name.
    """
    return [_part(text) for text in path.split("/")] if path else []


def _part(text: str) -> bytes:
    name = named(text, "path")
    if name in (b"", b".", b".."):
        problem = f"has {text!r} among its names" if name else "has an empty name, or begins or ends with /"
        raise Invalid.of(FieldError("path", problem, _PATH_EXPECTED))
    if b"/" in name or b"\0" in name:
        raise Invalid.of(FieldError("path", "has a name with / or NUL in it", _PATH_EXPECTED))
    if len(name) > LONGEST_NAME_BYTES:
        problem = f"has a name of {len(name):,} bytes"
        raise Invalid.of(FieldError("path", problem, f"names of at most {LONGEST_NAME_BYTES} bytes"))
    return name
