"""Nodes of serving pools are lent whole, asked back, and given back when no process of a job runs there.

A return is announced with the instant by which the pool has the node. Rounds shrink at once what can
shrink. They stop the remaining jobs before that instant, by the longest grace period on the node.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Sum

from scheduler.core.model.lifecycle import AttemptState, HoldPhase, PartState
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.serving_pools import steering
from scheduler.core.serving_pools.load_curve import curve_of
from scheduler.core.serving_pools.returning import NodeReturn, nodes_to_return
from scheduler.jobs.attempts.services.steps import attempt_event
from scheduler.models.attempts import AllocatedGpu, Attempt, AttemptPart
from scheduler.models.nodes import LoanState, Node, ServingPool
from scheduler.nodes.services.changes import change_node, node_locked
from scheduler.rounds.snapshot import read_snapshot
from scheduler.virtual_clusters.cells.selectors import cells_in_force
from scheduler.virtual_clusters.services import lock_guarantees, own_gpus
from scheduler.wiring.clock import database_now
from scheduler.wiring.sweeps import for_each
from tenants.errors import Conflict, FieldError, Invalid
from tenants.models import Guarantee
from tenants.times import in_words, iso

MAX_POOLS = 1_000
#: The actor of what a load curve does.
ACTOR = "load curve"
_NOT_RETURNING: Mapping[str, Any] = {"return_by": None, "return_stops_at": None}


# Pools


@transaction.atomic
def pool_create(*, name: str, return_seconds: float, nodes_needed: Mapping[str, int] | None) -> ServingPool:
    """Make a serving pool, which has no nodes yet."""
    _check_curve(nodes_needed)
    if ServingPool.objects.count() >= MAX_POOLS:
        raise Conflict(f"There are already {MAX_POOLS} serving pools; remove some first.")
    try:
        with transaction.atomic():
            return ServingPool.objects.create(
                name=name, return_seconds=return_seconds, nodes_needed=nodes_needed
            )
    except IntegrityError:
        problem = FieldError("name", f"there is already a serving pool {name!r}", "a name that is not taken")
        raise Conflict(f"There is already a serving pool {name!r}.", [problem]) from None


@transaction.atomic
def pool_change(pool: ServingPool, fields: Mapping[str, Any]) -> ServingPool:
    """Change how long a return takes, or what the pool needs; nodes follow within seconds."""
    if "nodes_needed" in fields:
        _check_curve(fields["nodes_needed"])
    pool = ServingPool.objects.select_for_update().get(id=pool.id)
    for name, value in fields.items():
        setattr(pool, name, value)
    pool.save(update_fields=list(fields))
    return pool


@transaction.atomic
def pool_remove(pool: ServingPool) -> None:
    """Remove a pool that has no nodes."""
    if pool.nodes.exists():
        raise Conflict(f"Serving pool {pool.name} still has nodes; remove them from it first.")
    pool.delete()


@transaction.atomic
def node_join(*, node: Node, pool: ServingPool | None, actor: str) -> None:
    """Make the node one of a serving pool, or the cluster's own again.

    A node on which jobs run is lent from the beginning; ask it back to get it.
    """
    node = node_locked(node)
    if node.serving_pool_id == (pool and pool.id):
        return
    state = LoanState.NONE
    if pool is not None:
        _refuse_in_cells(node)
        if node.serving_pool_id is None:
            _refuse_guaranteed(node)
        state = LoanState.LENT if _is_in_use(node) else LoanState.SERVING
    kind, why = ("node.joined_pool", f"Serving pool {pool.name}.") if pool else ("node.left_pool", "")
    change_node(node, kind, actor=actor, why=why, serving_pool=pool, **_loan(state, actor, why))


def _refuse_in_cells(node: Node) -> None:
    """Raise Conflict for a node that the guarantees of virtual clusters may need."""
    chains = cells_in_force().layout.chains.values()
    if any(leaf.node == node.name for chain in chains for leaf in chain.leaves):
        raise Conflict(
            f"Node {node.name} is part of the cells, which are guaranteed; remove it from them first."
        )


def _refuse_guaranteed(node: Node) -> None:
    """Raise Conflict for a node without which there are fewer GPUs than virtual clusters are guaranteed."""
    lock_guarantees()
    model = node.gpu_model and node.gpu_model.name
    gpus = node.gpus.filter(present=True).count()
    rows = Guarantee.objects.filter(gpu_model=model)
    promised = rows.aggregate(gpus=Sum("gpus"))["gpus"] or 0
    left = own_gpus().get(model, 0) - gpus if model else 0
    if gpus and promised > left:
        named = ", ".join(sorted(rows.filter(gpus__gt=0).values_list("virtual_cluster__name", flat=True))[:5])
        problem = (
            f"{promised} {model} are guaranteed (virtual clusters: {named}), and without node {node.name} the"
            f" cluster has {left} of its own; lent nodes do not count for guarantees"
        )
        expected = f"guarantee at most {left} {model} first, by PUT virtual-clusters/NAME"
        raise Conflict(f"{problem}; {expected}.", [FieldError("pool", problem, expected)])


def _check_curve(times: Mapping[str, int] | None) -> None:
    if times is not None:
        try:
            curve_of(times)
        except ValueError as error:
            expected = 'nodes by time of day in UTC, like {"08:00": 6, "20:00": 2}, or null'
            raise Invalid(
                f"nodes_needed: {error}.", [FieldError("nodes_needed", str(error), expected)]
            ) from None


# Single nodes


@transaction.atomic
def node_lend(*, node: Node, actor: str, why: str = "", until: datetime | None = None) -> None:
    """Lend a node of a serving pool whole, forever or until its pool has it back; cancel its return."""
    node = node_locked(node)
    _pool_by_name(node)
    change_node(node, "node.lent", actor=actor, why=why, **_loan(LoanState.LENT, actor, why, until=until))


@transaction.atomic
def node_ask_back(*, node: Node, actor: str, why: str = "", by: datetime | None = None) -> None:
    """Ask a lent node back, by an instant or as soon as its pool's returns allow."""
    node = node_locked(node)
    pool = _pool_by_name(node)
    if node.loan_state == LoanState.SERVING:
        raise Conflict(f"Node {node.name} is not lent; its serving pool {pool.name} has it.")
    _ask_back(node, pool, actor=actor, why=why, by=by)


def _pool_by_name(node: Node) -> ServingPool:
    """Return the pool of a node that is lent by name; raise Conflict if it is in no pool."""
    pool = node.serving_pool
    if pool is None:
        raise Conflict(
            f"Node {node.name} belongs to no serving pool; PUT nodes/{node.name}/serving-pool first."
        )
    if pool.nodes_needed is not None:
        raise Conflict(
            f"The load curve of serving pool {pool.name} decides which nodes are lent;"
            " change its nodes_needed, or set it to null."
        )
    return pool


def _ask_back(node: Node, pool: ServingPool, *, actor: str, why: str, by: datetime | None) -> None:
    now = database_now()
    by = now + timedelta(seconds=pool.return_seconds) if by is None else by
    there = _unended_attempts(node)
    grace = max([attempt.job.grace_seconds for attempt in there], default=0.0)
    # The order to stop follows at most a round later.
    stops_at = max(now, by - timedelta(seconds=grace + settings.CONFIG.round_seconds))
    at = in_words(by)
    columns = _loan(LoanState.RETURNING, actor, why) | {"return_by": by, "return_stops_at": stops_at}
    reason = f"Serving pool {pool.name} has it back by {at}. {why}".strip()
    change_node(node, "node.asked_back", actor=actor, why=reason, **columns)
    message = (
        f"Node {node.name} returns to its serving pool {pool.name} by {at}: an elastic job goes on with what"
        " it has elsewhere, if that is enough; others are stopped in time, and go on elsewhere."
    )
    data = {"node": node.name, "return_by": iso(by), "why": why}
    for attempt in there:
        attempt_event(attempt, "attempt.node_returns", at=now, actor=actor, why=message, data=data).save()


def _loan(state: LoanState, actor: str, why: str, *, until: datetime | None = None) -> dict[str, Any]:
    return {
        "loan_state": state,
        "loan_by": actor[:80],
        "loan_why": why[:300],
        "loan_since": database_now(),
        "lent_until": until,
        **_NOT_RETURNING,
    }


def _unended_attempts(node: Node) -> Sequence[Attempt]:
    parts = AttemptPart.objects.filter(node=node).exclude(state=PartState.EXITED)
    attempts = Attempt.objects.filter(id__in=parts.values("attempt_id")).exclude(state=AttemptState.ENDED)
    return list(attempts.select_related("job").order_by("id"))


def _is_in_use(node: Node) -> bool:
    """Whether a process of a job is on the node, or one of its GPUs is held or promised."""
    here = AllocatedGpu.objects.filter(gpu__node=node, phase__in=[HoldPhase.HELD, HoldPhase.NOMINATED])
    return here.exists() or AttemptPart.objects.filter(node=node).exclude(state=PartState.EXITED).exists()


# Pools as wholes


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedBack:
    """A node that was asked back, with the jobs that this stops or shrinks."""

    node: Node
    preempts: Sequence[int]
    shrinks: Sequence[int]


def pool_ask_back(
    *, pool: ServingPool, count: int, actor: str, why: str = "", by: datetime | None = None
) -> list[AskedBack]:
    """Ask this many nodes of a pool back, those whose return costs least; all if it lends fewer."""
    if pool.nodes_needed is not None:
        raise Conflict(f"The load curve of serving pool {pool.name} decides; change its nodes_needed.")
    return _ask_cheapest_back(pool, read_snapshot(0), count, actor=actor, why=why, by=by)


def _ask_cheapest_back(
    pool: ServingPool, facts: Snapshot, count: int, *, actor: str, why: str, by: datetime | None
) -> list[AskedBack]:
    chosen = nodes_to_return(facts.nodes, pool.name, count, facts.jobs, facts.running)
    return [back for each in chosen if (back := _asked_back(pool, each, actor=actor, why=why, by=by))]


@transaction.atomic
def _asked_back(
    pool: ServingPool, chosen: NodeReturn, *, actor: str, why: str, by: datetime | None
) -> AskedBack | None:
    node = node_locked(Node(id=chosen.node))
    # It may have been asked back meanwhile.
    if node.serving_pool_id != pool.id or node.loan_state != LoanState.LENT:
        return None
    _ask_back(node, pool, actor=actor, why=why, by=by)
    return AskedBack(node=node, preempts=chosen.preempts, shrinks=chosen.shrinks)


def watch_serving_pools() -> None:
    """Give back returning nodes without jobs, ask back those whose time is over, and follow load curves."""
    returning = Node.objects.filter(loan_state=LoanState.RETURNING)
    for_each("the return of", returning.order_by("id"), _give_back)
    ending = Node.objects.filter(loan_state=LoanState.LENT, lent_until__isnull=False)
    for_each("the end of the loan of", ending.order_by("id"), _end_loan)
    steered = Node.objects.filter(serving_pool=OuterRef("id"))
    pools = ServingPool.objects.filter(Exists(steered), nodes_needed__isnull=False).order_by("name")
    if pools:
        facts = read_snapshot(0)
        for_each("the load curve of", pools, partial(_steer, facts=facts))


@transaction.atomic
def _give_back(node: Node) -> None:
    node = node_locked(node)
    if node.loan_state == LoanState.RETURNING and not _is_in_use(node):
        why = f"Nothing of a job runs there: serving pool {node.serving_pool} has it."
        change_node(node, "node.given_back", actor=node.loan_by, why=why, **_loan(LoanState.SERVING, "", ""))


@transaction.atomic
def _end_loan(node: Node) -> None:
    node = node_locked(node)
    pool, now = node.serving_pool, database_now()
    if pool is None or node.loan_state != LoanState.LENT or node.lent_until is None:
        return
    if node.lent_until - timedelta(seconds=pool.return_seconds) <= now:
        by = max(node.lent_until, now)
        _ask_back(node, pool, actor=node.loan_by, why="The loan ends.", by=by)


def _steer(pool: ServingPool, facts: Snapshot) -> None:
    """Lend what the pool does not need by its load curve, and ask back what it needs."""
    curve = None if pool.nodes_needed is None else curve_of(pool.nodes_needed)
    known = steering.ServingPool(name=pool.name, return_seconds=pool.return_seconds, curve=curve)
    steps = steering.steer(known, facts.nodes, facts.now)
    for number in steps.lend:
        _lend_by_curve(Node(id=number), pool)
    if steps.ask_back:
        by = database_now() + timedelta(seconds=steps.return_by - facts.now)
        _ask_cheapest_back(
            pool, facts, steps.ask_back, actor=ACTOR, why="It needs more nodes from then on.", by=by
        )


@transaction.atomic
def _lend_by_curve(node: Node, pool: ServingPool) -> None:
    node = node_locked(node)
    if node.serving_pool_id == pool.id and node.loan_state in (LoanState.SERVING, LoanState.RETURNING):
        why = "It is not needed at this time of the day."
        change_node(node, "node.lent", actor=ACTOR, why=why, **_loan(LoanState.LENT, ACTOR, why))
