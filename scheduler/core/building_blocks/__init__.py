"""What policies and placers are made of: their interface, orders, shares, run times, growth."""
