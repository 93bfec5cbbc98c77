"""Virtual clusters as whole objects of the API: REST answers and the live stream send these."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from django.db.models import Count, Q

from scheduler.core.lending.in_force import given_and_got
from scheduler.core.model.lifecycle import HoldPhase, JobState
from scheduler.models.attempts import AllocatedGpu
from scheduler.models.cells import CellSpecification
from scheduler.models.jobs import Job
from scheduler.models.selectors.peaks import ViolationRate, violation_rates
from scheduler.models.selectors.rounds import overruns
from scheduler.models.virtual_clusters import Overcommitment, PreemptionLimits
from scheduler.virtual_clusters.market.selectors import MarketState, market_now
from scheduler.wiring.clock import database_now
from scheduler.wiring.plugins import ChosenPlugin, has_targets
from scheduler.wiring.representation import Representation
from scheduler.wiring.stream import object_of, send_to_everyone, to_pages
from tenants.models import VirtualCluster
from tenants.selectors import Viewer
from tenants.times import iso


def virtual_clusters(ids: Iterable[int]) -> list[Representation]:
    """Return the virtual clusters with the parts of their guarantees, and beyond, that are in use."""
    ids = list(ids)
    rows = VirtualCluster.objects.filter(id__in=ids).prefetch_related(
        "members__tenant", "guarantees", "preemption_limits", "overcommitment"
    )
    by_id = {row.id: row for row in rows}
    usage: dict[int, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    held = AllocatedGpu.objects.filter(phase=HoldPhase.HELD, allocation__virtual_cluster_id__in=by_id)
    by_use = held.values_list(
        "allocation__virtual_cluster_id", "allocation__gpu_model", "allocation__guaranteed"
    ).annotate(gpus=Count("gpu_id", distinct=True))
    for row_id, model, guaranteed, gpus in by_use:
        kind = "guaranteed_in_use" if guaranteed else "opportunistic_in_use"
        usage[row_id][model][kind] += gpus
    unfinished = Job.objects.filter(
        virtual_cluster_id__in=by_id, state__in=[JobState.QUEUED, JobState.RUNNING]
    )
    counts = {
        row_id: (queued, running)
        for row_id, queued, running in unfinished.values_list("virtual_cluster_id").annotate(
            queued=Count("id", filter=Q(state=JobState.QUEUED)),
            running=Count("id", filter=Q(state=JobState.RUNNING)),
        )
    }
    owned = _owned_cells()
    market = market_now(database_now())
    moved = _lent_and_borrowed(market)
    rates = violation_rates(by_id)
    slow = overruns([row.name for row in by_id.values()])
    return [
        {
            **_virtual_cluster(
                by_id[row_id],
                usage[row_id],
                owned.get(by_id[row_id].name, {}),
                market.in_force.gpus.get(by_id[row_id].name, {}),
                *counts.get(row_id, (0, 0)),
            ),
            **moved[by_id[row_id].name],
            "has_targets": has_targets(by_id[row_id].policy),
            "overrun": slow.get(by_id[row_id].name),
            "overcommit_violations": _violations(rates.get(row_id)),
        }
        for row_id in ids
        if row_id in by_id
    ]


def virtual_cluster_seen(shown: Mapping[str, Any], viewer: Viewer) -> Representation:
    """Return a virtual cluster as the viewer may see it: of other tenants only how many are members."""
    if viewer.is_operator:
        return dict(shown)
    own = [member for member in shown["members"] if member["tenant"] in viewer.tenant_names]
    return {**shown, "members": own, "other_members": len(shown["members"]) - len(own)}


def _owned_cells() -> Representation:
    """Return what the specification of cells in force says of each virtual cluster, by name."""
    text = CellSpecification.objects.order_by("-version").values_list("document", flat=True).first()
    return json.loads(text)["virtual_clusters"] if text else {}


def _virtual_cluster(
    row: VirtualCluster,
    usage: Mapping[str, Counter[str]],
    owned: Representation,
    guaranteed: Mapping[str, int],
    queued: int,
    running: int,
) -> Representation:
    own = {line.gpu_model: line.gpus for line in row.guarantees.all()}
    return {
        "id": row.id,
        "name": row.name,
        "title": row.title,
        "policy_plugin": ChosenPlugin(row.policy, row.policy_parameters).to_json(),
        "placer_plugin": ChosenPlugin(row.placer, row.placer_parameters).to_json(),
        "default_time_limit_seconds": row.default_time_limit_seconds,
        "sharing": row.sharing,
        **least_seconds(row),
        **overcommitment_of(row),
        "guaranteed": dict(sorted(guaranteed.items())),
        "own_guaranteed": dict(sorted(own.items())),
        "cells": {path: count for path, count in owned.get("cells", {}).items() if count},
        "pinned": owned.get("pinned", {}),
        "members": [
            {"tenant": member.tenant.name, "weight": member.weight}
            for member in sorted(row.members.all(), key=lambda member: member.tenant.name)
        ],
        "other_members": 0,
        "usage": {
            model: {
                kind: usage[model][kind] if model in usage else 0
                for kind in ("guaranteed_in_use", "opportunistic_in_use")
            }
            for model in sorted({*guaranteed, *usage})
        },
        "queued": queued,
        "running": running,
        "version": row.version,
    }


def least_seconds(row: VirtualCluster) -> dict[str, float]:
    """Return how long attempts of a virtual cluster run at least and jobs wait at most, as the API has it."""
    chosen = getattr(row, "preemption_limits", None) or PreemptionLimits()
    return {
        "min_run_seconds": chosen.min_run_seconds,
        "reclaim_min_run_seconds": chosen.reclaim_min_run_seconds,
        "longest_wait_seconds": chosen.longest_wait_seconds,
    }


def overcommitment_of(row: VirtualCluster) -> Representation:
    """Return whether opportunistic jobs may have what its jobs do not use, as the API has it."""
    chosen = getattr(row, "overcommitment", None) or Overcommitment()
    return {"overcommit": chosen.overcommit, "overcommit_margin": chosen.margin}


def _violations(rate: ViolationRate | None) -> Representation | None:
    return None if rate is None else {**rate._asdict(), "rate": rate.rate}


def _lent_and_borrowed(market: MarketState) -> Mapping[str, Representation]:
    """Return by virtual cluster what others have of it now, and what it has of others."""
    found: dict[str, Representation] = defaultdict(lambda: {"lent": [], "borrowed": []})
    for loan in market.active:
        for giver, taker, lot in given_and_got([loan]):
            said = {
                "loan": loan.id,
                "lot": {"gpus": dict(lot.gpus), "cells": dict(lot.cells)},
                "ends_at": iso(datetime.fromtimestamp(loan.ends_at, UTC)),
            }
            found[giver]["lent"].append({**said, "to": taker})
            found[taker]["borrowed"].append({**said, "from": giver})
    return found


def publish_virtual_clusters(ids: Iterable[int]) -> None:
    to_pages(_send_virtual_clusters, sorted(set(ids)))


def _send_virtual_clusters(ids: list[int]) -> None:
    send_to_everyone([object_of("virtual_cluster", vc) for vc in virtual_clusters(ids)])
