"""The parts that policies and placers share: their interface, orders, shares, run times, growth."""
