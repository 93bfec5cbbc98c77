"""What the node and its jobs use: measured, kept until the server has it, and exposed to Prometheus."""
