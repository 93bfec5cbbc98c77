"""What nodes and jobs use, over time and now."""
