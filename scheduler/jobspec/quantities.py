"""Durations and memory sizes as people write them."""

import re

# At most 15 digits a number, so that nothing overflows on its way to a float.
_AMOUNT = r"(\d{1,15}(?:\.\d{1,15})?)"
_DURATION = re.compile(rf"(?:{_AMOUNT}d)?(?:{_AMOUNT}h)?(?:{_AMOUNT}m)?(?:{_AMOUNT}s?)?")
_DURATION_UNITS_SECONDS = (86_400, 3_600, 60, 1)

_SIZE = re.compile(rf"{_AMOUNT} ?([KMGT]i?)?B?")
_SIZE_UNITS_BYTES = {
    "": 1,
    **{letter: 1000 ** (power + 1) for power, letter in enumerate("KMGT")},
    **{f"{letter}i": 1024 ** (power + 1) for power, letter in enumerate("KMGT")},
}


def seconds_of(text: str) -> float | None:
    """Return the seconds in "90", "45s", "30m", "1h30m" or "2d12h", or None if it is not a duration."""
    match = _DURATION.fullmatch(text.replace(" ", "").lower())
    if match is None or not any(match.groups()):
        return None
    return sum(
        float(amount) * unit
        for amount, unit in zip(match.groups(), _DURATION_UNITS_SECONDS, strict=True)
        if amount
    )


def bytes_of(text: str) -> int | None:
    """Return the bytes in "512MiB", "4GiB", "4Gi", "1.5GB" or "4096", or None if it is not a size."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    amount, unit = match.groups(default="")
    return round(float(amount) * _SIZE_UNITS_BYTES[unit])
