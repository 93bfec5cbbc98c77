"""Decide how many input workers an attempt has, from what its trainer requests.

The trainer bases its request on how long it waits and how busy its workers are
(`allot.training.input_workers.scaling`). Here a number counts only once it has been requested for a while, so
that a brief change has no effect.
"""

#: Workers start soon, because GPUs wait for them, and end late.
MORE_AFTER_SECONDS, FEWER_AFTER_SECONDS = 5.0, 30.0
#: A worker that ends sooner than this after its start is of no use; after this number of them no more start.
SOON_SECONDS = 60.0
ENDED_SOON_MOST = 10


def within(number: float, least: int, most: int) -> int:
    """Return the trainer's request clipped to the bounds; 0 if it needs no input workers any more."""
    return 0 if number < 1 else int(min(max(number, least), most))


def settled(desired: int, requested: int, *, seconds: float) -> int:
    """Return how many workers there should be, given what the trainer has requested for `seconds`."""
    if requested == 0:
        return 0
    waits = MORE_AFTER_SECONDS if requested > desired else FEWER_AFTER_SECONDS
    return requested if seconds >= waits or not desired else desired
