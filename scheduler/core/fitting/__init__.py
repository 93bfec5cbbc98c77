"""The cluster as sets, what gangs ask for and hold, and the search for their placements."""
