"""The machine of an attempt: every state and event, and what holds whatever happens."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.core.model.attempts import (
    OUTCOME_BY_CAUSE,
    Effect,
    EndJob,
    Event,
    Go,
    JobAfter,
    NoteFailure,
    NotePart,
    Part,
    PartExited,
    PartReady,
    PartRunning,
    Promoted,
    ReleaseAll,
    ReleaseNode,
    StartJob,
    State,
    Step,
    Stopped,
    TellToStop,
    Withdrawn,
    job_after,
    planned,
    step,
    stop_cause,
)
from scheduler.core.model.errors import InvalidTransition
from scheduler.core.model.holds import GpuHolds
from scheduler.core.model.lifecycle import (
    ATTEMPT_STEPS,
    AttemptEvent,
    AttemptState,
    Outcome,
    PartState,
    StopCause,
)
from scheduler.core.model.snapshot import AllocationId, GpuId
from tests.effort import examples

DONE = PartExited(node=1, exit_code=0)
CRASHED = PartExited(node=1, exit_code=1, category="user")
LOST = PartExited(node=1, exit_code=137, category="lost")
STOPPED = PartExited(node=1, exit_code=0, category="stopped")
PREEMPTED = Stopped(cause=StopCause.PREEMPTED)
CANCELLED = Stopped(cause=StopCause.CANCELLED)


def feed(state: State, *events: Event) -> tuple[State, list[Effect]]:
    """Let the events happen in turn; return the last state and all effects."""
    effects: list[Effect] = []
    for event in events:
        state, more = step(state, event)
        effects += more
    return state, effects


def kinds(effects: list[Effect]) -> list[str]:
    return [str(one.event) if isinstance(one, Step) else type(one).__name__ for one in effects]


def of_state(state: AttemptState, *nodes: int) -> State:
    """An attempt on these nodes (one, unless told) that came to a state in the usual way."""
    nodes = nodes or (1,)
    events: list[Event] = [Promoted(), *(PartReady(node=node) for node in nodes)]
    running = [*events, *(PartRunning(node=node) for node in nodes)]
    ways: dict[AttemptState, list[Event]] = {
        AttemptState.PLANNED: [],
        AttemptState.STARTING: events[:1],
        AttemptState.RUNNING: running,
        AttemptState.STOPPING: [*running, PREEMPTED],
        AttemptState.ENDED: [*running, *(PartExited(node=node, exit_code=0) for node in nodes)],
    }
    found, _ = feed(planned(7, nodes), *ways[state])
    assert found.state is state
    return found


PLANNED, STARTING, RUNNING, STOPPING, ENDED = AttemptState
INVALID = "invalid"
NOTHING: list[str] = []
END = ["ReleaseAll", "ended", "EndJob"]
FAILS = ["NotePart", "NoteFailure", *END]

#: What every event does in every state, of an attempt on one node: (state after it, effects).
TABLE: dict[tuple[AttemptState, Event], tuple[AttemptState, list[str]] | str] = {
    (PLANNED, Promoted()): (STARTING, ["promoted"]),
    (PLANNED, Withdrawn()): (ENDED, ["NotePart", *END]),
    (PLANNED, PREEMPTED): (ENDED, ["NoteCause", "NotePart", *END]),
    (PLANNED, CANCELLED): (ENDED, ["NoteCause", "NotePart", *END]),
    (PLANNED, PartReady(node=1)): INVALID,
    (PLANNED, PartRunning(node=1)): INVALID,
    (PLANNED, DONE): INVALID,
    (PLANNED, CRASHED): INVALID,
    (PLANNED, LOST): INVALID,
    (STARTING, Promoted()): INVALID,
    (STARTING, Withdrawn()): INVALID,
    (STARTING, PREEMPTED): (STOPPING, ["stop", "TellToStop"]),
    (STARTING, CANCELLED): (STOPPING, ["stop", "TellToStop"]),
    (STARTING, PartReady(node=1)): (STARTING, ["NotePart"]),
    (STARTING, PartRunning(node=1)): (RUNNING, ["NotePart", "running", "StartJob"]),
    (STARTING, DONE): (ENDED, ["NotePart", *END]),
    (STARTING, CRASHED): (ENDED, FAILS),
    (STARTING, LOST): (ENDED, FAILS),
    (RUNNING, Promoted()): INVALID,
    (RUNNING, Withdrawn()): INVALID,
    (RUNNING, PREEMPTED): (STOPPING, ["stop", "TellToStop"]),
    (RUNNING, CANCELLED): (STOPPING, ["stop", "TellToStop"]),
    (RUNNING, PartReady(node=1)): (RUNNING, NOTHING),
    (RUNNING, PartRunning(node=1)): (RUNNING, NOTHING),
    (RUNNING, DONE): (ENDED, ["NotePart", *END]),
    (RUNNING, CRASHED): (ENDED, FAILS),
    (RUNNING, LOST): (ENDED, FAILS),
    (STOPPING, Promoted()): INVALID,
    (STOPPING, Withdrawn()): INVALID,
    (STOPPING, PREEMPTED): (STOPPING, NOTHING),
    (STOPPING, CANCELLED): (STOPPING, ["NoteCause"]),
    (STOPPING, PartReady(node=1)): (STOPPING, NOTHING),
    (STOPPING, PartRunning(node=1)): (STOPPING, NOTHING),
    (STOPPING, DONE): (ENDED, ["NotePart", *END]),
    (STOPPING, CRASHED): (ENDED, ["NotePart", *END]),
    (STOPPING, LOST): (ENDED, ["NotePart", *END]),
    (ENDED, Promoted()): INVALID,
    (ENDED, Withdrawn()): INVALID,
    (ENDED, PREEMPTED): INVALID,
    (ENDED, CANCELLED): INVALID,
    (ENDED, PartReady(node=1)): (ENDED, NOTHING),
    (ENDED, PartRunning(node=1)): (ENDED, NOTHING),
    (ENDED, DONE): (ENDED, NOTHING),
    (ENDED, CRASHED): (ENDED, NOTHING),
    (ENDED, LOST): (ENDED, NOTHING),
}


class TestTable:
    @pytest.mark.parametrize(("before", "event"), TABLE, ids=lambda value: str(value))
    def test_every_event_in_every_state(self, before: AttemptState, event: Event) -> None:
        expected, state = TABLE[before, event], of_state(before)
        if expected == INVALID:
            with pytest.raises(InvalidTransition, match=f"attempt 7 is {before}: it cannot take the step"):
                step(state, event)
            return
        after, effects = step(state, event)
        assert (after.state, kinds([*effects])) == expected

    def test_no_state_and_no_kind_of_event_is_left_out(self) -> None:
        events = {event for _, event in TABLE}
        assert {type(event) for event in events} == {
            Promoted, Withdrawn, Stopped, PartReady, PartRunning, PartExited,
        }  # fmt: skip
        assert set(TABLE) == {(state, event) for state in AttemptState for event in events}

    def test_a_node_that_has_no_part_in_it_is_refused(self) -> None:
        with pytest.raises(InvalidTransition, match="'running on node 9'"):
            step(of_state(STARTING), PartRunning(node=9))


class TestGang:
    def test_it_goes_when_the_last_node_is_ready_and_runs_when_the_last_node_runs(self) -> None:
        state, effects = feed(planned(7, (1, 2)), Promoted(), PartReady(node=2))
        assert (state.go, kinds(effects)) == (False, ["promoted", "NotePart"])
        state, effects = feed(state, PartReady(node=1))
        assert (state.go, effects) == (True, [NotePart(node=1), Go()])
        state, effects = feed(state, PartRunning(node=1))
        assert (state.state, effects) == (STARTING, [NotePart(node=1)])
        state, effects = feed(state, PartRunning(node=2))
        assert effects == [NotePart(node=2), Step(event=AttemptEvent.RUNNING), StartJob()]

    def test_one_node_has_nobody_to_wait_for(self) -> None:
        assert of_state(STARTING, 1).go
        assert not of_state(STARTING, 1, 2).go

    def test_a_part_that_fails_takes_the_others_with_it(self) -> None:
        state, effects = feed(of_state(RUNNING, 1, 2, 3), CRASHED)
        assert (state.state, state.stop_cause) == (STOPPING, StopCause.PART_FAILED)
        assert effects == [
            NotePart(node=1),
            NoteFailure(node=1),
            Step(event=AttemptEvent.STOP),
            ReleaseNode(node=1),
            TellToStop(nodes=(2, 3)),
        ]
        state, effects = feed(state, replace(STOPPED, node=2))
        assert effects == [NotePart(node=2), ReleaseNode(node=1), ReleaseNode(node=2)]
        state, effects = feed(state, replace(STOPPED, node=3))
        assert effects[-1] == EndJob(outcome=Outcome.FAILED, was_live=True)

    def test_one_that_is_done_first_is_held_whole(self) -> None:
        state, effects = feed(of_state(RUNNING, 1, 2), DONE)
        assert (state.state, effects) == (RUNNING, [NotePart(node=1)])
        _, effects = feed(state, PREEMPTED)
        assert effects == [
            Step(event=AttemptEvent.STOP),
            ReleaseNode(node=1),
            TellToStop(nodes=(2,)),
        ]


class TestEnd:
    def test_the_parts_of_one_that_never_began_end_with_it(self) -> None:
        state, effects = feed(planned(7, (1, 2)), CANCELLED)
        assert effects[1:4] == [NotePart(node=1), NotePart(node=2), ReleaseAll()]
        assert state.parts == dict.fromkeys((1, 2), Part(state=PartState.EXITED))

    @pytest.mark.parametrize("cause", [cause for cause in StopCause if cause])
    def test_it_ends_by_why_it_was_stopped(self, cause: StopCause) -> None:
        state, effects = feed(of_state(RUNNING), Stopped(cause=cause), STOPPED)
        assert state.outcome is OUTCOME_BY_CAUSE[cause]
        assert effects[-1] == EndJob(outcome=OUTCOME_BY_CAUSE[cause], was_live=True)

    def test_one_that_ends_well_by_itself_has_succeeded_though_it_was_told_to_stop(self) -> None:
        assert feed(of_state(RUNNING), PREEMPTED, DONE)[0].outcome is Outcome.SUCCEEDED

    def test_a_cancel_outranks_what_it_stops_for(self) -> None:
        assert feed(of_state(RUNNING), PREEMPTED, CANCELLED, STOPPED)[0].outcome is Outcome.CANCELLED

    def test_a_lost_node_is_no_failure(self) -> None:
        state, _ = feed(of_state(RUNNING), LOST)
        assert (state.outcome, state.stop_cause) == (Outcome.LOST, StopCause.NODE_LOST)

    @pytest.mark.parametrize(
        ("outcome", "was_live", "is_trial", "cancelling", "after"),
        [
            (Outcome.SUCCEEDED, True, False, False, JobAfter.SUCCEEDED),
            (Outcome.SUCCEEDED, True, False, True, JobAfter.SUCCEEDED),
            (Outcome.SUCCEEDED, True, True, False, JobAfter.TRIAL_PASSED),
            (Outcome.SUCCEEDED, True, True, True, JobAfter.CANCELLED),
            (Outcome.FAILED, True, False, False, JobAfter.FAILED),
            (Outcome.FAILED, False, False, False, JobAfter.FAILED),
            (Outcome.FAILED, True, False, True, JobAfter.CANCELLED),
            (Outcome.PREEMPTED, True, False, False, JobAfter.PREEMPTED),
            (Outcome.PREEMPTED, True, False, True, JobAfter.CANCELLED),
            (Outcome.PREEMPTED, False, False, False, JobAfter.UNCHANGED),
            (Outcome.LOST, True, False, False, JobAfter.LOST),
            (Outcome.CANCELLED, False, False, False, JobAfter.UNCHANGED),
            (Outcome.CANCELLED, False, False, True, JobAfter.CANCELLED),
        ],
    )
    def test_what_becomes_of_the_job(
        self, outcome: Outcome, was_live: bool, is_trial: bool, cancelling: bool, after: JobAfter
    ) -> None:
        end = EndJob(outcome=outcome, was_live=was_live)
        assert job_after(end, is_trial=is_trial, cancelling=cancelling) is after

    @pytest.mark.parametrize(
        ("cause", "is_over", "cancelling", "told"),
        [
            (StopCause.PREEMPTED, False, False, StopCause.PREEMPTED),
            (StopCause.DRAINED, True, True, StopCause.DRAINED),
            (StopCause.TIME_LIMIT, True, False, StopCause.TIME_LIMIT),
            (StopCause.TIME_LIMIT, False, True, StopCause.PREEMPTED),
            (StopCause.CANCELLED, False, True, StopCause.CANCELLED),
            (StopCause.CANCELLED, True, False, StopCause.PREEMPTED),
        ],
    )
    def test_of_jobs_that_share_gpus_each_stops_for_its_own_reason(
        self, cause: StopCause, is_over: bool, cancelling: bool, told: StopCause
    ) -> None:
        assert stop_cause(cause, is_over=is_over, cancelling=cancelling) is told


def events(nodes: int) -> st.SearchStrategy[Event]:
    return st.builds(Promoted) | events_after_nomination(nodes)


def events_after_nomination(nodes: int) -> st.SearchStrategy[Event]:
    node = st.integers(1, nodes)
    causes = st.sampled_from([cause for cause in StopCause if cause])
    exits = st.tuples(st.sampled_from([0, 1, 137]), st.sampled_from(["", "user", "stopped", "lost"]))
    return st.one_of(
        st.builds(Withdrawn),
        st.builds(Stopped, cause=causes),
        st.builds(PartReady, node=node),
        st.builds(PartRunning, node=node),
        st.builds(lambda node, how: PartExited(node=node, exit_code=how[0], category=how[1]), node, exits),
    )


@settings(max_examples=examples(300))
@given(st.data(), st.integers(1, 3))
def test_whatever_happens(data: st.DataObject, nodes: int) -> None:
    state = planned(7, range(1, nodes + 1))
    for event in data.draw(st.lists(events(nodes), max_size=20)):
        try:
            after, effects = step(state, event)
        except InvalidTransition:
            continue
        steps = [effect.event for effect in effects if isinstance(effect, Step)]
        assert len(steps) == (after.state is not state.state), "every change of state is one step"
        assert all(ATTEMPT_STEPS[state.state, taken] is after.state for taken in steps)
        if state.state is ENDED:
            assert (after, effects) == (state, ()), "ended is final"
        assert (after.outcome is not None) == (after.state is ENDED)
        assert (ReleaseAll() in effects) == (steps == [AttemptEvent.ENDED])
        assert sum(isinstance(effect, EndJob) for effect in effects) == (steps == [AttemptEvent.ENDED])
        if after.state is RUNNING:
            unbegun = {PartState.WAITING, PartState.READY}
            assert not unbegun & {part.state for part in after.parts.values()}
        if after.state is ENDED:
            assert not after.unended_nodes, "nothing of it is alive anywhere"
        for effect in effects:
            if isinstance(effect, ReleaseNode):
                assert after.parts[effect.node].state is PartState.EXITED, "no GPU is given back too early"
        again, nothing = (
            (after, ()) if isinstance(event, Promoted | Withdrawn | Stopped) else step(after, event)
        )
        assert (again, nothing) == (after, ()), "what a node says twice changes nothing"
        state = after


class ManyAttempts(RuleBasedStateMachine):
    """Attempts that share a few GPUs, and the smallest writer: whoever is promoted holds its own."""

    NODES = 3

    @initialize()
    def begin(self) -> None:
        self.numbers = count(1)
        self.attempts: dict[int, State] = {}
        self.holds = GpuHolds()

    def gpus(self, number: int) -> list[GpuId]:
        return [GpuId(node) for node in self.attempts[number].parts]

    def take(self, number: int, event: Event) -> None:
        try:
            self.attempts[number], effects = step(self.attempts[number], event)
        except InvalidTransition:
            return
        for effect in effects:
            if effect == Step(event=AttemptEvent.PROMOTED):
                self.holds.promote(AllocationId(number), self.gpus(number))
            elif isinstance(effect, ReleaseNode):
                self.holds.release(AllocationId(number), [GpuId(effect.node)])
            elif isinstance(effect, ReleaseAll):
                self.holds.release(AllocationId(number), self.gpus(number))

    @rule(nodes=st.sets(st.integers(1, NODES), min_size=1))
    def plan(self, nodes: set[int]) -> None:
        if not self.holds.nominees(map(GpuId, nodes)):
            number = next(self.numbers)
            self.attempts[number] = planned(number, sorted(nodes))
            self.holds.grant(AllocationId(number), map(GpuId, nodes), has_left=False)

    @precondition(lambda self: self.attempts)
    @rule(data=st.data())
    def promote(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.attempts)))
        is_planned = self.attempts[number].state is AttemptState.PLANNED
        if is_planned and self.holds.may_promote(AllocationId(number), self.gpus(number)):
            self.take(number, Promoted())

    @precondition(lambda self: self.attempts)
    @rule(data=st.data(), event=events_after_nomination(NODES))
    def happen(self, data: st.DataObject, event: Event) -> None:
        self.take(data.draw(st.sampled_from(sorted(self.attempts))), event)

    @invariant()
    def a_gpu_is_held_by_the_one_live_attempt_that_may_use_it(self) -> None:
        for node in range(1, self.NODES + 1):
            alive = [
                number
                for number, state in self.attempts.items()
                if state.is_live and node in state.unended_nodes
            ]
            assert len(alive) <= 1
            assert not alive or list(self.holds.holders(GpuId(node))) == alive

    @invariant()
    def what_has_ended_holds_nothing(self) -> None:
        if not any(state.is_live for state in self.attempts.values()):
            assert self.holds.in_use == 0


TestManyAttempts = ManyAttempts.TestCase
TestManyAttempts.settings = settings(max_examples=examples(60), stateful_step_count=30)


def test_parts_say_whether_they_succeeded() -> None:
    assert Part(exit_code=0).succeeded
    assert not Part(exit_code=0, category="stopped").succeeded
    assert not Part(exit_code=1).succeeded
    assert not Part().succeeded
