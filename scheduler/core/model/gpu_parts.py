"""Parts of GPUs, and which jobs may share a GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

#: Whether the jobs of a virtual cluster share GPUs. NEVER: each GPU has one job, and jobs that ask for parts
#: do not start. MEASURED: parts are shared, and policies let jobs share that did well when measured together.
#: FREE: policies may also let jobs share that were not measured together.
SHARE_NEVER = "never"
SHARE_MEASURED = "measured"
SHARE_FREE = "free"

#: The compute of one GPU, in the unit of `GpuPart`.
WHOLE_GPU = 1_000
#: How the models end whose GPUs are instances of divided devices (MIG): a profile as the driver writes it, of
#: a part of an instance too, or "mig" where it does not say.
_PROFILE = re.compile(r"-(?:(?:\d+c\.)?\d+g\.\d+gb|mig)$")


@cache
def is_instance(gpu_model: str) -> bool:
    """Whether the GPUs of a model are instances of divided devices (MIG), which jobs have whole."""
    return _PROFILE.search(gpu_model) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPart:
    """A part of one GPU (KubeShare, HPDC 2020): compute in thousandths, memory in bytes."""

    #: The compute that it always gets when it needs it; requests on a GPU sum to at most `WHOLE_GPU`.
    request: int
    #: The compute that it never exceeds, even if the rest is idle; limits may sum to more.
    limit: int
    #: Never overcommitted. 0: in proportion to the request.
    memory_bytes: int = 0

    def memory_on(self, device_bytes: int) -> int:
        """Return how much it has of the memory of a device of `device_bytes` bytes (0: unknown)."""
        return self.memory_bytes or device_bytes * self.request // WHOLE_GPU


def fit_together(parts: Sequence[GpuPart], device_bytes: int) -> bool:
    """Whether all these parts fit on one GPU; `device_bytes` 0: its memory is unknown and not counted."""
    if sum([part.request for part in parts]) > WHOLE_GPU:
        return False
    return not device_bytes or sum([part.memory_on(device_bytes) for part in parts]) <= device_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingLabels:
    """Which jobs may share GPUs with a job that uses parts of GPUs (KubeShare, HPDC 2020); empty: any."""

    #: Only with jobs of the same affinity.
    affinity: str = ""
    #: Not with jobs of the same anti-affinity.
    anti_affinity: str = ""
    #: A GPU's jobs all have the same exclusion, or all have none.
    exclusion: str = ""
