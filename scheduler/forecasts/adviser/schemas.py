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
    """Mean delays of the jobs submitted from then until the next point."""

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
        help_text="It has a replica of several GPUs, or a topology level that must be."
    )
    cause = serializers.ChoiceField(choices=CAUSES)
    message = serializers.CharField(
        allow_blank=True, help_text="Why it waited when its private cluster would have started it."
    )
    round = serializers.IntegerField(allow_null=True, help_text="In which that was said.")


class Anomalies(serializers.Serializer[Mapping[str, object]]):
    """A virtual cluster's guaranteed jobs here, and in a private cluster of what it is guaranteed."""

    virtual_cluster = serializers.CharField()
    state = serializers.ChoiceField(choices=COMPARISON_STATES)
    problem = serializers.CharField(allow_blank=True)
    made_at = serializers.DateTimeField(allow_null=True)
    since = serializers.DateTimeField(allow_null=True)
    until = serializers.DateTimeField(allow_null=True)
    jobs = serializers.IntegerField(help_text="Compared.")
    never = serializers.IntegerField(help_text="Left out: the private cluster could never run them.")
    delay = Delays(allow_null=True)
    series = DelayPoint(many=True)
    tolerance_seconds = serializers.FloatField(help_text="Who waited longer by less is not counted.")
    count = serializers.IntegerField(help_text="Jobs that waited longer here.")
    total_extra_seconds = serializers.FloatField()
    hard_affinity_count = serializers.IntegerField(help_text="Those of them with hard affinity.")
    anomalies = Anomaly(many=True, help_text="At most 200, the worst first.")
    assumption = serializers.CharField(allow_blank=True)


class AdviceTotals(serializers.Serializer[Mapping[str, object]]):
    gpus = serializers.IntegerField()
    delay_mean_seconds = serializers.FloatField()
    utilisation = serializers.FloatField(help_text="Part of the GPU-time that jobs would hold.")
    cost_per_day = serializers.FloatField(allow_null=True, help_text="Null without prices.")


class AdviceFigures(AdviceTotals):
    """Delays are those of the private cluster: with cells, sharing can only shorten them."""

    cells = serializers.DictField(child=serializers.IntegerField(), help_text="By type; without pinned ones.")
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
    """An assignment that was tried."""

    cells = serializers.DictField(child=serializers.IntegerField())
    gpus = serializers.IntegerField()
    delay_mean_seconds = serializers.FloatField()


class Advice(serializers.Serializer[Mapping[str, object]]):
    """Which cells each virtual cluster should get, by what its jobs would have waited with them."""

    id = serializers.UUIDField()
    state = serializers.ChoiceField(choices=WORK_STATES)
    problem = serializers.CharField(allow_blank=True, help_text="Why there is no advice.")
    fields = FieldProblem(many=True)  # type: ignore[assignment]
    asked_at = serializers.DateTimeField()
    asked_by = serializers.CharField()
    days = serializers.FloatField()
    jobs = serializers.IntegerField(help_text="Whose delays count.")
    made_at = serializers.DateTimeField(allow_null=True)
    assumption = serializers.CharField(allow_blank=True)
    rows = AdviceRow(many=True)
    totals = AdviceTotalsBoth(allow_null=True)
    curves = serializers.DictField(
        child=AdviceCurvePoint(many=True), help_text="By virtual cluster: what was tried, fewest GPUs first."
    )
    based_on_version = serializers.IntegerField(help_text="The version of the cells in force then.")
    applied_at = serializers.DateTimeField(allow_null=True)


class ElasticityFigures(serializers.Serializer[Mapping[str, object]]):
    """What became of the jobs in one simulation."""

    mean_completion_seconds = serializers.FloatField(help_text="From submission to end.")
    mean_wait_seconds = serializers.FloatField(help_text="From submission to the first start.")
    gpu_hours = serializers.FloatField()
    resizes = serializers.IntegerField(help_text="How often a job got another number of GPUs.")


class ElasticitySavings(serializers.Serializer[Mapping[str, object]]):
    """The jobs submitted within the last days, simulated as declared and each at its own number of GPUs."""

    id = serializers.UUIDField()
    state = serializers.ChoiceField(choices=WORK_STATES)
    problem = serializers.CharField(allow_blank=True, help_text="Why there is no answer.")
    asked_at = serializers.DateTimeField()
    asked_by = serializers.CharField()
    days = serializers.FloatField()
    made_at = serializers.DateTimeField(allow_null=True)
    jobs = serializers.IntegerField(help_text="Compared: they ended in both simulations.")
    elastic_jobs = serializers.IntegerField(help_text="Those of them that are elastic.")
    measured_jobs = serializers.IntegerField(
        help_text="Elastic jobs of which it was measured how they scale; others are taken to scale perfectly."
    )
    left_out = serializers.IntegerField(help_text="Jobs that did not end in one of the simulations.")
    elastic = ElasticityFigures(allow_null=True, help_text="Null without elastic jobs.")
    rigid = ElasticityFigures(allow_null=True, help_text="Null without elastic jobs.")
    assumption = serializers.CharField(allow_blank=True)


class WholeAdvice(Advice):
    """The same with what could be put in force."""

    specification = CellDocument(allow_null=True)
