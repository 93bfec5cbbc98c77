"""Input workers over real sockets: processes that come, go and are killed, and peers that mean harm."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from allot import training
from allot.training.input_workers import line as wire
from allot.training.input_workers import trainer as trainers_end
from allot.training.input_workers.batch import BatchError, pack, unpack
from allot.training.input_workers.line import LineError
from allot.training.input_workers.trainer import STRANGERS_MOST, InputWorkers
from allot.training.input_workers.worker import Worker
from tests.patience import PATIENCE_SECONDS, until

SECRET = "a secret of this test"
DATASET = """
import os, signal, time
import numpy as np

def make(item):
    time.sleep(0.001)
    return {"rows": np.array(item), "pixels": np.full((16, 500), item[0], np.float32)}

def who(item):
    time.sleep(0.01)
    return np.array([item, os.getpid()])
"""


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is told to leave or to stop, and waits for others, sees it at the next look."""
    monkeypatch.setattr(wire, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(trainers_end, "LOOK_SECONDS", 0.02)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[training.Session]:
    with training.session(folder=tmp_path / "checkpoints") as session:
        yield session


def waiting(run: training.Session, **options: Any) -> InputWorkers:
    return run.input_workers(secret=SECRET, **options)


class Processes:
    """Worker processes of one trainer."""

    def __init__(self, folder: Path, port: int, function: str = "make") -> None:
        (folder / "dataset.py").write_text(DATASET)
        self._folder, self._port, self._function = folder, port, function
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, count: int = 1) -> None:
        command = [sys.executable, "-m", "allot.training.input_workers", f"dataset:{self._function}"]
        for _ in range(count):
            self.running.append(
                subprocess.Popen(
                    [*command, "--trainer", f"127.0.0.1:{self._port}", "--give-up-seconds", "30"],
                    cwd=self._folder,
                    env={"PATH": os.environ["PATH"], "ALLOT_INPUT_SECRET": SECRET},
                )
            )

    def end(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()


@contextlib.contextmanager
def processes(folder: Path, workers: InputWorkers, function: str = "make") -> Iterator[Processes]:
    started = Processes(folder, workers.port, function)
    try:
        yield started
    finally:
        started.end()


@contextlib.contextmanager
def in_threads(workers: InputWorkers, make: Callable[[Any], object], count: int = 1) -> Iterator[None]:
    """Workers in threads of this process, where only what is made matters."""
    them = [Worker(make, SECRET.encode(), give_up_seconds=0) for _ in range(count)]
    threads = [threading.Thread(target=each.work, args=([("127.0.0.1", workers.port)],)) for each in them]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for each in them:
            each.leave()
        for thread in threads:
            thread.join()


def test_workers_killed_at_random_lose_no_sample_and_repeat_none(
    run: training.Session, tmp_path: Path
) -> None:
    dice = random.Random(3)
    sampler, had = run.sampler(3_000, seed=7), list[int]()
    expected = list(run.sampler(3_000, seed=7, name="other").batches(5))
    with waiting(run) as workers, processes(tmp_path, workers) as others:
        others.start(2)
        killed = 0
        for number, (item, batch) in enumerate(workers.batches(sampler.batches(5))):
            assert item == expected[number] == batch["rows"].tolist(), "in the order of items"
            assert (batch["pixels"] == item[0]).all()
            had += item
            sampler.advance(5)
            if number % 150 == 149 and number < 500:
                until(lambda: workers.connected == 2)
                others.running.pop(dice.randrange(2)).kill()
                others.start()
                killed += 1
        assert killed == 3
        assert sorted(had) == list(range(3_000))
        assert sampler.epoch == 1
        assert workers.lost == 0
        until(lambda: workers.connected == 2)
        workers.close()
        assert [process.wait(PATIENCE_SECONDS) for process in others.running] == [0, 0], "all is done"


def test_at_most_once_loses_no_more_than_killed_workers_had(run: training.Session, tmp_path: Path) -> None:
    had = list[int]()
    with waiting(run) as workers, processes(tmp_path, workers, "who") as others:
        others.start(2)
        for number, (item, batch) in enumerate(workers.batches(range(200), exactly_once=False)):
            had.append(item)
            assert batch[0] == item
            if number == 80:
                # This one told it to leave, which loses nothing; and waits until that is so.
                first = others.running.pop(0)
                first.terminate()
                assert first.wait(PATIENCE_SECONDS) == 0
                until(lambda: workers.connected == 1)
                assert workers.lost == 0
                others.start()
                until(lambda: workers.connected == 2)
            if number == 120:
                others.running.pop(0).kill()
                until(lambda: workers.connected == 1)
        assert len(set(had)) == len(had)
        assert len(had) + workers.lost == 200
        assert workers.lost <= 2


def test_a_worker_that_hangs_is_given_up(run: training.Session, tmp_path: Path) -> None:
    with waiting(run, silent_seconds=1.0) as workers, processes(tmp_path, workers) as others:
        others.start()
        batches = workers.batches([[number] for number in range(60)])
        next(batches)
        others.running[0].send_signal(signal.SIGSTOP)
        others.start()
        assert [item for item, _ in batches] == [[number] for number in range(1, 60)]
        assert workers.connected == 1


def test_a_worker_serves_several_ranks_and_those_that_take_their_place(run: training.Session) -> None:
    worker = Worker(lambda item: str(item).encode(), SECRET.encode(), give_up_seconds=PATIENCE_SECONDS)
    with waiting(run) as one, contextlib.ExitStack() as ending:
        other = ending.enter_context(waiting(run))
        at = [("127.0.0.1", each.port) for each in (one, other)]
        thread = threading.Thread(target=worker.work, args=(at,))
        thread.start()
        ending.callback(thread.join)
        ending.callback(worker.leave)
        for inputs in (one, other):
            assert list(inputs.batches([3, 4])) == [(3, b"3"), (4, b"4")]
        # As an attempt that is stopped: not all is done.
        other.close(is_done=False)
        with waiting(run, listen=f"127.0.0.1:{at[1][1]}") as again:
            assert list(again.batches([5])) == [(5, b"5")]
        one.close()
        thread.join()  # Both are done: so is the worker.


def test_a_pass_that_is_left_off_has_no_part_in_the_next(run: training.Session) -> None:
    with waiting(run, buffer=4) as workers, in_threads(workers, lambda item: str(item).encode(), 2):
        first = workers.batches(range(100))
        assert [next(first) for _ in range(3)] == [(0, b"0"), (1, b"1"), (2, b"2")]
        assert list(workers.batches(range(500, 510))) == [(n, str(n).encode()) for n in range(500, 510)]
        assert list(workers.batches([])) == []


def test_no_more_than_the_buffer_is_read_ahead(run: training.Session) -> None:
    made = list[int]()

    def make(item: int) -> bytes:
        made.append(item)
        return b""

    with waiting(run, buffer=3) as workers, in_threads(workers, make):
        batches = workers.batches(iter(range(1_000)))
        for number in range(20):
            assert next(batches)[0] == number
            assert len(made) <= number + 1 + 3


def test_what_the_function_raises_ends_the_run_with_its_reason(run: training.Session) -> None:
    def make(item: int) -> object:
        if item == 7:
            raise ValueError("no such picture")
        return b"x" * (200 if item == 20 else 1)

    with waiting(run, max_batch_bytes=128) as workers, in_threads(workers, make):
        batches = workers.batches(range(10))
        assert [next(batches)[0] for _ in range(7)] == list(range(7))
        with pytest.raises(training.TrainingError, match="make a batch of 7: ValueError: no such picture"):
            next(batches)
        with pytest.raises(
            training.TrainingError, match="a batch of 256 bytes is more than the trainer accepts"
        ):
            list(workers.batches([20]))
        assert list(workers.batches([1])) == [(1, b"x")]
        with pytest.raises(training.TrainingError, match="an item must be what JSON can represent"):
            next(workers.batches([object()]))


def test_a_run_that_is_told_to_stop_while_it_waits_saves_and_stops(tmp_path: Path) -> None:
    saved = list[int]()

    def save() -> bytes:
        saved.append(1)
        return b""

    def train() -> None:
        with training.session(folder=tmp_path, save_bytes=save) as run, waiting(run) as workers:
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
            next(workers.batches([1]))

    with pytest.raises(training.Stopped) as stopped:
        train()
    assert stopped.value.code == 128 + signal.SIGTERM
    assert saved == [1]


def test_the_progress_says_how_long_data_is_waited_for(tmp_path: Path) -> None:
    def make(item: int) -> bytes:
        time.sleep(0.02)
        return b""

    with (
        training.session(folder=tmp_path) as run,
        waiting(run, least=2) as workers,
        in_threads(workers, make),
    ):
        for item, _ in workers.batches(range(40)):
            run.report(loss=item)
        waited = workers.seconds_waited
    assert 0.2 < waited < PATIENCE_SECONDS
    last = json.loads((tmp_path / "progress.jsonl").read_text().splitlines()[-1])
    assert last["input_stall"] > 0.5, "it waits for almost all of the time"
    assert last["input_busy"] > 0.5
    assert (last["input_workers"], last["input_workers_desired"]) == (1, 2)


def test_a_job_of_the_platform_waits_at_the_port_that_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    monkeypatch.setenv("ALLOT_PORT_INPUT_WORKERS", str(port))
    monkeypatch.setenv("ALLOT_INPUT_MIN", "3")
    monkeypatch.setenv("ALLOT_INPUT_MAX", "5")
    monkeypatch.setenv("ALLOT_INPUT_SECRET", SECRET)
    with training.session(folder=tmp_path) as run:
        with run.input_workers() as workers, in_threads(workers, lambda item: b"x" * item):
            assert workers.port == port
            assert list(workers.batches([1, 2])) == [(1, b"x"), (2, b"xx")]
        run.report(loss=1)
    # Before the first batch it asks for some, and after the last one for none.
    lines = [json.loads(line) for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    assert lines[0]["input_workers_desired"] == 3
    assert (lines[-1]["loss"], lines[-1]["input_workers_desired"]) == (1, 0)


@given(
    st.dictionaries(
        st.text(max_size=8),
        st.binary(max_size=200)
        | arrays.arrays(
            st.one_of(
                arrays.boolean_dtypes(),
                arrays.integer_dtypes(),
                arrays.floating_dtypes(),
                arrays.complex_number_dtypes(),
            ),
            arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
        ),
        max_size=4,
    )
)
def test_a_batch_comes_as_it_was_sent(batch: dict[str, object]) -> None:
    for sent in (batch, list(batch.values()), *list(batch.values())[:1]):
        header, body = pack(sent)
        came = unpack(json.loads(json.dumps(header)), bytearray(b"".join(body)))
        pairs = (
            [(came[name], value) for name, value in batch.items()]  # type: ignore[call-overload,index]
            if sent is batch
            else zip(came, sent, strict=True)  # type: ignore[call-overload]
            if isinstance(sent, list)
            else [(came, sent)]
        )
        for one, other in pairs:
            assert type(one) is type(other) if isinstance(other, bytes) else one.dtype == other.dtype
            assert one == other if isinstance(other, bytes) else np.array_equal(one, other, equal_nan=True)


@pytest.mark.parametrize(
    "batch",
    [np.array([object()]), np.array(["text"]), "text", 3.5, [[b""]], {1: b""}, [b""] * 257],
    ids=lambda batch: str(type(batch)),
)
def test_what_is_no_batch_is_refused_where_it_is_made(batch: object) -> None:
    with pytest.raises(BatchError):
        pack(batch)


@pytest.mark.parametrize(
    ("header", "size"),
    [
        ({}, 0),
        ({"form": "one", "parts": []}, 0),
        ({"form": "one", "parts": [["", "|O", [1], 8]]}, 64),
        ({"form": "one", "parts": [["", "<f8,<f8", [1], 16]]}, 64),
        ({"form": "one", "parts": [["", "<f4", [2**62, 0], 0]]}, 0),
        ({"form": "one", "parts": [["", "<f4", [2**40], 4]]}, 64),
        ({"form": "one", "parts": [["", "<f4", [-1], 4]]}, 64),
        ({"form": "one", "parts": [["", "<f4", [True], 4]]}, 64),
        ({"form": "one", "parts": [["", "<f4", [1] * 33, 4]]}, 64),
        ({"form": "one", "parts": [["", "<f4", [1], 4]]}, 128),
        ({"form": "one", "parts": [["", "<f4", [1], 4]]}, 4),
        ({"form": "one", "parts": [["", "<f99", [1], 99]]}, 128),
        ({"form": "one", "parts": [["", "bytes", [], 10**9]]}, 64),
        ({"form": "one", "parts": [["", "bytes", [], -64]]}, 64),
        ({"form": "one", "parts": [["x" * 300, "bytes", [], 0]]}, 0),
        ({"form": "dict", "parts": [["x", "bytes", [], 0]] * 2}, 0),
        ({"form": "list", "parts": [["", "bytes", [], 0]] * 257}, 0),
        ({"form": "list", "parts": [None]}, 0),
        ({"form": "pickle", "parts": []}, 0),
    ],
)
def test_a_header_that_lies_is_refused(header: dict[str, object], size: int) -> None:
    with pytest.raises(BatchError):
        unpack(header, bytearray(size))


def ends(connection: socket.socket) -> bool:
    """Wait until the other end has closed the line."""
    connection.settimeout(PATIENCE_SECONDS)
    try:
        while connection.recv(4096):
            pass
    except ConnectionError:
        pass
    return True


def test_strangers_get_nothing_and_cost_nothing(run: training.Session) -> None:
    with waiting(run) as workers, contextlib.ExitStack() as ending:

        def connect() -> socket.socket:
            return ending.enter_context(
                socket.create_connection(("127.0.0.1", workers.port), PATIENCE_SECONDS)
            )

        loud = connect()
        loud.sendall(pickle.dumps({"a": 1}) * 100)
        assert ends(loud)
        # One that has another secret learns nothing of ours: the trainer shows no proof of its own.
        with pytest.raises(LineError, match="if the secrets differ"):
            wire.reach_trainer(connect(), b"another secret of the same length")
        silent = [connect() for _ in range(STRANGERS_MOST + 5)]
        assert ends(silent[0]), "the oldest makes room"
        with in_threads(workers, lambda item: bytes([item])):
            assert list(workers.batches([1, 2])) == [(1, b"\x01"), (2, b"\x02")]
        assert workers.connected <= 1


@pytest.mark.parametrize(
    "send",
    [
        lambda line: line.send(wire.BATCH, {"number": "1", "form": "one", "parts": []}),
        lambda line: line.send(wire.BATCH, {"number": 1, "form": "one", "parts": [["", "|O", [1], 8]]}),
        lambda line: line.send(wire.ITEM, {"number": 1, "item": 3}),
        lambda line: line.send(wire.BATCH, b"[" * 100_000),
        lambda line: line.send(wire.BATCH, b"[]"),
        lambda line: line._send_all(struct.pack("!BxxxIQ", wire.BATCH, 2**31, 0)),
        lambda line: line._send_all(struct.pack("!BxxxIQ", wire.BATCH, 2, 2**62)),
        lambda line: line._send_all(struct.pack("!BxxxIQ", wire.FAILED, 2, 0) + b"{}" + b"\0" * 32),
    ],
)
def test_a_worker_that_means_harm_is_sent_away_and_its_work_goes_to_others(
    run: training.Session, send: Callable[[wire.Line], None]
) -> None:
    with waiting(run, max_batch_bytes=1_000) as workers:
        batches = workers.batches([5])
        with socket.create_connection(("127.0.0.1", workers.port), PATIENCE_SECONDS) as connection:
            line = wire.reach_trainer(connection, SECRET.encode())
            until(lambda: workers.connected == 1)
            send(line)
            until(lambda: workers.connected == 0)
        with in_threads(workers, lambda item: bytes([item])):
            assert list(batches) == [(5, b"\x05")]


def test_frames_changed_repeated_or_reflected_on_the_way_end_the_line() -> None:
    one, other = socket.socketpair()
    with one, other:
        trainer: list[wire.Line] = []
        thread = threading.Thread(
            target=lambda: trainer.append(wire.receive_worker(one, SECRET.encode(), 100))
        )
        thread.start()
        worker = wire.reach_trainer(other, SECRET.encode())
        thread.join()

        def frame(body: bytes) -> bytes:
            """Take what the worker sends off the way."""
            worker.send(wire.BATCH, {}, [body])
            return one.recv(4096)

        first = frame(b"first")
        other.sendall(first)
        assert trainer[0].receive() == (wire.BATCH, {}, b"first")
        for forged in (first, frame(b"second").replace(b"second", b"secomd"), frame(b"later one")):
            other.sendall(forged)
            with pytest.raises(LineError, match="does not come from the other end"):
                trainer[0].receive()
        trainer[0].send(wire.ITEM, {"number": 1})
        other.sendall(other.recv(4096))
        # To the trainer its own frames are not a worker's.
        with pytest.raises(LineError, match="does not come from the other end"):
            trainer[0].receive()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"secret": "short"}, "at least 16 bytes"),
        ({"listen": "nowhere"}, "HOST:PORT"),
        ({"listen": "127.0.0.1:99999"}, "up to 65535"),
        ({"listen": "192.0.2.1:7000"}, "cannot listen for input workers at 192.0.2.1:7000"),
        ({"buffer": 0}, "buffer"),
        ({"least": 3, "most": 2}, "least <= most"),
    ],
)
def test_what_cannot_be_is_said(run: training.Session, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(training.TrainingError, match=problem):
        run.input_workers(**{"secret": SECRET, **options})


@pytest.mark.parametrize(
    ("arguments", "secret", "problem"),
    [
        (["json:dumps"], SECRET, "give --trainer HOST:PORT, or ALLOT_INPUT_TRAINERS"),
        (["json:dumps", "--trainer", "x:1"], "", "ALLOT_INPUT_SECRET must be a secret of at least 16 bytes"),
        (["json", "--trainer", "x:1"], SECRET, "must be named MODULE:FUNCTION, not 'json'"),
        (["json:none", "--trainer", "x:1"], SECRET, "has no attribute 'none'"),
    ],
)
def test_a_worker_says_what_it_lacks(arguments: list[str], secret: str, problem: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "allot.training.input_workers", *arguments],
        env={"PATH": os.environ["PATH"], "ALLOT_INPUT_SECRET": secret},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert problem in done.stderr


def test_the_module_needs_the_standard_library_only() -> None:
    code = "import sys, allot.training, allot.training.input_workers.worker; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_worker_that_leaves_waits_until_the_trainer_has_read_that(run: training.Session) -> None:
    """Cut with an item unread, the connection is reset, with what the trainer has not read yet."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def make(item: int) -> bytes:
            worker.leave()
            return b"x"

        worker = Worker(make, SECRET.encode(), give_up_seconds=0)
        thread = threading.Thread(target=worker.work, args=([server.getsockname()],))
        thread.start()
        connection, _ = server.accept()
        line = wire.receive_worker(connection, SECRET.encode(), 1_000)
        line.send(wire.TERMS, {"max_batch_bytes": 1_000})
        for number in (1, 2):
            line.send(wire.ITEM, {"number": number, "item": number})
        assert [line.receive()[0] for _ in range(2)] == [wire.BATCH, wire.LEAVES]
        for number in range(3, 1_000):
            line.send(wire.ITEM, {"number": number, "item": number})
        with pytest.raises(ConnectionResetError, match="the other end has closed the line"):
            line.receive()
        assert thread.is_alive()
        line.close()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def test_what_a_worker_sent_before_it_broke_off_is_read(
    run: training.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the trainer can send it nothing any more."""
    may_read, receive = threading.Semaphore(0), wire.Line.receive

    def receive_when_allowed(line: wire.Line) -> Any:
        assert may_read.acquire(timeout=PATIENCE_SECONDS)
        return receive(line)

    def writers() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "allot-input-out"]

    monkeypatch.setattr(wire.Line, "receive", receive_when_allowed)
    with waiting(run) as workers:
        address = ("127.0.0.1", workers.port)
        with socket.create_connection(address, PATIENCE_SECONDS) as connection:
            line = wire.reach_trainer(connection, SECRET.encode())
            batches = workers.batches(range(4), exactly_once=False)
            had = threading.Thread(target=lambda: next(batches))
            had.start()
            assert receive(line)[0] == wire.TERMS
            first = receive(line)[1]["number"]
            header, body = pack(b"x")
            line.send(wire.BATCH, {**header, "number": first}, body)
            line.send(wire.LEAVES, {})
            until(lambda: select.select([connection], [], [], 0)[0], "the second item")
        # Closed with that unread, the connection is reset.
        may_read.release()
        had.join(PATIENCE_SECONDS)
        until(lambda: not writers(), "the trainer to see that it can send nothing")
        may_read.release(10)
        until(lambda: workers.connected == 0)
        assert workers.lost == 0
