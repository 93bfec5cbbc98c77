"""How fast jobs run, by GPU model, size of the gang, nearness of its GPUs, and partners on them."""
