"""What policies and placers are made of: orders, shares, run times, turns."""
