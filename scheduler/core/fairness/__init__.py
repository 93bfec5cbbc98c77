"""Whether sharing costs a tenant anything: what it is entitled to and received, and what it would have alone.

Pure: from the facts of a round to one `Division` for each virtual cluster, from sums over time to violations.
Words and figures: docs/fairness.md.
"""
