"""The settings for looking at the code, its types and its schema: they are complete, and lead nowhere."""

import os

os.environ |= {
    "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
    "REDIS_URL": "redis://127.0.0.1:1/0",
    "ALLOT_SECRET_KEY": "only-to-look-at-the-code-00000000000",
}

from controlplane.settings import *  # noqa: F403
