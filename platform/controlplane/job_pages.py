"""Where the pages of jobs are seen: another origin than the dashboard's, since they are tenants' code.

    ALLOT_PROXY_HOST=*.notebooks.example.org   https://job-17-notebook.notebooks.example.org/job/17/notebook/
    ALLOT_PROXY_HOST=notebooks.example.org     https://notebooks.example.org/job/17/notebook/
    ALLOT_PROXY_PORT=8001                      http://the-dashboards-host:8001/job/17/notebook/

With the first, each page is an origin of its own. With the others jobs' pages are not safe from other pages
there; the dashboard is safe from them with all three.
"""

import re
from typing import NamedTuple
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest
from django.http.request import split_domain_port

TICKET = "allot_ticket"
_PATH = re.compile(r"/job/(?P<job>[1-9][0-9]{0,17})/(?P<port>[a-z][a-z0-9-]{0,31})(?P<rest>/.*)?", re.DOTALL)


class NoPages(Exception):
    """This installation shows no pages of jobs."""


class Place(NamedTuple):
    """A port of a job as paths name it; `has_slash` unless the path ends before the first one within."""

    job_id: int
    port: str
    has_slash: bool

    @property
    def path(self) -> str:
        return f"/job/{self.job_id}/{self.port}/"


def page_address(request: HttpRequest, *, job_id: int, port: str, ticket: str) -> str:
    """Return where a browser that reaches us as `request` did finds the port's pages."""
    place = Place(job_id, port, has_slash=True)
    config = settings.CONFIG
    scheme = "https" if config.secure else request.scheme
    host, _ = split_domain_port(request.get_host())
    if config.proxy_host:
        host = host_of(place)
        # Behind a proxy its ports are the usual ones; without, ours is the one that was asked.
        _, port_number = split_domain_port(request.get_host())
        if config.proxy_port:
            port_number = str(config.proxy_port)
        host += f":{port_number}" if port_number else ""
    elif config.proxy_port:
        host = f"{host}:{config.proxy_port}"
    else:
        raise NoPages(
            "Pages of jobs are not shown here: neither ALLOT_PROXY_HOST nor ALLOT_PROXY_PORT is set."
        )
    return f"{scheme}://{host}{place.path}?{urlencode({TICKET: ticket})}"


def host_of(place: Place) -> str:
    """Return the host name under which a place is found; "" where that is the dashboard's own."""
    host: str = settings.CONFIG.proxy_host
    return f"job-{place.job_id}-{place.port}{host[1:]}" if host.startswith("*.") else host


def place_of(path: str) -> Place | None:
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    return Place(int(match["job"]), match["port"], has_slash=match["rest"] is not None)


def is_for_pages(host: str, port: int) -> bool:
    """Whether a request to this host name, received at this port of ours, is for pages of jobs."""
    config = settings.CONFIG
    if config.proxy_port and port == config.proxy_port:
        return True
    name = config.proxy_host.removeprefix("*")
    return bool(name) and (host.endswith(name) if name.startswith(".") else host == name)
