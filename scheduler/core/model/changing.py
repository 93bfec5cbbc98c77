"""Copies of frozen values of which some fields differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["changed"]

T = TypeVar("T")

if TYPE_CHECKING:
    # So that the type checker knows the fields of each class.
    from dataclasses import replace as changed
else:

    def changed(value: T, **changes: Any) -> T:
        """Return what `dataclasses.replace` returns, in 40 % of the time for a job of 45 fields.

        It is for classes with slots and without `__post_init__`, in code that runs at every event of a
        simulation. Raises KeyError for a field that the class does not have.
        """
        kind = type(value)
        read, write_all, write = _fields_of(kind)
        copy = object.__new__(kind)
        for write_one, content in zip(write_all, read(value), strict=True):
            write_one(copy, content)
        for name, content in changes.items():
            write[name](copy, content)
        return copy


@cache
def _fields_of(
    kind: type[Any],
) -> tuple[
    Callable[[Any], tuple[object, ...]],
    tuple[Callable[[Any, object], None], ...],
    Mapping[str, Callable[[Any, object], None]],
]:
    """Return a function that reads all fields of a class at once, and the functions that write each."""
    if hasattr(kind, "__post_init__") or not hasattr(kind, "__slots__"):
        raise TypeError(f"{kind.__name__} has no slots, or checks its fields: use dataclasses.replace")
    names = [field.name for field in fields(kind)]
    write = {name: getattr(kind, name).__set__ for name in names}
    return attrgetter(*names), tuple(write.values()), write
