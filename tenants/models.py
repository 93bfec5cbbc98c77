"""What users may use: users, tenants, roles, tokens, quotas and virtual clusters.

Knows nothing of scheduling: GPU models are names here, and whether a guarantee fits the hardware is checked
by the scheduler's services, which write these rows.
"""

from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models
from django.db.models import F, Q

SLUG = RegexValidator(
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
    "Use 1 to 63 lower-case letters, digits and hyphens, with a letter or digit at both ends.",
)

#: The key of a quota line that caps all GPU models together.
ANY_MODEL = "*"


class User(AbstractUser):
    """A person. An operator manages the whole platform; all others act through memberships."""

    is_operator = models.BooleanField(default=False)
    #: The page's tour was shown to its end, or left.
    saw_tour = models.BooleanField(default=False, db_default=False)


class Tenant(models.Model):
    """Owner of quota and jobs: a group, a project, a customer."""

    name = models.CharField(max_length=63, unique=True, validators=[SLUG])
    title = models.CharField(max_length=120, blank=True)
    #: Jobs that it may have queued or running; None: as many as the settings say.
    most_unfinished_jobs = models.PositiveIntegerField(null=True)
    #: The most CPUs and memory that its jobs hold at once, as they state them; None: no limit.
    quota_cpus = models.FloatField(null=True, validators=[MinValueValidator(0)])
    quota_memory_bytes = models.PositiveBigIntegerField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    version = models.PositiveBigIntegerField(default=1)

    def __str__(self) -> str:
        return self.name


class Role(models.TextChoices):
    """What a member may do in a tenant; each role includes the ones before it."""

    VIEWER = "viewer", "Viewer: sees jobs, logs and usage"
    MEMBER = "member", "Member: submits and cancels jobs"
    ADMIN = "admin", "Admin: manages members"


class Membership(models.Model):
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role.choices)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "user"], name="one_role_per_member"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="role_is_known"),
        ]


class Invitation(models.Model):
    """An offer of a role in a tenant to the user who has its link; only accepting it makes a member."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="invitations")
    role = models.CharField(max_length=10, choices=Role.choices)
    #: The invited person's address; blank where the link is handed over in another way.
    email = models.CharField(max_length=254, blank=True)
    #: The link went to that address alone, so a user who has it reads the mail there.
    mailed = models.BooleanField(default=False)
    key = models.CharField(max_length=16, unique=True)
    digest = models.BinaryField(max_length=32)
    invited_by = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    #: When it was accepted or revoked; either way it is no longer valid.
    ended_at = models.DateTimeField(null=True)
    accepted_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    #: User names that were found taken: the link must not show which users exist.
    names_tried = models.PositiveSmallIntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(role__in=Role.values), name="invited_role_is_known"),
        ]


class Scope(models.TextChoices):
    """What a token may be used for, within what its owner may do. Each of the others includes to read."""

    READ = "read", "Read: whatever its owner may see"
    SUBMIT = "submit", "Submit: jobs, and sessions inside them"
    MANAGE = "manage", "Manage: tenants that its owner administers, and the account"
    OPERATE = "operate", "Operate: the platform, as an operator"


def every_scope() -> list[str]:
    return list(Scope.values)


class Token(models.Model):
    """An API token: `alt_<key>_<secret>`. Only a keyed hash of the secret is stored."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=80)
    key = models.CharField(max_length=16, unique=True)
    digest = models.BinaryField(max_length=32)
    scopes = ArrayField(models.CharField(max_length=10), default=every_scope)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True)
    #: The token that takes its place; this one works until it expires.
    replaced_by = models.OneToOneField("self", on_delete=models.SET_NULL, null=True, related_name="replaces")
    first_used_at = models.DateTimeField(null=True)
    first_used_from = models.GenericIPAddressField(null=True)
    last_used_at = models.DateTimeField(null=True)
    last_used_from = models.GenericIPAddressField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(scopes__contained_by=Scope.values, scopes__contains=[Scope.READ]),
                name="scopes_are_known",
            ),
        ]


class Secret(models.Model):
    """A value that jobs are given and that is never shown again: a tenant's, or one user's own."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, null=True, related_name="secrets")
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="secrets")
    name = models.CharField(max_length=63)
    #: The value under the key `key_id` of the settings (`tenants.sealing`).
    sealed = models.BinaryField()
    key_id = models.CharField(max_length=16)
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField()
    #: Name of the user who gave it the value that it has.
    changed_by = models.CharField(max_length=150)
    #: When a node was last given it for a job.
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(tenant__isnull=True) ^ Q(user__isnull=True), name="secret_has_one_owner"
            ),
            models.UniqueConstraint(fields=["tenant", "name"], name="one_secret_per_name_in_tenant"),
            models.UniqueConstraint(fields=["user", "name"], name="one_secret_per_name_of_user"),
        ]

    @property
    def scope(self) -> str:
        """Whose it is: one of `SECRET_SCOPES`."""
        return "user" if self.tenant_id is None else "tenant"

    @property
    def owner(self) -> str:
        """The owner and the name to which its value is bound."""
        number = self.user_id if self.tenant_id is None else self.tenant_id
        return f"{self.scope} {number} {self.name}"


class Quota(models.Model):
    """A hard cap on the GPUs that a tenant holds at once, for one GPU model or for all ("*").

    The caps on CPUs and memory are columns of the tenant.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="quotas")
    gpu_model = models.CharField(max_length=63)
    gpus = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "gpu_model"], name="one_quota_per_model"),
        ]


#: What `VirtualCluster.sharing` can be (`core.model.gpu_parts`).
SHARING = ("never", "measured", "free")


class VirtualCluster(models.Model):
    """A guaranteed slice of the cluster, with its own policy and placer."""

    name = models.CharField(max_length=63, unique=True, validators=[SLUG])
    title = models.CharField(max_length=120, blank=True)
    policy = models.CharField(max_length=63, default="fifo")
    policy_parameters = models.JSONField(default=dict)
    placer = models.CharField(max_length=255, default="consolidate")
    placer_parameters = models.JSONField(default=dict)
    default_time_limit_seconds = models.FloatField(default=86_400.0, validators=[MinValueValidator(1)])
    #: Whether its jobs share GPUs.
    sharing = models.CharField(
        max_length=8, choices=[(each, each) for each in SHARING], default="measured", db_default="measured"
    )
    version = models.PositiveBigIntegerField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(default_time_limit_seconds__gt=0), name="vc_time_limit_positive"
            ),
            models.CheckConstraint(condition=Q(sharing__in=list(SHARING)), name="vc_sharing_known"),
        ]

    def __str__(self) -> str:
        return self.name


class VirtualClusterMember(models.Model):
    """A tenant's right to submit to a virtual cluster, and its weight among the members."""

    virtual_cluster = models.ForeignKey(VirtualCluster, on_delete=models.CASCADE, related_name="members")
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="virtual_clusters")
    weight = models.FloatField(default=1.0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["virtual_cluster", "tenant"], name="one_membership_per_vc"),
            models.CheckConstraint(condition=Q(weight__gt=0), name="weight_is_positive"),
        ]


class Guarantee(models.Model):
    """GPUs of one model that a virtual cluster is promised."""

    virtual_cluster = models.ForeignKey(VirtualCluster, on_delete=models.CASCADE, related_name="guarantees")
    gpu_model = models.CharField(max_length=63)
    gpus = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["virtual_cluster", "gpu_model"], name="one_guarantee_per_model"),
        ]


class ClockTimestamp(models.Func):
    """This very moment by the database's clock; its `now()` is when the transaction began."""

    function = "clock_timestamp"
    output_field = models.DateTimeField()


class Outcome(models.TextChoices):
    DONE = "done"
    REFUSED = "refused"


class AuditEntry(models.Model):
    """Who changed, read or was refused what, from where, from what to what.

    Appended, by triggers for the most part (`tenants.audit.triggers`), and never changed or deleted, except
    by the database's function `audit_prune`. Names and plain ids, not foreign keys: an entry outlives its
    object.
    """

    at = models.DateTimeField(db_default=ClockTimestamp())
    #: As `audit.source.Source.kind`; or "database" (a client that is no program of ours).
    kind = models.CharField(max_length=8)
    #: As in events: "user vera".
    actor = models.CharField(max_length=80)
    #: Key of the API token by which it was done; it is not secret.
    token = models.CharField(max_length=16, blank=True, db_default="")
    address = models.GenericIPAddressField(null=True)
    #: Method and route: "PUT api/v1/tenants/<str:name>/quota".
    request = models.CharField(max_length=200, blank=True, db_default="")
    #: Such as "quota.change" or "user.sign-in".
    action = models.CharField(max_length=48)
    outcome = models.CharField(max_length=7, choices=Outcome.choices, db_default=Outcome.DONE)
    #: What it was done to: a "virtual cluster", its id, and what people call it.
    object_kind = models.CharField(max_length=32, blank=True, db_default="")
    object_id = models.CharField(max_length=64, blank=True, db_default="")
    subject = models.CharField(max_length=160, blank=True, db_default="")
    #: The tenant whose admins may see it; none: operators only.
    tenant_id = models.BigIntegerField(null=True)
    tenant = models.CharField(max_length=63, blank=True, db_default="")
    #: For a change the fields that changed; for what was made or removed all of them.
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["tenant_id", "-id"], name="audit_by_tenant"),
            models.Index(fields=["actor", "-id"], name="audit_by_actor"),
            models.Index(fields=["action", "-id"], name="audit_by_action"),
            models.Index(fields=["subject", "-id"], name="audit_by_subject"),
            models.Index(fields=["object_id", "-id"], name="audit_by_object", condition=~Q(object_id="")),
            models.Index(fields=["address", "-id"], name="audit_by_address"),
            models.Index(fields=["-id"], name="audit_refused", condition=Q(outcome="refused")),
            models.Index(fields=["at"], name="audit_by_time"),
            # Of entries that are of many things at once.
            GinIndex(
                OpClass(F("after"), name="jsonb_path_ops"),
                condition=Q(after__has_key="ids"),
                name="audit_by_one_of_many",
            ),
        ]
        constraints = [
            # The first use of a token from an address is reported once.
            models.UniqueConstraint(
                fields=["object_id", "address"], condition=Q(action="token.first-use"), name="one_first_use"
            ),
        ]


class AuditReceiver(models.Model):
    """How far the audit log was forwarded to one of the addresses of ALLOT_AUDIT_FORWARD."""

    url = models.CharField(max_length=500, unique=True)
    #: The last entry that it has taken.
    sent_id = models.BigIntegerField(default=0)
    sent_at = models.DateTimeField(null=True)
    #: Tries in a row that failed, since when, and why the last one did.
    failures = models.PositiveIntegerField(default=0)
    failing_since = models.DateTimeField(null=True)
    held_until = models.DateTimeField(null=True)
    problem = models.CharField(max_length=300, blank=True)
