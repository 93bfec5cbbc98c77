"""Why attempts end: real last lines, and what is made of them."""

from __future__ import annotations

import signal

import pytest

from nodeagent.process.outcome import MESSAGE_CHARACTERS, Ending, classify

TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 8, in <module>
    main()
  File "train.py", line 5, in main
    raise {error}
{error}
"""
ENDINGS = [
    # What the platform did itself comes first, whatever the job said while it went down.
    (Ending(reason="", exit_code=0), "", ""),
    (Ending(reason="stopped", exit_code=143, signal=15), "stopped", "asked to stop"),
    (Ending(reason="stopped", exit_code=1, last_lines="CUDA out of memory"), "stopped", "asked to stop"),
    (Ending(reason="leaving", exit_code=143), "lost", "agent was stopped"),
    (Ending(reason="lease", exit_code=143), "lost", "lost contact"),
    (Ending(reason="shim"), "lost", "watches over the attempt died"),
    # It could not be started.
    (
        Ending(reason="replica", exit_code=127, problem="trian.py: command not found"),
        "start_failed",
        "trian.py: command not found",
    ),
    (
        Ending(reason="replica", exit_code=127, last_lines="sh: 1: pyhton: not found"),
        "start_failed",
        "sh: 1: pyhton: not found",
    ),
    (Ending(reason="replica", exit_code=126), "start_failed", "cannot be executed"),
    (Ending(reason="replica", exit_code=127, last_lines="epoch 1\nepoch 2\nbye"), "user_error", "127: bye"),
    # The user's program.
    (
        Ending(reason="replica", exit_code=1, last_lines=TRACEBACK.format(error="ValueError: no data in /x")),
        "user_error",
        "ValueError: no data in /x",
    ),
    (
        Ending(reason="replica", exit_code=1, last_lines=TRACEBACK.format(error="my.pkg.BadShapeError")),
        "user_error",
        "my.pkg.BadShapeError",
    ),
    (Ending(reason="replica", exit_code=3), "user_error", "exit code 3"),
    (
        Ending(reason="replica", exit_code=3, last_lines="no licence\n\n"),
        "user_error",
        "exit code 3: no licence",
    ),
    (Ending(reason="replica", exit_code=139, signal=signal.SIGSEGV), "user_error", "SIGSEGV"),
    (Ending(reason="replica", exit_code=128 + 40, signal=40), "user_error", "signal 40"),
    # Memory.
    (Ending(reason="replica", exit_code=137, signal=9, was_out_of_memory=True), "out_of_memory", "for."),
    (
        Ending(reason="replica", exit_code=137, signal=9, was_out_of_memory=True, memory_bytes=2**26),
        "out_of_memory",
        "more memory than it asked for (64 MiB).",
    ),
    (
        Ending(reason="gpu_memory", gpu_memory_bytes=6 * 2**30),
        "gpu_memory_exceeded",
        "than its part of the GPU has (6 GiB).",
    ),
    (
        Ending(reason="replica", exit_code=137, signal=9, kernel_killed_for_memory=True),
        "out_of_memory",
        "kernel",
    ),
    (Ending(reason="replica", exit_code=137, signal=9), "user_error", "SIGKILL"),
    (Ending(reason="replica", exit_code=1, kernel_killed_for_memory=True), "user_error", "exit code 1"),
    (
        Ending(
            reason="replica",
            exit_code=1,
            last_lines="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB",
        ),
        "out_of_memory",
        "CUDA out of memory",
    ),
    (
        Ending(reason="replica", exit_code=1, last_lines=TRACEBACK.format(error="MemoryError")),
        "out_of_memory",
        "",
    ),
    (
        Ending(
            reason="replica",
            exit_code=1,
            last_lines="numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.00 TiB",
        ),
        "out_of_memory",
        "8.00 TiB",
    ),
    (
        Ending(reason="replica", exit_code=134, signal=6, last_lines="what():  std::bad_alloc"),
        "out_of_memory",
        "bad_alloc",
    ),
    # The device.
    (
        Ending(
            reason="replica",
            exit_code=1,
            last_lines="NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus",
        ),
        "hardware",
        "Xid",
    ),
    (
        Ending(
            reason="replica",
            exit_code=1,
            last_lines="RuntimeError: CUDA error: uncorrectable ECC error encountered",
        ),
        "hardware",
        "ECC",
    ),
    (
        Ending(
            reason="replica",
            exit_code=1,
            last_lines="RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
            "RuntimeError: NCCL error: unhandled system error",
        ),
        "hardware",
        "ECC",
    ),
    # The other processes.
    (
        Ending(
            reason="replica",
            exit_code=1,
            last_lines="RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1333, unhandled system error",
        ),
        "network",
        "NCCL",
    ),
    (
        Ending(
            reason="replica",
            exit_code=134,
            signal=6,
            last_lines="[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)",
        ),
        "network",
        "Watchdog",
    ),
    (
        Ending(
            reason="replica",
            exit_code=1,
            last_lines=TRACEBACK.format(error="ConnectionRefusedError: [Errno 111] Connection refused"),
        ),
        "network",
        "Connection refused",
    ),
    (
        Ending(
            reason="replica",
            exit_code=1,
            last_lines="torch.distributed.DistNetworkError: The client socket has timed out after 60000ms",
        ),
        "network",
        "timed out",
    ),
]


@pytest.mark.parametrize(("ending", "category", "message"), ENDINGS)
def test_every_ending_has_its_category(ending: Ending, category: str, message: str) -> None:
    found, said = classify(ending)
    assert found == category
    assert message in said
    assert bool(said) == bool(category)


@pytest.mark.parametrize(
    "harmless",
    [
        "Using XidBuffer for prefetch",
        "loss 0.3, out of memory budget 12 of 16 GB",
        "WARNING: connection pool is small",
        "retrying after timeout 3 of 5",
    ],
)
def test_words_that_only_look_alike_decide_nothing(harmless: str) -> None:
    ending = Ending(reason="replica", exit_code=1, last_lines=f"{harmless}\nKeyError: 'labels'")
    assert classify(ending) == ("user_error", "KeyError: 'labels'")


def test_a_message_holds_nothing_that_a_page_or_a_database_stumbles_over() -> None:
    ending = Ending(reason="replica", exit_code=1, last_lines="ValueError: a\x00b\x1b[31mc\tend")
    assert classify(ending) == ("user_error", "ValueError: a b [31mc end")


def test_a_long_message_is_cut() -> None:
    ending = Ending(reason="replica", exit_code=1, last_lines="ValueError: " + "x" * 10_000)
    assert len(classify(ending)[1]) == MESSAGE_CHARACTERS
