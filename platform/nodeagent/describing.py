"""What the agent writes into its log of the instructions that it carries out."""

from __future__ import annotations

from nodeagent.machine import (
    ChangeLimits,
    Forget,
    Instruction,
    Kill,
    NameTrainers,
    Prepare,
    Release,
    Start,
    Stop,
    TakeTurns,
)


def describe(instruction: Instruction) -> str:
    """Return one line for the agent's log."""
    match instruction:
        case Prepare(desired=desired) | Start(desired=desired):
            ranks = ", ".join(str(replica.rank) for replica in desired.replicas)
            verb = type(instruction).__name__
            return f"{verb} attempt {desired.attempt} of job {desired.job} ({desired.name}), rank {ranks}"
        case Stop():
            return f"Stop attempt {instruction.attempt} within {instruction.grace_seconds:g} s"
        case TakeTurns(attempt=attempt, turn=turn):
            if turn is None:
                return f"Let attempt {attempt} run all the time"
            place = f"{turn.index + 1} of {turn.count}"
            return f"Let attempt {attempt} run in turn {place}, {turn.seconds:g} s each"
        case ChangeLimits(desired=desired):
            given = ", ".join(
                f"rank {each.rank}: {each.cpus:g} CPUs, {each.memory_bytes / 2**30:.4g} GiB"
                for each in desired.replicas
            )
            return f"Change limits of attempt {desired.attempt} to {given}"
        case NameTrainers(attempt=attempt, trainers=trainers):
            return f"Let attempt {attempt} make batches for {trainers}"
        case Kill() | Release() | Forget():
            return f"{type(instruction).__name__} attempt {instruction.attempt}"
        case _:
            return type(instruction).__name__
