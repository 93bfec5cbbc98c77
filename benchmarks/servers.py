"""PostgreSQL and Redis of a benchmark's own, and the settings by which Django finds them."""

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controlplane.embedded import ports
from controlplane.embedded.postgres import Postgres
from controlplane.embedded.redis import Redis
from controlplane.embedded.running import running


@contextmanager
def servers() -> Iterator[None]:
    """Run both, empty, while the block runs. Django is to be set up inside it."""
    with tempfile.TemporaryDirectory(prefix="allotment-bench-") as folder:
        postgres = Postgres(data=Path(folder) / "pg", password=secrets.token_urlsafe(), port=ports.pick())
        redis = Redis(folder=Path(folder) / "redis", password=secrets.token_urlsafe(), port=ports.pick())
        os.environ.update(
            DATABASE_URL=postgres.owner_url,
            REDIS_URL=redis.url,
            ALLOT_HOME=folder,
            ALLOT_SECRET_KEY=secrets.token_urlsafe(40),
            DJANGO_SETTINGS_MODULE="controlplane.settings",
        )
        with running(postgres), running(redis):
            yield
