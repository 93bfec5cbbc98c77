"""Comparisons with private clusters and advice on cells, as the API's schema describes them."""

from collections.abc import Mapping

from rest_framework import serializers

from scheduler.core.model.reason_kinds import Cause
from scheduler.models.adviser import WorkState
from scheduler.virtual_clusters.cells.schemas import CellDocument
from scheduler.wiring.rest import FieldProblem

COMPARISON_STATES = ["never", "waiting", "done", "failed"]
WORK_STATES = [state.value for state in WorkState]
CAUSES = [cause.value for cause in Cause]


class Delays(serializers.Serializer[Mapping[str, object]]):
    """Queueing delays: from submission to the first GPU."""

    real_mean_seconds = serializers.FloatField()
    private_mean_seconds = serializers.FloatField()
    real_p95_seconds = serializers.FloatField()
    private_p95_seconds = serializers.FloatField()


class DelayPoint(serializers.Serializer[Mapping[str, object]]):
    """Mean delays of the jobs submitted between this point and the next."""

    at = serializers.DateTimeField()
    real_seconds = serializers.FloatField()
    private_seconds = serializers.FloatField()


class Anomaly(serializers.Serializer[Mapping[str, object]]):
    """A job that waited longer here than it would have in the private cluster."""

    job = serializers.IntegerField()
    name = serializers.CharField(allow_blank=True, help_text="Empty for jobs of others.")
    tenant = serializers.CharField(allow_null=True, help_text="Null for jobs of others.")
    gpus = serializers.IntegerField()
    submitted_at = serializers.DateTimeField()
    real_delay_seconds = serializers.FloatField()
    private_delay_seconds = serializers.FloatField()
    extra_seconds = serializers.FloatField()
    hard_affinity = serializers.BooleanField(
        help_text="Whether it has a replica of several GPUs, or a required topology level."
    )
    cause = serializers.ChoiceField(choices=CAUSES)
    message = serializers.CharField(
        allow_blank=True,
        help_text="Why it waited at the time at which the private cluster would have started it.",
    )
    round = serializers.IntegerField(
        allow_null=True, help_text="Number of the scheduling round that gave this reason."
    )


class Anomalies(serializers.Serializer[Mapping[str, object]]):
    """Comparison of a virtual cluster's guaranteed jobs here and in a private cluster of its guaranteed
    GPUs."""

    virtual_cluster = serializers.CharField()
    state = serializers.ChoiceField(choices=COMPARISON_STATES)
    problem = serializers.CharField(allow_blank=True)
    made_at = serializers.DateTimeField(allow_null=True)
    since = serializers.DateTimeField(allow_null=True)
    until = serializers.DateTimeField(allow_null=True)
    jobs = serializers.IntegerField(help_text="Number of jobs compared.")
    never = serializers.IntegerField(
        help_text="Number of jobs left out because the private cluster could never run them."
    )
    delay = Delays(allow_null=True)
    series = DelayPoint(many=True)
    tolerance_seconds = serializers.FloatField(
        help_text="Jobs that waited longer by less than this are not counted, in seconds."
    )
    count = serializers.IntegerField(help_text="Number of jobs that waited longer here.")
    total_extra_seconds = serializers.FloatField()
    hard_affinity_count = serializers.IntegerField(help_text="Number of these jobs that have hard affinity.")
    anomalies = Anomaly(many=True, help_text="The jobs that waited longer here, worst first, at most 200.")
    assumption = serializers.CharField(allow_blank=True)


class AdviceTotals(serializers.Serializer[Mapping[str, object]]):
    gpus = serializers.IntegerField()
    delay_mean_seconds = serializers.FloatField()
    utilisation = serializers.FloatField(help_text="Fraction of GPU time that jobs would hold, 0 to 1.")
    cost_per_day = serializers.FloatField(allow_null=True, help_text="Cost for one day; null without prices.")


class AdviceFigures(AdviceTotals):
    """Figures of an assignment. Delays are those in a private cluster; in the shared cluster, cells can only
    shorten them.
    """

    cells = serializers.DictField(
        child=serializers.IntegerField(), help_text="Number of cells by type, without pinned cells."
    )
    delay_p95_seconds = serializers.FloatField()


class AdviceRow(serializers.Serializer[Mapping[str, object]]):
    virtual_cluster = serializers.CharField()
    jobs = serializers.IntegerField()
    today = AdviceFigures()
    advised = AdviceFigures()
    why = serializers.CharField()


class AdviceTotalsBoth(serializers.Serializer[Mapping[str, object]]):
    today = AdviceTotals()
    advised = AdviceTotals()


class AdviceCurvePoint(serializers.Serializer[Mapping[str, object]]):
    """One assignment of cells that was tried."""

    cells = serializers.DictField(child=serializers.IntegerField())
    gpus = serializers.IntegerField()
    delay_mean_seconds = serializers.FloatField()


class Advice(serializers.Serializer[Mapping[str, object]]):
    """Advice on the cells of each virtual cluster, judged by the waiting times of its jobs with them."""

    id = serializers.UUIDField()
    state = serializers.ChoiceField(choices=WORK_STATES)
    problem = serializers.CharField(allow_blank=True, help_text="Why there is no advice.")
    fields = FieldProblem(many=True)  # type: ignore[assignment]
    asked_at = serializers.DateTimeField()
    asked_by = serializers.CharField()
    days = serializers.FloatField()
    jobs = serializers.IntegerField(help_text="Number of jobs whose delays were used.")
    made_at = serializers.DateTimeField(allow_null=True)
    assumption = serializers.CharField(allow_blank=True)
    rows = AdviceRow(many=True)
    totals = AdviceTotalsBoth(allow_null=True)
    curves = serializers.DictField(
        child=AdviceCurvePoint(many=True),
        help_text="The assignments that were tried, by virtual cluster, fewest GPUs first.",
    )
    based_on_version = serializers.IntegerField(
        help_text="Version of the cells in force when the advice was computed."
    )
    applied_at = serializers.DateTimeField(allow_null=True)


class ElasticityFigures(serializers.Serializer[Mapping[str, object]]):
    """Results of one simulation."""

    mean_completion_seconds = serializers.FloatField(
        help_text="Mean time from submission to end, in seconds."
    )
    mean_wait_seconds = serializers.FloatField(
        help_text="Mean time from submission to the first start, in seconds."
    )
    gpu_hours = serializers.FloatField()
    resizes = serializers.IntegerField(help_text="Number of times that a job got another number of GPUs.")


class ElasticitySavings(serializers.Serializer[Mapping[str, object]]):
    """Simulation of the jobs of the last days: as declared, and each at its own number of GPUs."""

    id = serializers.UUIDField()
    state = serializers.ChoiceField(choices=WORK_STATES)
    problem = serializers.CharField(allow_blank=True, help_text="Why there is no answer.")
    asked_at = serializers.DateTimeField()
    asked_by = serializers.CharField()
    days = serializers.FloatField()
    made_at = serializers.DateTimeField(allow_null=True)
    jobs = serializers.IntegerField(
        help_text="Number of jobs compared: those that ended in both simulations."
    )
    elastic_jobs = serializers.IntegerField(help_text="Number of these jobs that are elastic.")
    measured_jobs = serializers.IntegerField(
        help_text="Number of elastic jobs with measured scaling. The others are assumed to scale perfectly."
    )
    left_out = serializers.IntegerField(
        help_text="Number of jobs that did not end in one of the simulations."
    )
    elastic = ElasticityFigures(allow_null=True, help_text="null if there are no elastic jobs.")
    rigid = ElasticityFigures(allow_null=True, help_text="null if there are no elastic jobs.")
    assumption = serializers.CharField(allow_blank=True)


class WholeAdvice(Advice):
    """Advice, with the specification that it proposes."""

    specification = CellDocument(allow_null=True)
