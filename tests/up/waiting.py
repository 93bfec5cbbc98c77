"""Wait for a condition instead of sleeping and hoping."""

import time
from collections.abc import Callable


def wait_until(
    condition: Callable[[], bool], explain: Callable[[], str] = lambda: "", seconds: float = 60.0
) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not so after {seconds:.0f} s\n{explain()}"
        time.sleep(0.01)
