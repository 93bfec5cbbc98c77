"""Addresses of servers as people type them."""

import pytest

from allot.credentials import is_plain_http_to_elsewhere, normalised_url
from allot.errors import WrongUse


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
    assert not is_plain_http_to_elsewhere("http://localhost:8000")
