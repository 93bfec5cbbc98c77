"""What there is and what fits: the cluster as sets, what gangs ask for and hold, and places for them."""
