"""Advise which cells each virtual cluster should own, a question that HiveD leaves to the operator.

Cells make the question separable. A virtual cluster's queueing delay is at most that of its private cluster
(sharing safety), whatever the others do. So every assignment that may suit it is tried privately, on the jobs
that it really had. Then one is chosen for each, so that the sum of all delays is least and all together fit
the hardware and the operator's demands. First a few assignments over the whole range are tried, then more
around the chosen ones.

Every job counts once, whatever its size. A chosen assignment can run every job that today's can; a job that
neither can run counts as waiting for the whole window.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from scheduler.core.cells.chains import Layout
from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.errors import Problem
from scheduler.core.cells.pool import pools_of
from scheduler.core.model.cell_specification import Specification, VirtualCells
from scheduler.core.model.errors import SchedulingError
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.sim.choosing import SLACK_SECONDS, Option, choose
from scheduler.core.sim.evaluation import Evaluation, Evaluator
from scheduler.core.sim.menus import Owned, between, coarse, obtainable, wants_of, with_at_least
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.workload import Arrival


class AdviceError(SchedulingError):
    """The demands cannot be met; the message names every wrong field."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What the operator demands of the advice."""

    #: The most GPUs of a model that all virtual clusters together may own.
    budget_gpus: Mapping[str, int] = field(default_factory=dict)
    #: By virtual cluster and type of cell: how many it must own, possibly as parts of larger cells.
    minimum: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    #: Virtual clusters to leave as they are.
    keep: Collection[str] = ()
    #: The price of one GPU-hour by model. A model without a price costs nothing, and counts as 1 in
    #: comparisons.
    price_per_gpu_hour: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is simulated."""

    #: The number of newest jobs of each virtual cluster; older ones are left out.
    jobs_of_each: int = 20_000
    #: The most simulated jobs in all trials together, as far as two assignments for each virtual cluster
    #: allow.
    simulated_jobs: int = 300_000
    #: The number of assignments that are tried first for each virtual cluster.
    assignments: int = 12
    refinements: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentChoice:
    """A virtual cluster's assignment today, and the one that was chosen."""

    virtual_cluster: str
    today: Evaluation
    advised: Evaluation
    #: All assignments that were tried, those with the fewest GPUs first.
    tried: tuple[Evaluation, ...]
    #: Why today's had to be kept; empty otherwise.
    kept: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The advice for all virtual clusters."""

    layout: Layout
    chosen: tuple[AssignmentChoice, ...]
    specification: Specification
    #: Jobs whose delays count, and those left out for being too many.
    jobs: int
    jobs_left_out: int
    assignments: int
    window_seconds: float


def advise(
    facts: Snapshot,
    base: Specification,
    history: Iterable[Arrival],
    demands: Demands | None = None,
    *,
    window_seconds: float,
    rules: Rules | None = None,
    effort: Effort | None = None,
) -> Advice:
    """Return the assignment of cells for each virtual cluster that makes its jobs wait least.

    `facts` are those at the beginning of the window, with an empty cluster. `base` is the hardware, and what
    virtual clusters own today. The jobs of `history` that were submitted before the window come first and are
    not counted. Raises AdviceError, and SpecificationError for a wrong base.
    """
    return _Adviser(
        facts, compiled(base), history, demands or Demands(), window_seconds, rules, effort or Effort()
    ).advice()


def minimum_of(
    demands: Demands, layout: Layout, virtual_clusters: Sequence[str]
) -> dict[str, dict[tuple[str, int], int]]:
    """Return the minimum of each virtual cluster by (chain, level); raise AdviceError for wrong demands."""
    problems: list[Problem] = []
    models = sorted(layout.gpu_models)
    for name in ("budget_gpus", "price_per_gpu_hour"):
        for model in getattr(demands, name):
            if model not in models:
                problems.append(_unknown(f"{name}.{model}", "GPU model divided by cells", model, models))
    for vc in demands.keep:
        if vc not in virtual_clusters:
            problems.append(_unknown("keep", "virtual cluster", vc, virtual_clusters))
    minimum: dict[str, dict[tuple[str, int], int]] = {}
    types = {path: kind for kind, path in _paths(layout).items()}
    for vc, desired in demands.minimum.items():
        if vc not in virtual_clusters:
            problems.append(_unknown(f"minimum.{vc}", "virtual cluster", vc, virtual_clusters))
        elif vc in demands.keep:
            problems.append(Problem(f"minimum.{vc}", f"{vc} is to be left as it is", "either this or keep"))
        for path, number in desired.items():
            if path not in types:
                problems.append(_unknown(f"minimum.{vc}.{path}", "type of cell", path, sorted(types)))
            else:
                minimum.setdefault(vc, {})[types[path]] = number
    if problems:
        raise AdviceError(problems)
    return minimum


class _Adviser:
    def __init__(
        self,
        facts: Snapshot,
        layout: Layout,
        history: Iterable[Arrival],
        demands: Demands,
        window_seconds: float,
        rules: Rules | None,
        effort: Effort,
    ) -> None:
        self._layout, self._demands, self._effort = layout, demands, effort
        self._window, self._began_at = window_seconds, facts.now
        self._names = [vc.name for vc in facts.virtual_clusters]
        self._minimum = minimum_of(self._demands, layout, self._names)
        jobs: dict[str, list[Arrival]] = {name: [] for name in self._names}
        for arrival in sorted(history, key=lambda one: (one.job.submitted_at, one.job.id)):
            if arrival.job.guaranteed and arrival.job.virtual_cluster in jobs:
                jobs[arrival.job.virtual_cluster].append(arrival)
        self._jobs = {name: found[-effort.jobs_of_each :] for name, found in jobs.items()}
        self._left_out = sum(map(len, jobs.values())) - sum(map(len, self._jobs.values()))
        #: The number of jobs that each simulated job represents.
        self._weight = {name: len(jobs[name]) / max(1, len(kept)) for name, kept in self._jobs.items()}
        self._wants = {name: wants_of(found, layout) for name, found in self._jobs.items()}
        self._kept = {name: why for name in self._names if (why := self._why_kept(name))}
        since = {
            name: kept[0].job.submitted_at for name, kept in self._jobs.items() if self._weight[name] > 1
        }
        self._evaluator = Evaluator(facts, layout, self._jobs, window_seconds, since, rules)
        self._limits = self._all_limits()

    # What is asked for

    def _why_kept(self, vc: str) -> str:
        if vc in self._demands.keep:
            return "It is left as it is, as you asked."
        if vc in self._minimum:
            return ""
        if not any(arrival.job.submitted_at >= self._began_at for arrival in self._jobs[vc]):
            return "It is left as it is: it had no guaranteed jobs in this time."
        return "" if self._wants[vc] else "It is left as it is: no cell of any type serves its jobs."

    # What there is

    def _all_limits(self) -> dict[Hashable, float]:
        limits: dict[Hashable, float] = {
            (name, level): pool.obtainable(level)
            for name, pool in pools_of(self._layout).items()
            for level in range(len(pool.free))
        }
        limits.update(self._demands.budget_gpus)
        # Virtual clusters that are missing in the facts keep their cells.
        for vc in self._layout.owned.keys() - set(self._names):
            for limit, used in self._cells_used(self._today(vc)).items():
                limits[limit] -= used
        return limits

    def _today(self, vc: str) -> Owned:
        owned = self._layout.owned.get(vc, {})
        return tuple(sorted((chain, level, number) for (chain, level), number in owned.items() if number))

    def _cells_used(self, owned: Owned) -> dict[Hashable, int]:
        chains = {chain for chain, _, _ in owned}
        return {
            (name, level): used
            for name in chains
            for level in range(len(self._layout.chains[name].sizes))
            if (used := obtainable(self._layout, owned, name, level))
        }

    def _option(self, vc: str, tried: Evaluation) -> Option:
        prices = self._demands.price_per_gpu_hour
        uses: dict[Hashable, float] = {**self._cells_used(tried.owned)}
        uses.update({model: gpus for model, gpus in tried.gpus.items() if model in self._limits})
        cost = sum(gpus * prices.get(model, 1.0) for model, gpus in tried.gpus.items())
        return Option(delay_seconds=self._weight[vc] * tried.delay_seconds, cost=cost, uses=uses)

    # Trying and choosing

    def advice(self) -> Advice:
        menus = {name: self._first_menu(name) for name in self._names}
        chosen = self._choose(menus)
        for _ in range(self._effort.refinements):
            if not self._look_closer(menus, chosen):
                break
            chosen = self._choose(menus)
        found = tuple([self._found(name, menus[name], chosen[name]) for name in self._names])
        counted = sum(one.today.jobs for one in found)
        return Advice(
            layout=self._layout,
            chosen=found,
            specification=self._specification(chosen),
            jobs=counted,
            jobs_left_out=self._left_out,
            assignments=self._evaluator.assignments,
            window_seconds=self._window,
        )

    def _first_menu(self, vc: str) -> list[Owned]:
        today = self._today(vc)
        if vc in self._kept:
            return [today]
        minimum = self._minimum.get(vc, {})
        total = sum(len(jobs) for name, jobs in self._jobs.items() if name not in self._kept)
        # Half of the effort is for the second step.
        affordable = self._effort.simulated_jobs // (2 * max(1, total))
        most = max(2, min(self._effort.assignments, affordable))
        menu = [
            with_at_least(self._layout, owned, minimum)
            for owned in coarse(self._layout, self._wants[vc], most)
        ]
        if not menu or minimum or self._evaluator.evaluate(vc, today).total_gpus:
            # A virtual cluster without any cells need not keep that assignment.
            menu.append(with_at_least(self._layout, today, minimum))
        fitting = self._fitting(menu)
        if not fitting:
            raise AdviceError([Problem(f"minimum.{vc}", "is more than there is", "fewer cells")])
        return fitting

    def _fitting(self, menu: Iterable[Owned]) -> list[Owned]:
        """Leave out assignments that do not fit the hardware alone, and duplicates."""
        return [
            owned
            for owned in dict.fromkeys(menu)
            if all(used <= self._limits[limit] for limit, used in self._cells_used(owned).items())
        ]

    def _choose(self, menus: Mapping[str, list[Owned]]) -> dict[str, Evaluation]:
        tried = {name: self._worthy(name, self._in_order(name, menu)) for name, menu in menus.items()}
        options = [[self._option(name, one) for one in tried[name]] for name in self._names]
        jobs = sum(found[0].jobs for found in tried.values() if found)
        places = choose(options, self._limits, slack_seconds=SLACK_SECONDS * jobs)
        if places is None:
            raise AdviceError(self._too_much(options))
        return {name: tried[name][place] for name, place in zip(self._names, places, strict=True)}

    def _in_order(self, vc: str, menu: Iterable[Owned]) -> list[Evaluation]:
        tried = [self._evaluator.evaluate(vc, owned) for owned in menu]
        return sorted(tried, key=lambda one: (one.total_gpus, one.delay_seconds, one.owned))

    def _worthy(self, vc: str, tried: Sequence[Evaluation]) -> list[Evaluation]:
        """Leave out assignments that exclude more jobs than today's or, without cells today, the best one."""
        today = self._evaluator.evaluate(vc, self._today(vc))
        shut_out = min([one.never for one in tried], default=0)
        if today.total_gpus:
            shut_out = max(shut_out, today.never)
        return [one for one in tried if one.never <= shut_out]

    def _look_closer(self, menus: Mapping[str, list[Owned]], chosen: Mapping[str, Evaluation]) -> bool:
        """Try assignments near the choice; return whether any were new."""
        is_new = False
        for vc in self._names:
            if vc in self._kept:
                continue
            near = between(self._layout, self._wants[vc], chosen[vc].owned, menus[vc])
            minimum = self._minimum.get(vc, {})
            for owned in self._fitting(with_at_least(self._layout, one, minimum) for one in near):
                affordable = (
                    self._evaluator.simulated_jobs + len(self._jobs[vc]) <= self._effort.simulated_jobs
                )
                if owned not in menus[vc] and affordable:
                    menus[vc].append(owned)
                    is_new = True
        return is_new

    def _too_much(self, options: Sequence[Sequence[Option]]) -> list[Problem]:
        """Return the limits that are exceeded even when each virtual cluster gets its smallest option."""
        paths = _paths(self._layout)
        problems = []
        for limit, most in self._limits.items():
            least = sum(min([option.uses.get(limit, 0) for option in menu], default=0) for menu in options)
            if least > most:
                budget = limit in self._demands.budget_gpus
                what = f"{limit} GPUs" if budget else f"cells of type {paths[limit]}"  # type: ignore[index]
                problems.append(
                    Problem(
                        f"budget_gpus.{limit}" if budget else "minimum",
                        f"the virtual clusters need at least {least:g} {what}, and there are {most:g}",
                        "a larger budget, a smaller minimum, or fewer virtual clusters to keep as they are",
                    )
                )
        vague = Problem(
            "budget_gpus",
            "no combination of the assignments that were considered keeps all limits together",
            "a larger budget, a smaller minimum, or fewer virtual clusters to keep as they are",
        )
        return problems or [vague]

    # What comes out

    def _found(self, vc: str, menu: Iterable[Owned], advised: Evaluation) -> AssignmentChoice:
        today = self._evaluator.evaluate(vc, self._today(vc))
        return AssignmentChoice(
            virtual_cluster=vc,
            today=today,
            advised=advised,
            tried=tuple(self._in_order(vc, dict.fromkeys((*menu, today.owned)))),
            kept=self._kept.get(vc, ""),
        )

    def _specification(self, chosen: Mapping[str, Evaluation]) -> Specification:
        base = self._layout.specification
        owners = dict(base.virtual_clusters)
        for vc, advised in chosen.items():
            cells = cells_by_path(self._layout, advised.owned)
            pinned = owners[vc].pinned if vc in owners else {}
            if cells or vc in owners:
                owners[vc] = VirtualCells(cells=cells, pinned=pinned)
        return replace(base, virtual_clusters=owners)


def cells_by_path(layout: Layout, owned: Owned) -> dict[str, int]:
    """Return cells as a specification names them."""
    paths = _paths(layout)
    return {paths[chain, level]: number for chain, level, number in owned}


def _paths(layout: Layout) -> dict[tuple[str, int], str]:
    """Return the name of each type by chain and level, with the chain's name where several chains have it."""
    chains = layout.chains.values()
    return {
        (chain.name, level): kind
        if sum(kind in other.types for other in chains) == 1
        else f"{chain.name}/{kind}"
        for chain in chains
        for level, kind in enumerate(chain.types)
    }


def _unknown(field: str, what: str, name: str, known: Sequence[str]) -> Problem:
    close = get_close_matches(name, known, 1)
    guess = f"; did you mean {close[0]!r}?" if close else ""
    return Problem(field, f"there is no {what} {name!r}{guess}", f"one of: {', '.join(known[:20])}")
