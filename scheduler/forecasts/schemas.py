"""Predictions and what-if questions, as the API's schema describes them."""

from collections.abc import Mapping

from rest_framework import serializers

from scheduler.jobs import schemas as job_schemas
from scheduler.jobs.schemas import JOB_STATES, Reason
from scheduler.models.forecasts import WhatIfState
from scheduler.wiring.rest import FieldProblem


class Prediction(serializers.Serializer[Mapping[str, object]]):
    starts_at = serializers.DateTimeField(help_text="Predicted start.")
    earliest = serializers.DateTimeField(help_text="Predicted start if jobs run as short as is likely.")
    latest = serializers.DateTimeField(
        allow_null=True,
        help_text="Predicted start if every job uses its whole time limit; null: more than 30 days ahead.",
    )
    assumption = serializers.CharField(
        help_text='Assumption of the prediction: "if jobs run as long as ...".'
    )
    position = serializers.IntegerField(
        allow_null=True, help_text="Place in its queue; null: it starts at once."
    )
    made_at = serializers.DateTimeField()
    round = serializers.IntegerField()


class Why(serializers.Serializer[Mapping[str, object]]):
    state = serializers.ChoiceField(choices=JOB_STATES)
    reasons = Reason(many=True)
    position = serializers.IntegerField(allow_null=True)
    queue_length = serializers.IntegerField(allow_null=True)
    round = serializers.IntegerField(allow_null=True)
    decided_at = serializers.DateTimeField(allow_null=True)
    prediction = Prediction(allow_null=True)
    no_prediction = serializers.CharField(allow_blank=True, help_text="Why there is no prediction.")


WHAT_IF_STATES = [state.value for state in WhatIfState]


class JobChanges(serializers.Serializer[Mapping[str, object]]):
    """Changes to an object. Fields that are left out stay as they are."""

    gpus = serializers.IntegerField(
        required=False, min_value=1, max_value=16, help_text="GPUs of each replica, for jobs with one task."
    )
    replicas = serializers.IntegerField(required=False, min_value=1, max_value=256)
    gpu_models = serializers.JSONField(
        required=False, help_text='"any", a GPU model, or a list of models in order of preference.'
    )
    time_limit = serializers.JSONField(
        required=False, help_text='Time limit in seconds, or as "30m", "2h" or "1d12h".'
    )
    guarantee = serializers.ChoiceField(required=False, choices=job_schemas.GUARANTEES)
    priority = serializers.IntegerField(required=False, min_value=-100, max_value=100)
    virtual_cluster = serializers.CharField(required=False, max_length=63)


class LargerGuarantee(serializers.Serializer[Mapping[str, object]]):
    virtual_cluster = serializers.CharField(max_length=63)
    gpu_model = serializers.CharField(max_length=63)
    more_gpus = serializers.IntegerField(
        min_value=1, max_value=1_000_000, help_text="Number of GPUs added to its guarantee, by model."
    )


class ClusterChanges(serializers.Serializer[Mapping[str, object]]):
    drain = serializers.ListField(required=False, child=serializers.CharField(), help_text="Names of nodes.")
    add_back = serializers.ListField(
        required=False, child=serializers.CharField(), help_text="Names of nodes."
    )
    enlarge = LargerGuarantee(required=False, many=True)


class WhatIfQuestion(serializers.Serializer[Mapping[str, object]]):
    """One or more of: changes of a waiting job, the specification of a new job, changes of the cluster."""

    job = serializers.IntegerField(required=False)
    changes = JobChanges(required=False)
    tenant = serializers.CharField(
        required=False, help_text="Tenant of `spec`. Required if you are a member of several."
    )
    spec = job_schemas.JobSpec(required=False)
    cluster = ClusterChanges(required=False, help_text="Changes of the cluster. For operators.")


class StartForecast(serializers.Serializer[Mapping[str, object]]):
    starts_at = serializers.DateTimeField(allow_null=True)
    earliest = serializers.DateTimeField(allow_null=True)
    latest = serializers.DateTimeField(allow_null=True)
    position = serializers.IntegerField(allow_null=True)
    why_not = serializers.CharField(allow_blank=True, help_text="Why no start is predicted.")


class WhatIfEffect(serializers.Serializer[Mapping[str, object]]):
    job = serializers.IntegerField(
        allow_null=True, help_text="Number of the job; null: the job that is not submitted yet."
    )
    name = serializers.CharField()
    runs_now = serializers.BooleanField(help_text="Whether it runs now and would have to wait.")
    before = StartForecast(allow_null=True)
    after = StartForecast(allow_null=True)


class WhatIf(serializers.Serializer[Mapping[str, object]]):
    id = serializers.UUIDField()
    state = serializers.ChoiceField(choices=WHAT_IF_STATES)
    problem = serializers.CharField(allow_blank=True, help_text="Why there is no answer.")
    fields = FieldProblem(many=True)  # type: ignore[assignment]
    asked_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    made_at = serializers.DateTimeField(allow_null=True)
    round = serializers.IntegerField(allow_null=True)
    assumption = serializers.CharField(allow_blank=True)
    subjects = WhatIfEffect(many=True, help_text="Jobs that the question is about.")
    later = WhatIfEffect(many=True, help_text="Your jobs that would start later, at most 100.")
    sooner = WhatIfEffect(many=True, help_text="Your jobs that would start sooner, at most 100.")
    later_count = serializers.IntegerField()
    sooner_count = serializers.IntegerField()
    others_later = serializers.IntegerField(help_text="Number of other users' jobs that would start later.")
    others_sooner = serializers.IntegerField(help_text="Number of other users' jobs that would start sooner.")
