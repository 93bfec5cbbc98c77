"""Addresses of servers as people type them."""

from pathlib import Path

import pytest

from allot import credentials
from allot.client import Client
from allot.credentials import (
    Credentials,
    Server,
    find_account,
    is_plain_http_to_elsewhere,
    normalised_url,
    save,
)
from allot.errors import WrongUse
from tests.conftest import OWN_CONFIG


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("localhost:8000", "http://localhost:8000"),
        ("127.0.0.1:8000/", "http://127.0.0.1:8000"),
        ("gpu.example.org", "https://gpu.example.org"),
        ("gpu.example.org:8443", "https://gpu.example.org:8443"),
        (" http://gpu.example.org/jobs/12 ", "http://gpu.example.org"),
        ("https://gpu.example.org/api/v1/", "https://gpu.example.org"),
        ("[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_addresses_are_completed_and_cut_down(typed: str, meant: str) -> None:
    assert normalised_url(typed) == meant


@pytest.mark.parametrize("typed", ["", "http://", "ftp://example.org", "https://ann:secret@example.org"])
def test_what_is_no_address_is_refused(typed: str) -> None:
    with pytest.raises(WrongUse):
        normalised_url(typed)


def test_plain_http_is_safe_only_on_this_machine() -> None:
    assert is_plain_http_to_elsewhere("http://gpu.example.org")
    assert not is_plain_http_to_elsewhere("https://gpu.example.org")
    for here in ("localhost:8000", "127.0.0.1", "127.1.2.3:80", "[::1]:8000"):
        assert not is_plain_http_to_elsewhere(f"http://{here}")
    assert is_plain_http_to_elsewhere("http://127.0.0.1.example.org")


def test_a_token_does_not_cross_a_network_in_the_clear() -> None:
    with pytest.raises(WrongUse, match="not encrypted"):
        Client("http://gpu.example.org", token="alt_a_b")
    Client("http://gpu.example.org", token="alt_a_b", insecure=True).close()
    Client("https://gpu.example.org", token="alt_a_b").close()


def test_the_environment_and_an_earlier_login_can_allow_it(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    kept = Server(token="alt_a_b", username="ann", made_here=True, insecure=True)
    save(file, Credentials(current="http://trusted", servers={"http://trusted": kept}))
    told = {"ALLOT_CONFIG": str(file)}
    assert find_account(told).insecure
    assert not find_account(told | {"ALLOT_URL": "http://other", "ALLOT_TOKEN": "alt_a_b"}).insecure
    assert find_account(told | {"ALLOT_URL": "http://other", "ALLOT_INSECURE": "1"}).insecure


def test_every_test_has_a_configuration_of_its_own(allot_config: Path) -> None:
    assert credentials.config_path() == allot_config != OWN_CONFIG


def test_a_test_that_writes_to_the_persons_own_configuration_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ALLOT_CONFIG")
    before = OWN_CONFIG.read_bytes() if OWN_CONFIG.exists() else None
    with pytest.raises(pytest.fail.Exception, match="is not its own"):
        credentials.save(credentials.config_path(), Credentials())
    assert (OWN_CONFIG.read_bytes() if OWN_CONFIG.exists() else None) == before
