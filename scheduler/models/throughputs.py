"""How fast job classes run: what was measured, and what people corrected (`core.perf`)."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from scheduler.core.model.gpu_parts import WHOLE_GPU
from tenants.models import Tenant

#: Three applications with a plus between them.
MOST_PARTNERS = 206


class Setting(models.Model):
    """A job class, where its gang runs, and with which partners."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+")
    #: The spec's, or "name:" and the job's name where it states none.
    application = models.CharField(max_length=68)
    gpu_model = models.CharField(max_length=63)
    gpus = models.PositiveIntegerField()
    #: On more nodes than needed.
    spread = models.BooleanField(default=False)
    #: Application of the gang that shares all its GPUs, of several as `core.perf.throughput.beside` has them;
    #: empty: it has them alone.
    partner = models.CharField(max_length=MOST_PARTNERS, blank=True)
    #: What it may use of each GPU, in thousandths. Corrections are for whole GPUs.
    gpu_limit = models.PositiveSmallIntegerField(default=WHOLE_GPU, db_default=WHOLE_GPU)

    class Meta:
        abstract = True


#: What names a setting, beside its tenant.
SETTING_FIELDS = ("application", "gpu_model", "gpus", "spread", "partner", "gpu_limit")


class SpeedMeasurement(Setting):
    """Running figures over windows of about a minute of all attempts of the job class in this setting.

    In samples per second of the gang; with a partner relative to being alone.
    """

    average = models.FloatField()
    variance = models.FloatField(default=0)
    samples = models.PositiveIntegerField(default=1)
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", *SETTING_FIELDS], name="one_measurement_per_setting"),
            models.CheckConstraint(
                condition=Q(average__gt=0, variance__gte=0, samples__gt=0, gpus__gt=0),
                name="measurement_is_sound",
            ),
        ]
        indexes = [models.Index(fields=["-updated_at"], name="measurement_by_age")]


class SpeedCorrection(Setting):
    """A throughput that a person stated; it holds until a person removes it."""

    value = models.FloatField()
    reason = models.CharField(max_length=200, blank=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", *SETTING_FIELDS], name="one_correction_per_setting"),
            models.CheckConstraint(condition=Q(value__gte=0, gpus__gt=0), name="correction_is_sound"),
            models.CheckConstraint(
                condition=Q(partner="") | Q(value__lte=1), name="beside_a_partner_at_most_as_fast"
            ),
        ]
        indexes = [models.Index(fields=["-at"], name="correction_by_age")]


class InterferenceFit(models.Model):
    """What measured pairs predict of others, as it was fitted last (`core.perf.interference`): one row."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    #: The fields of each `core.model.interference.Branch`.
    tree = models.JSONField(default=list)
    #: As in `Predictor`.
    pairs = models.PositiveIntegerField()
    error = models.FloatField()
    error_of_mean = models.FloatField()
    fitted_at = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="one_interference_fit")]


class CpuSensitivity(models.Model):
    """The speed by CPUs of a class of jobs with one replica, as far as it is known."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+", db_index=False)
    #: As of a setting.
    application = models.CharField(max_length=68)
    gpu_model = models.CharField(max_length=63)
    #: The fields of `core.perf.cpu_trials.CpuTrials`.
    trials = models.JSONField()
    #: The attempt that is tried now; none: nothing is, or all is known.
    attempt = models.ForeignKey("Attempt", null=True, on_delete=models.SET_NULL, related_name="+")
    is_over = models.BooleanField(default=False)
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "application", "gpu_model"], name="one_cpu_sensitivity_per_class"
            ),
        ]
        indexes = [models.Index(fields=["-updated_at"], name="cpu_sensitivity_by_age")]


class ClassProfile(models.Model):
    """What the jobs of one user and job class made of GPUs that they had alone; the latest weigh most."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+", db_index=False)
    #: As of a setting.
    application = models.CharField(max_length=68)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    #: The fields of `core.model.training.Profile`.
    profile = models.JSONField(default=dict)
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "application", "user"], name="one_profile_per_class"),
        ]
        indexes = [models.Index(fields=["-updated_at"], name="class_profile_by_age")]
