"""AlloX: `policy` decides, by a matching of jobs to GPU models and places in their queues."""
