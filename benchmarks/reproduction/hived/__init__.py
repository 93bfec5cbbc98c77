"""The published core of HiveD (microsoft/hivedscheduler, MIT licence), built and called as it is.

None of its source is in the project. `driver.go` is ours: it calls the core's three methods as its own
scheduler does. `published` builds both in a temporary copy of a clone, `workload` makes the gangs, and
`rounds` puts them before our scheduler as jobs.
"""
