"""Signing in and out, and which token goes where."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from tests.allot.conftest import Command
from tests.allot.fake_api import PASSWORD, FakeApi, serving


def sign_in(command: Command, api: FakeApi, **environment: str | None) -> None:
    result = command(
        "login",
        api.url,
        "-u",
        "ann",
        "--password-stdin",
        stdin=PASSWORD + "\n",
        ALLOT_TOKEN=None,
        **environment,
    )
    assert result.returncode == 0, result.stderr


def test_login_keeps_a_token_that_only_the_owner_can_read(
    command: Command, api: FakeApi, tmp_path: Path
) -> None:
    sign_in(command, api, ALLOT_URL=None)
    path = tmp_path / ".config/allot/config.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    kept = json.loads(path.read_text())
    assert kept["current"] == api.url
    assert kept["servers"][api.url] == {
        "token": "alt_made1_secret",
        "username": "ann",
        "made_here": True,
        "insecure": False,
    }
    assert PASSWORD not in path.read_text()
    # The session lived only for the making of the token.
    assert [(method, path) for method, path, _, _ in api.requests] == [
        ("POST", "/session"),
        ("POST", "/tokens"),
        ("DELETE", "/session"),
    ]
    result = command("whoami", ALLOT_URL=None, ALLOT_TOKEN=None)
    assert result.stdout == f"ann at {api.url}\n  member of research\n"
    assert api.requests[-1][2]["authorization"] == "Bearer alt_made1_secret"


def test_logout_revokes_the_token_and_forgets_it(command: Command, api: FakeApi) -> None:
    sign_in(command, api, ALLOT_URL=None)
    result = command("logout", ALLOT_URL=None, ALLOT_TOKEN=None)
    assert result.returncode == 0, result.stderr
    assert "alt_made1_secret" not in api.tokens
    result = command("ls", ALLOT_URL=None, ALLOT_TOKEN=None)
    assert result.returncode == 2
    assert "allot login URL" in result.stderr


def test_logout_forgets_even_when_the_server_is_away(command: Command, api: FakeApi, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    gone = "http://127.0.0.1:1"
    server = {"token": "alt_a_b", "username": "ann", "made_here": True}
    path.write_text(json.dumps({"current": gone, "servers": {gone: server}}))
    result = command("logout", ALLOT_CONFIG=str(path), ALLOT_URL=None, ALLOT_TOKEN=None)
    assert result.returncode == 0
    assert "not revoked" in result.stderr
    assert json.loads(path.read_text()) == {"current": None, "servers": {}}


def test_a_token_is_never_sent_to_another_server(command: Command, api: FakeApi) -> None:
    sign_in(command, api)
    with serving(FakeApi()) as other:
        result = command("ls", ALLOT_URL=other.url, ALLOT_TOKEN=None)
        assert result.returncode == 3
        assert "authorization" not in other.requests[-1][2]


def test_the_config_file_is_where_the_environment_says(
    command: Command, api: FakeApi, tmp_path: Path
) -> None:
    sign_in(command, api, XDG_CONFIG_HOME=str(tmp_path / "xdg"))
    assert (tmp_path / "xdg/allot/config.json").exists()
    sign_in(command, api, ALLOT_CONFIG=str(tmp_path / "own.json"))
    assert (tmp_path / "own.json").exists()


def test_login_with_a_wrong_password_says_only_that(command: Command, api: FakeApi) -> None:
    result = command("login", api.url, "-u", "ann", "--password-stdin", stdin="wrong\n")
    assert result.returncode == 3
    assert result.stderr == "allot: The user name or password is wrong.\n"


def test_login_with_a_token_checks_it(command: Command, api: FakeApi) -> None:
    assert command("login", api.url, "--token", "alt_no_good").returncode == 3
    assert command("login", api.url, "--token", "alt_ann_secret").returncode == 0
    assert command("whoami", ALLOT_TOKEN=None).returncode == 0


def test_login_with_a_token_refuses_what_would_make_another(command: Command, api: FakeApi) -> None:
    given = ("--scope", "read", "--expires-in-days", "1", "--username", "zoe")
    result = command("login", api.url, "--token", "alt_ann_secret", *given)
    assert result.returncode == 2
    assert "leave out --username, --expires-in-days, --scope." in result.stderr
    assert api.requests == []


def test_a_new_password_gives_a_new_token_only_where_one_is_stored(command: Command, api: FakeApi) -> None:
    typed = f"earlier\n{PASSWORD}\n"
    result = command("password", "--password-stdin", stdin=typed)
    assert result.stderr == (
        "Your password is changed and your tokens are revoked. Sign in again with `allot login URL`.\n"
    )
    assert api.created_tokens == 0
    sign_in(command, api)
    result = command("password", "--password-stdin", stdin=typed)
    assert "this machine has a new token.\nallot: warning: the environment variable" in result.stderr
    assert api.created_tokens == 2


def test_logout_names_the_server_that_is_in_use_now(command: Command, api: FakeApi, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    other = {"token": "alt_x_y", "username": "ann", "made_here": False}
    path.write_text(json.dumps({"current": None, "servers": {"https://gpu.example.org": other}}))
    sign_in(command, api, ALLOT_CONFIG=str(path))
    result = command("logout", ALLOT_CONFIG=str(path), ALLOT_TOKEN=None)
    assert result.stderr == f"Signed out of {api.url}. The current server is https://gpu.example.org.\n"


def test_login_without_a_terminal_says_what_to_give(command: Command, api: FakeApi) -> None:
    result = command("login", api.url)
    assert result.returncode == 2
    assert "--password-stdin" in result.stderr


def test_an_expired_token_is_answered_with_what_to_do(command: Command) -> None:
    result = command("ls", ALLOT_TOKEN="alt_old_token")
    assert result.returncode == 3
    assert "Sign in with `allot login URL`" in result.stderr


def test_signing_in_again_leaves_one_token(command: Command, api: FakeApi) -> None:
    before = len(api.tokens)
    for _ in range(2):
        sign_in(command, api)
    assert len(api.tokens) == before + 1


def test_a_token_that_was_given_is_forgotten_but_not_revoked(command: Command, api: FakeApi) -> None:
    assert command("login", api.url, "--token", "alt_ann_secret", ALLOT_TOKEN=None).returncode == 0
    assert command("logout", ALLOT_TOKEN=None).returncode == 0
    assert "alt_ann_secret" in api.tokens


def test_a_broken_config_file_is_named(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    for content in ("{", "[]", '{"servers": []}'):
        path.write_text(content)
        result = command("ls", ALLOT_CONFIG=str(path))
        assert result.returncode == 2
        assert str(path) in result.stderr
