"""Lets a step last as long as it would for a heavier model, by the GPU it is (or pretends to be) on.

GPUs that are simulated are all as fast as this machine. So the speed of a job that paces itself is emulated.
It says so in its log, and its specification has the label `emulated-speed`, by which the page says so too.
"""

# Steps per second of one model alone on one GPU of each kind, as published with Gavel (Narayanan et al., OSDI
# 2020): scheduler/simulation_throughputs.json in stanford-futuredata/gavel at commit c4fa4009, in its names
# "Transformer (batch size 64)", "A3C" and "Recommendation (batch size 2048)". Only the ratios within a line
# are used. What they gain on a V100 differs: they are 4.9, 2.1 and 0.7 times as fast as on a K80.
STEPS_PER_SECOND = {
    "transformer": {"V100": 8.618, "P100": 5.092, "K80": 1.752},
    "a3c": {"V100": 7.176, "P100": 5.681, "K80": 3.439},
    "recommendation": {"V100": 7.470, "P100": 16.597, "K80": 10.441},
}
REFERENCE_GPU = "V100"


def paced_step_seconds(step_seconds: float, gpu_model: str, *, like: str = "transformer") -> float:
    """How long a step lasts on this GPU model; one that Gavel did not measure counts as the reference."""
    speeds = STEPS_PER_SECOND[like]
    speed = speeds.get(gpu_model.upper(), speeds[REFERENCE_GPU])
    return step_seconds * speeds[REFERENCE_GPU] / speed


def label_of_pace(step_seconds: float, gpu_model: str, *, like: str) -> str:
    """One line for the log that says how long a step is made to last, and why."""
    paced = paced_step_seconds(step_seconds, gpu_model, like=like)
    return (
        f"emulated speed: a step is made to last {paced:.3g} s, as {like} would take on a {gpu_model} "
        f"if it took {step_seconds:g} s on a {REFERENCE_GPU} (ratios measured by Gavel's authors)"
    )
