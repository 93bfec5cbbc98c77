"""How GPUs are divided by cells now: the specification in force, and which jobs use what of it."""
