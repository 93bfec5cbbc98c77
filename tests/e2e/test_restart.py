"""The whole control plane is stopped and started again while jobs run, for more than a lease and for less."""

import signal
from collections.abc import Iterator

import pytest

from controlplane.embedded import ports
from tests.e2e.counting import finish, folder, ran_undisturbed, starts, submit_counting
from tests.e2e.installation import FAST, Installation, until

pytestmark = pytest.mark.slow

#: Longer than stopping and starting take on a busy machine.
PATIENT = FAST | {"ALLOT_NODE_LEASE_SECONDS": "90"}


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("restart")
    platform = Installation(home=folder / "home", port=ports.pick())
    try:
        platform.start("--no-demo")
        platform.sign_in()
        platform.add_node("only", gpus=2)
        platform.call("POST", "tenants", {"name": "vision"})
        members = [{"tenant": "vision", "weight": 1}]
        body = {"name": "research", "guaranteed": {"V100": 2}, "members": members}
        platform.call("POST", "virtual-clusters", body)
        yield platform
    finally:
        platform.stop()


def test_away_for_longer_than_the_lease_they_save_their_work_and_go_on_from_it(platform: Installation):
    job = submit_counting(platform)
    stop(platform)
    saved = folder(platform, job) / "saved"
    until(saved.exists, 30, "the job to be stopped by its minder, without a control plane")
    platform.start("--no-demo")
    until(lambda: len(starts(platform, job)) == 2, 30, "the job to go on")
    assert starts(platform, job) == [0, int(saved.read_text())]
    done = finish(platform, job)
    # To be stopped so is no failure of its own.
    assert (done["attempts"], done["failures"]) == (2, 0)


def test_back_within_the_lease_jobs_have_gone_on_as_if_nothing_had_been(platform: Installation):
    stop(platform)
    platform.settings = PATIENT
    platform.start("--no-demo")
    jobs = [submit_counting(platform), submit_counting(platform)]
    stop(platform)
    platform.start("--no-demo")
    for job in jobs:
        ran_undisturbed(platform, job)


def stop(platform: Installation) -> None:
    assert platform.supervisor is not None
    platform.supervisor.send_signal(signal.SIGINT)
    platform.supervisor.wait(60)
