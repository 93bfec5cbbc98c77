from collections.abc import Iterator

import pytest

from tests.api.caller import forget_wrong_passwords


@pytest.fixture(autouse=True)
def _quick_and_anew(settings, redis_url: str) -> Iterator[None]:
    """Passwords by a hash that costs nothing, and no wrong guesses left over from one test to another."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    forget_wrong_passwords()
    yield
    forget_wrong_passwords()
