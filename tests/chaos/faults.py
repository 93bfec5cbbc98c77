"""What is done to the platform, and when: drawn from the seed before anything starts."""

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass

#: What can be done, and how often compared with the others.
WEIGHTS: Mapping[str, float] = {
    "kill job": 4,
    "kill shim": 3,
    "kill agent": 3,
    "kill token daemon": 2,
    "kill worker": 2,
    "kill worker's child": 2,
    "kill web": 2,
    "kill beat": 1,
    "kill redis": 1.5,
    "kill postgres": 1.5,
    "kill supervisor": 0.3,
    "pause job": 2,
    "pause shim": 2,
    "pause agent": 2,
    "pause token daemon": 1,
    "pause node": 2,
    "pause worker": 1,
    "pause web": 1,
    "pause beat": 0.5,
    "pause redis": 1,
    "pause postgres": 1,
    "cut node off": 4,
    "fill node's disk": 2,
    "fill database's disk": 0.7,
    "fill checkpoints' disk": 0.7,
    "step clock": 2,
    "restart control plane": 0.3,
    "revoke token": 1,
    "remove member": 1,
    "disable user": 1,
    "overload": 0.5,
    "withhold redis": 0.7,
}
#: Of those that last: how often longer than the lease and its margin.
LONG_SHARE = 0.2
SHORT_SECONDS = (0.2, 2.5)
#: Times the lease with its margin.
LONG_LEASES = (1.1, 1.8)
#: What needs some seconds to be felt, or to be told of.
LEAST_SECONDS: Mapping[str, float] = {
    "fill database's disk": 6.0,
    "fill checkpoints' disk": 3.0,
    "overload": 8.0,
    # Longer than any connection is waited for: what is committed meanwhile has to be answered as such.
    "withhold redis": 30.0,
}
CLOCK_STEP_SECONDS = 2 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is done. `draw`, from 0 to 1, picks to whom among those there are by then."""

    number: int
    at_seconds: float
    kind: str
    draw: float
    #: How long it lasts; for a killed agent: how long nobody starts it again.
    lasts_seconds: float
    clock_step_seconds: float

    @property
    def verb(self) -> str:
        return self.kind.split()[0]

    @property
    def target(self) -> str:
        return self.kind.partition(" ")[2]


def plan(
    seed: int, *, faults: int, seconds: float, lease_seconds: float, without: Collection[str] = ()
) -> list[Fault]:
    """Return so many faults, spread at random over the time. Each possible kind comes before any comes often.

    `lease_seconds` is a node's lease with its margin; `without` names kinds that cannot be done here.
    """
    chance = random.Random(seed)
    weights = {kind: weight for kind, weight in WEIGHTS.items() if kind not in without}
    kinds = chance.sample(list(weights), len(weights))[:faults]
    kinds += chance.choices(list(weights), list(weights.values()), k=faults - len(kinds))
    times = sorted(chance.uniform(0, seconds) for _ in kinds)
    return [
        Fault(
            number=number,
            at_seconds=at,
            kind=kind,
            draw=chance.random(),
            lasts_seconds=max(_lasting(chance, lease_seconds), LEAST_SECONDS.get(kind, 0.0)),
            clock_step_seconds=chance.uniform(-CLOCK_STEP_SECONDS, CLOCK_STEP_SECONDS),
        )
        for number, (at, kind) in enumerate(zip(times, kinds, strict=True), 1)
    ]


def _lasting(chance: random.Random, lease_seconds: float) -> float:
    if chance.random() < LONG_SHARE:
        return lease_seconds * chance.uniform(*LONG_LEASES)
    return chance.uniform(*SHORT_SECONDS)
