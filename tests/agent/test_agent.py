"""A real agent process against a small real server: what gets lost, who dies, and what must still hold."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent.client import Client
from nodeagent.clock import boot_clock_seconds
from nodeagent.messages import INPUT_PORT, PROTOCOL, Finding, GpuPart, PartReport, Report
from nodeagent.shim.freezing import FREEZE_SECONDS
from nodeagent.shim.main import KILL_MARGIN_SECONDS
from tests.agent.builders import AgentProcess, make_part, make_replica, python, shell
from tests.agent.fake_server import FakeServer
from tests.agent.moved_clock import MovedClock
from tests.agent.runtime_node import is_alive, settled
from tests.patience import until_async

NODE = "node-1"
StartAgent = Callable[..., Awaitable[AgentProcess]]


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with FakeServer() as server:
        yield server


@pytest.fixture
async def start_agent(server: FakeServer, tmp_path: Path) -> AsyncIterator[StartAgent]:
    """Start agents, and end them with all they run when the test is over."""
    agents: list[AgentProcess] = []

    async def start(node: str = NODE, *arguments: str, **changes: Any) -> AgentProcess:
        agent = AgentProcess(tmp_path, server.url, node, **changes)
        agents.append(agent)
        await agent.start(*arguments)
        await server.until(lambda: node in server.sockets and node in server.inventories)
        return agent

    yield start
    for agent in agents:
        await agent.end(signal.SIGKILL)
        await agent.clean_up()


async def test_a_job_runs_and_all_of_it_is_told(server: FakeServer, start_agent: StartAgent) -> None:
    await start_agent()
    inventory = server.inventories[NODE]
    assert (inventory.gpu_model, len(inventory.gpus), inventory.gpus[3].socket) == ("V100", 4, 1)
    script = 'echo "{\\"step\\": 3, \\"samples\\": 96, \\"loss\\": 0.5}" >> "$ALLOT_PROGRESS"; echo trained'
    await server.want(NODE, make_part(shell(script), attempt=4))
    part = await server.until_state(NODE, 4, "exited")
    assert (part.exit_code, part.category) == (0, "")
    await server.until(lambda: server.text(NODE, 4) == "trained\n")
    lines = {line.sequence: line for line in server.progress(NODE, 4)}
    assert [(line.step, line.samples, line.values) for line in lines.values()] == [(3, 96.0, {"loss": 0.5})]
    await server.want(NODE)
    await server.until(lambda: server.reports[NODE][-1].parts == ())


@pytest.mark.clock
async def test_the_last_output_is_there_before_the_end_is_told(
    server: FakeServer, start_agent: StartAgent
) -> None:
    """If it goes within half a second, as it does where nothing else has to be done."""
    await start_agent()
    await server.want(NODE, make_part(shell("echo trained")))
    await server.until_state(NODE, 1, "exited")
    assert server.text(NODE, 1) == "trained\n"


async def test_how_a_part_of_a_gpu_is_held_is_told_also_after_the_agent_was_killed(
    server: FakeServer, start_agent: StartAgent
) -> None:
    agent = await start_agent()

    def say(attempt: int) -> str:
        part = server.part(NODE, attempt)
        return "" if part is None else part.enforcement

    part = GpuPart(request=500, limit=1000)
    shared = [make_part(shell("sleep 600", gpu_part=part), attempt=attempt) for attempt in (1, 2)]
    whole = make_part(make_replica("sleep", "600", gpu_indexes=(1,)), attempt=3)
    await server.want(NODE, *shared, whole)
    await server.until(lambda: say(1) == say(2) == "enforced")
    await server.until_state(NODE, 3, "running")
    assert say(3) == ""
    await agent.end(signal.SIGKILL)
    del server.reports[NODE]
    await agent.start()
    await server.until(lambda: say(1) == say(2) == "enforced")


async def test_where_replicas_wait_for_input_workers_is_told_also_after_the_agent_was_killed(
    server: FakeServer, start_agent: StartAgent
) -> None:
    agent = await start_agent()

    def told(attempt: int) -> dict[str, int]:
        part = server.part(NODE, attempt)
        return {} if part is None else part.input_ports

    script = 'echo "$RANK waits at $ALLOT_PORT_INPUT_WORKERS"; exec sleep 600'
    both = [shell(script, rank=0, gpu_indexes=(0,)), shell(script, rank=1, gpu_indexes=(1,))]
    has_workers = make_part(*both, attempt=1, world_size=2, ports={INPUT_PORT: 0})
    other = make_part(shell("exec sleep 600", gpu_indexes=(2,)), attempt=2, ports={"notebook": 0})
    await server.want(NODE, has_workers, other)
    await server.until(lambda: len(told(1)) == 2)
    ports = told(1)
    for rank in (0, 1):
        await server.until(
            lambda rank=rank: server.text(NODE, 1, rank) == f"{rank} waits at {ports[str(rank)]}\n"
        )
    assert len(set(ports.values())) == 2
    await server.until_state(NODE, 2, "running")
    assert told(2) == {}
    await agent.end(signal.SIGKILL)
    del server.reports[NODE]
    await agent.start()
    await server.until(lambda: told(1) == ports)


async def test_a_gang_starts_on_all_nodes_or_on_none(server: FakeServer, start_agent: StartAgent) -> None:
    await asyncio.gather(start_agent("node-1"), start_agent("node-2"))
    script = 'echo "$RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT"'
    parts = {
        node: make_part(shell(script, rank=rank), world_size=2, go=False, has_rank_zero=rank == 0)
        for rank, node in enumerate(["node-1", "node-2"])
    }
    for node, part in parts.items():
        await server.want(node, part)
    first = await server.until_state("node-1", 1, "ready")
    second = await server.until_state("node-2", 1, "ready")
    assert second.master_port is None
    assert first.master_port is not None
    # They go on saying so and nothing has started.
    reports = len(server.reports["node-2"])
    await server.until(lambda: len(server.reports["node-2"]) > reports)
    assert server.text("node-1", 1) == server.text("node-2", 1) == ""
    for node, part in parts.items():
        going = replace(part, go=True, master_address="127.0.0.1", master_port=first.master_port)
        await server.want(node, going)
    await server.until_state("node-1", 1, "exited")
    await server.until_state("node-2", 1, "exited")
    said = [f"{rank} of 2 at 127.0.0.1:{first.master_port}\n" for rank in (0, 1)]
    await server.until(lambda: [server.text("node-1", 1, 0), server.text("node-2", 1, 1)] == said)


async def test_it_is_woken_and_need_not_be_asked(server: FakeServer, start_agent: StartAgent) -> None:
    server.report_seconds = 1000.0  # No test waits for so long.
    await start_agent()
    await server.want(NODE, make_part())
    await server.until_state(NODE, 1, "exited")


async def test_without_a_wake_it_asks_by_itself(server: FakeServer, start_agent: StartAgent) -> None:
    server.report_seconds = 0.2
    await start_agent()
    await server.want(NODE, make_part(), wake=False)
    await server.until_state(NODE, 1, "exited")


#: Until the test lets it end.
WAITS = 'until [ -e "$ALLOT_CHECKPOINT_DIR/end" ]; do sleep 0.01; done'
TALKS_IN_TURNS = """
import os, time
for turn in ("first", "second", "third"):
    while not os.path.exists(os.environ["ALLOT_CHECKPOINT_DIR"] + "/" + turn): time.sleep(0.01)
    for n in range(3000): print(turn, n, "漢字 é 🙂")
"""


@pytest.mark.usefixtures("clock")
async def test_output_is_stored_once_whatever_is_lost(server: FakeServer, start_agent: StartAgent) -> None:
    agent = await start_agent()
    turns = Path(agent.configuration.checkpoint_folder) / "101"
    said = {
        turn: "".join(f"{turn} {n} 漢字 é 🙂\n" for n in range(3000)) for turn in ("first", "second", "third")
    }
    await server.want(NODE, make_part(python(TALKS_IN_TURNS)))
    await server.until_state(NODE, 1, "running")
    (turns / "first").touch()
    await server.until(lambda: server.text(NODE, 1) == said["first"])
    server.answers_to_lose = 4
    (turns / "second").touch()
    await server.until(lambda: server.text(NODE, 1) == said["first"] + said["second"])
    await until_async(lambda: not agent.output_under_way(1))
    # Stored, the answer lost, and then the one who would send it again dies.
    server.answers_to_lose = 1000
    (turns / "third").touch()
    await server.until(lambda: "third" in server.text(NODE, 1))
    await agent.end(signal.SIGKILL)
    server.answers_to_lose = 0
    await agent.start()
    await server.until_state(NODE, 1, "exited")
    await server.until(lambda: server.text(NODE, 1) == "".join(said.values()))


@pytest.mark.usefixtures("clock")
async def test_a_lost_answer_starts_nothing_twice(server: FakeServer, start_agent: StartAgent) -> None:
    agent = await start_agent()
    server.answers_to_lose = 2
    await server.want(NODE, make_part(shell(f"echo once; {WAITS}")))
    await server.until_state(NODE, 1, "running")
    server.answers_to_lose = 2
    agent.let_end(101)
    await server.until_state(NODE, 1, "exited")
    await server.want(NODE, wake=False)
    await server.until(lambda: server.reports[NODE][-1].parts == ())
    assert server.text(NODE, 1) == "once\n"


async def cut_off(server: FakeServer, agent: AgentProcess) -> float:
    """Have the server be away; return when the lease ends that the agent then has for good."""
    server.is_down = True
    await server.until_asked_again()
    return agent.lease_deadline()


async def test_a_node_cut_off_stops_its_jobs_in_time(
    clock: MovedClock, server: FakeServer, start_agent: StartAgent
) -> None:
    agent = await start_agent(freeze_seconds=0.0)
    part = make_part(python("import time\nprint('on')\nwhile True: time.sleep(600)"))
    await server.want(NODE, part)
    await server.until_state(NODE, 1, "running")
    (pid,) = agent.processes(1)
    deadline = await cut_off(server, agent)
    clock.stop_at(deadline - KILL_MARGIN_SECONDS - part.grace_seconds - 0.1)
    await server.until_asked_again()
    assert is_alive(pid)
    clock.stop_at(deadline - KILL_MARGIN_SECONDS)
    await until_async(lambda: not is_alive(pid))
    await until_async(lambda: agent.is_over(1))
    assert boot_clock_seconds() < deadline
    server.is_down = False
    told = await server.until_state(NODE, 1, "exited")
    assert told.category == "lost"


COUNTS = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"asked\\n"), os._exit(0)))
while True: time.sleep(0.01); os.write(1, f"{time.time()}\\n".encode())
"""


async def stood_still(clock: MovedClock, server: FakeServer, agent: AgentProcess) -> int:
    """Have a job that counts outlive its lease while the server is away; return its process."""
    await server.want(NODE, make_part(python(COUNTS)))
    await server.until_state(NODE, 1, "running")
    (pid,) = agent.processes(1)
    deadline = await cut_off(server, agent)
    clock.stop_at(deadline - KILL_MARGIN_SECONDS - FREEZE_SECONDS / 2)
    await until_async(lambda: agent.is_frozen(1))
    # A lease later the agent has looked, and left it alone.
    clock.stop_at(deadline + server.lease_seconds)
    await server.until_asked_again()
    assert agent.processes(1) == [pid]
    return pid


async def test_a_server_away_for_longer_than_a_lease_costs_no_job(
    clock: MovedClock, server: FakeServer, start_agent: StartAgent
) -> None:
    agent = await start_agent()
    pid = await stood_still(clock, server, agent)
    lines = await settled(lambda: agent.lines(1))
    # It may come back under another agent.
    await agent.end(signal.SIGKILL)
    await agent.start()
    await server.until_asked_again()
    assert await settled(lambda: agent.lines(1)) == lines
    server.is_down = False
    await until_async(lambda: len(agent.lines(1)) > len(lines) + 10)
    part = server.part(NODE, 1)
    assert part is not None
    assert (part.state, agent.processes(1)) == ("running", [pid])
    assert len(list(agent.attempts.iterdir())) == 1


async def test_what_the_server_gave_up_meanwhile_does_not_run_again(
    clock: MovedClock, server: FakeServer, start_agent: StartAgent
) -> None:
    agent = await start_agent()
    pid = await stood_still(clock, server, agent)
    lines = await settled(lambda: agent.lines(1))
    # Its successor has the same GPU.
    await server.want(NODE, make_part(shell("exec sleep 600"), attempt=2), wake=False)
    server.is_down = False
    await server.until_state(NODE, 2, "running")
    assert not is_alive(pid)
    await server.until(lambda: server.part(NODE, 1) is None)
    await server.until(lambda: server.text(NODE, 1).splitlines() == lines)


async def test_a_killed_agent_finds_its_jobs_again(server: FakeServer, start_agent: StartAgent) -> None:
    agent = await start_agent()
    script = "import time\nprint('begin')\nwhile True: time.sleep(600)"
    await server.want(NODE, make_part(python(script)), make_part(shell(f"{WAITS}; exit 5"), attempt=2))
    await server.until_state(NODE, 1, "running")
    await server.until_state(NODE, 2, "running")
    (pid,) = agent.processes(1)
    await agent.end(signal.SIGKILL)
    agent.let_end(102)
    await until_async(lambda: agent.is_over(2))
    boot = server.reports[NODE][-1].boot
    await agent.start()
    await server.until(lambda: server.reports[NODE][-1].boot != boot)
    ended = await server.until_state(NODE, 2, "exited")
    assert ended.exit_code == 5
    running = await server.until_state(NODE, 1, "running")
    assert running.started_at is not None
    assert agent.processes(1) == [pid]
    await server.until(lambda: server.text(NODE, 1) == "begin\n")
    await server.want(NODE)
    await until_async(lambda: not is_alive(pid))
    await server.until(lambda: server.reports[NODE][-1].parts == ())
    await until_async(lambda: list(agent.attempts.iterdir()) == [])


async def test_an_agent_that_leaves_takes_its_jobs_along_if_told(
    server: FakeServer, start_agent: StartAgent
) -> None:
    agent = await start_agent(NODE, "--stop-jobs-on-exit")
    await server.want(NODE, make_part(shell("exec sleep 600")))
    await server.until_state(NODE, 1, "running")
    assert await agent.end(signal.SIGTERM) == 0
    part = server.part(NODE, 1)
    assert part is not None
    assert (part.state, part.category) == ("exited", "lost")
    assert agent.processes(1) == []


async def test_an_agent_that_leaves_otherwise_lets_them_go_on(
    server: FakeServer, start_agent: StartAgent
) -> None:
    agent = await start_agent()
    await server.want(NODE, make_part(shell("exec sleep 600")))
    await server.until_state(NODE, 1, "running")
    assert await agent.end(signal.SIGTERM) == 0
    assert len(agent.processes(1)) == 1


async def test_a_revoked_token_is_said_and_asked_about_slowly(
    server: FakeServer, start_agent: StartAgent
) -> None:
    server.report_seconds = 0.1
    agent = await start_agent()
    server.status = 401
    await until_async(lambda: "refused the report: 401" in agent.log.read_text())
    refused = agent.log.read_text().count("401")
    assert refused <= 2


@pytest.mark.usefixtures("clock")
async def test_output_that_is_not_taken_holds_up_no_other(
    server: FakeServer, start_agent: StartAgent
) -> None:
    server.chokes_on = {1}
    await start_agent()
    await server.want(NODE, make_part(shell("echo one"), attempt=1), make_part(shell("echo two"), attempt=2))
    await server.until(lambda: server.text(NODE, 2) == "two\n")
    assert (await server.until_state(NODE, 1, "exited")).exit_code == 0
    server.chokes_on = set()
    await server.until(lambda: server.text(NODE, 1) == "one\n")


async def test_progress_that_is_refused_does_not_cost_the_lease(
    server: FakeServer, start_agent: StartAgent
) -> None:
    server.refuses = lambda report: any(line.step == 666 for part in report.parts for line in part.progress)
    await start_agent()
    script = """echo '{"step": 666}' >> $ALLOT_PROGRESS; sleep 0.3; echo '{"step": 2}' >> $ALLOT_PROGRESS"""
    await server.want(NODE, make_part(shell(script)))
    assert (await server.until_state(NODE, 1, "exited")).exit_code == 0
    assert [line.step for line in server.progress(NODE, 1)][-1:] in ([2], [])


async def test_a_report_leaves_whatever_its_texts_hold(server: FakeServer) -> None:
    client = Client(server.url, f"token-of-{NODE}")
    part = PartReport(attempt=1, state="exited", message="a\ud800b")
    await client.sync(Report(protocol=PROTOCOL, boot="life", generation=0, parts=(part,)))
    await client.close()
    told = server.part(NODE, 1)
    assert told is not None
    assert told.message == "a?b"


async def test_an_attempt_that_cannot_be_reported_does_not_keep_the_others_back(
    server: FakeServer, start_agent: StartAgent, tmp_path: Path
) -> None:
    await start_agent()
    waits = make_part(shell("exec sleep 600"))
    await server.want(NODE, waits)
    await server.until_state(NODE, 1, "running")
    # A folder in the place of a file that is read for each report.
    (held,) = (path.parent / "held" for path in tmp_path.rglob("spec.json"))
    held.mkdir()
    await server.until(lambda: server.part(NODE, 1) is None)
    await server.want(NODE, waits, make_part(shell("true"), attempt=2))
    await server.until_state(NODE, 2, "exited")
    held.rmdir()
    await server.until_state(NODE, 1, "running")


@pytest.mark.usefixtures("clock")
async def test_leaving_takes_little_time_though_nobody_can_be_told(
    server: FakeServer, start_agent: StartAgent
) -> None:
    agent = await start_agent(NODE, "--stop-jobs-on-exit")
    await server.want(NODE, make_part(shell("exec sleep 600")))
    await server.until_state(NODE, 1, "running")
    server.is_down = True
    assert await agent.end(signal.SIGTERM) == 0
    assert agent.is_over(1)


async def test_two_agents_do_not_share_a_work_folder(
    server: FakeServer, start_agent: StartAgent, tmp_path: Path
) -> None:
    await start_agent()
    second = AgentProcess(tmp_path, server.url)
    await second.start()
    assert second.process is not None
    assert await second.process.wait() == 2
    assert "another agent already uses the work folder" in second.log.read_text()


async def test_samples_say_which_devices_are_busy(server: FakeServer, start_agent: StartAgent) -> None:
    server.report_seconds = 0.1
    await start_agent()
    await server.want(NODE, make_part(shell("while :; do :; done", gpu_indexes=(1, 2))))

    def busy() -> list[int]:
        samples = server.reports[NODE][-1].samples
        return [sample.index for sample in samples if sample.utilisation_percent > 0]

    await server.until(lambda: busy() == [1, 2])
    await server.want(NODE)
    await server.until(lambda: server.reports[NODE][-1].samples and not busy())


@pytest.mark.usefixtures("clock")
async def test_what_the_checks_find_is_told_once(server: FakeServer, start_agent: StartAgent) -> None:
    server.report_seconds = 0.1
    await start_agent()

    def told() -> list[tuple[Finding, ...]]:
        return [report.findings for report in server.reports.get(NODE, ()) if report.findings is not None]

    (found,) = await server.until(told)
    assert {finding.name for finding in found} == {"work_folder", "checkpoint_folder", "clock", "isolation"}
    reports = len(server.reports[NODE])
    await server.until(lambda: len(server.reports[NODE]) >= reports + 5)
    assert told() == [found]
