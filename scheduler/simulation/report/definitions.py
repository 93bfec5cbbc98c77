"""The definitions of the measures on the page; docs/simulator-report.md has the same."""

DEFINITIONS: tuple[tuple[str, str], ...] = (
    (
        "Job completion time (JCT)",
        "From submission to end, over the jobs that ran and ended, whatever their final status. Jobs"
        " that had not ended are counted, and left out of the distribution.",
    ),
    (
        "Queueing delay",
        "From submission to the first start, over the jobs that started. Waiting after a preemption"
        " is part of the JCT, not of this.",
    ),
    (
        "Percentiles",
        "Linear interpolation between the two nearest ranks (type 7 of Hyndman and Fan).",
    ),
    (
        "Against private clusters",
        "Only with --private: each virtual cluster's guaranteed jobs are simulated once more, alone on"
        " hardware of its own (its cells; or, of models divided by counts, whole nodes). A job counts as"
        " longer here when its queueing delay is longer than there by more than one round. Hard affinity: a"
        " replica of several GPUs, or a required topology level.",
    ),
    (
        "Slowdown",
        "JCT / run time alone. The run time alone is that of the whole gang, undisturbed and"
        " consolidated, on the fastest GPU model the job accepts. Jobs without"
        " work have no slowdown and no rho.",
    ),
    (
        "Finish-time fairness ρ",
        "JCT / (run time alone · max(1, s · n / C)): s is the job's gang size, C the GPUs of the"
        " cluster, n the mean number of jobs in the system over the job's life. It is Themis's ratio"
        " with Gavel's isolated share: alone on C / n GPUs a gang of s takes s · n / C times as long."
        " ρ ≤ 1 means that sharing did the job no harm. All GPU models count alike; weights and"
        " guarantees of virtual clusters are left out.",
    ),
    (
        "Jain index of GPU-time",
        "(Σx)² / (n · Σx²) over the GPU-time x of each of the n tenants. 1 means equal amounts. When"
        " all jobs end it mostly says how unequal the demand was.",
    ),
    (
        "Entitled, alone",
        "A tenant's guaranteed jobs in the system are its demand. It is entitled to its part of its virtual"
        " cluster by its weight among those that have any demand then, and to what others cannot use; all"
        " models count alike there. What it had is worth as many GPU-hours of its jobs' best model as these"
        " are fast; alone it would have its part of every model among all members, as far as its demand"
        " goes, and is better off alone if that is worth more. Rho of a tenant is that of its apps: one"
        " job, or all jobs that name the same search. The Jain index of parts received is over received /"
        " entitled.",
    ),
    (
        "Utilisation, fragmentation",
        "Utilisation is GPU-time held / GPU-time usable. Fragmentation is the part of the idle GPUs"
        " that the largest replica that waits (8 GPUs when none does) cannot use, its mean over time;"
        " what the cluster lost to it is weighted by the number of idle GPUs too.",
    ),
    (
        "GPU-hours",
        "Held, from when GPUs are a job's own until they are free again; GPUs that jobs share count"
        " for each. Overhead is starting, restoring and writing checkpoints; lost is work that had to"
        " be done again or was never used.",
    ),
    (
        "Makespan",
        "From the first submission to the last end; none while a job has not ended.",
    ),
)
