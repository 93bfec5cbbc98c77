"""`python -m controlplane.uvicorn_server`: the web server, at its port and at that of jobs' pages.

uvicorn's own command listens at one address. Both lead to one application, which distinguishes them by the
port (`controlplane.sessions.pages`); it runs in one process, or in as many as `ALLOT_WEB_PROCESSES` says,
which uvicorn's process manager keeps alive.
"""

import argparse
import gc
import logging
import multiprocessing
import signal
import socket
import sys
from typing import Any

import uvicorn
from django.urls import get_resolver
from uvicorn.supervisors import Multiprocess

# First: it sets Django up, which the other needs.
import controlplane.asgi  # noqa: F401
from controlplane.config import config
from controlplane.connections import BoundedProtocol
from controlplane.embedded.spawn import end_with_parent

log = logging.getLogger(__name__)

BACKLOG = 2_048
# A process that does not answer its manager for this long is replaced: longer than a busy machine may take.
STUCK_SECONDS = 60
#: New objects after which the youngest generation is collected, and how many of these collections make one of
#: the next generations.
COLLECT_AFTER = (50_000, 10, 10)


class ServerConfig(uvicorn.Config):
    """uvicorn's, and what is to be set in each process that serves."""

    def load(self) -> None:
        super().load()
        # A computing thread lets others have the interpreter after 1 ms and not 5: a report or a small read
        # asks for it many times, and would wait that long each time while four searches are under way.
        sys.setswitchinterval(0.001)
        self._collect_rarely()
        manager = multiprocessing.parent_process()
        if manager is not None and manager.pid is not None:
            # Or it would listen on when its manager is killed.
            end_with_parent(manager.pid, signal.SIGKILL)

    @staticmethod
    def _collect_rarely() -> None:
        """Let the garbage collector leave alone what stays, and look less often for what does not.

        A page of a list makes tens of thousands of objects, none of them garbage. By Python's own thresholds
        they are looked through again and again, and all modules with them: two fifths of the processor time
        in which running jobs are listed.
        """
        get_resolver().url_patterns  # noqa: B018  # Or the first request would import the views.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*COLLECT_AFTER)


class Manager(Multiprocess):
    """uvicorn's, which learns at once that a process has died.

    It asks each process every half second, and waits for the answer. While it has the other end of the pipe
    open itself, one that was killed looks like one that is slow, for `STUCK_SECONDS`.
    """

    def init_processes(self) -> None:
        super().init_processes()
        self._close_their_ends()

    def keep_subprocess_alive(self) -> None:
        super().keep_subprocess_alive()
        self._close_their_ends()

    def _close_their_ends(self) -> None:
        for process in self.processes:
            process.child_conn.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="controlplane.uvicorn_server", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    # Pages hold their WebSocket open for as long as they live; do not wait for them.
    parser.add_argument("--timeout-graceful-shutdown", type=int, default=5, metavar="SECONDS")
    options = parser.parse_args()
    listeners = [listen(options.host, options.port)]
    if pages_port := config().proxy_port:
        try:
            listeners.append(listen(options.host, pages_port))
        except OSError as error:
            log.warning("The pages of jobs cannot be seen: port %d: %s", pages_port, error.strerror)
    server_config = ServerConfig(
        "controlplane.asgi:application",
        http=BoundedProtocol,
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=options.timeout_graceful_shutdown,
        # Longer than agents keep an idle connection (50 s): with the default of 5 s, which is also how
        # often they report, one report in twenty met its end.
        timeout_keep_alive=75,
        workers=config().web_processes,
        timeout_worker_healthcheck=STUCK_SECONDS,
        **trusting(config().proxies),
    )
    if server_config.workers > 1:
        Manager(server_config, listeners).run()
    else:
        uvicorn.Server(server_config).run(sockets=listeners)


def trusting(proxies: list[str]) -> dict[str, Any]:
    """Return uvicorn's options for believing these proxies; by itself it believes all of this machine."""
    return {"proxy_headers": bool(proxies), "forwarded_allow_ips": proxies}


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; raise OSError where the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once (TCP_NODELAY) only on sockets that say they are TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


if __name__ == "__main__":
    main()
