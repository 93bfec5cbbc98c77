"""The process in which policies compute: real ones, ended in every way that there is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from scheduler.core.building_blocks.computing import Overrun, of_view
from scheduler.core.goodput.fit import Measurement, fit
from scheduler.core.model.errors import InvalidTransition
from scheduler.core.model.lifecycle import JobEvent, JobState, job_step
from scheduler.core.solvers.checking import checked_instance
from scheduler.core.solvers.errors import InstanceError, ObjectiveError
from scheduler.core.solvers.solving import solve
from scheduler.rounds import solver as module
from scheduler.rounds.solver import MIB, Budget, Limits, Solver, TimeLeft
from tests.core.solvers.instances import large_instance
from tests.patience import until
from tests.processes import is_gone, user_seconds_of

ROOT = Path(__file__).resolve().parents[3]
#: Solved in some milliseconds, and in several seconds.
SMALL = large_instance(20)
LARGE = large_instance(600)
SLOW = "hierarchical_fifo"


@pytest.fixture(scope="module")
def solver() -> Iterator[Solver]:
    made = Solver()
    yield made
    made.close()


def within(seconds: float, starting: float = 60.0) -> TimeLeft:
    return TimeLeft(computing=seconds, starting=starting)


def test_what_a_fit_takes_and_returns_is_handed_over(solver: Solver) -> None:
    measured = [Measurement(1, replicas, 8, 0, 0.1, 0.1 * replicas) for replicas in (1, 2, 3)]
    assert solver.run(within(10), fit, measured) == fit(measured)


def test_the_answer_is_the_one_that_is_computed_here(solver: Solver) -> None:
    left = within(10)
    there = solver.run(left, solve, SMALL, "max_min", seed=3)
    assert there.throughput.tobytes() == solve(SMALL, "max_min", seed=3).throughput.tobytes()
    assert 0 < left.computing < 10
    first = solver.child
    solver.run(within(10), solve, SMALL)
    assert solver.child == first is not None


def test_it_knows_the_core_alone_and_has_one_thread(solver: Solver) -> None:
    solver.run(within(10), solve, SMALL)
    process = psutil.Process(solver.child)
    assert process.num_threads() == 1
    own = process.environ()
    told = [name for name in own if name.startswith(("ALLOT_", "DATABASE_URL", "REDIS_URL"))]
    assert set(told) <= {"ALLOT_HOME"}
    assert {own["OMP_NUM_THREADS"], own["OPENBLAS_NUM_THREADS"]} == {"1"}
    assert not [mapped.path for mapped in process.memory_maps() if "psycopg" in mapped.path]
    assert os.getpgid(process.pid) == process.pid


WARM = """
import warnings
from scheduler.rounds.solver_child import warm_up
from scipy.optimize import linprog
warm_up()
warnings.simplefilter("ignore")
print(linprog([-1.0], [[1.0]], [1.0], options={"threads": 4}).success)
print(linprog([-1.0], [[1.0]], [1.0]).success)
"""


def test_the_solver_has_one_thread_however_many_processors_there_are() -> None:
    """HiGHS refuses to run with another number of threads than it began with."""
    said = subprocess.run([sys.executable, "-c", WARM], cwd=ROOT, capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["False", "True"]


@pytest.mark.parametrize(
    ("function", "arguments", "kind", "message"),
    [
        (solve, (SMALL, "nonsense"), ObjectiveError, "there is no 'nonsense'"),
        (checked_instance, (), InstanceError, "job 0"),
        (job_step, (7, JobState.SUCCEEDED, JobEvent.CANCELLED), InvalidTransition, "cannot take the step"),
    ],
)
def test_what_it_raises_is_raised_here(
    solver: Solver, function: Any, arguments: Any, kind: type[Exception], message: str
) -> None:
    keywords = {"throughput": [[-1.0]], "gpus": [1]} if function is checked_instance else {}
    with pytest.raises(kind, match=message) as told:
        solver.run(within(10), function, *arguments, **keywords)
    with pytest.raises(kind) as here:
        function(*arguments, **keywords)
    assert str(told.value) == str(here.value)
    assert vars(told.value) == vars(here.value)


def test_only_functions_of_the_core_are_called(solver: Solver) -> None:
    for function in (print, os.system, within, lambda: 1, Solver.close):
        with pytest.raises(TypeError, match="not a function of a module of the core"):
            solver.run(within(1), function)
    with pytest.raises(TypeError, match="cannot be called in another process"):
        solver.run(within(1), solve, threading.Lock())


def test_one_that_takes_too_long_is_ended_and_the_next_is_answered(solver: Solver) -> None:
    solver.run(within(10), solve, SMALL)
    slow, left = solver.child, within(0.2)
    assert slow is not None
    with pytest.raises(Overrun, match=r"longer than the 0\.2 s"):
        solver.run(left, solve, LARGE, SLOW)
    assert is_gone(slow)
    assert left.computing <= 0
    assert solver.run(within(10), solve, SMALL).objective > 0


def test_the_start_does_not_count_but_is_bounded(solver: Solver) -> None:
    idle = solver.child
    solver.close()
    left = within(10)
    assert solver.run(left, solve, SMALL).objective > 0
    assert solver.child != idle
    assert 10 - left.computing < 60 - left.starting
    solver.close()
    left = within(10, starting=0.001)
    with pytest.raises(Overrun, match="was not ready in time"):
        solver.run(left, solve, SMALL)
    assert left.computing == 10
    assert left.starting <= 0
    # It goes on getting ready for whoever comes later.
    late = solver.child
    solver.run(within(10), solve, SMALL)
    assert solver.child == late is not None


def test_one_that_is_never_ready_is_started_anew(solver: Solver, monkeypatch: pytest.MonkeyPatch) -> None:
    solver.close()
    solver.warm_up()
    stopped = solver.child
    assert stopped is not None
    os.kill(stopped, signal.SIGSTOP)
    with pytest.raises(Overrun, match="was not ready in time"):
        solver.run(within(10, starting=0.001), solve, SMALL)
    assert solver.child == stopped
    monkeypatch.setattr(module, "_HOPELESS_SECONDS", 0.0)
    with pytest.raises(Overrun, match="was not ready in time"):
        solver.run(within(10, starting=0.001), solve, SMALL)
    assert is_gone(stopped)
    assert solver.run(within(10), solve, SMALL).objective > 0


def once_busy(solver: Solver, then: Callable[[int], object]) -> threading.Thread:
    """Start a thread that does something to the child as soon as that has computed for a while."""
    process = psutil.Process(solver.child)
    before = user_seconds_of(process)

    def watch() -> None:
        until(lambda: user_seconds_of(process) > before + 0.05)
        then(process.pid)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def test_one_that_is_killed_overran_and_the_next_is_answered(solver: Solver) -> None:
    solver.run(within(10), solve, SMALL)
    # As the kernel does when memory runs out, and the processor after a bad pointer.
    for how in (signal.SIGKILL, signal.SIGSEGV):
        thread = once_busy(solver, lambda process, how=how: os.kill(process, how))
        with pytest.raises(Overrun, match=f"broke down: .* was ended by {how.name}"):
            solver.run(within(30), solve, LARGE, SLOW)
        thread.join()
        assert solver.run(within(10), solve, SMALL).objective > 0


def test_one_that_ends_between_two_calls_is_replaced(solver: Solver) -> None:
    solver.run(within(10), solve, SMALL)
    idle = solver.child
    assert idle is not None
    os.kill(idle, signal.SIGKILL)
    until(lambda: is_gone(idle))
    assert solver.run(within(10), solve, SMALL).objective > 0
    assert solver.child != idle


def test_memory_is_limited() -> None:
    small = Solver(Limits(memory_bytes=360 * MIB))
    try:
        with pytest.raises(Overrun, match="more than 360 MiB of memory"):
            small.run(within(30), solve, large_instance(50_000), "finish_time_fairness")
        assert small.run(within(10), solve, SMALL).objective > 0
    finally:
        small.close()


@pytest.mark.parametrize("limits", [Limits(recycle_calls=1), Limits(recycle_bytes=1)])
def test_it_is_started_anew_after_many_calls_and_when_it_has_grown(limits: Limits) -> None:
    solver = Solver(limits)
    solver.warm_up()
    worn = solver.child
    assert worn is not None
    solver.run(within(10), solve, SMALL)
    assert solver.child not in (worn, None)
    solver.close()
    assert solver.child is None
    assert is_gone(worn)


def test_what_is_interrupted_does_not_answer_the_next_call(solver: Solver) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    solver.run(within(10), solve, SMALL)
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        # As a worker's soft time limit does.
        thread = once_busy(solver, lambda _: os.kill(os.getpid(), signal.SIGUSR1))
        with pytest.raises(Interrupted):
            solver.run(within(30), solve, LARGE, SLOW)
        thread.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert solver.run(within(10), solve, SMALL).instance.jobs == SMALL.jobs


def test_a_fork_leaves_the_child_to_its_parent(solver: Solver) -> None:
    solver.run(within(10), solve, SMALL)
    child = solver.child
    fork = os.fork()
    if not fork:
        os._exit(0 if solver.child is None else 1)
    assert os.waitpid(fork, 0)[1] == 0
    assert solver.run(within(10), solve, SMALL).objective > 0
    assert solver.child == child


PARENT = """
import sys
from scheduler.core.solvers.solving import solve
from scheduler.rounds.solver import Solver, TimeLeft
from tests.core.solvers.instances import large_instance
solver = Solver()
solver.run(TimeLeft(10, 60), solve, large_instance(20))
print(solver.child, flush=True)
solver.run(TimeLeft(100, 10), solve, large_instance(4000), "hierarchical_fifo")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a busy child notices when it has computed")
def test_a_busy_child_ends_with_its_parent_however_that_ends() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    busy = psutil.Process(child)
    before = user_seconds_of(busy)
    until(lambda: user_seconds_of(busy) > before + 0.05)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until(lambda: is_gone(child))


def test_all_computations_of_a_round_share_its_time(solver: Solver) -> None:
    solver.run(within(10), solve, SMALL)
    budget = Budget(solver, 0.4)
    first, second = of_view(budget, "first"), of_view(budget, "second")
    assert first(solve, SMALL).objective > 0
    assert 0 < budget.seconds["first"] < 0.4
    with pytest.raises(Overrun, match=r"longer than the 0\.\d+ s that it had"):
        first(solve, LARGE, SLOW)
    with pytest.raises(Overrun, match="policies of other views took all the time"):
        second(solve, SMALL)
    with pytest.raises(Overrun, match=r"longer than the 0\.4 s that it had"):
        first(solve, SMALL)
    assert (budget.computations, budget.crowded_out) == ({"first": 2}, {"second"})
    assert budget.seconds["second"] == 0


def test_what_can_not_start_keeps_a_round_waiting_once() -> None:
    # Less address space than Python's libraries need.
    tiny = Solver(Limits(memory_bytes=60 * MIB, start_seconds=60.0))
    budget = Budget(tiny, 1.0)
    for view in ("first", "second"):
        with pytest.raises(Overrun, match="did not start: it ended with exit status 1"):
            of_view(budget, view)(solve, SMALL)
    assert not any(budget.seconds.values())
    late = Budget(Solver(Limits(start_seconds=0.0)), 1.0)
    with pytest.raises(Overrun, match="was not ready in time"):
        late(solve, SMALL)
