"""What another division by cells would do to the jobs that run: the next round, decided ahead of time."""

from collections import defaultdict
from dataclasses import replace
from typing import Any

from scheduler.core.cells.chains import Layout
from scheduler.core.cells.compiling import compiled
from scheduler.core.model.plan import ActionKind
from scheduler.core.model.snapshot import JobId, Snapshot
from scheduler.core.round.decide import decide
from scheduler.core.round.guarantees.reliance import owned, relying_on
from scheduler.rounds.circuit_breaker import with_breakers_open
from scheduler.rounds.models import Leadership
from scheduler.rounds.snapshot import read_snapshot

MOST_JOBS = 20


def effects_of(layout: Layout) -> list[dict[str, Any]]:
    """Return by virtual cluster how many of its guaranteed jobs would lose their guarantee, and which."""
    newest = Leadership.objects.values_list("number", flat=True).first() or 0
    return effects(with_breakers_open(read_snapshot(newest + 1)), layout)


def effects(facts: Snapshot, layout: Layout) -> list[dict[str, Any]]:
    """Return the same of the facts of any instant."""
    running: dict[str, list[JobId]] = defaultdict(list)
    home = {job.id: job.virtual_cluster for job in facts.jobs}
    divided = layout.gpu_models | (compiled(facts.cells).gpu_models if facts.cells else frozenset())
    for held in facts.running:
        if held.guaranteed and not held.stopping and held.gpu_model in divided and held.jobs[0] in home:
            running[home[held.jobs[0]]] += held.jobs
    guaranteed = {held.allocation for held in facts.running if held.guaranteed}
    lapsing: dict[str, list[JobId]] = defaultdict(list)
    for action in decide(_with(facts, layout)).actions:
        if action.kind in (ActionKind.REGRADE, ActionKind.STOP) and (
            action.allocation in guaranteed and not action.guaranteed
        ):
            lapsing[action.virtual_cluster] += action.jobs
    return [
        {
            "virtual_cluster": name,
            "running": len(running[name]),
            "lapsing": len(lapsing[name]),
            "jobs": sorted(lapsing[name])[:MOST_JOBS],
        }
        for name in sorted({*running, *lapsing})
    ]


def _with(facts: Snapshot, layout: Layout) -> Snapshot:
    """Return the facts as they would be if this were the specification; what is lent stays lent."""
    before = owned(facts)
    clusters = []
    for vc in before.virtual_clusters:
        by_count = {model: n for model, n in vc.guaranteed.items() if model not in layout.gpu_models}
        clusters.append(replace(vc, guaranteed={**by_count, **layout.guaranteed(vc.name)}))
    cells = layout.specification if layout.chains else None
    after = replace(before, cells=cells, virtual_clusters=tuple(clusters))
    return after if facts.lending is None else relying_on(after, facts.lending)
