"""What the jobs of a snapshot report of their training: epochs, batch sizes, losses, and how they scale."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scheduler.core.building_blocks.run_time import relative_rates
from scheduler.core.goodput.gpu_models import best_known, projected
from scheduler.core.goodput.throughput import Parameters
from scheduler.core.model import training as core
from scheduler.core.perf.profiles import first_known, stored_profile
from scheduler.core.perf.training_reports import TrainingReport
from scheduler.core.round.registry import traits_of
from scheduler.jobs.attempts.services.progress import reported_of, scaling_of
from scheduler.models.attempts import JobProfile, JobScaling, TrainingProgress
from scheduler.models.throughputs import ClassProfile

_UNENDED = ("queued", "running")
#: Profiles of job classes that are read in a round: those measured last.
CLASS_PROFILES_MOST = 5_000
_IN_USE = """
SELECT policy FROM tenants_virtualcluster UNION SELECT spare_policy FROM scheduler_clustersettings
"""
# A sample of each job's losses, evenly over its progress lines, always with the latest. Steps that were
# repeated after a restart count as they were the last time. A job may have written a million lines;
# not all are read: each attempt's are cut into 64 parts by number, and the index finds the last loss of each.
_LOSSES = """
SELECT job_id, array_agg(step ORDER BY step), array_agg(loss ORDER BY step) FROM (
    SELECT DISTINCT ON (job_id, part) job_id, step, loss FROM (
        SELECT job_id, step, loss, ntile(32) OVER (PARTITION BY job_id ORDER BY step) AS part FROM (
            SELECT DISTINCT ON (a.job_id, found.step) a.job_id, found.step, found.loss
            FROM scheduler_job j JOIN tenants_virtualcluster v ON v.id = j.virtual_cluster_id
            JOIN scheduler_attempt a ON a.job_id = j.id
            CROSS JOIN LATERAL (
                SELECT sequence AS last, sequence / 64 + 1 AS stride FROM scheduler_progresspoint
                WHERE attempt_id = a.id ORDER BY sequence DESC LIMIT 1
            ) newest
            CROSS JOIN LATERAL generate_series(last, 0, -stride) AS until
            CROSS JOIN LATERAL (
                SELECT step, sequence, (values ->> 'loss')::float8 AS loss FROM scheduler_progresspoint
                WHERE attempt_id = a.id AND sequence <= until AND sequence > until - stride
                  AND jsonb_typeof(values -> 'loss') = 'number'
                ORDER BY sequence DESC LIMIT 1
            ) found
            WHERE j.state IN ('queued', 'running')
              AND CASE WHEN j.guaranteed THEN v.policy
                       ELSE (SELECT spare_policy FROM scheduler_clustersettings) END = ANY(%(names)s)
            ORDER BY a.job_id, found.step, a.id DESC, found.sequence DESC
        ) steps
    ) parts ORDER BY job_id, part, step DESC
) kept GROUP BY job_id
"""

Losses = tuple[tuple[float, float], ...]


class Trainings:
    """What is known, by job."""

    def __init__(self, reported: Mapping[int, TrainingReport]) -> None:
        self._reported = reported

    def of(self, job: int, throughput: Mapping[str, float]) -> core.Training | None:
        """Return the facts of a job; its epochs are as long as on the fastest model of its throughput."""
        known = self._reported.get(job)
        if known is None:
            return None
        models = [model for seen in known.seen.values() for model in seen.timed]
        return known.training(relative_rates(throughput, models))


def read_trainings() -> Trainings:
    """Read what is known of the jobs that have not ended."""
    rows = TrainingProgress.objects.filter(job__state__in=_UNENDED)
    return Trainings({row.job_id: reported_of(row) for row in rows})


def policies_in_use(cursor: Any) -> list[str]:
    """Read which policies decide now: some facts are read by few, and reading them costs a search."""
    cursor.execute(_IN_USE)
    return [name for (name,) in cursor.fetchall()]


def read_losses(cursor: Any, policies: Sequence[str]) -> dict[int, Losses]:
    """Read (step, loss) of the jobs whose policy, one of these, reads them, by job."""
    names = [name for name in policies if traits_of(name).reads_losses]
    if not names:
        return {}
    cursor.execute(_LOSSES, {"names": names})
    return {
        job: tuple((float(step), loss) for step, loss in zip(steps, losses, strict=True))
        for job, steps, losses in cursor.fetchall()
    }


class Profiles:
    """Profiles of jobs on their GPUs: by job, by user and job class, and by job class alone."""

    def __init__(
        self,
        own: Mapping[int, core.Profile],
        of_users: Mapping[tuple[str, str, str], core.Profile],
        of_classes: Mapping[tuple[str, str], core.Profile],
    ) -> None:
        self._own, self._of_users, self._of_classes = own, of_users, of_classes

    @property
    def job_classes(self) -> Iterable[tuple[str, str]]:
        """The jobs with known facts."""
        return self._of_classes

    def of(self, job: int, user: str, job_class: tuple[str, str]) -> core.Profile | None:
        """Return each figure of the job itself, else of its user's like jobs, else of any user's."""
        tenant, application = job_class
        found = [
            self._own.get(job),
            self._of_users.get((tenant, application, user)),
            self._of_classes.get(job_class),
        ]
        return first_known(found)


def read_profiles() -> Profiles:
    """Read what is known of the jobs that have not ended, and of their like."""
    own = JobProfile.objects.filter(job__state__in=_UNENDED).values_list("job_id", "profile")
    rows = ClassProfile.objects.order_by("-updated_at", "-id").values_list(
        "tenant__name", "application", "user__username", "profile"
    )[:CLASS_PROFILES_MOST]
    of_users = {}
    of_classes: dict[tuple[str, str], core.Profile] = {}
    for tenant, application, user, values in rows:
        profile = of_users[tenant, application, user] = stored_profile(values)
        of_classes.setdefault((tenant, application), profile)
    return Profiles({job: stored_profile(values) for job, values in own}, of_users, of_classes)


class Scalings:
    """What is known, by job."""

    def __init__(self, rows: Mapping[int, JobScaling]) -> None:
        self._rows = rows

    def of(self, job: int, throughput: Mapping[str, float]) -> core.Goodput | None:
        """Return the facts of a job; None until there are a fit and the noise.

        `throughput`: its speeds by GPU model, from which the facts of models without runs are derived.
        """
        row = self._rows.get(job)
        return None if row is None else goodput_of(row, throughput)


def goodput_of(row: JobScaling, throughput: Mapping[str, float]) -> core.Goodput | None:
    """Return what is known of how a job scales, as `Scalings.of` does."""
    known = scaling_of(row)
    if not row.parameters or known.noise is None or known.limits is None:
        return None
    parameters = {model: Parameters(*values) for model, (values, _) in sorted(row.parameters.items())}
    known_on, others = best_known(known.measurements()), {}
    if known_on in parameters:
        others = projected(parameters[known_on], known_on, throughput, but=parameters)
        parameters |= {model: each.parameters for model, each in others.items()}
    limits = known.limits
    return core.Goodput(
        parameters=dict(parameters),
        noise=(known.noise.squared_norm, known.noise.variance),
        initial_batch=limits.initial_batch,
        max_batch=limits.max_batch,
        min_local_batch=limits.min_local_batch,
        max_local_batch=limits.max_local_batch,
        most_replicas=known.most_replicas,
        projected=tuple(others),
    )


def read_scalings() -> Scalings:
    """Read what is known of the jobs that have not ended."""
    rows = JobScaling.objects.filter(job__state__in=_UNENDED).exclude(parameters={})
    return Scalings({row.job_id: row for row in rows})
