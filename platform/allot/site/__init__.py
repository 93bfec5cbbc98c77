"""A site in one file: its tenants, users and objects. `allot export` writes it and `allot apply` reads it."""
