"""Open GPUs, of which jobs have parts: what is left of each, and which jobs may join.

KubeShare (T.-A. Yeh et al., HPDC 2020), section 4: requests on a GPU sum to at most one, memory to at most
the device's, and labels determine which jobs share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from scheduler.core.model.gpu_parts import WHOLE_GPU, GpuPart, SharingLabels

_NO_LABELS = SharingLabels()


class Share(NamedTuple):
    """What a replica has of one GPU of a node."""

    #: The set of just this GPU.
    gpu: int
    #: In thousandths, and in bytes of the device's memory.
    request: int
    memory: int
    labels: SharingLabels | None = None


#: The shares of all jobs on one GPU.
Card = tuple[Share, ...]


def share_of(part: GpuPart, labels: SharingLabels | None, gpu: int, device_bytes: int) -> Share:
    """Return the share that a part takes of this GPU, whose device has `device_bytes` bytes (0: unknown)."""
    return Share(gpu, part.request, part.memory_on(device_bytes), labels)


def has_room(share: Share, card: Card, device_bytes: int) -> bool:
    """Whether the GPU has compute and memory left for the share; memory of unknown size is not counted."""
    used = sum([other.request for other in card])
    if used + share.request > WHOLE_GPU:
        return False
    return not device_bytes or sum([other.memory for other in card]) + share.memory <= device_bytes


def rooms_of(cards: Mapping[int, Card]) -> dict[int, int]:
    """Return what is left of each GPU, in thousandths."""
    return {gpu: WHOLE_GPU - sum([share[1] for share in card]) for gpu, card in cards.items()}


def may_join(labels: SharingLabels | None, card: Card) -> bool:
    """Whether labels let a job share the GPU with the jobs there."""
    if labels is None:
        for share in card:
            if share[3] is not None:
                break
        else:
            return True
    return objection(labels, card) == ""


def objection(labels: SharingLabels | None, card: Card) -> str:
    """Return the label that keeps a job off a GPU with other jobs, as "exclusion a"; empty: none does."""
    own = labels or _NO_LABELS
    there = [other.labels or _NO_LABELS for other in card]
    if not there:
        return ""
    foreign = next((other.exclusion for other in there if other.exclusion != own.exclusion), None)
    if foreign is not None:
        return f"exclusion {foreign or own.exclusion}"
    if own.anti_affinity and any([other.anti_affinity == own.anti_affinity for other in there]):
        return f"anti_affinity {own.anti_affinity}"
    if own.affinity and all([other.affinity != own.affinity for other in there]):
        return f"affinity {own.affinity}"
    return ""


def carries(card: Iterable[Share], affinity: str) -> bool:
    """Whether a job with this affinity is on the GPU."""
    return any([other.labels is not None and other.labels.affinity == affinity for other in card])


def gpus_in(shares: Iterable[Share]) -> int:
    """Return the set of the GPUs of these shares."""
    found = 0
    for share in shares:
        found |= share.gpu
    return found


def without(card: Card, share: Share) -> Card:
    """Return a card after one share was given back."""
    rest = list(card)
    if share in rest:
        rest.remove(share)
    return tuple(rest)
