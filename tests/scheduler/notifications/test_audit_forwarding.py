"""The audit log at other systems: in order, each entry at least once, whoever is dead meanwhile."""

import base64
import hashlib
import hmac
import json
import re
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from django.db import connection, transaction

from scheduler.notifications.services.audit_forwarding import forward, forwarding_is_due
from tenants.audit.reading import next_entries
from tenants.audit.receivers import receivers_of
from tenants.models import AuditEntry, AuditReceiver
from tests.api.caller import caller
from tests.patience import PATIENCE_SECONDS
from tests.scheduler.builders import make_tenant, make_user

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


@pytest.fixture
def to(monkeypatch: pytest.MonkeyPatch):
    """Sets where the log is forwarded to."""

    def to(*urls: str) -> None:
        changed = django_settings.CONFIG.model_copy(
            update={
                "audit_forward": " ".join(urls),
                "audit_forward_secret": type(django_settings.CONFIG.audit_forward_secret)(SECRET),
            }
        )
        monkeypatch.setattr(django_settings, "CONFIG", changed)

    return to


class Collector:
    """A syslog server of TCP, with or without TLS: it keeps whole connections."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.context = context
        self.received: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def port(self) -> int:
        return self.listening.getsockname()[1]

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                plain, _ = self.listening.accept()
                with plain, suppress(OSError):
                    channel = self.context.wrap_socket(plain, server_side=True) if self.context else plain
                    stream = b""
                    while piece := channel.recv(65_536):
                        stream += piece
                    self.received += _frames(stream)

    def entries(self) -> list[dict]:
        return [json.loads(text.partition("\ufeff".encode())[2]) for text in self.received]

    def close(self) -> None:
        self.listening.close()


def _frames(stream: bytes) -> Iterator[bytes]:
    """RFC 6587: each with its length in front."""
    while stream:
        length, _, rest = stream.partition(b" ")
        yield rest[: int(length)]
        stream = rest[int(length) :]


@contextmanager
def webhook(status: int = 204) -> Iterator[tuple[str, list]]:
    taken: list = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            taken.append((dict(self.headers), body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook", taken
    finally:
        server.shutdown()
        server.server_close()


def ids() -> list[int]:
    return list(AuditEntry.objects.order_by("id").values_list("id", flat=True))


def let_try() -> None:
    AuditReceiver.objects.update(held_until=None)


def test_syslog_gets_everything_once_in_order_and_goes_on_where_it_was(to) -> None:
    collector = Collector()
    to(f"syslog+tcp://127.0.0.1:{collector.port}")
    for number in range(130):
        make_tenant(f"t{number}")
    assert forward() == 130
    make_tenant("later")
    assert forwarding_is_due()
    assert forward() == 1
    assert not forwarding_is_due()
    assert [entry["id"] for entry in collector.entries()] == ids()
    head = re.compile(
        rb'<110>1 [0-9-]+T[0-9:.]+Z \S+ allotment - tenant.create \[audit@32473 id="\d+" actor="[^"]+" '
    )
    assert all(head.match(text) for text in collector.received)
    collector.close()


def test_by_tls_the_other_side_must_be_who_it_should_be(to, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    collector = Collector(context)
    make_tenant("red")
    to(f"syslog+tls://localhost:{collector.port}")
    assert forward() == 0
    assert "certificate" in AuditReceiver.objects.get().problem
    AuditReceiver.objects.all().delete()
    to(f"syslog+tls://localhost:{collector.port}?ca={certificate}")
    assert forward() == 1
    assert collector.entries()[0]["subject"] == "red"
    collector.close()


def test_by_udp_each_entry_is_a_datagram(to) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(PATIENCE_SECONDS)
        to(f"syslog+udp://127.0.0.1:{listening.getsockname()[1]}")
        make_tenant("red", quota={"*": 1})
        assert forward() == 2
        texts = [listening.recv(65_536) for _ in range(2)]
    assert [json.loads(text.partition("\ufeff".encode())[2])["id"] for text in texts] == ids()


def test_a_webhook_is_signed_and_a_dead_receiver_keeps_none_of_it_from_another(to) -> None:
    with webhook() as (url, taken), socket.socket() as dead:
        # Bound, so that no other process gets the port meanwhile; it listens to none.
        dead.bind(("127.0.0.1", 0))
        to(f"syslog+tcp://127.0.0.1:{dead.getsockname()[1]}", url)
        make_tenant("red")
        assert forward() == 1
        operator = caller(make_user("olga", operator=True))
        status = operator.get("/audit/status").json()
    [(headers, body)] = taken
    told = json.loads(body)
    assert [entry["subject"] for entry in told["data"]["entries"]] == ["red"]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{body.decode()}".encode()
    expected = base64.b64encode(hmac.digest(b"k" * 32, signed, hashlib.sha256)).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    first, second = status["receivers"]
    assert (first["failures"], first["sent_id"], first["behind"] >= 1) == (1, 0, True)
    assert "refused" in first["problem"]
    assert (second["failures"], second["sent_id"]) == (0, AuditEntry.objects.get(subject="red").id)
    assert "hook" not in str(status)


def test_who_answers_an_error_gets_the_same_again(to) -> None:
    make_tenant("red")
    with webhook(500) as (url, taken):
        to(url)
        assert forward() == 0
        assert not forwarding_is_due()
        let_try()
        assert forward() == 0
    assert len(taken) == 2
    assert taken[0][0]["webhook-id"] == taken[1][0]["webhook-id"]


def test_who_is_killed_after_sending_sends_again(to, monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector()
    to(f"syslog+tcp://127.0.0.1:{collector.port}")
    make_tenant("red")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("scheduler.notifications.services.audit_forwarding._note", killed)
        with pytest.raises(KeyboardInterrupt):
            forward()
    assert forward() == 1
    assert [entry["subject"] for entry in collector.entries()] == ["red", "red"]
    collector.close()


def test_an_entry_whose_transaction_is_late_is_not_passed_over() -> None:
    """Its id is lower than that of an entry that is committed before it."""
    drawn, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def late() -> None:
        with transaction.atomic():
            make_tenant("late")
            drawn.set()
            assert go_on.wait(PATIENCE_SECONDS)
        connection.close()
        done.set()

    thread = threading.Thread(target=late)
    thread.start()
    assert drawn.wait(PATIENCE_SECONDS)
    make_tenant("early")
    everything = AuditEntry.objects.all()
    assert next_entries(everything, after=0) == []
    go_on.set()
    assert done.wait(PATIENCE_SECONDS)
    thread.join()
    assert [entry.subject for entry in next_entries(everything, after=0)] == ["late", "early"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("siem.example.org", "is not an address"),
        ("syslog+tls://a.example.org syslog+tls://a.example.org", "twice"),
        ("syslog+tls://a.example.org?verify=no", "is not an option"),
        ("syslog+tls://a.example.org?ca=/no/such/file", "must be a file"),
    ],
)
def test_what_is_no_receiver_stops_the_start(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        receivers_of(text)
