"""Lets a step last as long as it would for a heavier model, by the GPU it is (or pretends to be) on."""

# Steps per second of one model (Transformer, batch size 64) alone on one GPU of each kind, as published with
# Gavel (Narayanan et al., OSDI 2020): scheduler/simulation_throughputs.json in stanford-futuredata/gavel at
# commit c4fa4009. Only their ratios are used, to pace a demonstration on GPUs that are simulated.
STEPS_PER_SECOND = {"V100": 8.618, "P100": 5.092, "K80": 1.752}
REFERENCE_GPU = "V100"


def paced_step_seconds(step_seconds: float, gpu_model: str) -> float:
    """How long a step lasts on this GPU model; one that Gavel did not measure counts as the reference."""
    speed = STEPS_PER_SECOND.get(gpu_model.upper(), STEPS_PER_SECOND[REFERENCE_GPU])
    return step_seconds * STEPS_PER_SECOND[REFERENCE_GPU] / speed
