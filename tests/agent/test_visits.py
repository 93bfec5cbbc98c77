"""Guests of real attempts: in what they run, what they may not, and that nothing outlives the attempt."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nodeagent.folder import AttemptFolder, write_json
from nodeagent.frames import ERRORS, OUTPUT
from nodeagent.process.environment import stray_mark
from nodeagent.sessions.doors import Door, has_led_into
from nodeagent.sessions.serving import connected
from nodeagent.sessions.visit import Command, NoVisit, connect
from tests.agent.builders import make_part, python, shell
from tests.agent.runtime_node import RuntimeNode, is_alive
from tests.patience import until_async

STAYS = 'echo "me $$"; echo "$CUDA_VISIBLE_DEVICES" > here; export HIDDEN=1; sleep 600'


async def visit(
    node: RuntimeNode, *command: str, terminal: list[int] | None = None, rank: int = 0
) -> Command:
    request: dict[str, Any] = {"rank": rank, "command": list(command), "terminal": terminal, "type": "dumb"}
    return await Command.start(node.runtime.folder(1), request)


async def said(command: Command, kind: bytes = OUTPUT) -> str:
    """All that the command writes until it ends."""
    parts = []
    while data := await command.outputs[kind].read(4096):
        parts.append(data)
    return b"".join(parts).decode()


async def outcome(command: Command) -> tuple[int | None, str, str]:
    output, errors = asyncio.create_task(said(command)), asyncio.create_task(said(command, ERRORS))
    code = await command.exit_code()
    told = code, await output, await errors
    await command.close()
    return told


@pytest.fixture
async def busy(node: RuntimeNode) -> RuntimeNode:
    """A node on which an attempt runs that does little."""
    await node.start(make_part(shell(STAYS)))
    await node.line("me ")
    return node


FACTS = (
    'echo "$ALLOT_JOB $RANK $CUDA_VISIBLE_DEVICES $ALLOT_PROGRESS"; cat here; id -u;'
    " readlink /proc/self/ns/pid /proc/self/ns/mnt /proc/self/ns/ipc; cat /proc/self/cgroup;"
    " grep -E '^(NoNewPrivs|CapBnd|Seccomp):' /proc/self/status; ulimit -a; cat /proc/self/oom_score_adj"
)


async def test_a_guest_is_in_all_that_the_job_is_in(node: RuntimeNode) -> None:
    await node.start(make_part(shell(f"echo 0 > here; ({FACTS}) > facts; echo me $$; sleep 600", cpus=2.0)))
    await node.line("me ")
    code, facts, errors = await outcome(await visit(node, "sh", "-c", FACTS))
    assert (code, errors) == (0, "")
    assert facts == Path(node.runtime.folder(1).work(0), "facts").read_text()


async def test_its_input_output_and_exit_code_are_its_own(busy: RuntimeNode) -> None:
    command = await visit(busy, "sh", "-c", "cat; echo oh >&2; exit 7")
    await command.write(b"hello\n")
    command.end_input()
    assert await outcome(command) == (7, "hello\n", "oh\n")
    assert "hello" not in busy.text()
    # As a shell says it, and exits then.
    assert await outcome(await visit(busy, "no-such")) == (127, "", "no-such: command not found\n")
    assert await outcome(await visit(busy, "./no-such")) == (
        127,
        "",
        "./no-such: No such file or directory\n",
    )
    assert await outcome(await visit(busy, "/")) == (126, "", "/: Permission denied\n")
    with pytest.raises(NoVisit, match="Rank 3 does not run here"):
        await visit(busy, "true", rank=3)


async def test_a_terminal_is_one_and_knows_its_size(busy: RuntimeNode) -> None:
    script = "tty; stty size; read line; stty size; kill -INT $$"
    command = await visit(busy, "sh", "-c", script, terminal=[31, 99])
    told = b""
    while b"31 99\r\n" not in told:
        told += await command.outputs[OUTPUT].read(99)
    assert told.startswith(b"/dev/pts/")
    command.resize(40, 120)
    await command.write(b"go\n")
    assert await command.exit_code() == 128 + signal.SIGINT
    assert await said(command) == "go\r\n40 120\r\n"
    await command.close()
    # Ctrl-C reaches what runs in it.
    command = await visit(busy, "sleep", "600", terminal=[24, 80])
    await command.write(b"\x03")
    assert await command.exit_code() == 128 + signal.SIGINT
    await command.close()


async def test_a_guest_does_not_keep_an_attempt_alive_nor_end_it(node: RuntimeNode) -> None:
    await node.start(make_part(shell("echo me; while ! test -e go; do sleep 0.02; done")))
    await node.line("me")
    gone = await visit(node, "sh", "-c", "exit 3")
    assert await gone.exit_code() == 3
    await gone.close()
    stays = await visit(node, "sh", "-c", "trap '' HUP TERM; echo up; setsid sleep 600 & sleep 600")
    assert await stays.outputs[OUTPUT].read(10) == b"up\n"
    Path(node.runtime.folder(1).work(0), "go").touch()
    assert (await node.end_of()).exit_code == 0
    assert node.alive() == []
    assert await stays.exit_code() == 128 + signal.SIGKILL
    await stays.close()


async def test_who_leaves_takes_the_command_along(busy: RuntimeNode) -> None:
    command = await visit(busy, "sh", "-c", "sleep 61; true", terminal=[24, 80])
    (guest,) = await until_async(lambda: [pid for pid in busy.alive() if b"sleep\x0061" in _words(pid)])
    await command.close()
    await until_async(lambda: not is_alive(guest))
    assert busy.outcomes == {}


async def test_a_dead_shim_takes_guests_along(busy: RuntimeNode) -> None:
    command = await visit(busy, "sh", "-c", "echo up; sleep 600")
    assert await command.outputs[OUTPUT].read(10) == b"up\n"
    os.kill(busy.status()["pid"], signal.SIGKILL)
    assert await command.exit_code() == 128 + signal.SIGKILL
    await command.close()
    await busy.end_of()
    with pytest.raises(NoVisit, match="has ended"):
        await visit(busy, "true")


LISTENS = """
import os, socket
door = socket.create_server(("127.0.0.1", int(os.environ["ALLOT_PORT_NOTEBOOK"])))
print("listens", os.environ["ALLOT_PORT_NOTEBOOK"], os.environ["ALLOT_PATH_NOTEBOOK"])
line, _ = door.accept(); line.sendall(line.recv(99).upper())
"""


async def test_a_port_is_the_jobs_or_nobodys(node: RuntimeNode) -> None:
    await node.start(make_part(python(LISTENS), ports={"notebook": 0}))
    number, path = (await node.line("listens ")).split()
    assert path == "/job/101/notebook/"
    folder = node.runtime.folder(1)
    stranger = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    async with stranger:
        assert await connected(stranger.sockets[0].getsockname()[1], folder, 0) is None
    connection = await connected(int(number), folder, 0)
    assert connection is not None
    await connection.write(b"hello")
    assert await connection.outputs[OUTPUT].read(99) == b"HELLO"
    await connection.close()
    await node.end_of()
    assert await connected(int(number), folder, 0) is None


ANSWERS = """
import socket
family = socket.AF_INET6 if ":" in "{host}" else socket.AF_INET
door = socket.socket(family)
if family == socket.AF_INET6:
    door.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, {is_alone})
door.bind(("{host}", {port})); door.listen(); print("listens", flush=True)
line, _ = door.accept(); door.close(); line.sendall(b"the job"); line.recv(1)
"""


@pytest.mark.parametrize(
    ("host", "is_alone", "others"),
    [
        ("127.0.0.2", False, ["127.0.0.1"]),
        ("0.0.0.0", False, ["::1"]),
        ("::", True, ["127.0.0.1"]),
        ("::", True, ["0.0.0.0"]),
        ("::", False, []),
        ("::ffff:127.0.0.2", False, ["127.0.0.1", "::1"]),
    ],
)
async def test_a_visitor_reaches_the_job_and_no_program_that_listens_beside_it(
    node: RuntimeNode, host: str, is_alone: bool, others: list[str]
) -> None:
    """The job's program closes its door behind the visitor, so that only the connection shows whose it is."""
    try:
        port = free_port("::1")
    except OSError:
        pytest.skip("needs IPv6")
    strangers = [await asyncio.start_server(lambda *_: None, other, port) for other in others]
    await node.start(make_part(python(ANSWERS.format(host=host, is_alone=is_alone, port=port))))
    await node.line("listens")
    connection = await connected(port, node.runtime.folder(1), 0)
    assert connection is not None
    assert await connection.outputs[OUTPUT].read(99) == b"the job"
    await connection.close()
    for stranger in strangers:
        stranger.close()


async def test_a_program_that_takes_the_jobs_place_meanwhile_is_found_out(busy: RuntimeNode) -> None:
    folder = busy.runtime.folder(1)
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", 0) as stranger:
        port = stranger.sockets[0].getsockname()[1]
        connection = await connect("127.0.0.1", port)
        assert not has_led_into(Door("127.0.0.1", port, frozenset({"1"})), connection.local, folder, 0)
        await connection.close()


async def test_a_containers_process_is_known_by_its_engine_not_by_its_environment(tmp_path: Path) -> None:
    folder = AttemptFolder(str(tmp_path))
    port = free_port("127.0.0.1")
    name, _, value = stray_mark(folder, 0).partition("=")
    script = ANSWERS.format(host="127.0.0.1", is_alone=False, port=port)
    process = subprocess.Popen(
        [sys.executable, "-c", script], env={name: value}, stdout=subprocess.PIPE, text=True
    )
    engine = tmp_path / "engine"
    write_json(folder.spec, {"replicas": [{"rank": 0, "container": {"exec": [str(engine), "exec", "c-1"]}}]})
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "listens\n"
        for pid, is_there in ((0, False), (process.pid, True)):
            engine.write_text(f'#!/bin/sh\n[ "$1 $4" = "inspect c-1" ] && echo {pid}\n')
            engine.chmod(0o700)
            connection = await connected(port, folder, 0)
            assert (connection is not None) == is_there
        assert connection is not None
        await connection.close()
    finally:
        process.kill()
        process.communicate()


def free_port(host: str) -> int:
    with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as door:
        return int(door.getsockname()[1])


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
