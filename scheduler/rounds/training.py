"""How far the jobs of a snapshot have come by their own account of epochs and batch sizes."""

from collections.abc import Mapping

from scheduler.attempts.models import TrainingProgress
from scheduler.attempts.services.training import reported_of
from scheduler.core.building_blocks.run_time import relative_rates
from scheduler.core.model import snapshot as core
from scheduler.core.perf.training_reports import TrainingReport

_UNENDED = ("queued", "running")


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
