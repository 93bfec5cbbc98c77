"""Where webhooks may go: not to what only the server can reach."""

import pytest

from scheduler.notifications.services.delivery import checked_url, is_allowed, post
from tenants.errors import Invalid


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
        "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1%eth0", "fd00::1", "ff02::1", "::ffff:10.0.0.1",
        "64:ff9b::a00:1", "2002:a00:1::", "2001:0:4136:e378::",
    ],
)  # fmt: skip
def test_addresses_that_only_the_server_reaches(address: str) -> None:
    assert not is_allowed(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses(address: str) -> None:
    assert is_allowed(address)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("ftp://example.org/x", "is not a URL of https"),
        ("https:///x", "is not a URL of https"),
        ("http://example.org/x", "is not encrypted"),
        ("https://me:secret@example.org/", "holds a password"),
        ("https://127.0.0.1/", "is not a public address"),
        ("https://[::1]:8443/", "is not a public address"),
        ("https://example.org:99999/", "is not a URL"),
        ("https://example.org/a b", "has characters"),
        ("https://example.org/\r\nHost: x", "has characters"),
    ],
)
def test_urls_to_which_nothing_is_sent(url: str, problem: str) -> None:
    with pytest.raises(Invalid, match=problem) as refused:
        checked_url(url)
    assert [field.field for field in refused.value.fields] == ["url"]


def test_a_name_is_looked_at_when_it_is_used() -> None:
    # Whatever it was when the webhook was made: names lead elsewhere later.
    answer = post("https://localhost/", "{}", {})
    assert not answer.is_taken
    assert "not a public address" in answer.problem
