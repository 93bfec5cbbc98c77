"""Secrets that a node gets when an attempt is about to start there."""

from django.db import transaction

from nodeagent.messages import HandedSecret, MessageError, SecretsAnswer, SecretsRequest
from scheduler.core.model.lifecycle import AttemptState, PartState
from scheduler.jobs.attempts.services.input_pools import SECRET_VARIABLE, input_secret
from scheduler.jobs.attempts.services.steps import attempt_event
from scheduler.models.attempts import AttemptPart
from scheduler.models.nodes import Node
from scheduler.wiring.clock import database_now
from tenants.secrets import secret_values


@transaction.atomic
def secrets_hand_out(node: Node, request: SecretsRequest) -> SecretsAnswer:
    """Return the secrets of an attempt that is to start on the node, or why it cannot have them.

    Every reading of them is an event of the attempt, and so is every refusal. Raise MessageError for an
    attempt that does not need them on this node, or no longer does.
    """
    part = (
        AttemptPart.objects.filter(attempt_id=request.attempt, node=node)
        .filter(attempt__state=AttemptState.STARTING, attempt__go=True)
        .exclude(state__in=[PartState.RUNNING, PartState.EXITED])
        .select_related("attempt__job__tenant", "attempt__job__submitted_by", "attempt__job__serves__job")
        .first()
    )
    if part is None:
        raise MessageError("attempt: does not start on this node now")
    attempt, job = part.attempt, part.attempt.job
    uses, of_inputs = job.specification.secrets, input_secret(job, attempt.id)
    values, problem = secret_values(
        [(use.scope, use.name) for use in uses], user=job.submitted_by, tenant=job.tenant
    )
    attempt_event(
        attempt,
        "attempt.secrets_refused" if problem else "attempt.secrets_read",
        at=database_now(),
        actor=f"node {node.name}",
        why=problem
        or ", ".join(
            [f"{use.name} ({use.scope})" for use in uses] + ["that of input workers"] * bool(of_inputs)
        ),
        data={"node": node.name, "secrets": [{"name": use.name, "scope": use.scope} for use in uses]},
    ).save()
    if problem:
        return SecretsAnswer(problem=f"It was not started, because {problem}.")
    handed = [HandedSecret(value=values[use.scope, use.name], env=use.env, file=use.file) for use in uses]
    if of_inputs:
        handed.append(HandedSecret(value=of_inputs, env=SECRET_VARIABLE))
    return SecretsAnswer(secrets=tuple(handed))
