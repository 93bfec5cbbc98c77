"""One chaos run from beginning to end."""

import heapq
import logging
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tests.chaos.accounting import Facts, collect, violations
from tests.chaos.faults import Fault, plan
from tests.chaos.flood import Flood
from tests.chaos.inflict import HITS_PER_JOB, Inflicted, Inflicter
from tests.chaos.load import Load
from tests.chaos.recovery import Recovery
from tests.chaos.visitors import Crowd
from tests.chaos.world import LEASE_SECONDS, MARGIN_SECONDS, World

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.1
#: Where nobody is there to be hit, it is waited for so long.
PATIENCE_SECONDS = 15.0
#: Longer than the back-off of a job that failed four times.
QUIET_SECONDS = 420.0
#: What ended is cleared away soon after.
CLEAR_SECONDS = 30.0
#: Before these the control plane's processes must be able to end.
NEEDS_LIVING = ("kill supervisor", "restart control plane")
#: What comes of these can be told only when nothing else is hurt.
ALONE = ("overload",)
#: These have to hit somebody at least once, where they are to.
MUST_HIT = (*ALONE, "revoke token", "remove member", "disable user", "fill database's disk")
CALM_SECONDS = 90.0
#: Until all rights were taken that were to be.
SETTLE_SECONDS = 120.0
#: Whoever rages as long as this sees an elastic job resized.
RESIZED_WITHIN_SECONDS = 60.0


@dataclass
class Result:
    """What came out of a run. Without violations all is well."""

    seed: int
    seconds: float
    inflicted: Counter[str]
    missed: Counter[str]
    recoveries: dict[str, list[float]]
    facts: Facts
    violations: list[str] = field(default_factory=list)


def run(folder: Path, *, seed: int, faults: int, seconds: float) -> Result:
    """Start a platform in the folder, hurt it, let it come to rest, and account for everything."""
    world = World(folder)
    try:
        world.open()
        load, crowd, flood = Load(world, seed), Crowd(world), Flood(world)
        load.prepare()
        visited = crowd.prepare()
        flood.prepare(*visited)
        recovery = Recovery(world, crowd)
        planned = plan(
            seed,
            faults=faults,
            seconds=seconds,
            lease_seconds=LEASE_SECONDS + MARGIN_SECONDS,
            without=world.kinds_missing(),
        )
        crowd.start()
        load.thread.start()
        recovery.thread.start()
        began = time.monotonic()
        inflicter = Inflicter(world, crowd, flood)
        # One that is killed may wait for minutes, and nobody could be in it.
        inflicter.hits.update(dict.fromkeys(map(str, visited), HITS_PER_JOB))
        storm = Storm(world, inflicter, recovery)
        calm_on_interrupt(storm)
        storm.rage(planned)
        is_settled = storm.wait(crowd.is_settled, SETTLE_SECONDS)
        load.stop()
        crowd.stop()
        is_quiet = storm.wait(lambda: load.unfinished() == 0, QUIET_SECONDS)
        is_clear = storm.wait(lambda: not world.leftovers(), CLEAR_SECONDS)
        recovery.stop()
        lasted = time.monotonic() - began
        log.info("Quiet after %.0f s: %s. Accounting for %d jobs.", lasted, is_quiet, len(load.jobs))
        facts = collect(world, load.jobs | visited)
        facts.taken, facts.floods = crowd.taken(), flood.records
        facts.full, facts.no_room = inflicter.full, inflicter.no_room
        result = Result(seed, lasted, storm.inflicted, storm.missed, recovery.seconds, facts)
        result.violations = violations(facts)
        result.violations += storm.hit_nobody()
        if not facts.resizes and seconds >= RESIZED_WITHIN_SECONDS:
            result.violations.append("no job was resized")
        if not is_settled:
            troubles = ", ".join(f"{each.name}: {each.trouble}" for each in crowd.visitors)
            result.violations.append(f"rights that were to be taken were not, or not given back: {troubles}")
        if not is_clear:
            result.violations += [f"left behind: {left}" for left in world.leftovers()]
        result.violations += [
            f"never worked again after {each.kind}: {each.subject}" for each in recovery.pending
        ]
        return result
    finally:
        world.close()


def calm_on_interrupt(storm: "Storm") -> None:
    """Let the first Ctrl-C end the faults early: what was done is accounted for all the same."""

    def calm(*_: object) -> None:
        log.info("No more faults. Once more to give up.")
        storm.is_calm = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, calm)


class Storm:
    """Carries the plan out in its time, and looks after the agents meanwhile."""

    def __init__(self, world: World, inflicter: Inflicter, recovery: Recovery) -> None:
        self.world = world
        self.recovery = recovery
        self.inflicter = inflicter
        self.inflicted: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        #: (when, order, what to do)
        self.agenda: list[tuple[float, int, Callable[[], None]]] = []
        self.order = count()
        self.is_calm = False

    def rage(self, planned: Sequence[Fault]) -> None:
        """Return when the last fault is over."""
        began = time.monotonic()
        for fault in planned:
            at = began + fault.at_seconds
            self.wait(lambda at=at: self.is_calm or time.monotonic() >= at)  # type: ignore[misc]
            if self.is_calm:
                break
            if fault.kind in NEEDS_LIVING:
                self.wait(lambda: not self.agenda)
            if fault.kind in ALONE:
                self.wait(self.is_unhurt, CALM_SECONDS)
            self._strike(fault)
            if fault.kind in ALONE:
                self.wait(lambda: not self.agenda)
        self.wait(lambda: not self.agenda)

    def is_unhurt(self) -> bool:
        """Whether the server and all nodes work again; of jobs some always wait."""
        pending = {each.subject for each in self.recovery.pending}
        return not self.agenda and pending.isdisjoint({"server", *self.world.nodes})

    def hit_nobody(self) -> list[str]:
        return [f"{kind} hit nobody" for kind in MUST_HIT if self.missed[kind] and not self.inflicted[kind]]

    def wait(self, is_over: Callable[[], bool], seconds: float = float("inf")) -> bool:
        """Do what is due until the condition holds; return whether it did in time."""
        end = time.monotonic() + seconds
        while not is_over():
            if time.monotonic() > end:
                return False
            while self.agenda and self.agenda[0][0] <= time.monotonic():
                heapq.heappop(self.agenda)[2]()
            self.world.look_after()
            time.sleep(LOOK_SECONDS)
        return True

    def _strike(self, fault: Fault) -> None:
        struck: list[Inflicted] = []

        def strike() -> bool:
            if (done := self.inflicter.inflict(fault)) is not None:
                struck.append(done)
            return done is not None

        # A visitor has all open only when nothing else is hurt for a while.
        if not self.wait(strike, PATIENCE_SECONDS * (3 if fault.kind in MUST_HIT else 1)):
            self.missed[fault.kind] += 1
            log.info("%4d  %s: nobody is there", fault.number, fault.kind)
            return
        (done,) = struck
        self.inflicted[fault.kind] += 1
        log.info("%4d  %s", fault.number, done.description)

        def over() -> None:
            if done.undo is not None:
                done.undo()
            self.recovery.expect(fault.kind, done.subject)

        if done.undo is None:
            over()
        else:
            heapq.heappush(self.agenda, (time.monotonic() + fault.lasts_seconds, next(self.order), over))
