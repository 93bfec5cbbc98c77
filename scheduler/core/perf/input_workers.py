"""How many input workers an attempt is to have, by what its trainer asks for.

The trainer asks by how long it waits and how busy its workers are (`allot.training.input_workers.scaling`).
Here a number counts once it has been requested for a while: one that comes and goes changes
nothing.
"""

#: Workers are started soon, for GPUs wait, and ended late.
MORE_AFTER_SECONDS, FEWER_AFTER_SECONDS = 5.0, 30.0
#: A worker that ended sooner than this after its start is of no use; after this number of them no more start.
SOON_SECONDS = 60.0
ENDED_SOON_MOST = 10


def within(number: float, least: int, most: int) -> int:
    """Return what a trainer asks for as a number within the bounds; 0: it is done with input workers."""
    return 0 if number < 1 else int(min(max(number, least), most))


def settled(desired: int, requested: int, *, seconds: float) -> int:
    """Return how many there are to be, by what the trainer has requested for `seconds`."""
    if requested == 0:
        return 0
    waits = MORE_AFTER_SECONDS if requested > desired else FEWER_AFTER_SECONDS
    return requested if seconds >= waits or not desired else desired
