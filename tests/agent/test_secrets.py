"""Secrets of jobs on their node: what the processes get, what is masked, and what lies on a disk."""

from __future__ import annotations

import hashlib
import os
import random
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent.folder import AttemptFolder, read_json
from nodeagent.messages import DesiredPart, HandedSecret, SecretsAnswer
from nodeagent.process.shim_process import memory_folder
from nodeagent.shim.secrets import MASK, Mask
from tests.agent.builders import make_part, shell
from tests.agent.fake_server import FakeServer
from tests.agent.runtime_node import RuntimeNode
from tests.agent.test_agent import NODE, StartAgent, server, start_agent
from tests.agent.test_batch import BatchNodeOfTests
from tests.patience import until_async

__all__ = ["server", "start_agent"]

TOKEN, KEY = "hf_q8Zk3vPd71LmXw", "first line of the key\nsecond line of the key\n"
GIVEN = SecretsAnswer(secrets=(HandedSecret(value=TOKEN, env="HF_TOKEN"), HandedSecret(value=KEY, file="s3")))
#: It shows what it was given, in ways that no mask knows and in one that it does.
SHOWS = """
printf %s "$HF_TOKEN" | sha256sum; sha256sum < $ALLOT_SECRETS_DIR/s3; stat -c %a $ALLOT_SECRETS_DIR/s3
echo x > $ALLOT_SECRETS_DIR/other || echo read-only
echo "the token is $HF_TOKEN, and the key:"; cat $ALLOT_SECRETS_DIR/s3
"""


def desired(script: str, **changes: object) -> DesiredPart:
    return replace(make_part(shell(script)), has_secrets=True, **changes)


def with_secret(folder: Path) -> list[str]:
    """Files below a folder that hold any of the plain values."""
    words = [TOKEN.encode(), *(line.encode() for line in KEY.splitlines())]
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path) for path in paths if any(word in path.read_bytes() for word in words)]


def laid_out(folder: AttemptFolder) -> Path:
    """Where the attempt's secrets are while it runs: on no disk."""
    path = Path(read_json(folder.spec)["secrets"]["folder"])
    assert str(path.parent) == memory_folder()
    return path


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# Masks


@pytest.mark.parametrize("seed", range(20))
def test_a_secret_is_masked_wherever_output_is_cut(seed: int) -> None:
    chance = random.Random(seed)
    words = ["abcabcabd", "abcabcabdXYZ", "bdXYZabcab", TOKEN]
    text = "".join(
        chance.choice([*words, "abc", "ab", "hf_", "\n", "ordinary "]) for _ in range(200)
    ).encode()
    mask, shown, at = Mask(words), b"", 0
    while at < len(text):
        size = chance.randint(1, 9)
        shown += mask.through(text[at : at + size])
        at += size
    shown += mask.rest()
    assert not [word for word in words if word.encode() in shown]
    assert shown == Mask(words).through(text + b"\0").removesuffix(b"\0")
    assert MASK in shown


def test_only_what_may_be_a_secret_is_held_back() -> None:
    mask = Mask([TOKEN])
    assert mask.through(b"step 1\nloss 0.5\nhf") == b"step 1\nloss 0.5\n"
    assert mask.through(b"5 is a name\n") == b"hf5 is a name\n"
    assert mask.through(TOKEN[:9].encode()) == b""
    assert mask.rest() == TOKEN[:9].encode()


def test_short_values_and_empty_lines_are_not_masked() -> None:
    assert Mask(["yes", "a\n\nb\n"]).through(b"yes a b") == b"yes a b"


def test_a_text_is_masked_line_by_line_also_as_json_writes_it() -> None:
    mask = Mask(['{"key": "-----BEGIN KEY-----\\nMIIEvAIBADAN\\n-----END KEY-----\\n"}'])
    assert mask.through(b"MIIEvAIBADAN\n") + mask.rest() == b"***\n"


def test_a_mask_of_a_long_text_keeps_up_with_output() -> None:
    mask = Mask(["ab" * 8_000, *("\n".join(f"line {line} of it" for line in range(500)) for _ in range(5))])
    shown = b"".join(mask.through(b"ab" * 20_000 + b"c\n") for _ in range(20))
    assert b"ab" * 128 not in shown


# A node


@pytest.fixture
async def new_node(tmp_path: Path) -> AsyncIterator[Callable[..., RuntimeNode]]:
    nodes: list[RuntimeNode] = []

    def make(**changes: object) -> RuntimeNode:
        nodes.append(RuntimeNode(tmp_path, **changes))
        return nodes[-1]

    yield make
    for node in nodes:
        await node.clean_up()


@pytest.fixture
def node(new_node: Callable[..., RuntimeNode]) -> RuntimeNode:
    return new_node()


@pytest.mark.parametrize("changes", [{}, {"sandbox": "off", "users": None}], ids=["sandboxed", "as its user"])
async def test_a_job_gets_its_secrets_and_nothing_of_them_is_on_a_disk(
    tmp_path: Path, new_node: Callable[..., RuntimeNode], changes: dict[str, Any]
) -> None:
    node = new_node(**changes)
    assert await node.prepare(desired(""))
    node.runtime.start(desired(f"{SHOWS}\necho up; exec sleep 600"), GIVEN)
    await node.line("up")
    lines = node.text().splitlines()
    assert [line.split()[0] for line in lines[:3]] == [digest(TOKEN), digest(KEY), "400"]
    is_root = os.geteuid() == 0 and "users" in changes
    assert ("read-only" in lines) != is_root, "no mode stops root"
    assert lines[-4:] == ["the token is ***, and the key:", "***", "***", "up"]
    hidden = laid_out(node.runtime.folder(1))
    assert hidden.exists()
    assert with_secret(tmp_path) == []
    node.runtime.stop(1, 0.0)
    await node.end_of()
    assert not hidden.exists()
    assert with_secret(tmp_path) == []


async def test_what_a_failure_tells_is_masked(node: RuntimeNode) -> None:
    assert await node.prepare(desired(""))
    node.runtime.start(desired('echo "ValueError: bad token $HF_TOKEN"; exit 3'), GIVEN)
    outcome = await node.end_of()
    assert outcome.message == "ValueError: bad token ***"
    assert TOKEN not in outcome.last_lines


async def test_files_of_a_shim_that_was_killed_are_removed(tmp_path: Path, node: RuntimeNode) -> None:
    for end in ("by the agent", "by the next agent on the machine"):
        attempt = 1 if end == "by the agent" else 2
        part = replace(desired("echo up; exec sleep 600"), attempt=attempt)
        assert await node.prepare(part)
        node.runtime.start(part, GIVEN)
        await node.line("up", attempt)
        hidden = laid_out(node.runtime.folder(attempt))
        assert (hidden / "files" / "s3").exists()
        if end == "by the agent":
            node.runtime.kill(attempt)
            await node.end_of(attempt)
        else:
            pid = node.runtime.shims[attempt].pid
            node.runtime.close()
            os.kill(pid, signal.SIGKILL)
            await until_async(lambda: not node.alive(2))
            RuntimeNode(tmp_path / "another").runtime.close()
        assert not hidden.exists()


async def test_an_attempt_whose_secret_is_gone_does_not_start(node: RuntimeNode) -> None:
    assert await node.prepare(desired(""))
    gone = "It was not started, because the secret hf-token of tenant vision was deleted."
    node.runtime.start(desired("echo up"), SecretsAnswer(problem=gone))
    outcome = await node.end_of()
    assert (outcome.category, outcome.message, node.text()) == ("start_failed", gone, "")


# A remote runner


@pytest.fixture
async def remote_runners(tmp_path: Path) -> AsyncIterator[BatchNodeOfTests]:
    node = BatchNodeOfTests(tmp_path)
    yield node
    await node.close()


async def test_a_remote_runner_gets_them_sealed_over_the_shared_folder(
    tmp_path: Path, remote_runners: BatchNodeOfTests
) -> None:
    node = remote_runners
    part = desired(f"{SHOWS}\necho up; exec sleep 600")
    await node.start(part, GIVEN)
    log = Path(node.runtime.folder(1).log(0))
    await until_async(lambda: log.exists() and "up\n" in log.read_text())
    lines = log.read_text().splitlines()
    assert [line.split()[0] for line in lines[:3]] == [digest(TOKEN), digest(KEY), "400"]
    assert "the token is ***, and the key:" in lines
    hidden = laid_out(node.runtime.folder(1))
    assert hidden.exists()
    assert with_secret(tmp_path) == []
    node.runtime.stop(1, 0.0)
    await node.end_of(1)
    assert not hidden.exists()
    assert with_secret(tmp_path) == []


# An agent and a server


async def test_the_agent_asks_when_it_starts_the_attempt(server: FakeServer, start_agent: StartAgent) -> None:
    agent = await start_agent()
    server.secrets[4] = GIVEN
    server.is_without_secrets = True
    await server.want(NODE, replace(desired(SHOWS), attempt=4))
    await server.until(lambda: server.secrets_asked == [4])
    server.is_without_secrets = False
    part = await server.until_state(NODE, 4, "exited")
    assert (part.exit_code, part.category) == (0, "")
    await server.until(lambda: digest(TOKEN) in server.text(NODE, 4))
    assert TOKEN not in server.text(NODE, 4)
    assert TOKEN not in agent.log.read_text()


async def test_an_attempt_that_is_stopped_before_it_has_them_ends(
    server: FakeServer, start_agent: StartAgent
) -> None:
    await start_agent()
    server.is_without_secrets = True
    part = replace(desired("echo up"), attempt=4)
    await server.want(NODE, part)
    await server.until(lambda: server.secrets_asked)
    await server.want(NODE, replace(part, stop=True))
    ended = await server.until_state(NODE, 4, "exited")
    assert (ended.category, server.text(NODE, 4)) == ("stopped", "")


async def test_an_attempt_that_the_server_does_not_know_is_told_so(
    server: FakeServer, start_agent: StartAgent
) -> None:
    await start_agent()
    await server.want(NODE, replace(desired("echo up"), attempt=4))
    ended = await server.until_state(NODE, 4, "exited")
    assert ended.category == "start_failed"
    assert ended.message.startswith("The server did not hand out its secrets: 400")
