"""TLS in front of a server on this machine that has none of its own."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def tls_front(context: ssl.SSLContext, port: int, *, asked_for_by: bytes = b"") -> Iterator[int]:
    """Yield a port that passes everything on to `port`, unencrypted.

    `asked_for_by`: what the client says in the clear to ask for TLS; `S` is the answer, as PostgreSQL's.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_serve, args=(listening, context, port, asked_for_by), daemon=True).start()
        yield listening.getsockname()[1]


def _serve(listening: socket.socket, context: ssl.SSLContext, port: int, asked_for_by: bytes) -> None:
    with contextlib.suppress(OSError):
        while True:
            client, _ = listening.accept()
            threading.Thread(
                target=_connection, args=(client, context, port, asked_for_by), daemon=True
            ).start()


def _connection(client: socket.socket, context: ssl.SSLContext, port: int, asked_for_by: bytes) -> None:
    # A client that distrusts the certificate hangs up.
    with contextlib.suppress(OSError), client:
        if asked_for_by:
            assert client.recv(len(asked_for_by)) == asked_for_by
            client.sendall(b"S")
        with (
            context.wrap_socket(client, server_side=True) as secured,
            socket.create_connection(("127.0.0.1", port)) as server,
        ):
            answers = threading.Thread(target=_pass_on, args=(server, secured), daemon=True)
            answers.start()
            _pass_on(secured, server)
            answers.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65_536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
