"""The agent's decisions: every order, repetition and loss of messages must end in the same place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeagent.machine import (
    ALIVE,
    NEVER_STARTED,
    AgentLeaving,
    AttemptAdopted,
    AttemptExited,
    AttemptPrepared,
    AttemptStarted,
    ChangeLimits,
    DesiredReceived,
    Event,
    ExtendLease,
    Forget,
    Instruction,
    Kill,
    LeaseChecked,
    LogsShipped,
    NameTrainers,
    Outcome,
    Part,
    Phase,
    Prepare,
    Release,
    Report,
    Start,
    State,
    Stop,
    step,
)
from nodeagent.messages import DesiredPart, DesiredState
from tests.agent.builders import make_part, make_replica
from tests.effort import examples

SUCCESS = Outcome(exit_code=0, category="", message="", started_at=1.0, ended_at=2.0)
LEASE_SECONDS = 10.0


def desired(
    generation: int, *parts: DesiredPart, sent_at: float = 0.0, exited: tuple[int, ...] = ()
) -> Event:
    document = DesiredState(
        generation=generation,
        lease_seconds=LEASE_SECONDS,
        report_seconds=1.0,
        parts=parts,
        want_inventory=False,
    )
    return DesiredReceived(desired=document, sent_at=sent_at, exited=frozenset(exited))


def feed(*events: Event, state: State | None = None) -> tuple[State, list[Instruction]]:
    """Take in the events in turn; return the last state and all instructions but lease extensions."""
    state = state or State()
    instructions: list[Instruction] = []
    for event in events:
        state, more = step(state, event)
        instructions += [item for item in more if not isinstance(item, ExtendLease)]
    return state, instructions


def kinds(instructions: list[Instruction]) -> list[str]:
    return [type(item).__name__ for item in instructions]


def test_a_part_of_one_node_runs_from_desired_to_forgotten() -> None:
    part = make_part(attempt=7)
    state, done = feed(desired(1, part))
    assert done == [Prepare(desired=part)]
    state, done = feed(AttemptPrepared(attempt=7, master_port=2000), state=state)
    assert done == [Start(desired=part), Report()]
    state, done = feed(AttemptStarted(attempt=7, at=5.0), state=state)
    assert (state.parts[7].phase, done) == (Phase.RUNNING, [Report()])
    state, done = feed(AttemptExited(attempt=7, outcome=SUCCESS), state=state)
    assert (state.parts[7].outcome, done) == (SUCCESS, [Report()])
    state, done = feed(desired(2, exited=(7,)), LogsShipped(attempt=7), state=state)
    assert (dict(state.parts), done) == ({}, [Forget(attempt=7)])


def test_a_gang_waits_for_go() -> None:
    waiting = make_part(attempt=7, go=False)
    state, done = feed(desired(1, waiting), AttemptPrepared(attempt=7, master_port=2000))
    assert kinds(done) == ["Prepare", "Report"]
    going = replace(waiting, go=True, master_address="10.0.0.9", master_port=2000)
    state, done = feed(desired(2, going), state=state)
    assert done == [Start(desired=going)]


def test_the_same_document_twice_changes_nothing() -> None:
    state, _ = feed(desired(1, make_part()), AttemptPrepared(attempt=1), AttemptStarted(attempt=1, at=1.0))
    again, done = feed(desired(1, make_part()), desired(1, make_part()), state=state)
    assert (again.parts, done) == (state.parts, [])


def test_an_older_document_is_ignored() -> None:
    state, _ = feed(desired(5, make_part()), AttemptPrepared(attempt=1), AttemptStarted(attempt=1, at=1.0))
    _, done = feed(desired(4), desired(3, make_part(attempt=9)), state=state)
    assert done == []


def test_what_is_not_wanted_any_more_is_stopped_with_its_grace() -> None:
    state, _ = feed(
        desired(1, make_part(grace_seconds=30.0)),
        AttemptPrepared(attempt=1),
        AttemptStarted(attempt=1, at=1.0),
    )
    state, done = feed(desired(2), state=state)
    assert done == [Stop(attempt=1, grace_seconds=30.0), Report()]
    _, done = feed(desired(2), desired(3), AttemptStarted(attempt=1, at=1.0), state=state)
    assert done == []


def test_a_stop_while_starting_is_not_lost() -> None:
    state, _ = feed(desired(1, make_part()), AttemptPrepared(attempt=1))
    state, done = feed(desired(2, make_part(stop=True)), AttemptStarted(attempt=1, at=1.0), state=state)
    assert kinds(done) == ["Stop", "Report"]
    assert state.parts[1].started_at == 1.0


def test_a_shorter_grace_is_passed_on_and_a_longer_one_is_not() -> None:
    state, _ = feed(desired(1, make_part()), AttemptPrepared(attempt=1), AttemptStarted(attempt=1, at=1.0))
    state, _ = feed(desired(2, make_part(stop=True, grace_seconds=20.0)), state=state)
    state, done = feed(desired(3, make_part(stop=True, grace_seconds=0.0)), state=state)
    assert done == [Stop(attempt=1, grace_seconds=0.0)]
    _, done = feed(desired(4, make_part(stop=True, grace_seconds=60.0)), state=state)
    assert done == []


@pytest.mark.parametrize("document", [desired(2), desired(2, make_part(go=False, stop=True))])
def test_one_that_never_started_ends_without_a_process(document: Event) -> None:
    state, _ = feed(desired(1, make_part(go=False)), AttemptPrepared(attempt=1))
    state, done = feed(document, state=state)
    assert done == [Release(attempt=1), Report()]
    outcome = state.parts[1].outcome
    assert outcome is not None
    assert (outcome.category, outcome.exit_code) == ("stopped", None)


def test_what_is_being_prepared_in_vain_is_given_back_once() -> None:
    state, _ = feed(desired(1, make_part(go=False)))
    state, done = feed(desired(2, make_part(stop=True)), desired(3), state=state)
    assert done == [Release(attempt=1)]
    state, done = feed(AttemptPrepared(attempt=1), state=state)
    assert done == [Report()]
    assert state.parts[1].outcome == NEVER_STARTED


def test_one_that_is_to_stop_and_is_unknown_is_not_begun_but_its_end_is_told() -> None:
    """The server waits for the end of everything that it names."""
    state, done = feed(desired(1, make_part(stop=True)))
    assert kinds(done) == ["Report"]
    assert state.parts[1].outcome == NEVER_STARTED
    state, done = feed(desired(2, exited=(1,)), state=state)
    assert kinds(done) == ["Forget"]
    assert not state.parts


def test_a_failed_preparation_is_an_end() -> None:
    failed = Outcome(exit_code=None, category="start_failed", message="no space left")
    state, done = feed(
        desired(1, make_part()), AttemptExited(attempt=1, outcome=failed), AttemptPrepared(attempt=1)
    )
    assert kinds(done) == ["Prepare", "Report"]
    assert state.parts[1].outcome == failed


def test_the_first_end_counts() -> None:
    state, _ = feed(
        desired(1, make_part()), AttemptPrepared(attempt=1), AttemptExited(attempt=1, outcome=SUCCESS)
    )
    lost = replace(SUCCESS, category="lost")
    state, done = feed(AttemptExited(attempt=1, outcome=lost), AttemptStarted(attempt=1, at=1.0), state=state)
    assert (state.parts[1].outcome, done) == (SUCCESS, [])


def test_an_exited_part_is_kept_until_the_server_let_go_and_has_all_output() -> None:
    state, _ = feed(
        desired(1, make_part()), AttemptPrepared(attempt=1), AttemptExited(attempt=1, outcome=SUCCESS)
    )
    # Still listed by a server that has not taken in the report: must not be started again.
    state, done = feed(desired(1, make_part()), desired(2, make_part(), exited=(1,)), state=state)
    assert done == []
    state, done = feed(LogsShipped(attempt=1), state=state)
    assert done == []
    _, done = feed(desired(3), state=state)
    assert done == [Forget(attempt=1)]


def test_the_lease_counts_from_when_the_report_was_sent_and_never_shrinks() -> None:
    state, instructions = step(State(), desired(1, sent_at=100.0))
    assert instructions == (ExtendLease(deadline=110.0, lease_seconds=10.0),)
    state, instructions = step(state, desired(1, sent_at=95.0))
    assert (state.lease_deadline, instructions) == (110.0, ())
    # An answer that is too old to be obeyed still proves that the server knew of us then.
    _, instructions = step(state, desired(0, sent_at=103.0))
    assert instructions == (ExtendLease(deadline=113.0, lease_seconds=10.0),)


def test_what_outlives_the_lease_is_killed() -> None:
    state, _ = feed(
        desired(1, make_part(), sent_at=100.0), AttemptPrepared(attempt=1), AttemptStarted(attempt=1, at=1.0)
    )
    assert feed(LeaseChecked(now=109.9), state=state)[1] == []
    assert feed(LeaseChecked(now=110.0), state=state)[1] == [Kill(attempt=1)]
    assert feed(LeaseChecked(now=110.0, frozen=frozenset({2})), state=state)[1] == [Kill(attempt=1)]


def test_what_stands_still_outlives_the_lease_and_goes_on_only_when_the_server_names_it() -> None:
    state, _ = feed(
        desired(1, make_part(), make_part(attempt=2), make_part(attempt=3), sent_at=100.0),
        *(AttemptPrepared(attempt=number) for number in (1, 2, 3)),
        *(AttemptStarted(attempt=number, at=1.0) for number in (1, 2, 3)),
    )
    assert feed(LeaseChecked(now=110.0, frozen=frozenset({1, 2, 3})), state=state)[1] == []
    # The server has given up the second; the third is to stop, and has the time for it.
    back = desired(2, make_part(), make_part(attempt=3, stop=True), make_part(attempt=4), sent_at=200.0)
    _, instructions = step(state, back)
    assert instructions[0] == ExtendLease(deadline=210.0, lease_seconds=10.0, attempts=frozenset({1, 3}))
    assert [one.attempt for one in instructions if isinstance(one, Stop)] == [2, 3]
    # An answer older than one that was obeyed names nothing that may go on.
    _, instructions = step(state, desired(0, make_part(), sent_at=200.0))
    assert instructions == (ExtendLease(deadline=210.0, lease_seconds=10.0),)


def test_gpus_of_what_the_server_has_given_up_are_given_to_others_when_it_is_dead() -> None:
    state, _ = feed(desired(1, make_part()), AttemptPrepared(attempt=1), AttemptStarted(attempt=1, at=1.0))
    elsewhere = make_part(make_replica(gpu_indexes=(3,)), attempt=3)
    state, done = feed(desired(2, make_part(attempt=2), elsewhere), state=state)
    assert [one.desired.attempt for one in done if isinstance(one, Prepare)] == [3]
    assert any(one == Stop(attempt=1, grace_seconds=5.0) for one in done)
    _, stopped = feed(desired(3, elsewhere), state=state)
    assert kinds(stopped) == ["Report"]  # It waited, and is over.
    state, done = feed(AttemptExited(attempt=1, outcome=SUCCESS), state=state)
    assert [one.desired.attempt for one in done if isinstance(one, Prepare)] == [2]


def test_the_lease_is_extended_before_anything_starts() -> None:
    state, _ = feed(desired(1, make_part(go=False)), AttemptPrepared(attempt=1))
    _, instructions = step(state, desired(2, make_part(), sent_at=50.0))
    assert kinds(list(instructions)) == ["ExtendLease", "Start"]


def test_what_was_adopted_is_left_alone_until_the_server_speaks() -> None:
    ready = Part(desired=make_part(attempt=1), phase=Phase.READY)
    running = Part(desired=make_part(attempt=2), phase=Phase.RUNNING)
    state, done = feed(AttemptAdopted(part=ready), AttemptAdopted(part=running), AttemptAdopted(part=running))
    assert done == [Report(), Report()]
    state, done = feed(desired(9, make_part(attempt=1)), state=state)
    assert kinds(done) == ["Start", "Stop", "Report"]


def test_leaving_stops_everything_and_begins_nothing() -> None:
    state, _ = feed(
        desired(1, make_part(attempt=1), make_part(attempt=2, go=False)),
        AttemptPrepared(attempt=1),
        AttemptPrepared(attempt=2),
        AttemptStarted(attempt=1, at=1.0),
        AttemptAdopted(part=Part(desired=make_part(attempt=4), phase=Phase.EXITED, outcome=SUCCESS)),
    )
    state, done = feed(AgentLeaving(grace_seconds=2.0), state=state)
    assert done == [
        Stop(attempt=1, grace_seconds=2.0, is_leaving=True),
        Release(attempt=2),
        Report(),
    ]
    assert state.parts[2].outcome is not None
    assert state.parts[2].outcome.category == "lost"
    _, done = feed(desired(2, make_part(attempt=2), make_part(attempt=3)), state=state)
    assert kinds(done) == []


class World:
    """A node on which instructions take effect late, and the rules that must hold whatever happens."""

    def __init__(self) -> None:
        self.state = State()
        self.newest: DesiredState | None = None
        self.prepared: set[int] = set()
        self.alive: set[int] = set()
        self.ended: set[int] = set()
        self.told_to_stop: set[int] = set()
        self.forgotten: set[int] = set()
        #: Ends that the machine was told of, that the server confirmed, whose output is stored.
        self.known: set[int] = set()
        self.confirmed: set[int] = set()
        self.shipped: set[int] = set()
        self.pending: list[Event] = []

    def post(self, event: Event) -> None:
        before = self.state
        if isinstance(event, DesiredReceived) and event.desired.generation >= before.generation:
            self.newest = event.desired
        match event:
            case DesiredReceived(exited=exited):
                self.confirmed |= exited
            case AttemptExited(attempt=attempt):
                self.known.add(attempt)
            case LogsShipped(attempt=attempt) if attempt in self.exited():
                self.shipped.add(attempt)
        self.state, instructions = step(before, event)
        assert self.state.lease_deadline >= before.lease_deadline
        assert self.state.generation >= before.generation
        for instruction in instructions:
            self.obey(instruction)

    def desired(self, attempt: int) -> DesiredPart | None:
        parts = self.newest.parts if self.newest else ()
        return next((part for part in parts if part.attempt == attempt), None)

    def obey(self, instruction: Instruction) -> None:
        match instruction:
            case Prepare(desired=desired):
                assert desired.attempt not in self.prepared, "prepared twice"
                self.prepared.add(desired.attempt)
                self.pending.append(AttemptPrepared(attempt=desired.attempt, master_port=2000))
            case Start(desired=desired):
                assert desired.attempt in self.prepared
                assert desired.attempt not in self.alive | self.ended | self.told_to_stop, "started twice"
                newest = self.desired(desired.attempt)
                assert newest is not None, "nobody desires it"
                assert newest.go
                assert not newest.stop
                self.alive.add(desired.attempt)
                self.pending.append(AttemptStarted(attempt=desired.attempt, at=1.0))
            case Stop(attempt=attempt):
                assert attempt in self.alive | self.ended
                assert attempt not in self.known, "told to stop though it is known to be over"
                self.told_to_stop.add(attempt)
            case Forget(attempt=attempt):
                assert attempt not in self.alive
                assert attempt in self.confirmed
                assert attempt in self.shipped or attempt not in self.prepared
                assert attempt not in self.forgotten
                self.forgotten.add(attempt)

    def end(self, attempt: int) -> None:
        """The processes are gone; the news of it travels."""
        self.alive.discard(attempt)
        self.ended.add(attempt)
        self.pending.append(AttemptExited(attempt=attempt, outcome=SUCCESS))

    def exited(self) -> frozenset[int]:
        return frozenset(number for number, part in self.state.parts.items() if part.phase is Phase.EXITED)


def lives(attempt: int) -> st.SearchStrategy[list[DesiredPart | None]]:
    """What successive documents say of one attempt: an id that is gone does not come back."""
    stages = [
        None,
        make_part(attempt=attempt, go=False),
        make_part(attempt=attempt),
        make_part(attempt=attempt, stop=True, grace_seconds=9.0),
        make_part(attempt=attempt, stop=True, grace_seconds=0.0),
        None,
    ]
    return st.lists(st.integers(0, 5), min_size=8, max_size=8).map(
        lambda picks: [stages[pick] for pick in sorted(picks)]
    )


@settings(max_examples=examples(150))
@given(histories=st.tuples(*(lives(attempt) for attempt in (1, 2, 3))), data=st.data())
def test_any_order_repetition_and_loss_ends_in_what_is_desired(histories: Any, data: st.DataObject) -> None:
    documents = [
        DesiredState(
            generation=number,
            lease_seconds=LEASE_SECONDS,
            report_seconds=1.0,
            parts=tuple(history[number] for history in histories if history[number] is not None),
        )
        for number in range(8)
    ]
    world = World()
    for moment in range(data.draw(st.integers(0, 30))):
        match data.draw(st.sampled_from(["document", "event", "repeat", "die", "ship", "lease"])):
            case "document":
                document = data.draw(st.sampled_from(documents))
                world.post(DesiredReceived(desired=document, sent_at=float(moment), exited=world.exited()))
            case "event" if world.pending:
                world.post(world.pending.pop(data.draw(st.integers(0, len(world.pending) - 1))))
            case "repeat" if world.pending:
                world.post(data.draw(st.sampled_from(world.pending)))
            case "die" if world.alive:
                world.end(data.draw(st.sampled_from(sorted(world.alive))))
            case "ship":
                world.post(LogsShipped(attempt=data.draw(st.integers(1, 3))))
            case "lease":
                now, frozen = data.draw(st.floats(0.0, 50.0)), data.draw(st.frozensets(st.integers(1, 3)))
                world.post(LeaseChecked(now=now, frozen=frozen))

    # Whatever happened so far: once messages arrive again, everything settles.
    for _ in range(4):
        world.post(DesiredReceived(desired=documents[-1], sent_at=100.0, exited=world.exited()))
        for attempt in sorted(world.alive & world.told_to_stop):
            world.end(attempt)
        while world.pending:
            world.post(world.pending.pop(0))
        for attempt in world.exited():
            world.post(LogsShipped(attempt=attempt))

    going = {part.attempt for part in documents[-1].parts if part.go and not part.stop}
    assert world.alive == going - world.ended
    alive = {number for number, part in world.state.parts.items() if part.phase in ALIVE}
    assert alive == world.alive
    assert set(world.state.parts) <= {part.attempt for part in documents[-1].parts}


def test_other_limits_are_told_once_and_only_to_what_is_alive() -> None:
    part = make_part()
    more = replace(part, replicas=tuple(replace(each, cpus=3.0) for each in part.replicas))
    document = DesiredState(generation=1, lease_seconds=LEASE_SECONDS, report_seconds=1.0, parts=(more,))
    for phase in Phase:
        state = State(parts={part.attempt: Part(desired=part, phase=phase)})
        state, first = feed(DesiredReceived(desired=document, sent_at=0.0), state=state)
        told = [each for each in first if isinstance(each, ChangeLimits)]
        assert told == ([ChangeLimits(desired=more)] if phase in ALIVE else [])
        _, again = feed(DesiredReceived(desired=document, sent_at=0.0), state=state)
        assert "ChangeLimits" not in kinds(again)


def test_other_trainers_are_named_once_and_only_to_what_is_alive() -> None:
    part = make_part(trainers="10.0.0.1:7070")
    joined = replace(part, trainers="10.0.0.1:7070,10.0.0.2:7070")
    document = DesiredState(generation=1, lease_seconds=LEASE_SECONDS, report_seconds=1.0, parts=(joined,))
    for phase in Phase:
        state = State(parts={part.attempt: Part(desired=part, phase=phase)})
        state, first = feed(DesiredReceived(desired=document, sent_at=0.0), state=state)
        named = [each for each in first if isinstance(each, NameTrainers)]
        assert named == ([NameTrainers(attempt=1, trainers=joined.trainers)] if phase in ALIVE else [])
        _, again = feed(DesiredReceived(desired=document, sent_at=0.0), state=state)
        assert "NameTrainers" not in kinds(again)
