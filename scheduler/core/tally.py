"""How many GPUs of each cell have a property, with the cells of equal count as sets, level by level."""

from __future__ import annotations

from scheduler.core.cells.chains import Chain


class Tally:
    """Counts GPUs of one chain; every cell that one of them is part of is kept up to date."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._counts = [[0] * chain.count(level) for level in range(chain.top + 1)]
        #: By count of GPUs that have the property, then by level: the set of cells.
        self.cells = [[chain.everything(level) for level in range(chain.top + 1)]]

    def add(self, leaf: int, by: int) -> None:
        """Count a GPU (`by` 1), or count it no more (-1)."""
        for level, counts in enumerate(self._counts):
            number = self._chain.above(0, leaf, level)
            before = counts[number]
            counts[number] = after = before + by
            while len(self.cells) <= after:
                self.cells.append([0] * len(self._counts))
            self.cells[before][level] ^= 1 << number
            self.cells[after][level] ^= 1 << number
