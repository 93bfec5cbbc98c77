"""A site in one file: who and what there is, as `allot export` writes it and `allot apply` reads it."""
