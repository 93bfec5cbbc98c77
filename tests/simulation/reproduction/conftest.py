"""Published results are run again by `make reproduce`, and no test of every day."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    # The product's own `simulate` has Gavel's rounds as a mode.
    if "gavel" not in item.path.parts:
        item.add_marker(pytest.mark.reproduction)
