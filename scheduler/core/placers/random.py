"""Put each replica on a node drawn at random from those that hold it: the baseline that papers compare with.

Every node of every model the job accepts is equally likely to get the first replica of a gang; the others are
drawn from the nodes of the same model (and the same rack, where the job asks for one). A part goes to a GPU
drawn from those of the drawn node with room for it: random fit of Weng et al., USENIX ATC 2023.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.building_blocks.node_scores import NodeState
from scheduler.core.building_blocks.placing import Option, Site, place_all
from scheduler.core.building_blocks.policy import PlacerDecision, View
from scheduler.core.building_blocks.scoring import PartsByScore
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import Need
from scheduler.core.model.plan import Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class Random:
    """Nodes drawn at random, and GPUs for parts.

    All draws of a round come from one generator, seeded from `seed`, the view's name and the time: equal
    snapshots give equal plans, and a gang that failed on a node is not bound to draw it again.
    """

    seed: int = 0

    def place(self, grants: Sequence[Grant], view: View, capacity: Capacity) -> PlacerDecision:
        """Return where the grants go; one that does not fit is left out."""
        dice = random.Random(f"{self.seed}:{view.name}:{view.now}")
        return place_all(grants, view, capacity, _Draw(dice), part_chooser=_DrawParts(dice))


class _Draw:
    models_alike = True

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    def pick(
        self, site: Site, nodes: Sequence[int], need: Need, taken: Mapping[int, Need]
    ) -> tuple[float, int]:
        return 0.0, self._dice.choice(nodes)

    def best(self, options: Sequence[Option]) -> Option:
        [option] = self._dice.choices(options, weights=[option.choices for option in options])
        return option


class _AnyGpu:
    """The scorer that rates all nodes alike and draws the GPU at random."""

    sees_kinds = False

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    def score(self, node: NodeState, need: Need, able: Sequence[int]) -> tuple[float, int]:
        return 0.0, self._dice.choice(able) if able else 0


class _DrawParts(PartsByScore):
    """A node drawn for each replica of a gang that has parts of GPUs."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__(_AnyGpu(dice))
        self._dice = dice

    def _score(self, node: NodeState, need: Need, able: tuple[int, ...]) -> tuple[float, int]:
        return self._scorer.score(node, need, able)

    def _choice(self, points: Sequence[float], scope: int, is_everywhere: bool) -> tuple[float, int]:
        able = [node for node, each in enumerate(points) if each > -1.0]
        if not is_everywhere:
            able = [node for node in able if scope >> node & 1]
        if not able:
            return -1.0, -1
        # The largest of as many draws as there are nodes, so each model wins in proportion to its nodes.
        return self._dice.random() ** (1 / len(able)), self._dice.choice(able)
