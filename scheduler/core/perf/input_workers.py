"""How many input workers an attempt is to have, by what its trainer wishes for.

The trainer wishes for workers by how long it waits and how busy they are
(`allot.training.input_workers.scaling`). Here a wish counts once it has been the same for a while: one that
comes and goes starts and ends nobody.
"""

#: Workers are started soon, for GPUs wait, and ended late.
MORE_AFTER_SECONDS, FEWER_AFTER_SECONDS = 5.0, 30.0
#: A worker that ended sooner than this after its start is of no use, and after so many of them no more start.
SOON_SECONDS = 60.0
ENDED_SOON_MOST = 10


def within(wish: float, least: int, most: int) -> int:
    """Return how many a trainer wants that wishes for so many; 0: it is done with them."""
    return 0 if wish < 1 else int(min(max(wish, least), most))


def settled(desired: int, wanted: int, *, seconds: float) -> int:
    """Return how many there are to be. They were `desired`; for `seconds` the wish has been for `wanted`."""
    if wanted == 0:
        return 0
    waits = MORE_AFTER_SECONDS if wanted > desired else FEWER_AFTER_SECONDS
    return wanted if seconds >= waits or not desired else desired
