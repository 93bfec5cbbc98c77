"""Where the command line keeps who one is: a file that only its owner can read.

    {"current": "https://gpu.example.org",
     "servers": {"https://gpu.example.org": {"token": "alt_...", "username": "ann", "made_here": true,
                                             "insecure": false}}}

`ALLOT_URL` and `ALLOT_TOKEN` win over the file. A token kept for one server is never sent to another,
and none over plain http to another machine, unless one asked for that.
"""

from __future__ import annotations

import ipaddress
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict
from urllib.parse import urlsplit

from allot.errors import NoServer, WrongUse


@dataclass(frozen=True, slots=True)
class Account:
    """A server, who one is there, and where both were learnt (for messages)."""

    url: str
    token: str | None
    source: str
    #: Whether plain http to another machine was asked for.
    insecure: bool = False


class Server(TypedDict):
    """Who one is at a server. `made_here`: `allot login` made the token, so `allot` may revoke it."""

    token: str
    username: str
    made_here: bool
    insecure: bool


@dataclass(slots=True)
class Credentials:
    """The content of the file."""

    current: str | None = None
    servers: dict[str, Server] = field(default_factory=dict)


def config_path(environment: Mapping[str, str] = os.environ) -> Path:
    if chosen := environment.get("ALLOT_CONFIG"):
        return Path(chosen)
    home = environment.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "allot" / "config.json"


def normalised_url(text: str) -> str:
    """`localhost:8000` -> `http://localhost:8000`; anything else without a scheme gets https.

    A pasted address of a page of the dashboard, or of the API itself, is cut down to the server's.
    """
    text = text.strip()
    if "://" not in text:
        host = urlsplit(f"//{text}").hostname
        text = f"{'http' if _is_this_machine(host) else 'https'}://{text}"
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise WrongUse(
            f"{text!r} is not the address of a server. Expected something like http://localhost:8000."
        )
    if parts.username or parts.password:
        raise WrongUse("The address must not contain a user name or password; `allot login` asks for them.")
    return f"{parts.scheme}://{parts.netloc}"


def is_plain_http_to_elsewhere(url: str) -> bool:
    """Whether a password sent there can be read on the way."""
    parts = urlsplit(url)
    return parts.scheme == "http" and not _is_this_machine(parts.hostname)


def require_encryption(url: str, *, insecure: bool) -> None:
    """Raise WrongUse where a token would cross a network in the clear without `insecure`."""
    if is_plain_http_to_elsewhere(url) and not insecure:
        raise WrongUse(
            f"{url} is not encrypted: others on the way could read your token. Use https://, or, where you "
            "trust the network, sign in by `allot login --insecure` or set ALLOT_INSECURE=1."
        )


def _is_this_machine(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def load(path: Path) -> Credentials:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Credentials()
    except (OSError, ValueError) as error:
        raise WrongUse(
            f"Cannot read {path}: {error}. Remove it and sign in again with `allot login URL`."
        ) from None
    try:
        servers = {
            str(url): Server(
                token=str(entry["token"]),
                username=str(entry["username"]),
                made_here=bool(entry["made_here"]),
                insecure=bool(entry.get("insecure", False)),
            )
            for url, entry in content["servers"].items()
        }
        return Credentials(current=content["current"], servers=servers)
    except (AttributeError, KeyError, TypeError):
        raise WrongUse(
            f"{path} does not have the expected form. Remove it and sign in again with `allot login URL`."
        ) from None


def save(path: Path, credentials: Credentials) -> None:
    """Replace the file whole; it is never readable by others, not even for a moment."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    content = {"current": credentials.current, "servers": credentials.servers}
    # mkstemp creates the file with mode 0600.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".config-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=2)
            file.write("\n")
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def find_account(environment: Mapping[str, str] = os.environ) -> Account:
    """Which server to talk to and as which user. Raises NoServer when none is named."""
    path = config_path(environment)
    credentials = load(path)
    if named := environment.get("ALLOT_URL"):
        url, source = normalised_url(named), "the environment variable ALLOT_URL"
    elif credentials.current:
        url, source = credentials.current, str(path)
    else:
        raise NoServer(
            "Not signed in: no server is known yet. Sign in with `allot login URL`, "
            "or set ALLOT_URL and ALLOT_TOKEN."
        )
    kept = credentials.servers.get(url)
    insecure = environment.get("ALLOT_INSECURE", "") not in ("", "0") or bool(kept and kept["insecure"])
    token = environment.get("ALLOT_TOKEN") or (kept["token"] if kept else None)
    return Account(url=url, token=token, source=source, insecure=insecure)
