"""The dashboard's map of all GPUs: nodes and active jobs, with what the map shows of them and no more."""

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from django.db.models import QuerySet
from django.http import HttpResponse
from rest_framework.generics import ListAPIView
from rest_framework.request import Request

from controlplane.pagination import NewestFirst
from scheduler.core.model.lifecycle import JobState
from scheduler.jobs import map_schemas as schemas
from scheduler.models.jobs import Job
from scheduler.models.nodes import Node
from scheduler.models.selectors.cluster_map import jobs_of_map, nodes_of_map
from scheduler.models.selectors.jobs import jobs_visible
from tenants.selectors import viewer


class MapPages(NewestFirst):
    page_size = max_page_size = 2_000


class Write(Protocol):
    """Returns the rows of those ids as a JSON array, in the order of the list."""

    def __call__(self, ids: Sequence[int], /) -> str: ...


class MapList(ListAPIView[Any]):
    """A list whose pages the database writes; `serializer_class` only describes them to the schema."""

    pagination_class = MapPages
    write: ClassVar[Write]

    def list(  # type: ignore[override]
        self, request: Request, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        pages = self.paginator
        assert isinstance(pages, MapPages)
        rows = pages.paginate_queryset(self.filter_queryset(self.get_queryset()), request, self)
        links = json.dumps({"next": pages.next, "previous": pages.previous})
        text = f'{{"results": {type(self).write([row.id for row in rows])}, {links[1:]}'
        return HttpResponse(text, content_type="application/json")


class MapNodes(MapList):
    """List what the dashboard's map shows of all nodes, by name."""

    queryset = Node.objects.none()
    serializer_class = schemas.MapNode
    ordering = "name"
    write = staticmethod(nodes_of_map)

    def get_queryset(self) -> QuerySet[Any]:
        return Node.objects.values_list("id", "name", named=True)


class MapJobs(MapList):
    """List what the dashboard's map shows of the queued and running jobs of the caller's tenants."""

    queryset = Job.objects.none()
    serializer_class = schemas.MapJob
    write = staticmethod(jobs_of_map)

    def get_queryset(self) -> QuerySet[Any]:
        active = jobs_visible(viewer(self.request)).filter(state__in=[JobState.QUEUED, JobState.RUNNING])
        return active.filter(serves=None).values_list("id", named=True)
