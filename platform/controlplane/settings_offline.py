"""The settings for looking at the code, such as its types: they are complete, and lead nowhere."""

import os

for _name, _value in {
    "DATABASE_URL": "postgresql://nobody@localhost/nothing",
    "REDIS_URL": "redis://localhost",
    "ALLOT_SECRET_KEY": "only-to-look-at-the-code-00000000000",
}.items():
    os.environ.setdefault(_name, _value)

from controlplane.settings import *  # noqa: E402, F403
