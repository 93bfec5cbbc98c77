"""allot.training on a shared folder: who may write, what counts, what a damaged disk does to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from allot import training
from allot.training.fence import Fence, claim
from allot.training.keeper import Keeper
from allot.training.manifest import Manifest
from allot.training.naming import Start
from allot.training.place import Place
from allot.training.progress import ProgressWriter
from allot.training.store import FolderStore
from tests.patience import PATIENCE_SECONDS

#: Counts its steps, one line of input each; says when it is in the middle of saving, and waits there too.
WORKER = """
import sys
import allot.training
count = [0]
def save(folder):
    (folder / "first").write_text(f"{count[0]}")
    print("saving", count[0], flush=True)
    sys.stdin.readline()
    (folder / "second").write_text(f"{count[0]}")
def load(folder):
    count[0] = int((folder / "second").read_text())
    assert (folder / "first").read_text() == str(count[0])
with allot.training.session(save=save, load=load, every_steps=1) as run:
    print("began", run.attempt, count[0], flush=True)
    for step in run.steps(3):
        count[0] += 1
print("done", count[0], flush=True)
"""

#: Forks a child within the session, as data loaders do; is told to stop within it, and behind it.
FORKING = """
import os, signal, time
import allot.training
try:
    with allot.training.session(save_bytes=lambda: b"x") as run:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, b"!")
            while True:
                time.sleep(0.01)
        os.read(reading, 1)  # Python forgets a signal that comes before a forked child has its feet.
        os.kill(child, signal.SIGTERM)
        print("child ended by", os.waitpid(child, 0)[1], flush=True)
        for step in run.steps(10):
            if step == 4:
                os.kill(os.getpid(), signal.SIGTERM)
                assert run.should_stop
except allot.training.Stopped as stopped:
    print(f"stopped after {run.step}, code {stopped.code}", flush=True)
os.kill(os.getpid(), signal.SIGTERM)
"""

#: Takes each of 40 numbers that nobody has; three do so at once.
RACER = """
import sys
from pathlib import Path
from allot.training.fence import Start, _who
from allot.training.store import FolderStore
store = FolderStore(Path(sys.argv[1]))
sys.stdin.readline()
print([number for number in range(40) if store.create(f"claims/{Start(number, 0)}", _who())])
"""

#: Is killed right after its first save has been published, before older ones are removed.
DYING = """
import os, signal, sys
import allot.training
from allot.training.keeper import Keeper
publish = Keeper.save
def publish_and_die(*arguments):
    publish(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
Keeper.save = publish_and_die
with allot.training.session(save_bytes=lambda: b"x", every_steps=1) as run:
    for step in run.steps(int(sys.argv[1])):
        pass
"""

Launch = Callable[[int], subprocess.Popen[str]]


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    started: list[subprocess.Popen[str]] = []

    def start(attempt: int) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            env={
                "PATH": os.environ["PATH"],
                "ALLOT_ATTEMPT": str(attempt),
                "ALLOT_CHECKPOINT_DIR": str(tmp_path / "job"),
                "ALLOT_PROGRESS": str(tmp_path / f"progress-{attempt}"),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def go_on(process: subprocess.Popen[str], times: int = 1) -> None:
    assert process.stdin is not None
    process.stdin.write("\n" * times)
    process.stdin.flush()


def says(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == text + "\n"


def keeper_of(folder: Path, attempt: int, *, keep: int = 2) -> Keeper:
    """Begin as rank 0 of an attempt does."""
    keeper = Keeper(claim(FolderStore(folder), attempt), folder, keep=keep)
    keeper.write_origin(keeper.choose())
    return keeper


def save(keeper: Keeper, step: int, *, rank: int = 0, parts: int = 1) -> None:
    manifest = Manifest(step=step, rank=rank, parts=parts, world_size=parts, samples=None)
    keeper.save(manifest, lambda folder: (folder / "state").write_text(f"{keeper.start} {step}"))


def save_and_die(folder: Path, attempt: int, *, until: int) -> subprocess.CompletedProcess[str]:
    """Train as this attempt up to that step, being killed at the first save."""
    environment = {
        "PATH": os.environ["PATH"],
        "ALLOT_ATTEMPT": str(attempt),
        "ALLOT_CHECKPOINT_DIR": str(folder),
    }
    return subprocess.run(
        [sys.executable, "-c", DYING, str(until)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


def found(folder: Path, attempt: int) -> str | None:
    """Return what an attempt would go on from, without beginning one."""
    keeper = Keeper(Fence(FolderStore(folder), Start(attempt, 0)), folder, keep=2)
    checkpoint = keeper.choose()
    return f"{checkpoint.start.attempt}/{checkpoint.step}" if checkpoint else None


class TestFence:
    def test_an_attempt_that_was_frozen_in_the_middle_of_its_save_ends_as_fenced(
        self, launch: Launch, tmp_path: Path
    ) -> None:
        older = launch(1)
        says(older, "began 1 0")
        says(older, "saving 1")
        go_on(older)
        says(older, "saving 2")
        older.send_signal(signal.SIGSTOP)

        newer = launch(2)
        says(newer, "began 2 1")
        says(newer, "saving 2")
        # Both are within their save of step 2 now.
        older.send_signal(signal.SIGCONT)
        go_on(older, 5)
        output, errors = older.communicate(timeout=PATIENCE_SECONDS)
        assert older.returncode == training.FENCED_EXIT_CODE == 79
        assert "fenced: start 0000000002-0000 of this job has taken over" in errors
        assert "done" not in output

        go_on(newer, 5)
        output, _ = newer.communicate(timeout=PATIENCE_SECONDS)
        assert (newer.returncode, output.splitlines()[-1]) == (0, "done 3")
        assert found(tmp_path / "job", 3) == "2/3"
        assert not list((tmp_path / "job").glob("writing/*/*"))

        late = launch(1)
        assert late.wait(PATIENCE_SECONDS) == training.FENCED_EXIT_CODE

    def test_what_a_zombie_saves_that_has_just_looked_is_never_restored(self, tmp_path: Path) -> None:
        older = keeper_of(tmp_path, 1)
        save(older, 100)
        newer = keeper_of(tmp_path, 2)
        older.fence = Blind(older.store, older.start)
        save(older, 200)
        # The newer one went on from 100 and dies before it has saved: 200 is in nobody's line.
        assert found(tmp_path, 3) == "1/100"
        save(newer, 150)
        save(older, 300)
        assert found(tmp_path, 3) == "2/150"
        newer.prune()
        assert not older.store.names(f"checkpoints/{older.start}/000000000000300/")
        assert found(tmp_path, 3) == "2/150"

    def test_what_a_newer_start_cleared_away_is_not_taken_for_damage(self, tmp_path: Path) -> None:
        save(keeper_of(tmp_path, 1), 1)
        older = keeper_of(tmp_path, 2)

        def overtaken(folder: Path) -> None:
            newer = keeper_of(tmp_path, 3, keep=1)
            save(newer, 2)
            newer.prune()
            newer.tidy_local()
            (folder / "state").write_text("into a folder that is gone")

        manifest = Manifest(step=1, rank=0, parts=1, world_size=1, samples=None)
        with pytest.raises(training.Fenced):
            older.save(manifest, overtaken)
        with pytest.raises(training.Fenced), older.fence.blamed():
            (tmp_path / "checkpoints/0000000001-0000").rename(tmp_path / "gone")

    def test_an_attempt_that_died_before_it_chose_changes_nothing(self, tmp_path: Path) -> None:
        save(keeper_of(tmp_path, 1), 100)
        claim(FolderStore(tmp_path), 2)
        assert found(tmp_path, 3) == "1/100"

    def test_of_claims_at_once_each_is_taken_once(self, tmp_path: Path) -> None:
        racers = [
            subprocess.Popen(
                [sys.executable, "-c", RACER, str(tmp_path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(3)
        ]
        for racer in racers:
            go_on(racer)
        won = [
            number
            for racer in racers
            for number in json.loads(racer.communicate(timeout=PATIENCE_SECONDS)[0])
        ]
        assert sorted(won) == list(range(40))


class Blind(Fence):
    """A fence that sees nothing: of a process that was frozen right after it had looked."""

    def check(self) -> None:
        return


class TestWhatCounts:
    def test_only_so_many_are_kept_and_old_claims_go(self, tmp_path: Path) -> None:
        for attempt in range(1, 5):
            keeper = keeper_of(tmp_path, attempt, keep=3)
            save(keeper, 10 * attempt)
            keeper.prune()
        assert sorted(each.name for each in tmp_path.glob("checkpoints/*/*")) == [
            f"{step:015d}" for step in (20, 30, 40)
        ]
        assert len(list(tmp_path.glob("claims/*"))) == len(list(tmp_path.glob("origins/*"))) == 3
        assert found(tmp_path, 9) == "4/40"

    def test_what_killed_starts_left_is_removed_by_the_next_though_it_has_nothing_to_save(
        self, tmp_path: Path
    ) -> None:
        for attempt in range(1, 5):
            killed = save_and_die(tmp_path, attempt, until=attempt)
            assert killed.returncode == -signal.SIGKILL, killed.stderr
            # One that saved, and the two that were there before: never more, however many were killed.
            steps = range(max(1, attempt - 2), attempt + 1)
            assert sorted(int(path.name) for path in tmp_path.glob("checkpoints/*/*")) == list(steps)
        assert save_and_die(tmp_path, 5, until=4).returncode == 0
        assert sorted(int(path.name) for path in tmp_path.glob("checkpoints/*/*")) == [3, 4]
        assert sorted(int(path.name[:10]) for path in tmp_path.glob("claims/*")) == [3, 4, 5]

    def test_what_a_killed_removal_left_is_removed_by_the_next(self, alone: Path) -> None:
        for attempt, step in enumerate((10, 20, 30), start=1):
            save(keeper_of(alone, attempt), step)
        for left in ("0000000001-0000/000000000000004/rank-00000/files", "0000000001-0000/000000000000007"):
            (alone / "checkpoints" / left).mkdir(parents=True)
        with training.session(save_bytes=lambda: b"x", folder=alone):
            assert sorted(int(path.name) for path in alone.glob("checkpoints/*/*")) == [20, 30]

    def test_a_start_that_fell_back_leaves_what_it_could_not_use_until_it_has_saved(
        self, alone: Path
    ) -> None:
        for attempt, step in enumerate((10, 20, 30), start=1):
            save(keeper_of(alone, attempt), step)
        damage(newest(alone) / "rank-00000" / "files" / "state", "flip")
        with training.session(save_bytes=lambda: b"x", folder=alone) as run:
            assert run.step == 20
            assert sorted(int(path.name) for path in alone.glob("checkpoints/*/*")) == [10, 20, 30]
            run.finish_step()
            run.save()
        assert sorted(int(path.name) for path in alone.glob("checkpoints/*/*")) == [20, 21]

    @pytest.mark.parametrize("name", ["manifest.json", "files/state"])
    @pytest.mark.parametrize("harm", ["flip", "cut", "empty"])
    def test_a_damaged_checkpoint_is_reported_and_the_one_before_used(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, harm: str
    ) -> None:
        keeper = keeper_of(tmp_path, 1)
        save(keeper, 1)
        save(keeper, 2)
        damage(newest(tmp_path) / "rank-00000" / name, harm)
        assert found(tmp_path, 2) == "1/1"
        assert "warning: the checkpoint of step 2 (start 0000000001-0000): " in capsys.readouterr().err
        # The next saves count, although their steps were there before.
        following = keeper_of(tmp_path, 2)
        save(following, 2)
        assert found(tmp_path, 3) == "2/2"

    def test_when_all_are_damaged_it_fails_rather_than_start_over(self, tmp_path: Path) -> None:
        save(keeper_of(tmp_path, 1), 1)
        damage(newest(tmp_path) / "rank-00000" / "files" / "state", "flip")
        with pytest.raises(training.TrainingError, match="To start over, empty"):
            found(tmp_path, 2)

    def test_a_file_that_is_gone_is_damage_and_a_missing_part_is_no_checkpoint(self, tmp_path: Path) -> None:
        keeper = keeper_of(tmp_path, 1)
        save(keeper, 1)
        for rank in (0, 2):
            save(keeper, 2, rank=rank, parts=3)
        assert found(tmp_path, 2) == "1/1"
        save(keeper, 2, rank=1, parts=3)
        assert found(tmp_path, 2) == "1/2"
        (newest(tmp_path) / "rank-00001" / "files" / "state").unlink()
        assert found(tmp_path, 2) == "1/1"

    def test_what_other_ranks_are_still_saving_is_not_cleared_away(self, tmp_path: Path) -> None:
        keeper = keeper_of(tmp_path, 1, keep=1)
        save(keeper, 1)
        save(keeper, 2, rank=1, parts=2)
        keeper.prune()
        assert found(tmp_path, 2) == "1/1"
        save(keeper, 2, rank=0, parts=2)
        keeper.prune()
        assert [int(path.name) for path in tmp_path.glob("checkpoints/*/*")] == [2]

    def test_save_must_write_plain_files(self, tmp_path: Path) -> None:
        keeper = keeper_of(tmp_path, 1)
        manifest = Manifest(step=1, rank=0, parts=1, world_size=1, samples=None)
        with pytest.raises(training.TrainingError, match="wrote no file"):
            keeper.save(manifest, lambda folder: None)
        with pytest.raises(training.TrainingError, match="link, which is not a plain file"):
            keeper.save(manifest, lambda folder: (folder / "link").symlink_to("/etc/passwd"))
        assert found(tmp_path, 2) is None


def newest(folder: Path) -> Path:
    return max(folder.glob("checkpoints/*/*"))


def damage(path: Path, harm: str) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes({"flip": content, "cut": content[: len(content) // 2], "empty": b""}[harm])


class Ranks:
    """The ranks of one job as threads; `agree` is a barrier that gives all the largest number."""

    def __init__(self, folder: Path, attempt: int, world_size: int) -> None:
        self.folder, self.attempt, self.world_size = folder, attempt, world_size
        self.numbers = [0] * world_size
        #: Rank and step of a save that is to fail.
        self.failing: tuple[int, int] | None = None
        self.barrier = threading.Barrier(world_size, timeout=PATIENCE_SECONDS)

    def agree(self, rank: int, number: int) -> int:
        self.numbers[rank] = number
        self.barrier.wait()
        largest = max(self.numbers)
        self.barrier.wait()
        return largest

    def run(self, stop_rank: int | None = None, stop_at: int = 0, total: int = 9) -> list[object]:
        with ThreadPoolExecutor(self.world_size) as pool:
            return list(
                pool.map(
                    lambda rank: self._rank(rank, stop_rank == rank, stop_at, total), range(self.world_size)
                )
            )

    def _rank(self, rank: int, is_stopped: bool, stop_at: int, total: int) -> object:
        held: dict[int, int] = {}

        def write(folder: Path) -> None:
            if (rank, run.step) == self.failing:
                raise OSError(28, "No space left on device")
            (folder / "mine").write_text(json.dumps(held))

        def read(folders: tuple[Path, ...]) -> None:
            for folder in folders:
                held.update(
                    {int(key): value for key, value in json.loads((folder / "mine").read_text()).items()}
                )

        place = Place(
            rank=rank, world_size=self.world_size, attempt=self.attempt, folder=self.folder, progress=None
        )
        with training.Session(
            place=place,
            save=write,
            load=read,
            every_seconds=None,
            every_steps=4,
            keep=2,
            shard=True,
            agree=lambda number: self.agree(rank, number),
            wait_seconds=PATIENCE_SECONDS,
        ) as run:
            sampler = run.sampler(1000)
            held = {key: value for key, value in held.items() if key % self.world_size == rank}
            try:
                for step in run.steps(total):
                    for sample in sampler.take(12):
                        held[step * 100 + rank] = sample
                    if is_stopped and step + 1 == stop_at:
                        run._stop.signal_number = signal.SIGTERM
            except training.Stopped as stopped:
                return run.step, stopped.code
            return run.step, len(held)


class TestRanks:
    def test_every_rank_saves_its_part_all_stop_at_one_step_and_go_on_as_fewer(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert Ranks(tmp_path, 1, 3).run(stop_rank=2, stop_at=6) == [(6, 143)] * 3
        parts = sorted(path.name for path in newest(tmp_path).iterdir())
        assert parts == ["rank-00000", "rank-00001", "rank-00002"]
        assert found(tmp_path, 2) == "1/6"
        results = Ranks(tmp_path, 2, 2).run()
        assert [step for step, _ in results] == [9, 9]  # type: ignore[misc]
        assert found(tmp_path, 3) == "2/9"
        manifest = json.loads((newest(tmp_path) / "rank-00001" / "manifest.json").read_text())
        assert manifest["samplers"]["train"] == {"length": 1000, "seed": 0, "epoch": 0, "position": 9 * 12}
        assert "going on from step 6" in capsys.readouterr().err

    def test_when_one_rank_cannot_save_all_know(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        ranks = Ranks(tmp_path, 1, 2)
        ranks.failing = (1, 8)
        assert [step for step, _ in ranks.run(total=9)] == [9, 9]  # type: ignore[misc]
        errors = capsys.readouterr().err
        assert "warning: saving at step 8 failed, and will be tried again: [Errno 28]" in errors
        assert (
            "warning: saving at step 8 failed, and will be tried again: another rank could not save" in errors
        )
        assert found(tmp_path, 2) == "1/9"
        ranks = Ranks(tmp_path, 2, 2)
        ranks.failing = (1, 10)
        with pytest.raises((OSError, training.TrainingError)):
            ranks.run(total=10)
        assert found(tmp_path, 3) == "1/9"

    def test_without_agree_the_others_wait_for_what_rank_0_chose(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        save(keeper_of(tmp_path, 1), 7)
        monkeypatch.setenv("ALLOT_CHECKPOINT_DIR", str(tmp_path))
        monkeypatch.setenv("ALLOT_ATTEMPT", "2")
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setenv("RANK", "1")
        with (
            pytest.raises(training.TrainingError, match="rank 0 has not stated"),
            training.session(wait_seconds=0.1),
        ):
            pass
        keeper_of(tmp_path, 2)
        with training.session() as run:
            assert run.restored is not None
            assert (run.step, run.restored.folder.joinpath("state").read_text()) == (7, "0000000001-0000 7")
        keeper_of(tmp_path, 3)
        with pytest.raises(training.Fenced), training.session():
            pass


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A process without any of the platform's variables, in a folder of its own."""
    for name in [name for name in os.environ if name.startswith("ALLOT_") or name in ("RANK", "WORLD_SIZE")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestSession:
    def test_bytes_are_saved_and_given_back(self, alone: Path) -> None:
        got: list[bytes] = []
        for _ in range(2):
            with training.session(save_bytes=lambda: b"weights", load_bytes=got.append) as run:
                for _ in run.steps(3):
                    pass
        assert got == [b"weights"]
        assert run.restored is not None
        assert (run.restored.step, run.restored.read_bytes()) == (3, b"weights")
        with training.session() as run:
            run.finish_step()
            run.save(b"by hand")
        with training.session() as run:
            assert run.restored is not None
            assert (run.step, run.restored.read_bytes()) == (4, b"by hand")

    def test_a_save_that_fails_half_way_leaves_nothing_and_is_tried_again(
        self, alone: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        steps: list[int] = []
        # Another session of the same job.
        with training.session(name="before", save_bytes=lambda: b"other") as other:
            for _ in other.steps(1):
                pass
        assert (alone / "checkpoints" / "before" / "claims").is_dir()

        def write(folder: Path) -> None:
            (folder / "state").write_text("half")
            steps.append(run.step)
            if len(steps) == 1:
                raise OSError(28, "No space left on device")

        with training.session(save=write, every_steps=1) as run:
            for _ in run.steps(3):
                pass
        assert steps == [1, 2, 3]
        assert "warning: saving at step 1 failed, and will be tried again" in capsys.readouterr().err
        assert len(list(alone.glob("checkpoints/checkpoints/*/*"))) == 2
        assert not list(alone.glob("checkpoints/writing/*/*"))

    def test_a_sampler_goes_on_where_it_was_and_refuses_another_data_set(self, alone: Path) -> None:
        with training.session(save_bytes=lambda: b"") as run:
            sampler = run.sampler(10, seed=1)
            for _ in run.steps(2):
                sampler.take(3)
        with training.session() as run:
            sampler = run.sampler(10, seed=1)
            assert (sampler.epoch, sampler.position) == (0, 6)
            with pytest.raises(training.TrainingError, match="has length 10 and seed 1, not 11 and 1"):
                run.sampler(11, seed=1)

    def test_signals_are_heard_within_the_session_only_and_not_in_forked_children(self, alone: Path) -> None:
        shown = subprocess.run(
            [sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=PATIENCE_SECONDS
        )
        assert shown.stdout == "child ended by 15\nstopped after 5, code 143\n"
        assert shown.returncode == -signal.SIGTERM, "behind the session a signal does what it always did"

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"save": print, "save_bytes": bytes}, "not both"),
            ({"name": "../up"}, "name must be letters"),
            ({"keep": 0}, "must be at least 1"),
            ({"every_steps": 0}, "must be at least 1"),
        ],
    )
    def test_arguments_that_make_no_sense_are_refused(
        self, alone: Path, arguments: dict, message: str
    ) -> None:
        with pytest.raises(training.TrainingError, match=message):
            training.session(**arguments)


class TestProgress:
    def test_a_full_disk_costs_lines_and_never_the_training(self, tmp_path: Path) -> None:
        path = tmp_path / "progress"
        path.symlink_to("/dev/full")
        writer = ProgressWriter(path)
        for step in range(5000):
            writer.tell({"step": step, "batch_size": 8 if step < 100 else 16})
        assert len(writer._pending) <= 1000
        path.unlink()
        writer.close()
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert lines[-1] == {"step": 4999, "batch_size": 16}
        assert {"step": 99, "batch_size": 8} in lines

    def test_what_is_told_are_plain_finite_numbers(self, alone: Path) -> None:
        class Scalar:
            def __float__(self) -> float:
                return 0.5

        with training.session() as run:
            for _ in run.steps(1):
                run.report(loss=Scalar(), accuracy=float("nan"), samples=64)
                with pytest.raises(TypeError, match="loss must be a number, not list"):
                    run.report(loss=[1])
        (line,) = [
            json.loads(line) for line in (alone / "checkpoints" / "progress.jsonl").read_text().splitlines()
        ]
        del line["at"]
        assert line == {"step": 1, "samples": 64, "total_steps": 1, "loss": 0.5}


def test_importing_it_loads_the_standard_library_only() -> None:
    code = (
        # What the interpreter loads by itself is not ours: Debian's has a `sitecustomize`.
        "import sys\nbefore = set(sys.modules)\nimport allot.training\n"
        "loaded = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(loaded - set(sys.stdlib_module_names))\n"
        "print([name for name in sys.modules if name.startswith('allot.') and 'training' not in name])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    modules, others = shown.splitlines()
    assert {name for name in eval(modules) if not name.startswith("_")} <= {"allot"}
    assert others == "[]"
