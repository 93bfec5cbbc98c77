"""A job that is not submitted yet, with the facts that a round would have of it."""

from dataclasses import replace
from datetime import UTC, datetime

from django.db import connection

from scheduler.core.model import snapshot as core
from scheduler.core.perf.throughput import job_class_of
from scheduler.jobspec import JobSpec
from scheduler.jobspec.beginning import begins_at
from scheduler.rounds.fixed_ports import candidates, listening_alone, taken_ports
from scheduler.rounds.job_facts import nodes_without_containers
from scheduler.rounds.throughputs import known_throughputs


def submitted_now(job: core.Job, spec: JobSpec, facts: core.Snapshot) -> core.Job:
    """Return the job of a specification as the snapshot would state it if it were submitted now."""
    with connection.cursor() as cursor:
        throughputs = known_throughputs(cursor)
        without_containers = nodes_without_containers(cursor) if spec.image else []
    job_class = job_class_of(job.tenant, job.application, spec.name)
    known = throughputs.of(job_class, job.gpus, job.throughput, (job.gpus, *sorted(job.throughput.items())))
    ports = [port for port in spec.ports.values() if port is not None]
    deadline_at = None if job.deadline_at is None else job.deadline_at - job.submitted_at + facts.now
    begins = begins_at(spec.begin, datetime.fromtimestamp(facts.now, UTC))
    seen = replace(
        job,
        submitted_at=facts.now,
        eligible_at=0.0 if begins is None else begins.timestamp(),
        deadline_at=deadline_at,
        throughput=known.throughput,
        estimated=known.estimated,
        gpu_models=known.accepted(job.gpu_models),
        avoid=tuple(sorted({*job.avoid, *without_containers})),
        outlasts=_outlasted(job, facts),
    )
    return listening_alone(seen, ports, candidates(job, ports, taken_ports(facts))) if ports else seen


def _outlasted(job: core.Job, facts: core.Snapshot) -> tuple[core.NodeId, ...]:
    """Return the nodes that close before the job would have reached its time limit."""
    defaults = {vc.name: vc.default_time_limit_seconds for vc in facts.virtual_clusters}
    lasts = job.time_limit_seconds or defaults.get(job.virtual_cluster, 0.0)
    return tuple(
        [node.id for node in facts.nodes if node.closes_at is not None and lasts > node.closes_at - facts.now]
    )
