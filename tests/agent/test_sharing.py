"""Jobs with parts of one simulated GPU: real shims, a real token daemon, measured processor time."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from socket import AF_UNIX, SOCK_SEQPACKET, socket
from typing import Literal

import pytest

from nodeagent.clock import boot_clock_seconds
from nodeagent.configuration import InventoryConfiguration
from nodeagent.folder import read_json
from nodeagent.messages import DesiredPart, GpuPart, ReplicaSample, node_enforcement
from nodeagent.metrics.jobs import JobMeter
from nodeagent.process import runtime
from nodeagent.process import sharing as process_sharing
from nodeagent.process.sharing import enforcement_of, note_gpu_memory
from nodeagent.procfs import is_stopped
from nodeagent.shim.cgroups import Cgroups
from nodeagent.shim.freezing import FREEZE_SECONDS
from nodeagent.shim.guest import reached_by
from nodeagent.shim.main import KILL_MARGIN_SECONDS
from nodeagent.tokens import BASE_QUOTA, WINDOW
from tests.agent.builders import PLATFORM, make_configuration, make_part, make_replica, python
from tests.agent.moved_clock import MovedClock
from tests.agent.runtime_node import LEASE_SECONDS, RuntimeNode, daemon_pid, settled
from tests.patience import PATIENCE_SECONDS, until_async

MEBIBYTE = 2**20
#: Computes without an end, and says so every 10 ms of processor time.
SPIN = """
import os, time
next_at = 0.0
while True:
    if time.process_time() >= next_at:
        os.write(1, f"{time.monotonic()}\\n".encode())
        next_at = time.process_time() + 0.01
"""
SLEEP = "import time; print('up', flush=True); time.sleep(600)"
#: Takes memory when somebody makes the file `more`.
GROW = """
import os, time
print("up", flush=True)
while not os.path.exists("more"):
    time.sleep(0.01)
taken = bytearray(os.urandom(1)) * (200 * 2**20)
time.sleep(600)
"""
#: In parts of a window: one quota, as the daemon grants it where it knows no burst.
QUOTA = BASE_QUOTA / WINDOW


@pytest.fixture(params=["groups", "signals"])
async def node(
    request: pytest.FixtureRequest, node: RuntimeNode, monkeypatch: pytest.MonkeyPatch
) -> RuntimeNode:
    if request.param == "signals":
        nothing = Cgroups(is_unified=False, folders={})
        node.runtime.cgroups = nothing
        monkeypatch.setattr(runtime, "find_cgroups", lambda _: nothing)
    elif not node.runtime.cgroups.is_unified and "freezer" not in node.runtime.cgroups.folders:
        pytest.skip("no control groups that freeze")
    return node


def sharing(attempt: int, script: str, request: int, limit: int = 1000, memory_bytes: int = 0) -> DesiredPart:
    part = GpuPart(request=request, limit=limit, memory_bytes=memory_bytes)
    return make_part(python(script, gpu_indexes=(0,), gpu_part=part), attempt=attempt, grace_seconds=1.0)


def held(node: RuntimeNode, attempt: int) -> str:
    desired = sharing(attempt, SLEEP, 500)
    return enforcement_of(desired, read_json(node.runtime.folder(attempt).held))


def ticks(node: RuntimeNode, attempt: int) -> list[float]:
    return [float(line) for line in node.text(attempt).splitlines(keepends=True) if line.endswith("\n")]


async def processor_seconds(node: RuntimeNode, seconds: float, *attempts: int) -> list[float]:
    """What each used while so much time passed, and how much time that was."""
    meter = JobMeter(node.runtime.folder)
    before, began = meter.measure(attempts), time.monotonic()
    await asyncio.sleep(seconds)
    after, passed = meter.measure(attempts), time.monotonic() - began
    used = [
        (after[attempt, 0].cpu_seconds or 0) - (before[attempt, 0].cpu_seconds or 0) for attempt in attempts
    ]
    return [*used, passed]


def stretches(node: RuntimeNode, since: float = 0.0) -> list[tuple[int, float]]:
    """Who ran without the other in between, and for how many seconds."""
    merged = sorted((at, attempt) for attempt in (1, 2) for at in ticks(node, attempt) if at > since)
    found = []
    for attempt, group in groupby(merged, key=itemgetter(1)):
        times = [at for at, _ in group]
        found.append((attempt, times[-1] - times[0]))
    return found


async def both_have_run(node: RuntimeNode, since: float = 0.0) -> None:
    """Wait until each has had the token, while the other stood still."""
    await until_async(lambda: has_each_run(node, since))


def has_each_run(node: RuntimeNode, since: float = 0.0) -> bool:
    return {attempt for attempt, seconds in stretches(node, since) if seconds > 0.08} == {1, 2}


async def they_take_turns(node: RuntimeNode) -> None:
    """Watch some turns. They are a quota long, at least 100 ms; who runs beside another says so in between,
    on a busy machine too, where a turn may have room for no more than one sign."""
    began = time.monotonic() + 1.0  # Whoever has only just begun has been seen to work by then.
    await until_async(lambda: len(stretches(node, began)) > 6)
    signs = [at for attempt in (1, 2) for at in ticks(node, attempt) if at > began]
    assert (max(signs) - min(signs)) / len(stretches(node, began)) > 0.09


async def test_two_that_compute_run_in_turn_and_are_held(node: RuntimeNode) -> None:
    await node.start(sharing(1, SPIN, 500))
    await node.start(sharing(2, SPIN, 500))
    await until_async(lambda: held(node, 1) == held(node, 2) == "enforced")
    await both_have_run(node)
    await they_take_turns(node)


async def test_a_daemon_that_is_killed_costs_nobody_anything(node: RuntimeNode) -> None:
    for attempt in (1, 2):
        await node.start(sharing(attempt, SPIN, 500))
    await both_have_run(node)
    killed = daemon_pid(node)
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    await until_async(lambda: daemon_pid(node) not in (None, killed))
    counts = [len(ticks(node, attempt)) for attempt in (1, 2)]
    await until_async(
        lambda: all(len(ticks(node, n)) > count + 20 for n, count in zip((1, 2), counts, strict=True))
    )
    await until_async(lambda: held(node, 1) == held(node, 2) == "enforced")
    await both_have_run(node, time.monotonic())
    assert not node.outcomes


#: An agent's life, which ends by SIGKILL: two jobs have parts of a GPU.
LIFE = """
import asyncio, sys
from pathlib import Path
from tests.agent.runtime_node import RuntimeNode
from tests.agent.test_sharing import SPIN, sharing

async def main():
    node = RuntimeNode(Path(sys.argv[1]))
    for attempt in (1, 2):
        await node.start(sharing(attempt, SPIN, 500))
    print("up", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_an_agent_that_is_killed_costs_nobody_anything(tmp_path: Path) -> None:
    life = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", LIFE, str(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{PLATFORM}:{PLATFORM.parent}"},
    )
    assert life.stdout is not None
    said = await life.stdout.readline()
    life.kill()
    await life.wait()
    node = RuntimeNode(tmp_path)
    try:
        assert said == b"up\n"
        # Without an agent they take turns as before.
        serving = await until_async(lambda: daemon_pid(node))
        await both_have_run(node, time.monotonic())
        node.runtime.recover()
        await until_async(lambda: node.runtime.shared_gpus.keepers)
        await both_have_run(node, time.monotonic())
        assert daemon_pid(node) == serving
        os.kill(serving, signal.SIGKILL)
        await until_async(lambda: daemon_pid(node) not in (None, serving))
        await both_have_run(node, time.monotonic())
        assert held(node, 1) == held(node, 2) == "enforced"
        assert not node.outcomes
    finally:
        if not node.runtime.shims:
            node.runtime.recover()
        await node.clean_up()


async def test_a_restarted_agent_and_the_daemon_find_each_other(node: RuntimeNode) -> None:
    await node.start(sharing(1, SPIN, 500))
    await until_async(lambda: daemon_pid(node) is not None)
    serving = daemon_pid(node)
    node.restart()
    await until_async(lambda: node.runtime.shared_gpus.keepers)
    count = len(ticks(node, 1))
    await until_async(lambda: len(ticks(node, 1)) > count + 10)
    assert daemon_pid(node) == serving
    os.kill(int(serving or 0), signal.SIGKILL)
    await until_async(lambda: daemon_pid(node) not in (None, serving))


@pytest.mark.slow
async def test_after_a_lapse_of_the_lease_they_take_turns_again(clock: MovedClock, node: RuntimeNode) -> None:
    await node.start(training(1, STEPS, 500))
    await node.start(sharing(2, SPIN, 500))
    await both_have_run(node)
    clock.stop_at(node.renew_lease() - KILL_MARGIN_SECONDS - FREEZE_SECONDS / 2)
    await until_async(lambda: all(map(node.runtime.is_frozen, (1, 2))))
    since = time.monotonic()
    ticked = await settled(lambda: [ticks(node, attempt) for attempt in (1, 2)])
    assert max(map(max, ticked)) <= since
    node.renew_lease(LEASE_SECONDS, 1, 2)
    await until_async(lambda: not any(map(node.runtime.is_frozen, (1, 2))))
    # Who held the token as the clock jumped seems to have had it all the time: that no longer counts then.
    clock.go_on_from(boot_clock_seconds() + WINDOW / 1e6)
    await both_have_run(node, time.monotonic())
    await they_take_turns(node)


async def test_what_waits_for_the_token_hears_that_it_is_to_end(node: RuntimeNode) -> None:
    for attempt in (1, 2):
        await node.start(sharing(attempt, SPIN, 500))
    await both_have_run(node)
    for attempt in (1, 2):
        node.runtime.stop(attempt, 5.0)
    for attempt in (1, 2):
        assert (await node.end_of(attempt)).category == "stopped"
    assert not node.runtime.shared_gpus.keepers


async def test_more_memory_than_its_part_has_ends_one_and_the_other_goes_on(node: RuntimeNode) -> None:
    for attempt in (1, 2):
        await node.start(sharing(attempt, GROW, 500, memory_bytes=100 * MEBIBYTE))
        await node.line("up", attempt)
    Path(node.runtime.folder(1).work(0), "more").touch()
    outcome = await node.end_of(1)
    assert outcome.category == "gpu_memory_exceeded"
    assert outcome.exit_code != 0
    assert "more GPU memory than its part" in outcome.message
    assert node.alive(2)
    assert 2 not in node.outcomes


@pytest.mark.parametrize(
    ("kind", "tokens", "has_mps", "word"),
    [
        ("simulated", True, False, "enforced"),
        ("simulated", False, False, "placement_only"),
        ("nvml", True, False, "cooperative"),
        ("nvml", True, True, "enforced"),
        ("nvml", False, False, "placement_only"),
    ],
)
def test_a_node_says_how_it_holds_parts(
    tmp_path: Path, kind: Literal["simulated", "nvml"], tokens: bool, has_mps: bool, word: str
) -> None:
    inventory = InventoryConfiguration(kind=kind)
    configuration = replace(make_configuration(tmp_path), inventory=inventory, tokens=tokens)
    holds = process_sharing.SharedGpus(tmp_path, configuration, has_mps=has_mps).holds
    assert node_enforcement(holds) == word
    assert node_enforcement({"cpu": True}) == "", "agents from before do not say"


async def test_on_a_real_gpu_a_job_that_does_not_take_part_is_placed_only(tmp_path: Path) -> None:
    desired = sharing(1, SLEEP, 500)
    assert enforcement_of(desired, {"0": "placement_only"}) == "placement_only"
    assert enforcement_of(desired, {}) == "placement_only"
    assert enforcement_of(desired, None) == ""
    assert enforcement_of(make_part(), {"0": "enforced"}) == ""
    node = RuntimeNode(tmp_path, tokens=False)
    try:
        await node.start(desired)
        assert held(node, 1) == "placement_only"
        assert not node.runtime.shared_gpus.keepers
    finally:
        await node.clean_up()


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[RuntimeNode]:
    """A node whose GPUs count as real ones: what runs on them goes on while its process is frozen."""
    node = RuntimeNode(tmp_path)
    node.runtime.shared_gpus.is_simulated = False
    yield node
    await node.clean_up()


async def test_on_a_real_gpu_only_a_job_that_asks_is_held(real: RuntimeNode) -> None:
    await real.start(sharing(1, SPIN, 300))
    await real.start(training(2, STEPS, 700, limit=700))
    await until_async(lambda: held(real, 2) == "cooperative")
    assert held(real, 1) == "placement_only"
    # Alone with the token, it stands still once it has had seven tenths of the time since the daemon began.
    await until_async(lambda: any(later - earlier > 0.09 for earlier, later in pairwise(ticks(real, 2))))
    assert real.alive(1)


async def test_on_a_real_gpu_memory_is_what_the_driver_says(real: RuntimeNode) -> None:
    parts = [sharing(attempt, SLEEP, 500, memory_bytes=100 * MEBIBYTE) for attempt in (1, 2)]
    for part in parts:
        await real.start(part)
    samples = [
        ReplicaSample(attempt=1, rank=0, gpu_memory_bytes=101 * MEBIBYTE),
        ReplicaSample(attempt=2, rank=0, gpu_memory_bytes=100 * MEBIBYTE),
        ReplicaSample(attempt=3, rank=0, gpu_memory_bytes=101 * MEBIBYTE),
    ]
    note_gpu_memory(real.runtime.folder, parts, samples)
    assert (await real.end_of(1)).category == "gpu_memory_exceeded"
    assert real.alive(2)


@pytest.mark.slow
async def test_saturating_jobs_get_three_and_seven_tenths_within_a_quota(node: RuntimeNode) -> None:
    for attempt, request in ((1, 300), (2, 700)):
        await node.start(sharing(attempt, SPIN, request))
    await both_have_run(node)
    await asyncio.sleep(WINDOW / 1e6)  # The window is full, and the second has caught up.
    small, large = await running_parts(node, WINDOW / 1e6, 1, 2)
    assert small + large <= 1.05, "never both at once"
    # Whoever looks is late on a busy machine, by half a quota at most.
    assert small / (small + large) == pytest.approx(0.3, abs=1.5 * QUOTA)


async def running_parts(node: RuntimeNode, seconds: float, *attempts: int) -> list[float]:
    """Which parts of so much time each was not frozen for, however much of that it could compute."""
    groups = [node.runtime.cgroups.group(f"attempt-{attempt}-rank-0") for attempt in attempts]
    pids = [node.alive(attempt)[0] for attempt in attempts]
    began, looks, ran = time.monotonic(), 0, [0] * len(attempts)
    while time.monotonic() < began + seconds:
        looks += 1
        for which, (group, pid) in enumerate(zip(groups, pids, strict=True)):
            ran[which] += not (group.is_frozen() if group.paths else is_stopped(pid))
        await asyncio.sleep(0.01)
    return [count / looks for count in ran]


@pytest.mark.slow
@pytest.mark.parametrize("node", ["groups"], indirect=True)
async def test_for_a_minute_shares_are_within_a_quota_also_after_the_daemon_was_killed(
    node: RuntimeNode,
) -> None:
    for attempt, request in ((1, 300), (2, 700)):
        await node.start(sharing(attempt, SPIN, request))
    await both_have_run(node)
    shares = []
    for life in range(2):
        await asyncio.sleep(WINDOW / 1e6)  # The window is full.
        for _ in range(3):
            small, large = await running_parts(node, WINDOW / 1e6, 1, 2)
            shares.append(small / (small + large))
        serving = daemon_pid(node)
        assert serving is not None
        if life == 0:
            os.kill(serving, signal.SIGKILL)
            await until_async(lambda killed=serving: daemon_pid(node) not in (None, killed))
    assert shares == [pytest.approx(0.3, abs=QUOTA)] * 6
    assert held(node, 1) == held(node, 2) == "enforced"
    assert not node.outcomes


@pytest.mark.slow
async def test_an_idle_partners_part_is_used_up_to_the_limit(node: RuntimeNode) -> None:
    await node.start(sharing(1, SPIN, 300, limit=600))
    await node.start(sharing(2, SLEEP, 700))
    await asyncio.sleep(WINDOW / 1e6)
    (running,) = await running_parts(node, WINDOW / 1e6, 1)
    # A machine that is busy otherwise sees ends of quotas late; a job that it hardly serves seems to rest.
    assert 0.3 + QUOTA < running < 0.6 + 3 * QUOTA
    assert held(node, 2) == "enforced"
    idle, passed = await processor_seconds(node, 2.0, 2)
    # Without control groups its shim is measured with it, which looks at all processes of the machine.
    assert idle < 0.25 * passed, "and is not stopped"


STEPS = """
import time
import allot.training
with allot.training.session() as run:
    for step in run.steps(10**6):
        until = time.process_time() + 0.03
        while time.process_time() < until: pass
        print(time.monotonic(), flush=True)
"""
#: Takes the token once and never gives it back.
HOG = """
import allot.training
with allot.training.session() as run:
    for step in run.steps(2):
        while True:
            until = __import__("time").process_time() + 0.03
            while __import__("time").process_time() < until: pass
            print(__import__("time").monotonic(), flush=True)
"""


def training(attempt: int, script: str, request: int, limit: int = 1000) -> DesiredPart:
    replica = make_replica(
        sys.executable,
        "-c",
        script,
        gpu_indexes=(0,),
        gpu_part=GpuPart(request=request, limit=limit),
        env={"PYTHONPATH": str(PLATFORM)},
    )
    return make_part(replica, attempt=attempt, grace_seconds=5.0)


async def test_a_job_that_asks_before_its_steps_is_not_frozen_and_takes_turns(node: RuntimeNode) -> None:
    await node.start(training(1, STEPS, 500))
    await node.start(sharing(2, SPIN, 500))
    await until_async(lambda: (held(node, 1), held(node, 2)) == ("cooperative", "enforced"))
    await both_have_run(node)
    await they_take_turns(node)
    killed = daemon_pid(node)
    os.kill(int(killed or 0), signal.SIGKILL)
    await until_async(lambda: daemon_pid(node) not in (None, killed))
    began = time.monotonic()
    await both_have_run(node, began)
    assert held(node, 1) == "cooperative"
    node.runtime.stop(1, 600.0)
    outcome = await node.end_of(1)
    assert (outcome.category, outcome.exit_code) == ("stopped", 143), node.text(1)


async def test_one_that_never_gives_the_token_back_is_frozen_in_the_end(node: RuntimeNode) -> None:
    await node.start(training(1, HOG, 500))
    await until_async(lambda: held(node, 1) == "cooperative")
    await node.start(sharing(2, SPIN, 500))
    await until_async(lambda: held(node, 1) == "enforced")
    await both_have_run(node, time.monotonic())


#: Says that it takes part, and computes without the token.
LIES = """
import os, socket, time
line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
os.chdir(os.path.dirname(os.environ["ALLOT_GPU_TOKEN"]))
line.connect(os.path.basename(os.environ["ALLOT_GPU_TOKEN"]))
line.setblocking(False)
line.send(b'{"return": true}')
""" + SPIN.replace("    if ", "    {says}\n    if ")
#: What else it says, all the time.
FLOOD = """
    try: line.send(b'{"ask": true}'), line.send(b'{"return": true}')
    except OSError: pass"""


@pytest.mark.parametrize(
    "says", [pytest.param("", id="once"), pytest.param(FLOOD, id="floods", marks=pytest.mark.slow)]
)
async def test_one_that_says_it_asks_and_does_not_is_frozen_like_any_other(
    node: RuntimeNode, says: str
) -> None:
    await node.start(sharing(1, LIES.replace("{says}", says), 500))
    await node.start(sharing(2, SPIN, 500))
    await until_async(lambda: (held(node, 1), held(node, 2)) == ("enforced", "enforced") and ticks(node, 1))
    await both_have_run(node, time.monotonic())
    await they_take_turns(node)


#: What computes has left its session and its parent, which sleeps.
LEAVES = (
    """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() > 0: os._exit(0)
else:
    os.wait()
    time.sleep(600)
"""
    + SPIN
)


async def test_what_leaves_its_parent_is_held_all_the_same(node: RuntimeNode) -> None:
    await node.start(sharing(1, LEAVES, 500))
    await node.start(sharing(2, SPIN, 500))
    await until_async(lambda: held(node, 1) == held(node, 2) == "enforced")
    await both_have_run(node)
    await they_take_turns(node)


async def test_nobody_asks_for_another_job(node: RuntimeNode) -> None:
    await node.start(sharing(1, SLEEP, 500))
    await node.line("up")
    with socket(AF_UNIX, SOCK_SEQPACKET) as stranger:
        stranger.settimeout(PATIENCE_SECONDS)
        reached_by(node.runtime.folder(1).token(0), stranger.connect)
        assert stranger.recv(256) == b""


@pytest.mark.parametrize("node", ["signals"], indirect=True)
async def test_without_a_daemon_all_run_on_and_it_is_said(
    clock: MovedClock, node: RuntimeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_said() -> bool:
        clock.jump(0.5)  # It is away for long before it is said.
        node.renew_lease()
        return held(node, 1) == held(node, 2) == "placement_only"

    for attempt in (1, 2):
        await node.start(sharing(attempt, SPIN, 500))
    await until_async(lambda: held(node, 1) == held(node, 2) == "enforced")
    serves = process_sharing.DAEMON
    monkeypatch.setattr(process_sharing, "DAEMON", "raise SystemExit(1)")
    os.kill(int(daemon_pid(node) or 0), signal.SIGKILL)
    await until_async(is_said)
    counts = [len(ticks(node, attempt)) for attempt in (1, 2)]
    await until_async(
        lambda: all(len(ticks(node, n)) > count + 20 for n, count in zip((1, 2), counts, strict=True))
    )
    monkeypatch.setattr(process_sharing, "DAEMON", serves)
    await until_async(lambda: held(node, 1) == held(node, 2) == "enforced")
    assert not node.outcomes
