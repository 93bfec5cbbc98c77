"""How the adaptive jobs of a snapshot scale, as fitted to what they measured."""

from collections.abc import Mapping

from scheduler.attempts.models import JobScaling
from scheduler.attempts.services.scaling import scaling_of
from scheduler.core.goodput.gpu_models import best_known, projected
from scheduler.core.goodput.throughput import Parameters
from scheduler.core.model import snapshot as core

_UNENDED = ("queued", "running")


class Scalings:
    """What is known, by job."""

    def __init__(self, rows: Mapping[int, JobScaling]) -> None:
        self._rows = rows

    def of(self, job: int, throughput: Mapping[str, float]) -> core.Goodput | None:
        """Return the facts of a job; None until there are a fit and the noise.

        `throughput`: its speeds by GPU model, by which those are told that it never ran on.
        """
        row = self._rows.get(job)
        return None if row is None else goodput_of(row, throughput)


def goodput_of(row: JobScaling, throughput: Mapping[str, float]) -> core.Goodput | None:
    """Return what is known of how a job scales, as `Scalings.of` does."""
    known = scaling_of(row)
    if not row.parameters or known.noise is None or known.limits is None:
        return None
    parameters = {model: Parameters(*values) for model, (values, _) in sorted(row.parameters.items())}
    known_on = best_known(known.measurements())
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
    )


def read_scalings() -> Scalings:
    """Read what is known of the jobs that have not ended."""
    rows = JobScaling.objects.filter(job__state__in=_UNENDED).exclude(parameters={})
    return Scalings({row.job_id: row for row in rows})
