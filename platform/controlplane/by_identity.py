"""What is made once of an object that many receivers of a process get."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")

#: The objects whose products are kept, for the receivers that have yet to ask.
_KEPT = 16


class ByIdentity(Generic[Given, Made]):
    """What `make` returns for the newest objects, which must not change."""

    def __init__(self, make: Callable[[Given], Made]) -> None:
        self._make = make
        #: The object is kept with its product, so that no other gets its identity.
        self._known: OrderedDict[int, tuple[Given, Made]] = OrderedDict()

    def of(self, given: Given) -> Made:
        known = self._known.get(id(given))
        if known is not None:
            return known[1]
        made = self._make(given)
        self._known[id(given)] = given, made
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return made
