"""Batches of long-running services: the program against every layout there is, and Medea's claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from scheduler.core.fitting.long_running import (
    Batch,
    Layout,
    Service,
    by_popularity,
    value,
)
from scheduler.core.fitting.long_running_program import optimum, place
from scheduler.core.model.tag_constraints import TagConstraint

WEB, CACHE = frozenset({"web"}), frozenset({"cache"})
RACKS = {"node": (0, 1, 2, 3), "rack": (0, 0, 1, 1), "cluster": (0, 0, 0, 0)}


def worth(batch: Batch, layout: Layout) -> float:
    found = value(batch, layout)
    assert found is not None, f"breaks a must: {layout}"
    return found


def every_layout(batch: Batch) -> list[Layout]:
    nodes = range(len(batch.free))
    choices = [
        [None]
        + [
            {node: count for node, count in zip(nodes, counts, strict=True) if count}
            for counts in product(range(service.containers + 1), repeat=len(nodes))
            if sum(counts) == service.containers
        ]
        for service in batch.services
    ]
    return [
        {number: each for number, each in enumerate(chosen) if each is not None}
        for chosen in product(*choices)
    ]


def some_batch(random: Random) -> Batch:
    def constraint() -> TagConstraint:
        least = random.choice((0, 0, 1, 2))
        return TagConstraint(
            tag=random.choice(("web", "cache")),
            scope=random.choice(("node", "rack", "cluster")),
            least=least,
            most=random.choice((None, least, least + 1)),
            weight=random.choice((None, 0.5, 1.0)),
        )

    def service() -> Service:
        return Service(
            tags=random.choice((WEB, CACHE, WEB | CACHE)),
            containers=random.randint(1, 2),
            gpus=random.randint(1, 2),
            constraints=tuple(constraint() for _ in range(random.randint(0, 2))),
        )

    return Batch(
        services=tuple(service() for _ in range(3)),
        free=tuple(random.randint(0, 3) for _ in range(3)),
        groups={"node": (0, 1, 2), "rack": (0, 0, 1), "cluster": (0, 0, 0)},
        running=tuple((service(), {random.randrange(3): 1}) for _ in range(random.randint(0, 2))),
        threshold=2,
    )


@pytest.mark.parametrize("seed", range(40))
def test_the_program_finds_the_best_layout_and_the_heuristic_breaks_no_must(seed: int) -> None:
    batch = some_batch(Random(seed))
    values = [found for layout in every_layout(batch) if (found := value(batch, layout)) is not None]
    assert worth(batch, optimum(batch)) == pytest.approx(max(values), abs=1e-6)
    assert worth(batch, by_popularity(batch)) <= max(values) + 1e-6


def test_a_batch_places_what_one_by_one_cannot() -> None:
    """The first takes the only node that the two others, which must be together, could share."""
    near = TagConstraint(tag="cache", scope="node", least=1)
    services = (
        Service(tags=frozenset({"batch"}), containers=1, gpus=1),
        Service(tags=WEB, containers=1, gpus=1, constraints=(near,)),
        Service(tags=CACHE, containers=1, gpus=1),
    )
    batch = Batch(services=services, free=(2, 1, 0, 0), groups=RACKS)
    assert set(place(batch)) == {0, 1, 2}
    free, placed = list(batch.free), 0
    running: list[tuple[Service, Mapping[int, int]]] = []
    for service in services:
        alone = optimum(replace(batch, services=(service,), free=tuple(free), running=tuple(running)))
        for nodes in alone.values():
            placed += 1
            running.append((service, nodes))
            for node, count in nodes.items():
                free[node] -= count * service.gpus
    assert placed == 2, "the web server comes before its cache is there"


def test_a_newcomer_keeps_away_from_whom_a_running_service_shuns() -> None:
    alone = Service(
        tags=WEB,
        containers=1,
        gpus=1,
        constraints=(TagConstraint(tag="cache", scope="rack", most=0),),
    )
    batch = Batch(
        services=(Service(tags=CACHE, containers=2, gpus=1),),
        free=(3, 3, 1, 0),
        groups=RACKS,
        running=((alone, {0: 1}),),
    )
    assert place(batch) == {}
    assert by_popularity(batch) == {}
    assert place(replace(batch, free=(3, 3, 1, 1))) == {0: {2: 1, 3: 1}}


@pytest.mark.parametrize("way", [optimum, by_popularity])
def test_those_who_cannot_be_without_one_another_come_together(way: Callable[[Batch], Layout]) -> None:
    web = Service(
        tags=WEB,
        containers=2,
        gpus=1,
        constraints=(
            TagConstraint(tag="cache", scope="rack", least=1),
            TagConstraint(tag="web", scope="node", most=0),
        ),
    )
    cache = Service(
        tags=CACHE, containers=1, gpus=2, constraints=(TagConstraint(tag="web", scope="rack", least=1),)
    )
    batch = Batch(services=(web, cache), free=(4, 1, 2, 2), groups=RACKS)
    assert way(batch).keys() == {0, 1}
    assert way(replace(batch, services=(web,))) == way(replace(batch, services=(cache,))) == {}


@pytest.mark.parametrize("way", [optimum, by_popularity])
def test_a_node_takes_no_more_than_it_has_room_for(way: Callable[[Batch], Layout]) -> None:
    """Its GPUs are idle, but not its CPUs, say."""
    service = Service(tags=WEB, containers=3, gpus=1, room=(1, 0, 2, 0))
    batch = Batch(services=(service,), free=(4, 4, 4, 4), groups=RACKS)
    assert way(batch) == {0: {0: 1, 2: 2}}
    assert way(replace(batch, services=(replace(service, containers=4),))) == {}
