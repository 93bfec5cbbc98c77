"""One loud tenant costs others less than half a second at the median, and no lease."""

from collections.abc import Iterator

import pytest

from tests.e2e.installation import Installation, installation
from tests.e2e.loud_tenant import nodes_lost, prepare, shout


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installation(tmp_path_factory.mktemp("loud")) as platform:
        platform.add_node("left", gpus=2)
        yield platform


@pytest.fixture(scope="module")
def jobs(platform: Installation) -> tuple[int, int]:
    return prepare(platform)


@pytest.mark.slow
@pytest.mark.parametrize("clients", [30, 100])
def test_others_hardly_feel_a_loud_tenant_and_no_lease_is_lost(platform, jobs, clients):
    written, kept = jobs
    felt = shout(platform, written, clients=clients, seconds=15)
    assert felt.refused == []
    assert felt.median < 0.5
    # Some of it is done, and the rest is told to come back.
    assert felt.loud[200] > 0
    assert felt.loud[429] > 0
    assert set(felt.loud) == {200, 429}
    assert nodes_lost(platform) == 0
    assert platform.job(kept)["state"] == "running"
    assert platform.job(kept)["attempts"] == 1
