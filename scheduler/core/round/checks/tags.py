"""Part of step 7, check: no new job breaks a hard constraint between tags, from the raw facts alone.

Only upper bounds are checked: the jobs that a job must be near may leave in the same round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from scheduler.core.model.errors import PlanError
from scheduler.core.model.snapshot import Gpu, GpuId, Job, JobId, Node, Snapshot
from scheduler.core.model.tag_constraints import group_of

Replicas = tuple[tuple[GpuId, ...], ...]


def check_tags(
    snapshot: Snapshot,
    new: Mapping[JobId, Replicas],
    kept: Mapping[JobId, Replicas],
    where: Mapping[GpuId, tuple[Node, Gpu]],
) -> None:
    """Raise PlanError where a newly placed job breaks a hard constraint, its own or that of a job there."""
    if not any([job.constraints for job in snapshot.jobs]):
        return
    after = {**kept, **new}
    jobs = [job for job in snapshot.jobs if job.id in after and (job.tags or job.constraints)]
    with_tag: dict[tuple[str, str], list[Job]] = {}
    for job in jobs:
        for tag in job.tags:
            with_tag.setdefault((job.tenant, tag), []).append(job)

    def groups(job: Job, scope: str) -> Counter[object]:
        nodes = [where[replica[0]][0] for replica in after[job.id] if replica and replica[0] in where]
        return Counter([group_of(scope, node.id, node.path, snapshot.levels) for node in nodes])

    #: By tenant, tag and scope: jobs with the tag by group, all of them and the new ones.
    counted: dict[tuple[str, str, str], tuple[Counter[object], Counter[object]]] = {}
    for job in jobs:
        for constraint in job.constraints:
            if constraint.weight is not None or constraint.most is None:
                continue
            tag, scope = constraint.tag, constraint.scope
            if (job.tenant, tag, scope) not in counted:
                seen, newcomers = counted[job.tenant, tag, scope] = Counter(), Counter()
                for other in with_tag.get((job.tenant, tag), ()):
                    found = groups(other, scope)
                    seen.update(found)
                    newcomers.update(found if other.id in new else {})
            seen, newcomers = counted[job.tenant, tag, scope]
            for group in groups(job, scope):
                is_new = job.id in new or newcomers[group] > 0
                if is_new and seen[group] - (tag in job.tags) > constraint.most:
                    raise PlanError(
                        f"job {job.id} must have at most {constraint.most} others with tag {tag} in its"
                        f" {scope}, and would have {seen[group] - (tag in job.tags)}"
                    )
