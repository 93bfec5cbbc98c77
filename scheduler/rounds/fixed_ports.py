"""Fixed ports of jobs: two jobs with the same one are not placed on one node.

Jobs use the network of their node. So a node where another job listens at one of a job's ports is not a
candidate for this job; `apply` keeps jobs of the same round apart. The replicas of one job have the same
port. A tag that only such jobs have, and a constraint on it, keep them apart.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from django.db import connection

from scheduler.core.model import snapshot as core
from scheduler.core.model import wording
from scheduler.core.model.plan import Reason, Tier
from scheduler.core.model.tag_constraints import TagConstraint

#: Tags of users have no spaces.
_TAG = "fixed port "
#: The most conflicting jobs that a reason names.
_NAMED = 3
#: Reasons of the core that a port may cause.
_OF_CANDIDATES = frozenset({"candidate_nodes", "exceeds_candidates"})
_IN_THE_WAY = """
SELECT DISTINCT waiting.job, waiting.port, node.name, other.id
FROM (
    SELECT id AS job, number::int AS port
    FROM scheduler_job, jsonb_array_elements_text(shape -> 'ports') AS listed (number) WHERE id = ANY(%s)
    UNION ALL SELECT * FROM unnest(%s::bigint[], %s::int[])
) AS waiting (job, port)
JOIN scheduler_job other ON other.state IN ('queued', 'running') AND other.id <> waiting.job
    AND other.shape -> 'ports' @> to_jsonb(waiting.port)
JOIN scheduler_attempt attempt ON attempt.job_id = other.id AND attempt.state <> 'ended'
JOIN scheduler_attemptpart part ON part.attempt_id = attempt.id AND part.state <> 'exited'
JOIN scheduler_node node ON node.id = part.node_id
ORDER BY 1, 3, 4, 2
"""

Ports = Mapping[core.JobId, tuple[int, ...]]


def kept_apart(
    jobs: Sequence[core.Job],
    ports: Ports,
    running: Sequence[core.Running],
    nodes: Sequence[core.Node],
) -> list[core.Job]:
    """Return the jobs; for those with fixed ports, nodes where another job has one of these are excluded."""
    if not ports:
        return list(jobs)
    on = _taken(ports, running, nodes)
    return [
        listening_alone(job, ports[job.id], candidates(job, ports[job.id], on)) if job.id in ports else job
        for job in jobs
    ]


def listening_alone(job: core.Job, ports: Collection[int], nodes: core.Candidates | None) -> core.Job:
    """Return a job with fixed ports, limited to `nodes` and to one replica on each."""
    if sum([task.replicas for task in job.tasks]) == 1:
        return replace(job, nodes=nodes)
    tags = tuple([f"{_TAG}{port}" for port in sorted(ports)])
    apart = tuple([TagConstraint(tag=tag, most=0) for tag in tags])
    return replace(job, nodes=nodes, tags=(*job.tags, *tags), constraints=(*job.constraints, *apart))


def candidates(
    job: core.Job, ports: Collection[int], taken: Mapping[int, Mapping[str, core.JobId]]
) -> core.Candidates | None:
    """Return where a job may be, given the jobs that have each port on each node. It may stay on its own."""
    there = {name for port in ports for name, by in taken.get(port, {}).items() if by == job.id}
    names = {name for port in ports for name, by in taken.get(port, {}).items() if by != job.id} - there
    if not names:
        return job.nodes
    stated = job.nodes or core.Candidates()
    return replace(stated, avoid=(*stated.avoid, *sorted(names.difference(stated.avoid))))


def taken_ports(facts: core.Snapshot) -> Mapping[int, Mapping[str, core.JobId]]:
    """Return by port and node the job that listens there."""
    ids = [job.id for job in facts.jobs]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, shape -> 'ports' FROM scheduler_job"
            " WHERE id = ANY(%s) AND jsonb_exists(shape, 'ports')",
            [ids],
        )
        ports = {job: tuple(json.loads(numbers)) for job, numbers in cursor.fetchall()}
    return _taken(ports, facts.running, facts.nodes) if ports else {}


def _taken(
    ports: Ports, running: Sequence[core.Running], nodes: Sequence[core.Node]
) -> Mapping[int, Mapping[str, core.JobId]]:
    place = {gpu.id: node.name for node in nodes for gpu in node.gpus}
    names = {node.id: node.name for node in nodes}
    taken: dict[int, dict[str, core.JobId]] = defaultdict(dict)
    for held in running:
        for job in (*held.jobs, *held.leaving):
            for port in ports.get(job, ()):
                taken[port].update(
                    (place[gpu], job) for gpus in held.replicas for gpu in gpus if gpu in place
                )
                taken[port].update((names[node], job) for node in held.nodes if node in names)
    return taken


def with_ports_named(
    reasons: Mapping[core.JobId, tuple[Reason, ...]],
    having_ports: Collection[core.JobId],
    unwritten: Ports | None = None,
) -> Mapping[core.JobId, tuple[Reason, ...]]:
    """Return why jobs wait, with their ports where these are the cause.

    `having_ports`: jobs that have fixed ports; `unwritten`: the fixed ports of jobs that have no row.
    """
    waiting = [(job, reasons[job]) for job in having_ports if job in reasons]
    reasons = {**reasons, **{job: tuple(map(_for_port, given)) for job, given in waiting}}
    concerned = [job for job, given in waiting if given and given[0].code in _OF_CANDIDATES]
    if not concerned:
        return reasons
    stated = [(job, port) for job, ports in (unwritten or {}).items() for port in ports]
    found: dict[core.JobId, list[tuple[int, str, core.JobId]]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_IN_THE_WAY, [concerned, [job for job, _ in stated], [port for _, port in stated]])
        for waiting, port, node, other in cursor.fetchall():
            found[waiting].append((port, node, other))
    return {job: _named(found[job], given) if job in found else given for job, given in reasons.items()}


def _for_port(reason: Reason) -> Reason:
    """Return the reason with what its user can do, where the replicas' own port keeps them apart."""
    if reason.code != "exceeds_constraint" or not str(reason.blocking["tag"]).startswith(_TAG):
        return reason
    fewer = f"Use at most {reason.available} of the replicas"
    return replace(reason, hint=f"{fewer}, or leave the port's number out: then the node chooses one.")


def _named(others: Sequence[tuple[int, str, core.JobId]], given: tuple[Reason, ...]) -> tuple[Reason, ...]:
    words = [f"job {job} listens at port {port} on {node}" for port, node, job in others]
    more = [f"{len(words) - _NAMED} more"] if len(words) > _NAMED else []
    first = Reason(
        code="port_in_use",
        tier=Tier.CAPACITY,
        message=f"Its fixed port is in use: {wording.listed([*words[:_NAMED], *more])}.",
        blocking={
            "jobs": sorted({job for _, _, job in others}),
            "nodes": sorted({node for _, node, _ in others}),
        },
        hint="It starts when these end or there is room elsewhere. Without a number the node chooses one.",
    )
    # It fits on no other node only while the port is in use.
    return (first, *[reason for reason in given if reason.code not in _OF_CANDIDATES])
