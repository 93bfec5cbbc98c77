"""Alibaba cluster-trace-gpu-v2023: openb pod lists, as used by FGD (ATC'23).

Columns: name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec, qos, pod_phase, creation_time,
deletion_time, scheduled_time. A pod that asks for part of a GPU (gpu_milli below 1000) has that part; a pod
without GPUs has its CPUs and memory, on any node. Pods that were never scheduled are left out. A pod runs
from scheduled_time to deletion_time; pods still running when the list was made count as passed at that time.
"""

from __future__ import annotations

from dataclasses import replace

from scheduler.core.model.gpu_parts import WHOLE_GPU
from scheduler.core.sim.workload import Status
from scheduler.simulation.traces.fields import BadField, count, one_of, seconds
from scheduler.simulation.traces.parts import part_of_one
from scheduler.simulation.traces.source import Source, TracedJob

_MIB = 2**20
_COLUMNS = (
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)
_PHASES: dict[str, Status] = {"Running": "passed", "Succeeded": "passed", "Failed": "failed"}


def read(source: Source) -> None:
    """Read the pods that ran."""
    opportunistic = source.options.best_effort == "opportunistic"

    def job(row: tuple[str, ...]) -> TracedJob | None:
        cpu_milli, memory_mib, num_gpu, milli, qos, phase, created, deleted, scheduled, models, name = row
        gpus = count("num_gpu", num_gpu, least=0)
        cpus = count("cpu_milli", cpu_milli, "thousandths of a CPU", least=0) / 1000
        memory = count("memory_mib", memory_mib, "MiB", least=0) * _MIB
        if not gpus and not cpus and not memory:
            raise BadField("num_gpu", "is 0, and so are its CPUs and memory")
        part = count("gpu_milli", milli, "thousandths of a GPU") if gpus else WHOLE_GPU
        if part > WHOLE_GPU:
            raise BadField("gpu_milli", f"{part} is more than a whole GPU, which is {WHOLE_GPU}")
        if not scheduled:
            source.leave_out("pods that were never scheduled were left out.", name)
            return None
        created_at = seconds("creation_time", created)
        started_at = seconds("scheduled_time", scheduled)
        ended_at = seconds("deletion_time", deleted)
        if started_at < created_at:
            raise BadField("scheduled_time", "is before the creation")
        if ended_at < started_at:
            raise BadField("deletion_time", "is before the pod was scheduled")
        if part < WHOLE_GPU and gpus > 1:
            raise BadField("gpu_milli", f"{part} is not {WHOLE_GPU}; a pod with several GPUs has whole ones")
        return TracedJob(
            created_at,
            gpus,
            ended_at - started_at,
            tasks=(replace(part_of_one(part), gpus=gpus, cpus=cpus, memory_bytes=memory),),
            gpu_models=tuple(filter(None, models.split("|"))) if gpus else (),
            guaranteed=not (opportunistic and qos == "BE"),
            status=_PHASES[one_of("pod_phase", phase, _PHASES)],
        )

    source.read(source.rows(_COLUMNS, ("gpu_spec", "name")), job)
