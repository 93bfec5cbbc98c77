"""Helios's `cluster_log.csv` (SenseTime, SC'21), and Lucid's `cluster_full_log.csv` (ASPLOS'23).

Helios: job_id, user, vc, gpu_num, cpu_num, node_num, state, submit_time, start_time, end_time, duration,
queue. Lucid adds jobname, dataset, model, batchsize, amp and the profile's columns, and may lack start_time;
its kinds of job have the names of the table of colocated pairs. Rows without GPUs are left out, as the
authors do. TIMEOUT and NODE_FAIL count as failed, as in the paper. `node_num` is what the job got, not what
it asked for, and is not used.
"""

from __future__ import annotations

from scheduler.simulation.throughputs import lucid_application
from scheduler.simulation.traces.fields import ABSENT, BadField, count, instant, named, seconds, status
from scheduler.simulation.traces.source import Source, TracedJob

_REQUIRED = ("submit_time", "user", "vc", "gpu_num", "state", "duration")
_OPTIONAL = ("start_time", "model", "dataset", "batchsize", "amp", "job_id")


def read(source: Source) -> None:
    """Read the jobs that use GPUs."""
    by_user = source.options.tenants == "user"

    def job(row: tuple[str, ...]) -> TracedJob | None:
        submitted, user, vc, gpu_num, state, duration, start, model, dataset, batch_size, amp, name = row
        gpus = count("gpu_num", gpu_num, least=0)
        if not gpus:
            source.leave_out("rows without GPUs were left out.", name)
            return None
        submitted_at = instant("submit_time", submitted)
        if start not in ABSENT and instant("start_time", start) < submitted_at:
            raise BadField("start_time", "is before the submission")
        return TracedJob(
            submitted_at,
            gpus,
            seconds("duration", duration),
            named("user", user) if by_user else named("vc", vc),
            named("vc", vc),
            application=lucid_application(model, dataset, batch_size, amp) if model else "",
            status=status("state", state),
            user=user if user not in ABSENT else "",
        )

    source.read(source.rows(_REQUIRED, _OPTIONAL), job)
