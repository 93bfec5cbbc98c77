"""One platform for all of these tests: starting it is the expensive part."""

from collections.abc import Iterator

import pytest

from tests.e2e.installation import Agent, Installation, installation
from tests.servers import migrated_home


@pytest.fixture(scope="package")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Two nodes of four V100 and one P100; tenant "vision" with all V100 guaranteed in "research"."""
    with installation(tmp_path_factory.mktemp("e2e"), migrated_home) as platform:
        platform.add_node("left", gpus=4)
        platform.add_node("right", gpus=4)
        platform.add_node("old", gpus=1, gpu_model="P100", rack="rack-2")
        platform.call("POST", "tenants", {"name": "vision", "title": "Vision"})
        platform.call(
            "POST",
            "virtual-clusters",
            {
                "name": "research",
                "guaranteed": {"V100": 8},
                "members": [{"tenant": "vision", "weight": 1}],
            },
        )
        yield platform


@pytest.fixture
def left(platform: Installation) -> Agent:
    return platform.agents[0]
