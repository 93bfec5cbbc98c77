"""How GPUs are divided by cells now: the specification in force, and who uses what of it."""
