"""Replicas that have a part of a GPU, as their shim holds them to it: they run while they have its token.

The token daemon of the GPU (`token_daemon.py`) decides when. A replica is held to that

- *by freezing*, where the device is simulated and so is nothing but the replica's processor time: it is
  frozen while it waits for the token. One that uses next to no processor time rests: it does not wait for the
  token and is not frozen, and its part of the GPU is for others. The next look at the latest finds that it
  works again; the time until then is not counted.
- *by itself*, where it asks for the token at its socket, as `allot.training` does before each step. Then it
  is not frozen. Where freezing would hold it, its word is believed as long as it keeps it: one that computes
  without the token, or keeps it for too long while others wait, is frozen like any other from then on. On a
  real device the first cannot be detected; after the second it runs without limits, and that is reported.

Without a daemon everything runs, as it did before: a daemon that was killed must not cost a job anything.

Memory on a simulated device is what the replica's processes occupy, what several share counted once; on a
real one what the driver reports, which the agent writes down.

Imported by the shim, so it imports nearly nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_SEQPACKET, socket

from nodeagent.folder import read_json, write_json
from nodeagent.procfs import ProcessTree, occupies_more
from nodeagent.shim.asking import AskingPlace, received
from nodeagent.shim.freezing import Freezer
from nodeagent.shim.guest import reached_by
from nodeagent.shim.replica import RunningReplica

TYPE_CHECKING = False  # What typing.TYPE_CHECKING is, without loading typing.
if TYPE_CHECKING:
    from typing import Any

MICROSECOND = 1e-6
#: How often the shim looks at what a replica does: with a control group, or by all processes.
LOOK_SECONDS, LOOK_AT_ALL_SECONDS = 0.05, 0.2
#: Less of one processor does not count as work.
BUSY = 0.1
#: After this many looks in a row that saw no work, it has given the token back.
IDLE_LOOKS = 2
#: While it is being frozen: how often the shim looks, and for how long the token waits for it.
FREEZING_LOOK_SECONDS, FREEZING_SECONDS = 0.002, 1.0
CONNECT_SECONDS, CONNECT_LATER_SECONDS = 0.1, 1.0
#: Without a daemon for longer, nothing holds it any more, and that is reported.
AWAY_SECONDS = 5.0
#: What a replica that asks is given while there is no daemon.
FREE_MICROSECONDS = 1_000_000
MEMORY_LOOK_SECONDS = 0.5
#: A replica that asks may keep the token beyond its quota for this long, as a step takes, while others wait.
OVERTIME_SECONDS = 1.0
#: One that uses more processor time without the token within a window is not believed to keep its word.
UNHELD_SECONDS, UNHELD_WINDOW_SECONDS = 0.5, 10.0

RESTING, WAITING, HOLDING, YIELDING = "resting", "waiting", "holding", "yielding"


class PartOfGpu:
    """One replica's part. All times are seconds of the boot clock."""

    def __init__(
        self, spec: dict[str, Any], replica: RunningReplica, freezer: Freezer, poll: select.poll
    ) -> None:
        self.spec = spec
        self.replica = replica
        self.freezer = freezer
        self.poll = poll
        self.can_freeze = bool(spec["can_freeze"])
        self.state = RESTING
        self.line: socket | None = None
        self.connect_at = 0.0
        self.alone_since: float | None = None
        #: Without a daemon for so long, or from the beginning, that nothing holds it for certain.
        self.is_away = True
        #: Whether something else stops it, and whether it is to ask when it goes on.
        self.is_stood_down = False
        self.must_ask = False
        self.look_at = 0.0
        self.quota_ends_at = 0.0
        self.has_asked_for_more = False
        self.yield_by = 0.0
        self.cpu_seconds: float | None = None
        self.looked_at = 0.0
        self.idle_looks = 0
        self.memory_look_at = 0.0
        self.asking = AskingPlace(spec["door"], poll, is_everybodys=replica.container is not None)
        #: Whether it asks for the token by itself.
        self.is_cooperative = False
        #: Processor time that it used without the token since then.
        self.unheld_seconds, self.unheld_since = 0.0, 0.0

    @property
    def enforcement(self) -> str:
        if self.is_away:
            return "placement_only"
        if self.is_cooperative:
            return "cooperative"
        return "enforced" if self.can_freeze else "placement_only"

    @property
    def descriptors(self) -> list[int]:
        return self.asking.descriptors + ([] if self.line is None else [self.line.fileno()])

    def step(self, now: float) -> None:
        """Do what is due. Not while something else stops the replica."""
        if self.replica.wait_status is not None:
            self.close()
            return
        self.is_stood_down = False
        if self.line is None:
            self.connect(now)
        self.asking.step(now)
        if self.must_ask:
            self.must_ask = False
            self.ask()
        if self.line is None or not self.can_freeze or now < self.look_at:
            return
        if self.is_cooperative:
            self.look_at_asker(now)
        elif self.state == WAITING:
            if not self.freezer.is_complete():
                self.freezer.freeze()  # Somebody came since, or let it go on.
            self.look_at = now + LOOK_AT_ALL_SECONDS
        elif self.state == YIELDING:
            self.yield_token(now)
        elif self.state == HOLDING and now >= self.quota_ends_at and not self.has_asked_for_more:
            self.has_asked_for_more = True
            self.tell(more=True)
            self.look_at = now + self.look_seconds
        else:
            self.look(now)

    def hear(self, descriptor: int, now: float) -> None:
        """Take in what came on one of the descriptors."""
        if descriptor in self.asking.descriptors:
            self.hear_asker(self.asking.hear(descriptor, now), now)
        elif self.line is not None and descriptor == self.line.fileno():
            if (message := received(self.line)) is None:
                self.lose_daemon(now)
            else:
                self.obey(message, now)

    def stand_down(self) -> None:
        """Something else stops the replica now: others may have the token."""
        self.is_stood_down = True
        self.must_ask = self.is_cooperative and self.state == WAITING
        if self.state != RESTING:
            self.tell(**{"return": True})
            self.state = WAITING if self.must_ask else RESTING
        # Whatever stopped it lets it go on, too.
        self.freezer.forget()
        self.cpu_seconds = None

    def close(self) -> None:
        """Hold it to nothing any more."""
        self.asking.close()
        self.drop_line()
        self.connect_at = float("inf")
        self.freezer.thaw()

    def next_at(self, now: float) -> float:
        if self.replica.wait_status is not None:
            return float("inf")
        times = [self.memory_look_at] if self.spec["memory_bytes"] else []
        if self.is_stood_down:
            return min(times, default=float("inf"))
        if self.asking.hear_at is not None:
            times.append(self.asking.hear_at)
        if self.line is None:
            times.append(max(now, self.connect_at))
        elif self.can_freeze:
            times.append(self.look_at)
        return min(times, default=float("inf"))

    def exceeds_memory(self, now: float) -> bool:
        """Whether it is time to look, and its processes occupy more memory than its part has."""
        limit = self.spec["memory_bytes"]
        if not limit or now < self.memory_look_at or self.replica.wait_status is not None:
            return False
        self.memory_look_at = now + MEMORY_LOOK_SECONDS
        if not self.spec["is_simulated"]:
            said = read_json(self.spec["on_gpu"]) or {}
            return bool(int(said.get(str(self.replica.rank), 0)) > limit)
        return occupies_more(self.processes(ProcessTree()), limit)

    # With the daemon

    def connect(self, now: float) -> None:
        if now < self.connect_at:
            return
        line = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK)
        try:
            reached_by(self.spec["daemon"], line.connect)
            join = {"join": self.spec["client"], "request": self.spec["request"], "limit": self.spec["limit"]}
            line.send(json.dumps(join).encode())
        except OSError:
            line.close()
            if self.alone_since is None:
                self.alone_since = now
            is_long = now - self.alone_since > AWAY_SECONDS
            self.is_away = self.is_away or is_long
            self.connect_at = now + (CONNECT_LATER_SECONDS if is_long else CONNECT_SECONDS)
            return
        self.line, self.alone_since, self.is_away = line, None, False
        self.has_asked_for_more = False
        self.poll.register(line, select.POLLIN)
        if self.is_cooperative and self.state == HOLDING:
            # It ran while there was no daemon to ask: so the others learn of it, and it has to give the token
            # back.
            self.tell(ask=True)
            self.quota_ends_at = float("inf")
        else:
            self.state = RESTING
        self.begin_looking(now)

    def lose_daemon(self, now: float) -> None:
        """The daemon is gone: it runs."""
        self.drop_line()
        self.connect_at = self.alone_since = now
        if not self.is_cooperative:
            self.state = RESTING
        elif self.state == WAITING and not self.is_stood_down:
            self.let_asker_run()
        self.freezer.thaw()

    def obey(self, message: dict[str, Any], now: float) -> None:
        if self.has_asked_for_more and message:
            self.has_asked_for_more = False
            if self.state != HOLDING and "overdue" not in message:
                return  # The answer to what it asked before it gave the token back.
        if "quota" in message and self.state in (WAITING, HOLDING):
            is_answer = self.state == WAITING
            self.state = HOLDING
            self.quota_ends_at = now + message["quota"] * MICROSECOND
            if self.is_cooperative:
                self.look_at = now + self.look_seconds
                # Once for each time that it asked, or it would take one answer for another.
                if is_answer:
                    self.note_use(now, is_unheld=True)
                    self.asking.answer(message["quota"])
            else:
                self.freezer.thaw()
                self.begin_looking(now)
        elif "pause" in message and self.state == HOLDING:
            if self.is_cooperative:
                self.no_longer_ask(now)
            self.state, self.yield_by = YIELDING, now + FREEZING_SECONDS
            self.freezer.freeze()
            self.yield_token(now)
        elif "overdue" in message:
            self.state = RESTING
            if self.is_cooperative:
                self.no_longer_ask(now)

    def yield_token(self, now: float) -> None:
        """Give the token back as soon as nothing can run any more."""
        if self.freezer.is_complete() or now >= self.yield_by:
            self.state, self.look_at = WAITING, now + LOOK_AT_ALL_SECONDS
            self.tell(ask=True)
        else:
            self.freezer.freeze()
            self.look_at = now + FREEZING_LOOK_SECONDS

    # By freezing

    @property
    def look_seconds(self) -> float:
        return LOOK_SECONDS if self.replica.cgroup.counts_cpu else LOOK_AT_ALL_SECONDS

    def begin_looking(self, now: float) -> None:
        self.cpu_seconds, self.looked_at, self.idle_looks = self.used_seconds(), now, 0
        self.look_at = now + self.look_seconds
        if self.state == HOLDING and not self.has_asked_for_more:
            self.look_at = min(self.look_at, self.quota_ends_at)

    def look(self, now: float) -> None:
        """See whether it works: then it needs the token, and otherwise not."""
        used, before, seconds = self.used_seconds(), self.cpu_seconds, now - self.looked_at
        # Unknown use counts as work.
        is_busy = used is None or before is None or used - before > BUSY * seconds
        idle_looks = 0 if is_busy else self.idle_looks + 1
        self.begin_looking(now)
        self.idle_looks = idle_looks
        if before is None and used is not None:
            return  # There was nothing to compare with.
        if self.state == RESTING and is_busy:
            self.state, self.yield_by = YIELDING, now + FREEZING_SECONDS
            self.freezer.freeze()
            self.yield_token(now)
        elif self.state == HOLDING and idle_looks >= IDLE_LOOKS and not self.has_asked_for_more:
            self.state = RESTING
            self.tell(**{"return": True})

    def used_seconds(self) -> float | None:
        """Return the processor time of all its processes so far; None where that is unknown."""
        used = self.replica.cgroup.cpu_seconds()
        if used is not None:
            return used
        tree = ProcessTree()
        return tree.cpu_seconds(self.processes(tree))

    def processes(self, tree: ProcessTree) -> list[int]:
        """Return all that is its own: where it is alone below the shim also what left its parent."""
        if members := sorted(self.replica.cgroup.members()):
            return members
        if self.freezer.is_all:
            return tree.below(os.getpid())
        return [self.replica.pid, *tree.below(self.replica.pid)]

    # By itself

    def hear_asker(self, message: dict[str, Any] | None, now: float) -> None:
        if message is None:
            if self.is_cooperative:
                self.is_cooperative = False
                self.state = RESTING
                self.tell(**{"return": True})
                self.begin_looking(now)
            return
        if not {"ask", "return"} & message.keys():
            return
        if not self.is_cooperative:
            self.is_cooperative = True
            self.freezer.thaw()
            self.note_use(now, is_unheld=False)
        elif self.state == HOLDING:
            self.note_use(now, is_unheld=False)
        self.look_at = min(self.look_at, now + self.look_seconds)
        burst = message.get("burst")
        known = {"burst": burst} if isinstance(burst, int) and burst >= 0 else {}
        if "ask" in message and self.is_stood_down:
            self.state, self.must_ask = WAITING, True
        elif "ask" in message:
            self.ask(**known)
        elif "return" in message:
            self.state = RESTING
            self.tell(**{"return": True}, **known)

    def look_at_asker(self, now: float) -> None:
        """See whether it computes only with the token, and gives that back soon: else it is not relied on."""
        self.look_at = now + self.look_seconds
        if self.state != HOLDING:
            self.note_use(now, is_unheld=True)
            if self.unheld_seconds > UNHELD_SECONDS:
                self.no_longer_ask(now)
        elif now < self.quota_ends_at + OVERTIME_SECONDS:
            self.look_at = max(self.look_at, self.quota_ends_at + OVERTIME_SECONDS)
        elif not self.has_asked_for_more:
            self.has_asked_for_more = True
            self.tell(more=True)

    def note_use(self, now: float, *, is_unheld: bool) -> None:
        """Record what it used since the last time; what it did within a look's time counts with the next."""
        if now - self.looked_at < LOOK_SECONDS:
            return
        used, before = self.used_seconds(), self.cpu_seconds
        self.cpu_seconds, self.looked_at = used, now
        if now > self.unheld_since + UNHELD_WINDOW_SECONDS:
            self.unheld_seconds, self.unheld_since = 0.0, now
        if is_unheld and used is not None and before is not None:
            self.unheld_seconds += used - before

    def ask(self, **known: int) -> None:
        self.state = WAITING
        self.tell(ask=True, **known)
        if self.line is None:
            self.let_asker_run()

    def let_asker_run(self) -> None:
        """Let it run without a daemon to decide; it asks again soon."""
        self.state = HOLDING
        self.asking.answer(FREE_MICROSECONDS)

    def no_longer_ask(self, now: float) -> None:
        """It did not give the token back, so its word is not relied on any more."""
        self.is_cooperative = False
        self.asking.close()
        if self.can_freeze:
            self.begin_looking(now)
        else:
            self.drop_line()
            self.connect_at = float("inf")

    # Connections

    def tell(self, **message: Any) -> None:
        if self.line is not None:
            with contextlib.suppress(OSError):  # It is gone: that is heard next.
                self.line.send(json.dumps(message).encode())

    def drop_line(self) -> None:
        if self.line is not None:
            self.poll.unregister(self.line)
            self.line.close()
            self.line = None


class Sharing:
    """All replicas of an attempt that have parts of GPUs."""

    def __init__(self, path: str, replicas: list[RunningReplica]) -> None:
        #: Where it says how each is held to its part.
        self.path = path
        self.replicas = replicas
        self.parts: list[PartOfGpu] = []
        self.said: dict[str, str] = {}

    def __contains__(self, descriptor: int) -> bool:
        return any(descriptor in part.descriptors for part in self.parts)

    def add(self, replica: RunningReplica, poll: select.poll, *, is_alone: bool) -> None:
        """Hold a replica to its part, if it has one; before it is started. `is_alone`: it has no others
        beside it in the attempt, so that all that runs below the shim is its own."""
        if spec := replica.spec.get("part"):
            is_all = is_alone and not replica.cgroup.can_freeze
            part = PartOfGpu(spec, replica, Freezer([replica], is_all=is_all), poll)
            part.asking.open()
            self.parts.append(part)

    def step(self, now: float) -> None:
        for part in self.parts:
            part.step(now)
        said = {str(part.replica.rank): part.enforcement for part in self.parts}
        if said != self.said:
            with contextlib.suppress(OSError):  # A full disk: it is written at another look.
                write_json(self.path, said)
                self.said = said

    def handle(self, descriptor: int, now: float) -> None:
        for part in self.parts:
            part.hear(descriptor, now)

    def stand_down(self) -> None:
        for part in self.parts:
            part.stand_down()

    def close(self) -> None:
        """Hold no replica any more: what was frozen goes on."""
        for part in self.parts:
            part.close()

    def release(self) -> None:
        """Thaw control groups only, as after SIGKILL."""
        for part in self.parts:
            part.freezer.release()

    def next_at(self, now: float) -> float:
        return min([part.next_at(now) for part in self.parts], default=float("inf"))

    def who_exceeds_memory(self, now: float) -> RunningReplica | None:
        return next((part.replica for part in self.parts if part.exceeds_memory(now)), None)
