"""The experiment that is simulated: the cluster, the workload, and the rules of their world."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from scheduler.core.model.gpu_parts import SHARE_FREE
from scheduler.core.model.interference import Branch, GroupSpeeds, PairSpeeds
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.perf.interference import fitted, measured_of
from scheduler.core.round.guarantees.binding import CELLS
from scheduler.core.round.registry import make_placer, make_policy, split_placer, split_policy
from scheduler.core.round.reserve import SPARE
from scheduler.core.sim.engine import ScriptedEvent
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.workload import Workload
from scheduler.simulation.autoscaling import refuse_autoscaling
from scheduler.simulation.errors import InputError
from scheduler.simulation.gavel.choices import rules_named, shares_named
from scheduler.simulation.inventory import ClusterSpec
from scheduler.simulation.rates import ThroughputTable

#: Seconds between rounds by default; a minute is what most papers use.
ROUND_SECONDS = 60.0
DEFAULT_POLICY = "fifo"
#: What a policy and a placer may take for one view in one round; the longest rounds of ours take a minute.
VIEW_BUDGET_SECONDS = 600.0


def check_round_seconds(seconds: float) -> None:
    """Raise InputError for an impossible length of rounds."""
    if not 0 <= seconds < float("inf"):
        raise InputError(f"round_seconds is {seconds}; it must be a number of at least 0")


def check_view_budget(seconds: float) -> None:
    """Raise InputError for an impossible budget of a view."""
    if not 0 < seconds < float("inf"):
        raise InputError(f"view_budget_seconds is {seconds}; it must be a number above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """What is simulated. The cluster must know the workload's tenants (`joining.join`)."""

    cluster: ClusterSpec
    workload: Workload
    #: The policy of every virtual cluster and of the spare GPUs; empty for those that the cluster states.
    policy: str = "fifo"
    placer: str = ""
    rules: Rules = field(default_factory=Rules)
    #: The seconds between rounds; 0 for a round whenever something happens.
    round_seconds: float = ROUND_SECONDS
    #: Empty for the platform's rounds, else Gavel's own, in the form that `gavel.choices.rules_named` reads.
    rounds: str = ""
    #: The first index and the end of the jobs that are measured; the simulation ends with the last of them.
    window: tuple[int, int] | None = None
    #: Seconds on the clock; the simulation ends where a view's policy and placer take longer for one round.
    view_budget_seconds: float = VIEW_BUDGET_SECONDS
    script: Sequence[ScriptedEvent] = ()
    #: Whether each virtual cluster's private cluster is simulated, too, and compared.
    private: bool = False
    #: Whether a job that can never run is an error, instead of being left out.
    strict: bool = False

    def __post_init__(self) -> None:
        check_round_seconds(self.round_seconds)
        check_view_budget(self.view_budget_seconds)
        if self.rules.autoscaling is not None:
            refuse_autoscaling(self.rules.autoscaling, self.cluster, self.rounds, is_private=self.private)
        if self.rounds:
            rules_named(self.rounds, round_seconds=self.round_seconds, seed=self.rules.seed)
            shares_named(self.policy)
        elif self.policy:
            make_policy(self.policy)
        if self.placer:
            make_placer(self.placer)

    def facts(self) -> Snapshot:
        """Return the facts at the beginning: the empty cluster."""
        clusters = self.cluster.virtual_clusters
        taken = [vc.name for vc in clusters if vc.name in (SPARE, CELLS)]
        if taken:
            raise InputError(
                f"a virtual cluster cannot be called {taken[0]}: the simulator uses that name itself"
            )
        policy, parameters = split_policy(self.policy or "fifo")
        pair_speeds, group_speeds = self._known_together()
        placer, placing = split_placer(self.placer or "consolidate")
        if self.policy:
            clusters = tuple(replace(vc, policy=policy, policy_parameters=parameters) for vc in clusters)
        if self.placer:
            clusters = tuple(replace(vc, placer=placer, placer_parameters=placing) for vc in clusters)
        return Snapshot(
            round_number=0,
            now=0.0,
            round_seconds=self.round_seconds,
            nodes=self.cluster.nodes,
            tenants=self.cluster.tenants,
            virtual_clusters=clusters,
            cells=self.cluster.cells,
            prices=self.cluster.prices,
            preemptions_per_round=self.cluster.bounds.preemptions_per_round,
            backoff_seconds=self.cluster.bounds.backoff_seconds,
            most_backoff_seconds=self.cluster.bounds.most_backoff_seconds,
            pair_speeds=pair_speeds,
            group_speeds=group_speeds,
            interference=self._interference(pair_speeds),
            spare_policy=policy,
            spare_policy_parameters=parameters,
            spare_placer=placer,
            spare_placer_parameters=placing,
        )

    def _known_together(self) -> tuple[tuple[PairSpeeds, ...], tuple[GroupSpeeds, ...]]:
        """Return the known speeds of the workload's applications on the same GPUs, if a policy uses them."""
        tables = self.rules.speeds.tables
        if not isinstance(tables, ThroughputTable):
            return (), ()
        applications = {arrival.job.application for arrival in self.workload.arrivals}
        models = sorted(self.cluster.gpus_by_model)
        return tables.pair_speeds(applications, models), tables.group_speeds(applications, models)

    def _interference(self, pairs: Iterable[PairSpeeds]) -> tuple[Branch, ...]:
        """Return the tree that predicts other pairs from measured ones, if a virtual cluster may use it."""
        if all(vc.sharing != SHARE_FREE for vc in self.cluster.virtual_clusters):
            return ()
        profiles = {
            arrival.job.application: arrival.job.profile
            for arrival in self.workload.arrivals
            if arrival.job.profile is not None
        }
        predictor = fitted(measured_of([(pair.applications, pair.speeds) for pair in pairs], profiles))
        return predictor.tree if predictor else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Milestone:
    """How far a simulation has come."""

    ended_jobs: int
    jobs: int
    #: Virtual time.
    now: float
