"""Singularity: tiers of tenants are guaranteed a part of the GPU time that they demand.

D. Shukla et al., "Singularity: Planet-Scale, Preemptive and Elastic Scheduling of AI Workloads", arXiv
2202.07848. Every job can be preempted, moved and resized. A job's GPU fraction is its useful GPU time
relative to what it demanded, over the last hour; premium jobs are guaranteed 0.95, standard ones 0.7, basic
ones nothing. A job about to fall below its guarantee takes GPUs back: first what any job has beyond its
demand, then from basic jobs, then from standard, last from premium ones. It does so by resizing before
preemption, and first from the job that is furthest above its own guarantee. Idle GPUs go to any job that can
use them, also beyond its demand. Small jobs move to consolidate a gang. The fractions, the order of victims
and the defragmentation are from memory of the paper. Deviations and choices of ours:

- Its checkpoints are transparent, and to resize it lets replicas share devices without a restart. Here both
  are the job's own: it is stopped, writes its checkpoint and starts again, and only elastic jobs are resized,
  those of a fixed world at numbers of GPUs that divide it. So a job that was started, moved or resized less
  than `interval_seconds` ago stays as it is, except for claims of higher tiers.
- The tier is its tenant's and not the job's, since every user would choose premium: `premium` and `basic`
  name tenants, all others are standard.
- A job claims when its slack, the fraction less the guarantee, is at most `margin`: 0.02 is 72 s of an hour,
  the time that it takes to stop others. Within its own tier it takes only from those whose slack is larger by
  more than that, and from a higher tier only from jobs that stay above their guarantee. Where tiers demand
  more than there is, premium is served first and equals take turns.
- A job above its guarantee waits for idle GPUs, ahead of lower tiers. So basic jobs run beside standard ones
  whose fraction allows it.
- Time in which a job is held, backs off or waits for a quota is not demanded. Priorities count for nothing.
- A small job is one with fewer GPUs than the gang that it makes room for. One moves in a round.
- Regions, and moving jobs between them, are not part of this: a view is one cluster.
- CPUs and memory are ignored when GPUs are taken; a claim that could not be placed for lack of them claims
  another model in that round, or nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from scheduler.core.building_blocks.elastic.grants import grants_of, starts_beside_parts, waiting_in
from scheduler.core.building_blocks.elastic.pools import Pool, misplaced, pool_on
from scheduler.core.building_blocks.ordering import waiting_jobs
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.service import INSTANT_SECONDS
from scheduler.core.fitting.demand import all_sizes_of, models_of
from scheduler.core.model.plan import Decision, Grant, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory
from scheduler.core.policies.singularity.board import BASIC, PREMIUM, STANDARD, TIERS, Board, Standing
from scheduler.core.policies.singularity.fractions import Fractions

#: How often, for each model, claims that found GPUs but no placement, for lack of CPUs or memory, are set
#: aside.
_ATTEMPTS = 3
#: Fractions that agree in this many digits are equal.
_DIGITS = 6
#: Without a margin, a round follows when a fraction can have changed by this.
_LEAST_CHANGE = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Singularity:
    """Guaranteed fractions of GPU time by tiers of tenants; victims by slack, resized before preempted."""

    #: A waiting job has its turn when its fraction has fallen, though jobs neither come nor go.
    rotates: ClassVar[bool] = True
    #: It decides itself how many GPUs an elastic job gets.
    resizes: ClassVar[bool] = True

    #: Tenants of the premium and of the basic tier; all others are standard.
    premium: tuple[str, ...] = ()
    basic: tuple[str, ...] = ()
    #: Guaranteed fractions.
    premium_fraction: float = 0.95
    standard_fraction: float = 0.7
    #: The window of the fractions.
    window_seconds: float = 3600.0
    #: How far above its guarantee a job begins to claim.
    margin: float = 0.02
    #: A job is left as it is for this long after it was started, moved or resized.
    interval_seconds: float = 300.0

    def __post_init__(self) -> None:
        both = sorted(set(self.premium) & set(self.basic))
        if both:
            raise ValueError(f"tenants are premium or basic, not both: {', '.join(both)}")
        if not 0 <= self.standard_fraction <= self.premium_fraction <= 1:
            raise ValueError(
                "standard_fraction must be at least 0 and at most premium_fraction, and that at most 1"
            )
        if not 0 < self.window_seconds < math.inf:
            raise ValueError("window_seconds must be above 0")
        if not (0 <= self.margin <= 1 and 0 <= self.interval_seconds < math.inf):
            raise ValueError("margin must be between 0 and 1 and interval_seconds at least 0")

    def tier_of(self, tenant: str) -> int:
        """Return the tier of a tenant's jobs."""
        return PREMIUM if tenant in self.premium else BASIC if tenant in self.basic else STANDARD

    def guarantee(self, tier: int) -> float:
        """Return the fraction that a tier is guaranteed."""
        return (self.premium_fraction, self.standard_fraction, 0.0)[tier]

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Let jobs that are about to fall below their guarantee claim GPUs; hand out idle GPUs."""
        if not view.jobs:
            return Decision(grants=(), keep_running=True)
        fractions = Fractions(
            view, memory if memory.get("policy") == "singularity" else {}, self.window_seconds
        )
        remembered = {"policy": "singularity", **fractions.remember()}
        standings = {job.id: self._standing(job, view, fractions) for job in view.jobs.values()}
        if not waiting_jobs(view) and not any(map(_may_gain, standings.values(), _held(view, standings))):
            return Decision(grants=(), keep_running=True, memory=remembered)
        decision = _Round(view, standings, self.margin).decision()
        reasons = {job: (self._reason(standings[job], fractions),) for job in decision.queue}
        # Fractions fall and jobs become settled, so a job may have a claim in the next round.
        return replace(decision, memory=remembered, reasons=reasons, wake_at=self._wake_at(view))

    def _wake_at(self, view: View) -> float:
        """Return the instant of the next round, or, where rounds are held only at events, when one is useful.

        No fraction changes by more than the margin before that, and no job's interval ends.
        """
        if view.round_seconds:
            return view.now + view.round_seconds
        settled = [running.since + self.interval_seconds for running in view.running.values()]
        changes_at = view.now + max(self.margin, _LEAST_CHANGE) * self.window_seconds
        return min([changes_at, *(at for at in settled if at > view.now)])

    def _standing(self, job: Job, view: View, fractions: Fractions) -> Standing:
        tier, running = self.tier_of(job.tenant), view.running.get(job.id)
        settled_at = 0.0 if running is None else running.since + self.interval_seconds
        fixed = running is not None and (
            len(running.jobs) > 1 or running.is_nominated or running.jobs in view.capacity.pinned
        )
        return Standing(
            job=job,
            tier=tier,
            slack=round(fractions.of(job) - self.guarantee(tier), _DIGITS),
            sizes=all_sizes_of(job),
            settled=view.now >= settled_at - INSTANT_SECONDS,
            fixed=fixed,
        )

    def _reason(self, standing: Standing, fractions: Fractions) -> Reason:
        tier, fraction = TIERS[standing.tier], fractions.of(standing.job)
        guaranteed = self.guarantee(standing.tier)
        promised = "best effort" if standing.tier == BASIC else f"{guaranteed:.0%} are guaranteed"
        return Reason(
            code="tiers",
            tier=Tier.ORDER,
            message=(
                f"It had {fraction:.0%} of the GPU time that it demanded lately (tier {tier}: {promised}); "
                "higher tiers, and jobs further below their guarantee, go first."
            ),
            blocking={"tier": tier, "fraction": round(fraction, 3), "guaranteed": guaranteed},
            hint="A job that can run on fewer GPUs (`elastic`) is resized before it is preempted.",
        )


def _held(view: View, standings: Mapping[JobId, Standing]) -> list[int]:
    return [len(view.running[job].gpus) if job in view.running else 0 for job in standings]


def _may_gain(standing: Standing, gpus: int) -> bool:
    """Whether more GPUs are of use to a job."""
    return not standing.fixed and gpus < standing.sizes[-1]


class _Round:
    """One round's claims, moves and growth."""

    def __init__(self, view: View, standings: Mapping[JobId, Standing], margin: float) -> None:
        self._view, self._margin = view, margin
        line = sorted(standings.values(), key=lambda standing: standing.rank)
        stuck = {job for pool in _pools(view, line) for job in misplaced(view, pool)}
        self._line = [replace(each, fixed=each.fixed or each.job.id in stuck) for each in line]
        self._standings = {each.job.id: each for each in self._line}
        self._pools = _pools(view, [each for each in self._line if each.job.id not in stuck])

    def decision(self) -> Decision:
        """Return the decision but for its memory and reasons."""
        closed: set[tuple[JobId, str]] = set()
        for _ in range(_ATTEMPTS * len(self._pools)):
            board, claimed = self._board(closed)
            decision = self._decided(board)
            placed = {job for grant in decision.grants for job in grant.jobs}
            misplaced = [(job, model) for job, model in claimed.items() if job not in placed]
            if not misplaced:
                return decision
            closed.update(misplaced)
        waiting = [each.job.id for each in self._line if self._is_waiting(each)]
        closed.update([(job, pool.gpu_model) for job in waiting for pool in self._pools])
        board, _ = self._board(closed)
        return self._decided(board)

    def _board(self, closed: Collection[tuple[JobId, str]]) -> tuple[Board, dict[JobId, str]]:
        """Return the board after all claims, and the models of the jobs whose claims succeeded."""
        board = Board(self._pools, self._standings, self._margin, closed=closed)
        claimed: dict[JobId, str] = {}
        for urgent in (True, False):
            for each in self._line:
                if urgent != self._is_urgent(each) or not self._claims(each, board):
                    continue
                if board.claim(each, most=each.demand, reclaim=urgent) is not None:
                    claimed[each.job.id] = board.models[each.job.id]
        hungry = [each for each in self._line if self._is_waiting(each) and self._is_lacking(each, board)]
        if not self._is_defragmented(board) and not hungry:
            self._grow(board)
        return board, claimed

    def _claims(self, standing: Standing, board: Board) -> bool:
        """Whether a job claims GPUs: one that waits or has lost its own, or a settled one that is short."""
        if standing.fixed:
            return False
        gpus = board.gpus_of(standing.job.id)
        return gpus == 0 or (standing.settled and gpus < standing.demand)

    def _is_urgent(self, standing: Standing) -> bool:
        return standing.tier != BASIC and standing.slack <= self._margin

    def _is_waiting(self, standing: Standing) -> bool:
        return standing.job.id not in self._view.running

    def _is_lacking(self, standing: Standing, board: Board) -> bool:
        return board.gpus_of(standing.job.id) == 0

    def _is_defragmented(self, board: Board) -> bool:
        """Move a small job for the first gang that waits or would start spread; return whether one moves."""
        for each in self._line:
            apart = self._is_lacking(each, board) or board.is_spread(each.job.id)
            if self._is_waiting(each) and each.demand > 1 and apart:
                return board.make_near(each)
        return False

    def _grow(self, board: Board) -> None:
        """Give idle GPUs to elastic jobs, a size to each in turn, also beyond their demand."""
        growing = [
            each
            for each in self._line
            if not each.fixed and (each.settled or self._is_waiting(each)) and len(each.sizes) > 1
        ]
        while growing:
            grown = []
            for each in growing:
                larger = [size for size in each.sizes if size > board.gpus_of(each.job.id) > 0]
                if larger and board.claim(each, most=larger[0], reclaim=False) is not None:
                    grown.append(each)
            growing = grown

    def _decided(self, board: Board) -> Decision:
        view = self._view
        pools, rows = board.rows()
        grants = grants_of(view, pools, rows)
        line = [each.job for each in self._line if not each.fixed]
        stops = tuple([job for job in waiting_in(line, grants) if job in view.running])
        grants = (*grants, *starts_beside_parts(view, line, grants, stops))
        queue = waiting_in(line, grants)
        return Decision(
            grants=tuple([grant for grant in grants if not _stays(grant, view)]),
            queue=queue,
            keep_running=True,
            stops=stops,
        )


def _pools(view: View, line: Sequence[Standing]) -> list[Pool]:
    """Return a pool for each model: the jobs that run on it, and all waiting ones that accept it."""
    inside: dict[str, list[Job]] = {model: [] for model in view.capacity.models}
    for standing in line:
        job, running = standing.job, view.running.get(standing.job.id)
        if running is None:
            for model in models_of(job, view.capacity.cluster):
                if model in inside:
                    inside[model].append(job)
        elif len(running.jobs) == 1 and running.gpu_model in inside:
            inside[running.gpu_model].append(job)
    return [pool_on(view, model, jobs) for model, jobs in inside.items() if jobs]


def _stays(grant: Grant, view: View) -> bool:
    """Whether the grant leaves its jobs as they are, in place."""
    running = view.running.get(grant.jobs[0])
    return (
        running is not None
        and running.jobs == grant.jobs
        and grant.gpus == len(running.gpus)
        and not grant.nodes
        and grant.gpu_model in (None, running.gpu_model)
    )
