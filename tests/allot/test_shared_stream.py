"""One stream for several trainers: real processes, of which some are killed, late, slow or strangers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from allot import training
from allot.training.errors import TrainingError
from allot.training.input_workers import line as wire
from allot.training.input_workers import trainer as trainers_end
from allot.training.input_workers import worker as workers_end
from allot.training.input_workers.line import LineError
from allot.training.input_workers.stream import WINDOW, Follower, Missed, Window
from allot.training.input_workers.trainer import InputWorkers
from allot.training.input_workers.worker import Worker
from tests.patience import PATIENCE_SECONDS, until

SECRET = "a secret of this test"
#: Batches that a trainer has asked for at most, by default.
BUFFER = 16
PROGRAMS = """
import itertools, os, sys, time
from pathlib import Path
import numpy as np

def make(number):
    time.sleep(0.002)
    with open("made", "a") as made:
        made.write(f"{number}\\n")
    return np.array([number, os.getpid()])

def train(name):
    from allot import training
    with training.session(folder=Path(name)) as run, run.input_workers(shared=True) as inputs:
        Path(name, "port.new").write_text(str(inputs.port))
        os.replace(Path(name, "port.new"), Path(name, "port"))
        with open(Path(name, "had"), "a", buffering=1) as had:
            for number, batch in inputs.stream():
                assert number == batch[0]
                had.write(f"{number}\\n")
                if Path(name, "end").exists():
                    print(inputs.skipped, inputs.lost)
                    return

if __name__ == "__main__":
    train(sys.argv[1])
"""


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(trainers_end, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(workers_end, "FOLLOW_SECONDS", 0.02)


class Search:
    """Trainers and workers of one search, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        (folder / "programs.py").write_text(PROGRAMS)
        self.folder = folder
        self.processes: list[subprocess.Popen[str]] = []
        self._trainers: list[str] = []

    def _start(self, *command: str, secret: str = SECRET) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "ALLOT_INPUT_SECRET": secret},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def train(self, name: str, *, secret: str = SECRET) -> subprocess.Popen[str]:
        process = self._start("programs.py", name, secret=secret)
        port = self.folder / name / "port"
        until(port.exists, f"{name} to wait for workers")
        self.tell([*self._trainers, f"127.0.0.1:{port.read_text()}"])
        return process

    def tell(self, trainers: list[str]) -> None:
        """Say who follows the stream, as the node does."""
        self._trainers = trainers
        (self.folder / "trainers").write_text(",".join(trainers) + "\n")

    def work(self) -> subprocess.Popen[str]:
        module = "allot.training.input_workers"
        return self._start("-m", module, "programs:make", "--trainers-file", "trainers")

    def had(self, name: str) -> list[int]:
        return self._numbers(self.folder / name / "had")

    @property
    def made(self) -> list[int]:
        return self._numbers(self.folder / "made")

    def _numbers(self, file: Path) -> list[int]:
        text = file.read_text() if file.exists() else ""
        return [int(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def end(self, name: str, process: subprocess.Popen[str]) -> tuple[int, int]:
        """Let a trainer end; return how many batches it says that it skipped and lost."""
        (self.folder / name / "end").touch()
        said, _ = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0
        skipped, lost = map(int, said.split()[-2:])
        return skipped, lost


@pytest.fixture
def run(tmp_path: Path) -> Iterator[training.Session]:
    with training.session(folder=tmp_path / "checkpoints") as session:
        yield session


@pytest.fixture
def search(tmp_path: Path) -> Iterator[Search]:
    search = Search(tmp_path)
    yield search
    for process in search.processes:
        process.kill()
        process.wait()


def accounts_for_all(had: list[int], skipped: int) -> bool:
    """Whether what was had and what is said to be skipped is the stream, but for what is on its way."""
    return 0 <= max(had) + 1 - min(had) - len(once(had)) - skipped + BUFFER <= 2 * BUFFER


def once(numbers: list[int]) -> set[int]:
    assert len(set(numbers)) == len(numbers), "each at most once"
    return set(numbers)


def test_two_trainers_have_the_same_batches_and_the_worker_makes_each_once(search: Search) -> None:
    first, second = search.train("first"), search.train("second")
    search.work()
    until(lambda: len(search.had("first")) > 200 and len(search.had("second")) > 200)
    ends = search.end("first", first), search.end("second", second)
    had = {name: once(search.had(name)) for name in ("first", "second")}
    assert once(search.made) >= had["first"] | had["second"]
    for name, (skipped, lost) in zip(had, ends, strict=True):
        assert lost == 0
        assert accounts_for_all(search.had(name), skipped)
    assert len(had["first"] & had["second"]) > 100


def test_one_killed_and_one_late_cost_the_others_nothing(search: Search) -> None:
    first, killed = search.train("first"), search.train("killed")
    worker = search.work()
    until(lambda: len(search.had("killed")) > 50)
    killed.kill()
    killed.wait()
    before = len(search.had("first"))
    until(lambda: len(search.had("first")) > before + 300)
    late = search.train("late")
    until(lambda: len(search.had("late")) > 50)
    joined = min(search.had("late"))
    assert joined > 100, "it begins where the stream stands"
    skipped, lost = search.end("late", late)
    assert lost == 0
    assert accounts_for_all(search.had("late"), skipped), "what was before it is not skipped"
    before = len(search.had("first"))
    until(lambda: len(search.had("first")) > before + 50)
    skipped, lost = search.end("first", first)
    assert lost == 0
    assert accounts_for_all(search.had("first"), skipped)
    once(search.had("late"))
    once(search.made)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE_SECONDS) == 0


def test_a_trainer_that_stands_still_skips_what_is_past_and_counts_it(search: Search) -> None:
    first, slow = search.train("first"), search.train("slow")
    search.work()
    until(lambda: len(search.had("slow")) > 20)
    slow.send_signal(signal.SIGSTOP)
    stood = max(search.had("slow"))
    until(lambda: max(search.had("first")) > stood + 3 * WINDOW)
    slow.send_signal(signal.SIGCONT)
    before = len(search.had("slow"))
    until(lambda: len(search.had("slow")) > before + 50)
    skipped, _ = search.end("slow", slow)
    assert skipped > WINDOW
    assert accounts_for_all(search.had("slow"), skipped)
    assert accounts_for_all(search.had("first"), search.end("first", first)[0])
    once(search.made)


def test_workers_come_and_go_and_no_trainer_has_a_batch_twice(search: Search) -> None:
    first, second = search.train("first"), search.train("second")
    workers = [search.work(), search.work()]
    until(lambda: len(search.had("first")) > 50)
    workers[0].kill()
    workers[0].wait()
    search.work()
    before = len(search.had("second"))
    until(lambda: len(search.had("second")) > before + 100)
    workers[1].terminate()
    assert workers[1].wait(PATIENCE_SECONDS) == 0
    before = len(search.had("first"))
    until(lambda: len(search.had("first")) > before + 100)
    _, lost = search.end("first", first)
    search.end("second", second)
    assert lost <= BUFFER, "what was asked of the one that was killed"
    once(search.had("first"))
    once(search.had("second"))


def test_a_stranger_gets_nothing_of_the_stream(search: Search) -> None:
    search.train("first")
    search.train("stranger", secret="a secret of another user")
    search.work()
    until(lambda: len(search.had("first")) > 100)
    assert search.had("stranger") == []


def test_a_stranger_that_claims_to_be_a_worker_is_cut_off(run: training.Session) -> None:
    with shared(run) as inputs:
        stranger = socket.create_connection(("127.0.0.1", inputs.port))
        with stranger, pytest.raises(LineError, match="as it does if the secrets differ"):
            wire.reach_trainer(stranger, b"a secret of another user")
        assert inputs.connected == 0


def shared(run: training.Session) -> InputWorkers:
    return run.input_workers(secret=SECRET, shared=True)


def test_a_stream_gives_nothing_exactly_once_and_says_so(run: training.Session) -> None:
    with shared(run) as inputs:
        with pytest.raises(TrainingError, match=r"use stream\(\), which gives each batch at most once"):
            next(inputs.batches([1]))
        assert inputs.line()["input_skipped"] == 0
    with run.input_workers(secret=SECRET) as inputs:
        with pytest.raises(TrainingError, match="are not shared: use batches"):
            next(inputs.stream())
        assert "input_skipped" not in inputs.line()


def test_a_function_that_raises_ends_the_stream_with_its_reason(run: training.Session) -> None:
    def make(number: int) -> object:
        if number == 3:
            raise ValueError("no such row")
        return b"batch"

    reason = "cannot make a batch of 3: ValueError: no such row"
    with shared(run) as inputs, following(inputs, make), pytest.raises(TrainingError, match=reason):
        for _ in inputs.stream():
            pass


def test_a_trainer_may_leave_the_stream_and_come_back_to_where_it_stands(run: training.Session) -> None:
    with shared(run) as inputs, following(inputs, lambda number: str(number).encode()):
        numbers = []
        for number, batch in inputs.stream():
            assert batch == str(number).encode()
            numbers.append(number)
            if len(numbers) == 3 * WINDOW:
                break
        again, _ = next(iter(inputs.stream()))
        assert again > WINDOW
        assert inputs.skipped == 0


class following:
    """A worker in a thread of this process that follows one trainer."""

    def __init__(self, inputs: InputWorkers, make: Callable[[Any], object]) -> None:
        self._worker = Worker(make, SECRET.encode(), give_up_seconds=PATIENCE_SECONDS)
        at = [("127.0.0.1", inputs.port)]
        self._thread = threading.Thread(target=self._worker.follow, args=(lambda: at,))

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._worker.leave()
        self._thread.join()


def test_a_window_keeps_the_newest_within_numbers_and_bytes() -> None:
    made = list[int]()

    def make(number: int) -> object:
        made.append(number)
        return np.zeros(1000, np.uint8)

    window = Window(make, most_bytes=10_000)
    for number in range(30):
        assert not isinstance(window.batch(number), Missed)
    missed = window.batch(3)
    assert isinstance(missed, Missed)
    assert 18 <= missed.floor <= 21
    assert not isinstance(window.batch(missed.floor), Missed)
    assert made == list(range(30)), "each once"
    window.batch(1000)
    assert window.batch(1000 - WINDOW) == Missed(1001 - WINDOW)


def test_one_that_is_made_is_waited_for_and_not_made_again() -> None:
    begun, may_end, made = threading.Event(), threading.Event(), list[int]()

    def make(number: int) -> object:
        made.append(number)
        begun.set()
        assert may_end.wait(PATIENCE_SECONDS)
        return b"batch"

    window, had = Window(make), list[object]()
    threads = [threading.Thread(target=lambda: had.append(window.batch(0))) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert begun.wait(PATIENCE_SECONDS)
    may_end.set()
    for thread in threads:
        thread.join()
    assert (len(had), made) == (2, [0])


def test_trainers_ask_the_same_worker_for_a_number_whatever_the_order_in_which_workers_joined() -> None:
    one, other = Follower(buffer=8), Follower(buffer=8)
    for worker, name in enumerate("abc"):
        one.join(worker, name)
        other.join(10 - worker, name)
    asked = {number: worker for worker, number in one.assign()}
    assert {number: 10 - worker for worker, number in other.assign()} == asked
    assert sorted(asked) == list(range(8))
    assert one.assign() == []
    assert one.leave(0, gives_back=True) == [0, 3, 6]
    assert [number for _, number in one.assign()] == [0, 3, 6]
    lost = one.leave(1)
    assert 0 < len(lost) == one.lost
    assert not any(number in lost for _, number in one.assign()), "it goes without them"
