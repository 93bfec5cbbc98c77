"""The node's GPUs: real ones by their driver, simulated ones by their configuration."""
