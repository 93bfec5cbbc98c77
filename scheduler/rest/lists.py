"""Lists of whole objects: a page of ids by cursor, then their representation in a few queries."""

from collections.abc import Iterable
from typing import Any, ClassVar, Protocol

from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response


class Represent(Protocol):
    """Returns the objects of those ids, in their order."""

    def __call__(self, ids: Iterable[int], /) -> list[dict[str, Any]]: ...


class RepresentedList(ListAPIView):
    """A list view whose objects come from one of the functions of a slice's `representations`.

    `serializer_class` only describes them to the schema.
    """

    represent: ClassVar[Represent]

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(type(self).represent([row.pk for row in page or ()]))
