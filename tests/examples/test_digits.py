"""examples/digits as its users run it: real processes, real signals, real sockets."""

import contextlib
import csv
import importlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.patience import PATIENCE_SECONDS, until

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TRAIN = EXAMPLES / "digits" / "train.py"
ADAPTIVE = [sys.executable, str(EXAMPLES / "digits" / "adaptive.py")]
STOPPED_BY_SIGTERM = 128 + signal.SIGTERM
LOST_A_PEER = 75
# Slow enough that a run lasts several seconds and can be interrupted half-way.
PACED = ("--step-seconds", "0.01")

Launch = Callable[..., "Replica"]


class Replica:
    """One rank of a run, its output read line by line."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.output = ""

    def wait_for(self, pattern: str) -> None:
        for line in self.process.stdout:
            self.output += line
            if re.search(pattern, line):
                return
        pytest.fail(f"the replica ended before printing {pattern!r}:\n{self.output}")

    def finish(self) -> int:
        self.output += self.process.stdout.read()
        return self.process.wait()


@pytest.fixture
def launch() -> Iterator[Launch]:
    replicas: list[Replica] = []

    def start(
        folder: Path | None, *options: str, command: list[str] | None = None, **variables: object
    ) -> Replica:
        environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
        if folder is not None:
            folder.mkdir(exist_ok=True)
            environment |= {
                "ALLOT_CHECKPOINT_DIR": str(folder),
                "ALLOT_PROGRESS": str(folder / "progress.jsonl"),
            }
        environment |= {name: str(value) for name, value in variables.items()}
        replica = Replica(command or [sys.executable, str(TRAIN), *options], environment)
        replicas.append(replica)
        return replica

    yield start
    for replica in replicas:
        if replica.process.poll() is None:
            os.killpg(replica.process.pid, signal.SIGKILL)
            replica.process.wait()
        replica.process.stdout.close()


@pytest.fixture
def launch_gang(launch: Launch) -> Callable[..., list[Replica]]:
    def start(folder: Path, size: int, *options: str, **variables: object) -> list[Replica]:
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": size, **variables}
        # Rank 0 last: the others have to wait for it to listen.
        ranks = [launch(folder, *options, RANK=rank, **place) for rank in reversed(range(size))]
        return ranks[::-1]

    return start


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The result of default settings in one go; what every interrupted run must arrive at."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    environment = {"PATH": os.environ["PATH"], "ALLOT_CHECKPOINT_DIR": str(folder)}
    subprocess.run([sys.executable, str(TRAIN)], env=environment, check=True, capture_output=True)
    return result_of(folder)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def result_of(folder: Path) -> dict[str, object]:
    """What training arrived at, less the number of workers, which must not matter."""
    result = json.loads((folder / "result.json").read_text())
    del result["world_size"]
    return result


def damage(path: Path) -> None:
    """Flip one bit in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def connect(port: int) -> socket.socket:
    """Wait until rank 0 listens."""

    def connected() -> socket.socket | None:
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
        return None

    return until(connected, "rank 0 to listen")


def test_one_process_learns_the_digits(launch: Launch, tmp_path: Path, uninterrupted: dict) -> None:
    replica = launch(tmp_path)
    assert replica.finish() == 0, replica.output

    result = result_of(tmp_path)
    assert result["accuracy"] > 0.95
    assert result == uninterrupted, "two runs with the same seed differ"
    assert replica.output.splitlines()[-1].endswith(f"test accuracy {result['accuracy']:.4f}")

    lines = [json.loads(line) for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    assert lines[0].keys() == {"step", "samples", "loss", "accuracy", "total_steps"}
    assert lines[-1]["step"] == lines[-1]["total_steps"] == result["steps"]
    assert lines[-1]["loss"] < lines[0]["loss"]


def test_stopped_and_resumed_it_ends_with_the_same_weights(
    launch: Launch, tmp_path: Path, uninterrupted: dict
) -> None:
    first = launch(tmp_path, *PACED)
    first.wait_for(r"^step [2-9]\d+/600")
    first.process.terminate()
    assert first.finish() == STOPPED_BY_SIGTERM, first.output
    stopped_at = re.search(r"stopped at step (\d+)/600, checkpoint written", first.output).group(1)
    assert not (tmp_path / "result.json").exists()

    second = launch(tmp_path)
    assert second.finish() == 0, second.output
    assert f"resumed from the checkpoint at step {stopped_at}\n" in second.output
    assert result_of(tmp_path) == uninterrupted


def test_a_signal_to_one_rank_stops_the_gang_at_one_step(
    launch_gang: Callable[..., list[Replica]], tmp_path: Path, uninterrupted: dict
) -> None:
    gang = launch_gang(tmp_path, 4, *PACED)
    gang[0].wait_for(r"^step [2-9]\d+/600")
    gang[2].process.terminate()
    assert [rank.finish() for rank in gang] == [STOPPED_BY_SIGTERM] * 4, [rank.output for rank in gang]
    assert "checkpoint written" in gang[0].output

    gang = launch_gang(tmp_path, 4)
    assert [rank.finish() for rank in gang] == [0] * 4, [rank.output for rank in gang]
    assert "resumed from the checkpoint" in gang[0].output
    assert result_of(tmp_path) == uninterrupted


@pytest.mark.slow
def test_a_run_may_change_its_number_of_workers(
    launch: Launch, launch_gang: Callable[..., list[Replica]], tmp_path: Path, uninterrupted: dict
) -> None:
    assert launch(tmp_path, "--steps", "300").finish() == 0
    gang = launch_gang(tmp_path, 3)
    assert [rank.finish() for rank in gang] == [0] * 3, [rank.output for rank in gang]
    assert result_of(tmp_path) == uninterrupted


@pytest.mark.slow
def test_a_fixed_world_of_four_ends_with_the_same_weights_on_four_two_and_one(
    launch_gang: Callable[..., list[Replica]], tmp_path: Path
) -> None:
    """`elastic: {mode: fixed_world}`: fewer processes play all four ranks, and the batch stays."""
    world = {"ALLOT_LOGICAL_WORLD_SIZE": 4}
    for steps, size in ((20, 4), (40, 2), (60, 1)):
        ranks = launch_gang(tmp_path / "job", size, "--steps", str(steps), **world)
        assert [rank.finish() for rank in ranks] == [0] * size, [rank.output for rank in ranks]
    undisturbed = launch_gang(tmp_path / "undisturbed", 4, "--steps", "60", **world)
    assert [rank.finish() for rank in undisturbed] == [0] * 4
    assert result_of(tmp_path / "job") == result_of(tmp_path / "undisturbed")


def test_the_others_end_when_a_rank_is_killed(
    launch_gang: Callable[..., list[Replica]], tmp_path: Path
) -> None:
    gang = launch_gang(tmp_path, 4, *PACED)
    gang[0].wait_for(r"^step 1/600")
    gang[3].process.kill()
    assert [rank.finish() for rank in gang[:3]] == [LOST_A_PEER] * 3, [rank.output for rank in gang]
    for rank in gang[:3]:
        # As would be said of a rank that is only silent, after a much longer wait.
        assert "it sent nothing in time" not in rank.output
    assert "error: rank 0: lost rank 3: " in gang[0].output
    assert "error: rank 1: lost rank 0: " in gang[1].output
    assert (tmp_path / "checkpoint.bin").exists(), "what was learned until then is kept"
    assert not (tmp_path / "result.json").exists()


def test_a_damaged_checkpoint_is_reported_and_the_previous_one_used(
    launch: Launch, tmp_path: Path, uninterrupted: dict
) -> None:
    assert launch(tmp_path, "--steps", "100", "--checkpoint-every", "80").finish() == 0
    damage(tmp_path / "checkpoint.bin")

    replica = launch(tmp_path)
    assert replica.finish() == 0, replica.output
    assert "checkpoint.bin is damaged: its checksum does not match" in replica.output
    assert "falling back to the previous checkpoint, from step 80" in replica.output
    assert (tmp_path / "checkpoint.damaged.bin").exists()
    assert result_of(tmp_path) == uninterrupted


def test_without_a_usable_checkpoint_it_fails_rather_than_start_over(launch: Launch, tmp_path: Path) -> None:
    assert launch(tmp_path, "--steps", "20", "--checkpoint-every", "10").finish() == 0
    damage(tmp_path / "checkpoint.bin")
    (tmp_path / "checkpoint.previous.bin").write_bytes(b"")

    replica = launch(tmp_path, "--steps", "30")
    assert replica.finish() == 1
    assert "Empty the folder" in replica.output
    assert "Traceback" not in replica.output


def test_a_crash_between_the_two_renames_loses_nothing(launch: Launch, tmp_path: Path) -> None:
    assert launch(tmp_path, "--steps", "20", "--checkpoint-every", "10").finish() == 0
    (tmp_path / "checkpoint.bin").unlink()

    replica = launch(tmp_path, "--steps", "30")
    assert replica.finish() == 0, replica.output
    assert "falling back to the previous checkpoint, from step 10" in replica.output


def test_a_checkpoint_of_other_settings_is_refused(launch: Launch, tmp_path: Path) -> None:
    assert launch(tmp_path, "--steps", "10").finish() == 0
    replica = launch(tmp_path, "--hidden", "32")
    assert replica.finish() == 2
    assert "the checkpoint was made with --hidden 64, this run has 32" in replica.output


def test_strangers_at_the_port_are_turned_away(launch: Launch, tmp_path: Path) -> None:
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": 2, "ALLOT_JOB": "j7"}
    hub = launch(tmp_path, "--steps", "20", RANK=0, ALLOT_ATTEMPT=2, **place)
    for greeting, reason in [
        (b"GET / HTTP/1.1\r\n\r\n", "announced a frame of 1195725856 bytes"),
        (struct.pack("!I", 2) + b"[]", "it did not say hello"),
        (struct.pack("!I", 4096) + b"[" * 4096, "it did not say hello"),
        (struct.pack("!I", 10) + b'{"rank":5}', "rank 5 is not between 1 and 1"),
        (b"", "it closed the connection"),
    ]:
        with connect(place["MASTER_PORT"]) as stranger:
            # Rank 0 may have hung up before all of it is said.
            with contextlib.suppress(OSError):
                stranger.sendall(greeting)
                stranger.shutdown(socket.SHUT_WR)
            hub.wait_for("turned away a connection: .*" + reason)
    stale = launch(None, "--steps", "20", RANK=1, ALLOT_ATTEMPT=1, **place)
    assert stale.finish() == 2
    assert "rank 0 refused this rank: rank 1 has attempt '1', rank 0 has '2'" in stale.output

    member = launch(None, "--steps", "20", RANK=1, ALLOT_ATTEMPT=2, **place)
    assert [hub.finish(), member.finish()] == [0, 0], hub.output + member.output


def test_it_stops_when_asked_while_the_gang_is_incomplete(launch: Launch, tmp_path: Path) -> None:
    port = free_port()
    hub = launch(tmp_path, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, WORLD_SIZE=2, RANK=0)
    connect(port).close()
    hub.wait_for("turned away")
    hub.process.terminate()
    assert hub.finish() == STOPPED_BY_SIGTERM
    assert "stopped before the first step" in hub.output


@pytest.mark.parametrize(
    ("options", "variables", "message"),
    [
        (("--batch", "3"), {}, "argument --batch: '3' is not a whole number from 8 to 1437"),
        (("--like", "abacus"), {}, "argument --like: invalid choice: 'abacus'"),
        (("--learning-rate", "nan"), {}, "argument --learning-rate: 'nan' is not a number"),
        ((), {"WORLD_SIZE": "9"}, "WORLD_SIZE must be a whole number from 1 to 8, not '9'"),
        ((), {"WORLD_SIZE": "2", "RANK": "1"}, "WORLD_SIZE is 2, so MASTER_ADDR must be set too"),
    ],
)
def test_what_cannot_work_is_refused(launch: Launch, options: tuple, variables: dict, message: str) -> None:
    replica = launch(None, *options, **variables)
    assert replica.finish() == 2
    assert message in replica.output


def test_a_paced_step_lasts_longer_on_a_slower_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TRAIN.parent)
    pacing = importlib.import_module("pacing")
    assert pacing.paced_step_seconds(2.0, "V100") == 2.0
    assert pacing.paced_step_seconds(2.0, "K80") == pytest.approx(9.84, abs=0.01)
    assert pacing.paced_step_seconds(2.0, "some other GPU") == 2.0
    assert pacing.paced_step_seconds(2.0, "K80", like="a3c") == pytest.approx(4.17, abs=0.01)
    assert pacing.paced_step_seconds(2.0, "P100", like="recommendation") == pytest.approx(0.90, abs=0.01)


def test_the_log_says_that_the_speed_is_emulated_and_how(launch: Launch) -> None:
    paced = launch(None, "--steps", "2", "--step-seconds", "0.01", "--like", "a3c", ALLOT_GPU_MODEL="K80")
    assert paced.finish() == 0
    assert "emulated speed: a step is made to last 0.0209 s, as a3c would take on a K80" in paced.output
    plain = launch(None, "--steps", "2", ALLOT_GPU_MODEL="K80")
    assert plain.finish() == 0
    assert "emulated" not in plain.output


def test_the_speeds_are_those_that_gavel_published(monkeypatch: pytest.MonkeyPatch) -> None:
    path = EXAMPLES.parent.parent / "shared" / "data" / "gavel" / "isolated_throughputs.csv"
    if not path.exists():
        pytest.skip(f"Gavel's table is not here: {path}")
    monkeypatch.syspath_prepend(TRAIN.parent)
    pacing = importlib.import_module("pacing")
    names = {
        "Transformer (batch size 64)": "transformer",
        "A3C": "a3c",
        "Recommendation (batch size 2048)": "recommendation",
    }
    with path.open() as file:
        rows = [row for row in csv.DictReader(file) if row["scale_factor"] == "1"]
    published = {
        names[row["job_type"]]: {
            model: round(float(row[model.lower()]), 3) for model in ("V100", "P100", "K80")
        }
        for row in rows
        if row["job_type"] in names
    }
    assert published == pacing.STEPS_PER_SECOND


def accuracy_in(output: str) -> float:
    found = re.search(r"^done after .* test accuracy ([\d.]+)$", output, re.MULTILINE)
    assert found, output
    return float(found[1])


@pytest.mark.slow
def test_an_adaptive_run_learns_as_well_and_goes_on_with_another_number_of_workers(
    launch: Launch, tmp_path: Path
) -> None:
    fixed = launch(tmp_path / "fixed", command=[*ADAPTIVE, "--most", "16"])
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": 3}
    ranks = [
        launch(tmp_path / "job", command=[*ADAPTIVE, "--step-seconds", "0.004"], RANK=rank, **place)
        for rank in (2, 1, 0)
    ]
    ranks[-1].wait_for(r"^step 1/2400  batch 18 \(3 x 1 x 6\)")
    # Its batch changes a few times first, and each is timed anew.
    for _ in range(3):
        ranks[-1].wait_for(r"^step \d+/2400")
    ranks[0].process.terminate()
    assert [rank.finish() for rank in ranks] == [STOPPED_BY_SIGTERM] * 3, [rank.output for rank in ranks]
    found = re.search(r"stopped at step (\d+)$", ranks[-1].output, re.MULTILINE)
    assert found
    before = (tmp_path / "job" / "progress.jsonl").read_text().count("\n")

    alone = launch(tmp_path / "job", command=ADAPTIVE)
    assert (alone.finish(), fixed.finish()) == (0, 0), alone.output + fixed.output
    assert f"going on from step {found[1]}\n" in alone.output
    assert accuracy_in(fixed.output) > 0.95
    assert accuracy_in(alone.output) == pytest.approx(accuracy_in(fixed.output), abs=0.02)
    lines = [json.loads(line) for line in (tmp_path / "job" / "progress.jsonl").read_text().splitlines()]
    steps, samples = [line["step"] for line in lines], [line["samples"] for line in lines]
    assert (steps, samples) == (sorted(steps), sorted(samples))
    assert steps[-1] >= 2400 == lines[-1]["total_steps"]
    measured = lines[before - 1]
    assert (measured["initial_batch"], measured["max_batch"]) == (16, 512)
    assert measured["batch_size"] == 3 * measured["local_batch"] * (measured["accumulation"] + 1)
    assert 1 <= measured["lr_factor"] <= measured["batch_size"] / 16
    assert measured["grad_var"] > measured["grad_sqr"] > 0
    timed = [line for line in lines[:before] if "timed_iterations" in line]
    assert all(0 < line["gradient_seconds"] <= line["iteration_seconds"] for line in timed)
    assert timed, "half a second of work was told"


@pytest.mark.parametrize(
    ("spec_name", "replicas"), [("single.yaml", 1), ("gang.yaml", 4), ("adaptive.yaml", 1)]
)
def test_the_command_of_each_spec_runs_and_hears_the_signal(
    launch: Launch, tmp_path: Path, spec_name: str, replicas: int
) -> None:
    (task,) = yaml.safe_load((EXAMPLES / "digits" / spec_name).read_text())["tasks"]
    assert task["replicas"] == replicas
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    replica = launch(tmp_path, command=task["command"], PATH=path, ALLOT_EXAMPLES=EXAMPLES)
    replica.wait_for(r"^step 1/(600|2400)")
    replica.process.terminate()
    assert replica.finish() == STOPPED_BY_SIGTERM, replica.output
