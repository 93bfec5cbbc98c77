"""Turn a written specification into one that may be submitted: by its user, there, and able to run at all."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from django.conf import settings
from django.db.models import Q

from scheduler.core.model import wording
from scheduler.core.model.awaited import Awaited
from scheduler.core.model.lifecycle import JOB_FINAL, JobState
from scheduler.core.model.plan import Reason
from scheduler.core.model.reasons import REASONS
from scheduler.core.model.snapshot import Job as CoreJob
from scheduler.jobs.archives.services import archive_stored
from scheduler.jobs.services.dependencies import AwaitedStates
from scheduler.jobs.services.feasibility import Judge
from scheduler.jobs.services.submission_facts import SubmissionFacts, VirtualClusterFacts, submission_facts
from scheduler.jobspec import JobSpec, SecretUse, did_you_mean, parse, renamed
from scheduler.jobspec.arrays import JobArray
from scheduler.jobspec.code import SHA256
from scheduler.jobspec.input_workers import input_worker_of
from scheduler.jobspec.tasks import as_written
from scheduler.models.archives import Archive
from scheduler.models.jobs import Job
from scheduler.models.selectors.reservations import lasting_reservations
from scheduler.nodes.services.isolation import unisolated_warning
from tenants import SECRET_SCOPES
from tenants.errors import ApplicationError, FieldError, Invalid, NotAllowed, NotFound, QuotaExceeded
from tenants.models import Role, User
from tenants.secrets import scopes_by_name
from tenants.selectors import Viewer

#: Reasons of the core that come from a quota or a guarantee.
_QUOTA_CODES = frozenset(
    {"exceeds_quota", "exceeds_quota_resources", "exceeds_user_quota", "exceeds_guarantee"}
)
#: When many jobs are refused together, each kind of problem is shown once.
_KINDS_SHOWN = 20
_TENANTS_NAMED = 50
_NAMES_SHOWN = 20
#: Counting ten thousand jobs takes longer than the rest of submitting one; a count is kept for this time.
COUNT_KEPT_SECONDS = 1.0

#: A tenant, and a user for the waiting jobs of this user there; None: all unfinished jobs of the tenant.
Queue = tuple[int, int | None]

#: The number of jobs, with those accepted since the count, and the time of the count.
_counted_jobs: dict[Queue, tuple[int, float]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class FeasibleJob:
    """A specification with its virtual cluster filled in, that could run if the cluster were idle."""

    spec: JobSpec
    tenant: str
    virtual_cluster: VirtualClusterFacts
    #: The user who submits it.
    user: str
    #: The whole array of a task; its specification names its own index.
    array: JobArray | None = None
    #: Its dependencies that are not met yet.
    awaits: tuple[Awaited, ...] = ()
    #: What its working folders begin with.
    archive: Archive | None = None
    #: The job, checked before it, from which it differs in its name at most.
    like: "FeasibleJob | None" = None

    def core_job(self) -> CoreJob:
        job = self.spec.core_job(tenant=self.tenant)
        return replace(job, user=self.user, awaits=self.awaits, held=self.spec.hold)


class Submission:
    """Checks specifications of one tenant; looks common facts up once."""

    def __init__(
        self,
        viewer: Viewer,
        tenant: str | None,
        *,
        role: Role = Role.MEMBER,
        submitter: User | None = None,
    ) -> None:
        """`role`: what the viewer must be in the tenant; a viewer of it may have specifications checked.
        `submitter`: whose the jobs are, if not the viewer's."""
        self.facts = _facts_for_submit(viewer, tenant, role)
        self._feasibility = Judge(self.facts)
        usable = list(self.facts.virtual_clusters.values())
        private = [one for one in usable if one.is_private]
        #: The default: the tenant's own, or the only one that it can use.
        self._default = next((few[0] for few in (private, usable) if len(few) == 1), None)
        self._submitter = viewer.user if submitter is None else submitter
        self._awaited = AwaitedStates(self.facts.tenant_id, self.facts.tenant)
        self._archives: dict[str, Archive] = {}

    @cached_property
    def _scopes(self) -> Mapping[str, frozenset[str]]:
        """The scopes of each secret, by name; most jobs name none."""
        return scopes_by_name(self._submitter, self.facts.tenant_id)

    def check_room(self, more: int) -> None:
        """Raise QuotaExceeded when the tenant may not have this many more jobs."""
        most = self.facts.most_unfinished_jobs
        if most is None:
            most = settings.CONFIG.unfinished_jobs_per_tenant
        tenant_id, own = self.facts.tenant_id, self._submitter.id
        before = jobs_before((tenant_id, None), more, most=most)
        if before is not None:
            raise QuotaExceeded(
                f"Tenant {self.facts.tenant} has {wording.counted(before, 'unfinished job')} and may have"
                f" {most:,}, so it cannot submit {more:,} more. Wait until some have ended, cancel some, or"
                " ask an operator, who can allow the tenant more."
            )
        most = settings.CONFIG.waiting_jobs_per_user
        before = jobs_before((tenant_id, own), more, most=most)
        if before is not None:
            raise QuotaExceeded(
                f"You have {before:,} jobs of tenant {self.facts.tenant} that wait and may have {most:,}, so"
                f" you cannot submit {more:,} more. Wait until some have started, cancel some, or ask an"
                " operator, who can raise ALLOT_WAITING_JOBS_PER_USER."
            )

    def check(self, raw: object, *, where: str = "") -> FeasibleJob:
        """Return the checked specification; raise Invalid or QuotaExceeded with every wrong field."""
        try:
            return self._checked(raw, where)
        except ApplicationError as error:
            error.fields = tuple([_as_written(one, raw, where) for one in error.fields])
            raise

    def _checked(self, raw: object, where: str) -> FeasibleJob:
        spec = parse(raw, where=where)
        virtual_cluster = self._virtual_cluster(spec, where)
        if spec.virtual_cluster != virtual_cluster.name:
            spec = replace(spec, virtual_cluster=virtual_cluster.name)
        self._check_models(spec, where)
        self._check_throughput(spec, where)
        self._check_nodes(spec, where)
        self._check_reservation(spec, virtual_cluster, where)
        if spec.secrets:
            spec = replace(spec, secrets=self._secrets(spec, where))
        awaits = self._awaited.require_possible(spec.after, _join(where, "after")) if spec.after else ()
        checked = FeasibleJob(
            spec=spec,
            tenant=self.facts.tenant,
            virtual_cluster=virtual_cluster,
            user=self._submitter.username,
            awaits=awaits,
            archive=self._archive(spec.code.archive, where) if spec.code and spec.code.archive else None,
        )
        reason = self._feasibility.never_fits(checked.core_job())
        if reason is not None:
            raise _refusal(reason, spec, where)
        self._check_input_workers(spec, where)
        return checked

    def check_all(self, raws: Sequence[object], *, where: str) -> list[FeasibleJob]:
        """Check many; the errors of all of them are raised together, each kind once and counted.

        Jobs that differ in their names at most are checked once.
        """
        checked: list[FeasibleJob] = []
        firsts: dict[str, FeasibleJob] = {}
        refusals: list[ApplicationError] = []
        kinds: dict[tuple[str, str, str], tuple[FieldError, int]] = {}
        for number, raw in enumerate(raws):
            try:
                checked.append(self._check_once(raw, firsts, where=f"{where}.{number}"))
            except ApplicationError as error:
                refusals.append(error)
                for one in error.fields:
                    kind = one.field.removeprefix(f"{where}.{number}"), one.problem, one.expected
                    first, count = kinds.get(kind, (one, 0))
                    kinds[kind] = first, count + 1
        if not refusals:
            return checked
        only_quota = all(isinstance(error, QuotaExceeded) for error in refusals)
        shown = [_counted(first, count) for first, count in kinds.values()][:_KINDS_SHOWN]
        message = f"No job was submitted, because {len(refusals):,} of {len(raws):,} cannot be."
        if len(kinds) > len(shown):
            message += f" Of {len(kinds):,} different problems the first {len(shown)} are shown."
        raise (QuotaExceeded if only_quota else Invalid)(f"{message} {refusals[0].message}", shown)

    def _check_once(self, raw: object, firsts: dict[str, FeasibleJob], *, where: str) -> FeasibleJob:
        """As `check`; `firsts` are those found possible so far, by all that was written but their names."""
        if not isinstance(raw, dict) or "array" in raw:
            # Each array has a number of its own, also beside one that is equal to it.
            return self.check(raw, where=where)
        written = repr({name: value for name, value in raw.items() if name != "name"})
        first = firsts.get(written)
        if first is None:
            first = firsts[written] = self.check(raw, where=where)
            return first
        spec = first.spec if raw.get("name") == first.spec.name else renamed(first.spec, raw, where=where)
        return replace(first, spec=spec, like=first)

    def _virtual_cluster(self, spec: JobSpec, where: str) -> VirtualClusterFacts:
        names = list(self.facts.virtual_clusters)
        if spec.virtual_cluster in self.facts.virtual_clusters:
            return self.facts.virtual_clusters[spec.virtual_cluster]
        if not spec.virtual_cluster and self._default is not None:
            return self._default
        tenant = self.facts.tenant
        if not names:
            problem = f"tenant {tenant} is not a member of any virtual cluster"
            expected = "an operator makes it a member of one"
        else:
            expected = f"one of: {', '.join(names)}"
            problem = f"tenant {tenant} can use several, so say which"
        if spec.virtual_cluster and names:
            hint = did_you_mean(spec.virtual_cluster, names)
            problem = (
                f"{spec.virtual_cluster!r} does not exist, or tenant {tenant} is not a member of it{hint}"
            )
        field = _join(where, "virtual_cluster")
        raise Invalid.of(FieldError(field, problem, expected))

    def _secrets(self, spec: JobSpec, where: str) -> tuple[SecretUse, ...]:
        """Return the secrets with their scopes filled in: a user's own comes before the tenant's."""
        return tuple(
            replace(use, scope=self._scope(use, _join(where, f"secrets.{number}.name")))
            for number, use in enumerate(spec.secrets)
        )

    def _scope(self, use: SecretUse, field: str) -> str:
        there = self._scopes.get(use.name, frozenset())
        scope = next((one for one in SECRET_SCOPES if one in there and use.scope in ("", one)), None)
        if scope is not None:
            return scope
        whose = {"user": "of your own", "tenant": f"of tenant {self.facts.tenant}"}.get(
            use.scope, f"of your own or of tenant {self.facts.tenant}"
        )
        known = sorted(self._scopes)
        problem = f"there is no secret {use.name!r} {whose}{did_you_mean(use.name, known)}"
        expected = f"one of: {', '.join(known)}" if known else "one that `allot secret set` has stored"
        raise Invalid.of(FieldError(field, problem, expected))

    def _archive(self, named: str, where: str) -> Archive:
        """Return the tenant's archive; that of another tenant is as unknown as one that never was."""
        if named not in self._archives:
            archive = archive_stored(self.facts.tenant_id, named.removeprefix(SHA256))
            if archive is None:
                field = _join(where, "code.archive")
                problem = f"tenant {self.facts.tenant} has no such archive stored"
                expected = "one that was uploaded, as `allot submit --upload .` does"
                raise Invalid.of(FieldError(field, problem, expected))
            self._archives[named] = archive
        return self._archives[named]

    def _check_models(self, spec: JobSpec, where: str) -> None:
        """Refuse unknown models even beside known ones: a misspelt preference would be lost silently."""
        known = self._feasibility.cluster.models
        unknown = [model for model in spec.gpu_models if model not in known]
        if not unknown:
            return
        problem = f"there is no GPU model {unknown[0]!r} in this cluster{did_you_mean(unknown[0], known)}"
        field = _join(where, "tasks.0.resources.gpu_model")
        expected = (
            f"any, or one or more of: {', '.join(known)}" if known else "no GPUs have been reported yet"
        )
        raise Invalid(f"{problem[0].upper()}{problem[1:]}.", [FieldError(field, problem, expected)])

    def _check_nodes(self, spec: JobSpec, where: str) -> None:
        """Refuse names that no node has, in either list: a misspelt one would be lost silently."""
        if spec.nodes is None:
            return
        known = self._feasibility.node_names
        lists = (("only", spec.nodes.only), ("avoid", spec.nodes.avoid))
        problems = [
            FieldError(
                _join(where, f"nodes.{name}"),
                f"there is no node {node!r} in this cluster{did_you_mean(node, known)}",
                "names of nodes, as on the Nodes page",
            )
            for name, nodes in lists
            for node in nodes
            if node not in known
        ]
        if problems:
            first = problems[0].problem
            raise Invalid(f"{first[0].upper()}{first[1:]}.", problems[:_KINDS_SHOWN])

    def _check_reservation(self, spec: JobSpec, virtual_cluster: VirtualClusterFacts, where: str) -> None:
        """Refuse a reservation that the job cannot use: it would silently wait among all other jobs."""
        if not spec.reservation:
            return
        of_tenant = lasting_reservations().filter(tenant_id=self.facts.tenant_id)
        usable = of_tenant.filter(Q(user=None) | Q(user=self._submitter)).filter(
            Q(virtual_cluster=None) | Q(virtual_cluster=virtual_cluster.id)
        )
        names = sorted(usable.values_list("name", flat=True)[:_NAMES_SHOWN])
        if usable.filter(name=spec.reservation).exists():
            return
        hint = did_you_mean(spec.reservation, names)
        problem = (
            f"there is no current or coming reservation {spec.reservation!r} of tenant {self.facts.tenant}"
            f" for your jobs in virtual cluster {virtual_cluster.name}{hint}"
        )
        expected = f"one of: {', '.join(names)}" if names else "none; an operator makes reservations"
        raise Invalid.of(FieldError(_join(where, "reservation"), problem, expected))

    def _check_input_workers(self, spec: JobSpec, where: str) -> None:
        """Refuse a job whose input workers fit on no node: it would wait for batches for ever."""
        worker = input_worker_of(spec)
        reason = worker and self._feasibility.never_fits(worker.core_job(tenant=self.facts.tenant))
        if reason:
            field = _join(where, "input_workers")
            raise Invalid(f"{field}: {reason.message}", [FieldError(field, reason.message, reason.hint)])

    def _check_throughput(self, spec: JobSpec, where: str) -> None:
        """Refuse a job that, by its own throughputs, runs on no model that it accepts."""
        known = self._feasibility.cluster.models
        accepted = spec.gpu_models or known
        if not accepted or any(spec.throughput.get(model) != 0 for model in accepted):
            return
        field = _join(where, "throughput")
        problem = f"is 0 on {wording.either(accepted)}, so that the job runs on no GPU model that it accepts"
        expected = f"a throughput above 0 for one of: {', '.join(accepted)}; or another gpu_model"
        raise Invalid(f"{field} {problem}.", [FieldError(field, problem, expected)])


def _counted(first: FieldError, count: int) -> FieldError:
    """Return the first problem of a kind, with the number of others like it."""
    if count == 1:
        return first
    others = f"{count - 1:,} other job{'s' * (count > 2)}"
    return replace(first, problem=f"{first.problem} (and so in {others})")


def _facts_for_submit(viewer: Viewer, name: str | None, role: Role) -> SubmissionFacts:
    """Return the facts about the tenant to submit for: the named one, or the viewer's only one."""
    mine = [held.tenant for held in viewer.held if viewer.may(held.tenant_id, role)]
    if name is None:
        if viewer.is_operator:
            mine = _every_tenant(viewer)
        if len(mine) != 1:
            raise _which_tenant(viewer, mine)
        name = mine[0]
    facts = submission_facts(name)
    if facts is None or not viewer.may(facts.tenant_id, Role.VIEWER):
        problem = f"there is no tenant {name[:80]!r}, or you are not a member of it"
        raise NotFound(f"tenant: {problem}.", [FieldError("tenant", problem, _one_of(mine))])
    if not viewer.may(facts.tenant_id, role):
        raise NotAllowed(f"A viewer of tenant {name} cannot submit jobs; its admins can make you a member.")
    return facts


def _which_tenant(viewer: Viewer, mine: Sequence[str]) -> ApplicationError:
    if viewer.held and not mine:
        return NotAllowed("A viewer cannot submit jobs; an admin of the tenant can make you a member.")
    if not mine and not viewer.is_operator:
        return NotAllowed("You are a member of no tenant, so you have no jobs; admins of one can invite you.")
    problem = "is missing, and you can submit for several tenants" if mine else "is missing"
    return Invalid.of(FieldError("tenant", problem, _one_of(mine)))


def _every_tenant(viewer: Viewer) -> list[str]:
    return list(viewer.tenants().order_by("name").values_list("name", flat=True)[:_TENANTS_NAMED])


def _one_of(tenants: Sequence[str]) -> str:
    return f"one of: {', '.join(sorted(tenants))}" if tenants else "a tenant that you are a member of"


def _refusal(reason: Reason, spec: JobSpec, where: str) -> ApplicationError:
    kind = QuotaExceeded if reason.code in _QUOTA_CODES else Invalid
    return kind(
        f"This job could never run. {reason.message}",
        [FieldError(_join(where, _field_of(reason, spec)), reason.message, reason.hint)],
    )


def _field_of(reason: Reason, spec: JobSpec) -> str:
    """Return the field that a person would change."""
    if field := REASONS[reason.code].field:
        return field.format(
            largest=max(range(len(spec.tasks)), key=lambda number: spec.tasks[number].gpus),
            names="only" if spec.nodes is not None and spec.nodes.only else "avoid",
        )
    only = spec.tasks[0]
    if len(spec.tasks) > 1:
        return "tasks"
    return "tasks.0.replicas" if only.replicas > 1 else "tasks.0.resources.gpu"


def _as_written(error: FieldError, raw: object, where: str) -> FieldError:
    """Return the error of a field under its name in that specification."""
    prefix = _join(where, "")
    if not error.field.startswith(prefix):
        return error
    return replace(error, field=prefix + as_written(error.field.removeprefix(prefix), raw))


def _join(where: str, field: str) -> str:
    return f"{where}.{field}" if where else field


def warnings_for(checked: FeasibleJob) -> list[str]:
    """Return warnings: what is allowed, but perhaps not meant."""
    warnings = []
    if checked.spec.time_limit_seconds is None:
        hours = checked.virtual_cluster.default_time_limit_seconds / 3600
        warnings.append(
            f"There is no time_limit, so backfill assumes {hours:g} hours; a shorter limit allows"
            " backfilling."
        )
    if not checked.spec.guaranteed and checked.spec.grace_seconds == 0:
        warnings.append(
            "An opportunistic job can be stopped at any time, and checkpoint.grace_seconds of 0 leaves it no"
            " time to write a checkpoint."
        )
    # A job with an image is in a container wherever it runs.
    if not checked.spec.image and (unisolated := unisolated_warning(checked.spec.gpu_models)):
        warnings.append(unisolated)
    return warnings


def jobs_before(queue: Queue, more: int, *, most: int) -> int | None:
    """Return None where this many more jobs may be submitted, and count them; else how many there are.

    `most`: how many there may be. Jobs that other processes accepted since the last count are missed: the
    bound prevents endless queues, and one job more does no harm. Only a fresh count refuses a job.
    """
    now = time.monotonic()
    count, counted_at = _counted_jobs.get(queue, (most, now))
    if count + more > most or now - counted_at > COUNT_KEPT_SECONDS:
        count, counted_at = _count(queue), now
    if count + more > most:
        return count
    _counted_jobs[queue] = count + more, counted_at
    return None


def _count(queue: Queue) -> int:
    tenant_id, user_id = queue
    jobs = Job.objects.filter(tenant_id=tenant_id)
    if user_id is None:
        return jobs.exclude(state__in=JOB_FINAL).count()
    # The platform submits input workers, as many as their job says.
    own = jobs.filter(submitted_by=user_id, serves=None)
    return own.filter(state=JobState.QUEUED).count()
