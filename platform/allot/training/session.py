"""The session of one training run: what `with allot.training.session(...) as run` gives."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from allot.training.adaptive import AdaptiveBatch
from allot.training.batch_choice import Limits
from allot.training.errors import Stopped, TrainingError, say
from allot.training.gpu_token import GpuToken
from allot.training.input_workers.line import secret_of
from allot.training.input_workers.trainer import InputWorkers
from allot.training.keeper import Keeper
from allot.training.manifest import Manifest
from allot.training.naming import LIMITS
from allot.training.noise import Rule
from allot.training.place import Place
from allot.training.progress import ProgressWriter
from allot.training.restoring import BYTES_FILE, Agree, RestoredCheckpoint, begin, open_store
from allot.training.sampler import Sampler
from allot.training.stop import StopRequest

DEFAULT_SECONDS = 600.0
PROGRESS_FILE = "progress.jsonl"
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
#: What ranks wish for after a step; the largest wins.
GO_ON, SAVE, STOP = 0, 1, 2

Save = Callable[[Path], object]
#: With `shard` it is given all folders of the checkpoint, else the one.
Load = Callable[[Path], object] | Callable[[tuple[Path, ...]], object]


def session(
    *,
    save: Save | None = None,
    load: Load | None = None,
    save_bytes: Callable[[], bytes] | None = None,
    load_bytes: Callable[[bytes], object] | None = None,
    every_seconds: float | None = None,
    every_steps: int | None = None,
    keep: int = 2,
    shard: bool = False,
    agree: Agree | None = None,
    folder: str | os.PathLike[str] | None = None,
    name: str = "",
    wait_seconds: float = 300.0,
) -> Session:
    """Return a session, to be entered by `with`.

    save, load      write the state into a folder, and read it from there; or
    save_bytes, load_bytes      return it as bytes, and take them
    every_seconds, every_steps  how often to save: either or both; every 600 s when neither is given
    keep            how many checkpoints stay
    shard           every rank saves a part of its own, and `load` gets all folders; else rank 0 saves
    agree           returns to each rank the largest of the numbers that the ranks pass it. Needed where ranks
                    wait for one another, as in data-parallel training: then all stop at the same step
    folder          where to keep checkpoints when the platform names no place (./checkpoints)
    name            for jobs with several sessions, one after the other: each keeps its own checkpoints
    wait_seconds    how long other ranks wait for rank 0 to choose a checkpoint
    """
    if (save and save_bytes) or (load and load_bytes):
        raise TrainingError("give save and load, or save_bytes and load_bytes, not both")
    if keep < 1 or (every_steps is not None and every_steps < 1):
        raise TrainingError("keep and every_steps must be at least 1")
    if every_seconds is None and every_steps is None:
        every_seconds = DEFAULT_SECONDS
    if name and not NAME.fullmatch(name):
        raise TrainingError(f"name must be letters, digits, - and _ only, not {name!r}")
    place = Place.from_environment(os.environ, Path(folder) if folder is not None else None)
    place = replace(place, folder=place.folder / name)
    if shard and agree is None and place.world_size > 1:
        raise TrainingError("with shard, ranks have to save at the same step: give agree too")
    return Session(
        place=place,
        name=name,
        save=_saving_bytes(save_bytes) if save_bytes else save,
        load=_loading_bytes(load_bytes) if load_bytes else load,
        every_seconds=every_seconds,
        every_steps=every_steps,
        keep=keep,
        shard=shard,
        agree=agree,
        wait_seconds=wait_seconds,
    )


class Session:
    """One run, between `with` and its end. Made by `session`."""

    def __init__(
        self,
        *,
        place: Place,
        name: str = "",
        save: Save | None,
        load: Load | None,
        every_seconds: float | None,
        every_steps: int | None,
        keep: int,
        shard: bool,
        agree: Agree | None,
        wait_seconds: float,
    ) -> None:
        self._place, self._name = place, name
        self._save, self._load = save, load
        self._every_seconds, self._every_steps = every_seconds, every_steps
        self._keep, self._shard = keep, shard
        self._agree = agree if place.world_size > 1 else None
        self._wait_seconds = wait_seconds
        self._stop = StopRequest()
        self._ending = ExitStack()
        self._samplers: dict[str, Sampler] = {}
        self._adaptive: AdaptiveBatch | None = None
        self._samples: float | None = None
        self._total: int | None = None
        self._is_within_step = False
        self._saved_step: int | None = None
        self._saved_at = 0.0
        self._keeper: Keeper | None = None
        self._progress: ProgressWriter | None = None
        self._token = GpuToken(None)
        self._inputs: InputWorkers | None = None
        #: The checkpoint it went on from; None: it began at the beginning.
        self.restored: RestoredCheckpoint | None = None
        #: Steps done, those before the restored checkpoint included.
        self.step = 0

    def __enter__(self) -> Session:
        with ExitStack() as ending:
            self._stop.listen()
            ending.callback(self._stop.stop_listening)
            self._place.folder.mkdir(parents=True, exist_ok=True)
            self._keeper, self.restored = begin(
                self._place,
                open_store(self._place, self._name),
                self._stop,
                agree=self._agree,
                keep=self._keep,
                wait_seconds=self._wait_seconds,
            )
            if self._place.rank == 0:
                path = self._place.progress or self._place.folder / PROGRESS_FILE
                self._progress = ProgressWriter(path)
                ending.callback(self._progress.close)
            self._restore()
            self._remove_older()
            if self.world_size == 1:
                # Ranks that wait for one another with a token in hand could wait for ever.
                self._token = GpuToken.from_environment()
                ending.callback(self._token.close)
            self._ending = ending.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self._adaptive is not None and _is_out_of_memory(kind):
            self._note_limit(self._adaptive)
        self._ending.close()

    @property
    def rank(self) -> int:
        return self._place.rank

    @property
    def world_size(self) -> int:
        return self._place.world_size

    @property
    def logical_world_size(self) -> int:
        """Ranks of the job as it was specified; `world_size` unless its specification fixes the world."""
        return self._place.world_size * self._place.ranks_each

    @property
    def logical_ranks(self) -> range:
        """The ranks that this process plays in turn: only `rank` unless the specification fixes the world."""
        return self._place.logical_ranks

    @property
    def attempt(self) -> int:
        """The number of the attempt; 0 when attempts have no numbers."""
        return self._opened.start.attempt

    @property
    def should_stop(self) -> bool:
        """Whether this process has to stop. `steps` checks automatically."""
        return self._stop.is_made

    def batch(self, global_batch: int) -> int:
        """Return this rank's share of a batch over all ranks; the shares differ by 1 at most."""
        return self._place.share(global_batch)

    def sampler(self, length: int, *, seed: int = 0, epoch: int = 0, name: str = "train") -> Sampler:
        """Return the sampler of that name, where the restored checkpoint had it, else at `epoch`."""
        position = 0
        kept = self.restored.samplers.get(name) if self.restored else None
        if kept is not None:
            if (kept["length"], kept["seed"]) != (length, seed):
                raise TrainingError(
                    f"the checkpoint's sampler {name!r} has length {kept['length']} and seed {kept['seed']}, "
                    f"not {length} and {seed}: use the same, or another name"
                )
            epoch, position = kept["epoch"], kept["position"]
        self._samplers[name] = Sampler(
            length,
            seed=seed,
            rank=self.rank,
            world_size=self.world_size,
            ranks_each=self._place.ranks_each,
            epoch=epoch,
            position=position,
        )
        return self._samplers[name]

    def adaptive_batch(
        self, *, initial: int, most: int, local: tuple[int, int], rule: str | Rule | None = None
    ) -> AdaptiveBatch:
        """Return the batch of this run, which follows its replicas and its gradients from now on.

        initial  samples of a batch as the learning rate was chosen for it; `step` counts steps at this one
        most     samples of the largest
        local    samples of one gradient of one replica: the least and the most, by the GPU's memory
        rule     for the learning rate: adascale (for SGD), adam, linear, square_root, or `legw(...)`

        A start that ran out of memory lowers the most for those that follow on the same GPU model.

        Raises TrainingError for limits that nothing fits, and where ranks cannot agree.
        """
        if self.world_size > 1 and self._agree is None:
            raise TrainingError("all ranks have to choose the same batch: give session(agree=...)")
        least, largest = local
        # Rank 0 looks, as another rank may see a start's last words only later.
        largest = self._agreed(max(least, min(largest, self._learned_limit())) if self.rank == 0 else 0)
        limits = Limits(initial_batch=initial, max_batch=most, min_local_batch=least, max_local_batch=largest)
        self._adaptive = AdaptiveBatch(
            limits,
            replicas=self.world_size,
            rule=rule,
            gpu_model=self._place.gpu_model,
            agree=self._agree,
            is_first=self.rank == 0,
            steps_before=self.step,
            state=self.restored.adaptive if self.restored else None,
        )
        return self._adaptive

    def input_workers(
        self,
        *,
        listen: str | None = None,
        secret: str | None = None,
        buffer: int = 16,
        max_batch_bytes: int = 2**28,
        silent_seconds: float = 120.0,
        least: int | None = None,
        most: int | None = None,
        shared: bool | None = None,
    ) -> InputWorkers:
        """Return the input workers of this rank, to be entered by `with`; docs/input-workers.md.

        listen              HOST:PORT where they connect; by default where the platform sends those that it
                            starts, or, if it starts none, a free port of 127.0.0.1
        secret              that they know as well; by default that of ALLOT_INPUT_SECRET
        buffer              batches at most that are being made or wait: about three for each worker
        max_batch_bytes     the most bytes of one batch
        silent_seconds      after this a worker that has something to make and says nothing is given up:
                            more than its slowest batch takes
        least, most         workers that may be wanted; by default min and max of the job's `input_workers`,
                            or 1 and 64
        shared              that they serve other trainers too, by `stream`; by default `shared` of the job's
                            `input_workers`, or False

        If the process has to stop while it waits for a batch, it saves and stops, unless ranks have to
        `agree` on that. Raises TrainingError for what it cannot do.
        """
        place = self._place
        if listen is None:
            listen = f"0.0.0.0:{place.input_port}" if place.input_port else "127.0.0.1:0"
        self._inputs = InputWorkers(
            listen=listen,
            secret=secret_of(secret),
            buffer=buffer,
            max_batch_bytes=max_batch_bytes,
            silent_seconds=silent_seconds,
            least=place.input_least if least is None else least,
            most=place.input_most if most is None else most,
            shared=place.input_shared if shared is None else shared,
            on_stop=self._stop_while_waiting,
        )
        if place.input_port:
            # Before the first batch: if the platform ended the workers of an earlier `with`, it starts them
            # again by this.
            self.report(samples=self._samples)
        return self._inputs

    def steps(self, total: int) -> Iterator[int]:
        """Yield the steps still to do, from 0. Saves when due and at the end; stops when it has to.

        A process that has a part of a GPU waits before a step until the GPU is its own for a while.
        """
        self._total = total
        if self.step < total:
            self._follow(self._agreed(STOP if self.should_stop else GO_ON))
        while self.step < total:
            self._token.take()
            self._is_within_step = True
            yield self.step
            self.finish_step()

    def finish_step(self) -> None:
        """Count a step as done, and save or stop if it is time. For loops that are not `for` over `steps`.

        Raises Stopped after saving when any rank had to stop before the last step.
        """
        self._is_within_step = False
        before = self.step
        if self._adaptive is None:
            self.step += 1
        else:
            is_step = self._adaptive.finish_iteration()
            # A step in a larger batch is worth one or more.
            self.step = max(int(self._adaptive.progress), before + is_step)
        is_last = self._total is not None and self.step >= self._total
        wish = STOP if self.should_stop else SAVE if self._is_due(before) else GO_ON
        agreed = self._agreed(wish)
        self._follow(SAVE if is_last else agreed, is_last=is_last)

    def report(self, *, step: int | None = None, samples: float | None = None, **values: object) -> None:
        """Report how far the training is, and any numbers of interest (loss, epoch, epochs, batch_size, ...).

        `step` counts the steps done, that under way included; `samples` counts from the job's beginning, over
        all ranks. Returns at once; only rank 0's lines are reported. Raises TypeError for a value that is not
        a number.
        """
        adaptive = self._adaptive
        if samples is None and adaptive is not None:
            samples = adaptive.samples + self._is_within_step * adaptive.batch_size
        if samples is not None:
            self._samples = float(samples)
        line: dict[str, object] = {"step": self.step + self._is_within_step if step is None else int(step)}
        if samples is not None:
            line["samples"] = samples
        if self._total is not None:
            line["total_steps"] = self._total
        if self._progress is not None:
            if adaptive is not None:
                line |= adaptive.line()
            if self._inputs is not None:
                line |= self._inputs.line()
            self._progress.tell({**line, "at": time.time(), **values})

    def save(self, data: bytes | None = None) -> None:
        """Save now: the bytes, else what the session's `save` writes. Nothing if this step is saved."""
        write = self._save if data is None else _saving_bytes(lambda: data)
        if write is None:
            raise TrainingError("there is nothing to save: give session(save=...), or bytes to run.save")
        if self.step == self._saved_step:
            return
        self._token.give_back()
        problem: OSError | TrainingError | None = None
        try:
            self._save_part(write)
        except (OSError, TrainingError) as error:
            problem = error
        # No rank goes on, or ends, before the checkpoint is whole; and all know when it is not.
        has_failed = self._agreed(int(problem is not None))
        if problem is not None:
            raise problem
        if has_failed:
            raise TrainingError("another rank could not save its part")
        self._saved_step, self._saved_at = self.step, time.monotonic()
        self._remove_older()
        try:
            self._opened.tidy_local()
        except (OSError, TrainingError) as error:
            say(f"warning: older local copies could not be removed: {error}")

    def _remove_older(self) -> None:
        if self.rank != 0:
            return
        try:
            self._opened.prune()
        except (OSError, TrainingError) as error:
            say(f"warning: older checkpoints could not be removed: {error}")

    def _save_part(self, write: Save) -> None:
        if self.rank == 0 or self._shard:
            manifest = Manifest(
                step=self.step,
                rank=self.rank if self._shard else 0,
                parts=self.world_size if self._shard else 1,
                world_size=self.world_size,
                samples=self._samples,
                samplers={name: sampler.state() for name, sampler in self._samplers.items()},
                adaptive=self._adaptive.state() if self._adaptive else {},
            )
            self._opened.save(manifest, write)

    @property
    def _opened(self) -> Keeper:
        if self._keeper is None:
            raise TrainingError("use the session by `with allot.training.session(...) as run:`")
        return self._keeper

    def _restore(self) -> None:
        self._saved_at = time.monotonic()
        if self.restored is None:
            return
        self.step = self._saved_step = self.restored.step
        self._samples = self.restored.samples
        if self._load is not None:
            with self._opened.fence.blamed():
                self._load(self.restored.folders if self._shard else self.restored.folder)  # type: ignore[arg-type]
        self.report(samples=self._samples, restored_step=self.step)

    def _note_limit(self, batch: AdaptiveBatch) -> None:
        """Record that gradients of this many samples do not fit, for starts that follow."""
        try:
            self._opened.store.create(f"{LIMITS}{batch.local_batch:09d}", self._place.gpu_model.encode())
            say(f"out of memory with {batch.local_batch} samples a gradient: the next start takes fewer")
        except (OSError, TrainingError) as error:
            say(f"warning: that memory ran out could not be recorded: {error}")

    def _learned_limit(self) -> int:
        """Return how many samples a gradient may have by what earlier starts wrote down: as many as went well
        and are fewer than what did not, else half of that."""
        store, model = self._opened.store, self._place.gpu_model.encode()
        names = [name for name in store.names(LIMITS) if store.read(name) == model]
        if not names:
            return sys.maxsize
        failed = min(int(name.removeprefix(LIMITS)) for name in names)
        adaptive = self.restored.adaptive if self.restored else {}
        times = adaptive["times"]["gradient"] if adaptive else []
        return max((size for size, *_ in times if size < failed), default=failed // 2)

    def _stop_while_waiting(self) -> None:
        if self.should_stop and self._agree is None:
            self._follow(STOP)

    def _agreed(self, wish: int) -> int:
        return wish if self._agree is None else self._agree(wish)

    def _is_due(self, before: int) -> bool:
        every = self._every_steps
        if every is not None and self.step // every > before // every:
            return True
        waited = time.monotonic() - self._saved_at
        return self._every_seconds is not None and waited >= self._every_seconds

    def _follow(self, wish: int, *, is_last: bool = False) -> None:
        """Do what the ranks agreed on."""
        if wish == GO_ON:
            return
        must_succeed = wish == STOP or is_last
        if self._save is not None:
            try:
                self.save()
            except (OSError, TrainingError) as error:
                if must_succeed:
                    raise
                # Better to go on learning: a full disk may be emptied, a store may come back.
                say(f"warning: saving at step {self.step} failed, and will be tried again: {error}")
                self._saved_at = time.monotonic()
        if wish == STOP:
            say(f"stopped at step {self.step}")
            raise Stopped(self._stop.signal_number or signal.SIGTERM)


def _is_out_of_memory(kind: type[BaseException]) -> bool:
    """Return whether it is Python's error for it, or PyTorch's, which is not imported here."""
    return issubclass(kind, MemoryError) or kind.__name__ == "OutOfMemoryError"


def _saving_bytes(produce: Callable[[], bytes]) -> Save:
    return lambda folder: (folder / BYTES_FILE).write_bytes(produce())


def _loading_bytes(take: Callable[[bytes], object]) -> Callable[[Path], object]:
    return lambda folder: take((folder / BYTES_FILE).read_bytes())
