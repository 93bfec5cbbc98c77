"""`allot exec` and `allot port-forward` as programs of their own, against a real server, agent and job."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection

from controlplane.embedded import ports
from nodeagent.folder import AttemptFolder
from scheduler.models import Session
from tests.agent.builders import PLATFORM
from tests.patience import PATIENCE_SECONDS, until_async
from tests.scheduler.builders import make_job, make_user
from tests.sessions.conftest import Site


class Allot:
    """The command, signed in by its environment."""

    def __init__(self, folder: Path, url: str, token: str) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("ALLOT_")}
        own = {"ALLOT_URL": url, "ALLOT_TOKEN": token, "ALLOT_CONFIG": str(folder / "none.json")}
        self.environment = {**inherited, **own, "PYTHONPATH": str(PLATFORM), "NO_PROXY": "*"}

    async def start(self, *arguments: str, **streams: Any) -> Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "allot", *arguments),
            **{"stdin": DEVNULL, "stdout": PIPE, "stderr": PIPE, **streams},
            env=self.environment,
            # Tests that run in the background of a shell would have their children ignore it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    async def __call__(self, *arguments: str, stdin: str = "") -> tuple[int | None, str, str]:
        """Exit code, output and errors."""
        process = await self.start(*arguments, stdin=PIPE)
        async with asyncio.timeout(PATIENCE_SECONDS):
            output, errors = await process.communicate(stdin.encode())
        return process.returncode, output.decode(), errors.decode()


class Terminal:
    """What a person sits at; the program's end of it is `theirs`."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        os.set_blocking(self.ours, False)
        self.resize(33, 101)
        self.shown = b""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def shows(self, text: bytes) -> None:
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self.ours, news.set)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while text not in self.shown:
                    await news.wait()
                    news.clear()
                    # The event may tell of what the turn before has read already.
                    with contextlib.suppress(BlockingIOError):
                        self.shown += os.read(self.ours, 4096)
        finally:
            loop.remove_reader(self.ours)


async def exit_of(process: Process) -> int:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await process.wait()


async def test_exec_is_like_a_command_of_this_machine(site: Site, tmp_path: Path) -> None:
    await sync_to_async(site.set_up)(tmp_path, ["sleep", "300"])
    await site.start()
    stranger = await sync_to_async(make_user)()
    waiting = await sync_to_async(make_job)(tenant=site.tenant, submitted_by=site.ada)
    allot = Allot(tmp_path, site.url, await site.token(site.ada))
    foreign = Allot(tmp_path, site.url, await site.token(stranger))
    job = str(site.job.id)

    piped, missing, refused, early = await asyncio.gather(
        allot("exec", job, "--", "sh", "-c", "cat; echo oh >&2; exit 7", stdin="hello\n"),
        allot("exec", job, "--", "no-such"),
        foreign("exec", job, "--", "true"),
        allot("exec", str(waiting.id), "--", "true"),
    )
    assert piped == (7, "hello\n", "oh\n")
    assert missing == (127, "", "no-such: command not found\n")
    assert refused[:2] == (3, "")
    assert f"There is no job {job}, or it belongs to a tenant" in refused[2]
    assert early == (1, "", f"allot: Job {waiting.id} does not run now: its state is queued.\n")

    # Interrupted where there is no terminal, it ends here, and there with it.
    process = await allot.start("exec", job, "--", "sh", "-c", "echo up; exec sleep 61")
    assert process.stdout is not None
    assert await process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGINT)
    assert await exit_of(process) == 130
    await site.until(lambda: not Session.objects.filter(ended_at=None).exists())
    await site.until(lambda: len(site.agent.processes(site.attempt.id)) == 1)

    # At a terminal the other end has one too, of the same size, to which the keys go.
    terminal = Terminal()
    before = termios.tcgetattr(terminal.theirs)
    script = "trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done"
    theirs = {"stdin": terminal.theirs, "stdout": terminal.theirs, "stderr": terminal.theirs}
    process = await allot.start("exec", job, "--", "sh", "-c", script, **theirs)
    await terminal.shows(b"33 101\r\n")
    terminal.resize(44, 132)
    process.send_signal(signal.SIGWINCH)
    await terminal.shows(b"44 132\r\n")
    os.write(terminal.ours, b"\x03")
    assert await exit_of(process) == 130
    assert termios.tcgetattr(terminal.theirs) == before


#: Listens while there is a file `open`, and says so by a file. Answers in capitals at the end of the input.
PROGRAM = """
import asyncio, os, pathlib
async def answer(reader, writer):
    writer.write(b"you said ")
    writer.write((await reader.read()).upper())
    await writer.drain()
    writer.close()
async def main():
    is_open, listens = pathlib.Path("open").exists, pathlib.Path("listens")
    while True:
        while not is_open(): await asyncio.sleep(0.01)
        server = await asyncio.start_server(answer, "127.0.0.1", int(os.environ["ALLOT_PORT_ECHO"]))
        listens.touch()
        while is_open(): await asyncio.sleep(0.01)
        server.close()
        listens.unlink()
asyncio.run(main())
"""


@asynccontextmanager
async def another_server() -> AsyncIterator[str]:
    """A second web process for the same database and Redis; yields its address."""
    port = ports.pick()
    database = os.environ["DATABASE_URL"].rpartition("/")[0] + "/" + connection.settings_dict["NAME"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "controlplane.uvicorn_server", "--port", str(port)),
        env={**os.environ, "DATABASE_URL": database, "PYTHONPATH": f"{PLATFORM}:{PLATFORM.parent}"},
    )
    try:

        async def listens() -> bool:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                return False
            writer.close()
            return True

        await until_async(listens)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


async def answers(port: int, *words: bytes) -> list[bytes]:
    """What is answered to each word, all of them on connections that are open at once."""
    lines = [await asyncio.open_connection("127.0.0.1", port) for _ in words]
    for (_, writer), word in zip(lines, words, strict=True):
        writer.write(word)
        writer.write_eof()
    async with asyncio.timeout(PATIENCE_SECONDS):
        told = [await reader.read() for reader, _ in lines]
    for _, writer in lines:
        writer.close()
    return told


async def test_a_user_at_one_web_process_reaches_a_job_whose_agent_is_at_another(
    site: Site, tmp_path: Path
) -> None:
    await sync_to_async(site.set_up)(tmp_path, [sys.executable, "-c", PROGRAM], "echo")
    async with another_server() as url:
        await site.start()
        allot = Allot(tmp_path, url, await site.token(site.ada))
        job = str(site.job.id)
        work = Path(AttemptFolder(str(site.agent.attempts / str(site.attempt.id))).work(0))
        switch, listens = work / "open", work / "listens"

        code, output, _ = await allot("exec", job, "--", "sh", "-c", "head -c 3000000 /dev/zero; exit 7")
        assert (code, len(output)) == (7, 3_000_000)

        forwarding = await allot.start("port-forward", job, "echo")
        errors = forwarding.stderr
        assert errors is not None
        ready = re.fullmatch(rb"127.0.0.1:(\d+) leads to port echo .*\n", await errors.readline())
        assert ready, ready
        port = int(ready[1])
        closed = b"allot: No process of the job listens at port echo of rank 0 yet.\n"
        assert await answers(port, b"early", b"birds") == [b"", b""]
        assert await errors.readline() == closed

        switch.touch()
        await site.until(listens.exists)
        large = b"two" * 100_000
        assert await answers(port, b"one", large) == [b"you said ONE", b"you said " + large.upper()]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.readexactly(9) == b"you said "

        switch.unlink()
        await site.until(lambda: not listens.exists())
        assert await answers(port, b"late", b"later") == [b"", b""]
        assert await errors.readline() == closed
        # Said once, and not of every connection. One that goes on does not keep the program from ending.
        forwarding.send_signal(signal.SIGINT)
        assert await exit_of(forwarding) == 130
        assert await errors.read() == b""
        writer.close()
