"""What the node and its jobs use: measured, kept until the server has it, and told to Prometheus."""
