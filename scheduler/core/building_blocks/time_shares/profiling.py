"""Profiling: let one job of a kind run for a lease on a model on which nobody measured it yet."""

from __future__ import annotations

from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.time_shares.run_options import RunOptions
from scheduler.core.building_blocks.time_shares.time_slices import Turns, gpus_of
from scheduler.core.model.snapshot import Job, JobId


def profile(view: View, run_options: RunOptions, turns: Turns, part: float) -> set[JobId]:
    """Give turns to jobs whose speed on a model is an estimate, on at most that part of the view's GPUs.

    The earliest job of a kind and size goes, and only if no other one runs on that model already: what it
    learns counts for all of them. Returns the jobs that were sent.
    """
    budget = part * sum(run_options.gpus.values())
    measured = {
        (_kind(view.jobs[job]), running.gpu_model)
        for job, running in view.running.items()
        if job in view.jobs
    }
    sent: set[JobId] = set()
    for job in turns.line:
        if not job.estimated:
            continue
        run_option = run_options.of(job)
        for model in job.estimated if run_option else ():
            if (_kind(job), model) in measured or run_options.speed(job, model) == 0:
                continue
            gpus = gpus_of((job.id,), view.jobs, run_options)
            if gpus <= budget and turns.give((job.id,), model):
                budget -= gpus
                measured.add((_kind(job), model))
                sent.add(job.id)
                break
    return sent


def _kind(job: Job) -> object:
    return (job.tenant, job.application, job.gpus) if job.application else job.id
