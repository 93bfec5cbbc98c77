"""Random problems for Pollux's searches: gangs that scale more or less well, some of which run."""

from __future__ import annotations

import random

import numpy as np

from scheduler.core.building_blocks.elastic.arrangement import Gang, Row
from scheduler.core.policies.pollux.problem import Problem, restart_factors


def random_problem(gangs: int, nodes: int, seed: int, *, gpus: int = 4, power: float = -1.0) -> Problem:
    """Gangs with up to 16 replicas, of which each costs as much again to synchronise over nodes as on one."""
    dice = random.Random(seed)
    most = [dice.choice((1, 2, 4, 8, 16)) for _ in range(gangs)]
    replicas, free = np.arange(max(most) + 1), [gpus] * nodes
    speedups, found = np.zeros((2, gangs, max(most) + 1)), []
    fair = -(-nodes * gpus // gangs)
    for gang in range(gangs):
        cost = dice.uniform(0.01, 0.3)
        costs = cost, cost * dice.uniform(1.1, 3.0)
        at_fair = fair / (1 + cost * (fair - 1))
        for several, each in enumerate(costs):
            speed = replicas / (1 + each * np.maximum(replicas - 1, 0)) / at_fair
            speedups[several, gang] = np.where(replicas <= most[gang], speed, 0.0)
        base: Row = {}
        if dice.random() < 0.6:
            size = dice.randint(1, min(gpus, most[gang]))
            node = dice.randrange(nodes)
            if free[node] >= size:
                base, free[node] = {node: size}, free[node] - size
        found.append(Gang(sizes=tuple(range(1, most[gang] + 1)), base=base))
    ages = np.array([dice.uniform(60, 7200) for _ in range(gangs)])
    restarts = np.array([float(dice.randint(0, 8)) for _ in range(gangs)])
    return Problem(
        room=(gpus,) * nodes,
        limit=nodes * gpus,
        gangs=tuple(found),
        speedups=speedups,
        restart_factors=restart_factors(ages, restarts, 30.0),
        weights=np.ones(gangs),
        power=power,
    )
