"""The platform that the browser's tests use too; these come after them, for some kill parts of it."""

from collections.abc import Generator, Iterator

import pytest

from tests.e2e.installation import Agent, Installation

_FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="package")
def platform(shared_platform: Installation) -> Installation:
    """Two nodes of four V100 and one of a P100; tenant "vision" is guaranteed all V100."""
    for name, guaranteed in (("speech-vc", 0), ("vision-vc", 8)):
        body = {"guaranteed": {"V100": guaranteed} if guaranteed else {}}
        shared_platform.call("PUT", f"virtual-clusters/{name}", body)
    shared_platform.add_node("old", gpus=1, gpu_model="P100", rack="rack-2")
    return shared_platform


@pytest.fixture
def left(platform: Installation) -> Agent:
    return platform.agents[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


@pytest.fixture(autouse=True)
def _no_job_outlives_a_failure(request: pytest.FixtureRequest) -> Iterator[None]:
    """Cancel what a test that failed left to run, or every later one would wait for its GPUs."""
    yield
    if request.node.stash.get(_FAILED, False) and "platform" in request.fixturenames:
        request.getfixturevalue("platform").cancel_everything()
