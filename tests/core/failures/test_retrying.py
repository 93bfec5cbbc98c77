"""Classes of failures and what is done about them; what becomes of jobs that lose their nodes."""

from __future__ import annotations

import pytest

from scheduler.core.failures.retrying import (
    HELD_AFTER,
    RAN_WELL_SECONDS,
    AfterLoss,
    FailedAttempt,
    RetryRules,
    after_loss,
    judge,
)
from scheduler.core.failures.taxonomy import Layer, class_of

#: Category and line as nodes report them, and the class.
ENDS = [
    ("lost", "The node lost contact with the control plane, so it stopped the attempt.", "node_lost"),
    ("start_failed", "trian.py: command not found", "start_failed"),
    ("hardware", "The device or driver failed: CUDA error: uncorrectable ECC error", "gpu_ecc_error"),
    ("hardware", "The device or driver failed: NVRM: Xid (PCI:0000:3b:00): 79", "gpu_failure"),
    (
        "hardware",
        "The device or driver failed: NVML: Driver/library version mismatch",
        "cuda_version_mismatch",
    ),
    ("out_of_memory", "Out of memory: torch.OutOfMemoryError: CUDA out of memory.", "gpu_out_of_memory"),
    ("out_of_memory", "It was killed because it used more memory than it asked for.", "cpu_out_of_memory"),
    ("network", "The processes lost each other: RuntimeError: NCCL error in: x.cpp:1333", "collective_error"),
    ("network", "The processes lost each other: ConnectionResetError: [Errno 104]", "connection_error"),
    ("user_error", "OSError: [Errno 28] No space left on device", "disk_full"),
    ("user_error", "RuntimeError: PytorchStreamReader failed reading zip archive", "model_checkpoint_error"),
    ("user_error", "RuntimeError: No CUDA GPUs are available: no CUDA-capable device", "cuda_init_failed"),
    ("user_error", "It was ended by SIGSEGV, which the platform did not send.", "invalid_memory_access"),
    (
        "user_error",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "invalid_memory_access",
    ),
    ("user_error", "RuntimeError: CUDA error: unspecified launch failure", "cuda_failure"),
    ("user_error", "It was ended by SIGABRT, which the platform did not send.", "core_dump"),
    ("user_error", "SyntaxError: invalid syntax", "syntax_error"),
    ("user_error", "ModuleNotFoundError: No module named 'apex'", "import_error"),
    ("user_error", "PermissionError: [Errno 13] Permission denied: '/data'", "permission_error"),
    ("user_error", "Rank 3: FileNotFoundError: [Errno 2] No such file or directory: 'x'", "incorrect_inputs"),
    ("user_error", "It ended with exit code 2: x.py: error: argument --batch: no", "incorrect_inputs"),
    ("user_error", "ValueError: loss is nan at step 12", "model_diverged"),
    ("user_error", "KeyError: 'labels'", "semantic_error"),
    ("user_error", "my.package.StrangeError: what", "traceback_from_crash"),
    ("user_error", "It ended with exit code 3: bye", "no_signature"),
]


@pytest.mark.parametrize(("category", "message", "name"), ENDS)
def test_every_end_has_its_class(category: str, message: str, name: str) -> None:
    assert class_of(category, message).name == name


def failed(category: str, message: str) -> FailedAttempt:
    return FailedAttempt(class_of(category, message), message)


ECC = failed("hardware", "CUDA error: uncorrectable ECC error")
NETWORK = failed("network", "RuntimeError: NCCL error")
USER = failed("user_error", "KeyError: 'labels'")
CRASH = failed("user_error", "It was ended by SIGABRT, which the platform did not send.")


def unknown(number: int, text: str = "bye") -> FailedAttempt:
    return failed("user_error", f"It ended with exit code {number}: {text}")


def test_what_the_job_brings_about_is_not_tried_again() -> None:
    verdict = judge(USER, (), RetryRules(max_attempts=5))
    assert not verdict.retry
    assert verdict.why == "the program has an error: the next attempt would fail the same way"
    assert verdict.name == "semantic_error"


def test_a_broken_device_is_tried_elsewhere_and_others_anywhere_later_each_time() -> None:
    first = judge(ECC, (), RetryRules())
    assert (first.retry, first.avoid_node, first.after_seconds) == (True, True, 5.0)
    second = judge(NETWORK, (ECC,), RetryRules())
    assert (second.retry, second.avoid_node, second.after_seconds) == (True, False, 20.0)
    assert not judge(NETWORK, (ECC, NETWORK), RetryRules()).retry


def test_what_the_platform_does_may_happen_twice_alike() -> None:
    assert judge(NETWORK, (NETWORK,), RetryRules()).retry


def test_what_nobody_knows_is_tried_once_more() -> None:
    assert judge(unknown(3), (), RetryRules(max_attempts=9)).retry
    assert not judge(unknown(4), (unknown(3),), RetryRules(max_attempts=9)).retry


def test_what_fails_twice_alike_would_again_whatever_the_numbers_in_it() -> None:
    rules = RetryRules(max_attempts=9, attempts={"engine": 9})
    assert judge(CRASH, (), RetryRules(max_attempts=9)).retry
    again = judge(unknown(3, "at 0x7f12"), (NETWORK, unknown(3, "at 0x8e99")), RetryRules(max_attempts=9))
    assert not again.retry
    # Unless its owner wants just that.
    assert judge(CRASH, (CRASH,), rules).retry


def test_the_owner_may_ask_for_more_or_less() -> None:
    assert judge(USER, (USER,), RetryRules(attempts={"semantic_error": 3})).retry
    assert judge(USER, (), RetryRules(matching={"labels": 2})).retry
    assert not judge(NETWORK, (), RetryRules(attempts={"platform": 1})).retry
    assert not judge(NETWORK, (), RetryRules(max_attempts=1)).retry


def test_every_layer_has_its_limit() -> None:
    assert {class_of(category, message).layer for category, message, _ in ENDS} == set(Layer)


def test_a_job_waits_longer_after_each_loss_in_a_row_and_is_held_in_the_end() -> None:
    after = [after_loss([10.0] * losses) for losses in range(1, HELD_AFTER + 1)]
    assert [one.wait_seconds for one in after[:6]] == [0, 5, 20, 60, 180, 600]
    assert sum(one.wait_seconds for one in after[:-1]) > 20 * 60
    assert [one.is_held for one in after] == [False] * (HELD_AFTER - 1) + [True]


def test_an_attempt_that_ran_well_begins_a_row() -> None:
    assert after_loss([RAN_WELL_SECONDS] + [10.0] * 20) == AfterLoss(1, 0.0, is_held=False)
    assert after_loss([10.0, RAN_WELL_SECONDS, 10.0]).in_a_row == 2


def test_what_could_not_start_may_have_lost_a_secret() -> None:
    assert class_of("start_failed", "The secret hf was deleted.").advice.endswith("or a secret.")
