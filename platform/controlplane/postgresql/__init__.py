"""Django's database engine for PostgreSQL, with a cheaper look at whether a pooled connection still lives."""
