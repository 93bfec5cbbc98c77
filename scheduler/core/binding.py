"""Which physical cells each virtual cluster has, from round to round: HiveD's mapping layer under decide().

HiveD (OSDI'20, section 3.2) gives a virtual cluster physical cells when it needs them, and takes them back
when nothing guaranteed runs in them. Here each round does so around the view of a virtual cluster:

1. Cells in which its guaranteed jobs run stay bound.
2. While its view is served, it is offered the rest of its cells too, bound to the hardware that disturbs the
   fewest opportunistic GPUs. Its policy then works on a private cluster, and can be any policy.
3. What it did not use is unbound before the next virtual cluster is served.

All of it rests on `cells.pool`: a cell is bound only if everyone else still gets all that is owed to them.

What is bound is remembered between rounds and may be lost without harm: a guaranteed job found outside the
bound cells of its virtual cluster gets one bound around it if that is possible. If not (the cells were
reconfigured), its guarantee *lapses*: it runs on as opportunistic, as after HiveD's lazy preemption, and gets
its guarantee back once a cell can be bound around it. HiveD never gives it back.

Differences from the published scheduler: pinned cells serve every job of their virtual cluster, not only
those that name them; a gang may span the chains of one GPU model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from scheduler.core.admit import Admission
from scheduler.core.cells.chains import Cell
from scheduler.core.cells.pool import ByLevel, pools_of
from scheduler.core.facts import Facts
from scheduler.core.hardware import Hardware, Masks
from scheduler.core.holding import Holding
from scheduler.core.plan import Placement
from scheduler.core.snapshot import AllocationId, GpuId, JobId, Memory, Running
from scheduler.core.tally import Tally

#: The key of Snapshot.memory under which it is remembered what is bound; no virtual cluster has this name.
CELLS = "cells"


class Slots:
    """The numbers that cells of one kind have for their owner, wherever they are bound; the lowest first."""

    def __init__(self, count: int) -> None:
        self._free = list(range(count))

    def take(self, wanted: int | None = None) -> int:
        """Return a free number: the one that is wanted, if it is free."""
        if wanted is None or wanted not in self._free:
            return heappop(self._free)
        self._free.remove(wanted)
        heapify(self._free)
        return wanted

    def give_back(self, slot: int) -> None:
        heappush(self._free, slot)


class Binding:
    """Binds and unbinds cells; knows whose guarantee holds."""

    def __init__(self, facts: Facts, admission: Admission) -> None:
        assert facts.layout is not None
        self._facts, self._admission, self.layout = facts, admission, facts.layout
        self._hardware = Hardware(self.layout, facts.cluster)
        self._broken = {name: Tally(chain) for name, chain in self.layout.chains.items()}
        for name, chain in self.layout.chains.items():
            for leaf in self._hardware.broken(chain):
                self._broken[name].add(leaf, 1)
        #: What was said last to be bound, and the same as it is remembered.
        self._said: dict[str, dict[Cell, int]] | None = None
        self._emitted: Memory | None = None

    # What is remembered

    def memory(self) -> Memory:
        """Return what is bound, for the next round; the very same object while nothing changes."""
        bound = {vc: dict(cells) for vc, cells in sorted(self._bound.items()) if cells}
        if self._emitted is None or bound != self._said:
            self._said = bound
            self._emitted = {
                "bound": {vc: sorted(map(list, cells)) for vc, cells in bound.items()},
                "slots": {vc: [cells[cell] for cell in sorted(cells)] for vc, cells in bound.items()},
            }
        return self._emitted

    def _restore(self, memory: Memory) -> None:
        """Bind what was bound, as far as the specification still has it so."""
        self._pools = pools_of(self.layout)
        #: By virtual cluster: its cells, each with the number that it has among those of its type.
        self._bound: dict[str, dict[Cell, int]] = {}
        self._left = {vc: Counter(owned) for vc, owned in self.layout.owned.items()}
        self._slots = {
            (vc, *kind): Slots(count)
            for vc, owned in self.layout.owned.items()
            for kind, count in owned.items()
        }
        #: By chain, for each GPU: the virtual cluster that has it now, and the cell.
        self._covering: dict[str, list[tuple[str, Cell] | None]] = {
            name: [None] * len(chain.leaves) for name, chain in self.layout.chains.items()
        }
        #: Bound cell -> the allocations in it; and the cells in which there are none.
        self._users: dict[Cell, set[AllocationId]] = {}
        self._unused: set[Cell] = set()
        self._cells_of: dict[AllocationId, frozenset[Cell]] = {}
        self._lapsed: set[AllocationId] = set()
        self._disturbing = {name: Tally(chain) for name, chain in self.layout.chains.items()}
        self._opportunistic: dict[AllocationId, list[tuple[str, int]]] = {}
        for vc, cells in self.layout.pinned.items():
            for cell in cells.values():
                self._cover(cell, (vc, cell))
        for vc, remembered in sorted(memory.get("bound", {}).items()):
            slots = memory.get("slots", {}).get(vc, ())
            for place, (name, level, number) in enumerate(remembered):
                chain = self.layout.chains.get(name)
                if chain and level <= chain.top and number < chain.count(level):
                    slot = slots[place] if place < len(slots) else None
                    self._bind(vc, Cell(name, level, number), slot)

    # Binding

    def _bind(self, vc: str, cell: Cell, slot: int | None = None) -> bool:
        """Bind a cell to a virtual cluster that is owed one like it; return False if that may not be."""
        pool = self._pools[cell.chain]
        source = pool.source(cell.level, cell.number)
        if source is None or not self._left_of(vc).get((cell.chain, cell.level)):
            return False
        if not pool.may_split(source[0], cell.level, owed=True):
            return False
        pool.take(cell.level, cell.number)
        pool.owed[cell.level] -= 1
        self._left[vc][cell.chain, cell.level] -= 1
        self._bound.setdefault(vc, {})[cell] = self._slots[vc, cell.chain, cell.level].take(slot)
        self._users[cell] = set()
        self._unused.add(cell)
        self._cover(cell, (vc, cell))
        return True

    def _left_of(self, vc: str) -> Mapping[tuple[str, int], int]:
        """Return what a virtual cluster owns and has not got now: (chain, level) -> cells."""
        return self._left.get(vc, {})

    def _unbind(self, vc: str, cell: Cell) -> None:
        pool = self._pools[cell.chain]
        pool.give_back(cell.level, cell.number)
        pool.owed[cell.level] += 1
        self._left[vc][cell.chain, cell.level] += 1
        self._slots[vc, cell.chain, cell.level].give_back(self._bound[vc].pop(cell))
        del self._users[cell]
        self._unused.discard(cell)
        self._cover(cell, None)

    def _cover(self, cell: Cell, by: tuple[str, Cell] | None) -> None:
        leaves = self.layout.chains[cell.chain].within(cell.level, cell.number, 0)
        self._covering[cell.chain][leaves.start : leaves.stop] = [by] * len(leaves)

    def _cover_of(self, gpu: GpuId) -> tuple[str, Cell] | None:
        leaf = self._hardware.leaf_of.get(gpu)
        return None if leaf is None else self._covering[leaf[0]][leaf[1]]

    # A round begins

    def refresh(self, allocations: Collection[AllocationId]) -> set[JobId]:
        """Take in the allocations that changed; return the jobs whose guarantee lapsed or returned."""
        memory = self._facts.frame.memory.get(CELLS, {})
        if self._emitted is None or memory is not self._emitted:
            self._restore(memory)
            allocations = self._facts.running.keys()
        changed = sorted(allocations)
        for allocation in changed:
            self._leave(allocation)
        for allocation in changed:
            self._join(allocation)
        self._unbind_unused()
        lapsed = sorted(self._lapsed)
        for allocation in lapsed:
            self._adopt(self._facts.running[allocation])
        regraded = [each for each in sorted({*changed, *lapsed}) if self._regrade(each)]
        return {job for allocation in regraded for job in self._facts.running[allocation].jobs}

    def _leave(self, allocation: AllocationId) -> None:
        for cell in self._cells_of.pop(allocation, ()):
            self._let_go(cell, allocation)
        self._lapsed.discard(allocation)
        self._disturbs_no_more(allocation)

    def _let_go(self, cell: Cell, allocation: AllocationId) -> None:
        users = self._users.get(cell)
        if users is not None:
            users.discard(allocation)
            if not users:
                self._unused.add(cell)

    def _join(self, allocation: AllocationId) -> None:
        running = self._facts.running.get(allocation)
        if running is None or not self._facts.is_live(running) or allocation in self._admission.endings:
            return
        if running.gpu_model in self.layout.gpu_models and self._is_promised(running):
            cells = self._covered_by(running)
            if cells is None:
                self._lapsed.add(allocation)
            else:
                self._settle_in(running, cells)
        elif not running.guaranteed:
            self._disturbs(running)

    def _is_promised(self, running: Running) -> bool:
        """Whether all its jobs were submitted as guaranteed."""
        jobs = self._facts.jobs
        return all(job in jobs and jobs[job].guaranteed for job in running.jobs)

    def _disturbs(self, running: Running) -> None:
        places = [place for gpu in running.gpus if (place := self._hardware.leaf_of.get(gpu))]
        self._opportunistic[running.allocation] = places
        for name, leaf in places:
            self._disturbing[name].add(leaf, 1)

    def _disturbs_no_more(self, allocation: AllocationId) -> None:
        for name, leaf in self._opportunistic.pop(allocation, ()):
            self._disturbing[name].add(leaf, -1)

    def _vc_of(self, running: Running) -> str:
        return self._facts.jobs[running.jobs[0]].virtual_cluster

    def _covered_by(self, running: Running) -> frozenset[Cell] | None:
        """Return the cells of its virtual cluster that hold an allocation; None unless all of it."""
        vc, cells = self._vc_of(running), set()
        for gpu in running.gpus:
            covering = self._cover_of(gpu)
            if covering is None or covering[0] != vc:
                return None
            cells.add(covering[1])
        return frozenset(cells)

    def _settle_in(self, running: Running, cells: frozenset[Cell]) -> None:
        self._cells_of[running.allocation] = cells
        for cell in cells:
            if cell in self._users:  # Pinned cells need no user.
                self._users[cell].add(running.allocation)
                self._unused.discard(cell)

    def _unbind_unused(self) -> None:
        for cell in sorted(self._unused):
            covering = self._covering[cell.chain][self.layout.chains[cell.chain].within(*cell[1:], 0).start]
            assert covering is not None
            self._unbind(covering[0], cell)

    def _adopt(self, running: Running) -> None:
        """Bind cells around an allocation that is in none, all or nothing."""
        vc, new = self._vc_of(running), []
        leaves = [self._hardware.leaf_of.get(gpu) for gpu in running.gpus]
        for leaf in leaves:
            if leaf is None:
                break
            covering = self._covering[leaf[0]][leaf[1]]
            if covering is None:
                cell = self._bind_around(vc, leaf, [other for other in leaves if other is not None])
                if cell is None:
                    break
                new.append(cell)
            elif covering[0] != vc:
                break
        cells = self._covered_by(running)
        if cells is None:
            for cell in new:
                self._unbind(vc, cell)
            return
        self._lapsed.discard(running.allocation)
        self._settle_in(running, cells)

    def _bind_around(self, vc: str, leaf: tuple[str, int], leaves: Sequence[tuple[str, int]]) -> Cell | None:
        """Bind the smallest cell that holds a GPU and its neighbours in the gang, or the largest there is."""
        chain = self.layout.chains[leaf[0]]
        node = chain.above(0, leaf[1], chain.node_level)
        near = [n for name, n in leaves if name == leaf[0] and chain.above(0, n, chain.node_level) == node]
        levels = [
            level for (name, level), count in sorted(self._left_of(vc).items()) if name == leaf[0] and count
        ]

        def holds(level: int) -> int:
            cell = chain.above(0, leaf[1], level)
            return sum([chain.above(0, n, level) == cell for n in near])

        for level in sorted(levels, key=lambda level: (-holds(level), level)):
            cell = Cell(chain.name, level, chain.above(0, leaf[1], level))
            if self._bind(vc, cell):
                return cell
        return None

    def _regrade(self, allocation: AllocationId) -> bool:
        """Let the guarantee lapse or return, by whether there are cells around the allocation now."""
        if allocation in self._cells_of:
            self._disturbs_no_more(allocation)
            return self._facts.regrade(allocation, guaranteed=True)
        if allocation not in self._lapsed:
            return False
        if allocation not in self._opportunistic:
            self._disturbs(self._facts.running[allocation])
        return self._facts.regrade(allocation, guaranteed=False)

    # A view is served

    def offer(self, vc: str, *, whole: bool) -> Masks:
        """Return the GPUs a virtual cluster may use: of all its cells if `whole`, else of those in use."""
        if whole:
            left = self._left_of(vc)
            for name, level in sorted(left, key=lambda kind: (kind[0], -kind[1])):
                self._bind_most(vc, name, level, left[name, level])
        cells = self._bound.get(vc, {})
        return self._hardware.masks([*cells, *self.layout.pinned.get(vc, {}).values()])

    def turns(self, vc: str) -> dict[str, dict[int, int]]:
        """Return the order of the nodes of a virtual cluster's cells: by model, node -> its turn.

        It is that of the cells' slots, wherever they are bound: so the virtual cluster decides as it would
        anywhere else, in its private cluster too.
        """
        slots = self._bound.get(vc, {})
        cells = sorted(slots, key=lambda cell: (cell.chain, -cell.level, slots[cell]))
        turns: dict[str, dict[int, int]] = {}
        for cell in (*cells, *self.layout.pinned.get(vc, {}).values()):
            for model, nodes in self._hardware.masks([cell]).items():
                known = turns.setdefault(model, {})
                for node in sorted(nodes):
                    known.setdefault(node, len(known))
        return turns

    def _bind_most(self, vc: str, name: str, level: int, count: int) -> None:
        """Bind so many cells if possible: on sound hardware, where the fewest opportunistic GPUs are."""
        if not count:
            return
        pool, sound = self._pools[name], self._sound_first(name, level)
        for _ in range(count):
            number = None
            for tastes in sound:
                number = pool.choose(level, tastes)
                if number is not None:
                    break
            if number is None or not self._bind(vc, Cell(name, level, number)):
                break

    def _sound_first(self, name: str, level: int) -> tuple[Sequence[ByLevel], Sequence[ByLevel]]:
        """Return tastes for a level: sound cells by opportunistic use; broken cells, the least first."""
        chain, broken = self.layout.chains[name], self._broken[name].cells
        alive = [chain.everything(each) for each in range(chain.top + 1)]
        for count in range(1, len(broken)):
            for each in range(chain.top + 1):
                if count >= chain.sizes[each]:
                    alive[each] &= ~broken[count][each]
        fit = [broken[0][each] if each == level else alive[each] for each in range(chain.top + 1)]
        sound = [
            [cells & right for cells, right in zip(by_level, fit, strict=True)]
            for by_level in self._disturbing[name].cells
        ]
        worn = [
            [cells[each] if each == level else chain.everything(each) for each in range(chain.top + 1)]
            for cells in broken[1:]
        ]
        return sound, worn

    def settle(self, vc: str, placements: Iterable[Placement], dropped: Iterable[Holding]) -> None:
        """Keep the cells that are used once a view was served, and unbind the others."""
        for holding in dropped:
            if holding.running is not None:
                for cell in self._cells_of.pop(holding.running.allocation, ()):
                    self._let_go(cell, holding.running.allocation)
        needed = {
            covering[1]
            for placement in placements
            if placement.gpu_model in self.layout.gpu_models
            for gpu in placement.gpus
            if (covering := self._cover_of(gpu)) is not None
        }
        bound = self._bound.get(vc, {}).keys()
        for cell in sorted((self._unused & bound) - needed):
            self._unbind(vc, cell)
