"""A trial arrangement: the GPUs of each job by node, the claims of jobs, and their victims."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.core.building_blocks.elastic.arrangement import NOWHERE, Arrangement, Row
from scheduler.core.building_blocks.elastic.pools import Pool
from scheduler.core.model.snapshot import Job, JobId

PREMIUM, STANDARD, BASIC = range(3)
TIERS = ("premium", "standard", "basic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A job's standing: its tier, and its slack, the fraction above its guarantee."""

    job: Job
    tier: int
    slack: float
    #: Sizes in GPUs that it can have, ascending.
    sizes: tuple[int, ...]
    #: Whether it was left unchanged for long enough to be resized, moved or stopped for its equals.
    settled: bool = True
    #: Whether it keeps exactly the GPUs that it has.
    fixed: bool = False

    @property
    def demand(self) -> int:
        """GPUs that count as useful: its own size."""
        return self.job.gpus

    @property
    def rank(self) -> tuple[int, float, float, JobId]:
        """The order of claims: the higher tier, then the job that is furthest below its guarantee."""
        return self.tier, self.slack, self.job.submitted_at, self.job.id


@dataclass(frozen=True, slots=True)
class _Change:
    job: JobId
    model: str
    row: Row


class Board:
    """The jobs of a view on the nodes of its models; begins with what runs."""

    def __init__(
        self,
        pools: Sequence[Pool],
        standings: Mapping[JobId, Standing],
        margin: float,
        *,
        closed: Collection[tuple[JobId, str]] = (),
    ) -> None:
        self.pools = {pool.gpu_model: pool for pool in pools}
        self._standings, self._margin = standings, margin
        #: Jobs and models on which they claim nothing.
        self._closed = closed
        self._places = {
            model: {job.id: place for place, job in enumerate(pool.jobs)}
            for model, pool in self.pools.items()
        }
        self._arrangements: dict[str, Arrangement] = {}
        #: The model of each job that has, or had, GPUs.
        self.models: dict[JobId, str] = {}
        for model, pool in self.pools.items():
            board = Arrangement(pool.room, pool.gangs, limit=pool.limit, apart=False)
            self._arrangements[model] = board
            for place, (job, gang) in enumerate(zip(pool.jobs, pool.gangs, strict=True)):
                if gang.base and not gang.pinned:
                    self.models[job.id] = model
                    board.put(place, gang.base)
        self._failed: set[object] = set()

    # Questions

    def gpus_of(self, job: JobId) -> int:
        """Return the GPUs that a job has now."""
        model = self.models.get(job)
        return 0 if model is None else self._gpus(job, model, self._row(job, model))

    def is_spread(self, job: JobId) -> bool:
        """Whether a job is on several nodes though one could hold as many GPUs."""
        model = self.models.get(job)
        if model is None or len(self._row(job, model)) < 2:
            return False
        return self.gpus_of(job) <= max(self.pools[model].room, default=0)

    def rows(self) -> tuple[list[Pool], list[list[Row]]]:
        """Return pools in which each job is where it is now, and its nodes there."""
        pools, rows = [], []
        for model, pool in self.pools.items():
            inside = [place for place, job in enumerate(pool.jobs) if self.models.get(job.id) == model]
            jobs, gangs = (
                tuple([pool.jobs[each] for each in inside]),
                tuple([pool.gangs[each] for each in inside]),
            )
            pools.append(replace(pool, jobs=jobs, gangs=gangs))
            rows.append([self._arrangements[model].rows[place] for place in inside])
        return pools, rows

    # What is tried

    def claim(self, claimant: Standing, *, most: int, reclaim: bool) -> list[JobId] | None:
        """Give a job the largest of its sizes up to `most` that is possible, more than it has now.

        It takes idle GPUs first, then those that others have beyond their demand, then, with `reclaim`, those
        of victims. Beyond its own demand it takes only idle GPUs, else two jobs would take them from each
        other for ever. Returns the victims; None where there is nothing to take.
        """
        job = claimant.job.id
        now = self.gpus_of(job)
        models = self._open_to(job)
        if job in self.models:
            models = [model for model in models if model == self.models[job]]
        for size in reversed([size for size in claimant.sizes if now < size <= most]):
            reaches = (0,) if size > claimant.demand else (0, 1, 2) if reclaim else (0, 1)
            for reach in reaches:
                for model in models:
                    victims = self._take(claimant, model, size, reach)
                    if victims is not None:
                        return victims
        return None

    def _open_to(self, job: JobId) -> list[str]:
        """Return the models that a job may claim."""
        return [
            model for model in self.pools if job in self._places[model] and (job, model) not in self._closed
        ]

    def _take(self, claimant: Standing, model: str, size: int, reach: int) -> list[JobId] | None:
        """Give a job GPUs of a model: idle ones, by `reach` 1 also beyond demands, by 2 also of victims."""
        job, before = claimant.job.id, self._row(claimant.job.id, model)
        gang = self.pools[model].gangs[self._places[model][job]]
        shape = (model, size, reach, claimant.tier, gang.replica_gpus, gang.nodes, gang.on_one_node)
        if before == NOWHERE and shape in self._failed:
            return None
        self._set(job, model, NOWHERE)
        changes: list[_Change] = []
        if not self._place(claimant, model, size):
            for change in self._takings(claimant, model, size, reach):
                changes.append(change)
                if self._place(claimant, model, size):
                    break
            else:
                self._undo(changes)
                self._set(job, model, before)
                if before == NOWHERE:
                    self._failed.add(shape)
                return None
        return self._spared(changes)

    def _takings(self, claimant: Standing, model: str, size: int, reach: int) -> Iterator[_Change]:
        """Take GPUs of one job after the other, in the paper's order; yields what each had before."""
        steps = [self._surplus(claimant, model)] if reach else []
        if reach == 2:
            steps += [self._victims(claimant, model)]
        todo = [taking for step in steps for taking in step]
        lowest: dict[JobId, int] = {}
        for victim, target in todo:
            lowest[victim.job.id] = min(lowest.get(victim.job.id, target), target)
        freed = sum(
            [self._gpus(other, model, self._row(other, model)) - left for other, left in lowest.items()]
        )
        if self._arrangements[model].left + freed < size:
            return
        for victim, target in todo:
            row = self._row(victim.job.id, model)
            if self._gpus(victim.job.id, model, row) > target:
                self._set(victim.job.id, model, self._shrunk(victim.job.id, model, row, target))
                yield _Change(victim.job.id, model, row)

    def _surplus(self, claimant: Standing, model: str) -> list[tuple[Standing, int]]:
        """Return the jobs that have more than their demand, the one with the most slack first, and the GPUs
        that each keeps.
        """
        return [
            (victim, max([size for size in victim.sizes if size <= victim.demand], default=victim.demand))
            for victim in self._others(claimant, model)
            if self.gpus_of(victim.job.id) > victim.demand
        ]

    def _victims(self, claimant: Standing, model: str) -> list[tuple[Standing, int]]:
        """Return the victims in order, and the GPUs that each keeps: the lowest tier first, then scaling down
        before preemption, then the largest slack.
        """
        others = [victim for victim in self._others(claimant, model) if self._may_reclaim(claimant, victim)]
        found: list[tuple[Standing, int]] = []
        for tier in (BASIC, STANDARD, PREMIUM):
            of_tier = [victim for victim in others if victim.tier == tier]
            for victim in of_tier:
                now = self.gpus_of(victim.job.id)
                found += [(victim, size) for size in reversed(victim.sizes) if size < now]
            found += [(victim, 0) for victim in of_tier]
        return found

    def _others(self, claimant: Standing, model: str) -> list[Standing]:
        there = [
            self._standings[job] for job, on in self.models.items() if on == model and job in self._standings
        ]
        others = [each for each in there if not each.fixed and each.job.id != claimant.job.id]
        return sorted(others, key=lambda each: (-each.slack, -each.job.submitted_at, -each.job.id))

    def _may_reclaim(self, claimant: Standing, victim: Standing) -> bool:
        """Whether a claimant may take GPUs within a victim's demand: always from a lower tier, else only from
        a settled job with enough more slack.
        """
        if victim.tier > claimant.tier:
            return True
        if not victim.settled or victim.slack <= claimant.slack + self._margin:
            return False
        return victim.tier == claimant.tier or victim.slack > self._margin

    def _spared(self, changes: Sequence[_Change]) -> list[JobId]:
        """Give back what was not needed in the end, the last taken first; return the remaining victims."""
        first: dict[JobId, _Change] = {}
        for change in changes:
            first.setdefault(change.job, change)
        for change in reversed(changes):
            now = self._row(change.job, change.model)
            self._set(change.job, change.model, NOWHERE)
            back = self._fits(change.job, change.model, change.row)
            self._set(change.job, change.model, change.row if back else now)
        return [job for job, change in first.items() if self._row(job, change.model) != change.row]

    def _undo(self, changes: Sequence[_Change]) -> None:
        for change in reversed(changes):
            self._set(change.job, change.model, change.row)

    # Defragmentation

    def make_near(self, gang: Standing) -> bool:
        """Move a small job away from the node where the fewest block a gang; return whether one moved.

        If a single job blocked the gang, the gang gets the node. The gang waits, or has a place that no other
        job counts on yet.
        """
        best: tuple[tuple[int, int, int], str, int, list[tuple[JobId, Row]]] | None = None
        job = gang.job.id
        before = self.models.get(job)
        row = NOWHERE if before is None else self._row(job, before)
        if before is not None:
            self._set(job, before, NOWHERE)
        for model in self._open_to(job):
            pool = self.pools[model]
            if self._arrangements[model].left < gang.demand:
                continue
            allowed = self._gang_nodes(job, model)
            for node in range(len(pool.room)):
                if allowed is not None and node not in allowed:
                    continue
                moves = self._moves(gang, model, node)
                if moves:
                    cost = len(moves), sum([self._gpus(who, model, there) for who, there in moves]), node
                    if best is None or cost < best[0]:
                        best = cost, model, node, moves
        if best is None:
            if before is not None:
                self._set(job, before, row)
            return False
        _, model, node, moves = best
        self._set(moves[0][0], model, moves[0][1])
        if len(moves) == 1:
            self._set(job, model, {node: gang.demand // self._each(job, model)})
            self.models[job] = model
        elif before is not None and self._fits(job, before, row):
            self._set(job, before, row)
        return True

    def _moves(self, gang: Standing, model: str, node: int) -> list[tuple[JobId, Row]]:
        """Return the small jobs that leave a node to make room for a gang, and their new nodes; empty:
        impossible.
        """
        board, need = self._arrangements[model], gang.demand
        there = [
            (self.gpus_of(job), job)
            for job, on in self.models.items()
            if on == model and set(self._row(job, model)) == {node} and self._is_small(job, need)
        ]
        if board.room[node] >= need or board.room[node] + sum([gpus for gpus, _ in there]) < need:
            return []
        moves: list[tuple[JobId, Row]] = []
        before: list[_Change] = []
        kept = board.room[node]
        lacking = need - kept
        # The smallest job that suffices alone, else the largest ones.
        enough = sorted([each for each in there if each[0] >= lacking])
        for gpus, job in enough[:1] or sorted(there, key=lambda each: (-each[0], each[1])):
            row = self._row(job, model)
            self._set(job, model, NOWHERE)
            found = self._elsewhere(job, model, gpus, node)
            self._set(job, model, row if found is None else found)
            if found is not None:
                before.append(_Change(job, model, row))
                moves.append((job, found))
            if board.room[node] >= need:
                break
        enough_room = board.room[node] >= need
        self._undo(before)
        return moves if enough_room else []

    def _is_small(self, job: JobId, gpus: int) -> bool:
        standing = self._standings.get(job)
        return standing is not None and standing.settled and not standing.fixed and self.gpus_of(job) < gpus

    def _elsewhere(self, job: JobId, model: str, gpus: int, node: int) -> Row | None:
        """Return the fullest other node that holds a job."""
        board, allowed, each = self._arrangements[model], self._gang_nodes(job, model), self._each(job, model)
        nodes = [
            other
            for other, room in enumerate(board.room)
            if other != node and room >= gpus and (allowed is None or other in allowed)
        ]
        return {min(nodes, key=lambda other: (board.room[other], other)): gpus // each} if nodes else None

    # One job on one model

    def _row(self, job: JobId, model: str) -> Row:
        place = self._places[model].get(job)
        return (
            NOWHERE
            if place is None or self.models.get(job) != model
            else self._arrangements[model].rows[place]
        )

    def _gpus(self, job: JobId, model: str, row: Row) -> int:
        return sum(row.values()) * self._each(job, model) if row else 0

    def _each(self, job: JobId, model: str) -> int:
        return self.pools[model].gangs[self._places[model][job]].replica_gpus

    def _gang_nodes(self, job: JobId, model: str) -> frozenset[int] | None:
        return self.pools[model].gangs[self._places[model][job]].nodes

    def _fits(self, job: JobId, model: str, row: Row) -> bool:
        return self._arrangements[model].fits(self._places[model][job], row)

    def _place(self, claimant: Standing, model: str, size: int) -> bool:
        job = claimant.job.id
        place = self._places[model][job]
        row = self._arrangements[model].find(place, size // self._each(job, model))
        if row is None:
            return False
        self.models[job] = model
        self._arrangements[model].put(place, row)
        return True

    def _set(self, job: JobId, model: str, row: Row) -> None:
        place = self._places[model].get(job)
        if place is None:
            return
        self._arrangements[model].remove(place)
        if row:
            self._arrangements[model].put(place, row)
            self.models[job] = model

    def _shrunk(self, job: JobId, model: str, row: Row, gpus: int) -> Row:
        """Return the nodes that a job keeps with `gpus` GPUs: those on which it has most."""
        left, kept = gpus // self._each(job, model), dict[int, int]()
        for node in sorted(row, key=lambda node: (-row[node], node)):
            if left > 0:
                kept[node] = min(row[node], left)
                left -= kept[node]
        return kept
